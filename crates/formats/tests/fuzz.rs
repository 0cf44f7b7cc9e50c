//! The fuzzer's targets without a fuzzer: pieces of every format in every disorder.
//!
//! Short by default, so that it is part of every run of the tests; `FEEDMILL_FUZZ_SECONDS` says how
//! long each target runs otherwise. Inputs that a fuzzer found are in `fuzz/regressions` and always
//! run.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../../../fuzz/targets.rs"]
mod targets;

use std::time::{Duration, Instant};

/// Inputs for each target when nobody says how long.
const INPUTS: usize = 400;

/// Words of the formats, good and bad.
const WORDS: [&str; 62] = [
    "<?xml version='1.0' encoding='iso-8859-1'?>",
    "<rss version='2.0'>",
    "<channel>",
    "</channel>",
    "<item>",
    "</item>",
    "<feed xmlns='http://www.w3.org/2005/Atom'>",
    "<entry>",
    "</entry>",
    "<rdf:RDF>",
    "<title>",
    "</title>",
    "<link href='/a' rel='self'/>",
    "<link>",
    "<guid isPermaLink='true'>",
    "<description>",
    "</description>",
    "<content type='xhtml' mode='base64'>",
    "<media:content url='x'>",
    "<author>",
    "<pubDate>",
    "Sun, 15 Nov 2026 09:30:00 +0000",
    "2026-11-15T09:30:00.123-05:00",
    "2026\u{5e74}1\u{6708}",
    "10:30 PM",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<!DOCTYPE x [",
    "]",
    "<a href='b'>",
    "<img src=x ",
    "&amp;",
    "&eacute;",
    "&#1;",
    "&",
    "<",
    ">",
    "'",
    "\"",
    "=",
    "{\"version\": \"https://jsonfeed.org/version/1\", \"items\": [",
    "{\"id\": 1}",
    ",",
    "}",
    "<urlset>",
    "<url><loc>https://example.com/",
    "</url>",
    "<sitemapindex>",
    "<opml><body>",
    "<outline text='a' xmlUrl='https://example.com/",
    "</outline>",
    "User-agent: *\n",
    "Disallow: /*a$\n",
    "Sitemap: x\n",
    "https://user:pw@EXAMPLE.com:443/%7Ea/../b?utm_source=c#d",
    "WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\n",
    "\u{1f}\u{feff}\u{fffd}",
    "\u{439}\u{300}",
    "\r\n\t ",
    "9999999999",
];

/// Chance that is the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    /// Words in any order, with some bytes changed and the end cut off at times.
    fn input(&mut self) -> Vec<u8> {
        let mut input = Vec::new();
        for _ in 0..self.below(40) {
            input.extend_from_slice(WORDS[self.below(WORDS.len())].as_bytes());
        }
        for _ in 0..self.below(4) {
            if !input.is_empty() {
                let at = self.below(input.len());
                input[at] = u8::try_from(self.below(256)).unwrap();
            }
        }
        if self.below(4) == 0 && !input.is_empty() {
            input.truncate(self.below(input.len()));
        }
        input
    }
}

#[test]
fn no_input_breaks_a_promise() {
    let seconds = std::env::var("FEEDMILL_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    for (name, _) in targets::TARGETS {
        let (began, mut inputs) = (Instant::now(), 0);
        let goes_on = |inputs: usize| match seconds {
            Some(seconds) => began.elapsed() < Duration::from_secs(seconds),
            None => inputs < INPUTS,
        };
        while goes_on(inputs) {
            targets::run(name, &chance.input());
            inputs += 1;
        }
        println!("{name}: {inputs} inputs");
    }
}

#[test]
fn what_a_fuzzer_found_stays_mended() {
    let found = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/regressions");
    let mut inputs = 0;
    for (name, _) in targets::TARGETS {
        let Ok(files) = std::fs::read_dir(format!("{found}/{name}")) else { continue };
        for file in files {
            targets::run(name, &std::fs::read(file.unwrap().path()).unwrap());
            inputs += 1;
        }
    }
    assert!(inputs > 0, "the inputs are in fuzz/regressions");
}
