//! What hostile publishers do to whoever asks them.

use std::io::Write as _;

use feedmill_newsroom::{Fault, Newsroom, Script, Span};

/// One in so many publishers is hostile.
const ONE_IN: usize = 10;

/// Bytes that a bomb unfolds to.
const BOMB_SIZE: usize = 64 << 20;

/// Whether the publisher at this place is hostile.
pub(super) const fn is_hostile(publisher: usize) -> bool {
    publisher % ONE_IN == ONE_IN - 1
}

/// Lets every hostile publisher attack in a way of its own.
pub(super) fn begin(newsroom: &Newsroom) {
    let bomb = bomb();
    let stories = newsroom.published(i64::MAX);
    for (at, publisher) in
        newsroom.publishers().iter().enumerate().filter(|(at, _)| is_hostile(*at))
    {
        let host = publisher.host.as_str();
        let everywhere = |fault| newsroom.misbehave(host, "/", fault, Span::Always);
        match at / ONE_IN % 7 {
            0 => everywhere(Fault::Scripted(bomb.clone())),
            1 => everywhere(Fault::Hang),
            2 => {
                let site = format!("http://{host}");
                for story in stories.iter().filter(|story| story.publisher == at) {
                    let page = story.url.strip_prefix(&site).unwrap();
                    newsroom.misbehave(host, page, Fault::Scripted(quadratic()), Span::Always);
                }
            }
            3 => everywhere(Fault::WrongContentLength),
            4 => everywhere(Fault::SlowBytes { chunk: 1, pause_ms: 500 }),
            5 => everywhere(Fault::RedirectLoop),
            _ => everywhere(Fault::BadGzip),
        }
    }
}

fn answer(headers: &[(&str, &str)], body: Vec<u8>) -> Script {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Script { status: 200, headers, body, cut: false }
}

/// A small answer that unfolds to a large one.
fn bomb() -> Script {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&vec![b' '; BOMB_SIZE]).unwrap();
    let headers = [("content-type", "application/rss+xml"), ("content-encoding", "gzip")];
    answer(&headers, packed.finish().unwrap())
}

/// A page whose tags all add attributes to the same two elements: naive parsers need quadratic time.
fn quadratic() -> Script {
    let mut page = String::from("<!doctype html><title>x</title><body>");
    for number in 0..20_000 {
        page.push_str(&format!("<html a{number}><body b{number}>"));
    }
    answer(&[("content-type", "text/html")], page.into_bytes())
}
