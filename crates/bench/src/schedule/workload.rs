//! What feeds publish: made up from a seed, or read from a file of real times.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::dice::Dice;

pub(crate) const DAY: u32 = 86_400;
const WEEK: u32 = 7 * DAY;

/// A feed, from the outside.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Feed {
    /// Items in its document.
    pub(crate) window: usize,
    /// The share of polls that fail by chance.
    pub(crate) p_err: f64,
    /// When all polls fail.
    pub(crate) outages: Vec<(u32, u32)>,
    /// When items appear.
    pub(crate) times: Vec<u32>,
    /// Minutes that it asks to leave between polls.
    pub(crate) ttl: u32,
    /// Seconds for which an answer is fresh.
    pub(crate) max_age: u32,
    /// Hours and days that it asks to leave out.
    pub(crate) skip: u32,
    /// Seconds between requests below which it answers 429.
    pub(crate) host_min: u32,
    /// Whether its items carry no dates.
    pub(crate) undated: bool,
}

/// Feeds over a time of which the first part is not scored.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) start: u32,
    pub(crate) scored_from: u32,
    pub(crate) end: u32,
    pub(crate) feeds: Vec<Feed>,
}

impl Workload {
    pub(crate) fn scored_days(&self) -> f64 {
        f64::from(self.end - self.scored_from) / f64::from(DAY)
    }

    /// The same feeds, scored from the first poll on.
    pub(crate) fn cold(&self, days: u32) -> Self {
        Self { scored_from: self.start, end: self.start + days * DAY, ..self.clone() }
    }
}

#[derive(Deserialize)]
struct Header {
    start: u32,
    warm_days: u32,
    score_days: u32,
}

/// Reads a replay: a header line, then a feed a line; plain or gzip.
pub(crate) fn replay(path: &Path) -> anyhow::Result<Workload> {
    let file =
        std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut head = BufReader::new(file);
    let packed = head.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn Read> =
        if packed { Box::new(flate2::bufread::MultiGzDecoder::new(head)) } else { Box::new(head) };
    let mut lines = BufReader::new(reader).lines();
    let first = lines.next().context("the file is empty")??;
    let header: Header = serde_json::from_str(&first).context("the header is not understood")?;
    let feed = |line: Result<String, std::io::Error>| -> anyhow::Result<Feed> {
        let mut feed: Feed = serde_json::from_str(&line?)?;
        feed.times.sort_unstable();
        Ok(feed)
    };
    let feeds =
        lines.map(feed).collect::<anyhow::Result<_>>().context("a feed is not understood")?;
    let scored_from = header.start + header.warm_days * DAY;
    let end = scored_from + header.score_days * DAY;
    Ok(Workload { start: header.start, scored_from, end, feeds })
}

/// A Monday.
const START: u32 = 1_735_516_800;

/// Made-up publishers: few are busy, most are slow; they work by day in some time zone, rest at the
/// weekend, like round minutes, post in bursts, and now and then die or change their pace.
pub(crate) fn synthetic(feeds: usize, days: (u32, u32), hints: bool, seed: u64) -> Workload {
    let (warm, score) = days;
    let end = START + (warm + score) * DAY;
    let feeds = (0..feeds as u64).map(|feed| publisher(&mut Dice::new(seed, feed), end, hints));
    Workload { start: START, scored_from: START + warm * DAY, end, feeds: feeds.collect() }
}

fn publisher(dice: &mut Dice, end: u32, hints: bool) -> Feed {
    // Of feeds that people follow, a tenth brings something every day and half are asleep.
    let rate = match dice.unit() {
        busy if busy < 0.09 => dice.log_uniform(1.0, 60.0),
        slow if slow < 0.45 => dice.log_uniform(1.0 / 30.0, 1.0),
        _ => dice.log_uniform(1.0 / 365.0, 1.0 / 30.0),
    };
    let window = dice.pick(&[10, 10, 10, 15, 20, 20, 25, 30, 50, 100]).max(rate as usize);
    let mut feed = Feed {
        window,
        p_err: 0.01,
        outages: outages(dice, end),
        times: times(dice, rate, window, end),
        ..Feed::default()
    };
    if hints {
        if dice.unit() < 0.25 {
            feed.ttl = dice.pick(&[5, 15, 30, 60, 60, 60, 120, 1440]);
        }
        if dice.unit() < 0.3 {
            feed.max_age = dice.pick(&[60, 300, 300, 600, 900, 1800, 3600]);
        }
        if dice.unit() < 0.02 {
            feed.skip = 0b11_1111 << dice.below(18);
        }
        if dice.unit() < 0.02 {
            feed.host_min = dice.pick(&[600, 1800, 3600]);
        }
        feed.undated = dice.unit() < 0.05;
    }
    feed
}

fn outages(dice: &mut Dice, end: u32) -> Vec<(u32, u32)> {
    let mut outages = Vec::new();
    let mut at = START;
    loop {
        at = at.saturating_add(dice.wait(60.0 * f64::from(DAY)) as u32);
        if at >= end {
            return outages;
        }
        let until = at + dice.log_uniform(600.0, 43_200.0) as u32;
        outages.push((at, until));
        at = until;
    }
}

/// How much is published at each hour of a week, one on average.
fn rhythm(dice: &mut Dice) -> Vec<f64> {
    let zone = dice.pick(&[0, 1, 1, 2, 5, 8, 9, 16, 17, 19, 19, 20]);
    let (from, hours) = (6 + dice.below(6), 6 + dice.below(9));
    let night = dice.log_uniform(0.01, 0.5);
    let weekend = dice.log_uniform(0.05, 1.0);
    let round_the_clock = dice.unit() < 0.15;
    let raw: Vec<f64> = (0..168)
        .map(|hour| {
            let (day, local) = (hour / 24, (hour + zone) % 24);
            let awake = round_the_clock || (local + 24 - from) % 24 < hours;
            let noise = 0.5 + dice.unit();
            noise * if awake { 1.0 } else { night } * if day < 5 { 1.0 } else { weekend }
        })
        .collect();
    let mean = raw.iter().sum::<f64>() / 168.0;
    raw.into_iter().map(|share| share / mean).collect()
}

fn times(dice: &mut Dice, rate: f64, window: usize, end: u32) -> Vec<u32> {
    let rhythm = rhythm(dice);
    let top = rhythm.iter().copied().fold(0.0, f64::max);
    // Some post several items at a time.
    let burst = if dice.unit() < 0.3 { dice.log_uniform(1.0, 4.0) } else { 1.0 };
    let (round, round_share) = (dice.below(12) as u32 * 300, dice.unit().powi(2));
    let died = if dice.unit() < 0.06 { dice.between(START, end) } else { end };
    let change = if dice.unit() < 0.1 { dice.between(START, end) } else { end };
    let factor = dice.log_uniform(0.3, 3.0);
    // Long enough for the first document to be full of history.
    let history = (window as f64 / rate * 1.5 * f64::from(DAY)).clamp(30.0 * 86_400.0, 3e8);
    let mut at = f64::from(START) - history;
    let mut times = Vec::new();
    loop {
        let faster = if at > f64::from(change) { factor } else { 1.0 };
        at += dice.wait(f64::from(DAY) * burst / (rate * faster * top));
        if at >= f64::from(died) {
            break;
        }
        let hour = (at as u32 % WEEK / 3600 + 72) % 168;
        if dice.unit() * top > rhythm.get(hour as usize).copied().unwrap_or(1.0) {
            continue;
        }
        let mut time = at as u32;
        if dice.unit() < round_share {
            time = time / 3600 * 3600 + round + dice.below(60) as u32;
        }
        times.push(time);
        while dice.unit() > 1.0 / burst {
            time += dice.below(300) as u32;
            times.push(time);
        }
    }
    times.sort_unstable();
    times
}
