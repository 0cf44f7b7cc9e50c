//! A configuration that changes while the engine runs.

use std::fs;

use feedmill::model::{Ask, NewSource, TaskId};

use crate::kill::{binary, command, terminate};
use crate::support::{Engine, World, until};

fn hang_up(engine: &Engine) {
    let pid = rustix::process::Pid::from_child(&engine.child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
}

/// The interval that was chosen for the feed of the source, in minutes.
async fn interval(world: &World, task: TaskId) -> Option<i64> {
    let known = world.store.lookup(Ask { feed: Some(task), ..Ask::default() }).await.unwrap();
    known.feed.interval_ms.map(|ms| ms / 60_000)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_change_changes_and_the_rest_is_named() {
    let world = World::new(3, 2).await;
    let write = |text: &str| fs::write(world.dir().join("feedmill.toml"), text).unwrap();
    let quiet = "[sources]\nreload_interval = 0\n";
    let paced =
        |span: &str| format!("[schedule]\npolicy = \"fixed\"\ndefault_interval = \"{span}\"\n");
    let publishers = world.newsroom.publishers();
    let url = publishers.iter().find_map(|publisher| publisher.feed_url()).unwrap();
    let source = NewSource { feed_urls: vec![url.clone()], ..NewSource::new("press", &url) };
    world.store.add_source(source).await.unwrap();
    let task = world.task(&url).await.id;
    let chosen = |minutes| {
        let world = &world;
        until("the interval", move || async move { interval(world, task).await == Some(minutes) })
    };

    write(&(quiet.to_owned() + &paced("15m")));
    let command = command(&world, &world.config.data_dir, None, &[]);
    let mut engine = Engine::start(command, world.dir().join("said"));
    chosen(15).await;

    // What counts at once, and what waits for the next start.
    write(&(quiet.to_owned() + &paced("30m") + "[archive]\ngzip_level = 9\n"));
    hang_up(&engine);
    engine.says("the configuration was read again").await;
    assert!(engine.said().contains("schedule.default_interval"), "{}", engine.said());
    engine.says("count from the next start on").await;
    assert!(engine.said().contains("archive.gzip_level"), "{}", engine.said());
    chosen(30).await;

    // A file that is broken changes nothing, and says where.
    write("[schedule]\npolicy = \"fixed\"\ndefault_interval = \"soon\"\n");
    hang_up(&engine);
    engine.says("the old one stays in effect").await;
    assert!(engine.said().contains("feedmill.toml line 3"), "{}", engine.said());
    assert_eq!(interval(&world, task).await, Some(30));

    // What is said to the running installation wins, and is taken over without a signal.
    write(&paced("30m"));
    hang_up(&engine);
    until("the file is fine", || async { engine.times("was read again") >= 2 }).await;
    let config = |args: &[&str]| {
        let mut command = binary();
        command.args(["config"]).args(args).arg("--data-dir").arg(&world.config.data_dir);
        let output = command.current_dir(world.dir()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.success(), said.concat())
    };
    let (done, said) = config(&["set", "schedule.default_interval", "45m"]);
    assert!(done && said.contains("45m"), "{said}");
    chosen(45).await;
    let (_, shown) = config(&["show"]);
    let line = "default_interval = \"45m\" # from `feedmill config set`";
    assert!(shown.contains(line), "{shown}");
    for (args, words) in [
        (&["set", "normalize.tracking", "ref"], "in the file"),
        (&["set", "schedule.default_interval", "soon"], "must be"),
        (&["set", "schedule.interval", "1h"], "did you mean"),
    ] {
        let (done, said) = config(args);
        assert!(!done && said.contains(words), "{args:?}: {said}");
    }
    assert!(config(&["unset", "schedule.default_interval"]).0);
    chosen(30).await;
    assert!(!config(&["unset", "schedule.default_interval"]).0, "nothing is kept of it");
    assert!(terminate(&mut engine.child));
}
