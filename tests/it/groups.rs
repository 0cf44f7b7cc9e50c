//! Hosts that are put into a group, or taken out of it, once they are known: one queue at a time.

use feedmill::app;
use feedmill::frontier::{HostFilter, HostPatch, TaskFilter};
use feedmill::model::Ts;

use crate::postgres::database;
use crate::support::World;

async fn hosts(world: &World) -> Vec<(String, Option<Ts>)> {
    let filter = HostFilter { limit: 100, ..HostFilter::default() };
    let hosts = world.store.hosts(filter).await.unwrap();
    hosts.into_iter().map(|host| (host.name, host.blocked_until)).collect()
}

/// Runs an engine with these groups, and looks again at what there is.
async fn run_with(world: &mut World, groups: &[&str], concurrency: u32) {
    world.config.hosts.groups = groups.iter().map(|group| group.parse().unwrap()).collect();
    world.config.hosts.concurrency = concurrency;
    world.run_once().await;
    world.store.close().await;
    world.store = app::open(&world.config, &world.clock).await.unwrap();
}

async fn hosts_change_their_queues(mut world: World) {
    world.follow().await;
    run_with(&mut world, &[], 1).await;
    let alone = hosts(&world).await;
    assert_eq!(alone.len(), 3);
    let tasks = world.tasks(TaskFilter::default()).await.len();
    let until = world.clock.now().after(std::time::Duration::from_hours(1_000));
    let patch = HostPatch { blocked_until: Some(until), ..HostPatch::default() };
    world.store.set_host(&alone[0].0, patch).await.unwrap();

    run_with(&mut world, &["all=*.test"], 2).await;
    assert_eq!(hosts(&world).await, [("all".to_owned(), Some(until))]);
    let grouped = world.tasks(TaskFilter::default()).await;
    assert!(grouped.len() == tasks && grouped.iter().all(|task| task.host == "all"));
    let filter = HostFilter { limit: 9, ..HostFilter::default() };
    let [state] = &world.store.hosts(filter).await.unwrap()[..] else { panic!() };
    assert_eq!(state.concurrency, 2, "what nobody said anything else about follows the house");
    // On a slow machine some may be due again by now.
    let now = world.clock.now();
    let due = grouped.iter().filter(|task| task.next_fetch_at <= now).count() as u64;
    let queued = state.queued.poll + state.queued.page;
    assert!(queued <= due, "what is not due does not queue: {queued} of {due}");

    // Whoever comes with other groups goes by those of the last engine.
    world.config.hosts.groups.clear();
    let beside = app::open(&world.config, &world.clock).await.unwrap();
    assert_eq!(beside.rules().groups.len(), 1);
    beside.close().await;

    run_with(&mut world, &[], 2).await;
    let apart = hosts(&world).await;
    let names =
        |hosts: &[(String, Option<Ts>)]| hosts.iter().map(|h| h.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&apart), names(&alone));
    assert!(apart.iter().all(|(_, blocked)| *blocked == Some(until)), "all were left alone");
    assert_eq!(world.tasks(TaskFilter::default()).await.len(), tasks);
    assert_eq!(world.served_twice(), Vec::<String>::new());
    assert_eq!(world.store.maintain().await.unwrap(), 0);
    world.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_change_their_queues_with_their_groups() {
    hosts_change_their_queues(World::new(3, 4).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_change_their_queues_on_postgresql() {
    let Some(database) = database().await else { return };
    let setup = |setup: feedmill_newsroom::Setup| feedmill_newsroom::Setup {
        history: 4,
        publish_until: Some(setup.starts_at),
        ..setup
    };
    hosts_change_their_queues(World::on(&database.url, 3, setup).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_with_other_groups_do_not_work_side_by_side() {
    let Some(database) = database().await else { return };
    let setup = |setup: feedmill_newsroom::Setup| setup;
    let mut world = World::on(&database.url, 1, setup).await;
    world.run_once().await;
    let db = feedmill::db::PgDb::open(&database.url, None).await.unwrap();
    assert!(db.work(feedmill::db::Role::Engine, |_| {}).await.unwrap(), "an engine runs");
    world.config.hosts.groups = vec!["all=*.test".parse().unwrap()];
    let options =
        app::RunOptions { mode: app::Mode::Once, lanes: feedmill::model::Lane::ALL.to_vec() };
    let stop = tokio_util::sync::CancellationToken::new();
    let ran = app::run(&world.config, &world.clock, options, stop, std::sync::Arc::default()).await;
    assert_eq!(ran.unwrap_err().code(), "hosts_differ");
    db.close().await;
    world.store.close().await;
}
