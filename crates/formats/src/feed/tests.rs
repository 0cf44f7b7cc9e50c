//! Feeds as they are served, right and wrong.

use proptest::prelude::*;

use super::*;

const BASE: &str = "https://example.com/blog/feed.xml";

fn read(document: &str) -> Feed {
    parse(document.as_bytes(), None, BASE, &Limits::default()).unwrap()
}

/// The only entry of an RSS feed with these elements in its item.
fn item(elements: &str) -> Entry {
    let feed = read(&format!("<rss><channel><item>{elements}</item></channel></rss>"));
    let [entry] = feed.entries.as_slice() else { panic!("{} entries", feed.entries.len()) };
    entry.clone()
}

/// The only entry of an Atom feed with these elements in it.
fn atom_entry(elements: &str) -> Entry {
    let feed = read(&format!(
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry>{elements}</entry></feed>"
    ));
    let [entry] = feed.entries.as_slice() else { panic!("{} entries", feed.entries.len()) };
    entry.clone()
}

fn error(document: &str) -> &'static str {
    parse(document.as_bytes(), None, BASE, &Limits::default()).unwrap_err().code()
}

/// What was wrong, apart from what most documents here leave out.
fn codes(feed: &Feed) -> Vec<&'static str> {
    let told = feed.warnings.iter().map(|warning| warning.code);
    told.filter(|code| !matches!(*code, "missing_version" | "missing_id")).collect()
}

#[test]
fn rss_2() {
    let document = r#"<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/"
     xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel>
  <title>Example &amp; Sons</title><link>https://example.com/</link><description>All of it</description>
  <atom:link href="https://example.com/feed.xml" rel="self"/><atom:link rel="hub" href="https://hub.example/"/>
  <atom:link rel="prev-archive" href="/2023.xml"/>
  <language>en-gb</language><generator>Mill 1</generator><ttl>60</ttl>
  <lastBuildDate>Sat, 07 Sep 2002 09:42:31 GMT</lastBuildDate>
  <skipHours><hour>0</hour><hour>24</hour><hour>99</hour></skipHours><skipDays><day>Sunday</day></skipDays>
  <image><url>/logo.png</url><title>Logo</title><link>https://example.com/</link></image>
  <item>
    <title>One &lt;b&gt;big&lt;/b&gt; thing</title><link>https://example.com/1</link>
    <guid isPermaLink="false">tag:1</guid><pubDate>Sat, 07 Sep 2002 00:00:01 GMT</pubDate>
    <description>Short &lt;i&gt;text&lt;/i&gt;</description>
    <content:encoded><![CDATA[<p>Long & text</p>]]></content:encoded>
    <dc:creator>Ada</dc:creator><category>News</category><category>News</category>
    <enclosure url="https://example.com/1.mp3" length="123" type="audio/mpeg"/>
  </item>
  <item><guid>https://example.com/2</guid><source url="x"><title>No</title></source></item>
</channel></rss>"#;
    let feed = read(document);
    assert_eq!(feed.format, Format::Rss);
    assert_eq!(feed.title.as_deref(), Some("Example & Sons"));
    assert_eq!(feed.link.as_deref(), Some("https://example.com/"));
    assert_eq!(feed.self_link.as_deref(), Some("https://example.com/feed.xml"));
    assert_eq!(feed.hubs, ["https://hub.example/"]);
    assert_eq!(feed.paging.prev_archive.as_deref(), Some("https://example.com/2023.xml"));
    assert_eq!(feed.image.as_deref(), Some("https://example.com/logo.png"));
    assert_eq!(
        (feed.ttl, feed.skip_hours.as_slice(), feed.skip_days.as_slice()),
        (Some(60), &[0][..], &[6][..])
    );
    assert_eq!(feed.updated.unwrap().to_string(), "2002-09-07T09:42:31Z");
    assert_eq!(codes(&feed), ["bad_number"]);
    let [one, two] = feed.entries.as_slice() else { panic!("{} entries", feed.entries.len()) };
    assert_eq!(one.title.as_deref(), Some("One big thing"));
    assert_eq!((one.id.as_deref(), one.permalink), (Some("tag:1"), false));
    assert_eq!(one.summary.as_deref(), Some("Short <i>text</i>"));
    assert_eq!(one.content.as_deref(), Some("<p>Long & text</p>"));
    assert_eq!(one.authors, [Author { name: Some("Ada".into()), ..Author::default() }]);
    assert_eq!(one.categories, ["News"]);
    let mp3 = Enclosure {
        url: "https://example.com/1.mp3".into(),
        mime: Some("audio/mpeg".into()),
        length: Some(123),
    };
    assert_eq!(one.enclosures, [mp3]);
    assert_eq!(one.published_raw.as_deref(), Some("Sat, 07 Sep 2002 00:00:01 GMT"));
    assert!(document.get(one.raw.clone()).unwrap().starts_with("<item>\n    <title>One"));
    assert!(document.get(one.raw.clone()).unwrap().ends_with("</item>"));
    assert_eq!((two.link.as_deref(), two.permalink), (Some("https://example.com/2"), true));
    assert_eq!(two.title, None);
}

#[test]
fn rss_1_has_its_items_beside_the_channel() {
    let feed = read(
        r#"<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
        <channel rdf:about="https://example.com/"><title>R</title><link>https://example.com/</link>
        <items><rdf:Seq><rdf:li resource="https://example.com/1"/></rdf:Seq></items></channel>
        <image rdf:about="i"><title>Not this</title><url>https://example.com/i.png</url></image>
        <item rdf:about="https://example.com/1"><title>One</title>
        <dc:date>2002-09-07T00:00:01Z</dc:date><dc:subject>S</dc:subject></item></rdf:RDF>"#,
    );
    assert_eq!((feed.format, feed.title.as_deref()), (Format::Rdf, Some("R")));
    let entry = &feed.entries[0];
    assert_eq!(entry.id.as_deref(), Some("https://example.com/1"));
    assert_eq!(entry.link.as_deref(), Some("https://example.com/1"));
    assert_eq!(entry.published.unwrap().day(), "2002-09-07");
    assert_eq!(entry.categories, ["S"]);
}

#[test]
fn atom_1() {
    let feed = read(
        r#"<a:feed xmlns:a="http://www.w3.org/2005/Atom" xml:lang="de" xml:base="https://example.org/x/">
        <a:title type="html">A &amp;amp; B</a:title><a:subtitle>sub</a:subtitle>
        <a:link href="y"/><a:link rel="self" href="feed"/><a:updated>2003-12-13T18:30:02Z</a:updated>
        <a:author><a:name>Feed Author</a:name></a:author>
        <a:entry xml:base="z/"><a:id>urn:1</a:id><a:title>1 &lt; 2</a:title>
        <a:link rel="alternate" type="application/json" href="j"/><a:link href="1"/>
        <a:link rel="enclosure" href="1.mp3" type="audio/mpeg" length="9"/>
        <a:published>2003-12-13T08:29:29-04:00</a:published><a:updated>2003-12-13T18:30:02Z</a:updated>
        <a:author><a:name>Ada</a:name><a:email>ada@example.org</a:email><a:uri>/ada</a:uri></a:author>
        <a:category term="t" label="T"/>
        <a:source><a:title>Elsewhere</a:title><a:id>urn:other</a:id></a:source>
        <a:content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>x <b>y</b></p></div></a:content>
        </a:entry></a:feed>"#,
    );
    assert_eq!(feed.format, Format::Atom);
    assert_eq!((feed.title.as_deref(), feed.language.as_deref()), (Some("A & B"), Some("de")));
    assert_eq!(feed.link.as_deref(), Some("https://example.org/x/y"));
    assert_eq!(feed.authors[0].name.as_deref(), Some("Feed Author"));
    let entry = &feed.entries[0];
    assert_eq!((entry.id.as_deref(), entry.title.as_deref()), (Some("urn:1"), Some("1 < 2")));
    assert_eq!(entry.link.as_deref(), Some("https://example.org/x/z/1"));
    assert_eq!(entry.enclosures[0].url, "https://example.org/x/z/1.mp3");
    assert_eq!(entry.content.as_deref(), Some("<p>x <b>y</b></p>"));
    assert_eq!(entry.authors[0].email.as_deref(), Some("ada@example.org"));
    assert_eq!(entry.authors[0].uri.as_deref(), Some("https://example.org/ada"));
    assert_eq!(entry.categories, ["t"]);
    assert_eq!(entry.published.unwrap().to_string(), "2003-12-13T12:29:29Z");
    assert_eq!(entry.updated.unwrap().to_string(), "2003-12-13T18:30:02Z");
}

#[test]
fn atom_0_3() {
    let feed = read(
        r#"<feed version="0.3" xmlns="http://purl.org/atom/ns#"><title>Old</title><tagline>t</tagline>
        <entry><id>1</id><issued>2003-12-13T08:29:29Z</issued><modified>2003-12-14</modified>
        <content type="text/html" mode="escaped">&lt;p&gt;x&lt;/p&gt;</content></entry></feed>"#,
    );
    let entry = &feed.entries[0];
    assert_eq!(feed.description.as_deref(), Some("t"));
    assert_eq!(entry.content.as_deref(), Some("<p>x</p>"));
    assert_eq!(entry.published.unwrap().day(), "2003-12-13");
    assert_eq!(entry.updated.unwrap().day(), "2003-12-14");
}

#[test]
fn json_feed() {
    let document = r#"{"version": "https://jsonfeed.org/version/1.1", "title": "J", "home_page_url": "/", "next_url": "?2",
        "authors": [{"name": "Ada"}], "hubs": [{"type": "WebSub", "url": "https://hub.example/"}],
        "items": [
          {"id": 7, "url": "1", "title": "One", "content_text": "1 < 2", "date_published": "2010-02-07T14:04:00-05:00",
           "tags": ["a", 3], "attachments": [{"url": "a.mp3", "mime_type": "audio/mpeg", "size_in_bytes": 5}]},
          {"id": "2", "external_url": "https://elsewhere.example/", "content_html": "<p>x</p>", "author": {"name": "Bob"}},
          "nonsense"]}"#;
    let feed = read(document);
    assert_eq!((feed.format, feed.link.as_deref()), (Format::Json, Some("https://example.com/")));
    assert_eq!(feed.paging.next.as_deref(), Some("https://example.com/blog/feed.xml?2"));
    assert_eq!(feed.hubs, ["https://hub.example/"]);
    let [one, two] = feed.entries.as_slice() else { panic!("{} entries", feed.entries.len()) };
    assert_eq!(
        (one.id.as_deref(), one.link.as_deref()),
        (Some("7"), Some("https://example.com/blog/1"))
    );
    assert_eq!(one.content.as_deref(), Some("1 &lt; 2"));
    assert_eq!(one.categories, ["a", "3"]);
    assert_eq!(one.enclosures[0].length, Some(5));
    assert!(document.get(one.raw.clone()).is_some_and(|raw| raw.starts_with("{\"id\": 7")));
    assert_eq!(two.raw.end, document.len() - 24);
    assert_eq!(two.link.as_deref(), Some("https://elsewhere.example/"));
    assert_eq!(two.authors[0].name.as_deref(), Some("Bob"));
    assert_eq!(codes(&feed), ["bad_type", "bad_item"]);
}

#[test]
fn control_characters_bare_ampersands_and_html_entities() {
    let entry =
        item("<title>A\u{1}B &amp; C & D &eacute;&#8211;&unknown;</title><link>/x?a=1&b=2</link>");
    assert_eq!(entry.title.as_deref(), Some("AB & C & D \u{e9}\u{2013}&unknown;"));
    assert_eq!(entry.link.as_deref(), Some("https://example.com/x?a=1&b=2"));
}

#[test]
fn undeclared_prefixes_mean_what_they_usually_mean() {
    let entry = item(
        "<content:encoded>c</content:encoded><dc:creator>Ada</dc:creator><x:title>no</x:title>",
    );
    assert_eq!((entry.content.as_deref(), entry.title), (Some("c"), None));
    assert_eq!(entry.authors.len(), 1);
}

#[test]
fn something_before_the_prolog() {
    let feed = read(
        "\u{feff}\n <br /><b>Warning</b>: x\n<?xml version='1.0'?><rss><channel><title>T</title></channel></rss>",
    );
    assert_eq!(feed.title.as_deref(), Some("T"));
}

#[test]
fn a_feed_that_is_cut_off_keeps_its_whole_entries() {
    for end in ["", "<", "<title>Half <b", "<description><![CDATA[half", "<title>x</title><link>y"]
    {
        let feed = read(&format!(
            "<rss><channel><title>T</title><item><title>1</title></item><item>{end}"
        ));
        assert_eq!((feed.entries.len(), codes(&feed)), (1, vec!["truncated"]), "{end}");
    }
}

#[test]
fn wrong_end_tags_cost_little() {
    let feed = read(
        "<rss><channel><title>T</Title><link>https://example.com/</link></channel>\
         <item><title>1</titel><guid>a</guid></item><item><title>2</title><guid>b</guid>\
         <item><title>3</title></x></item></rss>",
    );
    assert_eq!(feed.entries.len(), 3);
    assert_eq!(feed.entries[1].id.as_deref(), Some("b"));
    assert_eq!(feed.entries[2].title.as_deref(), Some("3"));
}

#[test]
fn html_that_is_simply_there() {
    let entry = item("<description>a <p>b<br>c</p> <img src='x'> d</description><title>t</title>");
    assert_eq!(
        entry.summary.as_deref(),
        Some("a <p>b<br>c</p> <img src='https://example.com/blog/x'> d")
    );
    assert_eq!(entry.title.as_deref(), Some("t"));
}

#[test]
fn plain_atom_text_is_escaped_and_html_is_not() {
    let entry = atom_entry(
        "<summary>1 &lt; 2</summary><content type='html'>&lt;p&gt;x&lt;/p&gt;</content>",
    );
    assert_eq!(entry.summary.as_deref(), Some("1 &lt; 2"));
    assert_eq!(entry.content.as_deref(), Some("<p>x</p>"));
}

#[test]
fn authors_of_all_kinds() {
    let entry = item("<author>ada@example.com (Ada)</author><itunes:author>Show</itunes:author>");
    let ada = Author { name: Some("Ada".into()), email: Some("ada@example.com".into()), uri: None };
    assert_eq!(entry.authors, [ada]);
    let entry = item("<itunes:author>Show</itunes:author>");
    assert_eq!(entry.authors[0].name.as_deref(), Some("Show"));
}

#[test]
fn media_groups_hold_files_and_their_words() {
    let entry = item(
        "<media:group><media:content url='v.mp4' type='video/mp4' fileSize='7'><media:title>V</media:title>\
         </media:content><media:description>about</media:description></media:group>",
    );
    assert_eq!(entry.enclosures[0].url, "https://example.com/blog/v.mp4");
    assert_eq!(entry.enclosures[0].length, Some(7));
    assert_eq!((entry.title.as_deref(), entry.summary.as_deref()), (Some("V"), Some("about")));
}

#[test]
fn names_in_any_case() {
    let feed = read(
        "<RSS><Channel><TITLE>T</Title><ITEM><PubDate>2020-01-01</pubdate></Item></Channel></RSS>",
    );
    assert_eq!((feed.title.as_deref(), feed.entries.len()), (Some("T"), 1));
    assert!(feed.entries[0].published.is_some());
    assert_eq!(codes(&feed), Vec::<&str>::new());
}

#[test]
fn podcasts_file_under_categories_in_categories_and_keywords() {
    let entry = item(
        "<itunes:category text='A'><itunes:category text='B'/></itunes:category>\
         <itunes:keywords>c, d,,c</itunes:keywords><media:category>e</media:category>",
    );
    assert_eq!(entry.categories, ["A", "B", "c", "d", "e"]);
}

#[test]
fn a_date_that_cannot_be_read_is_kept_raw() {
    let feed = read("<rss><channel><item><pubDate>soon</pubDate></item></channel></rss>");
    let entry = &feed.entries[0];
    assert_eq!((entry.published, entry.published_raw.as_deref()), (None, Some("soon")));
    assert_eq!(codes(&feed), ["bad_date"]);
}

#[test]
fn entities_of_a_document_type_are_not_expanded() {
    let entry = read(
        "<!DOCTYPE rss [<!ENTITY a 'boom'><!ENTITY b SYSTEM 'file:///etc/passwd'>]>\
         <rss><channel><item><title>&a;&b;</title></item></channel></rss>",
    );
    assert_eq!(entry.entries[0].title.as_deref(), Some("&a;&b;"));
}

#[test]
fn limits_hold() {
    let limits =
        Limits { bytes: 10_000, depth: 10, items: 2, attributes: 1, text: 20, ..Limits::default() };
    let read = |document: &str| parse(document.as_bytes(), None, BASE, &limits);
    let many = format!("<rss><channel>{}</channel></rss>", "<item/>".repeat(5));
    let feed = read(&many).unwrap();
    assert_eq!((feed.entries.len(), codes(&feed)), (2, vec!["too_many_items"]));
    let long = format!("<rss><channel><title>{}</title></channel></rss>", "&amp;\u{e9}".repeat(50));
    let feed = read(&long).unwrap();
    assert_eq!(codes(&feed), ["text_cut"]);
    assert!(feed.title.unwrap().len() <= 20);
    let long = format!("<rss><channel><title>{}</title></channel></rss>", "x".repeat(50));
    assert_eq!(read(&long).unwrap().title.unwrap().len(), 20);
    let deep = format!("<rss><channel>{}", "<x>".repeat(20));
    assert_eq!(read(&deep).unwrap_err().code(), "too_deep");
    let deep = format!("<rss><channel><title>{}", "<b>".repeat(20));
    assert_eq!(read(&deep).unwrap_err().code(), "too_deep");
    assert_eq!(read(&" ".repeat(10_001)).unwrap_err().code(), "too_large");
    let enclosure = "<rss><channel><item><enclosure type='a/b' url='u'/></item></channel></rss>";
    assert!(read(enclosure).unwrap().entries[0].enclosures.is_empty());
}

#[test]
fn a_flood_of_categories_is_cut_off() {
    let categories: String = (0..50_000).map(|n| format!("<category>{n}</category>")).collect();
    assert_eq!(item(&categories).categories.len(), 200);
}

#[test]
fn what_is_no_feed_has_a_code() {
    for (document, code) in [
        ("", "empty_body"),
        (" \r\n\u{feff} ", "empty_body"),
        ("<!DOCTYPE html><html><head><title>x</title></head></html>", "html_not_feed"),
        ("<!doctype html><p>x", "html_not_feed"),
        ("<urlset><url/></urlset>", "not_a_feed"),
        ("just text", "not_a_feed"),
        ("{\"error\": \"no\"}", "not_a_feed"),
        ("{\"version\": \"https://jsonfeed.org/version/1\", \"items\": [", "malformed"),
        ("<rss><channel>", "malformed"),
    ] {
        assert_eq!(error(document), code, "{document}");
    }
}

#[test]
fn another_encoding_is_decoded() {
    let mut document =
        b"<?xml version='1.0' encoding='iso-8859-1'?><rss><channel><title>caf".to_vec();
    document.extend_from_slice(b"\xe9</title></channel></rss>");
    let feed = parse(&document, Some("text/xml"), BASE, &Limits::default()).unwrap();
    assert_eq!(feed.title.as_deref(), Some("caf\u{e9}"));
}

proptest! {
    #[test]
    fn any_bytes_end_well(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = parse(&bytes, None, BASE, &Limits::default()) {
            prop_assert!(!error.code().is_empty());
        }
    }

    #[test]
    fn any_pieces_of_a_feed_end_well(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<channel>", "</channel>", "<item>", "</item>", "<entry>", "</entry>", "<title>", "</title>",
            "<link>", "<link href='x'/>", "<author>", "<name>", "</author>", "<media:group>", "<image>",
            "<description>", "</description>", "<![CDATA[", "]]>", "&amp;", "&", "<", "text", "<b>", "</b>",
            "<content type='xhtml'>", "</content>", "<div>", "</div>", "xml:base='", "<!--", "-->", "\u{e9}",
        ]), 0..40),
        root in prop::sample::select(vec!["<rss>", "<feed>", "<rdf:RDF>"]),
    ) {
        let document = format!("{root}{}", pieces.concat());
        if let Ok(feed) = parse(document.as_bytes(), None, BASE, &Limits::default()) {
            for entry in &feed.entries {
                prop_assert!(document.get(entry.raw.clone()).is_some_and(|raw| raw.starts_with('<')));
            }
        }
    }
}

#[test]
fn the_place_of_an_entry_is_in_the_bytes_that_were_served() {
    let document = |encoding: &str| {
        format!(
            "<?xml version='1.0' encoding='{encoding}'?><rss version='2.0'><channel><title>\u{e4}\u{f6}\
             \u{fc}</title><item><title>\u{e9}t\u{e9}</title></item><item><guid>2</guid></item></channel></rss>"
        )
    };
    let wide = |text: &str, order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(order).collect()
    };
    let encode = |label: &str| encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
    let latin = encode("iso-8859-1").encode(&document("iso-8859-1")).0.into_owned();
    let chinese = encode("gb18030").encode(&document("gb18030")).0.into_owned();
    let mut damaged = document("utf-8").into_bytes();
    let at = damaged.windows(2).position(|pair| pair == "\u{f6}".as_bytes()).unwrap();
    damaged[at + 1] = b' ';
    let cases = [
        ("plain", document("utf-8").into_bytes()),
        ("marked", format!("\u{feff}{}", document("utf-8")).into_bytes()),
        ("little", wide(&document("utf-16"), u16::to_le_bytes)),
        ("big", wide(&document("utf-16"), u16::to_be_bytes)),
        ("latin", latin),
        ("chinese", chinese),
        ("damaged", damaged),
    ];
    for (name, bytes) in cases {
        let feed = parse(&bytes, None, BASE, &Limits::default()).unwrap();
        let raws = feed.entries.iter().map(|entry| {
            let slice = bytes.get(entry.raw.clone()).unwrap();
            let text = match name {
                "little" => encoding_rs::UTF_16LE.decode(slice).0,
                "big" => encoding_rs::UTF_16BE.decode(slice).0,
                "latin" => encoding_rs::WINDOWS_1252.decode(slice).0,
                "chinese" => encoding_rs::GB18030.decode(slice).0,
                _ => String::from_utf8_lossy(slice),
            };
            text.into_owned()
        });
        let expected = ["<item><title>\u{e9}t\u{e9}</title></item>", "<item><guid>2</guid></item>"];
        assert_eq!(raws.collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn a_pace_that_is_written_wrongly_is_read_as_it_was_meant() {
    let pace = |inner: &str| {
        let feed = read(&format!("<rss version='2.0'><channel>{inner}</channel></rss>"));
        (feed.ttl, feed.update_minutes)
    };
    let often = |period: &str, times: &str| {
        pace(&format!(
            "<sy:updatePeriod>{period}</sy:updatePeriod>\
             <sy:updateFrequency>{times}</sy:updateFrequency>"
        ))
        .1
    };
    for (ttl, minutes) in [
        ("0", Some(0)),
        ("0.1", Some(1)),
        ("60.0", Some(60)),
        ("99999999999999", Some(u32::MAX)),
        ("-5", None),
        ("NaN", None),
        ("soon", None),
    ] {
        assert_eq!(pace(&format!("<ttl>{ttl}</ttl>")).0, minutes, "{ttl}");
    }
    assert_eq!(often("dayly", "1"), Some(1_440));
    assert_eq!(often("hourly", "300"), Some(1));
    assert_eq!(often("hourly", "0.1"), Some(600));
    assert_eq!(often("weekly", "0"), Some(10_080));
    assert_eq!(often("now and then", "2"), None);
}

#[test]
fn what_feeds_say_of_their_rhythm_and_their_pages() {
    let feed = read(
        "<rss version='2.0'><channel><ttl>often</ttl><skipDays><day>Mon</day><day>monday</day></skipDays>\
         <sy:updatePeriod>Daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>\
         <sy:updateBase>2000-01-01T12:00+00:00</sy:updateBase><pubDate>2020-01-01</pubDate><fh:archive/>\
         <atom:link rel='first' href='/1'/><atom:link rel='prev' href='/2'/><atom:link rel='next' href='/4'/>\
         <atom:link rel='last' href='/9'/><atom:link rel='current' href='/feed'/></channel></rss>",
    );
    assert_eq!((feed.ttl, feed.skip_days.as_slice()), (None, &[0][..]));
    assert_eq!(feed.update_minutes, Some(360));
    assert_eq!(feed.update_base.unwrap().day(), "2000-01-01");
    assert_eq!(feed.published, feed.updated);
    let paging = &feed.paging;
    let links = [&paging.first, &paging.previous, &paging.next, &paging.last, &paging.current];
    let links = links.map(|link| link.as_deref().unwrap().rsplit('/').next().unwrap());
    assert_eq!((links, paging.archive), (["1", "2", "4", "9", "feed"], true));
    assert!(codes(&feed).contains(&"bad_number"));
}

#[test]
fn entries_that_are_gone() {
    let feed = read(
        "<feed xmlns='http://www.w3.org/2005/Atom' xmlns:at='http://purl.org/atompub/tombstones/1.0'>\
         <at:deleted-entry ref='urn:1' when='2005-11-29T12:11:12Z'><at:comment>gone</at:comment>\
         </at:deleted-entry><entry><id>urn:2</id></entry></feed>",
    );
    let gone: Vec<_> =
        feed.deleted.iter().map(|gone| (gone.id.as_str(), gone.at.unwrap().day())).collect();
    assert_eq!(gone, [("urn:1", "2005-11-29".to_owned())]);
    assert_eq!(feed.entries.len(), 1);
}

#[test]
fn podcasts() {
    let feed = read(
        "<rss version='2.0'><channel><podcast:guid>g</podcast:guid><podcast:locked>yes</podcast:locked>\
         <podcast:medium>music</podcast:medium><podcast:funding url='/give'>Give</podcast:funding>\
         <itunes:explicit>clean</itunes:explicit><itunes:new-feed-url>/new</itunes:new-feed-url>\
         <image><url>/small.png</url></image><itunes:image href='/art.png'/>\
         <item><guid>1</guid><itunes:duration>1:02:03</itunes:duration><itunes:season>2</itunes:season>\
         <itunes:episode>7</itunes:episode><itunes:episodeType>bonus</itunes:episodeType>\
         <itunes:image href='/7.png'/><podcast:chapters url='/7.json' type='application/json'/>\
         <podcast:transcript url='/7.vtt' type='text/vtt'/></item></channel></rss>",
    );
    assert_eq!(feed.image.as_deref(), Some("https://example.com/art.png"));
    let podcast = &feed.podcast;
    assert_eq!((podcast.guid.as_deref(), podcast.medium.as_deref()), (Some("g"), Some("music")));
    assert_eq!((podcast.locked, podcast.explicit), (Some(true), Some(false)));
    assert_eq!(podcast.funding, ["https://example.com/give"]);
    assert_eq!(podcast.moved_to.as_deref(), Some("https://example.com/new"));
    let entry = &feed.entries[0];
    let episode = &entry.episode;
    assert_eq!((episode.seconds, episode.season, episode.number), (Some(3_723), Some(2), Some(7)));
    assert_eq!(episode.kind.as_deref(), Some("bonus"));
    assert_eq!(episode.chapters.as_deref(), Some("https://example.com/7.json"));
    assert_eq!(episode.transcripts[0].url, "https://example.com/7.vtt");
    assert_eq!(entry.image.as_deref(), Some("https://example.com/7.png"));
}

#[test]
fn what_else_an_entry_says() {
    let entry = item(
        "<comments>/c</comments><source url='https://elsewhere.example/feed'>Elsewhere</source>\
         <media:thumbnail url='/t.png'/><dc:rights>free</dc:rights><guid isPermaLink='true'>p?q=1</guid>",
    );
    assert_eq!(entry.comments.as_deref(), Some("https://example.com/c"));
    let source = entry.source.unwrap();
    assert_eq!(source.url.as_deref(), Some("https://elsewhere.example/feed"));
    assert_eq!(source.title.as_deref(), Some("Elsewhere"));
    assert_eq!(entry.image.as_deref(), Some("https://example.com/t.png"));
    assert_eq!(entry.rights.as_deref(), Some("free"));
    assert_eq!(
        (entry.link.as_deref(), entry.permalink),
        (Some("https://example.com/blog/p?q=1"), true)
    );
    let entry = atom_entry("<source><title>S</title><link href='/s'/></source><rights>r</rights>");
    let source = entry.source.unwrap();
    assert_eq!(
        (source.title.as_deref(), source.url.as_deref()),
        (Some("S"), Some("https://example.com/s"))
    );
}
