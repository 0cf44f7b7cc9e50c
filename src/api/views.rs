//! What the API shows: one type per resource, with the names and forms that are promised to those who use
//! it. What is stored may change; these only grow.

mod contents;
mod short;
mod sources;

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::openapi::schema::{KnownFormat, SchemaFormat, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::app::sinks::SinkStanding;
use crate::frontier::{Counts, FOREVER, HostState};
use crate::model::{Event, Takedown, Task, Ts};
use crate::store::gate::{AuditRow, TokenRow};
use crate::store::outbox::DeadLetter;

pub(super) use contents::{ArticleView, EntryView, FetchView, ReferenceView, RevisionView};
pub(super) use sources::{DiscoveryView, FeedView, SourceView, word};

/// The first and the last time that can be written with four digits of a year, in milliseconds.
const WRITABLE: (i64, i64) = (-62_135_596_800_000, 253_402_207_200_999);

/// An instant: RFC 3339 in UTC, with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Ts);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (first, last) = WRITABLE;
        let ms = self.0.ms().clamp(first, last);
        let whole = Ts::from_ms(ms.div_euclid(1_000) * 1_000).to_string();
        let whole = whole.trim_end_matches('Z');
        serializer.collect_str(&format_args!("{whole}.{:03}Z", ms.rem_euclid(1_000)))
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl ToSchema for Time {
    fn name() -> Cow<'static, str> {
        "Time".into()
    }
}

fn time(at: Option<Ts>) -> Option<Time> {
    at.map(Time)
}

/// An address in the queue.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Task)]
pub(super) struct TaskView {
    pub(super) id: String,
    url: String,
    url_key: String,
    url_hash: String,
    host: String,
    kind: String,
    /// feed, sitemap, spider or manual.
    origin: String,
    source_id: Option<String>,
    /// pending, fetching, fetched, failed, dead or parked.
    status: String,
    priority: u8,
    depth: u16,
    redirects: u16,
    next_fetch_at: Time,
    last_fetched_at: Option<Time>,
    fetch_count: u32,
    retry_count: u16,
    last_error: Option<String>,
    reason: Option<String>,
    discovered_at: Time,
    created_at: Time,
}

impl From<Task> for TaskView {
    fn from(task: Task) -> Self {
        Self {
            status: task.state().to_string(),
            id: task.id.to_string(),
            url: task.url,
            url_key: task.url_key,
            url_hash: task.url_hash.to_string(),
            host: task.host,
            kind: task.kind.to_string(),
            origin: task.origin.to_string(),
            source_id: task.source_id,
            priority: task.priority,
            depth: task.depth,
            redirects: task.redirects,
            next_fetch_at: Time(task.next_fetch_at),
            last_fetched_at: time(task.last_fetched_at),
            fetch_count: task.fetch_count,
            retry_count: task.retry_count,
            last_error: task.last_error.map(|code| code.to_string()),
            reason: task.reason,
            discovered_at: Time(task.discovered_at),
            created_at: Time(task.discovered_at),
        }
    }
}

/// Addresses by where they stand.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Counts)]
pub(super) struct CountsView {
    pending: u64,
    fetching: u64,
    fetched: u64,
    failed: u64,
    dead: u64,
    parked: u64,
}

impl From<&Counts> for CountsView {
    fn from(counts: &Counts) -> Self {
        let Counts { pending, fetching, fetched, failed, dead, parked } = *counts;
        Self { pending, fetching, fetched, failed, dead, parked }
    }
}

/// Addresses whose time has come, by lane.
#[derive(Debug, Serialize, ToSchema)]
struct QueuedView {
    poll: u64,
    page: u64,
    media: u64,
}

/// A copy of a robots.txt.
#[derive(Debug, Serialize, ToSchema)]
struct RobotsView {
    origin: String,
    crawl_delay_ms: Option<i64>,
    fetched_at: Time,
    expires_at: Time,
}

/// A host, or a group of hosts that share a budget.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Host)]
pub(super) struct HostView {
    pub(super) name: String,
    /// The pause between two requests.
    pause_ms: u64,
    /// Who asks for that pause.
    #[schema(value_type = String)]
    pause_from: crate::frontier::PauseOrigin,
    crawl_delay_ms: Option<i64>,
    rate_ms: Option<i64>,
    learned_ms: i64,
    slow_ms: i64,
    blocked_until: Option<Time>,
    /// Whether only an operator ends the block.
    blocked_forever: bool,
    /// Whether a response asked for the block, by `Retry-After` or a complaint.
    blocked_by_response: bool,
    next_at: Option<Time>,
    concurrency: u32,
    in_flight: u32,
    queued: QueuedView,
    last_fetch_at: Option<Time>,
    created_at: Time,
    robots: Vec<RobotsView>,
}

impl From<HostState> for HostView {
    fn from(host: HostState) -> Self {
        let robots = host.robots.into_iter().map(|copy| RobotsView {
            origin: copy.origin,
            crawl_delay_ms: copy.crawl_delay_ms,
            fetched_at: Time(copy.fetched_at),
            expires_at: Time(copy.expires_at),
        });
        Self {
            pause_ms: host.pause_ms,
            pause_from: host.pause_from,
            crawl_delay_ms: host.crawl_delay_ms,
            rate_ms: host.rate_ms,
            learned_ms: host.learned_ms,
            slow_ms: host.slow_ms,
            blocked_until: time(host.blocked_until),
            blocked_forever: host.blocked_until.is_some_and(|until| until >= FOREVER),
            blocked_by_response: host.blocked_by.is_some(),
            next_at: time(host.next_at),
            concurrency: host.concurrency,
            in_flight: host.in_flight,
            queued: QueuedView {
                poll: host.queued.poll,
                page: host.queued.page,
                media: host.queued.media,
            },
            last_fetch_at: time(host.last_fetch_at),
            created_at: Time(host.created_at),
            robots: robots.collect(),
            name: host.name,
        }
    }
}

/// A host that is not asked until an operator says otherwise.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OptOut)]
pub(super) struct OptOutView {
    pub(super) name: String,
    /// blocked (this host alone), or `taken_down` (with those below it, and with what was read there).
    kind: String,
    /// Since when, who wanted it and why, of what was taken down.
    since: Option<Time>,
    by: Option<String>,
    why: Option<String>,
}

impl OptOutView {
    pub(super) fn blocked(name: String) -> Self {
        Self { name, kind: "blocked".to_owned(), since: None, by: None, why: None }
    }
}

impl From<Takedown> for OptOutView {
    fn from(takedown: Takedown) -> Self {
        let Takedown { target, at, by, why, .. } = takedown;
        let kind = "taken_down".to_owned();
        Self { name: target, kind, since: Some(Time(at)), by: Some(by), why: Some(why) }
    }
}

/// What was taken back for good.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Takedown)]
pub(super) struct TakedownView {
    /// address, host or source.
    scope: String,
    /// The normalised address, the host, or the source's id.
    target: String,
    /// The same as people know it.
    name: String,
    /// Who wanted it, and why.
    by: String,
    why: String,
    at: Time,
    /// How much went.
    articles: u64,
    entries: u64,
    records: u64,
    /// When nothing was left to be taken.
    done_at: Option<Time>,
    /// Since when it is no longer refused, and who wanted that.
    lifted_at: Option<Time>,
    lifted_by: Option<String>,
}

impl From<Takedown> for TakedownView {
    fn from(it: Takedown) -> Self {
        Self {
            scope: it.scope.to_string(),
            target: it.target,
            name: it.name,
            by: it.by,
            why: it.why,
            at: Time(it.at),
            articles: it.articles,
            entries: it.entries,
            records: it.records,
            done_at: time(it.done_at),
            lifted_at: time(it.lifted_at),
            lifted_by: it.lifted_by,
        }
    }
}

/// Something that happened.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventView {
    /// Its place in the log; later ones have greater places.
    pub(super) seq: i64,
    at: Time,
    pub(super) kind: String,
    /// What it is about.
    subject: String,
    source_id: Option<String>,
    #[schema(value_type = Object)]
    payload: Value,
}

impl EventView {
    pub(super) fn of(event: Event, source_id: Option<String>) -> Self {
        let Event { seq, at, kind, subject, payload, .. } = event;
        Self { seq, at: Time(at), kind: kind.to_string(), subject, source_id, payload }
    }
}

/// Somebody who gets the events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Sink)]
pub(super) struct SinkView {
    name: String,
    /// What it is called in the configuration; null when it is not there any more.
    configured: Option<String>,
    kind: Option<String>,
    /// ok, `dead_letters`, `held_up`, paused or `not_configured`.
    state: String,
    /// The last event delivered.
    seq: i64,
    delivered: u64,
    lag_events: i64,
    lag_seconds: u64,
    paused_at: Option<Time>,
    held_by: Option<String>,
    last_error: Option<String>,
    updated_at: Time,
    dead_letters: u64,
}

impl From<SinkStanding> for SinkView {
    fn from(sink: SinkStanding) -> Self {
        Self {
            state: sink.state().to_string(),
            configured: sink.configured,
            kind: sink.kind.map(str::to_owned),
            seq: sink.row.cursor.seq,
            delivered: sink.row.delivered,
            lag_events: sink.lag_events,
            lag_seconds: sink.lag_seconds,
            paused_at: time(sink.row.paused_at),
            held_by: sink.row.held_by,
            last_error: sink.row.last_error,
            updated_at: Time(sink.row.updated_at),
            dead_letters: sink.row.dead_letters,
            name: sink.row.name,
        }
    }
}

/// An event that a sink's target would not have.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(super) struct LetterView {
    pub(super) seq: i64,
    at: Time,
    attempts: u32,
    /// Whether it is to be sent again.
    again: bool,
    code: String,
    reason: String,
}

impl From<DeadLetter> for LetterView {
    fn from(letter: DeadLetter) -> Self {
        let DeadLetter { seq, at, attempts, again, code, reason } = letter;
        Self { seq, at: Time(at), attempts, again, code, reason }
    }
}

/// Something that was changed through the API.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Audit)]
pub(super) struct AuditView {
    id: String,
    at: Time,
    /// The name of the token, or `local`.
    who: String,
    method: String,
    path: String,
    status: u16,
}

impl From<AuditRow> for AuditView {
    fn from(row: AuditRow) -> Self {
        let AuditRow { id, at, who, method, path, status } = row;
        Self { id: id.to_string(), at: Time(at), who, method, path, status }
    }
}

/// Somebody who may use the API. The token itself is never shown again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub(super) struct TokenView {
    name: String,
    /// read, write or admin.
    scope: String,
    created_at: Time,
    last_used_at: Option<Time>,
}

impl From<TokenRow> for TokenView {
    fn from(row: TokenRow) -> Self {
        Self {
            name: row.name,
            scope: row.scope.to_string(),
            created_at: Time(row.created_at),
            last_used_at: time(row.used_at),
        }
    }
}

/// How many that was done to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Done {
    /// Addresses that it was done to.
    pub(super) tasks: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_four_digits_of_a_year() {
        let told = |ms| serde_json::to_value(Time(Ts::from_ms(ms))).unwrap();
        assert_eq!(told(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(told(1_500), "1970-01-01T00:00:01.500Z");
        assert_eq!(told(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(told(i64::MAX), "9999-12-30T22:00:00.999Z");
        assert_eq!(told(i64::MIN), "0001-01-01T00:00:00.000Z");
    }
}
