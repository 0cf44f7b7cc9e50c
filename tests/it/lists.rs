//! Lists that others keep: a source-manager on a real socket, and sets in a real Redis.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use feedmill::app::lists::{self, ListError, Synced};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Kind, Source};
use serde_json::{Value, json};

use crate::support::{LIMIT, World};

/// A source-manager: what it lists, what it was asked, and whether it is out of order.
#[derive(Default)]
struct Manager {
    sources: Vec<Value>,
    asked: Vec<String>,
    broken: bool,
}

/// Pages are smaller here than anybody asks for.
const PER_PAGE: usize = 2;

impl Manager {
    fn start() -> (String, Arc<Mutex<Self>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let manager = Arc::new(Mutex::new(Self::default()));
        let kept = Arc::clone(&manager);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(&stream).lines();
                let head: Vec<String> = lines
                    .by_ref()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let reply = kept.lock().unwrap().answer(&head.join("\n"));
                drop(stream.write_all(reply.as_bytes()));
            }
        });
        (address, manager)
    }

    fn answer(&mut self, head: &str) -> String {
        self.asked.push(head.to_owned());
        let page: usize = head
            .split_once("page=")
            .and_then(|(_, rest)| rest.split('&').next()?.parse().ok())
            .unwrap_or(1);
        let known = head.starts_with("GET /api/v1/sources?")
            && head.contains("authorization: Bearer t0ken");
        let (status, body) = match (self.broken, known) {
            (true, _) => ("500 Oops", "no".to_owned()),
            (_, false) => ("401 Unauthorized", "no".to_owned()),
            (false, true) => {
                let all = self.sources.iter().skip((page - 1) * PER_PAGE).take(PER_PAGE);
                let all: Vec<_> = all.collect();
                let total = self.sources.len();
                let body = json!({"sources": all, "total": total, "page": page, "per_page": PER_PAGE,
                    "total_pages": total.div_ceil(PER_PAGE)});
                ("200 OK", body.to_string())
            }
        };
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    }
}

fn item(id: &str, more: &Value) -> Value {
    let mut item = json!({
        "id": id, "name": format!("Source {id}"), "url": format!("https://{id}.example"),
        "rate_limit": "2s", "max_depth": 2, "time": ["UTC"], "enabled": false,
        "disable_reason": "not yet", "feed_url": format!("https://{id}.example/feed"),
        "sitemap_url": null, "ingestion_mode": "feed", "feed_poll_interval_minutes": 15,
        "selectors": {"article": {"title": "h1", "body": ".text"}, "list": {}, "page": {}},
    });
    item.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    item
}

async fn sources(world: &World) -> Vec<Source> {
    world.store.sources().await.unwrap()
}

async fn follow(world: &World) -> Result<Synced, ListError> {
    lists::follow(&world.config, &*world.store, &world.clock).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_manager_is_followed_and_others_are_left_alone() {
    let (url, manager) = Manager::start();
    let mut world = World::new(1, 1).await;
    assert!(matches!(follow(&world).await, Err(ListError::None)));
    world.config.sources.manager.url = url.clone();
    world.config.sources.manager.token = "t0ken".to_owned().into();
    world.follow().await;
    let mine = sources(&world).await;
    manager.lock().unwrap().sources =
        ["a", "b", "c", "d", "e"].map(|id| item(id, &json!({}))).into();

    // The engine does it by itself.
    world.run_until(|| async { sources(&world).await.len() == mine.len() + 5 }).await;
    // It may have done so more than once: five minutes are short on this clock.
    assert!(manager.lock().unwrap().asked.len() >= 3, "page by page");
    let (added, _) = world.store.source("Source c").await.unwrap();
    assert_eq!(added.disable_reason.as_deref(), Some("by its source-manager: not yet"));
    assert_eq!(added.spec.feed_urls, ["https://c.example/feed"]);
    assert_eq!(added.spec.managed.as_ref().unwrap().id, "c");
    assert_eq!(follow(&world).await.unwrap(), Synced::default(), "nothing is new");

    {
        let mut manager = manager.lock().unwrap();
        manager.sources.remove(0);
        manager.sources[0]["rate_limit"] = json!("7s");
        manager.sources[1]["enabled"] = json!(true);
    }
    let synced = follow(&world).await.unwrap();
    assert_eq!((synced.added, synced.changed, synced.enabled, synced.disabled), (0, 1, 1, 0));
    let (b, _) = world.store.source("Source b").await.unwrap();
    assert_eq!(b.spec.rate_limit, Some(Duration::from_secs(7)));
    manager.lock().unwrap().sources.remove(1);
    assert_eq!(follow(&world).await.unwrap().disabled, 1);
    let (gone, _) = world.store.source("Source c").await.unwrap();
    assert_eq!(
        gone.disable_reason.as_deref(),
        Some("by its source-manager: it is no longer listed")
    );

    // What fails changes nothing, and so does a list that suddenly is empty.
    let before = sources(&world).await;
    manager.lock().unwrap().broken = true;
    assert_eq!(follow(&world).await.unwrap_err().code(), "manager_answer");
    manager.lock().unwrap().broken = false;
    manager.lock().unwrap().sources.clear();
    assert_eq!(follow(&world).await.unwrap_err().code(), "manager_answer");
    world.config.sources.manager.token = "wrong".to_owned().into();
    assert_eq!(follow(&world).await.unwrap_err().code(), "manager_answer");
    world.config.sources.manager.url = "http://127.0.0.1:1".into();
    assert_eq!(follow(&world).await.unwrap_err().code(), "manager_away");
    assert_eq!(sources(&world).await, before);
    for source in mine {
        assert_eq!(world.store.source(&source.uuid).await.unwrap().0.spec, source.spec);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_manager_never_says_how_sources_are_asked() {
    let (url, manager) = Manager::start();
    let mut world = World::new(1, 1).await;
    world.config.sources.manager.url = url;
    world.config.sources.manager.token = "t0ken".to_owned().into();
    let evil = json!({"access": {"proxy": "http://169.254.169.254", "cookie": "id=1"}});
    manager.lock().unwrap().sources = vec![item("a", &evil), item("b", &json!({}))];
    let synced = follow(&world).await.unwrap();
    assert_eq!(synced.added, 2, "{synced:?}");
    assert!(synced.left[0].starts_with("Source a: `access` is ignored"), "{:?}", synced.left);
    let (a, _) = world.store.source("Source a").await.unwrap();
    assert!(a.spec.access.is_empty(), "{:?}", a.spec.access);
    let evil = json!({"feed_url": "http://169.254.169.254/latest"});
    manager.lock().unwrap().sources.push(item("c", &evil));
    let synced = follow(&world).await.unwrap();
    assert_eq!(synced.added, 0, "{synced:?}");
    assert!(synced.left.iter().any(|why| why.contains("not a public address")), "{synced:?}");

    // Credentials that were given here do not follow a source-manager elsewhere.
    let cookie = Some(feedmill::model::Secret::from("id=hunter2".to_owned()));
    let access = feedmill::model::Access { cookie, ..Default::default() };
    let change = feedmill::model::SourceChange::Access(access.clone());
    world.store.respecify("Source b", change).await.unwrap();
    manager.lock().unwrap().sources[1]["url"] = json!("https://evil.example");
    let synced = follow(&world).await.unwrap();
    assert_eq!(synced.changed, 0, "{synced:?}");
    assert!(synced.left.iter().any(|why| why.contains("credentials")), "{synced:?}");
    let (b, _) = world.store.source("Source b").await.unwrap();
    assert_eq!((b.spec.url.as_str(), &b.spec.access), ("https://b.example", &access));
}

/// A server of its own; it ends with the test.
pub(crate) struct Redis {
    server: Child,
    pub(crate) port: u16,
    _dir: tempfile::TempDir,
}

const PASSWORD: &str = "hunt@er";

impl Redis {
    /// Nothing when `FEEDMILL_TEST_REDIS` is `off`.
    pub(crate) fn start() -> Option<Self> {
        if std::env::var("FEEDMILL_TEST_REDIS").is_ok_and(|said| said == "off") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            .args(["--appendonly", "no", "--requirepass", PASSWORD])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect(
                "this test needs redis-server: run scripts/test, which sees to it, or leave it out \
                 with FEEDMILL_TEST_REDIS=off",
            );
        let redis = Self { server, port, _dir: dir };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < LIMIT, "redis-server does not start");
            thread::sleep(Duration::from_millis(10));
        }
        Some(redis)
    }

    /// Its address, with the password.
    pub(crate) fn url(&self) -> String {
        format!("redis://:hunt%40er@127.0.0.1:{}/0", self.port)
    }

    fn tell(&self, commands: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "AUTH {PASSWORD}\r\nSELECT 2\r\n{commands}QUIT\r\n").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        assert!(!told.contains("-ERR") && !told.contains("-WRONG"), "{told}");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_in_redis_are_pages_under_their_category() {
    let Some(redis) = Redis::start() else { return };
    let mut world = World::new(1, 1).await;
    let port = redis.port;
    let set = |password: &str| {
        format!("redis://:{password}@127.0.0.1:{port}/2 rss:category_links:*").parse().unwrap()
    };
    world.config.sources.redis_sets = vec![set("hunt%40er")];
    let mut commands = String::new();
    for n in 0..2_500 {
        commands
            .push_str(&format!("SADD rss:category_links:jobs_report https://a.example/{n}\r\n"));
    }
    commands.push_str(
        "SADD rss:category_links:inflation https://a.example/1 https://b.example/1 nonsense\r\n",
    );
    commands.push_str("SADD rss:category_links:inflation \"\\xff\\xfe\"\r\n");
    commands.push_str("SET rss:category_links:no_set x\r\nSADD rss:other https://c.example/1\r\n");
    redis.tell(&commands);
    let synced = follow(&world).await.unwrap();
    assert_eq!((synced.added, synced.submitted), (2, 2_501));
    let told = &synced.left[0];
    let words = "rss:category_links:inflation: 2 members, the first of them ";
    assert!(synced.left.len() == 1 && told.starts_with(words), "{:?}", synced.left);
    let (jobs, channels) = world.store.source("jobs_report").await.unwrap();
    assert_eq!((jobs.spec.category.as_deref(), channels.len()), (Some("jobs_report"), 0));
    let of = |name: &str| TaskFilter {
        source: Some(name.to_owned()),
        kind: Some(Kind::Article),
        ..TaskFilter::default()
    };
    let counted = world.store.count(of("jobs_report")).await.unwrap()
        + world.store.count(of("inflation")).await.unwrap();
    assert!(counted >= 2_501, "{counted}");
    let again = follow(&world).await.unwrap();
    assert_eq!(again.left.len(), 1, "it is told of every look");
    assert_eq!(Synced { left: vec![], ..again }, Synced::default(), "nothing is new");
    redis.tell("SADD rss:category_links:inflation https://d.example/1\r\n");
    assert_eq!(follow(&world).await.unwrap().submitted, 1);

    world.store.set_enabled("inflation", Some("enough".into())).await.unwrap();
    redis.tell("SADD rss:category_links:inflation https://e.example/1\r\n");
    assert_eq!(follow(&world).await.unwrap().submitted, 0, "nobody wants them");
    world.config.sources.redis_sets = vec![set("wrong")];
    let error = follow(&world).await.unwrap_err();
    assert!(error.code() == "redis" && !error.to_string().contains("hunt"), "{error}");
}
