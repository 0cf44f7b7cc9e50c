//! Whole pages, as publishers build them: what is read must be the article and nothing else.

use proptest::prelude::*;

use super::*;
use crate::date;

const FIRST: &str = "The harbour of Westport was closed on Tuesday after a storm tore two cargo \
                     ships from their moorings, the port authority said.";
const SECOND: &str = "Nobody was hurt, but a crane worth several million euros fell into the \
                      basin, and divers will need a week to clear it.";
const THIRD: &str = "“We have not seen winds like this since 1987,” said Maria Lund, who has run \
                     the port for twelve years.";
const FOURTH: &str = "Ferries to the islands are expected to sail again on Friday, weather \
                      permitting.";

fn text() -> String {
    [FIRST, SECOND, THIRD, FOURTH].join("\n\n")
}

/// The article says all of this and none of that. A model that knows the web is not exact on pages as
/// small as these, so that nothing more is asked for.
fn assert_holds(article: &Extracted, wanted: &[&str], unwanted: &[&str]) {
    for part in wanted {
        assert!(article.text.contains(part), "lost `{part}` in:\n{}", article.text);
    }
    for part in unwanted {
        assert!(!article.text.contains(part), "kept `{part}` in:\n{}", article.text);
    }
}

const BODY: [&str; 4] = [FIRST, SECOND, THIRD, FOURTH];

fn read(html: &str) -> Extracted {
    extract(html, "https://www.example.com/news/harbour", &Evidence::default()).unwrap()
}

fn paragraphs() -> String {
    [FIRST, SECOND, THIRD, FOURTH].map(|text| format!("<p>{text}</p>\n")).concat()
}

const NAVIGATION: &str = "<nav class=site-nav><ul><li><a href=/>Home</a><li><a href=/p>Politics\
    </a><li><a href=/s>Sport</a></ul></nav>";
const CONSENT: &str = "<div id=cookie-consent class=banner><p>We and our 843 partners store and \
    access information on your device, such as unique identifiers in cookies. You may accept or \
    manage your choices at any time.</p><button>Accept</button></div>";
const RELATED: &str = "<section class=related-stories><h2>More from Westport</h2><ul><li><a \
    href=/a>Mayor promises a new sea wall by the end of the decade</a><li><a href=/b>How the \
    fishing fleet survived the great storm</a></ul></section>";
const COMMENTS: &str = "<section id=comments><h3>3 comments</h3><article class=comment-body><p>I \
    was there when the crane fell, and I can tell you that it was louder than thunder, and that \
    everybody ran.</p></article><article class=comment-body><p>They should have built the wall \
    ten years ago, when it was still affordable for a town of this size.</p></article></section>";
const FOOTER: &str = "<footer><p>© 2026 Example Media. All rights reserved. Reproduction of any \
    content without written permission of the publisher is prohibited.</p></footer>";

#[test]
fn the_title_is_no_part_of_the_text_wherever_it_stands() {
    let title = "Storm shuts the harbour of Westport for a week";
    let inside = format!("<div class=article-body><h2>{title}</h2>{}</div>", paragraphs());
    let article = read(&format!("<title>{title}</title><body>{NAVIGATION}{inside}{FOOTER}"));
    assert_eq!(article.title, title);
    assert_holds(&article, &BODY, &[title, "©"]);
}

#[test]
fn a_byline_in_running_text_may_name_several() {
    let byline = "Published: 3 May 2026 | By Jane Doe, Max Roe and Ann Other";
    let article = read(&format!(
        "<title>A storm</title><body><h1>A storm</h1><div>{byline}</div><div>{}</div>",
        paragraphs()
    ));
    assert_eq!(article.authors, ["Jane Doe", "Max Roe", "Ann Other"]);
    assert_eq!(article.published.map(|at| at.day()).as_deref(), Some("2026-05-03"));
}

#[test]
fn a_news_page_with_everything_around_it() {
    let article = read(&format!(
        r#"<!doctype html><html lang="en-GB"><head>
        <title>Storm shuts Westport harbour | Example News</title>
        <link rel="canonical" href="https://www.example.com/news/harbour">
        <meta property="og:title" content="Storm shuts Westport harbour">
        <meta property="og:site_name" content="Example News">
        <meta property="og:image" content="/img/harbour.jpg">
        <meta property="article:tag" content="Weather">
        <script type="application/ld+json">{{"@context":"https://schema.org",
          "@type":"NewsArticle","headline":"Storm shuts Westport harbour",
          "datePublished":"2026-11-15T08:00:00+01:00","dateModified":"2026-11-15T09:30:00+01:00",
          "author":[{{"@type":"Person","name":"Jane Doe"}},{{"@type":"Person","name":"Max Roe"}}],
          "articleSection":"Local"}}</script></head>
        <body class="has-sidebar">{CONSENT}<header><a href="/">Example News</a>{NAVIGATION}</header>
        <main><article><header><h1>Storm shuts Westport harbour</h1>
        <div class="byline">By <a rel="author" href="/jane">Jane Doe</a> and Max Roe</div>
        <time datetime="2026-11-15T08:00:00+01:00">15 November 2026</time>
        <div class="share-bar"><a href="/f">Facebook</a> <a href="/m">Mail this story</a></div>
        </header><figure><img src="/a.jpg"><figcaption>The fallen crane in the basin of the harbour
        of Westport on Tuesday. Photo: Ann Other</figcaption></figure>
        <div class="article-body"><p>{FIRST}</p><div class="ad-slot"><span>Advertisement</span></div>
        <p>{SECOND}</p><aside><h3>Newsletter</h3><p>All the news of the coast in your inbox, every
        morning at six, free of charge and easy to leave.</p></aside>
        <p><strong>READ MORE:</strong> <a href="/c">Ten storms that shaped the coast</a></p>
        <p>{THIRD}</p><p>{FOURTH}</p></div>
        <div class="tags">Tags: <a href="/t">Weather</a></div></article>{RELATED}{COMMENTS}</main>
        {FOOTER}</body></html>"#
    ));
    assert_holds(
        &article,
        &BODY,
        &["843 partners", "Facebook", "Ten storms", "Tags", "sea wall", "louder", "Politics", "©"],
    );
    assert_eq!(article.title, "Storm shuts Westport harbour");
    assert_eq!(article.canonical_url.as_deref(), Some("https://www.example.com/news/harbour"));
    assert_eq!(article.authors, ["Jane Doe", "Max Roe"]);
    assert_eq!(article.published, date::parse("2026-11-15T07:00:00Z"));
    assert_eq!(article.updated, date::parse("2026-11-15T08:30:00Z"));
    assert_eq!(article.language.as_deref(), Some("en"));
    assert_eq!(article.site_name.as_deref(), Some("Example News"));
    assert_eq!(article.section.as_deref(), Some("Local"));
    assert_eq!(article.tags, ["Weather"]);
    assert_eq!(article.lead_image.as_deref(), Some("https://www.example.com/img/harbour.jpg"));
    assert_eq!(article.abstract_.as_deref(), Some(FIRST));
    assert_eq!(article.word_count, u32::try_from(words(&article.text).count()).unwrap());
    assert_eq!(article.simhash, simhash(&article.text));
    assert_eq!(article.method, "model");
    assert!(article.confidence > 0.5, "{}", article.confidence);
}

#[test]
fn a_blog_with_comments_longer_than_the_post() {
    let comments =
        COMMENTS.replace("</section>", &paragraphs().replace("harbour", "pond").repeat(3));
    let article = read(&format!(
        "<html><head><title>Storm at the harbour – A blog</title></head><body>{NAVIGATION}<div \
         id=content><div class='post type-post tag-storm'><h2 class=entry-title>Storm at the \
         harbour</h2><p class=post-meta>Posted on 3 May 2026 by Jane</p><div class=entry-content>\
         {}<h3>What comes next</h3><ul><li>Divers clear the basin within a week.<li>A new crane is \
         ordered from abroad.</ul><blockquote><p>{THIRD}</p></blockquote><div class=sharedaddy><h3>\
         Share this:</h3><ul><li><a href=/x>Tweet</a></ul></div></div></div><div class=comments>\
         {comments}</section></div></div><div class=sidebar><div class=widget><p>About me: I write \
         about ports and storms, and I have done so for more than twenty years now.</div></div>\
         {FOOTER}",
        format_args!("<p>{FIRST}</p><p>{SECOND}</p><p>{FOURTH}</p>")
    ));
    let items = ["Divers clear the basin within a week.", "A new crane is ordered from abroad."];
    assert_holds(&article, &[FIRST, SECOND, FOURTH, items[0], items[1]], &["Tweet", "About me"]);
    assert_eq!(article.title, "Storm at the harbour");
}

#[test]
fn div_soup_without_a_single_name() {
    let teasers = "<div><a href=/1>Council votes on the budget for next year</a></div>".repeat(8);
    let article = read(&format!(
        "<html><head><title>Storm shuts harbour</title></head><body><div><div><a href=/>Home</a> \
         <a href=/n>News</a> <a href=/s>Sport</a></div></div><div><div><div><h1>Storm shuts \
         harbour</h1><div>By Jane Doe</div><div>15 November 2026</div><div>{FIRST}<br><br>{SECOND}\
         <br/>\n<br/>{THIRD}</div><div>{FOURTH}</div></div><div>{teasers}</div></div></div><div>\
         Imprint · Privacy · Contact</div></body></html>"
    ));
    assert_holds(&article, &[FIRST, SECOND, THIRD], &["Council", "Sport", "Imprint"]);
    assert_eq!(article.title, "Storm shuts harbour");
}

#[test]
fn a_body_in_several_parts_of_the_same_make() {
    let parts = [FIRST, SECOND, THIRD, FOURTH].map(|text| {
        format!("<div class=article-text><p>{text}</p></div><div class=promo>{RELATED}</div>")
    });
    let article = read(&format!(
        "<body>{NAVIGATION}<div class=page><h1>Storm</h1>{}</div>{FOOTER}",
        parts.concat()
    ));
    assert_holds(&article, &BODY, &[]);
}

#[test]
fn a_page_wrapped_in_a_form_and_laid_out_by_tables() {
    let article = read(&format!(
        "<body><form id=aspnetForm><table><tr><td><div><a href=/>Start</a></div><td><h1>Storm</h1>{}\
         <table><tr><th>Day<th>Wind<tr><td>Monday<td>80 km/h<tr><td>Tuesday<td>140 km/h</table>\
         <p>{FOURTH}</p></table></form>{FOOTER}",
        paragraphs()
    ));
    assert_holds(&article, &BODY, &["Start", "©"]);
    assert!(article.text.contains("Monday | 80 km/h"), "{}", article.text);
}

#[test]
fn microdata_marks_the_body() {
    let article = read(&format!(
        "<body>{NAVIGATION}<div itemscope><h1 itemprop=headline>Storm</h1><span itemprop=author>\
         <span itemprop=name>Jane Doe</span></span><meta itemprop=datePublished \
         content=2026-11-15><div itemprop=articleBody>{}</div></div><div><p>Our company was founded \
         in 1890 and has printed newspapers ever since, in this town and in five others.</p></div>",
        paragraphs()
    ));
    assert_holds(&article, &BODY, &[]);
    assert_eq!(article.method, "model");
    assert_eq!(article.authors, ["Jane Doe"]);
    assert_eq!(article.published, date::parse("2026-11-15"));
}

#[test]
fn a_page_built_by_scripts_declares_its_body() {
    let more: String = (0..40).map(|n| format!("Ship number {n} lost its anchor. ")).collect();
    let body = format!("{}\\n\\n{more}", text().replace('\n', "\\n"));
    let article = read(&format!(
        "<head><script type=application/ld+json>{{\"@type\":\"NewsArticle\",\"headline\":\"Storm\",\
         \"articleBody\":\"{body}\"}}</script></head><body><div id=app><p>{FIRST}</p></div>"
    ));
    assert_eq!(article.method, "json_ld");
    assert_holds(&article, &BODY, &[]);
}

#[test]
fn the_feed_fills_what_the_page_does_not_say() {
    let authors = ["Feed Author".to_owned()];
    let evidence = Evidence {
        title: Some("From the feed"),
        summary: Some(FIRST),
        published: date::parse("2026-11-15T08:00:00Z"),
        authors: &authors,
        ..Evidence::default()
    };
    let html = format!("<body><div>{}</div>", paragraphs());
    let article = extract(&html, "https://example.com/a", &evidence).unwrap();
    assert_eq!(article.title, "From the feed");
    assert_eq!(article.authors, authors);
    assert_eq!(article.published, evidence.published);
    assert_holds(&article, &BODY, &[]);
}

#[test]
fn a_dead_end_says_why() {
    let code = |html: &str| {
        extract(html, "https://example.com/", &Evidence::default()).unwrap_err().code()
    };
    assert_eq!(code(""), "bad_html");
    assert_eq!(code("<p>short</p>"), "bad_html");
    assert_eq!(code(&format!("<body>{}{}", NAVIGATION.repeat(5), "<p>Hi.</p>")), "empty");
    assert_eq!(code(&" ".repeat(MAX_BYTES + 1)), "too_large");
    assert_eq!(code(&"<div>".repeat(100_000)), "too_large");
}

#[test]
fn depth_does_not_hide_the_text() {
    for (open, close) in [("<div>", "</div>"), ("<ul><li>", "</ul>"), ("<span>", "</span>")] {
        let html = format!("{}{}{}", open.repeat(700), paragraphs(), close.repeat(700));
        assert_holds(&read(&html), &[FIRST, SECOND], &[]);
    }
}

#[test]
fn an_article_is_written_as_json() {
    let article = read(&format!("<body><h1>Storm</h1>{}", paragraphs()));
    let json = serde_json::to_value(&article).unwrap();
    assert_eq!(json["abstract"], FIRST);
    assert_eq!(json["content_hash"].as_str().map(str::len), Some(64));
    assert_eq!(json["title"], "Storm");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_tag_soup_may_be_read(
        soup in prop::collection::vec(
            prop::sample::select(vec![
                "<div class=article-body>", "</div>", "<p>", "</p>", "<article>", "</article>",
                "<table>", "<tr>", "<td>", "</table>", "<a href=/x>", "</a>", "<br>", "<h1>",
                "<h2>", "</h2>", "<script>", "</script>", "<li>", "<ul>", "</ul>", "<!--", "-->",
                "<nav>", "</nav>", "<template>", "<svg>", "&amp;", "<b>", "</b>", "\u{a0}",
                "<script type=application/ld+json>{\"@type\":\"Article\"}</script>",
                "Some words of a sentence that is long enough. ", "Read more", "12 May 2026",
            ]),
            0..80,
        )
    ) {
        let html = format!("<body>{}{}", soup.concat(), " ".repeat(200));
        if let Ok(article) = extract(&html, "https://example.com/", &Evidence::default()) {
            prop_assert!(!article.text.contains("\n\n\n") && article.text.trim() == article.text);
            prop_assert!((0.0..=1.0).contains(&article.confidence));
            prop_assert!(!article.html.to_ascii_lowercase().contains("<script"));
            prop_assert!(article.text.len() <= html.len());
            let again = extract(&html, "https://example.com/", &Evidence::default());
            prop_assert_eq!(again.as_ref(), Ok(&article));
        }
    }
}

#[test]
fn a_licence_is_a_page_or_a_name_and_no_script() {
    let licence = |link: &str, ld: &str| {
        let ld = serde_json::json!({ "@type": "NewsArticle", "headline": "Storm", "license": ld });
        let head = format!(
            "<title>Storm</title><link rel=license href=\"{link}\">\
             <script type=application/ld+json>{ld}</script>"
        );
        let html = format!("<html><head>{head}</head><body><article>{}</article>", paragraphs());
        read(&html).rights.license
    };
    let page = "https://creativecommons.org/licenses/by/4.0/";
    for script in ["javascript:alert(1)", " JavaScript:x", "java&#9;script:x", "data:,x", "file:/x"]
    {
        assert_eq!(licence(script, ""), None, "{script}");
        assert_eq!(licence(script, page).as_deref(), Some(page), "{script}");
    }
    assert_eq!(licence(page, "javascript:x").as_deref(), Some(page));
    let own = Some("https://www.example.com/licence");
    assert_eq!(licence("/licence", page).as_deref(), own);
    let without_link = |ld: &str| {
        let ld = serde_json::json!({ "@type": "NewsArticle", "headline": "Storm", "license": ld });
        let head = format!("<title>Storm</title><script type=application/ld+json>{ld}</script>");
        let html = format!("<html><head>{head}</head><body><article>{}</article>", paragraphs());
        read(&html).rights.license
    };
    assert_eq!(without_link("javascript:alert(1)"), None);
    assert_eq!(without_link("/licence").as_deref(), own);
}
