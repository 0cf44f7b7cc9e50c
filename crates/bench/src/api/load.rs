//! Requests at a steady rate, whatever becomes of those before.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use feedmill::app::Progress;
use feedmill::model::Ts;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::report::say;

/// A list, and what its resource's figures are called.
pub(super) struct List {
    pub(super) path: &'static str,
    pub(super) figures: &'static [&'static str; 3],
}

macro_rules! lists {
    ($($resource:literal: $($path:literal)+;)+) => {
        &[$($(List {
            path: $path,
            figures: &[
                concat!($resource, "_p50_ms"),
                concat!($resource, "_p99_ms"),
                concat!($resource, "_max_ms"),
            ],
        }),+),+]
    };
}

/// All lists, with their filters and orders. `SOURCE` and `HOST` are ordinary ones, `BUSY` has a tenth of
/// all addresses.
pub(super) const LISTS: &[List] = lists! {
    "sources": "sources" "sources?q=press-0001" "sources?sort=-created" "sources?enabled=true&category=news";
    "feeds": "feeds" "feeds?source=SOURCE" "feeds?health=late" "feeds?q=press-0001";
    "entries": "entries" "entries?source=SOURCE" "entries?since=SINCE";
    "articles": "articles" "articles?source=SOURCE" "articles?language=de" "articles?q=number-77"
        "articles?category=news" "articles?since=SINCE" "articles?duplicates=true";
    "frontier": "frontier" "frontier?sort=-id" "frontier?status=pending" "frontier?status=fetched"
        "frontier?status=failed" "frontier?status=dead" "frontier?status=parked"
        "frontier?status=fetching" "frontier?kind=feed" "frontier?origin=manual"
        "frontier?code=not_found" "frontier?search=story-0077" "frontier?source=SOURCE"
        "frontier?host=HOST" "frontier?host=BUSY&status=dead" "frontier?host=HOST&sort=due"
        "frontier?count=true" "frontier?status=pending&offset=50";
    "frontier_sorted": "frontier?sort=-priority" "frontier?sort=due" "frontier?sort=-due"
        "frontier?sort=-discovered" "frontier?sort=-fetched" "frontier?status=pending&sort=-priority"
        "frontier?status=pending&sort=due" "frontier?status=dead&sort=-fetched"
        "frontier?host=BUSY&sort=-priority" "frontier?source=SOURCE&sort=-due";
    "hosts": "hosts" "hosts?q=press-0001" "hosts?blocked=true" "hosts/optouts";
    "events": "events" "events?latest=true" "events?kinds=article.*" "events?kinds=feed.gone"
        "events?source=SOURCE" "events?since=SINCE";
    "fetches": "fetches" "fetches?host=HOST" "fetches?source=SOURCE" "fetches?since=SINCE";
    "sinks": "sinks";
    "stats": "stats" "stats/series" "stats/top?by=feeds" "stats/top?by=hosts" "frontier/stats"
        "sources/standings";
};

/// How long requests took, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Vec<f64>);

impl Times {
    pub(super) fn extend(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn p50_p99_max(&self) -> Option<(f64, f64, f64)> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: usize| sorted.get((sorted.len() * share).div_ceil(100).saturating_sub(1));
        Some((*at(50)?, *at(99)?, *sorted.last()?))
    }
}

/// What came of it.
pub(super) struct Measured {
    /// The times of each list.
    pub(super) lists: Vec<Times>,
    /// Requests that the engine made meanwhile.
    pub(super) crawled: u64,
}

/// Asks for all lists in turn, so many times a second, for so many seconds.
pub(super) async fn load(
    (address, now): (SocketAddr, Ts),
    (rate, seconds): (u32, u32),
    progress: &Progress,
) -> anyhow::Result<Measured> {
    let asker = Arc::new(Asker::new(address, now)?);
    say("asking for every list once")?;
    for (at, list) in LISTS.iter().enumerate() {
        let began = Instant::now();
        let took = asker.ask(at).await.with_context(|| list.path)? - began;
        if took > Duration::from_millis(50) {
            say(&format!("{:<44} {:>7.1} ms the first time", list.path, ms(took)))?;
        }
    }
    say(&format!("asking {rate} times a second for {seconds} s"))?;
    let crawled = progress.snapshot().requests;
    let (begin, step) = (Instant::now(), Duration::from_secs(1) / rate);
    let (mut asks, mut lists) = (JoinSet::new(), vec![Times::default(); LISTS.len()]);
    for n in 0..rate * seconds {
        let start = begin + step * n;
        tokio::time::sleep_until(start).await;
        // A step that has no divisor in common with their number: neighbours in time are unlike.
        let (asker, at) = (Arc::clone(&asker), n as usize * 37 % LISTS.len());
        asks.spawn(async move { asker.ask(at).await.map(|done| (at, done - start)) });
        while let Some(done) = asks.try_join_next() {
            note(&mut lists, done??);
        }
    }
    while let Some(done) = asks.join_next().await {
        note(&mut lists, done??);
    }
    Ok(Measured { lists, crawled: progress.snapshot().requests - crawled })
}

fn note(lists: &mut [Times], (at, took): (usize, Duration)) {
    if let Some(times) = lists.get_mut(at) {
        times.0.push(ms(took));
    }
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// Somebody who reads lists page by page, and begins again at the end.
struct Asker {
    http: reqwest::Client,
    address: SocketAddr,
    /// A day ago.
    since: String,
    /// Where lists go on.
    next: Mutex<HashMap<usize, String>>,
}

impl Asker {
    fn new(address: SocketAddr, now: Ts) -> anyhow::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "it asks our own server only")]
        let http = reqwest::Client::builder().no_proxy().build()?;
        let since = Ts::from_ms(now.ms() - 86_400_000).to_string();
        Ok(Self { http, address, since, next: Mutex::default() })
    }

    /// The path of a list, with names that are there.
    fn path(&self, list: &List) -> String {
        let names = [
            ("SOURCE", "press-00017"),
            ("HOST", "www.press-00017.example"),
            ("BUSY", "www.press-00000.example"),
            ("SINCE", self.since.as_str()),
        ];
        let path =
            names.iter().fold(list.path.to_owned(), |path, (from, to)| path.replace(from, to));
        format!("http://{}/api/v1/{path}", self.address)
    }

    /// Asks for the next page of a list; when it was there.
    async fn ask(&self, at: usize) -> anyhow::Result<Instant> {
        let list = LISTS.get(at).context("no such list")?;
        let mut url = self.path(list);
        if let Some(next) = self.next.lock().await.get(&at) {
            url.push_str(if url.contains('?') { "&cursor=" } else { "?cursor=" });
            url.push_str(next);
        }
        let answer = self.http.get(&url).send().await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        let done = Instant::now();
        anyhow::ensure!(status.is_success(), "{url}: {status}: {}", String::from_utf8_lossy(&body));
        let page: serde_json::Value = serde_json::from_slice(&body)?;
        let next = page.get("next").and_then(serde_json::Value::as_str);
        let mut places = self.next.lock().await;
        match next {
            Some(next) => places.insert(at, next.to_owned()),
            None => places.remove(&at),
        };
        Ok(done)
    }
}
