//! Feeds read by us and by our peers, in turns over the same documents: megabytes per CPU-second.
//!
//! The peers are `feed-rs`, `feedparser-rs` and a bare loop over the events of `quick-xml`, which
//! extracts nothing. Ours extracts everything, dates included.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Context as _;
use feedmill_formats::feed::{self, Limits};
use quick_xml::Reader;
use quick_xml::events::Event;

use crate::report::{Better, Report, cpu_time};

/// Where the documents are said to have been served.
const BASE: &str = "https://news.example/feed.xml";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often every document is read
    #[arg(long, default_value_t = 20)]
    rounds: usize,
}

/// Something that reads a document and says how many entries it found.
type Parser = fn(&[u8]) -> anyhow::Result<usize>;

pub(crate) fn run(args: &Args) -> anyhow::Result<Report> {
    let documents = documents();
    let size: usize = documents.iter().map(Vec::len).sum();
    let parsers: [(&str, Parser); 4] = [
        ("ours_mb_s", ours),
        ("feed_rs_mb_s", feed_rs_reads),
        ("feedparser_rs_mb_s", feedparser_rs_reads),
        ("quick_xml_mb_s", events),
    ];
    // In turns, and the best of all rounds: what else the machine does only ever adds.
    let mut best = [const { Vec::new() }; 4];
    for round in 0..args.rounds {
        for ((name, parser), best) in parsers.iter().zip(&mut best) {
            for (at, document) in documents.iter().enumerate() {
                let began = cpu_time();
                black_box(parser(black_box(document)).with_context(|| (*name).to_owned())?);
                let spent = cpu_time() - began;
                match best.get_mut(at) {
                    Some(best) if round > 0 => *best = spent.min(*best),
                    _ => best.push(spent),
                }
            }
        }
    }
    let mut report = Report::new("parse");
    let megabytes = size as f64 / 1e6;
    report.figure("documents_mb", megabytes);
    let rates = best.map(|best| megabytes / best.iter().sum::<Duration>().as_secs_f64());
    for ((name, _), rate) in parsers.iter().zip(rates) {
        report.figure(name, rate);
    }
    let [ours, feed_rs, feedparser_rs, quick_xml] = rates;
    report.bar("ratio_to_feed_rs", ours / feed_rs, 2.0, Better::Higher);
    report.figure("ratio_to_feedparser_rs", ours / feedparser_rs);
    report.bar("ratio_to_quick_xml", ours / quick_xml, 0.6, Better::Higher);
    Ok(report)
}

fn ours(document: &[u8]) -> anyhow::Result<usize> {
    let feed = feed::parse(document, Some("application/rss+xml"), BASE, &Limits::default())?;
    anyhow::ensure!(
        feed.entries.iter().all(|entry| entry.published.is_some()),
        "a date is missing"
    );
    Ok(feed.entries.len())
}

fn feed_rs_reads(document: &[u8]) -> anyhow::Result<usize> {
    let parser = feed_rs::parser::Builder::new().base_uri(Some(BASE)).build();
    Ok(parser.parse(document)?.entries.len())
}

fn feedparser_rs_reads(document: &[u8]) -> anyhow::Result<usize> {
    Ok(feedparser_rs::parse(document)?.entries.len())
}

fn events(document: &[u8]) -> anyhow::Result<usize> {
    let mut reader = Reader::from_str(std::str::from_utf8(document)?);
    let mut seen = 0;
    loop {
        match reader.read_event()? {
            Event::Eof => return Ok(seen),
            event => {
                black_box(&event);
                seen += 1;
            }
        }
    }
}

/// RSS and Atom documents of 10 KB to 2 MB with HTML in CDATA sections; the same in every run.
fn documents() -> Vec<Vec<u8>> {
    let sizes = [10, 20, 40, 80, 150, 300, 600, 1_000, 2_000];
    let mut words = Words(7);
    let mut documents = Vec::new();
    for (at, kilobytes) in sizes.into_iter().enumerate() {
        let document =
            if at % 3 == 2 { atom(&mut words, kilobytes) } else { rss(&mut words, kilobytes) };
        documents.push(document.into_bytes());
    }
    documents
}

fn rss(words: &mut Words, kilobytes: usize) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" xmlns:media=\"http://search.yahoo.com/mrss/\" xmlns:atom=\"http://www.w3.org/2005/Atom\">\n<channel>\n  <title>The Daily Example</title>\n  <link>https://news.example/</link>\n  <description>All the news &amp; more</description>\n  <atom:link href=\"https://news.example/feed.xml\" rel=\"self\" type=\"application/rss+xml\"/>\n  <language>en-GB</language>\n  <lastBuildDate>Sun, 15 Nov 2026 09:30:00 +0000</lastBuildDate>\n  <ttl>15</ttl>\n",
    );
    let mut number = 0;
    while out.len() < kilobytes * 1_000 {
        number += 1;
        let (title, name) = (words.some(8), words.some(2));
        out.push_str(&format!(
            "  <item>\n    <title>{title} &#8211; {}</title>\n    <link>https://news.example/2026/11/{number}/{}?utm_source=rss</link>\n    <guid isPermaLink=\"false\">https://news.example/?p={number}</guid>\n    <pubDate>Sun, 15 Nov 2026 {:02}:{:02}:00 +0000</pubDate>\n    <dc:creator><![CDATA[{name}]]></dc:creator>\n    <category>World</category>\n    <category><![CDATA[Politics]]></category>\n    <description><![CDATA[<p>{}&#8230;</p>]]></description>\n    <content:encoded><![CDATA[{}]]></content:encoded>\n    <media:thumbnail url=\"https://img.example/{number}.jpg\" width=\"300\" height=\"200\"/>\n    <enclosure url=\"https://img.example/{number}-full.jpg\" length=\"{}\" type=\"image/jpeg\"/>\n  </item>\n",
            words.some(3),
            words.some(4).replace(' ', "-"),
            number % 24,
            number % 60,
            words.some(35),
            html(words),
            20_000 + number,
        ));
    }
    out.push_str("</channel>\n</rss>\n");
    out
}

fn atom(words: &mut Words, kilobytes: usize) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\" xml:lang=\"en\">\n  <title>Example Notes</title>\n  <link href=\"https://notes.example/\"/>\n  <link rel=\"self\" href=\"https://notes.example/feed.atom\"/>\n  <id>https://notes.example/</id>\n  <updated>2026-11-15T09:30:00Z</updated>\n",
    );
    let mut number = 0;
    while out.len() < kilobytes * 1_000 {
        number += 1;
        out.push_str(&format!(
            "  <entry>\n    <title type=\"html\"><![CDATA[{}]]></title>\n    <link rel=\"alternate\" type=\"text/html\" href=\"https://notes.example/{number}\"/>\n    <id>tag:notes.example,2026:{number}</id>\n    <published>2026-11-15T{:02}:{:02}:00+01:00</published>\n    <updated>2026-11-15T10:00:00Z</updated>\n    <author><name>{}</name></author>\n    <category term=\"notes\"/>\n    <summary>{}</summary>\n    <content type=\"html\"><![CDATA[{}]]></content>\n  </entry>\n",
            words.some(7),
            number % 24,
            number % 60,
            words.some(2),
            words.some(30),
            html(words),
        ));
    }
    out.push_str("</feed>\n");
    out
}

/// The body of an article, as blogs and papers serve it.
fn html(words: &mut Words) -> String {
    let mut out = String::new();
    for at in 0..words.below(16) + 8 {
        match at % 4 {
            1 => out.push_str(&format!(
                "<figure class=\"wp-block-image size-large\"><img loading=\"lazy\" width=\"1024\" height=\"683\" src=\"https://img.example/{at}-1024x683.jpg\" alt=\"{}\"/><figcaption>{}</figcaption></figure>\n",
                words.some(5),
                words.some(12)
            )),
            3 => out.push_str(&format!("<h2 class=\"wp-block-heading\">{}</h2>\n", words.some(6))),
            _ => out.push_str(&format!(
                "<p>{} <a href=\"https://news.example/{at}\" target=\"_blank\" rel=\"noopener\">{}</a> {}, <strong>{}</strong> {}.</p>\n",
                words.some(25),
                words.some(4),
                words.some(30),
                words.some(3),
                words.some(20)
            )),
        }
    }
    out
}

/// Words in an order that looks random and is the same in every run.
struct Words(u64);

impl Words {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % limit
    }

    fn some(&mut self, count: usize) -> String {
        const WORDS: [&str; 32] = [
            "the",
            "council",
            "said",
            "on",
            "Tuesday",
            "that",
            "a",
            "new",
            "bridge",
            "would",
            "open",
            "before",
            "winter",
            "while",
            "residents",
            "caf\u{e9}",
            "asked",
            "for",
            "more",
            "time",
            "and",
            "money",
            "officials",
            "declined",
            "to",
            "comment",
            "market",
            "prices",
            "rose",
            "sharply",
            "river",
            "\u{201c}again\u{201d}",
        ];
        let words =
            (0..count).map(|_| WORDS.get(self.below(WORDS.len())).copied().unwrap_or_default());
        words.collect::<Vec<_>>().join(" ")
    }
}
