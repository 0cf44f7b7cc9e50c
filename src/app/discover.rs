//! Looking at an address before anything is stored: the same search that the engine makes, walked
//! through at once.
//!
//! It asks as the engine does: past the guard, by robots.txt, one request after the other with the
//! host's pause between them. Where the store knows the host, its row is taken for the time of each
//! request, so that an engine beside asks nobody twice. It keeps nothing but what it hands back.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use feedmill_formats::charset::{self, Markup};
use feedmill_formats::decode;
use feedmill_formats::discover::{Candidate, How};
use feedmill_formats::feed::{self, Entry};
use feedmill_formats::rights::Rights;
use feedmill_formats::robots::Robots;
use feedmill_formats::url::{self as web, Url};

use tokio::sync::Semaphore;

use super::{AppError, client, house};
use crate::clock::Clock;
use crate::config::Config;
use crate::fetch::{Client, Guard};
use crate::frontier::{HostFilter, HostPatch, UNKNOWN_TASK, queue_key};
use crate::handle::listing::{self, Preview};
use crate::handle::probe::{self, Search, Seen};
use crate::handle::{House, retry_after};
use crate::model::{
    Discovery, Exchange, Kind, NewSource, NewTask, Origin, Source, SourceId, Ts, Validators,
};
use crate::store::Store;

/// Somebody waits at the terminal: a search takes no longer in real time, and neither does waiting for a host.
const SEARCH_TIMEOUT: Duration = Duration::from_mins(1);
/// Entries that are shown.
const SHOWN: usize = 5;

/// What a look brought.
#[derive(Debug, Default)]
pub struct Look {
    /// The search, at its end.
    pub search: Discovery,
    /// The answers that showed the channels, in their order.
    pub answers: Vec<Exchange>,
    /// The newest entries of the feed.
    pub newest: Vec<Entry>,
    /// What the page itself would bring, read for articles; or why it cannot be read so.
    pub page: Option<Result<Preview, String>>,
    /// What robots.txt says about uses of the site's texts.
    pub rights: Rights,
    /// Publication times in the feed, oldest first.
    pub times: Vec<Ts>,
    /// Requests by host, robots.txt among them.
    pub requests: HashMap<String, u32>,
}

impl Look {
    /// Keeps an answer, as long as all of them take little memory. The engine asks for others again.
    fn keep(&mut self, answer: Exchange) {
        let kept: usize = self.answers.iter().map(|answer| answer.body.len()).sum();
        if kept + answer.body.len() <= MAX_ANSWERS {
            self.answers.push(answer);
        }
    }
}

/// Bytes of answers that a look hands back at the most.
const MAX_ANSWERS: usize = 32 << 20;
/// Hosts whose next free time is remembered before those whose time has come are forgotten.
const MAX_TURNS: usize = 1_000;

/// When each host may be asked next; whoever asks it holds the lock.
type Turn = Arc<tokio::sync::Mutex<Option<Ts>>>;

/// What all looks of a process share: each host has one turn, and documents are read one at a time.
#[derive(Debug)]
pub struct Looks {
    reading: Semaphore,
    turns: Mutex<HashMap<String, Turn>>,
}

impl Default for Looks {
    fn default() -> Self {
        Self { reading: Semaphore::new(1), turns: Mutex::default() }
    }
}

impl Looks {
    fn turn(&self, host: &str, now: Ts) -> Turn {
        let mut turns = locked(&self.turns);
        if turns.len() >= MAX_TURNS {
            turns.retain(|_, turn| {
                let free_at = turn.try_lock().map(|free_at| free_at.unwrap_or_default());
                Arc::strong_count(turn) > 1 || free_at.is_ok_and(|free_at| free_at > now)
            });
        }
        Arc::clone(turns.entry(host.to_owned()).or_default())
    }
}

/// Whoever looks.
pub struct Scout {
    client: Client,
    guard: Guard,
    store: Option<Arc<dyn Store>>,
    house: House,
    clock: Clock,
    delay: Duration,
    timeout: Duration,
    /// [`SEARCH_TIMEOUT`] on this clock, which may run faster than requests do.
    longest_wait: Duration,
    /// What origins say to robots, or why that cannot be had.
    robots: Mutex<HashMap<String, Result<Arc<Robots>, String>>>,
    looks: Arc<Looks>,
}

impl std::fmt::Debug for Scout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scout").field("delay", &self.delay).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was read in an answer.
struct Examined {
    seen: Seen,
    /// What the page would give, when it is the first that is looked at.
    page: Option<Result<Preview, String>>,
    newest: Option<(Vec<Entry>, Vec<Ts>)>,
}

/// Reads an answer.
fn examine(
    answer: &Exchange,
    spec: &NewSource,
    is_start: bool,
    at: Ts,
    house: &House,
) -> Result<Examined, String> {
    let coding = answer.headers.list("content-encoding");
    let body = decode::capped(&answer.body, coding.as_deref(), house.max_decoded);
    let body = body.map_err(|error| error.to_string())?;
    let url = web::parse(&answer.url).map_err(|_| "its address cannot be read".to_owned())?;
    let links: Vec<&str> = answer.headers.all("link").collect();
    let content_type = answer.headers.get("content-type");
    let seen = Seen::of(&body, content_type, &links, &url, is_start);
    let page = (is_start && matches!(seen, Seen::Page(_))).then(|| {
        let page = charset::decode(&body, content_type, Markup::Html).text;
        listing::preview(spec, &page, url.as_str(), at, house)
    });
    let is_feed = matches!(seen, Seen::Feed { .. });
    let newest = is_feed.then(|| newest(&body, content_type, &url));
    Ok(Examined { seen, page, newest })
}

/// Does work that may take a while on a thread of its own.
async fn off_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

/// A document on its way, or why there is none and whether its host answers.
type Asked = Result<Exchange, (String, bool)>;

impl Scout {
    /// A scout with the rules of the house; a store beside it is only asked about hosts.
    pub fn new(
        config: &Config,
        clock: &Clock,
        store: Option<Arc<dyn Store>>,
        looks: Arc<Looks>,
    ) -> Result<Self, AppError> {
        let (client, guard) = client(config, clock)?;
        let mut house = house(config);
        let longest_wait = clock.stretch(SEARCH_TIMEOUT);
        let time = clock.stretch(house.search.time.min(SEARCH_TIMEOUT));
        house.search = Search { time, ..house.search };
        Ok(Self {
            client,
            guard,
            store,
            house,
            clock: clock.clone(),
            delay: config.hosts.delay.duration(),
            timeout: config.fetch.request_timeout.duration(),
            longest_wait,
            robots: Mutex::default(),
            looks,
        })
    }

    /// Looks at an address of a source to be, asked as it says; and for channels around it, unless only
    /// the address itself counts.
    pub async fn look(&self, url: &str, around: bool, spec: &NewSource) -> Look {
        let whose = self.source(spec);
        let mut look = Look::default();
        let mut asked = probe::start(url);
        loop {
            let (seen, answer) = self.see(&mut asked, &whose, &mut look).await;
            let rules = self.rules_of(&asked.url);
            let taken = probe::learn(&mut look.search, &asked, seen, &rules, self.clock.now());
            let is_read = spec.reads_pages() && look.search.tried.len() == 1;
            if let Some(answer) = answer.filter(|_| taken.is_some() || is_read) {
                look.keep(answer);
            }
            if !around {
                look.search.left.clear();
            }
            match probe::next(&mut look.search, self.clock.now(), &self.house.search) {
                Some(next) => asked = next,
                None => return look,
            }
        }
    }

    /// The source as it will be, for those who ask.
    fn source(&self, spec: &NewSource) -> Source {
        Source {
            id: SourceId(0),
            uuid: String::new(),
            spec: spec.clone(),
            enabled_at: None,
            disabled_at: None,
            disable_reason: None,
            created_at: self.clock.now(),
        }
    }

    /// Asks for a candidate and reads what is there. It has the address that answered from then on.
    async fn see(
        &self,
        asked: &mut Candidate,
        whose: &Source,
        look: &mut Look,
    ) -> (Seen, Option<Exchange>) {
        let nothing = |(why, reached)| (Seen::Nothing { why, reached }, None);
        let answer = match self.fetch(asked, whose, look).await {
            Ok(answer) => answer,
            Err(failed) => return nothing(failed),
        };
        if !(200..=299).contains(&answer.status) {
            // Who is asked for less is not asked for more.
            let reached = !matches!(answer.status, 429 | 503);
            return nothing((format!("status {}", answer.status), reached));
        }
        let is_start = matches!(asked.how, How::Itself | How::Redirect);
        let (spec, house, at) = (whose.spec.clone(), self.house.clone(), self.clock.now());
        let read = move || {
            let found = examine(&answer, &spec, is_start, at, &house);
            (answer, found)
        };
        let _reading = self.looks.reading.acquire().await;
        match off_runtime(read).await {
            Ok((answer, Ok(Examined { seen, page, newest }))) => {
                look.page = page.or(look.page.take());
                if let Some(newest) = newest.filter(|_| look.newest.is_empty()) {
                    (look.newest, look.times) = newest;
                }
                (seen, Some(answer))
            }
            Ok((_, Err(why))) => nothing((why, true)),
            Err(why) => nothing((why, true)),
        }
    }

    async fn fetch(&self, asked: &mut Candidate, whose: &Source, look: &mut Look) -> Asked {
        let cannot = |error: &dyn std::fmt::Display| (error.to_string(), false);
        let mut url = web::parse(&asked.url).map_err(|error| cannot(&error))?;
        for _ in 0..=self.house.max_redirects {
            self.check_url(&url).await?;
            let rules = self.rules(&url, whose, look).await?;
            if !rules.allows(&self.house.robots_agent, &web::path_and_query(&url)) {
                return Err((format!("robots.txt disallows {url}"), true));
            }
            let answer = self.request(&url, Kind::Probe, whose, look).await?;
            let target = answer.headers.text("location");
            let target = target.filter(|_| (300..=399).contains(&answer.status));
            let Some(target) = target.and_then(|target| web::join(&url, &target).ok()) else {
                return Ok(answer);
            };
            url = target;
            url.set_fragment(None);
            url.as_str().clone_into(&mut asked.url);
            if asked.how == How::Itself {
                asked.how = How::Redirect;
            }
        }
        Err((format!("{url} is one redirect too many"), true))
    }

    /// Whether a URL may be requested at all: the guard, and what was taken down.
    async fn check_url(&self, url: &Url) -> Result<(), (String, bool)> {
        self.guard.check_url(url).map_err(|error| (error.to_string(), false))?;
        let Some(store) = &self.store else { return Ok(()) };
        match store.is_refused(url.as_str()).await {
            Ok(false) => Ok(()),
            Ok(true) => Err((format!("{url} was taken down"), true)),
            Err(error) => Err((error.to_string(), false)),
        }
    }

    fn rules_of(&self, url: &str) -> Arc<Robots> {
        let origin = web::parse(url).map(|url| web::origin(&url)).unwrap_or_default();
        let known = locked(&self.robots).get(&origin).cloned();
        known.and_then(Result::ok).unwrap_or_default()
    }

    /// The rules of an address's origin; without a robots.txt everything is allowed, and without an
    /// answer nothing is.
    async fn rules(
        &self,
        url: &Url,
        whose: &Source,
        look: &mut Look,
    ) -> Result<Arc<Robots>, (String, bool)> {
        let origin = web::origin(url);
        if let Some(rules) = locked(&self.robots).get(&origin) {
            return rules.clone().map_err(|why| (why, false));
        }
        let mut at = web::robots_url(url);
        let mut rules = Robots::default();
        for _ in 0..=self.house.max_redirects {
            let answer = self.request(&at, Kind::Robots, whose, look).await?;
            let target = answer.headers.text("location");
            let target = target.filter(|_| (300..=399).contains(&answer.status));
            if let Some(target) = target.and_then(|target| web::join(&at, &target).ok()) {
                self.check_url(&target).await?;
                at = target;
                continue;
            }
            let status = answer.status;
            match status {
                200..=299 => {
                    let coding = answer.headers.list("content-encoding");
                    let (body, limit) = (answer.body.clone(), self.house.max_decoded);
                    let read = move || {
                        let body = decode::capped(&body, coding.as_deref(), limit);
                        body.map(|body| Robots::parse(&body)).map_err(|error| error.to_string())
                    };
                    let read = off_runtime(read).await.and_then(|read| read);
                    rules = read.map_err(|why| (why, true))?;
                }
                status @ (429 | 500..=599) => {
                    let why = format!("robots.txt answers with status {status}");
                    locked(&self.robots).insert(origin, Err(why.clone()));
                    return Err((why, false));
                }
                _ => {}
            }
            look.keep(answer);
            break;
        }
        look.rights.and(rules.rights(&self.house.robots_agent, &web::path_and_query(url)));
        let rules = Arc::new(rules);
        locked(&self.robots).insert(origin, Ok(Arc::clone(&rules)));
        Ok(rules)
    }

    /// One request in its host's turn: nobody else of us asks the host meanwhile, or within its pause.
    async fn request(&self, url: &Url, kind: Kind, whose: &Source, look: &mut Look) -> Asked {
        let host = web::host(url);
        let turn = self.looks.turn(&host, self.clock.now());
        let mut free_at = turn.lock().await;
        if let Some(until) =
            free_at.filter(|until| until.since(self.clock.now()) > self.longest_wait)
        {
            return Err((format!("{host} asks to be left alone until {until}"), false));
        }
        self.clock.sleep_until(free_at.unwrap_or_default()).await;
        let known = self.take_host(&host, *free_at).await?;
        *look.requests.entry(host.clone()).or_default() += 1;
        // robots.txt belongs to no source: nobody's secrets go there.
        let source = Some(whose).filter(|_| kind != Kind::Robots);
        let none = Validators::default();
        let answer = self.client.get(url, kind, &none, source, self.timeout).await;
        let asks = self.rules_of(url.as_str()).crawl_delay(&self.house.robots_agent);
        let pause = asks.or(whose.spec.rate_limit).unwrap_or(self.delay);
        let now = self.clock.now();
        let wish = answer.as_ref().ok().and_then(|answer| self.asked_pause(answer, now));
        let next = now.after(pause).max(wish.unwrap_or_default());
        *free_at = Some(next);
        if known {
            self.hold(&host, next).await?;
        }
        answer.map_err(|error| (error.to_string(), false))
    }

    /// Takes a host's row for one request, when the store knows the host; until then it is waited for.
    /// `own` is the pause that we put there ourselves.
    async fn take_host(&self, host: &str, own: Option<Ts>) -> Result<bool, (String, bool)> {
        let Some(store) = &self.store else { return Ok(false) };
        let name = queue_key(host, &store.rules().groups).to_owned();
        let began = self.clock.now();
        loop {
            let filter = HostFilter { name: Some(name.clone()), limit: 1, ..HostFilter::default() };
            let found = store.hosts(filter).await.map_err(|error| (error.to_string(), false))?;
            let Some(state) = found.first() else { return Ok(false) };
            let now = self.clock.now();
            let blocked = state.blocked_until.filter(|until| Some(*until) != own);
            if let Some(until) = blocked.filter(|until| until.since(now) > self.longest_wait) {
                return Err((format!("{host} is not to be asked before {until}"), true));
            }
            // Without a time all of its slots are in use.
            let free = state.next_at.unwrap_or_else(|| now.after(self.delay)).max(now);
            if free <= now {
                self.hold(host, now.after(self.clock.stretch(self.timeout))).await?;
                return Ok(true);
            }
            if now.since(began) > self.longest_wait {
                return Err((format!("{host} is busy"), true));
            }
            self.clock.sleep_until(free).await;
        }
    }

    /// Until when a server asks for no more requests: as it says, or for longer than a search waits.
    fn asked_pause(&self, answer: &Exchange, now: Ts) -> Option<Ts> {
        let named = retry_after(&answer.headers, now, self.house.max_retry_after);
        let until = named.map(|pause| pause.until);
        match answer.status {
            429 => Some(until.unwrap_or_else(|| now.after(2 * self.longest_wait))),
            503 => until,
            _ => None,
        }
    }

    /// Keeps others from asking a host that the store knows.
    async fn hold(&self, host: &str, until: Ts) -> Result<(), (String, bool)> {
        let Some(store) = &self.store else { return Ok(()) };
        let name = queue_key(host, &store.rules().groups).to_owned();
        let (blocked_until, blocked_by) = (Some(until), Some(UNKNOWN_TASK));
        let patch = HostPatch { blocked_until, blocked_by, ..HostPatch::default() };
        store.set_host(&name, patch).await.map_err(|error| (error.to_string(), false))
    }
}

/// The newest entries of a feed, and when all of them were published.
fn newest(body: &[u8], content_type: Option<&str>, url: &Url) -> (Vec<Entry>, Vec<Ts>) {
    let read = feed::parse(body, content_type, url.as_str(), &feed::Limits::default());
    let mut entries = read.map(|feed| feed.entries).unwrap_or_default();
    let date = |entry: &Entry| entry.published.or(entry.updated);
    let mut times: Vec<Ts> = entries.iter().filter_map(date).collect();
    times.sort_unstable();
    // Those without a date stand where the feed has them.
    entries.sort_by_key(|entry| std::cmp::Reverse(date(entry)));
    entries.truncate(SHOWN);
    (entries, times)
}

/// Has the home pages looked at of sources that came in while nobody looked. How many those are.
pub(super) async fn begin(config: &Config, store: &dyn Store) -> Result<u64, AppError> {
    if !config.discovery.enabled {
        return Ok(0);
    }
    let searches = store.discoveries().await?;
    let begun: HashSet<SourceId> = searches.into_iter().map(|(source, _)| source).collect();
    let sources = store.sources().await?.into_iter();
    let wanting = sources.filter(|it| it.enabled() && it.spec.seeks_channels());
    let probes = wanting.filter(|it| !begun.contains(&it.id)).map(|source| NewTask {
        url: source.spec.url,
        kind: Kind::Probe,
        origin: Origin::Manual,
        source: Some(source.id),
        base_priority: source.spec.priority,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    });
    Ok(store.submit(probes.collect()).await?.new)
}
