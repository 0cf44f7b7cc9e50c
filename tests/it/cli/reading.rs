//! What an operator sees of documents: `parse`, and lists of sources, in and out.

use std::fs;

use serde_json::{Value, json};

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
    assert_eq!(told[0], "2 sources added, 1 followed already, 1 refused", "{told:?}");
    assert!(told[1].starts_with("  line 1: renamed: News (b.example): News is"), "{told:?}");
    assert!(told[2].starts_with("  line 1: known: https://a.example/feed#top is"), "{told:?}");
    assert!(told[2].ends_with("followed by News"), "{told:?}");
    assert!(told[3].starts_with("  line 1: refused: `ftp://c.example/feed`"), "{told:?}");
    let shown = desk.json(&["source", "show", "News (b.example)"]);
    assert_eq!(shown["channels"][0]["url"], "http://b.example/feed");
    let shown = desk.json(&["source", "show", "News"]);
    assert_eq!(
        (&shown["source"]["category"], &shown["source"]["tags"]),
        (&json!("World / EU"), &json!(["x", "y"]))
    );
    let cut = list.trim_end_matches("</body></opml>").replace("a.example", "new.example");
    let reply = reply_to(&desk, &import, &cut);
    assert!(reply.code == 1 && reply.stderr.contains("ends too early"), "{}", reply.stderr);
    assert_eq!(desk.json(&["source", "list"])["sources"].as_array().unwrap().len(), 2);
    let told = desk.json(&["source", "list", "--tag", "x"]);
    assert_eq!(told["sources"].as_array().unwrap().len(), 1);
    assert_eq!(desk.ok(&["source", "list", "--disabled"]), "no source is like that\n");
    let written = desk.ok(&["source", "export"]);
    assert!(written.contains("<outline text=\"World / EU\">"), "{written}");
}

/// Bad input, line by line, and nothing of it half-stored.
#[test]
fn a_bad_list_is_reported_by_line_and_does_no_harm() {
    let desk = Desk::new();
    let table = "name,url,feed_url,mood\n\
        Alder,https://alder.example/,https://alder.example/rss,x\n\
        Home,http://10.0.0.1/,,\n\
        Local,,http://localhost:8080/feed,\n\
        Port,https://birch.example:22/,,\n\
        Twice,https://alder.example/,https://alder.example/rss,\n\
        Birch,https://birch.example/,,\n";
    let import = ["source", "import", "-"];
    let strict = reply_to(&desk, &["source", "import", "-", "--strict"], table);
    assert!(strict.code == 1 && strict.stderr.contains("nothing was added"), "{}", strict.stderr);
    assert!(desk.ok(&["source", "list"]).contains("no sources yet"));
    let reply = reply_to(&desk, &import, table);
    assert_eq!(reply.code, 0, "{}", reply.stderr);
    let told: Vec<_> = reply.stdout.lines().collect();
    assert_eq!(told[0], "2 sources added, 1 followed already, 3 refused", "{told:?}");
    assert!(
        told[1].contains("line 6: known") && told[1].ends_with("followed by Alder"),
        "{told:?}"
    );
    for (told, words) in told[2..].iter().zip([
        "line 3: refused: `http://10.0.0.1/` cannot be followed",
        "line 4: refused: ",
        "line 5: refused: ",
        "note: the column `mood` means nothing here",
    ]) {
        assert!(told.contains(words), "{told}");
    }
    let again: Value =
        serde_json::from_str(&reply_to(&desk, &["source", "import", "-", "--json"], table).stdout)
            .unwrap();
    assert_eq!(
        (&again["added"], &again["known"], &again["refused"]),
        (&json!(0), &json!(3), &json!(3))
    );
    assert_eq!(
        again["rows"][0],
        json!({"line": 2, "result": "known", "name": "Alder", "address": "https://alder.example/rss"})
    );
    for (list, words) in [
        ("name|url\nA|https://a.example/\n", "names its columns"),
        ("[\"https://a.example/\"", "not JSON"),
        ("<opml><outline xmlUrl='https://a.example/feed'/>", "ends too early"),
    ] {
        let reply = reply_to(&desk, &import, list);
        assert!(reply.code == 1 && reply.stderr.contains(words), "{}", reply.stderr);
    }
    let all = reply_to(&desk, &import, "http://10.0.0.1/\n");
    assert!(all.code == 1 && all.stderr.contains("none of the rows"), "{}", all.stderr);
    assert_eq!(desk.json(&["source", "list"])["sources"].as_array().unwrap().len(), 2);
}

/// A long list, twice: the second time there is nothing to do.
#[test]
fn a_long_list_comes_in_whole_and_again_without_harm() {
    let desk = Desk::new();
    let mut table = "name;url;feed_url\n".to_owned();
    for n in 0..2_000 {
        table.push_str(&format!("P{n};https://p{n}.example/;https://p{n}.example/feed\n"));
    }
    let import = ["source", "import", "-", "--json"];
    for (added, known) in [(2_000, 0), (0, 2_000)] {
        let reply = reply_to(&desk, &import, &table);
        assert_eq!(reply.code, 0, "{}", reply.stderr);
        let told: Value = serde_json::from_str(&reply.stdout).unwrap();
        assert_eq!((&told["added"], &told["known"]), (&json!(added), &json!(known)));
        assert_eq!(told["rows"].as_array().unwrap().len(), 2_000);
    }
    let exported = desk.ok(&["source", "export", "--format", "json"]);
    let other = Desk::new();
    let reply = reply_to(&other, &import, &exported);
    assert_eq!(reply.code, 0, "{}", reply.stderr);
    assert_eq!(other.ok(&["source", "export", "--format", "json"]), exported);
    assert_eq!(desk.ok(&["source", "export", "--format", "csv"]).lines().count(), 2_001);
    assert_eq!(desk.ok(&["source", "export", "--format", "urls"]).lines().count(), 2_000);
}
