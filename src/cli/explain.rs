//! `feedmill explain`: why an address, a source's channels or a host come up when they do.

use std::collections::{BTreeMap, BTreeSet};

use feedmill_formats::url as web;
use serde::Serialize;
use serde_json::json;

use super::out::Out;
use super::{Context, Failure, channel, host, text};
use crate::frontier::{HostFilter, HostState, Rules, TaskFilter, queue_key};
use crate::model::{Ask, Code, FetchRecord, Kind, Status, Task, Ts, UrlHash};
use crate::store::{ChannelState, SourceError, Store};

/// Requests shown for each address.
const REQUESTS: usize = 5;
/// Channels shown of a host.
const CHANNELS: usize = 20;

/// Tells why an address, a source or a host is where it is, and when it comes up again
///
/// The reason is the one that the last decision was made for: the interval before and after, what
/// the feed publishes, what a request costs, and what bound the choice. What is due waits for its
/// host: then that is told as well.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill explain example.com
  feedmill explain https://example.com/feed.xml
  feedmill explain www.example.com")]
pub(super) struct Args {
    /// A source's name or id, an address, or a host
    what: String,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    match store.source(&args.what).await {
        Ok((source, channels)) => {
            let now = context.clock.now();
            let urls: Vec<&str> = channels.iter().map(|one| one.url.as_str()).collect();
            let waits = Waits::of(&urls, &*store, now).await?;
            let ask = Ask { discovery: Some(source.id), ..Ask::default() };
            let search = store.lookup(ask).await?.discovery;
            let value = json!({
                "source": source, "channels": channels, "waits": waits.all(), "discovery": search,
            });
            let told = |_: &Out| {
                let parts = channels.iter().map(|one| of_channel(one, &waits, now));
                // How channels were found explains something where there are none.
                let unfound = search.as_ref().filter(|_| channels.is_empty());
                parts.chain(unfound.map(channel::searched)).collect::<Vec<_>>().join("\n\n")
            };
            context.out.emit(&value, told)
        }
        Err(SourceError::Unknown(_)) => match web::parse(&args.what) {
            Ok(_) => address(&args.what, &*store, context).await,
            Err(error) => match host::find(&args.what, &*store).await {
                Ok(found) => of_host(found, &*store, context).await,
                Err(_) => {
                    let message = format!(
                        "`{}` is no source, no known host and no address: {error}",
                        text::one_line(&args.what)
                    );
                    Err(Failure::usage(error.code(), message))
                }
            },
        },
        Err(error) => Err(error.into()),
    }
}

/// A host that nothing is asked of now, until when, and why.
#[derive(Debug, Serialize)]
struct Wait {
    host: String,
    until: Ts,
    why: String,
}

impl Wait {
    /// What a host waits for; `None` when it can be asked.
    async fn of(state: &HostState, store: &dyn Store, now: Ts) -> Result<Option<Self>, Failure> {
        let Some(until) = state.next_at.max(state.blocked_until).filter(|until| *until > now)
        else {
            return Ok(None);
        };
        let why = match state.blocked_until {
            Some(until) => blocker(&state.name, until, store).await?,
            None => format!("its pause of {}", host::pause(state)),
        };
        Ok(Some(Self { host: state.name.clone(), until, why }))
    }

    fn told(&self, now: Ts) -> String {
        format!("{} waits {}: {}", self.host, host::blocked(self.until, now), self.why)
    }
}

/// Who keeps a host from being asked: a task that was told to come back then, or the operator.
async fn blocker(host: &str, until: Ts, store: &dyn Store) -> Result<String, Failure> {
    let of_host =
        || TaskFilter { host: Some(host.to_owned()), limit: CHANNELS, ..TaskFilter::default() };
    let complained = TaskFilter { code: Some(Code::RateLimited), ..of_host() };
    let robots = TaskFilter { kind: Some(Kind::Robots), ..of_host() };
    for filter in [complained, robots] {
        let mut tasks = store.list(filter).await?;
        tasks.retain(|task| task.last_error.is_some() && task.next_fetch_at >= until);
        if let Some(task) = tasks.first() {
            let reason = task.reason.as_deref().unwrap_or_default();
            return Ok(format!("{} of {}", text::one_line(reason), text::one_line(&task.url)));
        }
    }
    Ok("the operator's word, or a complaint that was answered since".to_owned())
}

/// The hosts that wait, of some addresses.
struct Waits<'a> {
    rules: &'a Rules,
    hosts: BTreeMap<String, Wait>,
}

impl<'a> Waits<'a> {
    async fn of(urls: &[&str], store: &'a dyn Store, now: Ts) -> Result<Self, Failure> {
        let rules = store.rules();
        let mut hosts = BTreeMap::new();
        let names: BTreeSet<String> = urls.iter().filter_map(|url| queue_of(url, rules)).collect();
        for name in names {
            let filter = HostFilter { name: Some(name), limit: 1, ..HostFilter::default() };
            for state in store.hosts(filter).await? {
                let wait = Wait::of(&state, store, now).await?;
                hosts.extend(wait.map(|wait| (state.name, wait)));
            }
        }
        Ok(Self { rules, hosts })
    }

    /// What keeps an address from being asked for.
    fn told(&self, url: &str, now: Ts) -> Option<String> {
        let name = queue_of(url, self.rules)?;
        self.hosts.get(&name).map(|wait| wait.told(now))
    }

    fn all(&self) -> Vec<&Wait> {
        self.hosts.values().collect()
    }
}

fn queue_of(url: &str, rules: &Rules) -> Option<String> {
    let url = web::parse(url).ok()?;
    Some(queue_key(&web::host(&url), &rules.groups).to_owned())
}

async fn address(what: &str, store: &dyn Store, context: &Context) -> Result<(), Failure> {
    let url = web::parse(what)
        .map_err(|error| Failure::usage(error.code(), format!("`{what}`: {error}")))?;
    let rules = store.rules();
    let hash = UrlHash::of(&web::key(&url, &rules.key));
    let filter = TaskFilter {
        host: queue_of(what, rules),
        hash: Some(hash.head()),
        limit: usize::MAX,
        ..TaskFilter::default()
    };
    let mut found = Vec::new();
    for task in store.list(filter).await?.into_iter().filter(|task| task.url_hash == hash) {
        let fetches = store.fetches(task.id, REQUESTS).await?;
        let told = store.references(vec![task.id]).await?;
        found.push((task, fetches, told));
    }
    if found.is_empty() {
        let message =
            format!("nothing is known of {url}: `feedmill frontier submit` adds addresses");
        return Err(Failure::failed("unknown_address", message));
    }
    let now = context.clock.now();
    let waits = Waits::of(&[what], store, now).await?;
    let value: Vec<_> = found
        .iter()
        .map(
            |(task, fetches, told)| json!({ "task": task, "fetches": fetches, "references": told }),
        )
        .collect();
    context.out.emit(&json!({ "tasks": value, "waits": waits.all() }), |_| {
        let parts = found.iter().map(|(task, fetches, told)| {
            let told = told.iter().map(|one| text::told_by(one, now));
            let head = of_task(task, fetches, &waits, now);
            std::iter::once(head).chain(told).collect::<Vec<_>>().join("\n")
        });
        parts.collect::<Vec<_>>().join("\n\n")
    })
}

/// A host: how fast it is asked, what it waits for, and its channels by the time of their polls.
async fn of_host(state: HostState, store: &dyn Store, context: &Context) -> Result<(), Failure> {
    let now = context.clock.now();
    let wait = Wait::of(&state, store, now).await?;
    let mut channels = Vec::new();
    for kind in [Kind::Feed, Kind::Sitemap, Kind::Listing] {
        let filter = TaskFilter {
            host: Some(state.name.clone()),
            kind: Some(kind),
            limit: CHANNELS,
            ..TaskFilter::default()
        };
        channels.extend(store.list(filter).await?);
    }
    channels.sort_by_key(|task| task.next_fetch_at);
    let value = json!({ "host": state, "waits": wait, "channels": channels });
    context.out.emit(&value, |out| {
        let head = host::facts(&state, now, out);
        let wait = wait.as_ref().map(|wait| format!("waits       {}", wait.told(now)));
        let rows = channels.iter().map(|task| {
            let due = match task.status {
                Status::Pending => text::when(task.next_fetch_at, now),
                Status::Fetched | Status::Dead | Status::Parked => "never".to_owned(),
            };
            let reason = task.reason.clone().unwrap_or_default();
            [task.kind.to_string(), due, task.url.clone(), reason]
        });
        let table = out.table(["kind", "next poll", "url", "reason"], rows.collect());
        let table = (!channels.is_empty()).then(|| format!("\n{table}"));
        [Some(head), wait, table].into_iter().flatten().collect::<Vec<_>>().join("\n")
    })
}

fn of_channel(one: &ChannelState, waits: &Waits<'_>, now: Ts) -> String {
    let next = match one.status {
        Status::Pending => text::when(one.next_fetch_at, now),
        Status::Fetched | Status::Dead | Status::Parked => format!("never: {}", one.status),
    };
    let failures = (one.failures > 0).then(|| one.failures.to_string());
    let health = channel::health(one).map(|health| match one.health_since {
        Some(since) => format!("{health}, since {}", text::when(since, now)),
        None => health.to_string(),
    });
    let told = lines(
        &one.url,
        [
            ("kind", Some(one.kind.to_string())),
            ("state", Some(channel::state(one, now))),
            ("health", health),
            ("next poll", Some(next)),
            ("host", waits.told(&one.url, now).filter(|_| one.status == Status::Pending)),
            ("last", one.last_fetched_at.map(|at| text::when(at, now))),
            ("failures", failures),
            ("error", one.last_error.map(|code| code.to_string())),
            ("reason", one.reason.clone()),
        ],
    );
    let warnings = channel::warnings(one).map(|warned| format!("warning     {warned}"));
    std::iter::once(told).chain(warnings).collect::<Vec<_>>().join("\n")
}

fn of_task(task: &Task, fetches: &[FetchRecord], waits: &Waits<'_>, now: Ts) -> String {
    let state = if task.leased { "being fetched" } else { task.status.as_str() };
    let is_pending = task.status == Status::Pending;
    let due = is_pending.then(|| text::when(task.next_fetch_at, now));
    let told = lines(
        &task.url,
        [
            ("kind", Some(task.kind.to_string())),
            ("state", Some(state.to_owned())),
            ("due", due),
            ("host", waits.told(&task.url, now).filter(|_| is_pending)),
            ("priority", Some(task.priority.to_string())),
            ("found", Some(format!("{} by {}", text::when(task.discovered_at, now), task.origin))),
            ("error", task.last_error.map(|code| code.to_string())),
            ("reason", task.reason.clone()),
        ],
    );
    let asked = fetches.iter().map(|fetch| {
        let status =
            fetch.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        format!("asked       {}: {status}, {}", text::when(fetch.at, now), fetch.code)
    });
    std::iter::once(told).chain(asked).collect::<Vec<_>>().join("\n")
}

fn lines<const N: usize>(title: &str, facts: [(&str, Option<String>); N]) -> String {
    let facts = facts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<11} {}", text::one_line(&value?))));
    std::iter::once(text::one_line(title)).chain(facts).collect::<Vec<_>>().join("\n")
}
