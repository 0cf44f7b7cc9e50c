//! The pain points: what goes wrong in feeds, each with a feed that has it.

use super::*;

const BASE: &str = "https://example.com/blog/feed.xml";

fn bytes(document: &[u8], content_type: Option<&str>) -> Feed {
    parse(document, content_type, BASE, &Limits::default()).unwrap()
}

fn read(document: &str) -> Feed {
    bytes(document.as_bytes(), None)
}

/// An RSS feed with this in its channel.
fn rss(inside: &str) -> Feed {
    read(&format!("<rss version='2.0'><channel><title>T</title>{inside}</channel></rss>"))
}

/// The only entry of an RSS feed, with this in its item.
fn item(inside: &str) -> Entry {
    let mut feed = rss(&format!("<item><guid>1</guid>{inside}</item>"));
    assert_eq!(feed.entries.len(), 1);
    feed.entries.remove(0)
}

/// The only entry of an Atom feed, with this in it.
fn atom(inside: &str) -> Entry {
    let mut feed = read(&format!(
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id>{inside}</entry></feed>"
    ));
    assert_eq!(feed.entries.len(), 1);
    feed.entries.remove(0)
}

#[track_caller]
fn warned(feed: &Feed, code: &str) {
    assert!(feed.warnings.iter().any(|warning| warning.code == code), "{:?}", feed.warnings);
}

#[track_caller]
fn text(value: &Option<String>, expected: &str) {
    assert_eq!(value.as_deref(), Some(expected));
}

#[test]
fn p01_control_characters() {
    let feed = rss("<item><title>a\u{0}b\u{b}c\u{1f}d &#1;e</title><guid>1</guid></item>");
    text(&feed.entries[0].title, "abcd e");
    warned(&feed, "control_characters");
}

#[test]
fn p02_invalid_utf_8() {
    let document = "<rss version='2.0'><channel><title>\u{439}\u{439}\u{439}\u{439}|\u{439}</title></channel></rss>";
    let mut document = document.as_bytes().to_vec();
    let at = document.iter().position(|b| *b == b'|').unwrap();
    document[at] = 0xff;
    let feed = bytes(&document, None);
    text(&feed.title, "\u{439}\u{439}\u{439}\u{439}\u{fffd}\u{439}");
    warned(&feed, "bad_characters");
}

#[test]
fn p03_bare_ampersand() {
    let feed =
        rss("<item><title>R&D & more</title><link>https://example.com/?a=1&b=2</link></item>");
    text(&feed.entries[0].title, "R&D & more");
    text(&feed.entries[0].link, "https://example.com/?a=1&b=2");
    warned(&feed, "bare_ampersand");
}

#[test]
fn p04_undeclared_html_entities() {
    let feed = rss("<item><title>caf&eacute;&nbsp;&mdash; &hellip;&wat;</title></item>");
    text(&feed.entries[0].title, "caf\u{e9}\u{a0}\u{2014} \u{2026}&wat;");
    warned(&feed, "html_entity");
    warned(&feed, "unknown_entity");
}

#[test]
fn p05_rss_without_a_version() {
    let feed = read("<rss><channel><title>T</title><item><guid>1</guid></item></channel></rss>");
    assert_eq!((feed.version.as_deref(), feed.entries.len()), (None, 1));
    warned(&feed, "missing_version");
}

#[test]
fn p06_undeclared_prefix() {
    let feed = rss("<item><itunes:author>Ada</itunes:author></item>");
    text(&feed.entries[0].byline, "Ada");
    warned(&feed, "undeclared_prefix");
}

#[test]
fn p07_unknown_default_namespace() {
    let feed = read(
        "<rss version='2.0' xmlns='urn:house'><channel><title>T</title><item><title>1</title>\
         </item></channel></rss>",
    );
    assert_eq!((feed.title.as_deref(), feed.entries.len()), (Some("T"), 1));
    warned(&feed, "unknown_namespace");
}

#[test]
fn p08_prefixed_rss_1() {
    let feed = read(
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:rss='http://purl.org/rss/1.0/'>\
         <rss:channel rdf:about='https://example.com/'><rss:title>T</rss:title></rss:channel>\
         <rss:item rdf:about='https://example.com/1'><rss:title>One</rss:title></rss:item></rdf:RDF>",
    );
    assert_eq!((feed.format, feed.version.as_deref()), (Format::Rdf, Some("1.0")));
    text(&feed.title, "T");
    text(&feed.id, "https://example.com/");
    text(&feed.entries[0].title, "One");
}

#[test]
fn p09_something_before_the_prolog() {
    let feed = "<?xml version='1.0'?><rss version='2.0'><channel><title>T</title></channel></rss>";
    for before in [" ", "\n\n", "\u{feff} ", "<br />\n<b>Notice</b>: on line 3\n"] {
        let feed = read(&format!("{before}{feed}"));
        text(&feed.title, "T");
        warned(&feed, "before_prolog");
    }
    assert_eq!(read(&format!("\u{feff}{feed}")).warnings, []);
}

#[test]
fn p10_charset_conflicts() {
    let prolog = "<?xml version='1.0' encoding='iso-8859-1'?>";
    let utf_8 =
        format!("{prolog}<rss version='2.0'><channel><title>\u{439}</title></channel></rss>");
    let feed = bytes(utf_8.as_bytes(), Some("text/xml; charset=utf-8"));
    text(&feed.title, "\u{439}");
    warned(&feed, "charset_conflict");
    let latin = b"<?xml version='1.0' encoding='utf-8'?><rss version='2.0'><channel><title>na\xefve caf\xe9\
        </title></channel></rss>";
    let feed = bytes(latin, Some("application/rss+xml"));
    text(&feed.title, "na\u{ef}ve caf\u{e9}");
    warned(&feed, "charset_conflict");
}

#[test]
fn p11_cut_off_inside_a_cdata_section() {
    let feed = read(
        "<rss version='2.0'><channel><title>T</title><item><guid>1</guid></item>\
         <item><guid>2</guid><description><![CDATA[<p>half",
    );
    assert_eq!(feed.entries.len(), 1);
    warned(&feed, "truncated");
    let json = r#"{"version": "https://jsonfeed.org/version/1.1", "title": "T",
        "items": [{"id": "1"}, {"id": "2", "content_html": "ha"#;
    let feed = read(json);
    assert_eq!((feed.title.as_deref(), feed.entries.len()), (Some("T"), 1));
    warned(&feed, "truncated");
}

#[test]
fn p12_one_bad_item() {
    let feed = rss(
        "<item><guid>1</guid></item><item><title>x</b></i> < y<pubDate>soon</pubDate><link>http://[</link>\
         <enclosure/><guid>2</guid></item><item><guid>3</guid></item>",
    );
    let ids: Vec<_> = feed.entries.iter().filter_map(|entry| entry.id.as_deref()).collect();
    assert_eq!((feed.entries.len(), ids.first(), ids.last()), (3, Some(&"1"), Some(&"3")));
    let json = r#"{"version": "https://jsonfeed.org/version/1", "items": [{"id": "1"}, {"id": nope}, 7, {"id": "2"}]}"#;
    let feed = read(json);
    assert_eq!(feed.entries.len(), 2);
    assert_eq!(feed.warnings.iter().find(|w| w.code == "bad_item").unwrap().count, 2);
}

#[test]
fn p13_no_guid_and_a_volatile_link() {
    let feed = rss("<item><title>A</title><link>https://example.com/a?session=1</link></item>");
    let entry = &feed.entries[0];
    assert_eq!((entry.id.as_deref(), entry.title.as_deref()), (None, Some("A")));
    warned(&feed, "missing_id");
}

#[test]
fn p14_one_guid_twice() {
    let feed = rss("<item><guid>1</guid></item><item><guid>1</guid></item>");
    assert_eq!(feed.entries.len(), 2);
    warned(&feed, "duplicate_id");
}

#[test]
fn p15_unstable_guids_come_with_what_tells_them() {
    let first = item("<guid>session-1</guid><link>https://example.com/a</link><title>A</title>");
    let second = item("<guid>session-2</guid><link>https://example.com/a</link><title>A</title>");
    assert_eq!((first.link, first.title), (second.link, second.title));
}

#[test]
fn p16_xml_base_and_relative_links() {
    let feed = read(
        "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='/a/'><link href='.'/>\
         <entry xml:base='b/'><id>1</id><link href='c' xml:base='d/'/><link rel='enclosure' href='e.mp3'/>\
         </entry></feed>",
    );
    text(&feed.link, "https://example.com/a/");
    text(&feed.entries[0].link, "https://example.com/a/b/d/c");
    assert_eq!(feed.entries[0].enclosures[0].url, "https://example.com/a/b/e.mp3");
}

#[test]
fn p17_relative_addresses_inside_content() {
    let entry =
        item("<description>&lt;a href=\"/x\"&gt;x&lt;/a&gt; &lt;img src='y.png'&gt;</description>");
    let expected =
        "<a href=\"https://example.com/x\">x</a> <img src='https://example.com/blog/y.png'>";
    text(&entry.summary, expected);
    let entry = atom(
        "<content type='xhtml' xml:base='https://example.org/'><div xmlns='http://www.w3.org/1999/xhtml'>\
         <a href='z'>z</a></div></content>",
    );
    text(&entry.content, "<a href='https://example.org/z'>z</a>");
}

#[test]
fn p18_description_and_encoded_content() {
    for inside in [
        "<description>short</description><content:encoded><![CDATA[<p>long</p>]]></content:encoded>",
        "<content:encoded><![CDATA[<p>long</p>]]></content:encoded><description>short</description>",
    ] {
        let entry = item(inside);
        text(&entry.summary, "short");
        text(&entry.content, "<p>long</p>");
    }
}

#[test]
fn p19_what_is_said_of_a_picture_is_not_the_content() {
    let entry = item(
        "<media:content url='p.jpg' medium='image'><media:description>A picture</media:description>\
         </media:content><description>About</description><content:encoded>All</content:encoded>",
    );
    text(&entry.summary, "About");
    text(&entry.content, "All");
    let entry = item(
        "<description>About</description><media:content url='p.jpg'><media:description>A picture\
         </media:description></media:content>",
    );
    assert_eq!((entry.summary.as_deref(), entry.content), (Some("About"), None));
}

#[test]
fn p20_text_types_and_titles_escaped_twice() {
    text(&atom("<title>1 &lt; 2</title>").title, "1 < 2");
    text(&atom("<title type='html'>&lt;b>A&lt;/b> &amp;amp; B</title>").title, "A & B");
    text(&atom("<title type='xhtml'><div>A <b>B</b></div></title>").title, "A B");
    text(&atom("<title mode='base64'>QSAmIEI=</title>").title, "A & B");
    text(&item("<title>A &amp;amp; B &amp;#8211; C</title>").title, "A & B \u{2013} C");
    text(&item("<title><![CDATA[A &amp; B]]></title>").title, "A & B");
}

#[test]
fn p21_several_links() {
    let entry = item(
        "<atom:link rel='self' href='/self'/><link>https://example.com/page</link>\
         <atom:link href='/other'/><link>https://example.com/second</link>",
    );
    text(&entry.link, "https://example.com/page");
    let entry = atom(
        "<link rel='self' href='/s'/><link rel='alternate' type='application/pdf' href='/p'/>\
         <link rel='alternate' type='text/html' href='/h'/>",
    );
    text(&entry.link, "https://example.com/h");
    let feed = rss(
        "<atom:link rel='self' href='/feed'/><link>/home</link><atom:link rel='hub' href='https://hub.example/'/>",
    );
    text(&feed.link, "https://example.com/home");
    text(&feed.self_link, "https://example.com/feed");
    assert_eq!(feed.hubs, ["https://hub.example/"]);
}

#[test]
fn p22_dates_of_other_forms() {
    for (date, expected) in [
        ("2020/1/10 14:33:00", Some("2020-01-10T14:33:00Z")),
        ("Fri, 10 January 2020 2:33 PM EST", Some("2020-01-10T19:33:00Z")),
        ("10 janv. 2020 14:33", Some("2020-01-10T14:33:00Z")),
        ("1578666780", Some("2020-01-10T14:33:00Z")),
        ("the other day", None),
    ] {
        let entry = item(&format!("<pubDate>{date}</pubDate>"));
        let at = entry.published.map(|at| at.to_string());
        assert_eq!((at.as_deref(), entry.published_raw.as_deref()), (expected, Some(date)));
    }
}

#[test]
fn p23_json_with_the_wrong_types() {
    let feed = read(
        r#"{"version": "https://jsonfeed.org/version/1", "title": 5, "author": [{"name": "Ada"}],
        "items": [{"id": 7, "author": "Bob", "tags": [1, null], "url": ["no"], "date_published": null}]}"#,
    );
    text(&feed.title, "5");
    assert_eq!(feed.authors.len(), 1);
    let entry = &feed.entries[0];
    text(&entry.id, "7");
    assert_eq!(entry.authors[0].name.as_deref(), Some("Bob"));
    assert_eq!((entry.categories.as_slice(), entry.link.as_deref()), (&["1".to_owned()][..], None));
    warned(&feed, "bad_type");
}

#[test]
fn p24_an_enclosure_without_type_or_length() {
    let feed =
        rss("<item><enclosure url='/a.mp3' length='unknown'/><enclosure type='x/y'/></item>");
    let expected = Enclosure { url: "https://example.com/a.mp3".into(), mime: None, length: None };
    assert_eq!(feed.entries[0].enclosures, [expected]);
    warned(&feed, "bad_enclosure");
}

#[test]
fn p25_no_feed_is_not_an_empty_feed() {
    for (document, code) in [
        ("", "empty_body"),
        ("\n \u{feff}", "empty_body"),
        ("<!DOCTYPE html><html><body><h1>503</h1></body></html>", "html_not_feed"),
        ("<html><head><title>Log in</title>", "html_not_feed"),
        ("Too many requests", "not_a_feed"),
        ("<?xml version='1.0'?><error>no</error>", "not_a_feed"),
    ] {
        let error =
            parse(document.as_bytes(), Some("application/rss+xml"), BASE, &Limits::default());
        assert_eq!(error.unwrap_err().code(), code, "{document}");
    }
    assert_eq!(rss("").entries, []);
}
