//! `feedmill doctor`: a round of checks, each with what to do when it is not well.
//!
//! It looks and changes nothing: what is not there yet is not made.

use std::path::Path;

use rusqlite::OpenFlags;
use serde::Serialize;
use serde_json::json;

use super::out::{Out, Tone};
use super::places::{self, Access};
use super::{Context, Failure, text};
use crate::app::{self, pg_limits};
use crate::clock::Clock;
use crate::config::{Config, Loaded};
use crate::db::{DbError, EngineLock, PgDb, backup, migrate, open_own};
use crate::model::Ts;
use crate::store::browse::damaged::damaged;
use crate::store::{DamagedTable, TimesAhead};

/// Checks that everything is in place, and says what to do when it is not
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// 2025-01-01 and 2100-01-01: outside of these a clock is not set.
const SANE: std::ops::Range<i64> = 1_735_689_600_000..4_102_444_800_000;

/// What is said of a schema that needs nothing.
const CURRENT: &str = "current";
/// Damaged rows that are listed.
const SHOWN: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
struct Check {
    name: String,
    health: Health,
    /// What was found, and what to do about it.
    message: String,
}

impl Check {
    fn new(name: impl Into<String>, health: Health, message: impl Into<String>) -> Self {
        Self { name: name.into(), health, message: message.into() }
    }
}

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let checks = match context.load() {
        Ok(loaded) => {
            let mut checks = examine(&loaded, &context.clock).await;
            let is_current = |check: &Check| check.name == "schema" && check.message == CURRENT;
            if checks.iter().any(is_current) {
                checks.extend(rows(context).await);
            }
            checks
        }
        Err(failure) => vec![Check::new("configuration", Health::Fail, failure.message)],
    };
    let failed = checks.iter().filter(|check| check.health == Health::Fail).count();
    let value = json!({ "healthy": failed == 0, "checks": checks });
    context.out.emit(&value, |out| {
        checks.iter().map(|check| line(check, out)).collect::<Vec<_>>().join("\n")
    })?;
    if failed == 0 {
        return Ok(());
    }
    let failed = text::count(failed as u64, "check");
    Err(Failure::failed("unhealthy", format!("{failed} failed: see what each says above")))
}

fn line(check: &Check, out: &Out) -> String {
    let (tone, word) = match check.health {
        Health::Ok => (Tone::Good, "ok  "),
        Health::Warn => (Tone::Careful, "warn"),
        Health::Fail => (Tone::Bad, "fail"),
    };
    format!("{}  {:<16} {}", out.paint(tone, word), check.name, text::one_line(&check.message))
}

async fn examine(loaded: &Loaded, clock: &Clock) -> Vec<Check> {
    let config = &loaded.config;
    let mut checks = vec![configuration(loaded), directory("data directory", &config.data_dir)];
    checks.extend(match config.postgres_url() {
        Some(url) => server(config, url).await,
        None => database(config),
    });
    checks.push(engine(config));
    checks.push(room(config));
    checks.push(directory("archive", &config.archive_dir()));
    checks.extend(segments(config));
    for name in config.sinks.keys() {
        if let Some(dir) = config.sink_dir(name) {
            checks.push(directory(&format!("sink {name}"), &dir));
        }
    }
    checks.push(contact(config));
    checks.push(time(clock.now()));
    checks.extend(stored_times(config, clock).await);
    checks
}

fn configuration(loaded: &Loaded) -> Check {
    let message = match &loaded.file {
        Some(file) => format!("{} is fine", file.display()),
        None => "no file, the defaults are in effect: `feedmill init` makes one".to_owned(),
    };
    Check::new("configuration", Health::Ok, message)
}

fn directory(name: &str, dir: &Path) -> Check {
    let shown = dir.display();
    match places::access(dir) {
        Access::Writable => Check::new(name, Health::Ok, format!("{shown} is writable")),
        Access::CanBeMade => Check::new(name, Health::Ok, format!("{shown} is made when needed")),
        Access::Refused(error) => {
            let message = format!(
                "cannot write to {shown}: {error}; change its owner, or choose another directory"
            );
            Check::new(name, Health::Fail, message)
        }
    }
}

async fn server(config: &Config, url: &str) -> Vec<Check> {
    let looked = async {
        let db = PgDb::connect_with(url, None, pg_limits(config)).await?;
        let steps = migrate::postgres::status(&db.client().await?).await;
        Ok::<_, DbError>((db.place(), steps))
    };
    match looked.await {
        Ok((place, steps)) => {
            vec![Check::new("database", Health::Ok, format!("{place} answers")), schema(steps)]
        }
        Err(error) => {
            let message = format!("{error}; does it run, and does database.url lead to it?");
            vec![Check::new("database", Health::Fail, message)]
        }
    }
}

fn database(config: &Config) -> Vec<Check> {
    let path = config.database_path();
    let shown = path.display();
    if let Err(error) = app::check_file(config) {
        return vec![Check::new("database", Health::Fail, error.to_string())];
    }
    if !path.exists() {
        return vec![Check::new("database", Health::Ok, format!("{shown} is made when needed"))];
    }
    let looked = open_own(&path, OpenFlags::empty()).and_then(|conn| {
        let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok((verdict, migrate::status(&conn), migrate::missing_tables(&conn)?))
    });
    match looked {
        Ok((verdict, Ok(steps), missing))
            if verdict == "ok" && !missing.is_empty() && steps.iter().all(|step| step.applied) =>
        {
            let message = format!(
                "{shown} has lost its tables {}: restore a backup with `feedmill restore FILE`, or move the \
                 file away and build the database from the archive with `feedmill rebuild`",
                missing.join(", ")
            );
            vec![Check::new("database", Health::Fail, message)]
        }
        Ok((verdict, steps, _)) if verdict == "ok" => {
            vec![Check::new("database", Health::Ok, format!("{shown} is sound")), schema(steps)]
        }
        Ok((message, ..)) => {
            let error = DbError::Damaged { path: shown.to_string(), message };
            vec![Check::new("database", Health::Fail, error.to_string())]
        }
        Err(error @ DbError::Damaged { .. }) => {
            vec![Check::new("database", Health::Fail, error.to_string())]
        }
        Err(error) => {
            let message = format!("{error}; is it a database of feedmill, and may you read it?");
            vec![Check::new("database", Health::Fail, message)]
        }
    }
}

/// Whether the segments that responses refer to are there. Those of a shared database may be on other
/// machines, and those of a bucket there.
fn segments(config: &Config) -> Option<Check> {
    let path = config.database_path();
    if config.postgres_url().is_some() || !config.archive.url.is_empty() || !path.exists() {
        return None;
    }
    let (dir, wanted) = (config.archive_dir(), backup::segments(&path).ok()?);
    let length = |name: &str| {
        let names = [name.to_owned(), format!("{name}.open")];
        let found = names.iter().filter_map(|name| dir.join(name).symlink_metadata().ok());
        found.filter(std::fs::Metadata::is_file).map(|about| about.len()).max()
    };
    let total = wanted.len() as u64;
    let is_gone = |(name, end): &(String, u64)| length(name).is_none_or(|length| length < *end);
    let gone: Vec<String> = wanted.into_iter().filter(is_gone).map(|(name, _)| name).collect();
    let (health, message) = match gone.first() {
        None => (Health::Ok, format!("{} that responses refer to", text::count(total, "segment"))),
        Some(first) => {
            let n = text::count(gone.len() as u64, "segment");
            let message = format!(
                "{n} missing or cut short, the first: {first}; `feedmill raw verify` lists the responses that are lost"
            );
            (Health::Warn, message)
        }
    };
    Some(Check::new("segments", health, message))
}

fn schema(steps: Result<Vec<migrate::Step>, DbError>) -> Check {
    let (health, message) = match steps {
        Ok(steps) if steps.iter().all(|step| step.applied) => (Health::Ok, CURRENT.to_owned()),
        Ok(_) => (Health::Warn, "steps are missing: `feedmill migrate up` takes them".to_owned()),
        Err(error) => (Health::Fail, error.to_string()),
    };
    Check::new("schema", health, message)
}

/// Reads every row that carries a document, and lists those that are damaged.
async fn rows(context: &Context) -> Vec<Check> {
    let looked = async {
        let store = context.store().await?;
        Ok::<_, Failure>(damaged(&*store, SHOWN).await?)
    };
    let (found, count) = match looked.await {
        Ok(found) => found,
        Err(failure) => return vec![Check::new("rows", Health::Fail, failure.message)],
    };
    if count == 0 {
        return vec![Check::new("rows", Health::Ok, "all checksums match")];
    }
    let health = |table| match table {
        DamagedTable::Article | DamagedTable::Entry | DamagedTable::Source | DamagedTable::Task => {
            Health::Fail
        }
        // They are not in the archive. What they are about can be read and is delivered without them.
        DamagedTable::Event | DamagedTable::Revision | DamagedTable::Fetch => Health::Warn,
    };
    let worst = match found.iter().any(|row| health(row.table) == Health::Fail) {
        true => Health::Fail,
        false => Health::Warn,
    };
    let message = format!(
        "{}: `feedmill replay` restores articles and entries from the archive, and sinks get them then; \
         sources and tasks come back with a backup (`feedmill restore`); events, past revisions and fetches \
         cannot be restored",
        text::count(count, "damaged row")
    );
    let each =
        found.iter().map(|row| Check::new("damaged row", health(row.table), row.to_string()));
    let others = count.saturating_sub(found.len() as u64);
    let others = (others > 0)
        .then(|| Check::new("damaged row", worst, format!("and {} more", text::number(others))));
    std::iter::once(Check::new("rows", worst, message)).chain(each).chain(others).collect()
}

fn engine(config: &Config) -> Check {
    let runs = EngineLock::is_held(&config.database_path());
    let message = if runs { "runs" } else { "does not run: `feedmill run` starts it" };
    Check::new("engine", Health::Ok, message)
}

fn room(config: &Config) -> Check {
    let limit = config.retention.min_free.as_bytes();
    let (health, message) = match places::free(&config.data_dir) {
        Err(error) => (Health::Fail, format!("cannot tell the free space: {error}")),
        Ok(free) => {
            let (shown, limit_shown) = (text::bytes(free), text::bytes(limit));
            let told = format!("{shown} free, work pauses below {limit_shown}");
            match free {
                _ if free < limit => {
                    (Health::Fail, format!("{told}: free some room, or lower retention.min_free"))
                }
                _ if free < limit.saturating_mul(2) => {
                    (Health::Warn, format!("{told}: free some room soon"))
                }
                _ => (Health::Ok, told),
            }
        }
    };
    Check::new("disk space", health, message)
}

fn contact(config: &Config) -> Check {
    if config.fetch.contact.is_empty() && config.fetch.agent.is_empty() {
        let message =
            "not set: give fetch.contact a page or mail address at which publishers can reach you";
        return Check::new("contact", Health::Warn, message);
    }
    Check::new("contact", Health::Ok, format!("publishers see {}", config.user_agent()))
}

/// Whether stored times lie too far ahead, as after a clock fault. Of a store that is not there, or cannot
/// be opened, other checks tell.
async fn stored_times(config: &Config, clock: &Clock) -> Option<Check> {
    if config.postgres_url().is_none() && !config.database_path().exists() {
        return None;
    }
    let found = app::look_for_times_ahead(config, clock).await.ok()?;
    let TimesAhead { tasks, hosts, robots, feeds, sinks, .. } = found;
    if !found.is_some() {
        let message = "no task, pause or lease lies too far ahead";
        return Some(Check::new("stored times", Health::Ok, message));
    }
    let message = format!(
        "{tasks} tasks, {hosts} hosts, {robots} robots.txt copies, {feeds} feeds and {sinks} sinks \
         have times too far ahead, as after a clock fault: a running engine plans them again within \
         10 minutes, `feedmill run` at its start"
    );
    Some(Check::new("stored times", Health::Warn, message))
}

fn time(now: Ts) -> Check {
    if SANE.contains(&now.ms()) {
        return Check::new("clock", Health::Ok, format!("it is {now}"));
    }
    Check::new("clock", Health::Fail, format!("it says {now}: set the machine's clock"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LoadOptions, Size, load};

    fn fresh(dir: &Path) -> Loaded {
        let overrides = vec![("data_dir".to_owned(), dir.join("data").display().to_string())];
        load(&LoadOptions { overrides, ..LoadOptions::default() }).unwrap()
    }

    fn health(checks: &[Check], name: &str) -> Health {
        checks.iter().find(|check| check.name == name).map(|check| check.health).unwrap()
    }

    #[tokio::test]
    async fn a_fresh_directory_is_healthy_and_stays_empty() {
        let dir = tempfile::tempdir().unwrap();
        let checks = examine(&fresh(dir.path()), &Clock::system()).await;
        assert!(checks.iter().all(|check| check.health != Health::Fail), "{checks:?}");
        assert_eq!(health(&checks, "contact"), Health::Warn);
        assert_eq!(places::taken(dir.path()).unwrap().files, 0);
    }

    #[tokio::test]
    async fn what_is_wrong_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut loaded = fresh(dir.path());
        std::fs::create_dir(&loaded.config.data_dir).unwrap();
        std::fs::write(
            loaded.config.database_path(),
            "no database at all, but long enough".repeat(99),
        )
        .unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        loaded.config.archive.dir = dir.path().join("file/archive");
        loaded.config.retention.min_free = Size::bytes(u64::MAX);
        let checks = examine(&loaded, &Clock::manual(Ts::from_ms(0))).await;
        for name in ["database", "archive", "disk space", "clock"] {
            assert_eq!(health(&checks, name), Health::Fail, "{name}");
        }
        assert_eq!(health(&checks, "data directory"), Health::Ok);
    }

    #[test]
    fn a_segment_that_is_gone_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let config = fresh(dir.path()).config;
        assert!(segments(&config).is_none(), "there is no database yet");
        std::fs::create_dir_all(config.archive_dir()).unwrap();
        drop(crate::db::Db::open(&config.database_path()).unwrap());
        let conn = crate::db::Connection::open(config.database_path()).unwrap();
        let sql =
            "INSERT INTO fetch(id, task_id, at, url, code, bytes, elapsed_ms, segment, \"offset\",
            length) VALUES(x'01', 0, 0, '', 0, 0, 0, 'a.warc.gz', 2, 3)";
        conn.execute(sql, []).unwrap();
        let told = || segments(&config).unwrap();
        assert_eq!(told().health, Health::Warn);
        for (name, health) in [("a.warc.gz.open", Health::Ok), ("a.warc.gz", Health::Warn)] {
            let path = config.archive_dir().join(name);
            let text = if health == Health::Ok { "12345" } else { "1234" };
            std::fs::write(&path, text).unwrap();
            assert_eq!(told().health, health, "{name}");
            std::fs::remove_file(path).unwrap();
        }
        assert!(told().message.contains("a.warc.gz"), "{:?}", told());
    }

    #[test]
    fn a_schema_behind_or_ahead_is_told() {
        let conn = crate::db::Connection::open_in_memory().unwrap();
        assert_eq!(schema(migrate::status(&conn)).health, Health::Warn);
        conn.pragma_update(None, "user_version", 9_999).unwrap();
        assert_eq!(schema(migrate::status(&conn)).health, Health::Fail);
    }
}
