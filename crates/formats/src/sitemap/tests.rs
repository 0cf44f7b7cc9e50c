//! Sitemaps as they are written, and what is read in them.

use std::io::Write;

use proptest::prelude::*;

use super::*;

fn read(document: &str) -> Sitemap {
    parse(document.as_bytes(), "", &Limits::default()).unwrap()
}

/// What was wrong, with how often.
fn told(sitemap: &Sitemap) -> Vec<(&str, u32)> {
    sitemap.warnings.iter().map(|warning| (warning.code, warning.count)).collect()
}

fn code(document: &[u8]) -> &'static str {
    parse(document, "", &Limits { bytes: 10_000, urls: 10 }).unwrap_err().code()
}

const NEWS: &str =
    "<?xml version='1.0'?>\n<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>
    <url><loc> https://example.com/a?b=1&amp;c=2 </loc><lastmod>2024-05-01T10:00:00+02:00</lastmod>
      <image:image><image:loc>https://example.com/a.jpg</image:loc></image:image>
      <news:news><news:publication><news:name>The <![CDATA[Example]]></news:name>
        <news:language>en</news:language></news:publication>
        <news:publication_date>2024-05-01</news:publication_date>
        <news:title>Cats &amp; dogs</news:title></news:news></url>
    <url><loc>https://example.com/b</loc><lastmod>yesterday</lastmod><priority>0.5</priority></url>
    <url><loc>/relative</loc></url><url/></urlset>";

#[test]
fn pages_come_with_their_news() {
    let sitemap = read(NEWS);
    let [first, second] = sitemap.urls.as_slice() else { panic!("{:?}", sitemap.urls) };
    assert_eq!(first.loc, "https://example.com/a?b=1&c=2");
    assert_eq!(first.lastmod.unwrap().to_string(), "2024-05-01T08:00:00Z");
    let news = first.news.as_ref().unwrap();
    assert_eq!(news.title.as_deref(), Some("Cats & dogs"));
    assert_eq!(news.publication.as_deref(), Some("The Example"));
    assert_eq!(news.language.as_deref(), Some("en"));
    assert_eq!(news.published.unwrap().day(), "2024-05-01");
    assert_eq!((second.loc.as_str(), second.lastmod), ("https://example.com/b", None));
    let codes: Vec<_> = sitemap.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["bad_date", "bad_url"]);
}

#[test]
fn pictures_films_and_languages_belong_to_their_page() {
    let sitemap = read(
        "<urlset xmlns:i='x'><url><i:image><i:loc>https://example.com/a.jpg</i:loc><i:title>A</i:title>\
         </i:image><loc>https://example.com/a</loc><video:video><video:title>V</video:title>\
         <video:player_loc>https://example.com/p</video:player_loc>\
         <video:content_loc>https://example.com/v.mp4</video:content_loc>\
         <video:publication_date>2024-05</video:publication_date></video:video>\
         <xhtml:link rel='alternate' hreflang='de' href='https://example.com/de'/>\
         <PageMap><DataObject><Attribute name='title'>no</Attribute></DataObject></PageMap>\
         <lastmod>2024</lastmod></url><url><loc>https://example.com/b</loc></url></urlset>",
    );
    let [page, _] = sitemap.urls.as_slice() else { panic!("{:?}", sitemap.urls) };
    assert_eq!((page.loc.as_str(), page.news.as_ref()), ("https://example.com/a", None));
    assert_eq!(page.images, ["https://example.com/a.jpg"]);
    let video = &page.videos[0];
    assert_eq!(video.title.as_deref(), Some("V"));
    assert_eq!(video.url.as_deref(), Some("https://example.com/v.mp4"));
    assert_eq!(video.published.unwrap().day(), "2024-05-01");
    assert_eq!(page.alternates[0].url, "https://example.com/de");
    assert_eq!(page.lastmod.unwrap().day(), "2024-01-01");
}

#[test]
fn a_feed_is_a_sitemap() {
    let rss = read(
        "<rss version='2.0'><channel><item><link>https://example.com/a</link>\
         <pubDate>Wed, 01 May 2024 08:00:00 GMT</pubDate></item><item><guid>x</guid></item></channel></rss>",
    );
    assert_eq!((rss.urls.len(), rss.warnings[0].code), (1, "bad_url"));
    assert_eq!(rss.urls[0].lastmod.unwrap().day(), "2024-05-01");
    let atom = read(
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><link href='https://example.com/a'/>\
         <updated>2024-05-01T00:00:00Z</updated></entry></feed>",
    );
    assert_eq!(atom.urls[0].loc, "https://example.com/a");
}

#[test]
fn old_pages_are_told_from_new_ones_and_from_those_without_a_date() {
    let since = date::parse("2024-05-02T18:00:00Z").unwrap();
    let cases = [
        ("2024-05-01", false),
        ("2024-05-02", true),
        ("2024-05-02T17:59:59Z", false),
        ("2024-04", false),
        ("2024-05", true),
        ("2023", false),
        ("2024", true),
        ("soon", true),
    ];
    for (lastmod, may) in cases {
        let at = format!("<loc>https://example.com/a</loc><lastmod>{lastmod}</lastmod>");
        let pages = read(&format!("<urlset><url>{at}</url></urlset>"));
        assert_eq!(pages.urls[0].may_be_since(since), may, "{lastmod}");
        let index = read(&format!("<sitemapindex><sitemap>{at}</sitemap></sitemapindex>"));
        assert_eq!(index.children[0].may_be_since(since), may, "{lastmod}");
    }
    let news = read(
        "<urlset><url><loc>https://example.com/a</loc><lastmod>2024-05-01</lastmod><news:news>\
         <news:publication_date>2024-05-03</news:publication_date></news:news></url></urlset>",
    );
    assert!(news.urls[0].may_be_since(since));
}

#[test]
fn an_index_has_children_only() {
    let sitemap = read(
        "<sitemapindex><sitemap><loc>https://example.com/1.xml</loc>\
         <lastmod>2024-05-01</lastmod></sitemap><sitemap><loc>https://example.com/2.xml.gz</loc>\
         </sitemap></sitemapindex>",
    );
    assert!(sitemap.urls.is_empty());
    let locs: Vec<_> = sitemap.children.iter().map(|child| child.loc.as_str()).collect();
    assert_eq!(locs, ["https://example.com/1.xml", "https://example.com/2.xml.gz"]);
    assert!(sitemap.children[0].lastmod.is_some());
}

#[test]
fn an_address_may_stand_in_the_item_itself() {
    let sitemap = read(
        "<sm:sitemapindex><sm:sitemap>\n https://example.com/?a=1&amp;b=2 \n</sm:sitemap>\
         </sm:sitemapindex>",
    );
    assert_eq!(sitemap.children[0].loc, "https://example.com/?a=1&b=2");
}

#[test]
fn a_list_of_addresses_is_a_sitemap() {
    let sitemap = read("\u{feff}https://example.com/a\r\n\r\n  HTTPS://example.com/b\nnonsense\n");
    assert_eq!(sitemap.urls.len(), 2);
    assert_eq!(sitemap.warnings[0].code, "bad_url");
}

#[test]
fn a_gzipped_body_is_inflated_up_to_the_limit() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(NEWS.as_bytes()).unwrap();
    let body = encoder.finish().unwrap();
    assert_eq!(parse(&body, "", &Limits::default()).unwrap(), read(NEWS));
    let small = Limits { bytes: 100, urls: 10 };
    assert_eq!(parse(&body, "", &small).unwrap_err().code(), "too_large");
    assert_eq!(code(&body[..50]), "malformed");
}

#[test]
fn a_sitemap_that_is_cut_off_keeps_its_whole_entries() {
    let sitemap = read("<urlset><url><loc>https://example.com/a</loc></url><url><loc>https://exam");
    assert_eq!((sitemap.urls.len(), sitemap.warnings[0].code), (1, "truncated"));
}

#[test]
fn addresses_beyond_the_limit_are_left_out() {
    let body = "<urlset>".to_owned() + &"<url><loc>https://example.com/</loc></url>".repeat(9);
    let sitemap = parse(body.as_bytes(), "", &Limits { bytes: 10_000, urls: 3 }).unwrap();
    assert_eq!((sitemap.urls.len(), sitemap.warnings[0].code), (3, "too_many_urls"));
    let all = body + "</urlset>";
    let sitemap = parse(all.as_bytes(), "", &Limits { bytes: 10_000, urls: 9 }).unwrap();
    assert_eq!((sitemap.urls.len(), told(&sitemap)), (9, vec![]));
}

#[test]
fn relative_addresses_grow_no_further_than_the_limit_of_a_document() {
    let body = format!("<urlset>{}</urlset>", "<url><loc>x</loc></url>".repeat(10_000));
    let base = format!("https://example.com/{}/", "b".repeat(1_900));
    let sitemap = parse(body.as_bytes(), &base, &Limits::default()).unwrap();
    let total: usize = sitemap.urls.iter().map(|page| page.loc.len()).sum();
    assert!(total < 5 << 20 && total > 4 << 20, "{total}");
    let codes: Vec<_> = told(&sitemap).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["relative_url", "bad_url"]);
}

#[test]
fn relative_addresses_are_those_of_the_sitemap() {
    let body = "<urlset><url><loc>/s/rel</loc><image:image><image:loc>a.jpg</image:loc></image:image>\
                <xhtml:link hreflang='de' href='de'/></url><url><loc>ftp://example.com/</loc></url>\
                <url><loc>no address</loc></url></urlset>";
    let base = "https://example.com/maps/news.xml";
    let sitemap = parse(body.as_bytes(), base, &Limits::default()).unwrap();
    let [page] = sitemap.urls.as_slice() else { panic!("{:?}", sitemap.urls) };
    assert_eq!(page.loc, "https://example.com/s/rel");
    assert_eq!(page.images, ["https://example.com/maps/a.jpg"]);
    assert_eq!(page.alternates[0].url, "https://example.com/maps/de");
    assert_eq!(told(&sitemap), [("relative_url", 3), ("bad_url", 2)]);
    let rss = "<rss version='2.0'><channel><item><link>/a</link></item></channel></rss>";
    let sitemap = parse(rss.as_bytes(), base, &Limits::default()).unwrap();
    assert_eq!(sitemap.urls[0].loc, "https://example.com/a");
}

#[test]
fn every_repair_is_told() {
    let sitemap = read(
        "<URLSET><URL><LOC>https://example.com/a</LOC><loc>https://example.com/b</loc></URL>\
         <sitemap><loc>https://example.com/1.xml</loc></sitemap>\
         <url><loc>https://example.com/c</loc><lastmod>2024-2-30</lastmod>\
         <video:video><video:publication_date>soon</video:publication_date></video:video></url>\
         <url><loc>https://example.com/d</loc></URLSET>",
    );
    let locs: Vec<_> = sitemap.urls.iter().map(|page| page.loc.as_str()).collect();
    assert_eq!(locs, ["https://example.com/a", "https://example.com/c", "https://example.com/d"]);
    assert_eq!(sitemap.children[0].loc, "https://example.com/1.xml");
    let expected = [("second_loc", 1), ("misplaced", 1), ("odd_date", 1), ("bad_date", 1)];
    assert_eq!(told(&sitemap), expected);
    let index = read(
        "<sitemapindex><url><loc>https://example.com/a</loc></url>\
         <sitemap><loc>https://example.com/1.xml</loc></sitemap></sitemapindex>",
    );
    assert_eq!((index.urls.len(), index.children.len()), (1, 1));
    assert_eq!(told(&index), [("misplaced", 1)]);
}

#[test]
fn what_is_no_sitemap_has_a_code() {
    for (body, expected) in [
        (" \n", "empty_body"),
        ("<!DOCTYPE html><html><body>404</body></html>", "html_not_sitemap"),
        ("<error>no</error>", "not_a_sitemap"),
        ("nothing here", "not_a_sitemap"),
        ("{\"urls\": []}", "not_a_sitemap"),
    ] {
        assert_eq!(code(body.as_bytes()), expected, "{body}");
    }
    assert_eq!(code(&[b' '; 20_000]), "too_large");
}

proptest! {
    #[test]
    fn any_bytes_end_well(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(sitemap) = parse(&bytes, "", &Limits::default()) {
            prop_assert!(sitemap.urls.len() <= bytes.len());
        }
    }

    #[test]
    fn any_pieces_of_a_sitemap_end_well(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<urlset>", "</urlset>", "<url>", "</url>", "<loc>", "</loc>", "<lastmod>", "<url/>",
            "https://example.com/", "&amp;", "<![CDATA[", "]]>", "<news:title>", "<",
        ]), 0..30),
    ) {
        let document = format!("<urlset>{}", pieces.concat());
        let sitemap = parse(document.as_bytes(), "", &Limits::default()).unwrap();
        prop_assert!(sitemap.children.is_empty());
        prop_assert!(sitemap.urls.iter().all(|page| page.loc.starts_with("https://")));
    }
}
