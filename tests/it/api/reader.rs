//! What others' programs make of our feeds: Python's feedparser reads all pages of each.

use std::process::Command;

use super::{Server, worlds};

#[tokio::test(flavor = "multi_thread")]
async fn feedparser_reads_every_page_of_every_feed() {
    let python = match std::env::var("FEEDMILL_TEST_FEEDPARSER") {
        Ok(off) if off == "off" => return,
        Ok(python) => python,
        // Outside of scripts/test it is asked for by name only.
        Err(_) => return,
    };
    let (world, _database) = worlds(3, 4).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let articles =
        server.json("/api/v1/articles?limit=1000").await["items"].as_array().unwrap().len();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/read_metafeeds.py");
    let (base, count) = (format!("http://{}", server.address), articles.to_string());
    let output = tokio::task::spawn_blocking(move || {
        Command::new(python).args([script, &base, &count]).output().unwrap()
    });
    let output = output.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.stop().await;
}
