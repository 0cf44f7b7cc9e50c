//! What an operator sees of documents: `parse`, and lists of feeds as OPML.

use std::fs;

use super::{Desk, reply_to};

const FEED: &str = "<rss version='2.0'><channel><title>T</title><item><title>A</title>\
    <guid isPermaLink='false'>1</guid></item></channel></rss>";

#[test]
fn parse_says_what_it_cannot_do() {
    let desk = Desk::new();
    fs::write(desk.path().join("feed.xml"), FEED).unwrap();
    desk.fails(&["parse", "feed.xml", "--out", "x.jsonl"], 2, "say --batch DIR");
    desk.fails(&["parse", "feed.xml", "--base", "notaurl"], 2, "notaurl is no address");
    assert_eq!(desk.files(), ["feed.xml"]);
    let told = desk.ok(&["parse", "feed.xml"]);
    let row = told.lines().find(|line| line.contains('A') && !line.contains("author")).unwrap();
    assert!(!row.contains('1'), "an id is no link: {told}");
}

#[test]
fn parse_reads_a_list_of_feeds() {
    let desk = Desk::new();
    let list = "<opml><head><title>Mine</title></head><body><outline text='News'>\
        <outline text='A' xmlUrl='https://a.example/feed'/></outline>";
    let reply = reply_to(&desk, &["parse", "-"], list);
    assert!(reply.stdout.starts_with("Mine: 1 feed\n"), "{}{}", reply.stdout, reply.stderr);
    assert!(reply.stdout.contains("https://a.example/feed"), "{}", reply.stdout);
    assert!(reply.stdout.contains("truncated"), "{}", reply.stdout);
}

#[test]
fn parse_joins_the_addresses_of_a_sitemap() {
    let desk = Desk::new();
    let sitemap = "<urlset><url><loc>/a</loc></url><url><loc>/b</loc></url></urlset>";
    let args = ["parse", "-", "--base", "https://example.com/sitemap.xml"];
    let told = reply_to(&desk, &args, sitemap).stdout;
    assert!(told.contains("https://example.com/b"), "{told}");
    assert!(told.contains("relative_url (2 times): write whole addresses: /a"), "{told}");
}

#[test]
fn a_list_loses_no_feed_whose_title_is_taken() {
    let desk = Desk::new();
    let list = "<opml><body><outline text='World / EU'>\
        <outline text='News' xmlUrl='https://a.example/feed' category='x,y'/></outline>\
        <outline text='News' xmlUrl='feed://b.example/feed'/>\
        <outline text='Again' xmlUrl='https://a.example/feed#top'/>\
        <outline text='No' xmlUrl='ftp://c.example/feed'/></body></opml>";
    let import = ["source", "import", "-"];
    let reply = reply_to(&desk, &import, list);
    assert_eq!(reply.code, 0, "{}", reply.stderr);
    let told: Vec<_> = reply.stdout.lines().collect();
    assert_eq!(told[0], "2 sources added, 1 followed already", "{told:?}");
    assert!(told[1].starts_with("renamed: News (b.example)"), "{told:?}");
    assert!(told[2].starts_with("left out: News: a source has one category"), "{told:?}");
    assert!(told[3].starts_with("left out: ") && told[3].contains("ftp://c.example"), "{told:?}");
    let shown = desk.json(&["source", "show", "News (b.example)"]);
    assert_eq!(shown["channels"][0]["url"], "http://b.example/feed");
    let cut = list.trim_end_matches("</body></opml>");
    let told = reply_to(&desk, &import, cut).stdout;
    assert!(told.starts_with("0 sources added, 3 followed already\n"), "{told}");
    assert!(told.contains("ends too early"), "{told}");
    let written = desk.ok(&["source", "export"]);
    assert!(written.contains("<outline text=\"World / EU\">"), "{written}");
}
