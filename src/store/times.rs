//! Stored times that a faulty clock left in the future, and how they are put right.
//!
//! With a clock that ran ahead, leases, pauses and due times lie where they are reached in years. What
//! was written then is told apart by times that can only lie in the past: when a host was last asked,
//! when a task was last fetched. They are moved back by as much as the latest of them lies ahead, and
//! what was planned from them with them, so that all distances stay. What was planned too far ahead
//! without such a witness is planned anew. The log, articles and entries keep the times that they have.
//!
//! SQL alone, and the same for both databases.

use std::time::Duration;

use serde::Serialize;

use crate::db::statement::Dialect;
use crate::frontier::FOREVER;
use crate::model::{Code, Ts};

/// A time in the past may lie this far ahead: clocks of two processes differ a little.
const TOLERANCE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;
/// A sink is held by its process for minutes, as a host is.
const LONGEST_HOLD_MS: i64 = 3_600_000;
/// Tasks that are planned anew are spread over this time.
const SPREAD_MS: i64 = 900_000;

/// How many rows hold times that lie too far ahead, or were put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimesAhead {
    /// Feeds, sitemaps and pages.
    pub tasks: u64,
    /// Hosts: pauses and leases.
    pub hosts: u64,
    /// Copies of robots.txt.
    pub robots: u64,
    /// States of feeds and sitemaps.
    pub feeds: u64,
    /// Sinks.
    pub sinks: u64,
    /// How far ahead the clock must have been, in milliseconds; 0 when no time in the past tells.
    pub ahead_ms: i64,
}

impl TimesAhead {
    /// Whether any row holds such a time.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.tasks + self.hosts + self.robots + self.feeds + self.sinks > 0
    }
}

/// What a look for such times goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    now: i64,
    horizon: i64,
    lease: i64,
    dialect: Dialect,
}

impl Look {
    /// A look at this time. `horizon` is the longest that anything is planned ahead, and `lease` the
    /// longest that a host is held: on a clock that runs fast that is days.
    pub(crate) fn new(now: Ts, horizon: Duration, lease: Duration, dialect: Dialect) -> Self {
        let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let [horizon, lease] = [horizon, lease].map(|span| ms(span).min(i64::MAX / 4));
        Self { now: now.ms(), horizon, lease, dialect }
    }

    /// In the words of the database.
    fn worded(&self, sql: &str) -> String {
        let (now, ahead) = (self.now, self.now.saturating_add(TOLERANCE_MS));
        let sql = sql
            .replace("{ahead}", &ahead.to_string())
            .replace("{beyond}", &self.now.saturating_add(self.horizon).to_string())
            .replace("{day}", &ahead.saturating_add(self.lease.max(DAY_MS)).to_string())
            .replace("{leased}", &now.saturating_add(self.lease).to_string())
            .replace("{held}", &ahead.saturating_add(self.lease.max(LONGEST_HOLD_MS)).to_string())
            .replace("{spread}", &SPREAD_MS.to_string())
            .replace("{forever}", &FOREVER.ms().to_string())
            .replace("{limited}", &Code::RateLimited.number().to_string())
            .replace("{now}", &now.to_string());
        match self.dialect {
            Dialect::Sqlite => sql.replace("least(", "min(").replace("greatest(", "max("),
            Dialect::Postgres => sql,
        }
    }

    /// One row: tasks, hosts, robots, feeds and sinks with such times, and the latest time that
    /// should lie in the past. It reads few rows: those of hosts, channels and what waits too long.
    pub(crate) fn survey(&self) -> String {
        self.worded(
            "SELECT (SELECT count(*) FROM task WHERE source_id > 0 AND lane = 0 AND fetched_at > {ahead})
               + (SELECT count(*) FROM delayed d WHERE d.due > {beyond} AND NOT EXISTS(
                    SELECT 1 FROM fetch_state f WHERE f.task_id = d.task_id AND f.last_error = {limited})
                  AND NOT EXISTS(SELECT 1 FROM task t WHERE t.id = d.task_id
                    AND t.source_id > 0 AND t.lane = 0 AND t.fetched_at > {ahead})),
               (SELECT count(*) FROM host WHERE last_fetch_at > {ahead} OR next_at > greatest(
                  blocked_until, {day} + coalesce(crawl_ms, 0) + coalesce(rate_ms, 0) + slow_ms)),
               (SELECT count(*) FROM robots WHERE fetched_at > {ahead} OR expires_at > {beyond}),
               (SELECT count(*) FROM feed WHERE last_success > {ahead} OR health_at > {ahead}
                  OR disabled_at > {ahead} OR probed_at > {ahead} OR moving_since > {ahead}),
               (SELECT count(*) FROM sink WHERE held_until > {held}),
               greatest(coalesce((SELECT max(last_fetch_at) FROM host), 0),
                 coalesce((SELECT max(fetched_at) FROM task WHERE source_id > 0 AND lane = 0), 0),
                 coalesce((SELECT max(fetched_at) FROM robots), 0),
                 coalesce((SELECT max(last_success) FROM feed), 0))",
        )
    }

    /// What a survey found, of its six numbers.
    pub(crate) fn found(&self, numbers: [i64; 6]) -> TimesAhead {
        let [tasks, hosts, robots, feeds, sinks, latest] = numbers;
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let ahead_ms = if latest > self.now + TOLERANCE_MS { latest - self.now } else { 0 };
        TimesAhead {
            tasks: count(tasks),
            hosts: count(hosts),
            robots: count(robots),
            feeds: count(feeds),
            sinks: count(sinks),
            ahead_ms,
        }
    }

    /// The statements that put all such times right, in this order, for a clock that was so far
    /// ahead: tasks, their places in both queues, hosts, robots, validators, feeds, sinks. What was read
    /// by a clock more than a day ahead may have been left out as too old, so it is read again.
    pub(crate) fn repairs(&self, ahead_ms: i64) -> [String; 8] {
        let past = |column: &str| {
            format!(
                "{column} = CASE WHEN {column} > {{ahead}} THEN least({column} - {{by}}, {{now}})
                   ELSE {column} END"
            )
        };
        let limited = "EXISTS(SELECT 1 FROM fetch_state f
            WHERE f.task_id = task.id AND f.last_error = {limited})";
        let own_due = "(SELECT t.due FROM task t WHERE t.id = ";
        [
            format!(
                "UPDATE task SET due = CASE
                   WHEN due <= {{ahead}} OR (fetched_at <= {{ahead}} AND due <= {{beyond}}) THEN due
                   WHEN due - {{by}} <= {{beyond}} THEN greatest(due - {{by}}, {{now}})
                   WHEN {limited} THEN due - {{by}}
                   ELSE {{now}} + id * 7919 % {{spread}} END,
                   {}, {}
                 WHERE host_id <> 0 AND (fetched_at > {{ahead}} OR discovered_at > {{ahead}}
                   OR (status = 0 AND due > {{beyond}} AND NOT {limited}))",
                past("fetched_at"),
                past("discovered_at"),
            ),
            format!(
                "UPDATE delayed SET due = {own_due}delayed.task_id)
                 WHERE due > {{ahead}} AND due <> {own_due}delayed.task_id)"
            ),
            format!(
                "UPDATE queue SET due = {own_due}queue.task_id)
                 WHERE due > {{ahead}} AND due <> {own_due}queue.task_id)"
            ),
            format!(
                "UPDATE host SET blocked_until = CASE
                   WHEN blocked_until <= {{ahead}} OR blocked_until = {{forever}} THEN blocked_until
                   WHEN last_fetch_at > {{ahead}} OR queue_id IN (
                     SELECT queue_id FROM host WHERE last_fetch_at > {{ahead}})
                     THEN greatest(blocked_until - {{by}}, 0) ELSE blocked_until END,
                   next_at = CASE
                   WHEN next_at <= {{ahead}} OR blocked_until = {{forever}} THEN next_at
                   WHEN last_fetch_at > {{ahead}} OR queue_id IN (
                     SELECT queue_id FROM host WHERE last_fetch_at > {{ahead}})
                     THEN greatest(next_at - {{by}}, 0)
                   WHEN next_at <= greatest(blocked_until, {{day}} + coalesce(crawl_ms, 0)
                     + coalesce(rate_ms, 0) + slow_ms) THEN next_at
                   WHEN lease_id IS NULL THEN {{now}} ELSE {{leased}} END,
                   created_at = least(created_at, {{now}}),
                   {}
                 WHERE last_fetch_at > {{ahead}}
                   OR queue_id IN (SELECT queue_id FROM host WHERE last_fetch_at > {{ahead}})
                   OR next_at > greatest(blocked_until, {{day}} + coalesce(crawl_ms, 0)
                     + coalesce(rate_ms, 0) + slow_ms)",
                past("last_fetch_at"),
            ),
            "UPDATE robots SET expires_at = CASE WHEN expires_at - {by} > {beyond} THEN {now}
               ELSE greatest(expires_at - {by}, 0) END,
               fetched_at = least(fetched_at, {now})
             WHERE fetched_at > {ahead} OR expires_at > {beyond}"
                .to_owned(),
            "UPDATE fetch_state SET etag = NULL, last_modified = NULL
             WHERE task_id IN (SELECT task_id FROM feed WHERE last_success > {day})"
                .to_owned(),
            format!(
                "UPDATE feed SET body_hash = CASE WHEN last_success > {{day}} THEN NULL
                   ELSE body_hash END, {}, {}, {}, {}, {}
                 WHERE last_success > {{ahead}} OR health_at > {{ahead}} OR disabled_at > {{ahead}}
                   OR probed_at > {{ahead}} OR moving_since > {{ahead}}",
                past("last_success"),
                past("health_at"),
                past("disabled_at"),
                past("probed_at"),
                past("moving_since"),
            ),
            "UPDATE sink SET held_until = {leased}, updated_at = least(updated_at, {now})
             WHERE held_until > {held}"
                .to_owned(),
        ]
        .map(|sql| self.worded(&sql.replace("{by}", &ahead_ms.to_string())))
    }

    /// What the statements came to, by the rows that each changed.
    pub(crate) const fn repaired(changed: [u64; 8], ahead_ms: i64) -> TimesAhead {
        let [tasks, _, _, hosts, robots, _, feeds, sinks] = changed;
        TimesAhead { tasks, hosts, robots, feeds, sinks, ahead_ms }
    }
}
