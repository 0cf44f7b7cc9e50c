//! Repairs: what is mended is told, with how often, and costs nothing else.

use super::*;

const BASE: &str = "https://example.com/blog/feed.xml";

fn read(document: &str) -> Feed {
    parse(document.as_bytes(), None, BASE, &Limits::default()).unwrap()
}

/// An RSS feed with this in its channel.
fn rss(inside: &str) -> Feed {
    read(&format!("<rss version='2.0'><channel><title>T</title>{inside}</channel></rss>"))
}

/// A JSON feed with these items.
fn json(items: &str) -> Feed {
    let version = "https://jsonfeed.org/version/1.1";
    read(&format!("{{\"version\": \"{version}\", \"title\": \"T\", \"items\": {items}}}"))
}

fn item(inside: &str) -> String {
    format!("<item><guid>1</guid>{inside}</item>")
}

/// What was wrong: codes, first cases, and how often.
fn told(feed: &Feed) -> Vec<(&str, &str, u32)> {
    feed.warnings.iter().map(|w| (w.code, w.detail.as_str(), w.count)).collect()
}

#[track_caller]
fn tells(feed: &Feed, code: &str, detail: &str, count: u32) {
    assert!(told(feed).contains(&(code, detail, count)), "{code}: {:?}", told(feed));
}

#[test]
fn characters_and_entities_are_counted() {
    let title = "<title>a & b &nbsp;&eacute; <3 \u{1}&#2;</title>";
    let items: Vec<_> = (0..3).map(|n| format!("<item><guid>{n}</guid>{title}</item>")).collect();
    let feed = rss(&items.concat());
    let expected = [
        ("control_characters", "U+0001", 6),
        ("bare_ampersand", "& b &nbsp;&eacute; ", 3),
        ("bare_bracket", "<3 \u{1}&#2;</title></it", 3),
        ("html_entity", "nbsp", 6),
    ];
    assert_eq!(told(&feed), expected);
}

#[test]
fn dates_that_are_read_leniently_are_told() {
    for date in ["31 Feb 2024 10:00:00 GMT", "14 janv. 2024", "Mon, 14 Jan 2020 10:00:00 GMT"] {
        let feed = rss(&item(&format!("<pubDate>{date}</pubDate>")));
        assert!(feed.entries[0].published.is_some(), "{date}");
        assert_eq!(told(&feed), [("odd_date", date, 1)]);
    }
    let feed = rss(&item("<pubDate>Tue, 14 Jan 2020 10:00:00 GMT</pubDate>"));
    assert_eq!(told(&feed), []);
    // Whose time this is cannot be told: it is no fact.
    let unknown = "Tue, 14 Jan 2020 10:00:00 America/New_York";
    let feed = rss(&item(&format!("<pubDate>{unknown}</pubDate>")));
    assert_eq!(feed.entries[0].published, None);
    assert_eq!(feed.entries[0].published_raw.as_deref(), Some(unknown));
    assert_eq!(told(&feed), [("bad_date", unknown, 1)]);
}

#[test]
fn what_stands_in_the_head_is_told() {
    let feed = read(
        "<?xml version='1.0' encoding='klingon'?>\
         <rss version='2.0' xmlns:sy='http://purl.org/rss/1.0/modules/syndication/'><channel>\
         <title>T</title><skipDays><day>Foo</day><day>Sunday</day></skipDays>\
         <sy:updatePeriod>fortnightly</sy:updatePeriod><sy:updateBase>zzz</sy:updateBase>\
         <sy:updateFrequency>often</sy:updateFrequency></channel></rss>",
    );
    tells(&feed, "unknown_encoding", "klingon", 1);
    tells(&feed, "bad_value", "Foo", 2);
    tells(&feed, "bad_date", "zzz", 1);
    tells(&feed, "bad_number", "often", 1);
    assert_eq!(feed.skip_days, [6]);
}

#[test]
fn a_second_byte_order_mark_is_told() {
    let feed = read("\u{feff}\u{feff}<rss version='2.0'><channel><title>T</title></channel></rss>");
    assert_eq!(feed.warnings[0].code, "before_prolog");
    let feed = read("\u{feff}<rss version='2.0'><channel><title>T</title></channel></rss>");
    assert_eq!(told(&feed), []);
}

#[test]
fn what_follows_the_feed_is_told() {
    let feed = "<rss version='2.0'><channel><title>T</title></channel></rss>";
    assert_eq!(told(&read(&format!("{feed}\n<!-- fine -->\n"))), []);
    let feed = read(&format!("{feed}<html><p>x</p></html>"));
    assert_eq!((feed.warnings[0].code, feed.warnings[0].detail.as_str()), ("after_root", "html"));
}

#[test]
fn parts_beyond_what_is_kept_are_told() {
    let many: String = (0..300).map(|n| format!("<category>{n}</category>")).collect();
    let feed = rss(&item(&many));
    assert_eq!(feed.entries[0].categories.len(), 200);
    assert_eq!(told(&feed), [("too_many_parts", "categories", 1)]);
    let all: String = (0..200).map(|n| format!("<category>{n}</category>")).collect();
    assert_eq!(told(&rss(&item(&all))), []);
}

#[test]
fn a_link_may_stand_behind_its_element() {
    let feed = rss(&item("<link/>https://example.com/1<title>A</title>"));
    assert_eq!(feed.entries[0].link.as_deref(), Some("https://example.com/1"));
    assert_eq!(told(&feed), [("unclosed", "link", 1)]);
    let feed = rss("<link/> https://example.com/ <item><guid>1</guid></item>");
    assert_eq!(feed.link.as_deref(), Some("https://example.com/"));
}

#[test]
fn addresses_that_lead_nowhere_are_told() {
    let feed = rss(&item("<link>javascript:alert(1)</link>"));
    assert_eq!(feed.entries[0].link, None);
    tells(&feed, "bad_url", "javascript:alert(1)", 1);
    let feed = rss(&item("<description xml:base='http://['>x</description>"));
    tells(&feed, "bad_url", "http://[", 1);
    assert_eq!(feed.entries[0].summary.as_deref(), Some("x"));
}

#[test]
fn an_item_that_is_not_closed_ends_before_the_next() {
    let document = "<rss version='2.0'><channel><item><guid>1</guid>\n <item><guid>2</guid></item>\
                    <item><guid>3</guid></channel></rss>";
    let feed = read(document);
    let raw: Vec<_> =
        feed.entries.iter().map(|entry| document.get(entry.raw.clone()).unwrap()).collect();
    let expected = ["<item><guid>1</guid>", "<item><guid>2</guid></item>", "<item><guid>3</guid>"];
    assert_eq!(raw, expected);
}

#[test]
fn a_json_field_that_cannot_be_read_costs_no_other() {
    let feed = json(
        "[{\"id\": \"1\", \"title\": \"\\x\", \"summary\": \"two\nlines\"}, \
         {\"id\": \"2\", \"title\": nope}]",
    );
    let [one, two] = feed.entries.as_slice() else { panic!("{:?}", feed.entries) };
    assert_eq!((one.id.as_deref(), one.title.as_deref()), (Some("1"), Some("\\x")));
    assert_eq!(one.summary.as_deref(), Some("two\nlines"));
    assert_eq!((two.id.as_deref(), two.title.as_deref()), (Some("2"), None));
    assert_eq!(told(&feed), [("bad_type", "title", 1), ("bad_json", "\"\\x\"", 2)]);
}

#[test]
fn json_of_the_wrong_shape_is_used_where_it_is_plain() {
    let feed = json(
        r#"[{"id": "1", "tags": "one", "authors": "Ada",
            "attachments": {"url": "a.mp3", "mime_type": "audio/mpeg", "size_in_bytes": "5"},}]"#,
    );
    let entry = &feed.entries[0];
    assert_eq!(entry.categories, ["one"]);
    assert_eq!(entry.authors[0].name.as_deref(), Some("Ada"));
    let file = &entry.enclosures[0];
    assert_eq!((file.url.as_str(), file.length), ("https://example.com/blog/a.mp3", Some(5)));
    tells(&feed, "bad_json", "a comma too many", 1);
    assert_eq!(feed.warnings[0].code, "bad_type");
    for items in [r#"{"id": "1", "title": "A"}"#, r#"{"0": {"id": "1"}, "7": {"id": "2"}}"#] {
        let feed = json(items);
        assert_eq!(feed.entries[0].id.as_deref(), Some("1"));
        assert_eq!(told(&feed), [("bad_type", "items", 1)]);
    }
    assert_eq!(told(&json("7")), [("bad_type", "items", 1)]);
}

#[test]
fn long_json_texts_are_cut_and_told() {
    let limits = Limits { text: 40, ..Limits::default() };
    let long = "x".repeat(50);
    let document = format!("{{\"items\": [{{\"id\": \"1\", \"content_html\": \"{long}\"}}]}}");
    let feed = parse(document.as_bytes(), None, BASE, &limits).unwrap();
    assert_eq!(feed.entries[0].content.as_deref(), long.get(..40));
    tells(&feed, "text_cut", "content_html", 1);
}

#[test]
fn items_beyond_the_limit_are_not_even_cut() {
    let limits = Limits { items: 5, ..Limits::default() };
    let document = format!("{{\"items\": [{}", "{},".repeat(1_000));
    let feed = parse(document.as_bytes(), None, BASE, &limits).unwrap();
    assert_eq!(feed.entries.len(), 5);
    tells(&feed, "too_many_items", "5", 1);
}

/// An Atom feed with this before its entries, which name nobody.
fn heirs(head: &str, entries: usize) -> Feed {
    let entries: String = (0..entries).map(|n| format!("<entry><id>{n}</id></entry>")).collect();
    read(&format!("<feed xmlns='http://www.w3.org/2005/Atom'>{head}{entries}</feed>"))
}

#[test]
fn names_are_cut_before_entries_inherit_them() {
    let long = "n".repeat(100_000);
    let author = format!(
        "<author><name>{long}</name><email>{long}</email><uri>http://a.example/{long}</uri></author>"
    );
    let feed = heirs(&author, 3);
    for author in feed.entries.iter().flat_map(|entry| &entry.authors).chain(&feed.authors) {
        assert_eq!(author.name.as_deref(), long.get(..1_000));
        assert_eq!(author.email.as_deref(), long.get(..1_000));
        assert_eq!(author.uri, None);
    }
    assert_eq!(feed.entries[2].authors.len(), 1);
}

#[test]
fn entries_inherit_no_more_than_the_limit_of_all_together() {
    let name = "n".repeat(490);
    let author = |n| format!("<author><name>{n}{name}</name></author>");
    let authors: String = (0..10).map(author).collect();
    assert_eq!(heirs(&authors, 20).entries[19].authors.len(), 10);
    let feed = heirs(&authors, 9_000);
    let inherited = feed.entries.iter().flat_map(|entry| &entry.authors).map(Author::bytes);
    let total: usize = inherited.sum();
    assert!(total <= Limits::default().inherited && total > 1 << 20, "{total}");
    assert!(feed.entries.iter().all(|entry| entry.authors == feed.entries[0].authors));
    tells(&feed, "too_many_parts", "inherited authors", 1);
}

#[test]
fn a_base_that_is_longer_than_any_address_is_passed_over() {
    let long = "b".repeat(400_000);
    let feed = read(&format!(
        "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://a.example/{long}/'>\
         <entry><link href='x'/><content type='html'>&lt;img src=\"x\"></content></entry></feed>"
    ));
    assert_eq!(feed.entries[0].link.as_deref(), Some("https://example.com/blog/x"));
    tells(&feed, "bad_url", &format!("http://a.example/{}", "b".repeat(83)), 1);
}

#[test]
fn relative_addresses_of_a_document_grow_no_further_than_its_limit() {
    let (base, links) = ("b".repeat(1_900), "&lt;img src=\"x\">".repeat(10_000));
    let entry = format!("<entry><id>1</id><content type='html'>{links}</content></entry>");
    let last = "<entry><id>2</id><link href='y'/></entry>";
    let feed = read(&format!(
        "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='http://a.example/{base}/'>{entry}{last}</feed>"
    ));
    let content = feed.entries[0].content.as_deref().unwrap();
    assert!(content.len() < 6 << 20 && content.ends_with("<img src=\"x\">"), "{}", content.len());
    assert_eq!(feed.entries[1].link, None);
    tells(&feed, "too_many_parts", "relative addresses", 1);
}

#[test]
fn in_atom_authors_are_those_of_the_source_or_the_feed() {
    let feed = read(
        "<feed xmlns='http://www.w3.org/2005/Atom'><author><name>Feed</name></author>\
         <entry><id>1</id></entry>\
         <entry><id>2</id><source><author><name>Source</name></author><title>S</title></source></entry>\
         <entry><id>3</id><source><author><name>Source</name></author></source>\
         <author><name>Own</name></author></entry></feed>",
    );
    let names: Vec<_> =
        feed.entries.iter().map(|entry| entry.authors[0].name.as_deref().unwrap()).collect();
    assert_eq!(names, ["Feed", "Source", "Own"]);
    assert!(feed.entries.iter().all(|entry| entry.authors.len() == 1));
    let feed = rss(&format!("<managingEditor>Ed Itor</managingEditor>{}", item("")));
    assert_eq!(feed.entries[0].authors, []);
}
