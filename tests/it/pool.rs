//! Many sources at once on PostgreSQL: nobody holds a connection and waits for a second one.

use std::fmt::Write as _;

use feedmill::config::Config;
use serde_json::json;

use crate::api::Server;
use crate::kill::binary;
use crate::postgres::database;
use crate::support::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_imported_whole_with_any_number_of_connections() {
    let Some(database) = database().await else { return };
    let dir = tempfile::tempdir().unwrap();
    for connections in [12, 1] {
        let mut list = String::new();
        for n in 0..50 {
            writeln!(list, "https://p{n}-{connections}.example.com/feed.xml").unwrap();
        }
        let file = dir.path().join("list.txt");
        std::fs::write(&file, list).unwrap();
        let setting = format!("database.connections={connections}");
        let done = binary()
            .env("FEEDMILL_DATABASE__URL", &database.url)
            .args(["source", "import", "--json", "--set", &setting, "--data-dir"])
            .arg(dir.path())
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{connections}: {said}");
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(report["added"], 50, "{connections}: {report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_sources_are_added_at_once() {
    let Some(database) = database().await else { return };
    let world = World::on(&database.url, 1, |setup| setup).await;
    for connections in [12, 1] {
        let few = |config: &mut Config| config.database.connections = connections;
        let server = Server::start(&world, few).await;
        let post = |n: usize| {
            let name = format!("source {n} of {connections}");
            let feed = format!("https://p{n}-{connections}.example.com/feed.xml");
            let made = json!({ "name": name, "feeds": [feed] });
            let server = &server;
            async move { server.send("POST", "/api/v1/sources", &made).await }
        };
        for answer in futures_util::future::join_all((0..20).map(post)).await {
            assert_eq!(answer.status, 201, "{connections}: {}", answer.text());
        }
        server.stop().await;
    }
    assert_eq!(world.store.sources().await.unwrap().len(), 40);
    world.store.close().await;
}
