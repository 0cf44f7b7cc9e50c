//! A simulated web of publishers on loopback that knows the truth about itself.
//!
//! A [`Newsroom`] serves many hosts by name on one port: `http://NAME.test/...`, routed by
//! the Host header; the client is told to connect to [`Newsroom::addr`] instead. Stories follow
//! from the seed (`rng` → `rhythm`, `prose` → `publisher` → `world`), documents from stories
//! (`feeds`, `sitemaps`, `template` → `site`), answers from documents and faults (`reply`), and only
//! `http` touches the network. Every request is logged (`log`) and can be judged (`judge`).
//!
//! All time is simulated time from the clock given in [`Setup`]; no other clock is ever read. The
//! pauses of [`Fault::SlowBytes`] are the one exception: they last in real time.

mod faults;
mod feeds;
mod http;
mod judge;
mod log;
mod markup;
mod maze;
mod media;
mod prose;
mod publisher;
mod reply;
mod rhythm;
mod rng;
mod site;
mod sitemaps;
mod template;
mod world;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use faults::{Fault, Mislabel, RetryAfter, Script, Span};
pub use judge::{Impolite, Politeness, Why, judge};
pub use log::{Counters, Logged};
pub use prose::Language;
pub use publisher::{Channel, FeedFormat, Front, JsonLd, Publisher, Template};
pub use world::Story;

use reply::Request;
use world::World;

/// Gives the simulated time in unix milliseconds; the program under test has the same clock.
pub type NewsClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What the simulated web is to be like. Start from [`Setup::new`].
#[derive(Clone)]
pub struct Setup {
    /// How many publishers there are.
    pub publishers: usize,
    /// Everything that is drawn follows from it.
    pub seed: u64,
    /// What time it is.
    pub clock: NewsClock,
    /// Where to listen; port 0 takes a free one.
    pub addr: SocketAddr,
    /// When the simulation starts: history is before, news is after.
    pub starts_at: i64,
    /// How many stories each publisher has before the start, at most a feed window of them.
    pub history: usize,
    /// Lets history go further back than the feed shows.
    pub deep_history: bool,
    /// Nothing new appears after this time.
    pub publish_until: Option<i64>,
    /// Stories per hour and publisher; publishers have between half and one and a half of it.
    pub rate_per_hour: f64,
    /// Lets most publishers write more by day than by night (UTC).
    pub day_profile: bool,
    /// How many items feeds show; by default 20 to 50, and never less than four times what can
    /// appear in half an hour.
    pub window: Option<usize>,
    /// The feed formats in use, in turn.
    pub formats: Vec<FeedFormat>,
    /// What home pages tell of feeds, in turn.
    pub fronts: Vec<Front>,
    /// The share of publishers that have sitemaps and nothing else.
    pub sitemap_only_share: f64,
    /// The share of stories that are wire copies of another publisher's story.
    pub syndication: f64,
    /// Publishers have nothing but pages, and some of these lead nowhere, for ever.
    pub maze: bool,
    /// Whether to keep the request log; without it only the counters grow.
    pub keep_log: bool,
}

impl Setup {
    /// Ten publishers with two stories an hour each, starting now.
    pub fn new(clock: NewsClock) -> Self {
        Self {
            publishers: 10,
            seed: 1,
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            starts_at: clock(),
            clock,
            history: 20,
            deep_history: false,
            publish_until: None,
            rate_per_hour: 2.0,
            day_profile: true,
            window: None,
            formats: vec![FeedFormat::Rss, FeedFormat::Atom, FeedFormat::Json],
            fronts: vec![Front::Alternate],
            sitemap_only_share: 0.1,
            syndication: 0.03,
            maze: false,
            keep_log: true,
        }
    }
}

/// The simulated web while it runs. It stops when dropped; [`Newsroom::stop`] also waits for it.
pub struct Newsroom {
    desk: Arc<Desk>,
    addr: SocketAddr,
    connections: TaskTracker,
}

/// What all connections share.
struct Desk {
    world: World,
    clock: NewsClock,
    faults: Mutex<faults::Faults>,
    book: Mutex<log::Book>,
    keep_log: bool,
    serial: AtomicU64,
    visitors: AtomicU64,
    open: AtomicU64,
    stopping: CancellationToken,
}

impl Desk {
    /// The fault for this request, and a number no other request has.
    fn strike(&self, request: &Request, now: i64) -> (Option<Fault>, u64) {
        let fault = locked(&self.faults).strike(&request.host, &request.target, now);
        (fault, self.serial.fetch_add(1, Ordering::Relaxed))
    }

    fn enter(&self, entry: Logged) {
        locked(&self.book).enter(entry, self.keep_log);
    }
}

impl Newsroom {
    /// Opens the port and serves it until stopped or dropped.
    pub async fn start(setup: Setup) -> io::Result<Self> {
        let listener = TcpListener::bind(setup.addr).await?;
        let addr = listener.local_addr()?;
        let desk = Arc::new(Desk {
            world: World::new(&setup),
            clock: setup.clock,
            faults: Mutex::default(),
            book: Mutex::default(),
            keep_log: setup.keep_log,
            serial: AtomicU64::new(0),
            visitors: AtomicU64::new(0),
            open: AtomicU64::new(0),
            stopping: CancellationToken::new(),
        });
        let connections = TaskTracker::new();
        connections.spawn(accept(listener, Arc::clone(&desk), connections.clone()));
        Ok(Self { desk, addr, connections })
    }

    /// Where all hosts are served.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// All publishers, by index.
    pub fn publishers(&self) -> &[Publisher] {
        &self.desk.world.publishers
    }

    /// The truth about every story visible at `until`, history included, in the order published.
    pub fn published(&self, until: i64) -> Vec<Story> {
        let world = &self.desk.world;
        let mut stories: Vec<Story> = self
            .publishers()
            .iter()
            .flat_map(|site| world.visible(site, until).map(move |number| (site, number)))
            .map(|(site, number)| world.story(site, world.outline(site, number)))
            .collect();
        stories.sort_by_key(|story| story.published_at);
        stories
    }

    /// How many stories are visible at `until`, without making them.
    pub fn published_count(&self, until: i64) -> usize {
        (0..self.publishers().len()).map(|index| self.published_by(index, until)).sum()
    }

    /// How many stories of one publisher are visible at `until`.
    pub fn published_by(&self, publisher: usize, until: i64) -> usize {
        let site = self.publishers().get(publisher);
        site.map_or(0, |site| self.desk.world.visible(site, until).count())
    }

    /// The truth about the story at this URL, published already or not.
    pub fn story(&self, url: &str) -> Option<Story> {
        let (host, path) = url.strip_prefix("http://")?.split_once('/')?;
        let site = self.desk.world.publisher(host)?;
        let outline = self.desk.world.find(site, &format!("/{path}"))?;
        Some(self.desk.world.story(site, outline))
    }

    /// The page of the story at this URL, as it is served.
    pub fn page(&self, url: &str) -> Option<String> {
        let (host, path) = url.strip_prefix("http://")?.split_once('/')?;
        let site = self.desk.world.publisher(host)?;
        let outline = self.desk.world.find(site, &format!("/{path}"))?;
        Some(template::article(&self.desk.world, site, outline))
    }

    /// Commands a fault for a host (`*`: all) and all paths with this prefix; robots.txt is a path
    /// like any other.
    pub fn misbehave(&self, host: &str, path_prefix: &str, fault: Fault, span: Span) {
        locked(&self.desk.faults).add(host, path_prefix, fault, span);
    }

    /// Lifts the faults that were commanded with just this host and prefix.
    pub fn behave(&self, host: &str, path_prefix: &str) {
        locked(&self.desk.faults).lift(host, path_prefix);
    }

    /// How many of the commanded faults can still strike.
    pub fn unspent_faults(&self) -> usize {
        locked(&self.desk.faults).unspent((self.desk.clock)())
    }

    /// All requests that were answered or given up, in the order they began.
    pub fn log(&self) -> Vec<Logged> {
        locked(&self.desk.book).entries()
    }

    /// Requests that were read and not yet answered.
    pub fn open_requests(&self) -> u64 {
        self.desk.open.load(Ordering::SeqCst)
    }

    /// Requests, 304s and bytes so far.
    pub fn counters(&self) -> Counters {
        locked(&self.desk.book).counters()
    }

    /// Judges the log by this delay and by what each publisher's robots.txt says.
    pub fn impolite(&self, default_delay_ms: i64) -> Vec<Impolite> {
        let sites = self.publishers().iter();
        let rules = Politeness {
            default_delay_ms,
            crawl_delay_ms: sites
                .clone()
                .filter_map(|site| Some((site.host.clone(), i64::from(site.crawl_delay?) * 1_000)))
                .collect(),
            declared: sites
                .clone()
                .filter_map(|site| {
                    let feed = site.feed_url()?;
                    let path = feed.strip_prefix(site.url("").as_str())?.to_owned();
                    Some((site.host.clone(), vec![path]))
                })
                .collect(),
            disallowed: sites
                .map(|site| {
                    (site.host.clone(), site.disallowed().iter().map(|&it| it.to_owned()).collect())
                })
                .collect(),
            tolerance_ms: 1,
        };
        judge(&self.log(), &rules)
    }

    /// Closes the port and all connections, and waits until they are closed.
    pub async fn stop(&self) {
        self.desk.stopping.cancel();
        self.connections.close();
        self.connections.wait().await;
    }
}

impl Drop for Newsroom {
    fn drop(&mut self) {
        self.desk.stopping.cancel();
    }
}

async fn accept(listener: TcpListener, desk: Arc<Desk>, connections: TaskTracker) {
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Out of sockets, most likely: wait until some are closed.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                stream.set_nodelay(true).ok();
                connections.spawn(http::serve(stream, Arc::clone(&desk)));
            }
            () = desk.stopping.cancelled() => return,
        }
    }
}

/// What a panicking holder left behind is still the best there is.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Quick rather than small: everything stays on loopback.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to memory cannot fail.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}
