//! An engine at work: nobody takes its database away, and no second one opens it by another name.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::kill::{ANYWHERE, binary, command, terminate};
use crate::postgres::{connect, database};
use crate::support::{Engine, World, until};

fn feedmill(world: &World, dir: &Path, database: Option<&str>, args: &[&str]) -> Command {
    let mut command = binary();
    command.envs(database.map(|url| ("FEEDMILL_DATABASE__URL", url)));
    command.args(args).arg("--data-dir").arg(dir).current_dir(world.dir());
    command
}

/// Where programs of the system are.
fn path() -> Option<(&'static str, std::ffi::OsString)> {
    std::env::var_os("PATH").map(|path| ("PATH", path))
}

/// What a command that has to fail says.
fn refused(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{command:?}: {said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_a_database_from_an_engine() {
    let database = database().await;
    let mut urls = vec![None];
    urls.extend(database.iter().map(|database| Some(database.url.as_str())));
    for url in urls {
        let world = World::on(url.unwrap_or(""), 1, |setup| setup).await;
        let dir = world.config.data_dir.clone();
        let backup = world.dir().join("backup.db").display().to_string();
        let saved = feedmill(&world, &dir, url, &["backup", &backup]).output().unwrap();
        assert!(saved.status.success(), "{saved:?}");
        let log = world.dir().join("log");
        let mut engine = Engine::start(command(&world, &dir, url, &[]), log);
        until("the engine", || async { world.store.engines().await.unwrap() > 0 }).await;
        let other = world.dir().join("other.db").display().to_string();
        for args in [
            &["migrate", "down", "--yes"] as &[&str],
            &["restore", "--force", &backup],
            &["move", "--to", &other],
        ] {
            let said = refused(&mut feedmill(&world, &dir, url, args));
            assert!(said.contains("an engine runs on"), "{args:?}: {said}");
        }
        assert!(world.store.totals().await.is_ok(), "the tables are there");
        assert!(terminate(&mut engine.child));
        world.store.close().await;
        let down = feedmill(&world, &dir, url, &["migrate", "down", "--yes"]).output().unwrap();
        assert!(down.status.success(), "{down:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_engine_finds_the_first_by_every_path() {
    let world = World::new(1, 1).await;
    let dir = world.config.data_dir.clone();
    let mut engine = Engine::start(command(&world, &dir, None, &[]), world.dir().join("log"));
    until("the engine", || async { world.store.engines().await.unwrap() > 0 }).await;
    let (linked, file) = (world.dir().join("linked"), world.dir().join("linked.db"));
    symlink(&dir, &linked).unwrap();
    symlink(linked.join("feedmill.db"), &file).unwrap();
    let second = |dir: &Path, file: &Path| {
        let url = format!("file:{}", file.display());
        let args = ["run", "--set", ANYWHERE];
        refused(&mut feedmill(&world, dir, Some(&url), &args))
    };
    let elsewhere = world.dir().join("elsewhere");
    for (dir, file) in [
        (&linked, dir.join("feedmill.db")),
        (&elsewhere, linked.join("feedmill.db")),
        (&elsewhere, file),
    ] {
        let said = second(dir, &file);
        assert!(said.contains("another engine (process"), "{}: {said}", file.display());
    }
    let named = world.dir().join("named.db");
    std::fs::hard_link(dir.join("feedmill.db"), &named).unwrap();
    let said = second(&elsewhere, &named);
    assert!(said.contains("2 hard links"), "{said}");
    assert!(terminate(&mut engine.child));
}

/// In a container a file can be mounted without its directory: it is the same file, with another log beside it.
/// Only root can mount one for a test; elsewhere the unit tests of the check have to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_mounted_without_its_directory_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::new(1, 1).await;
    let (dir, other) = (world.config.data_dir.clone(), world.dir().join("other"));
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("feedmill.db"), "").unwrap();
    let mut engine = Engine::start(command(&world, &dir, None, &[]), world.dir().join("log"));
    until("the engine", || async { world.store.engines().await.unwrap() > 0 }).await;
    let commands: [&[&str]; 4] = [
        &["run", "--set", ANYWHERE],
        &["source", "status"],
        &["migrate", "down", "--yes"],
        &["doctor"],
    ];
    for args in commands {
        let program = feedmill(&world, &other, None, args);
        let script = format!("mount --bind {}/feedmill.db \"$0\" && exec \"$@\"", dir.display());
        let mut mounted = Command::new("unshare");
        mounted.args(["--mount", "sh", "-c", &script]).arg(other.join("feedmill.db"));
        mounted.arg(program.get_program()).args(program.get_args()).current_dir(world.dir());
        mounted.env_clear().envs(path());
        let done = mounted.output().unwrap();
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        // A container without the right to mount cannot show it.
        if said.contains("unshare failed") || said.contains("permission denied") {
            break;
        }
        assert_eq!(done.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("mount the whole directory"), "{args:?}: {said}");
    }
    assert!(terminate(&mut engine.child));
}

/// A FIFO blocks whoever opens it, and SQLite writes to what has the name of one of its files.
#[test]
fn no_command_is_held_up_or_writes_elsewhere_by_what_stands_for_a_database() {
    let home = tempfile::tempdir().unwrap();
    let (sound, other) = (home.path().join("sound"), home.path().join("other"));
    let feedmill = |dir: &Path, args: &[&str]| {
        let program = binary();
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "60"]).arg(program.get_program()).args(args);
        command.arg("--data-dir").arg(dir).current_dir(home.path()).env_clear().envs(path());
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        (done.status.code(), said)
    };
    assert_eq!(feedmill(&sound, &["migrate", "up"]).0, Some(0));
    let precious = "precious".repeat(5_000);
    let commands: [&[&str]; 10] = [
        &["migrate", "status"],
        &["migrate", "down", "--yes"],
        &["migrate", "up"],
        &["doctor"],
        &["source", "status"],
        &["source", "list"],
        &["export", "--out", "articles.ndjson"],
        &["backup", "backup.db"],
        &["move", "--to", "moved.db"],
        &["once"],
    ];
    for (suffix, is_fifo) in [
        ("", true),
        ("-wal", true),
        ("-wal", false),
        ("-shm", true),
        ("-shm", false),
        ("-journal", true),
        ("-journal", false),
    ] {
        let dir = home.path().join(format!("data{suffix}{is_fifo}"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::copy(sound.join("feedmill.db"), dir.join("feedmill.db")).unwrap();
        std::fs::write(&other, &precious).unwrap();
        let place = dir.join(format!("feedmill.db{suffix}"));
        drop(std::fs::remove_file(&place));
        if is_fifo {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, &place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        } else {
            std::fs::hard_link(&other, &place).unwrap();
        }
        for args in commands {
            let (code, said) = feedmill(&dir, args);
            let shown = place.display().to_string();
            assert_eq!(code, Some(1), "{args:?} with {shown}: {said}");
            assert!(said.contains(&shown), "{args:?}: {said}");
        }
        assert_eq!(std::fs::read_to_string(&other).unwrap(), precious, "{suffix}");
    }
}

/// Deletes every lock file of an installation.
fn delete_locks(dir: &Path) -> usize {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let locks: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|it| it == "lock")).collect();
    locks.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    locks.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_lock_files_take_no_database_from_an_engine() {
    let world = World::new(1, 1).await;
    let dir = world.config.data_dir.clone();
    let mut engine = Engine::start(command(&world, &dir, None, &[]), world.dir().join("log"));
    until("the engine", || async { world.store.engines().await.unwrap() > 0 }).await;
    let elsewhere = world.dir().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let file = format!("file:{}", dir.join("feedmill.db").display());
    let refusals = [
        (&dir, None, &["run", "--set", ANYWHERE] as &[&str], "another engine"),
        (&elsewhere, Some(file.as_str()), &["run", "--set", ANYWHERE], "another engine"),
        (&dir, None, &["migrate", "down", "--yes"], "an engine runs on"),
    ];
    for (dir_used, url, args, words) in refusals {
        assert!(delete_locks(&dir) > 0);
        let said = refused(&mut feedmill(&world, dir_used, url, args));
        assert!(said.contains(words), "{args:?}: {said}");
        assert_eq!(world.store.engines().await.unwrap(), 1);
    }
    assert!(world.store.totals().await.is_ok(), "the tables are there");
    assert!(terminate(&mut engine.child));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_a_database_from_a_process_that_serves_it() {
    let database = database().await;
    let mut urls = vec![None];
    urls.extend(database.iter().map(|database| Some(database.url.as_str())));
    for url in urls {
        let world = World::on(url.unwrap_or(""), 1, |setup| setup).await;
        let dir = world.config.data_dir.clone();
        let mut serving = command(&world, &dir, url, &[]);
        serving.args(["--roles", "api"]);
        let mut api = Engine::start(serving, world.dir().join("log"));
        let down = || feedmill(&world, &dir, url, &["migrate", "down", "--yes"]);
        api.says("the dashboard and the API are at").await;
        if url.is_none() {
            assert_eq!(delete_locks(&dir), 1);
            let lock = dir.join("feedmill.db.api.lock");
            until("the lock file is back", || async { lock.exists() }).await;
        }
        let other = world.dir().join("other.db").display().to_string();
        for mut command in [down(), feedmill(&world, &dir, url, &["move", "--to", &other])] {
            let said = refused(&mut command);
            assert!(said.contains("an API server runs on"), "{said}");
        }
        // An engine works beside it.
        let ran = feedmill(&world, &dir, url, &["once"]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        assert!(world.store.totals().await.is_ok(), "the tables are there");
        assert!(terminate(&mut api.child));
        world.store.close().await;
        let done = down().output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
}

/// Cuts all connections to a database but this one.
async fn cut(client: &tokio_postgres::Client) {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_take_no_database_from_an_engine() {
    let Some(database) = database().await else { return };
    let url = Some(database.url.as_str());
    let world = World::on(&database.url, 1, |setup| setup).await;
    let dir = world.config.data_dir.clone();
    let down = || feedmill(&world, &dir, url, &["migrate", "down", "--yes"]);
    let mut engine = Engine::start(command(&world, &dir, url, &[]), world.dir().join("log"));
    // At its start a database that is lost ends it.
    engine.says("the engine starts").await;
    let client = connect(&database.url).await;
    for _ in 0..5 {
        cut(&client).await;
        let said = refused(&mut down());
        assert!(said.contains("an engine runs on") && said.contains(" s ago"), "{said}");
    }
    until("the engine", || async { world.store.engines().await.unwrap_or(0) > 0 }).await;
    assert!(terminate(&mut engine.child), "{}", engine.said());
    assert!(world.store.totals().await.is_ok(), "the tables are there");

    // A killed engine is waited for until it was not seen for a while.
    let mut engine = Engine::start(command(&world, &dir, url, &[]), world.dir().join("log"));
    engine.says("the engine starts").await;
    engine.child.kill().unwrap();
    engine.child.wait().unwrap();
    let said = refused(&mut down());
    assert!(said.contains("wait ") && said.contains(" s if it was killed"), "{said}");
    client.execute("UPDATE process SET seen_at = seen_at - 60000", &[]).await.unwrap();
    // The server itself may have started not long ago, and with it the time that counts.
    until("nobody is left", || async { down().status().unwrap().success() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_tables_are_gone_says_so_and_fails() {
    let database = database().await;
    let mut urls = vec![None];
    urls.extend(database.iter().map(|database| Some(database.url.as_str())));
    let ways = |url: Option<&str>| match url {
        Some(_) => vec!["all tables", "one table"],
        None => vec!["one table", "the file", "its contents", "all but a byte"],
    };
    for (url, what) in
        urls.into_iter().flat_map(|url| ways(url).into_iter().map(move |it| (url, it)))
    {
        let world = World::on(url.unwrap_or(""), 1, |setup| setup).await;
        let dir = world.config.data_dir.clone();
        let log = world.dir().join("log");
        let mut engine = Engine::start(command(&world, &dir, url, &[]), log);
        engine.says("the engine starts").await;
        world.store.close().await;
        match (url, what) {
            (Some(url), "all tables") => {
                let gone = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
                // The engine's own transactions may be in the way.
                let client = connect(url).await;
                until("no tables", || async { client.batch_execute(gone).await.is_ok() }).await;
            }
            // One table is enough to make work impossible.
            (Some(url), _) => {
                let (client, gone) = (connect(url).await, "DROP TABLE IF EXISTS host CASCADE");
                until("no hosts", || async { client.batch_execute(gone).await.is_ok() }).await;
            }
            (None, "one table") => {
                let conn = feedmill::db::Connection::open(dir.join("feedmill.db")).unwrap();
                conn.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
                conn.execute_batch("DROP TABLE queue").unwrap();
            }
            (None, "the file") => std::fs::remove_file(dir.join("feedmill.db")).unwrap(),
            (None, _) => {
                let file = std::fs::OpenOptions::new().write(true).open(dir.join("feedmill.db"));
                file.unwrap().set_len(u64::from(what == "all but a byte")).unwrap();
            }
        }
        let mut ended = None;
        until("the end", || {
            ended = engine.child.try_wait().unwrap();
            std::future::ready(ended.is_some())
        })
        .await;
        let said = engine.said();
        assert_eq!(ended.unwrap().code(), Some(1), "{url:?} {what}: {said}");
        assert!(said.contains("gone"), "{url:?} {what}: {said}");
    }
}
