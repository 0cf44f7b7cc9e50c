//! How we behave towards one publisher, for the publisher, and the page about us.
//!
//! Who we are, what its robots.txt allows us, how often we come, what we asked, and how to stop us.
//! At most one request is made, for robots.txt, under a lease like any other and only when no fresh copy
//! is kept.

use std::time::Duration;

use feedmill_formats::url::{self as web, Url};
use serde::Serialize;

use super::explain::{find_host, queue_of};
use super::poll::Stand;
use super::{AppError, robots_agent};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{DbError, LockError};
use crate::frontier::{Act, PauseOrigin, TaskFilter};
use crate::handle::robots_rules;
use crate::model::{Kind, NewTask, Origin, Status, TaskId, Ts, Verdict};
use crate::store::{FetchFilter, Store};

/// What was asked of a host is told for so long.
const LOOK_BACK: Duration = Duration::from_hours(30 * 24);
/// Requests that are counted at the most.
const COUNTED: usize = 200_000;
/// Channels told.
const CHANNELS: usize = 50;

/// How we behave towards a publisher.
#[derive(Debug, Serialize)]
pub struct Manners {
    /// The address in question.
    pub url: String,
    /// Its host, or the group that shares a pause with it.
    pub host: String,
    /// How we say who we are, in every request.
    pub agent: String,
    /// The name by which robots.txt speaks to us.
    pub robots_name: String,
    /// Where we can be reached; empty when the operator set nothing.
    pub contact: String,
    /// What robots.txt says, and when it was read.
    pub robots: RobotsTold,
    /// Whether we would ask for the address.
    pub allowed: bool,
    /// Why, or why not.
    pub why: String,
    /// What robots.txt says about the use of what is there.
    pub rights: feedmill_formats::rights::Rights,
    /// The pause between two requests, in milliseconds.
    pub pause_ms: u64,
    /// Who asks for that pause.
    pub pause_from: PauseOrigin,
    /// Requests at a time.
    pub at_a_time: u32,
    /// Until when nothing is asked, on the publisher's or the operator's word.
    pub blocked_until: Option<Ts>,
    /// What is asked for again and again.
    pub channels: Vec<Visited>,
    /// What was asked in the last 30 days.
    pub asked: Asked,
    /// How to stop us.
    pub to_stop: Vec<String>,
}

/// A robots.txt, as far as we know it.
#[derive(Debug, Serialize)]
pub struct RobotsTold {
    /// Where it is.
    pub url: String,
    /// Whether it was asked for just now.
    pub asked_now: bool,
    /// When the copy was read that counts; nothing when there is none.
    pub read_at: Option<Ts>,
    /// When it is read again before the next page.
    pub expires_at: Option<Ts>,
    /// Whether there is such a file.
    pub exists: bool,
    /// The pause that it asks for, in milliseconds.
    pub crawl_delay_ms: Option<u64>,
    /// Sitemaps that it names.
    pub sitemaps: Vec<String>,
    /// Why there is no copy, or only an old one.
    pub trouble: Option<String>,
}

/// Something that is asked for again and again.
#[derive(Debug, Serialize)]
pub struct Visited {
    /// Where it is.
    pub url: String,
    /// feed, sitemap or listing.
    pub kind: Kind,
    /// When it is asked for next.
    pub next_at: Option<Ts>,
    /// How often it was asked for so far.
    pub fetch_count: u32,
    /// Why it comes when it does.
    pub reason: Option<String>,
}

/// What was asked of a host.
#[derive(Debug, Default, Serialize)]
pub struct Asked {
    /// Since when it is counted.
    pub since: Option<Ts>,
    /// Requests.
    pub requests: u64,
    /// Those that were answered with "nothing changed".
    pub not_modified: u64,
    /// Those that were answered with a complaint about pace.
    pub complaints: u64,
    /// Bytes of body.
    pub bytes: u64,
    /// The shortest time between two requests, in milliseconds.
    pub least_pause_ms: Option<u64>,
}

/// Tells how we behave towards the publisher of an address.
pub async fn etiquette(url: &Url, config: &Config, clock: &Clock) -> Result<Manners, AppError> {
    let now = clock.now();
    let origin = web::origin(url);
    let mut trouble = None;
    let store = super::open(config, clock).await?;
    let kept = store.robots(&origin).await?;
    let fresh = kept.as_ref().is_some_and(|copy| copy.expires_at > now);
    let known = find_host(url.as_str(), &*store).await?;
    let blocked = known.and_then(|host| host.blocked_until).filter(|until| *until > now);
    store.close().await;
    let asked_now = match (fresh, blocked) {
        (true, _) => false,
        (false, Some(until)) => {
            trouble = Some(format!("nothing is asked of the host until {until}"));
            false
        }
        (false, None) => match ask(url, config, clock).await {
            Ok(asked) => asked,
            Err(AppError::Lock(LockError::Held { .. })) => {
                let why = "an engine runs here and reads it before it asks for the next page";
                trouble = Some(why.to_owned());
                false
            }
            Err(error) => return Err(error),
        },
    };
    let store = super::open(config, clock).await?;
    let manners = told(url, (asked_now, trouble), config, &*store, clock.now()).await;
    store.close().await;
    Ok(manners?)
}

/// Asks for robots.txt under a lease; whether it was asked for.
async fn ask(url: &Url, config: &Config, clock: &Clock) -> Result<bool, AppError> {
    let stand = Stand::open(config, clock, Vec::new()).await?;
    let asked = ask_at(&stand, url).await;
    let closed = stand.close().await;
    let asked = asked?;
    closed.map(|()| asked)
}

/// A page that nobody has is submitted, because the frontier asks for robots.txt only on the way to a page.
/// It is forgotten as soon as the lease for robots.txt is there.
async fn ask_at(stand: &Stand, url: &Url) -> Result<bool, AppError> {
    let page = format!("{}/?feedmill-etiquette", web::origin(url));
    let task = NewTask {
        url: page.clone(),
        kind: Kind::Article,
        origin: Origin::Manual,
        source: None,
        base_priority: 10,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    };
    let store = &stand.store;
    store.submit(vec![task]).await?;
    let filter = TaskFilter {
        host: queue_of(&page, store.rules()),
        search: Some("/?feedmill-etiquette".to_owned()),
        limit: 10,
        ..TaskFilter::default()
    };
    let found: Vec<TaskId> = store.list(filter).await?.iter().map(|task| task.id).collect();
    let Some(task) = found.first().copied() else { return Ok(false) };
    let lease = stand.claim(task).await?;
    let of_robots = lease.filter(|lease| lease.task.kind == Kind::Robots);
    let forget = TaskFilter { ids: found, limit: 10, ..TaskFilter::default() };
    store.sweep(Act::Delete, forget, false).await?;
    let Some(lease) = of_robots else { return Ok(false) };
    stand.server.serve(lease).await;
    Ok(true)
}

async fn told(
    url: &Url,
    (asked_now, trouble): (bool, Option<String>),
    config: &Config,
    store: &dyn Store,
    now: Ts,
) -> Result<Manners, DbError> {
    let (agent, path) = (config.user_agent(), web::path_and_query(url));
    let robots_name = robots_agent(&agent);
    let copy = store.robots(&web::origin(url)).await?.filter(|copy| copy.fetched_at.ms() > 0);
    let rules = copy.as_ref().map(|copy| robots_rules(&copy.verdict));
    let missing = trouble.or_else(|| {
        (asked_now && copy.is_none())
            .then(|| "it could not be had: the host waits until it can".to_owned())
    });
    let robots = RobotsTold {
        url: web::robots_url(url).to_string(),
        asked_now,
        read_at: copy.as_ref().map(|copy| copy.fetched_at),
        expires_at: copy.as_ref().map(|copy| copy.expires_at),
        exists: copy.as_ref().is_some_and(|copy| matches!(copy.verdict, Verdict::Rules(_))),
        crawl_delay_ms: rules.as_ref().and_then(|rules| {
            let delay = rules.crawl_delay(&robots_name)?;
            u64::try_from(delay.as_millis()).ok()
        }),
        sitemaps: rules.as_ref().map(|rules| rules.sitemaps().to_vec()).unwrap_or_default(),
        trouble: missing,
    };
    let name = queue_of(url.as_str(), store.rules()).unwrap_or_default();
    let host = find_host(url.as_str(), store).await?;
    let blocked_until = host.as_ref().and_then(|host| host.blocked_until).filter(|at| *at > now);
    let ruled = rules.as_ref().map(|rules| rules.allows(&robots_name, &path));
    let (allowed, why) = match (blocked_until, ruled, robots.exists) {
        (Some(until), _, _) => (false, format!("nothing is asked of the host until {until}")),
        (None, None, _) => (false, "robots.txt is not known yet, and comes first".to_owned()),
        (None, Some(false), _) => (false, format!("robots.txt disallows {path} for {robots_name}")),
        (None, Some(true), true) => (true, format!("robots.txt allows {path} for {robots_name}")),
        (None, Some(true), false) => (true, "there is no robots.txt, which allows all".to_owned()),
    };
    let (pause_ms, pause_from, at_a_time) = match &host {
        Some(host) => (host.pause_ms, host.pause_from, host.concurrency),
        None => (config.hosts.delay.as_millis(), PauseOrigin::Default, config.hosts.concurrency),
    };
    Ok(Manners {
        url: url.to_string(),
        rights: rules.map(|rules| rules.rights(&robots_name, &path)).unwrap_or_default(),
        channels: channels(&name, store).await?,
        asked: asked(&name, store, now).await?,
        to_stop: to_stop(config),
        contact: config.fetch.contact.clone(),
        host: name,
        agent,
        robots_name,
        robots,
        allowed,
        why,
        pause_ms,
        pause_from,
        at_a_time,
        blocked_until,
    })
}

async fn channels(host: &str, store: &dyn Store) -> Result<Vec<Visited>, DbError> {
    let mut found = Vec::new();
    for kind in [Kind::Feed, Kind::Sitemap, Kind::Listing] {
        let (host, kind) = (Some(host.to_owned()), Some(kind));
        let filter = TaskFilter { host, kind, limit: CHANNELS, ..TaskFilter::default() };
        found.extend(store.list(filter).await?.into_iter().map(|task| Visited {
            next_at: Some(task.next_fetch_at).filter(|_| task.status == Status::Pending),
            url: task.url,
            kind: task.kind,
            fetch_count: task.fetch_count,
            reason: task.reason,
        }));
    }
    Ok(found)
}

async fn asked(host: &str, store: &dyn Store, now: Ts) -> Result<Asked, DbError> {
    let since = Some(now.before(LOOK_BACK));
    let filter = FetchFilter {
        host: Some(host.to_owned()),
        since,
        limit: COUNTED,
        ..FetchFilter::default()
    };
    let fetches = store.find_fetches(filter).await?;
    let mut asked = Asked { since, ..Asked::default() };
    for fetch in &fetches {
        asked.requests += 1;
        asked.bytes += fetch.bytes;
        asked.not_modified += u64::from(fetch.status == Some(304));
        asked.complaints += u64::from(fetch.status == Some(429));
    }
    let gaps = fetches.windows(2).filter_map(|two| match two {
        [first, next] => u64::try_from(next.at.since(first.at).as_millis()).ok(),
        _ => None,
    });
    asked.least_pause_ms = gaps.min();
    Ok(asked)
}

/// How a publisher stops us, the quickest way first.
fn to_stop(config: &Config) -> Vec<String> {
    let name = robots_agent(&config.user_agent());
    let ttl = config.robots.ttl;
    let mut ways = vec![
        format!(
            "robots.txt with `User-agent: {name}` and `Disallow: /`: it is read again after {ttl} at the latest"
        ),
        "429, or 503 with Retry-After: nothing is asked before the time that it names".to_owned(),
        format!("`Crawl-delay: 60` in robots.txt under `User-agent: {name}`: one request a minute"),
        "410 for a feed: it is never asked for again".to_owned(),
    ];
    if !config.fetch.contact.is_empty() {
        ways.push(format!("a word to {}: the operator blocks the host", config.fetch.contact));
    }
    ways
}

/// The page about us that publishers are sent to.
#[must_use]
pub fn bot_page(config: &Config) -> String {
    let agent = config.user_agent();
    let contact = match config.fetch.contact.as_str() {
        "" => "The operator has not said how to be reached.".to_owned(),
        page if page.starts_with("http") => {
            format!("<a href=\"{0}\" rel=\"nofollow\">{0}</a>", escaped(page))
        }
        mail => format!("<a href=\"mailto:{0}\">{0}</a>", escaped(mail)),
    };
    let ways: String =
        to_stop(config).iter().map(|way| format!("<li>{}</li>\n", marked_up(way))).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>About this robot</title>\n</head>\n<body>\n\
         <h1>About this robot</h1>\n\
         <p>You were visited by <code>{agent}</code>. It reads feeds, sitemaps and the articles that they \
         name, on behalf of whoever runs it.</p>\n\
         <h2>How it behaves</h2>\n<ul>\n\
         <li>It says who it is in every request, and never pretends to be a browser.</li>\n\
         <li>It obeys robots.txt (RFC 9309), with Crawl-delay, under the name <code>{name}</code>.</li>\n\
         <li>It makes {at_a_time} at a time to a host and waits at least {delay} after each, longer where \
         your server answers 429, or 503 with Retry-After.</li>\n\
         <li>It asks whether something changed (ETag, Last-Modified) before it takes it again, and comes \
         to a feed as often as that has news.</li>\n\
         <li>It keeps what you say about the use of your texts (noai, Content-Signal, TDMRep) with each of \
         them.</li>\n</ul>\n\
         <h2>How to stop it</h2>\n<ul>\n{ways}</ul>\n\
         <h2>Who runs it</h2>\n<p>{contact}</p>\n</body>\n</html>\n",
        agent = escaped(&agent),
        name = escaped(&robots_agent(&agent)),
        at_a_time = match config.hosts.concurrency {
            1 => "one request".to_owned(),
            more => format!("{more} requests"),
        },
        delay = config.hosts.delay,
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text with words between backquotes as code.
fn marked_up(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(n, part)| match n % 2 {
        1 => format!("<code>{}</code>", escaped(part)),
        _ => escaped(part),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_us_says_who_we_are_and_cannot_be_broken_out_of() {
        let mut config = Config::default();
        config.fetch.contact = "https://news.example/bot?a=1&b=\"><script>".into();
        config.hosts.concurrency = 2;
        let page = bot_page(&config);
        assert!(page.contains("<code>Feedmill</code>") && page.contains("2 requests at a time"));
        assert!(page.contains("User-agent: Feedmill") && page.contains("Retry-After"));
        assert!(!page.contains("<script") && !page.contains("\"><"), "{page}");
        config.fetch.contact = "ann@news.example".into();
        assert!(bot_page(&config).contains("mailto:ann@news.example"));
        config.fetch.contact = String::new();
        assert!(bot_page(&config).contains("has not said"));
    }
}
