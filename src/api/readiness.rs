//! Whether this process can do its work: the truth about it, within two seconds.
//!
//! Beside an engine it is the truth about that engine. An API alone knows of the database and of the
//! room for it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::Api;
use crate::config::Config;
use crate::db::{free_bytes, private};
use crate::progress::Progress;

/// The longest time for a check.
const CHECK_LIMIT: Duration = Duration::from_secs(2);
/// What is written to see whether a disk takes anything.
const PROBE: &[u8] = &[0; 4096];

/// Something that is needed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Check {
    name: String,
    ok: bool,
    detail: String,
}

/// Whether it can work.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ready {
    pub(super) ready: bool,
    checks: Vec<Check>,
}

/// A disk that hangs is asked once, and not by everybody who wants to know.
#[derive(Debug, Default)]
pub(super) struct Disks(Arc<Mutex<()>>);

/// All checks at once. Looking needs no engine, and late polls are no reason to restart one: both are only
/// reported.
pub(super) async fn ready(api: &Api) -> Ready {
    let is_running = api.progress.activity.is_running();
    let dirs = written_dirs(&api.config, is_running);
    let min_free = api.config.retention.min_free.as_bytes();
    let (database, disk, engine) = tokio::join!(
        limited(database(api)),
        limited(api.disks.check(dirs, min_free)),
        limited(engine(api))
    );
    let mut checks = vec![check("database", database), check("disk", disk)];
    if is_running {
        checks.push(check("work", work(&api.progress)));
    }
    let ready = checks.iter().all(|check| check.ok);
    checks.push(check("engine", engine));
    checks.push(check("polls", polls(&api.progress)));
    Ready { ready, checks }
}

fn check(name: &str, outcome: Result<String, String>) -> Check {
    let ok = outcome.is_ok();
    let detail = outcome.unwrap_or_else(|detail| detail);
    Check { name: name.to_owned(), ok, detail }
}

async fn limited(looking: impl Future<Output = Result<String, String>>) -> Result<String, String> {
    let silent = || Err(format!("no answer within {} s", CHECK_LIMIT.as_secs()));
    tokio::time::timeout(CHECK_LIMIT, looking).await.unwrap_or_else(|_| silent())
}

async fn database(api: &Api) -> Result<String, String> {
    api.store.ping(CHECK_LIMIT).await.map_err(|error| error.to_string())?;
    let ends = api.store.log_ends(0).await.map_err(|error| error.to_string())?;
    Ok(format!("the log ends at {}", ends.last))
}

async fn engine(api: &Api) -> Result<String, String> {
    if api.progress.activity.is_running() {
        return Ok("an engine runs in this process".to_owned());
    }
    match api.store.engines().await {
        Ok(1..) => Ok("an engine runs".to_owned()),
        Ok(0) => Err("no engine runs: `feedmill run` starts one".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether channels are polled when they are due, by the figures that were last looked at.
fn polls(progress: &Progress) -> Result<String, String> {
    match progress.metrics.channels_overdue.get() {
        ..=0 => Ok("no polls are overdue".to_owned()),
        1 => Err("1 channel has an overdue poll".to_owned()),
        overdue => Err(format!("{overdue} channels have overdue polls")),
    }
}

/// What the engine of this process does: paused and stalled work is no work.
fn work(progress: &Progress) -> Result<String, String> {
    let now = progress.snapshot();
    match now.paused.map(|reason| format!("paused: {reason}")).or(progress.activity.stall()) {
        Some(reason) => Err(reason),
        None => Ok(format!("{} tasks in flight", now.in_flight)),
    }
}

/// A directory that has to take what is written, or in which one is going to be made.
#[derive(Debug)]
struct Dir {
    path: PathBuf,
    /// Whether it has to be there already.
    is_used: bool,
}

/// Directories that this process writes to.
fn written_dirs(config: &Config, engine_runs: bool) -> Vec<Dir> {
    let mut dirs = vec![Dir { path: config.data_dir.clone(), is_used: engine_runs }];
    if config.postgres_url().is_none() {
        let database = config.database_path();
        let dir = database.parent().filter(|dir| !dir.as_os_str().is_empty());
        dirs.extend(dir.map(|dir| Dir { path: dir.to_owned(), is_used: true }));
    }
    if engine_runs {
        dirs.push(Dir { path: config.archive_dir(), is_used: true });
    }
    dirs
}

impl Disks {
    async fn check(&self, dirs: Vec<Dir>, min_free: u64) -> Result<String, String> {
        let turn = Arc::clone(&self.0).lock_owned().await;
        let looked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            look(&dirs, min_free)
        });
        looked.await.map_err(|error| error.to_string())?
    }
}

fn look(dirs: &[Dir], min_free: u64) -> Result<String, String> {
    let mut least = u64::MAX;
    for Dir { path, is_used } in dirs {
        let dir = if *is_used { path.as_path() } else { kept_at(path) };
        let shown = dir.display();
        if !dir.is_dir() {
            return Err(format!("{shown} is not there, or no directory"));
        }
        let free = free_bytes(dir).map_err(|error| format!("{shown}: {error}"))?;
        if free < min_free {
            return Err(format!("only {} MB are free in {shown}", free / 1_000_000));
        }
        if *is_used {
            write_something(dir).map_err(|error| format!("cannot write to {shown}: {error}"))?;
        }
        least = least.min(free);
    }
    Ok(format!("{} MB are free", least / 1_000_000))
}

/// The directory, or the one in which it is going to be: beside PostgreSQL only engines make it.
fn kept_at(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("."))
}

/// Writes a file that has no name, and so leaves nothing behind.
fn write_something(dir: &Path) -> std::io::Result<()> {
    use rustix::io::Errno;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => std::fs::File::from(file).write_all(PROBE),
        // Not every file system has such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let path = dir.join(format!(".write-check-{}", std::process::id()));
            let mut file =
                private::options().write(true).create(true).truncate(true).open(&path)?;
            let written = file.write_all(PROBE);
            std::fs::remove_file(&path)?;
            written
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs(paths: &[&Path]) -> Vec<Dir> {
        paths.iter().map(|path| Dir { path: (*path).to_owned(), is_used: true }).collect()
    }

    #[test]
    fn a_directory_that_is_used_has_to_be_there_and_to_take_something() {
        let dir = tempfile::tempdir().unwrap();
        let (gone, file) = (dir.path().join("gone"), dir.path().join("file"));
        std::fs::write(&file, "").unwrap();
        assert!(look(&dirs(&[dir.path()]), 0).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
        for missing in [&gone, &file] {
            let told = look(&dirs(&[dir.path(), missing]), 0).unwrap_err();
            assert!(told.contains(&missing.display().to_string()), "{told}");
        }
        assert!(look(&dirs(&[dir.path()]), u64::MAX).unwrap_err().contains("only"));
        let unused = [Dir { path: gone, is_used: false }];
        assert!(look(&unused, 0).is_ok(), "it is made when it is needed");
        let refused = look(&dirs(&[Path::new("/proc/self")]), 0).unwrap_err();
        assert!(refused.contains("cannot write to /proc/self"), "{refused}");
    }

    #[tokio::test]
    async fn a_disk_that_hangs_is_asked_once() {
        let disks = Disks::default();
        let _hangs = Arc::clone(&disks.0).lock_owned().await;
        tokio::time::pause();
        let told = limited(disks.check(Vec::new(), 0)).await.unwrap_err();
        assert_eq!(told, "no answer within 2 s");
    }

    #[test]
    fn paused_and_stalled_work_is_told() {
        let progress = Progress::default();
        assert!(work(&progress).unwrap().contains("0 tasks"));
        progress.pause(Some("the disk is full".to_owned()));
        assert_eq!(work(&progress).unwrap_err(), "paused: the disk is full");
    }
}
