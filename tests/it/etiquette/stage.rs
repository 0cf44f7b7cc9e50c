//! A publisher that says what a test writes down, an engine that follows it, and its log.

use feedmill::clock::Clock;
use feedmill::config::Config;
use feedmill::frontier::TaskFilter;
use feedmill::model::{Event, EventKind, Kind, NewSource, Task, Ts};
use feedmill_newsroom::{Fault, Logged, Script, Setup, Span};

use crate::postgres::{Database, database};
use crate::support::World;

/// The publisher that most lines are about.
pub(crate) const PRESS: &str = "press.newsroom.test";
pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const HOUR: i64 = 60 * MINUTE;

/// The scene of a test.
pub(crate) struct Stage {
    pub(crate) world: World,
    _database: Option<Database>,
}

impl Stage {
    pub(crate) async fn sqlite() -> Option<Self> {
        Some(Self::on(None).await)
    }

    /// `None` when tests that need a server are left out.
    pub(crate) async fn postgres() -> Option<Self> {
        Some(Self::on(Some(database().await?)).await)
    }

    async fn on(database: Option<Database>) -> Self {
        let url = database.as_ref().map_or("", |database| database.url.as_str());
        let clock = Clock::manual("2026-11-16T08:00:00Z".parse().unwrap());
        let mut world = World::timed(clock, url, 2, |setup| Setup {
            history: 3,
            publish_until: Some(setup.starts_at),
            ..setup
        })
        .await;
        world.config.schedule.default_interval = "5m".parse().unwrap();
        world.config.schedule.sitemap_interval = "5m".parse().unwrap();
        world.config.schedule.min_interval = "5m".parse().unwrap();
        Self { world, _database: database }
    }

    /// What the publisher says at a path, one answer after the other; the last one for good.
    pub(crate) fn says(&self, path: &str, answers: &[Script]) {
        self.says_at(PRESS, path, answers);
    }

    pub(crate) fn says_at(&self, host: &str, path: &str, answers: &[Script]) {
        let newsroom = &self.world.newsroom;
        newsroom.behave(host, path);
        // The newest that fits wins: the last answer is put up first.
        for (place, answer) in answers.iter().enumerate().rev() {
            let last = place + 1 == answers.len();
            let span = if last { Span::Always } else { Span::Times(1) };
            newsroom.misbehave(host, path, Fault::Scripted(answer.clone()), span);
        }
    }

    /// Follows a feed, as an operator would.
    pub(crate) async fn follow(&self, name: &str, feed: &str) {
        self.add(source(name, feed)).await;
    }

    pub(crate) async fn add(&self, source: NewSource) {
        self.world.store.add_source(source).await.unwrap();
    }

    /// Runs the engine until the path was asked for so often.
    pub(crate) async fn until_asked(&self, path: &str, times: usize) -> Vec<Logged> {
        self.world.play(|| async { self.asked(path).len() >= times }).await;
        self.asked(path)
    }

    /// Runs the engine until the task is where the test wants it.
    pub(crate) async fn until(&self, url: &str, done: impl Fn(&Task) -> bool) -> Task {
        self.world.play(|| async { done(&self.world.task(url).await) }).await;
        self.world.task(url).await
    }

    /// What was asked of the publisher at a path.
    pub(crate) fn asked(&self, path: &str) -> Vec<Logged> {
        let log = self.world.newsroom.log();
        log.into_iter().filter(|it| it.host == PRESS && it.path == path).collect()
    }

    pub(crate) async fn submit(&self, path: &str) -> String {
        let url = url(path);
        self.world.submit(&url, Kind::Article).await;
        url
    }

    pub(crate) async fn events(&self, kind: EventKind) -> Vec<Event> {
        let events = self.world.store.events_after(0, 1_000).await.unwrap();
        events.into_iter().filter(|event| event.kind == kind).collect()
    }

    /// All article tasks, by address.
    pub(crate) async fn pages(&self) -> Vec<Task> {
        let filter = TaskFilter { kind: Some(Kind::Article), ..TaskFilter::default() };
        self.world.tasks(filter).await
    }

    /// Changes how the house is set up, before anything was asked.
    pub(crate) async fn set(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.world.config);
        self.world.reopen().await;
    }
}

/// A source with one feed.
pub(crate) fn source(name: &str, feed: &str) -> NewSource {
    NewSource { feed_urls: vec![feed.to_owned()], ..NewSource::new(name, feed) }
}

/// An address of the publisher.
pub(crate) fn url(path: &str) -> String {
    format!("http://{PRESS}{path}")
}

/// An answer, word for word.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Script {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Script { status, headers: headers.collect(), body: body.into(), cut: false }
}

pub(crate) fn ok(headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Script {
    answer(200, headers, body)
}

/// A feed with these items, which lead nowhere.
pub(crate) fn feed(items: &[&str]) -> String {
    let item = |id: &&str| format!("<item><guid>{id}</guid><title>Item {id}</title></item>");
    let items: String = items.iter().map(item).collect();
    format!("<rss version=\"2.0\"><channel><title>Press</title>{items}</channel></rss>")
}

/// A feed that says this about its pace, with an item.
pub(crate) fn paced(wishes: &str) -> String {
    feed(&["1"]).replace("<title>Press</title>", &format!("<title>Press</title>{wishes}"))
}

/// A feed with so many items, one every `gap` milliseconds, the last one at `until`.
pub(crate) fn dated(items: i64, gap: i64, until: Ts) -> String {
    let item = |n| {
        let date = Ts::from_ms(until.ms() - n * gap);
        format!("<item><guid>{date}</guid><title>{date}</title><pubDate>{date}</pubDate></item>")
    };
    let items: String = (0..items).map(item).collect();
    format!("<rss version=\"2.0\"><channel><title>Press</title>{items}</channel></rss>")
}

/// A page with enough text to be an article.
pub(crate) fn page(title: &str, head: &str) -> String {
    let text =
        "The council met on Monday and talked for a long time about the new bridge. ".repeat(8);
    format!(
        "<!doctype html><html><head><title>{title}</title>{head}</head><body><article>\
         <h1>{title}</h1><p>{text}</p></article></body></html>"
    )
}

/// A header that was sent.
pub(crate) fn sent<'a>(request: &'a Logged, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
}

/// The two validators that were sent.
pub(crate) fn validators(request: &Logged) -> (Option<&str>, Option<&str>) {
    (sent(request, "if-none-match"), sent(request, "if-modified-since"))
}

/// From the end of each request to the begin of the next, in simulated milliseconds.
pub(crate) fn pauses(log: &[Logged]) -> Vec<i64> {
    log.windows(2).map(|pair| pair[1].began - pair[0].ended).collect()
}

/// From the begin of each request to the begin of the next, in simulated milliseconds.
pub(crate) fn spacing(log: &[Logged]) -> Vec<i64> {
    log.windows(2).map(|pair| pair[1].began - pair[0].began).collect()
}

/// Whether requests are as far apart as they should be, from begin to begin, and not much farther.
pub(crate) fn apart(log: &[Logged], wanted: &[i64]) {
    let spacing = spacing(log);
    assert!(spacing.len() >= wanted.len(), "{spacing:?}");
    for (have, wanted) in spacing.iter().zip(wanted) {
        // Polls spread by a twentieth, and wait for their turn at the host. A request may reach a busy
        // publisher some real milliseconds late, and the next one in time.
        let (earliest, latest) = (wanted - wanted / 200, wanted + wanted / 20 + MINUTE);
        assert!((earliest..=latest).contains(have), "{spacing:?}, not {wanted}");
    }
}

/// Whether each pause is at least as long as it should be.
pub(crate) fn at_least(log: &[Logged], least: &[i64]) {
    let pauses = pauses(log);
    assert!(pauses.len() >= least.len(), "{pauses:?}");
    for (pause, least) in pauses.iter().zip(least) {
        // Time may go on by some seconds while a slow machine turns an answer into a decision.
        assert!(pause + least / 20 + 5_000 >= *least, "{pauses:?} are too short for {least:?}");
    }
}
