//! Inputs that are made to cost time or memory: for each format, the patterns that make a careless parser
//! quadratic or worse, or let it copy a large value into everything that inherits or names it.
//!
//! The tests of `crates/formats` measure every one of them, and start the fuzzer's search from them.

/// A generator: the target it is for, what it attacks, and the input of about so many bytes.
pub(crate) type Adversary = (&'static str, &'static str, fn(usize) -> Vec<u8>);

/// Every generator.
pub(crate) const ADVERSARIES: &[Adversary] = &[
    // HTML: attributes.
    ("article", "html attributes merged", |size| {
        numbered(size, "", |n| format!("<html a{n}>"), "")
    }),
    ("article", "body attributes merged", |size| {
        numbered(size, "", |n| format!("<body b{n}>"), "")
    }),
    ("article", "body attributes merged in pairs", |size| {
        numbered(size, "<body>", |n| format!("<body data-long-name-{n} x{n}=1>"), "")
    }),
    ("article", "attributes of one tag", |size| numbered(size, "<p ", |n| format!("a{n} "), ">")),
    ("article", "attributes with quoted ends", |size| {
        numbered(size, "<p ", |n| format!("a{n}='>'"), ">")
    }),
    ("article", "attributes behind a reference", |size| {
        numbered(size, "x&amp<p ", |n| format!("a{n}=\"<>\""), ">")
    }),
    ("article", "attributes of an end tag", |size| {
        numbered(size, "</p ", |n| format!("a{n}/"), ">")
    }),
    ("article", "one attribute again and again", |size| repeat(size, "<p ", "a ", ">")),
    ("article", "tags of many attributes", |size| {
        let tag = format!("<p {}>", (0..1_900).map(|n| format!("a{n} ")).collect::<String>());
        repeat(size, "", &tag, "")
    }),
    ("article", "different names", |size| {
        numbered(size, "", |n| format!("<element-{n} attribute-{n}>"), "")
    }),
    // HTML: nesting and scopes.
    ("article", "deep elements", |size| repeat(size, "", "<div>", "")),
    ("article", "deep elements closed and opened", |size| {
        repeat(size, &"<div>".repeat(1_400), "<p>x</p>", "")
    }),
    ("article", "scopes without an end", |size| {
        repeat(size, &"<span>".repeat(1_400), "<li>x</b><dd>y</i>", "")
    }),
    ("article", "deep inline elements", |size| {
        repeat(size, &"<span>".repeat(1_400), "<p></p></x>", "")
    }),
    ("article", "headings", |size| repeat(size, &"<div>".repeat(1_000), "<h1>a</h2>", "")),
    ("article", "lists", |size| repeat(size, "", "<ul><li>x", "")),
    ("article", "list items in spans", |size| repeat(size, "<ul>", "<li><span>x", "")),
    ("article", "definitions", |size| repeat(size, "<dl>", "<dt>x<dd>y", "")),
    ("article", "buttons", |size| repeat(size, "", "<button><p>x", "")),
    ("article", "options", |size| repeat(size, "<select>", "<optgroup><option>x", "")),
    ("article", "selects", |size| repeat(size, "", "<select><div><option>x", "")),
    ("article", "forms", |size| repeat(size, "", "<form><input><div></form>", "")),
    ("article", "templates", |size| repeat(size, "", "<template>", "")),
    ("article", "templates with inputs", |size| {
        repeat(size, &format!("<form>{}", "<template>".repeat(1_400)), "<input></form><p>x", "")
    }),
    ("article", "framesets", |size| repeat(size, "<frameset>", "<frameset>a <frame>", "")),
    ("article", "markers", |size| repeat(size, "", "<object><b>", "")),
    ("article", "ruby", |size| repeat(size, "", "<ruby><rb>x<rt>y", "")),
    // HTML: formatting and the adoption agency.
    ("article", "formatting never closed", |size| {
        numbered(size, "", |n| format!("<font color={n}>"), "")
    }),
    ("article", "formatting copied to paragraphs", |size| {
        let fonts: String = (0..500).map(|n| format!("<font color={n}>")).collect();
        repeat(size, &fonts, "<p>x", "")
    }),
    ("article", "formatting with attributes copied", |size| {
        let fonts: String = (0..20).map(|n| format!("<b id={n} {}>", attributes(300))).collect();
        repeat(size, &fonts, "<p>x", "")
    }),
    ("article", "formatting with attributes compared", |size| {
        let attributes = attributes(40);
        numbered(size, "", |n| format!("<b {attributes} id={n}>"), "")
    }),
    ("article", "formatting compared and closed", |size| {
        let tags: String = (0..1_000).map(|n| format!("<b id={n}>")).collect();
        repeat(size, "", &format!("{tags}{}", "</b>".repeat(1_000)), "")
    }),
    ("article", "adoption", |size| repeat(size, "", "<b><p></b>x", "")),
    ("article", "adoption of eight", |size| {
        repeat(size, "", "<a><b><i><u><s><em><tt><div></a></b></i></u></s></em></tt>", "")
    }),
    ("article", "adoption in deep trees", |size| {
        repeat(size, &"<b><div>".repeat(700), "</b><b><div>", "")
    }),
    ("article", "links in links", |size| repeat(size, "", "<a href=x><div>y", "")),
    ("article", "links in tables", |size| repeat(size, "", "<a><table><a>", "")),
    ("article", "nobr", |size| repeat(size, "", "<nobr><div>", "")),
    ("article", "bold and paragraphs", |size| repeat(size, "", "<b><p>", "")),
    ("article", "formatting ended that is not open", |size| {
        repeat(size, &"<i>".repeat(1_400), "</b></font></em>", "")
    }),
    // HTML: tables, foreign content, raw text, references.
    ("article", "foster parents", |size| repeat(size, "<table>", "x<b>y</b><div>", "")),
    ("article", "foster parents apart", |size| repeat(size, "<table>", "x<p>y<tr>", "")),
    ("article", "tables in cells", |size| repeat(size, "", "<table><tr><td>", "")),
    ("article", "tables in tables", |size| repeat(size, "", "<table>", "")),
    ("article", "captions", |size| repeat(size, "<table>", "<caption><b>x<col>", "")),
    ("article", "cells", |size| repeat(size, "<table><tr>", "<td>x<b>", "")),
    ("article", "text in columns", |size| repeat(size, "<table><colgroup>", "a ", "")),
    ("article", "foreign", |size| repeat(size, "", "<svg><g>", "")),
    ("article", "foreign and back", |size| {
        repeat(size, &"<svg><g>".repeat(600), "<p>x</p><svg><path></g></q>", "")
    }),
    ("article", "formulas", |size| repeat(size, "", "<math><mi><p>", "")),
    ("article", "declarations", |size| repeat(size, "", "<!DOCTYPE a PUBLIC \"b\" \"c\">", "")),
    ("article", "one long declaration", |size| repeat(size, "<!DOCTYPE ", "a ", "")),
    ("article", "comments", |size| repeat(size, "<p>", "<!--a--!>", "")),
    ("article", "a comment without an end", |size| repeat(size, "<!--", "<!-- --!", "")),
    ("article", "instructions", |size| repeat(size, "", "<?a b", "")),
    ("article", "sections", |size| repeat(size, "<svg>", "<![CDATA[a]]", "")),
    ("article", "references", |size| repeat(size, "<p>", "&notit;&#x;&#1", "")),
    ("article", "references without an end", |size| {
        repeat(size, "<p>", "&aaaaaaaaaaaaaaaaaaaaaaaa", "")
    }),
    ("article", "one long reference", |size| repeat(size, "<p>&", "a", "")),
    ("article", "one long number", |size| repeat(size, "<p>&#x", "1", ";")),
    ("article", "references in a value", |size| repeat(size, "<p a='", "&not=&lt", "'>")),
    ("article", "script in script", |size| repeat(size, "<script>", "<!--<script>", "")),
    ("article", "ends in raw text", |size| repeat(size, "<title>", "</titl></style ", "")),
    ("article", "zeros", |size| repeat(size, "<p>", "a\0", "")),
    ("article", "carriage returns", |size| repeat(size, "<p>", "\r", "")),
    ("article", "less-than signs", |size| repeat(size, "<p>", "<", "")),
    ("article", "no elements", |size| repeat(size, "", "</p>", "")),
    ("article", "breaks", |size| repeat(size, "", "</br>x", "")),
    // HTML: what is made of the tree.
    ("article", "paragraphs", |size| repeat(size, "<article>", &format!("<p>{SENTENCE}</p>"), "")),
    ("article", "different paragraphs", |size| {
        numbered(size, "<article>", |n| format!("<p>{n} {SENTENCE}</p>"), "")
    }),
    ("article", "one paragraph", |size| repeat(size, "<article><p>", SENTENCE, "")),
    ("article", "one word", |size| repeat(size, "<article><p>", "a", "")),
    ("article", "links", |size| {
        numbered(
            size,
            "<article>",
            |n| format!("<p>See <a href=/{n}>the {n} story</a> now.</p>"),
            "",
        )
    }),
    ("article", "pictures", |size| {
        numbered(size, "<article>", |n| format!("<img src=/{n}.jpg alt='a b'><p>{SENTENCE}"), "")
    }),
    ("article", "headings and authors", |size| {
        repeat(
            size,
            "",
            &format!("<h1>A B</h1><p class=byline>By A B, C D and E</p><p>{SENTENCE}"),
            "",
        )
    }),
    ("article", "one heading of all", |size| repeat(size, "<h1>", "<h1>A <b>", "")),
    ("article", "authors in authors", |size| repeat(size, "", "<div class=author>A B", "")),
    ("article", "authors in one text", |size| {
        repeat(size, "<div class=author>", "Jane Doe, by and ", &format!("</div><p>{SENTENCE}"))
    }),
    ("article", "titles", |size| {
        repeat(size, "<title>", "A B | C - D \u{2014} ", &format!("</title><p>{SENTENCE}"))
    }),
    ("article", "times", |size| {
        repeat(size, "", "<time datetime=2026-11-15>15 November 2026</time> 3 May 2024, ", "")
    }),
    ("article", "dates in text", |size| repeat(size, "<p>", "3 May 2024 10:30 published ", "")),
    ("article", "meta elements", |size| {
        numbered(
            size,
            "",
            |n| format!("<meta name=a{n} content=b><meta property=article:tag content={n}>"),
            "",
        )
    }),
    ("article", "one long meta element", |size| {
        repeat(size, "<meta name=keywords content='", "a, ", &format!("'><p>{SENTENCE}"))
    }),
    ("article", "JSON-LD nested", |size| {
        repeat(size, "<script type=application/ld+json>", "{\"a\":[", "</script>")
    }),
    ("article", "JSON-LD graphs", |size| {
        let graph = "{\"@type\":\"NewsArticle\",\"author\":[{\"name\":\"A B\"}]},";
        repeat(size, "<script type=application/ld+json>{\"@graph\":[", graph, "{}]}</script>")
    }),
    ("article", "JSON-LD broken", |size| {
        repeat(size, "<script type=application/ld+json>", "{\"a\":\"\n\\x", "</script>")
    }),
    ("article", "many JSON-LD", |size| {
        repeat(size, "", "<script type=application/ld+json>{\"@type\":\"Article\"}</script>", "")
    }),
    ("article", "state in script", |size| {
        repeat(size, "<script>window.__STATE__=", "{\"body\":[\"", "</script>")
    }),
    ("article", "state in many scripts", |size| {
        repeat(
            size,
            "",
            "<script id=__NEXT_DATA__ type=application/json>{\"a\":{\"b\":\"c\"}}</script>",
            "",
        )
    }),
    ("article", "escapes in script", |size| {
        repeat(size, "<script>x=\"", "\\u003cp>", "\"</script>")
    }),
    ("article", "classes", |size| {
        numbered(size, "", |n| format!("<p class='a{n} b c d e f g'>{n}"), "")
    }),
    ("article", "one long class", |size| repeat(size, "<p class='", "a b-comment ", "'>x")),
    ("article", "white space", |size| repeat(size, "<p>a", " \t\n", "b")),
    ("article", "soft hyphens", |size| repeat(size, "<p>a", "\u{ad}\u{200b}", "b")),
    ("article", "code", |size| repeat(size, "<pre><code>", " `` ` *x* _y_\n", "")),
    ("article", "quotes in quotes", |size| {
        repeat(size, "", "<blockquote><p>Words of a text here. ", "")
    }),
    ("article", "noscript", |size| repeat(size, "", "<noscript><p>x</noscript>", "")),
    ("article", "markup in templates", |size| {
        repeat(size, "<template>", "<p>Words of a text. &lt;p&gt;", "</template>")
    }),
    ("article", "one name for many references", |size| {
        let start = format!(
            "<p>{SENTENCE}<script type=application/ld+json>{{\"@graph\":[{{\"@id\":\"#a\",\"@type\":\"Person\",\
             \"name\":\"{}\"}},{{\"@type\":\"NewsArticle\",\"author\":[",
            "b".repeat(size * 2 / 5)
        );
        repeat(size, &start, "{\"@id\":\"#a\"},", "{}]}]}</script>")
    }),
    ("article", "JSON-LD of small objects", |size| {
        let start = format!("<p>{SENTENCE}<script type=application/ld+json>[");
        repeat(size, &start, "{\"\":{\"\":{}}},", "{}]</script>")
    }),
    ("article", "JSON-LD of small objects in many scripts", |size| {
        let script = format!(
            "<script type=application/ld+json>[{}{{}}]</script>",
            "{\"\":{\"\":{}}},".repeat(200)
        );
        repeat(size, &format!("<p>{SENTENCE}"), &script, "")
    }),
    ("article", "state of small objects", |size| {
        let start = format!("<p>{SENTENCE}<script id=__NEXT_DATA__ type=application/json>[");
        repeat(size, &start, "{\"\":{\"\":{}}},", "{}]</script>")
    }),
    ("article", "bodies in bodies of a state", |size| {
        let text = format!("\"text\":[{}\"\"]", format!("\"{SENTENCE}\",").repeat(size / 80));
        let start = format!(
            "<p>{SENTENCE}<script id=__NEXT_DATA__ type=application/json>{}",
            "{\"body\":".repeat(100)
        );
        format!("{start}{{{text}}}{}</script>", "}".repeat(100)).into_bytes()
    }),
    ("article", "a long base", |size| {
        let start =
            format!("<base href='http://a.example/{}/'><p>{SENTENCE}", "b".repeat(size * 2 / 5));
        repeat(size, &start, "<a href=x>y</a>", "")
    }),
    ("article", "links under a long address", |size| {
        let start = format!("<base href='/{}/'><article><p>{SENTENCE}", "b".repeat(1_900));
        repeat(size, &start, "<a href=x>y</a><img src=z>", "")
    }),
    ("article", "elements with a short attribute", |size| repeat(size, "", "<p a=b>x", "")),
    ("article", "cells with attributes", |size| repeat(size, "<table><tr>", "<td colspan=9>x", "")),
    ("article", "italics", |size| repeat(size, "", "<i>x</i>", "")),
    ("article", "microdata", |size| {
        let start = "<div itemscope itemtype=http://schema.org/NewsArticle>";
        repeat(size, start, "<i itemprop=author itemscope><b itemprop=name>x</b></i>", "")
    }),
    // Feeds.
    ("feed", "attributes of one tag", |size| {
        numbered(size, "<rss ", |n| format!("a{n}='b' "), "><channel><title>x</title>")
    }),
    ("feed", "namespaces of one tag", |size| {
        numbered(
            size,
            "<rss ",
            |n| format!("xmlns:a{n}='http://b/{n}' "),
            "><channel><title>x</title>",
        )
    }),
    ("feed", "namespaces on every item", |size| {
        numbered(
            size,
            "<rss><channel><title>x</title>",
            |n| format!("<item xmlns:a{n}='b' a{n}:c='d'>"),
            "",
        )
    }),
    ("feed", "deep elements", |size| repeat(size, "<rss><channel>", "<a>", "")),
    ("feed", "elements that are closed twice", |size| {
        repeat(size, "<rss><channel>", "<item><a><b></item></c>", "")
    }),
    ("feed", "elements that are never closed", |size| {
        repeat(size, "<rss><channel>", "<item><title>x", "")
    }),
    ("feed", "entities", |size| {
        numbered(size, "<!DOCTYPE r [", |n| format!("<!ENTITY a{n} '&b;&b;'>"), "]><rss><channel>")
    }),
    ("feed", "references", |size| repeat(size, "<rss><channel><title>", "&eacute;&#x;&a", "")),
    ("feed", "ampersands", |size| repeat(size, "<rss><channel><title>", "&", "")),
    ("feed", "less-than signs", |size| repeat(size, "<rss><channel><title>", "<", "")),
    ("feed", "sections", |size| {
        repeat(size, "<rss><channel><item><title>", "<![CDATA[a]]>", "</title></item>")
    }),
    ("feed", "a section without an end", |size| {
        repeat(size, "<rss><channel><item><title>", "<![CDATA[ ]]", "")
    }),
    ("feed", "comments", |size| repeat(size, "<rss><channel><item><title>", "<!-- - --", "")),
    ("feed", "instructions", |size| repeat(size, "<rss><channel>", "<?a ?", "")),
    ("feed", "quotes", |size| repeat(size, "<rss><channel><item><a b=\"", "'<a b=\"", "")),
    ("feed", "many categories", |size| {
        numbered(size, "<rss><channel><item>", |n| format!("<category>{n}</category>"), "</item>")
    }),
    ("feed", "one category", |size| repeat(size, "<rss><channel><item><category>", "a, ", "")),
    ("feed", "many authors", |size| {
        numbered(
            size,
            "<rss><channel><item>",
            |n| format!("<dc:creator>A {n}</dc:creator>"),
            "</item>",
        )
    }),
    ("feed", "authors in one text", |size| {
        repeat(size, "<rss><channel><item><author>", "a@b.example (A B), ", "</author></item>")
    }),
    ("feed", "many enclosures", |size| {
        numbered(size, "<rss><channel><item>", |n| format!("<enclosure url='/{n}'/>"), "</item>")
    }),
    ("feed", "many media groups", |size| {
        numbered(
            size,
            "<rss><channel><item>",
            |n| format!("<media:group><media:content url='/{n}'/>"),
            "",
        )
    }),
    ("feed", "many links", |size| {
        let start = "<feed xmlns='http://www.w3.org/2005/Atom'><entry>";
        numbered(size, start, |n| format!("<link rel='a{n}' href='/{n}'/>"), "</entry></feed>")
    }),
    ("feed", "many entries", |size| {
        numbered(size, "<rss><channel>", |n| format!("<item><guid>{n}</guid></item>"), "")
    }),
    ("feed", "the same entry", |size| {
        repeat(size, "<rss><channel>", "<item><guid>x</guid><title>y</title></item>", "")
    }),
    ("feed", "bases in bases", |size| {
        repeat(size, "<feed xmlns='http://www.w3.org/2005/Atom'>", "<a xml:base='b/'>", "")
    }),
    ("feed", "one long base", |size| {
        repeat(size, "<rss xml:base='", "a/../", "'><channel><item><link>x</link></item>")
    }),
    ("feed", "markup in texts", |size| {
        repeat(size, "<rss><channel><item><description>", "&lt;a href=&quot;b&quot;&gt;&lt;p", "")
    }),
    ("feed", "XHTML", |size| {
        let start = "<feed xmlns='http://www.w3.org/2005/Atom'><entry><content type='xhtml'><div>";
        repeat(size, start, "<p>x <b>y</b></p>", "</div></content></entry></feed>")
    }),
    ("feed", "broken bytes", |size| {
        let mut input = b"<rss><channel>".to_vec();
        input.extend(b"<item><title>\xff\xd0</title></item>".repeat(size / 33));
        input
    }),
    ("feed", "control characters", |size| repeat(size, "<rss><channel><title>", "\u{1}", "")),
    ("feed", "dates", |size| {
        repeat(
            size,
            "<rss><channel>",
            "<item><pubDate>Sun, 15 Nov 2026 09:30:00 X</pubDate></item>",
            "",
        )
    }),
    ("feed", "one long date", |size| {
        repeat(size, "<rss><channel><item><pubDate>", "Sun 15, ", "</pubDate></item>")
    }),
    ("feed", "JSON nested", |size| repeat(size, "{\"items\":[", "[", "")),
    ("feed", "JSON objects nested", |size| repeat(size, "{\"items\":[", "{\"a\":", "")),
    ("feed", "JSON keys", |size| {
        numbered(size, "{\"items\":[{", |n| format!("\"a{n}\":1,"), "\"b\":1}]}")
    }),
    ("feed", "JSON items", |size| {
        repeat(size, "{\"version\":\"x\",\"items\":[", "{\"id\":1},", "{}]}")
    }),
    ("feed", "JSON tags", |size| {
        numbered(
            size,
            "{\"version\":\"x\",\"items\":[{\"tags\":[",
            |n| format!("\"{n}\","),
            "1]}]}",
        )
    }),
    ("feed", "JSON escapes", |size| {
        repeat(size, "{\"title\":\"", "\\u0041\\n", "\",\"items\":[]}")
    }),
    ("feed", "JSON numbers", |size| repeat(size, "{\"items\":[{\"id\":1", "0", "}]}")),
    ("feed", "JSON exponents", |size| repeat(size, "{\"items\":[{\"id\":1e", "9", "}]}")),
    ("feed", "one long author for many entries", |size| {
        let author = format!("<author><name>{}</name></author>", "n".repeat(size / 2));
        numbered(
            size,
            &format!("{ATOM}{author}"),
            |n| format!("<entry><id>{n}</id></entry>"),
            "</feed>",
        )
    }),
    ("feed", "one long mail address for many entries", |size| {
        let author = format!("<author><email>{}</email></author>", "n".repeat(size / 2));
        numbered(
            size,
            &format!("{ATOM}{author}"),
            |n| format!("<entry><id>{n}</id></entry>"),
            "</feed>",
        )
    }),
    ("feed", "a hundred authors of 4,000 bytes for many entries", |size| {
        let start = format!("{ATOM}{}", authors(100.min(size / 8_000), 4_000));
        repeat(size, &start, "<entry/>", "</feed>")
    }),
    ("feed", "a hundred authors of 490 bytes for many entries", |size| {
        repeat(size, &format!("{ATOM}{}", authors(100, 490)), "<entry/>", "</feed>")
    }),
    ("feed", "a long base for many entries", |size| {
        let start =
            format!("<feed xml:base='http://a.example/{}/' {NS}>", "b".repeat(size * 2 / 5));
        numbered(size, &start, |n| format!("<entry><link href='{n}'/></entry>"), "</feed>")
    }),
    ("feed", "a base of 1,900 bytes for many entries", |size| {
        let start = format!("<feed xml:base='http://a.example/{}/' {NS}>", "b".repeat(1_900));
        numbered(size, &start, |n| format!("<entry><link href='{n}'/></entry>"), "</feed>")
    }),
    ("feed", "a long base for many items", |size| {
        let start =
            format!("<rss xml:base='http://a.example/{}/'><channel>", "b".repeat(size * 2 / 5));
        repeat(size, &start, "<item><link>1</link></item>", "</channel></rss>")
    }),
    ("feed", "a long base for many links in a text", |size| {
        let start = format!(
            "<feed xml:base='http://a.example/{}/' {NS}><entry><id>1</id><content type='html'>",
            "b".repeat(size * 2 / 5)
        );
        repeat(size, &start, "&lt;img src=\"x\">", "</content></entry></feed>")
    }),
    ("feed", "a base of 1,900 bytes for many links in a text", |size| {
        let start = format!(
            "<feed xml:base='http://a.example/{}/' {NS}><entry><id>1</id><content type='xhtml'><div>",
            "b".repeat(1_900)
        );
        repeat(size, &start, "<a href=\"x\">x</a>", "</div></content></entry></feed>")
    }),
    ("feed", "empty items", |size| repeat(size, "<rss><channel>", "<item/>", "</channel></rss>")),
    ("feed", "empty JSON items", |size| {
        repeat(size, "{\"version\":\"jsonfeed.org\",\"title\":\"t\",\"items\":[", "{},", "{}]}")
    }),
    ("feed", "a long JSON author for many items", |size| {
        let start = format!(
            "{{\"version\":\"jsonfeed.org\",\"title\":\"t\",\"author\":{{\"name\":\"{}\"}},\"items\":[",
            "n".repeat(size / 2)
        );
        numbered(size, &start, |n| format!("{{\"id\":\"{n}\"}},"), "{}]}")
    }),
    // Sitemaps.
    ("sitemap", "short relative addresses", |size| {
        repeat(size, "<urlset>", "<url><loc>x</loc></url>", "</urlset>")
    }),
    ("sitemap", "addresses", |size| {
        numbered(size, "<urlset>", |n| format!("<url><loc>https://a.example/{n}</loc></url>"), "")
    }),
    ("sitemap", "deep elements", |size| repeat(size, "<urlset>", "<url><loc>", "")),
    ("sitemap", "attributes", |size| numbered(size, "<urlset ", |n| format!("a{n}='b' "), ">")),
    ("sitemap", "closed twice", |size| repeat(size, "<urlset>", "<url></loc></url></url>", "")),
    ("sitemap", "keywords", |size| {
        repeat(size, "<urlset><url><loc>https://a.example/</loc><news:keywords>", "a, ", "")
    }),
    ("sitemap", "children", |size| {
        numbered(
            size,
            "<sitemapindex>",
            |n| format!("<sitemap><loc>https://a.example/{n}</loc>"),
            "",
        )
    }),
    ("sitemap", "lines", |size| numbered(size, "", |n| format!("https://a.example/{n}\n"), "")),
    ("sitemap", "entities", |size| repeat(size, "<urlset><url><loc>https://a/?", "&amp;&a", "")),
    // Lists.
    ("opml", "long names around many feeds", |size| {
        let names = format!("<outline text='{}'>", "c".repeat(4_000)).repeat(60.min(size / 10_000));
        let feed = |n| format!("<outline xmlUrl='http://a{n}.example/'/>");
        numbered(size, &format!("<opml><body>{names}"), feed, "</body></opml>")
    }),
    ("opml", "one long name around many feeds", |size| {
        let names = format!("<outline text='{}'>", "c".repeat(size * 2 / 5));
        let feed = |n| format!("<outline xmlUrl='http://a{n}.example/'/>");
        numbered(size, &format!("<opml><body>{names}"), feed, "</body></opml>")
    }),
    ("opml", "eighty names of 480 bytes around many feeds", |size| {
        let names: String =
            (0..80).map(|n| format!("<outline text='{}{n}'>", "c".repeat(480))).collect();
        let feed = |n| format!("<outline xmlUrl='http://a{n}.example/'/>");
        numbered(size, &format!("<opml><body>{names}"), feed, "</body></opml>")
    }),
    ("opml", "outlines nested", |size| repeat(size, "<opml><body>", "<outline text='a'>", "")),
    ("opml", "outlines", |size| {
        numbered(size, "<opml><body>", |n| format!("<outline xmlUrl='https://a.example/{n}'/>"), "")
    }),
    ("opml", "attributes", |size| {
        numbered(size, "<opml><body><outline ", |n| format!("a{n}='b' "), "/></body></opml>")
    }),
    ("opml", "closed twice", |size| repeat(size, "<opml><body>", "</outline><outline>", "")),
    // robots.txt.
    ("robots", "rules", |size| {
        numbered(size, "User-agent: *\n", |n| format!("Disallow: /{n}\n"), "")
    }),
    ("robots", "one rule of wildcards", |size| {
        repeat(size, "User-agent: *\nDisallow: /", "*a", "$")
    }),
    ("robots", "rules of wildcards", |size| {
        repeat(size, "User-agent: *\n", &format!("Disallow: /{}b$\n", "*a".repeat(200)), "")
    }),
    ("robots", "agents", |size| {
        numbered(size, "", |n| format!("User-agent: a{n}\n"), "Disallow: /")
    }),
    ("robots", "the same agent", |size| repeat(size, "", "User-agent: *\nDisallow: /a*b\n", "")),
    ("robots", "delays", |size| {
        repeat(size, &"User-agent: *\n".repeat(5_000), "Crawl-delay: 1\nUser-agent: *\n", "")
    }),
    ("robots", "agents and signals", |size| {
        repeat(size, "", "User-agent: *\nContent-Signal: /*a*b search=yes, ai-train=no\n", "")
    }),
    ("robots", "sitemaps", |size| repeat(size, "", "Sitemap: https://a.example/\n", "")),
    ("robots", "lines", |size| repeat(size, "", "\r\n\r", "")),
    ("robots", "one line", |size| repeat(size, "User-agent: *\nDisallow: /", "%c3%a9\u{e9}", "")),
    // Addresses.
    ("url", "segments", |size| repeat(size, "https://a.example/", "a/", "")),
    ("url", "segments upwards", |size| repeat(size, "https://a.example/", "a/../", "")),
    ("url", "upwards", |size| repeat(size, "https://a.example/", "../", "")),
    ("url", "slashes", |size| repeat(size, "https://a.example/", "/", "")),
    ("url", "labels", |size| repeat(size, "https://", "a.", "example/")),
    ("url", "international labels", |size| repeat(size, "https://", "\u{fc}.", "example/")),
    ("url", "one international label", |size| repeat(size, "https://", "\u{fc}a", ".example/")),
    ("url", "encoded labels", |size| repeat(size, "https://xn--", "a-9", ".example/")),
    ("url", "numbers", |size| repeat(size, "https://", "1.", "1/")),
    ("url", "parameters", |size| numbered(size, "https://a.example/?", |n| format!("a{n}=b&"), "")),
    ("url", "the same parameter", |size| repeat(size, "https://a.example/?", "utm_source=b&", "")),
    ("url", "escapes", |size| repeat(size, "https://a.example/", "%7e%", "")),
    ("url", "users", |size| repeat(size, "https://", "a:b@", "a.example/")),
    ("url", "wrapped", |size| {
        repeat(size, "https://a.example/?url=", "https%3A%2F%2Fa%2F%3Furl%3D", "")
    }),
    ("url", "blanks", |size| repeat(size, "https://a.example/", " \t\n", "a")),
    // Dates.
    ("date", "digits", |size| repeat(size, "", "1", "")),
    ("date", "numbers", |size| repeat(size, "", "15 ", "")),
    ("date", "names", |size| repeat(size, "", "November ", "2026")),
    ("date", "dates", |size| repeat(size, "", "Sun, 15 Nov 2026 09:30:00 ", "")),
    ("date", "times", |size| repeat(size, "2026-11-15T", "09:", "")),
    ("date", "zones", |size| repeat(size, "2026-11-15T09:30:00", "+01:00", "")),
    ("date", "fractions", |size| repeat(size, "2026-11-15T09:30:00.", "1", "Z")),
    ("date", "letters", |size| repeat(size, "15 ", "\u{430}", " 2026")),
    ("date", "parentheses", |size| repeat(size, "15 Nov 2026 ", "(", "")),
    // Character sets.
    ("charset", "declarations", |size| repeat(size, "", "<meta charset=x>", "")),
    ("charset", "attributes", |size| repeat(size, "<meta ", "a=charset ", "")),
    ("charset", "quotes", |size| repeat(size, "<meta content='", "charset=\"", "")),
    ("charset", "comments", |size| repeat(size, "", "<!-- charset ", "")),
    ("charset", "no text", |size| b"\xff\x80\x1b$B".repeat(size / 5)),
    ("charset", "half characters", |size| b"\xd8\x00\xdc".repeat(size / 3)),
    // Archives.
    ("warc", "headers", |size| {
        numbered(size, "WARC/1.1\r\n", |n| format!("A{n}: b\r\n"), "Content-Length: 0\r\n\r\n")
    }),
    ("warc", "one header", |size| repeat(size, "WARC/1.1\r\nA: ", "b\r\n ", "\r\n\r\n")),
    ("warc", "records", |size| {
        repeat(size, "", "WARC/1.1\r\nContent-Length: 0\r\n\r\n\r\n\r\n", "")
    }),
    ("warc", "versions", |size| repeat(size, "", "WARC/1.1\r\n", "")),
    ("warc", "compressed starts", |size| b"\x1f\x8b\x08\x00".repeat(size / 4)),
    ("warc", "frames", |size| b"\x28\xb5\x2f\xfd".repeat(size / 4)),
];

const SENTENCE: &str = "The harbour of Westport was closed on Tuesday, the port authority said. ";

/// How an Atom feed declares its namespace.
const NS: &str = "xmlns='http://www.w3.org/2005/Atom'";
/// The beginning of an Atom feed.
const ATOM: &str = "<feed xmlns='http://www.w3.org/2005/Atom'>";

/// Authors of a feed with names of so many bytes.
fn authors(count: usize, bytes: usize) -> String {
    let name = "n".repeat(bytes);
    (0..count).map(|n| format!("<author><name>{name}{n}</name></author>")).collect()
}

fn attributes(count: usize) -> String {
    (0..count).map(|n| format!("a{n} ")).collect()
}

/// `start`, then `piece` again and again, then `end`.
fn repeat(size: usize, start: &str, piece: &str, end: &str) -> Vec<u8> {
    let inside = size.saturating_sub(start.len() + end.len());
    format!("{start}{}{end}", piece.repeat(inside / piece.len())).into_bytes()
}

/// `start`, then pieces that are all different, then `end`.
fn numbered(size: usize, start: &str, piece: impl Fn(usize) -> String, end: &str) -> Vec<u8> {
    let mut input = start.to_owned();
    for n in 0.. {
        if input.len() + end.len() >= size {
            break;
        }
        input.push_str(&piece(n));
    }
    input.push_str(end);
    input.into_bytes()
}
