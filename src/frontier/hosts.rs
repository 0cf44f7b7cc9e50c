//! What is known about a host, as an operator asks for it. Pure: both backends read the same columns.

use std::time::Duration;

use serde::Serialize;

use super::{Pace, PauseOrigin, Rules};
use crate::db::statement::{Dialect, Terms};
use crate::model::{TaskId, Ts};

/// A block that ends only when an operator lifts it: the last second that can be written down.
pub const FOREVER: Ts = Ts::from_ms(253_402_300_799_000);

/// Stands for the task whose response asked for a pause, when it is not known which that was.
pub const UNKNOWN_TASK: TaskId = TaskId(0);

/// Which hosts, and which part of them.
#[derive(Clone, Debug, Default)]
pub struct HostFilter {
    /// With exactly this name.
    pub name: Option<String>,
    /// With this in its name.
    pub search: Option<String>,
    /// Only those that are blocked now.
    pub blocked: bool,
    /// Only those after this name.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// A kept robots.txt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RobotsCopy {
    /// Whose it is.
    pub origin: String,
    /// The pause that it asks for.
    pub crawl_delay_ms: Option<i64>,
    /// When it was read.
    pub fetched_at: Ts,
    /// When it is read again before the next page.
    pub expires_at: Ts,
}

/// A host, or a group of hosts that share a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostState {
    /// Its name.
    pub name: String,
    /// The pause between two requests.
    pub pause_ms: u64,
    /// Who asks for that pause.
    pub pause_from: PauseOrigin,
    /// What robots.txt asks for.
    pub crawl_delay_ms: Option<i64>,
    /// What a source asks for.
    pub rate_ms: Option<i64>,
    /// What complaints taught; 0 when there were none.
    pub learned_ms: i64,
    /// The shortest that the operator allows; 0 when nothing was said.
    pub slow_ms: i64,
    /// Nothing before this time, when that is ahead.
    pub blocked_until: Option<Ts>,
    /// The task whose response asked for that, [`UNKNOWN_TASK`] when it is not known; `None` when the
    /// operator did.
    pub blocked_by: Option<TaskId>,
    /// When a free slot can be used next; `None` when all are in use.
    pub next_at: Option<Ts>,
    /// Requests at a time.
    pub concurrency: u32,
    /// Requests under way.
    pub in_flight: u32,
    /// Tasks whose time has come, by lane.
    pub queued: Queued,
    /// When it was last asked.
    pub last_fetch_at: Option<Ts>,
    /// When we first heard of it.
    pub created_at: Ts,
    /// Its copies of robots.txt.
    pub robots: Vec<RobotsCopy>,
}

/// Tasks whose time has come, by lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// Feeds, sitemaps and the like.
    pub poll: u64,
    /// Pages.
    pub page: u64,
    /// Files.
    pub media: u64,
}

/// Columns of a host behind its name.
pub(super) const NUMBERS: usize = 14;

/// Name and [`NUMBERS`] whole numbers, each of which may be missing.
pub(super) fn sql(filter: &HostFilter, dialect: Dialect, now: Ts) -> (String, Terms) {
    let mut terms = Terms::new(dialect);
    terms.add("h.slot = 0");
    if let Some(name) = &filter.name {
        let name = terms.text(name);
        terms.add(format!("h.name = {name}"));
    }
    if let Some(part) = &filter.search {
        terms.holds("h.name", part);
    }
    if filter.blocked {
        let now = terms.int(now.ms());
        terms.add(format!("h.blocked_until > {now}"));
    }
    if let Some(after) = &filter.after {
        let after = terms.text(after);
        terms.add(format!("h.name > {after}"));
    }
    let of_slots = |what: &str| format!("(SELECT {what} FROM host s WHERE s.queue_id = h.id)");
    let queued = |lane: u8| {
        format!("(SELECT count(*) FROM queue q WHERE q.host_id = h.id AND q.lane = {lane})")
    };
    let sql = format!(
        "SELECT h.name, h.crawl_ms, h.rate_ms, h.learned_ms, h.slow_ms, h.blocked_until,
           h.blocked_by, h.created_at, h.concurrency, {}, {}, {}, {}, {}, {}
         FROM host h WHERE {} ORDER BY h.name LIMIT {}",
        of_slots("max(s.last_fetch_at)"),
        of_slots("min(CASE WHEN s.lease_id IS NULL THEN s.next_at END)"),
        of_slots("count(s.lease_id)"),
        queued(0),
        queued(1),
        queued(2),
        terms.sql(),
        i64::try_from(filter.limit).unwrap_or(i64::MAX)
    );
    (sql, terms)
}

/// A host from its columns.
pub(super) fn state(
    name: String,
    numbers: [Option<i64>; NUMBERS],
    robots: Vec<RobotsCopy>,
    now: Ts,
    rules: &Rules,
) -> HostState {
    let [crawl, rate, learned, slow, blocked, by, created, slots, last, next, flying, queues @ ..] =
        numbers;
    let pace = Pace {
        crawl_ms: crawl,
        rate_ms: rate,
        learned_ms: learned.unwrap_or(0),
        slow_ms: slow.unwrap_or(0),
        blocked_until: Ts::from_ms(blocked.unwrap_or(0)),
        blocked_by: by.map(TaskId),
    };
    let (pause, pause_from) = pace.pause_and_origin(rules.delay.get());
    let small = |number: Option<i64>| number.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let [poll, page, media] =
        queues.map(|number| number.and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
    HostState {
        name,
        pause_ms: millis(pause),
        pause_from,
        crawl_delay_ms: pace.crawl_ms,
        rate_ms: pace.rate_ms,
        learned_ms: pace.learned_ms,
        slow_ms: pace.slow_ms,
        blocked_until: Some(pace.blocked_until).filter(|until| *until > now),
        blocked_by: pace.blocked_by.filter(|_| pace.blocked_until > now),
        next_at: next.map(Ts::from_ms),
        concurrency: small(slots),
        in_flight: small(flying),
        queued: Queued { poll, page, media },
        last_fetch_at: last.map(Ts::from_ms),
        created_at: Ts::from_ms(created.unwrap_or(0)),
        robots,
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
