//! Lists never skip and never repeat, whatever is added or removed meanwhile.

use std::collections::BTreeSet;

use feedmill::frontier::{Act, TaskFilter};
use feedmill::model::{Kind, NewTask, Task};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Server, first, new_worlds, worlds};
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

#[tokio::test(flavor = "multi_thread")]
async fn every_list_of_the_document_comes_as_lines() {
    let (world, _database) = worlds(2, 3).await.swap_remove(0);
    let server = Server::administered(&world, |_| {}).await;
    let said: serde_json::Value = serde_json::from_str(&feedmill::api::openapi()).unwrap();
    let mut lists = 0;
    for (path, item) in said["paths"].as_object().unwrap() {
        let contents = &item["get"]["responses"]["200"]["content"];
        if contents["application/x-ndjson"].is_null() {
            continue;
        }
        let resource = path.trim_start_matches("/api/v1/").split('/').next().unwrap();
        let key = if matches!(resource, "hosts" | "sinks") { "name" } else { "id" };
        let path = match path.contains('{') {
            true => {
                let id = first(&server, &format!("/api/v1/{resource}"), key).await;
                path.replace("{id}", &id).replace("{name}", &id)
            }
            false => path.clone(),
        };
        let page = server.json(&path).await;
        let lines = server.ask("GET", &path, &[("accept", "application/x-ndjson")], "").await;
        assert_eq!(lines.header("content-type"), Some("application/x-ndjson"), "{path}");
        let shown = page["items"].as_array().unwrap().len();
        assert!(lines.text().lines().count() >= shown, "{path}: {}", lines.text());
        lists += 1;
    }
    assert!(lists >= 19, "{lists}");
    server.stop().await;
}

/// A queue in which every order is its own, and one too large to be looked at anew each time.
#[tokio::test(flavor = "multi_thread")]
async fn orders_and_filters_are_the_same_page_by_page_as_at_once() {
    for (world, _database) in new_worlds(1, 1).await {
        let server = Server::start(&world, |_| {}).await;
        let many = (0..12_000).map(|n| NewTask {
            base_priority: (n % 10 + 1) as u8,
            not_before: Some(
                world.clock.now().after(std::time::Duration::from_secs(n * 7919 % 9973)),
            ),
            ..page(n as usize)
        });
        let many: Vec<NewTask> = many.collect();
        for part in many.chunks(2_000) {
            world.store.submit(part.to_vec()).await.unwrap();
        }
        for (query, key) in [
            ("sort=-priority", "priority"),
            ("sort=due", "next_fetch_at"),
            ("status=pending&sort=-due", "next_fetch_at"),
            ("host=h3.example&sort=priority", "priority"),
            ("search=example/11&sort=-discovered", "discovered_at"),
            ("kind=article&origin=manual", "id"),
        ] {
            let lines = [("accept", "application/x-ndjson")];
            let all = server.ask("GET", &format!("/api/v1/frontier?{query}"), &lines, "").await;
            let read = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let all: Vec<serde_json::Value> = all.text().lines().map(read).collect();
            let counted =
                server.json(&format!("/api/v1/frontier?{query}&count=true&limit=1")).await;
            assert_eq!(counted["total"].as_u64(), Some(all.len() as u64), "{query}");
            let ids: BTreeSet<&str> = all.iter().map(|one| one["id"].as_str().unwrap()).collect();
            assert_eq!(ids.len(), all.len(), "{query}: something is listed twice");
            let keys: Vec<String> =
                all.iter().map(|one| format!("{:>40}", one[key].to_string())).collect();
            let falls = query.contains("sort=-");
            let sorted = keys.is_sorted_by(|one, two| if falls { one >= two } else { one <= two });
            assert!(sorted || key == "id", "{query}");
            let (mut pages, mut cursor) = (Vec::new(), String::new());
            loop {
                let path = format!("/api/v1/frontier?{query}&limit=900{cursor}");
                let part = server.json(&path).await;
                pages.extend(part["items"].as_array().unwrap().clone());
                let Some(next) = part["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            let of = |all: &[serde_json::Value]| -> Vec<String> {
                all.iter().map(|one| one["id"].to_string()).collect()
            };
            assert!(of(&pages) == of(&all), "{query}: pages and lines differ");
            let numbered =
                server.json(&format!("/api/v1/frontier?{query}&offset=700&limit=20")).await;
            let expected: Vec<_> = all.iter().skip(700).take(20).cloned().collect();
            assert_eq!(of(numbered["urls"].as_array().unwrap()), of(&expected), "{query}");
        }
        // Whoever changes something sees it at once.
        let gone = serde_json::json!({"host": "h3.example"});
        let gone = server.send("POST", "/api/v1/frontier/delete", &gone).await.json();
        let left = server.json("/api/v1/frontier?host=h3.example&count=true&sort=due").await;
        assert_eq!((&left["total"], &left["items"]), (&0.into(), &serde_json::json!([])));
        assert_eq!(gone["done"], 2_400, "{gone}");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rare_events_are_found_wherever_they_are() {
    for (world, _database) in worlds(2, 3).await {
        let server = Server::start(&world, |_| {}).await;
        let all = server.json("/api/v1/events?limit=1000").await;
        let all = all["items"].as_array().unwrap();
        let is_article = |one: &&serde_json::Value| one["kind"] == "article.new";
        let articles: Vec<_> = all.iter().filter(is_article).map(|one| &one["seq"]).collect();
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/v1/events?kinds=article.new&limit=2{cursor}");
            let part = server.json(&path).await;
            found.extend(part["items"].as_array().unwrap().iter().map(|one| one["seq"].clone()));
            let Some(next) = part["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found.iter().collect::<Vec<_>>(), articles);
        // A time is a place: before it nothing, from it on everything.
        for at in [all.first().unwrap(), &all[all.len() / 2], all.last().unwrap()] {
            let since = at["at"].as_str().unwrap();
            let later = all.iter().filter(|one| one["at"].as_str().unwrap() >= since);
            let told = server.json(&format!("/api/v1/events?limit=1000&since={since}")).await;
            let told: Vec<_> =
                told["items"].as_array().unwrap().iter().map(|it| &it["seq"]).cloned().collect();
            assert_eq!(told, later.map(|it| it["seq"].clone()).collect::<Vec<_>>(), "{since}");
        }
        let never = server.json("/api/v1/events?since=2999-01-01T00:00:00Z").await;
        assert_eq!(never["items"], serde_json::json!([]));
        server.stop().await;
    }
}
