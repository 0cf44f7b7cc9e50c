//! Each target read by a small Python program, as its own users would. It is the Python beside the
//! program that `FEEDMILL_TEST_WARCIO` names.

use std::path::{Path, PathBuf};
use std::process::Command;

use feedmill::config::{Sink as Configured, Span, Target};
use feedmill::store::ArticleFilter;

use super::servers::redis_server;
use super::targets::{drain, read};
use crate::archive::service;
use crate::kill::binary;
use crate::support::World;

fn python() -> Option<PathBuf> {
    let warcio = service("FEEDMILL_TEST_WARCIO", "the program warcio")?;
    Some(Path::new(&warcio).with_file_name("python"))
}

/// What a reader says of a place.
fn judge(python: &Path, what: &str, place: &str, urls: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/read_targets.py");
    let output = Command::new(python).arg(script).args([what, place]).arg(urls).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}{wrong}");
}

/// A file with the addresses of all articles.
async fn urls(world: &World) -> PathBuf {
    let filter = ArticleFilter { limit: 1_000, ..ArticleFilter::default() };
    let all = world.store.articles(filter).await.unwrap();
    let urls: Vec<String> = all.into_iter().map(|(_, row)| row.article.url).collect();
    let path = world.dir().join("urls");
    std::fs::write(&path, urls.join("\n")).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn others_read_what_sinks_wrote() {
    let Some(python) = python() else { return };
    let world = read(3, 4).await;
    let urls = urls(&world).await;
    let (news, lines) = (world.dir().join("news"), world.dir().join("lines"));
    drain(&world, "news", Configured::new(Target::files(news.clone()))).await;
    judge(&python, "newsfed", &news.display().to_string(), &urls);
    drain(&world, "lines", Configured::new(Target::ndjson(&lines))).await;
    judge(&python, "ndjson", &lines.display().to_string(), &urls);
    let Some((_server, _, url)) = redis_server().await else { return };
    let (address, prefix) = (url.clone().into(), "rss:".to_owned());
    let target = Target::Redis {
        url: address,
        root_cert: PathBuf::new(),
        prefix,
        timeout: Span::seconds(10),
    };
    drain(&world, "redis", Configured::new(target)).await;
    judge(&python, "redis", &url, &urls);
}

#[tokio::test(flavor = "multi_thread")]
async fn others_read_what_was_exported() {
    let Some(python) = python() else { return };
    let world = read(2, 3).await;
    let urls = urls(&world).await;
    for (what, name) in [("csv", "a.csv"), ("jsonl", "a.jsonl"), ("sqlite", "a.sqlite")] {
        let file = world.dir().join(name);
        let mut command = binary();
        command.args(["export", "--data-dir"]).arg(&world.config.data_dir).arg("--out").arg(&file);
        assert!(command.current_dir(world.dir()).status().unwrap().success());
        judge(&python, what, &file.display().to_string(), &urls);
    }
}
