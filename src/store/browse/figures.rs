//! What was done, in figures over time: for charts, and for what an operator promises.
//!
//! All of it is counted from rows within a span of time, so that its cost is that of the span. Times are
//! counted in classes: a percentile is the upper end of the class that it falls into.

use std::collections::BTreeMap;

use super::fetches::FetchQuery;
use crate::db::DbError;
use crate::db::statement::Terms;
use crate::model::{Code, TaskId, Ts};
use crate::store::Store;

/// Upper ends of the classes of times, in milliseconds.
const CLASSES: [i64; 17] = [
    10, 20, 50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000,
    30_000,
];
/// The same for how long news takes to be found, in seconds.
const LAGS: [i64; 14] =
    [10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 604_800];

/// A stretch of time, and what was done in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stretch {
    /// Answers that were what was asked for, or led there.
    pub ok: u64,
    /// Answers that nothing changed.
    pub not_modified: u64,
    /// Everything else.
    pub errors: u64,
    /// Those of them that are no publisher's fault ([`Code::is_on_us`]).
    pub on_us: u64,
    /// Bytes of body received.
    pub bytes: u64,
    /// Entries that were new.
    pub entries: u64,
    /// Articles that were new.
    pub articles: u64,
    /// Requests by class of time.
    times: BTreeMap<usize, u64>,
}

impl Stretch {
    /// Requests in all.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.ok + self.not_modified + self.errors
    }

    /// The time, in milliseconds, that this share of requests took at the most.
    #[must_use]
    pub fn within(&self, share: f64) -> Option<u64> {
        percentile(&self.times, share).map(|class| end(&CLASSES, class))
    }

    /// Takes another stretch in.
    pub fn add(&mut self, other: &Self) {
        self.ok += other.ok;
        self.not_modified += other.not_modified;
        self.errors += other.errors;
        self.on_us += other.on_us;
        self.bytes += other.bytes;
        self.entries += other.entries;
        self.articles += other.articles;
        for (class, count) in &other.times {
            *self.times.entry(*class).or_default() += count;
        }
    }
}

/// The upper end of a class; what is beyond the last one is told as twice that.
fn end(classes: &[i64], class: usize) -> u64 {
    let last = classes.last().copied().unwrap_or_default() * 2;
    classes.get(class).copied().unwrap_or(last).unsigned_abs()
}

fn percentile(counts: &BTreeMap<usize, u64>, share: f64) -> Option<usize> {
    let all: u64 = counts.values().sum();
    let wanted = (all as f64 * share).ceil().max(1.0) as u64;
    let mut sum = 0;
    counts.iter().find_map(|(class, count)| {
        sum += count;
        (sum >= wanted).then_some(*class)
    })
}

/// The class of a number, as SQL.
fn class_of(column: &str, classes: &[i64]) -> String {
    let cases: String = classes
        .iter()
        .enumerate()
        .map(|(class, upto)| format!(" WHEN {column} <= {upto} THEN {class}"))
        .collect();
    format!("CASE{cases} ELSE {} END", classes.len())
}

/// How many requests had one of these codes, as SQL.
fn had(codes: impl IntoIterator<Item = Code>) -> String {
    let numbers: Vec<_> = codes.into_iter().map(|code| code.number().to_string()).collect();
    format!("sum(CASE WHEN f.code IN ({}) THEN 1 ELSE 0 END)", numbers.join(", "))
}

/// Codes of answers that were what was asked for, or led there.
const SERVED: [Code; 2] = [Code::Ok, Code::Redirect];

/// Over which time, and of what.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// From here on.
    pub from: Ts,
    /// Up to here.
    pub until: Ts,
    /// In stretches of so many milliseconds.
    pub step_ms: i64,
    /// Of this channel alone.
    pub task: Option<TaskId>,
}

/// What was done, stretch by stretch.
pub async fn series(store: &dyn Store, span: Span) -> Result<Vec<Stretch>, DbError> {
    let step = span.step_ms.max(1);
    let steps = (span.until.ms() - span.from.ms() + step - 1) / step;
    let mut all = vec![Stretch::default(); usize::try_from(steps).unwrap_or(0)];
    let query = FetchQuery {
        task: span.task,
        since: Some(span.from),
        until: Some(span.until),
        ..FetchQuery::default()
    };
    let mut terms = query.terms(Terms::new(store.dialect()));
    let (from, each) = (terms.int(span.from.ms()), terms.int(step));
    let on_us = Code::ALL.iter().copied().filter(|code| code.is_on_us());
    let sql = format!(
        "SELECT (f.at - {from}) / {each}, {}, count(*), {}, {}, CAST(sum(f.bytes) AS bigint), {}
         FROM \"fetch\" f WHERE {} GROUP BY 1, 2",
        class_of("f.elapsed_ms", &CLASSES),
        had(SERVED),
        had([Code::NotModified]),
        had(on_us),
        terms.sql()
    );
    for row in store.select(terms.statement(sql)).await? {
        let Some(stretch) = at(&mut all, row.int(0)?) else { continue };
        let (count, ok, unchanged) = (row.count(2)?, row.count(3)?, row.count(4)?);
        stretch.ok += ok;
        stretch.not_modified += unchanged;
        stretch.errors += count.saturating_sub(ok + unchanged);
        stretch.bytes += row.count(5)?;
        stretch.on_us += row.count(6)?;
        *stretch.times.entry(row.narrow(1)?).or_default() += count;
    }
    for (step, count) in seen(store, "entry", span).await? {
        if let Some(stretch) = at(&mut all, step) {
            stretch.entries += count;
        }
    }
    if span.task.is_none() {
        for (step, count) in seen(store, "article", span).await? {
            if let Some(stretch) = at(&mut all, step) {
                stretch.articles += count;
            }
        }
    }
    Ok(all)
}

fn at(all: &mut [Stretch], step: i64) -> Option<&mut Stretch> {
    usize::try_from(step).ok().and_then(|step| all.get_mut(step))
}

/// What came first in each stretch.
async fn seen(store: &dyn Store, table: &str, span: Span) -> Result<Vec<(i64, u64)>, DbError> {
    let mut terms = Terms::new(store.dialect());
    let (from, until) = (terms.int(span.from.ms()), terms.int(span.until.ms()));
    let each = terms.int(span.step_ms.max(1));
    terms.add(format!("first_seen >= {from} AND first_seen < {until}"));
    if let Some(task) = span.task {
        let task = terms.int(task.0);
        terms.add(format!("feed_id = {task}"));
    }
    let sql = format!(
        "SELECT (first_seen - {from}) / {each}, count(*) FROM {table} WHERE {} GROUP BY 1",
        terms.sql()
    );
    let rows = store.select(terms.statement(sql)).await?;
    rows.iter().map(|row| Ok((row.int(0)?, row.count(1)?))).collect()
}

/// Channels that are polled, and those that are within twice the time that was chosen for them.
///
/// These are at most one interval late; [`Vitals::overdue`](crate::store::Vitals) counts the others.
pub async fn punctual(store: &dyn Store, now: Ts) -> Result<(u64, u64), DbError> {
    let mut terms = Terms::new(store.dialect());
    let now = terms.int(now.ms());
    let sql = format!(
        "SELECT count(*), sum(CASE WHEN t.due + f.interval_ms >= {now} THEN 1 ELSE 0 END)
         FROM feed f JOIN task t ON t.id = f.task_id
         WHERE t.status = 0 AND f.interval_ms > 0 AND f.disabled_at IS NULL AND t.fetch_count > 0"
    );
    let rows = store.select(terms.statement(sql)).await?;
    match rows.first() {
        Some(row) => Ok((row.count(0)?, row.count(1)?)),
        None => Ok((0, 0)),
    }
}

/// How long news takes from publication to discovery, in seconds: for these shares of it. What was
/// published before its feed was known does not count.
pub async fn freshness<const N: usize>(
    store: &dyn Store,
    from: Ts,
    shares: [f64; N],
) -> Result<[Option<u64>; N], DbError> {
    let mut terms = Terms::new(store.dialect());
    let since = terms.int(from.ms());
    let sql = format!(
        "SELECT {}, count(*) FROM entry e JOIN task t ON t.id = e.feed_id
         WHERE e.first_seen >= {since} AND e.published >= t.discovered_at GROUP BY 1",
        class_of("(e.first_seen - e.published) / 1000", &LAGS)
    );
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for row in store.select(terms.statement(sql)).await? {
        counts.insert(row.narrow(0)?, row.count(1)?);
    }
    Ok(shares.map(|share| percentile(&counts, share).map(|class| end(&LAGS, class))))
}

/// Bytes that conditional requests saved since then: for each answer that nothing changed, the largest
/// whole answer of its address in that time.
pub async fn saved_bytes(store: &dyn Store, from: Ts) -> Result<u64, DbError> {
    let query = FetchQuery { since: Some(from), ..FetchQuery::default() };
    let terms = query.terms(Terms::new(store.dialect()));
    let unchanged = Code::NotModified.number();
    let sql = format!(
        "SELECT CAST(sum(n * size) AS bigint) FROM (
           SELECT sum(CASE WHEN f.code = {unchanged} THEN 1 ELSE 0 END) AS n,
             coalesce(max(f.bytes), 0) AS size
           FROM \"fetch\" f WHERE {} GROUP BY f.task_id) g",
        terms.sql()
    );
    let rows = store.select(terms.statement(sql)).await?;
    rows.first().map_or(Ok(0), |row| row.count(0))
}

/// What there is most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// Feeds with new entries.
    Feeds,
    /// Codes of requests that failed.
    Codes,
    /// Hosts of requests that failed.
    Hosts,
}

/// Something there is much of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// What it is called.
    pub name: String,
    /// Its public id, when it has one.
    pub id: Option<String>,
    /// How much of it.
    pub count: u64,
}

/// What there was most of since then.
pub async fn top(
    store: &dyn Store,
    by: Top,
    from: Ts,
    limit: usize,
) -> Result<Vec<Ranked>, DbError> {
    let failed = || {
        let query = FetchQuery { since: Some(from), ..FetchQuery::default() };
        let mut terms = query.terms(Terms::new(store.dialect()));
        let fine = [Code::Ok, Code::Redirect, Code::NotModified].map(Code::number);
        terms.add(format!("f.code NOT IN ({}, {}, {})", fine[0], fine[1], fine[2]));
        terms
    };
    let statement = match by {
        Top::Feeds => {
            let mut terms = Terms::new(store.dialect());
            let since = terms.int(from.ms());
            terms.statement(format!(
                "SELECT k.n, t.id, coalesce(f.title, t.url) FROM
                   (SELECT e.feed_id AS id, count(*) AS n FROM entry e WHERE e.first_seen >= {since}
                    GROUP BY e.feed_id ORDER BY count(*) DESC, e.feed_id LIMIT {limit}) k
                 JOIN task t ON t.id = k.id LEFT JOIN feed f ON f.task_id = t.id
                 ORDER BY k.n DESC, t.id"
            ))
        }
        Top::Codes => {
            let terms = failed();
            let sql = format!(
                "SELECT count(*), CAST(f.code AS bigint), NULL FROM \"fetch\" f WHERE {}
                 GROUP BY f.code ORDER BY 1 DESC, 2 LIMIT {limit}",
                terms.sql()
            );
            terms.statement(sql)
        }
        Top::Hosts => {
            let terms = failed();
            let sql = format!(
                "SELECT count(*), NULL, h.name FROM \"fetch\" f JOIN task t ON t.id = f.task_id
                 JOIN host h ON h.id = t.host_id WHERE {} GROUP BY h.name
                 ORDER BY 1 DESC, h.name LIMIT {limit}",
                terms.sql()
            );
            terms.statement(sql)
        }
    };
    let mut found = Vec::new();
    for row in store.select(statement).await? {
        let (number, text) = (row.maybe_int(1)?, row.maybe_text(2)?);
        let (name, id) = match by {
            Top::Feeds => {
                let id = number.map(|id| TaskId(id).to_string());
                (text.unwrap_or_default().to_owned(), id)
            }
            Top::Codes => {
                let code = number.and_then(Code::from_number);
                (code.map_or("unknown", Code::as_str).to_owned(), None)
            }
            Top::Hosts => (text.unwrap_or_default().to_owned(), None),
        };
        found.push(Ranked { name, id, count: row.count(0)? });
    }
    Ok(found)
}

/// What was asked of a host, day by day of UTC: the day's number since 1970, and what was done.
pub async fn days_of_host(
    store: &dyn Store,
    host: &str,
    from: Ts,
) -> Result<Vec<(i64, Stretch)>, DbError> {
    let query =
        FetchQuery { host: Some(host.to_owned()), since: Some(from), ..FetchQuery::default() };
    let terms = query.terms(Terms::new(store.dialect()));
    let sql = format!(
        "SELECT f.at / 86400000, count(*), {}, {}, CAST(sum(f.bytes) AS bigint)
         FROM \"fetch\" f WHERE {} GROUP BY 1 ORDER BY 1",
        had(SERVED),
        had([Code::NotModified]),
        terms.sql()
    );
    let rows = store.select(terms.statement(sql)).await?;
    let read = |row: &crate::db::statement::Cells| {
        let (count, ok, not_modified) = (row.count(1)?, row.count(2)?, row.count(3)?);
        let errors = count.saturating_sub(ok + not_modified);
        let bytes = row.count(4)?;
        Ok((row.int(0)?, Stretch { ok, not_modified, errors, bytes, ..Stretch::default() }))
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_end_of_its_class() {
        let mut stretch = Stretch::default();
        assert_eq!(stretch.within(0.99), None);
        stretch.times = BTreeMap::from([(0, 90), (3, 9), (17, 1)]);
        assert_eq!(stretch.within(0.5), Some(10));
        assert_eq!(stretch.within(0.99), Some(100));
        assert_eq!(stretch.within(1.0), Some(60_000));
    }

    #[test]
    fn a_class_is_told_by_cases() {
        assert_eq!(class_of("x", &[1, 2]), "CASE WHEN x <= 1 THEN 0 WHEN x <= 2 THEN 1 ELSE 2 END");
    }
}
