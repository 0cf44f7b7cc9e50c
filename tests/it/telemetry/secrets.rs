//! No secret is told: wherever one can be put, nothing that the program says has it. Neither the log at its
//! loudest, nor events, commands, answers, figures or spans.

use std::net::SocketAddr;

use feedmill::model::{Access, Auth, NewSource, Secret, SecretUrl};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::traces::Collector;
use super::{at, press};
use crate::kill::{binary, command, terminate};
use crate::postgres::database;
use crate::support::{Engine, World, until};

/// What every secret here has in it, as it is and in the forms that headers and keys have it in.
const SECRET: [&str; 4] = ["hunter2", "aHVudGVyMi", "h1bnRlcjI", "odW50ZXIy"];

/// Nobody listens there.
const NOBODY: &str = "127.0.0.1:9";

/// A secret in every setting that can hold one.
fn settings(collector: SocketAddr) -> Vec<String> {
    let settings = [
        "log.level=trace".to_owned(),
        "trace.sample_ratio=1".to_owned(),
        format!("trace.endpoint=http://ann:hunter2-collector@{collector}"),
        "trace.headers=authorization: Bearer hunter2-trace".to_owned(),
        "archive.access_key=ann".to_owned(),
        "archive.secret_key=hunter2-bucket".to_owned(),
        format!("sources.manager.url=http://{NOBODY}"),
        "sources.manager.token=hunter2-manager".to_owned(),
        format!("sources.redis_sets=redis://:hunter2-sets@{NOBODY}/0 rss:*"),
    ];
    let sinks = [
        "hook.kind=webhook".to_owned(),
        format!("hook.url=http://{NOBODY}/hunter2-path?key=hunter2-query"),
        "hook.secret=whsec_aHVudGVyMi1zZWNyZXQtaHVudGVyMi1zZWNyZXQ=".to_owned(),
        "hook.headers=authorization: Bearer hunter2-hook".to_owned(),
        "hook.redact.salt=hunter2-salt".to_owned(),
        "keyed.kind=elasticsearch".to_owned(),
        format!("keyed.url=http://{NOBODY}"),
        "keyed.api_key=hunter2-key".to_owned(),
        "es.kind=elasticsearch".to_owned(),
        format!("es.url=http://{NOBODY}"),
        "es.user=ann".to_owned(),
        "es.password=hunter2-es".to_owned(),
        "redis.kind=redis".to_owned(),
        format!("redis.url=redis://ann:hunter2-redis@{NOBODY}/0"),
        "stream.kind=redis_stream".to_owned(),
        format!("stream.url=redis://:hunter2-stream@{NOBODY}/0"),
        "nats.kind=nats".to_owned(),
        format!("nats.url=nats://hunter2-nats@{NOBODY},nats://ann:hunter2-other@{NOBODY}"),
    ];
    let sinks = sinks.into_iter().map(|setting| format!("sinks.{setting}"));
    settings.into_iter().chain(sinks).collect()
}

fn secret(text: &str) -> Secret {
    Secret::from(text.to_owned())
}

/// Sources with all kinds of credentials.
async fn follow(world: &World) {
    let header = ("x-key".to_owned(), secret("hunter2-header"));
    let cookie = Some(secret("session=hunter2-cookie"));
    let auth = Auth::Basic { user: "ann".into(), password: secret("hunter2-basic") };
    let proxy = SecretUrl::from(format!("http://ann:hunter2-proxy@{NOBODY}"));
    let ways = [
        ("basic", Access { headers: [header].into(), auth: Some(auth), ..Access::default() }),
        (
            "bearer",
            Access { auth: Some(Auth::Bearer(secret("hunter2-bearer"))), ..Access::default() },
        ),
        ("cookie", Access { cookie, ..Access::default() }),
        ("proxied", Access { proxy: Some(proxy), ..Access::default() }),
    ];
    for (name, access) in ways {
        // Each its own channel, with the same news.
        let url = at(&format!("/feed?of={name}"));
        let new = NewSource { feed_urls: vec![url.clone()], access, ..NewSource::new(name, &url) };
        world.store.add_source(new).await.unwrap();
    }
}

/// What a server says to a request.
async fn answer(server: SocketAddr, path: &str, token: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(server).await.unwrap();
    let asked = format!(
        "GET {path} HTTP/1.1\r\nhost: {server}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    let status = said.split(' ').nth(1).unwrap_or_default().to_owned();
    // What nobody answered has no body.
    assert!(["200", "404", "410"].contains(&status.as_str()), "{path}: {said}");
    said
}

/// Every address that the API documents for reading, with names that exist in the places of parameters.
async fn addresses(server: SocketAddr, token: &str) -> Vec<String> {
    let document = std::fs::read_to_string("docs/openapi.json").unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let mut paths: Vec<String> =
        paths.filter(|(_, path)| path.get("get").is_some()).map(|(path, _)| path.clone()).collect();
    paths.retain(|path| path != "/api/v1/events/stream");
    let mut all = Vec::new();
    for path in paths {
        let Some((list, rest)) = path.split_once("/{") else {
            all.push(match path.as_str() {
                "/api/v1/explain" => format!("{path}?q=basic"),
                "/api/v1/stats/top" => format!("{path}?by=codes"),
                _ => path,
            });
            continue;
        };
        let said = answer(server, list, token).await;
        let items: Value = serde_json::from_str(said.split_once("\r\n\r\n").unwrap().1).unwrap();
        for item in items["items"].as_array().unwrap().iter().take(6) {
            let name = ["id", "uid", "name"].iter().find_map(|key| item[*key].as_str());
            let name = name.unwrap_or_else(|| panic!("{list} has no names: {item}"));
            let rest = rest.split_once('}').unwrap().1.replace("{revision}", "1");
            all.push(format!("{list}/{name}{rest}"));
        }
    }
    all
}

/// What commands say that look at everything.
fn told(world: &World, settings: &[String], url: Option<&str>) -> Vec<(String, String)> {
    let commands = [
        "config show",
        "config show --json",
        "doctor",
        "source list --json",
        "source show basic --json",
        "source show bearer",
        "source show proxied",
        "source errors proxied --json",
        "source status",
        "source access basic --help",
        "source export --format json",
        "source export --format opml",
        "sink list --json",
        "sink show hook",
        "sink test hook",
        "sink test nats",
        "sink test redis",
        "sink test es",
        "explain basic --json",
        "explain proxied",
        "events --json --limit 1000",
        "frontier list --json --limit 1000",
        "host list --json",
        "host log press.newsroom.test",
        "token list",
        "token audit --json",
        "source sync",
        "raw show http://press.newsroom.test/feed?of=basic --headers",
    ];
    let told = commands.into_iter().map(|line| {
        let mut command = binary();
        command.envs(url.map(|url| ("FEEDMILL_DATABASE__URL", url)));
        command.args(line.split(' ')).arg("-vv").arg("--data-dir").arg(&world.config.data_dir);
        command.args(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
        command.env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string());
        let told = command.current_dir(world.dir()).output().unwrap();
        let said =
            [told.stdout, told.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert!(said.iter().any(|said| !said.is_empty()), "{line} says nothing");
        (line.to_owned(), said.concat())
    });
    told.collect()
}

fn hold_nothing(told: &[(String, String)], token: &str) {
    for (by, said) in told {
        let tells =
            |line: &&str| SECRET.iter().chain([&token]).any(|secret| line.contains(*secret));
        let lines: Vec<&str> = said.lines().filter(tells).collect();
        assert!(lines.is_empty(), "{by} tells a secret: {lines:#?}");
    }
}

/// A token of the API, made by the command line.
fn token(world: &World, url: Option<&str>) -> String {
    let mut command = binary();
    command.envs(url.map(|url| ("FEEDMILL_DATABASE__URL", url)));
    command.args(["token", "create", "all", "--scope", "admin", "--json", "--data-dir"]);
    let made = command.arg(&world.config.data_dir).current_dir(world.dir()).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    made["token"].as_str().expect("a token").to_owned()
}

/// The files that the default sink writes.
fn written(world: &World) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for dir in ["entries", "articles", "events"] {
        let files = std::fs::read_dir(world.config.data_dir.join("out").join(dir));
        for file in files.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap();
            found.push((file.path().display().to_string(), text));
        }
    }
    found
}

async fn no_secret_is_told(world: World, url: Option<&str>) {
    follow(&world).await;
    let (collector, address) = Collector::start().await;
    let settings = settings(address);
    let token = token(&world, url);
    let more: Vec<&str> = settings.iter().map(String::as_str).collect();
    let command = command(&world, &world.config.data_dir, url, &more);
    let mut engine = Engine::start(command, world.dir().join("said"));
    for words in ["2 new items", "a channel failed", "a sink is held up", "cannot be followed"] {
        engine.says(words).await;
    }
    until("spans", || async { collector.text().contains("deliver") }).await;
    let place = engine.said();
    let place = place.split("are at http://").nth(1).and_then(|rest| rest.split('/').next());
    let server: SocketAddr = place.unwrap().parse().unwrap();
    let mut all = Vec::new();
    for path in addresses(server, &token).await {
        let said = answer(server, &path, &token).await;
        all.push((path, said));
    }
    assert!(all.len() > 60, "{} answers", all.len());
    all.extend(told(&world, &settings, url));
    assert!(terminate(&mut engine.child));
    all.push(("the log".to_owned(), engine.said()));
    all.push(("spans".to_owned(), collector.text()));
    all.extend(written(&world));
    hold_nothing(&all, &token);
    collector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_told_anywhere() {
    no_secret_is_told(press().await, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_told_anywhere_on_a_shared_store() {
    let Some(database) = database().await else { return };
    let (user, place) = database.url.split_once('@').unwrap();
    let url = format!("{user}:hunter2-database@{place}");
    no_secret_is_told(super::press_on(&url).await, Some(&url)).await;
}

/// Who cannot be reached is told of without what would have let us in.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_told_of_who_is_away() {
    let world = press().await;
    let url = "postgres://ann:hunter2-database@127.0.0.1:9/news?password=hunter2-query";
    let command_line = |arg: &[&str]| {
        let mut command = binary();
        command.args(arg).arg("-vv").env("FEEDMILL_DATABASE__URL", url).current_dir(world.dir());
        let told = command.output().unwrap();
        let said =
            [told.stdout, told.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        (arg.join(" "), said.concat())
    };
    let lines: [&[&str]; 5] =
        [&["run"], &["doctor"], &["source", "list"], &["config", "show"], &["move", "--to", url]];
    let mut all: Vec<_> = lines.map(command_line).to_vec();
    assert!(all.iter().any(|(_, said)| said.contains("127.0.0.1")), "{all:?}");

    follow(&world).await;
    let proxy = format!("fetch.proxy=http://ann:hunter2-house@{NOBODY}");
    let command = command(&world, &world.config.data_dir, None, &[&proxy, "log.level=trace"]);
    let mut engine = Engine::start(command, world.dir().join("said"));
    engine.says("a channel failed").await;
    assert!(terminate(&mut engine.child));
    all.push(("an engine without its proxy".to_owned(), engine.said()));
    hold_nothing(&all, "hunter2");
}
