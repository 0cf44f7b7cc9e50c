//! Lists never skip and never repeat, whatever is added or removed meanwhile.

use std::collections::BTreeSet;

use feedmill::frontier::{Act, TaskFilter};
use feedmill::model::{Kind, NewTask, Task};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Server, worlds};
use crate::support::World;

fn page(number: usize) -> NewTask {
    NewTask::manual(format!("https://h{}.example/{number}", number % 5), Kind::Article, None, 5)
}

async fn submit(world: &World, numbers: impl Iterator<Item = usize>) {
    world.store.submit(numbers.map(page).collect()).await.unwrap();
}

/// What is done between two pages.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Add(usize),
    Delete(usize),
}

fn meanwhile() -> impl Strategy<Value = Meanwhile> {
    prop_oneof![(1usize..20).prop_map(Meanwhile::Add), (0usize..60).prop_map(Meanwhile::Delete)]
}

#[test]
fn every_row_that_stays_is_listed_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(Config { cases: 12, ..Config::default() });
    let plan = (1usize..13, prop::collection::vec(meanwhile(), 0..12), any::<bool>());
    let (world, server) = runtime.block_on(async {
        let world = World::new(1, 1).await;
        let server = Server::start(&world, |_| {}).await;
        (world, server)
    });
    let next = std::cell::Cell::new(0);
    runner
        .run(&plan, |(limit, between, newest)| {
            runtime.block_on(async {
                let begin = next.get();
                next.set(begin + 1_000);
                let all = || TaskFilter {
                    search: Some(".example/".into()),
                    limit: 10_000,
                    ..TaskFilter::default()
                };
                let (act, every) = (Act::Delete, TaskFilter { limit: 10_000, ..all() });
                world.store.sweep(act, every, false).await.unwrap();
                submit(&world, begin..begin + 60).await;
                let before: Vec<Task> = world.tasks(all()).await;
                let mut stays: BTreeSet<String> =
                    before.iter().map(|task| task.id.to_string()).collect();
                let (mut listed, mut cursor, mut added) = (Vec::new(), String::new(), begin + 60);
                let mut between = between.into_iter();
                let sort = if newest { "-id" } else { "id" };
                loop {
                    let path = format!(
                        "/api/v1/frontier?search=.example/&sort={sort}&limit={limit}{cursor}"
                    );
                    let part = server.json(&path).await;
                    for item in part["items"].as_array().unwrap() {
                        listed.push(item["id"].as_str().unwrap().to_owned());
                    }
                    let Some(next) = part["next"].as_str() else { break };
                    cursor = format!("&cursor={next}");
                    match between.next() {
                        Some(Meanwhile::Add(count)) => {
                            submit(&world, added..added + count).await;
                            added += count;
                        }
                        Some(Meanwhile::Delete(at)) => {
                            let task = &before[at % before.len()];
                            stays.remove(&task.id.to_string());
                            let one = TaskFilter {
                                ids: vec![task.id],
                                limit: 1,
                                ..TaskFilter::default()
                            };
                            world.store.sweep(Act::Delete, one, false).await.unwrap();
                        }
                        None => {}
                    }
                }
                let once: BTreeSet<String> = listed.iter().cloned().collect();
                prop_assert_eq!(once.len(), listed.len(), "something is listed twice");
                prop_assert!(stays.is_subset(&once), "something is left out");
                Ok(())
            })
        })
        .unwrap();
    runtime.block_on(server.stop());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_lines_are_the_same_list() {
    for (world, _database) in worlds(3, 6).await {
        let server = Server::start(&world, |_| {}).await;
        for list in [
            "sources",
            "feeds",
            "entries",
            "articles",
            "fetches",
            "frontier",
            "hosts",
            "events",
            "articles?language=en",
            "articles?q=a",
            "articles?duplicates=false",
            "sources?sort=-created",
            "frontier?sort=-due",
            "events?kinds=article.*",
        ] {
            let key = match list.split('?').next().unwrap() {
                "hosts" => "name",
                "events" => "seq",
                _ => "id",
            };
            let joint = if list.contains('?') { '&' } else { '?' };
            let (mut pages, mut cursor) = (Vec::new(), String::new());
            loop {
                let part = server.json(&format!("/api/v1/{list}{joint}limit=3{cursor}")).await;
                pages
                    .extend(part["items"].as_array().unwrap().iter().map(|item| item[key].clone()));
                let Some(next) = part["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            let lines = [("accept", "application/x-ndjson")];
            let lines = server.ask("GET", &format!("/api/v1/{list}"), &lines, "").await;
            assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
            let lines: Vec<_> = lines
                .text()
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()[key].clone())
                .collect();
            assert_eq!(pages, lines, "{list}");
            assert!(!pages.is_empty() || list.contains("q="), "{list}");
        }
        server.stop().await;
    }
}
