//! Searches for feeds and trials of selectors over the API: polite, bounded, and not where something was
//! taken down.

use std::sync::Arc;

use feedmill::app::forget;
use feedmill_newsroom::{Front, Setup};
use futures_util::future::join_all;
use serde_json::json;

use super::{Server, new_worlds};
use crate::support::World;

const DISCOVER: &str = "/api/v1/sources/discover";

async fn silent() -> World {
    World::with(1, |setup| Setup {
        fronts: vec![Front::Silent],
        sitemap_only_share: 0.0,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_of_one_host_keep_its_pause_together() {
    let world = silent().await;
    let home = world.newsroom.publishers()[0].url("/");
    let server = Server::start(&world, |_| {}).await;
    let body = json!({ "url": home });
    let answers = join_all((0..6).map(|_| server.send("POST", DISCOVER, &body))).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert!(statuses.contains(&200), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    let delay = i64::try_from(world.config.hosts.delay.as_millis()).unwrap();
    assert_eq!(world.newsroom.impolite(delay), []);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_down_is_not_searched() {
    let world = silent().await;
    let publisher = &world.newsroom.publishers()[0];
    let meant = forget::resolve(&*world.store, &publisher.host, None).await.unwrap();
    forget::forget(&*world.store, &meant, ("ann", "she asked"), &mut |_| {}).await.unwrap();
    let server = Server::start(&world, |_| {}).await;
    let answer = server.send("POST", DISCOVER, &json!({ "url": publisher.url("/") })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("was taken down"), "{}", answer.text());
    assert_eq!(world.newsroom.log().len(), 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_changes_do_not_fill_the_audit_log() {
    for (world, _database) in new_worlds(1, 0).await {
        let server = Arc::new(Server::start(&world, |_| {}).await);
        let path = format!("/api/v1/sources/{}/enable", "a".repeat(20_000));
        for _ in 0..60 {
            let foreign = [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")];
            let answer = server.ask("POST", &path, &foreign, "").await;
            assert_eq!((answer.status, &*answer.code()), (403, "cross_origin"));
        }
        let rows = feedmill::store::gate::audit(&*world.store, None, 100).await.unwrap();
        assert!((1..=25).contains(&rows.len()), "{}", rows.len());
        assert!(rows.iter().all(|row| row.path.len() <= 500));
        Arc::into_inner(server).unwrap().stop().await;
    }
}
