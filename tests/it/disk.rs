//! A full disk: work pauses and says so once, nothing is lost or given up, and it goes on by itself.
//!
//! The disk is a small one in memory, mounted in a name space of its own. It has room for a part of
//! what there is to keep, so that it fills up in the middle of the work, whoever is fast or slow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use feedmill::app;
use feedmill::demo;
use feedmill::frontier::TaskFilter;
use feedmill::model::State;
use feedmill_newsroom::Setup;

use crate::kill::{command, terminate};
use crate::postgres::server;
use crate::readiness::{server_of, until_not_ready, until_ready};
use crate::sinks::{lines, places, written};
use crate::support::{Engine, World, until};

/// Where the disk is within its name space; outside it is an empty directory.
pub(crate) struct Disk {
    holder: Child,
    /// The name spaces that it is in.
    spaces: &'static [&'static str],
    path: PathBuf,
    megabytes: u32,
}

impl Disk {
    /// A disk of some megabytes at `path`; `None` only where tests are to do without such things.
    pub(crate) fn mount(path: &Path, megabytes: u32) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        // Anybody may, in a name space of users; where that is forbidden, root still may.
        let ways: [&'static [&'static str]; 2] = [&["--user", "--mount"], &["--mount"]];
        let disk = ways.into_iter().find_map(|spaces| Self::mount_in(path, megabytes, spaces));
        assert!(
            disk.is_some() || server().is_none(),
            "nobody may mount a small disk on this system"
        );
        disk
    }

    fn mount_in(path: &Path, megabytes: u32, spaces: &'static [&'static str]) -> Option<Self> {
        // `cat` ends with this process, which holds the other end of its input.
        let script = "mount -t tmpfs -o size=\"$1\" tmpfs \"$2\" && echo ready && exec cat";
        let mut holder = Command::new("unshare")
            .args(spaces)
            .args(spaces.contains(&"--user").then_some("--map-root-user"))
            .args(["sh", "-c", script, "sh"])
            .arg(format!("{megabytes}m"))
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut told = String::new();
        let out = holder.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut told).unwrap();
        if told != "ready\n" {
            holder.wait().unwrap();
            return None;
        }
        Some(Self { holder, spaces, path: path.to_owned(), megabytes })
    }

    /// The disk as the test can reach it.
    fn outside(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.path.strip_prefix("/").unwrap())
    }

    /// A program that sees the disk.
    pub(crate) fn within(&self, program: &Command) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.id().to_string();
        command.args(self.spaces).args(["--preserve-credentials", "--target", &holder, "--"]);
        command.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Shrinks the disk to what is used, and so many kilobytes more.
    pub(crate) fn fill_but(&self, kilobytes: u64) {
        // It cannot shrink below what is written at this moment: then once more. No size at all would
        // mean no limit, so that an empty disk keeps one page.
        let is_shrunk = (0..100).any(|_| {
            let disk = rustix::fs::statvfs(self.outside()).unwrap();
            let used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize / 1024;
            self.try_remount(&format!("size={}k", (used + kilobytes).max(4)))
        });
        assert!(is_shrunk, "the disk does not shrink");
        if kilobytes == 0 {
            drop(fs::write(self.ballast(), [0; 4 * 1024]));
        }
    }

    /// What takes the last page of a full disk.
    fn ballast(&self) -> PathBuf {
        self.outside().join("ballast")
    }

    /// Mounts it again with these options.
    fn remount(&self, options: &str) {
        assert!(self.try_remount(options), "{options}");
    }

    fn try_remount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{options}")]).arg(&self.path);
        self.within(&mount).output().unwrap().status.success()
    }

    /// Gives the disk the size that it had at first.
    pub(crate) fn free(&self) {
        drop(fs::remove_file(self.ballast()));
        self.remount(&format!("size={}m", self.megabytes));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

/// Publishers with enough to say for a disk to fill up in the middle of it.
async fn world() -> World {
    World::with(6, |setup| Setup { history: 12, publish_until: Some(setup.starts_at), ..setup })
        .await
}

/// Kilobytes of room on the disk for what there is to keep.
const ROOM: u64 = 128;

const SMALL: &str = "retention.min_free=0B";

/// Kilobytes by which an idle process may grow: its allocator has its own mind.
const MARGIN: u64 = 32_768;

fn resident(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// Requests that the newsroom has had, once no more come for a second.
async fn quiet(world: &World) -> u64 {
    let mut before = (world.newsroom.counters().requests, Instant::now());
    until("a quiet second", || {
        let now = world.newsroom.counters().requests;
        if now != before.0 {
            before = (now, Instant::now());
        }
        let quiet = before.1.elapsed() > Duration::from_secs(1);
        async move { quiet }
    })
    .await;
    before.0
}

#[tokio::test(flavor = "multi_thread")]
async fn work_waits_for_a_full_archive_and_goes_on() {
    let world = world().await;
    let Some(disk) = Disk::mount(&world.dir().join("disk"), 4) else { return };
    world.follow().await;
    disk.fill_but(ROOM);
    let archive = format!("archive.dir={}", disk.path.join("archive").display());
    let program = command(&world, &world.config.data_dir, None, &[SMALL, &archive]);
    let mut engine = Engine::start(disk.within(&program), world.dir().join("log"));
    let articles = || async { world.store.totals().await.unwrap().articles };
    engine.says("work is paused").await;
    let (asked, memory) = (quiet(&world).await, resident(&engine.child));
    let kept = articles().await;
    assert!(engine.said().contains("disk/archive/feedmill-"), "{}", engine.said());
    assert_eq!(quiet(&world).await, asked, "nobody is asked for what cannot be kept");
    assert!(resident(&engine.child) < memory + MARGIN, "memory grows");
    assert_eq!(engine.times("work is paused"), 1, "{}", engine.said());

    disk.free();
    engine.says("work goes on").await;
    let published = world.newsroom.published_count(i64::MAX) as u64;
    until("all articles", || async { articles().await >= published }).await;
    assert!((1..published).contains(&kept), "{kept}: the disk was full in the middle of it");
    let dead = TaskFilter { states: vec![State::Dead], ..TaskFilter::default() };
    assert_eq!(world.tasks(dead).await.len(), 0);
    assert!(terminate(&mut engine.child));
    let report = world.report().await;
    assert!(report.is_perfect(), "{report:#?}");
    assert_eq!(world.served_twice(), Vec::<String>::new(), "what came back was in hand");
    let files = fs::read_dir(disk.outside().join("archive")).unwrap();
    let is_segment = |name: &str| name != "catalog.json";
    for segment in
        files.filter(|file| is_segment(&file.as_ref().unwrap().file_name().to_string_lossy()))
    {
        crate::kill::assert_whole(&segment.unwrap().path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_waits_for_a_full_database_and_goes_on() {
    let world = world().await;
    let Some(disk) = Disk::mount(&world.dir().join("disk"), 16) else { return };
    world.follow().await;
    world.store.close().await;
    fs::copy(world.config.database_path(), disk.outside().join("f.db")).unwrap();
    disk.fill_but(ROOM);
    let url = format!("file:{}", disk.path.join("f.db").display());
    let program = command(&world, &world.config.data_dir, Some(&url), &[SMALL]);
    let mut engine = Engine::start(disk.within(&program), world.dir().join("log"));
    engine.says("work is paused").await;
    let (asked, memory) = (quiet(&world).await, resident(&engine.child));
    assert!(engine.said().contains("disk/f.db is full"), "{}", engine.said());
    assert_eq!(quiet(&world).await, asked, "nobody is asked for what cannot be kept");
    assert!(resident(&engine.child) < memory + MARGIN, "memory grows");
    assert_eq!(engine.times("work is paused"), 1, "{}", engine.said());

    disk.free();
    engine.says("work goes on").await;
    let published = world.newsroom.published_count(i64::MAX);
    let out = world.config.data_dir.join("out");
    until("all articles", || async { written(&out, "articles") >= published }).await;
    assert!(terminate(&mut engine.child));
    places(&lines(&out, "articles"));

    // What the disk holds is brought out, to be looked at.
    let copy = world.dir().join("copy.db");
    fs::copy(disk.outside().join("f.db"), &copy).unwrap();
    let mut config = world.config.clone();
    config.database.url = format!("file:{}", copy.display()).into();
    let store = app::open(&config, &world.clock).await.unwrap();
    let now = world.clock.now();
    let report = demo::compare(&world.newsroom, &*store, &config, world.start, now).await.unwrap();
    assert!(report.is_perfect(), "{report:#?}");
    assert_eq!(store.stats().await.unwrap().total.dead, 0);
    assert_eq!(store.maintain().await.unwrap(), 0);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_sink_waits_alone_and_loses_no_line() {
    let world = world().await;
    let Some(disk) = Disk::mount(&world.dir().join("disk"), 4) else { return };
    world.follow().await;
    disk.fill_but(0);
    let out = format!("sinks.ndjson.dir={}", disk.path.join("out").display());
    let program = command(&world, &world.config.data_dir, None, &[SMALL, &out]);
    let mut engine = Engine::start(disk.within(&program), world.dir().join("log"));
    let published = world.newsroom.published_count(i64::MAX);
    let articles = || async { world.store.totals().await.unwrap().articles };
    until("all articles", || async { articles().await >= published as u64 }).await;
    engine.says("a sink is held up").await;
    assert_eq!(engine.times("work is paused"), 0, "{}", engine.said());
    disk.free();
    engine.says("a sink goes on").await;
    let out = disk.outside().join("out");
    until("all lines", || async { written(&out, "articles") >= published }).await;
    assert_eq!(engine.times("a sink is held up"), 1, "{}", engine.said());
    assert!(terminate(&mut engine.child));
    let told = lines(&out, "articles");
    assert_eq!((told.len(), places(&told).len()), (published, published));
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_tells_of_a_disk_that_takes_nothing() {
    let world = World::new(1, 1).await;
    let Some(disk) = Disk::mount(&world.dir().join("disk"), 4) else { return };
    let archive = format!("archive.dir={}", disk.path.join("archive").display());
    let program = command(&world, &world.config.data_dir, None, &[SMALL, &archive]);
    let mut engine = Engine::start(disk.within(&program), world.dir().join("log"));
    let server = server_of(&engine).await;
    until("the archive", || async { disk.outside().join("archive").is_dir() }).await;
    until_ready(&server).await;
    disk.fill_but(0);
    until_not_ready(&server, "No space left on device").await;
    disk.free();
    until_ready(&server).await;
    disk.remount("ro");
    until_not_ready(&server, "Read-only file system").await;
    disk.remount("rw");
    until_ready(&server).await;
    assert!(terminate(&mut engine.child));
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_tells_of_work_that_pauses_for_room() {
    let world = World::new(1, 1).await;
    let Some(disk) = Disk::mount(&world.dir().join("disk"), 8) else { return };
    let archive = format!("archive.dir={}", disk.path.join("archive").display());
    let settings = ["retention.min_free=2MB", archive.as_str()];
    let program = command(&world, &world.config.data_dir, None, &settings);
    let mut engine = Engine::start(disk.within(&program), world.dir().join("log"));
    let server = server_of(&engine).await;
    until("the archive", || async { disk.outside().join("archive").is_dir() }).await;
    until_ready(&server).await;
    disk.fill_but(1_000);
    until_not_ready(&server, "paused: ").await;
    disk.free();
    until_ready(&server).await;
    assert!(terminate(&mut engine.child));
}
