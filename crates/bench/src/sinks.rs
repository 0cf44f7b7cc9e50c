//! Sinks: events through the whole pump, from the log to the target, charged to the CPU time of this
//! process. Targets are processes of their own: files, a Redis server, and a stand-in for a cluster that
//! takes every bulk request.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use feedmill::app::deliver;
use feedmill::clock::Clock;
use feedmill::config::{Config, EsLayout, Sink as Configured, Target};
use feedmill::db::Db;
use feedmill::frontier::TaskFilter;
use feedmill::model::{
    Article, ArticleFact, ArticleId, Entry, EntryFact, EntryId, Kind, NewSource, NewTask, Origin,
    Person, Task,
};
use feedmill::progress::Progress;
use feedmill::sinks::Pump;
use feedmill::store::{Reread, SqliteStore, Store};
use feedmill_formats::sketch::Sketch;
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use crate::report::{Better, Report, cpu_time, rss_mb, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Entries and articles, of each so many
    #[arg(long, default_value_t = 100_000)]
    events: usize,
    /// Words of an article
    #[arg(long, default_value_t = 600)]
    words: usize,
}

/// What a kind of event costs at a target.
struct Cost {
    per_second: f64,
    per_cpu_second: f64,
    cpu_us: f64,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let dir = tempfile::tempdir()?;
    let config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    let path = config.database_path();
    let rules = crate::frontier::rules(Duration::ZERO);
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::new(Db::open(&path)?, Clock::system(), rules));
    say(&format!("making {} entries and as many articles", args.events))?;
    first_of_each(&*store, args.words).await?;
    let entries = copy(&path, Kind::Feed, args.events)?;
    let mut report = Report::new("sinks");
    report.figure("events", args.events as f64);

    say("NDJSON")?;
    let files = |name: &str| Target::ndjson(dir.path().join(name));
    let cost = deliver(&store, &config, "entries", files("entries"), args.events).await?;
    report.bar("ndjson_entries_per_cpu_s", cost.per_cpu_second, 50_000.0, Better::Higher);
    report.figure("ndjson_entries_per_s", cost.per_second);
    report.figure("ndjson_entry_cpu_us", cost.cpu_us);
    let articles = copy(&path, Kind::Article, args.events)?;
    // From here on only what came after the entries counts.
    anyhow::ensure!(articles > entries, "the articles come later");
    for (name, target) in [("ndjson", Some(files("articles"))), ("redis", None), ("bulk", None)] {
        let neighbour = Neighbour::start(name)?;
        let target = match (target, &neighbour) {
            (Some(target), _) => target,
            (None, Some(neighbour)) => neighbour.target(name)?,
            (None, None) => {
                say(&format!("{name}: its server is not installed, so it is left out"))?;
                continue;
            }
        };
        say(name)?;
        store.open_sink(name, feedmill::store::outbox::Start::After(entries)).await?;
        let cost = deliver(&store, &config, name, target, args.events).await?;
        for (figure, value) in figures(name, &cost) {
            report.figure(figure, value);
        }
    }
    report.figure("rss_mb", rss_mb()?);
    store.close().await;
    Ok(report)
}

fn figures(name: &str, cost: &Cost) -> [(&'static str, f64); 3] {
    let names = match name {
        "redis" => ["redis_articles_per_cpu_s", "redis_articles_per_s", "redis_article_cpu_us"],
        "bulk" => ["bulk_articles_per_cpu_s", "bulk_articles_per_s", "bulk_article_cpu_us"],
        _ => ["ndjson_articles_per_cpu_s", "ndjson_articles_per_s", "ndjson_article_cpu_us"],
    };
    let [per_cpu, per_s, us] = names;
    [(per_cpu, cost.per_cpu_second), (per_s, cost.per_second), (us, cost.cpu_us)]
}

/// Delivers everything that is waiting; what it cost.
async fn deliver(
    store: &Arc<dyn Store>,
    config: &Config,
    name: &str,
    target: Target,
    events: usize,
) -> anyhow::Result<Cost> {
    let mut config = config.clone();
    config.sinks = [(name.to_owned(), Configured::new(target))].into();
    let made = deliver::sink(name, &config, &Clock::system(), store)?;
    let (sink, terms) = made.context("no sink")?;
    let stop = CancellationToken::new();
    stop.cancel();
    let pump = Pump {
        name: name.to_owned(),
        who: "bench".to_owned(),
        hold: Duration::from_hours(1),
        renew: Duration::from_mins(1),
        sink,
        terms,
        store: Arc::clone(store),
        progress: Arc::new(Progress::default()),
        stop,
    };
    let (cpu, began) = (cpu_time(), Instant::now());
    pump.run().await;
    let (cpu, took) = (cpu_time() - cpu, began.elapsed());
    let row = store.sinks().await?.into_iter().find(|row| row.name == name).context("no row")?;
    let last = store.log_ends(0).await?.last;
    anyhow::ensure!(row.cursor.seq == last && row.dead_letters == 0, "not delivered: {row:?}");
    let events = events as f64;
    Ok(Cost {
        per_second: events / took.as_secs_f64(),
        per_cpu_second: events / cpu.as_secs_f64(),
        cpu_us: cpu.as_secs_f64() * 1e6 / events,
    })
}

/// One entry and one article, of a source with a feed.
async fn first_of_each(store: &dyn Store, words: usize) -> anyhow::Result<()> {
    let mut new = NewSource::new("press", "https://press.example/".to_owned());
    new.feed_urls = vec!["https://press.example/feed".to_owned()];
    new.category = Some("news".to_owned());
    let source = store.add_source(new).await?;
    let page = NewTask {
        url: "https://press.example/story".to_owned(),
        kind: Kind::Article,
        origin: Origin::Feed,
        source: Some(source.id),
        base_priority: 5,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    };
    store.submit(vec![page]).await?;
    let tasks = store.list(TaskFilter { limit: 10, ..TaskFilter::default() }).await?;
    let of = |kind| tasks.iter().find(|task: &&Task| task.kind == kind).context("no task");
    let (feed, page) = (of(Kind::Feed)?, of(Kind::Article)?);
    let text = "Lorem ipsum dolor sit amet, consectetur. ".repeat(words / 6);
    let now = feedmill::model::Ts::from_ms(1_700_000_000_000);
    let entry = entry(feed, &text);
    let entries = vec![(now, entry)];
    store.reread(Reread { task: feed.clone(), entries, article: None }).await?;
    let article = Some((now, article(page, source.id, text)));
    store.reread(Reread { task: page.clone(), entries: vec![], article }).await?;
    Ok(())
}

pub(crate) fn entry(feed: &Task, text: &str) -> EntryFact {
    let person = Person { name: Some("Ann Author".to_owned()), ..Person::default() };
    EntryFact {
        id: EntryId::of(feed.id, "1"),
        entry: Entry {
            uid: "guid:1".to_owned(),
            canonical_link: Some("https://press.example/story".to_owned()),
            given_link: None,
            title: Some("A title of the usual length, with a verb".to_owned()),
            summary: Some(text.chars().take(300).collect()),
            content: None,
            authors: vec![person],
            categories: vec!["Politics".to_owned(), "World".to_owned()],
            enclosures: vec![],
            published: Some(feedmill::model::Ts::from_ms(1_700_000_000_000)),
            published_raw: None,
            updated: None,
            updated_raw: None,
            cut: vec![],
        },
        content_hash: [1; 32],
        link_hash: None,
        fetch: None,
        slice: None,
    }
}

pub(crate) fn article(page: &Task, source: feedmill::model::SourceId, text: String) -> ArticleFact {
    ArticleFact {
        id: ArticleId::of("https://press.example/story"),
        task: page.id,
        source: Some(source),
        article: Article {
            url: "https://press.example/story".to_owned(),
            canonical_url: None,
            title: Some("A title of the usual length, with a verb".to_owned()),
            authors: vec!["Ann Author".to_owned()],
            published: None,
            updated: None,
            language: Some("en".to_owned()),
            site_name: Some("Press".to_owned()),
            section: None,
            tags: vec![],
            lead_image: None,
            abstract_: Some(text.chars().take(200).collect()),
            word_count: 600,
            method: "made up".to_owned(),
            confidence: 1.0,
            rights: Default::default(),
            cut: vec![],
        },
        content_hash: [2; 32],
        simhash: 0,
        sketch: Sketch::of(&text),
        text,
        fetch: None,
        prints: vec![],
    }
}

/// Multiplies what is there past the store; the last place in the log.
fn copy(path: &Path, kind: Kind, count: usize) -> anyhow::Result<i64> {
    let mut conn = Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(30))?;
    let tx = conn.transaction()?;
    let n = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    );
    let now = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    tx.execute_batch(&match kind {
        Kind::Feed => format!(
            "{n} INSERT INTO entry(row, id, feed_id, content_hash, first_seen, last_seen, seen_count,
               published, body)
             SELECT 9 + i, unhex(printf('%032x%032x', i, 2)), feed_id, content_hash, {now}, {now}, 1,
               published, json_set(body, '$.uid', 'guid:' || i)
             FROM n, (SELECT * FROM entry WHERE row = 1);
             {n} INSERT INTO event(at, kind, subject, source_id, payload)
             SELECT {now}, 0, printf('%032x%032x', i, 2), 1, (SELECT payload FROM event WHERE kind = 0)
             FROM n"
        ),
        _ => format!(
            "{n} INSERT INTO article(row, id, task_id, source_id, content_hash, simhash, site,
               revision, first_seen, last_seen, body)
             SELECT 9 + i, unhex(printf('%032x%032x', i, 1)), 5000000 + i, source_id, content_hash, simhash,
               site, 1, {now}, {now}, json_set(body, '$.url', 'https://press.example/' || i)
             FROM n, (SELECT * FROM article WHERE row = 1);
             {n} INSERT INTO article_text(row, zstd)
             SELECT 9 + i, zstd FROM n, (SELECT zstd FROM article_text WHERE row = 1);
             {n} INSERT INTO event(at, kind, subject, source_id, payload)
             SELECT {now}, 10, printf('%032x%032x', i, 1), 1,
               (SELECT payload FROM event WHERE kind = 10) FROM n"
        ),
    })?;
    let last = tx.query_row("SELECT max(seq) FROM event", [], |row| row.get(0))?;
    tx.commit()?;
    Ok(last)
}

/// The process of a target; it ends with this value.
struct Neighbour {
    child: Child,
    port: u16,
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Neighbour {
    /// Nothing when the target is files, or its server is not installed.
    fn start(name: &str) -> anyhow::Result<Option<Self>> {
        match name {
            "redis" => {
                let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
                let mut command = Command::new("redis-server");
                command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
                let Ok(child) = command.stdout(Stdio::null()).spawn() else { return Ok(None) };
                let began = Instant::now();
                while TcpStream::connect(("127.0.0.1", port)).is_err() {
                    anyhow::ensure!(began.elapsed().as_secs() < 10, "redis-server does not start");
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(Some(Self { child, port }))
            }
            "bulk" => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("bulk").stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.spawn()?;
                let said = child.stdout.take().context("the stand-in says nothing")?;
                let mut line = String::new();
                BufReader::new(said).read_line(&mut line)?;
                Ok(Some(Self { child, port: line.trim().parse()? }))
            }
            _ => Ok(None),
        }
    }

    fn target(&self, name: &str) -> anyhow::Result<Target> {
        let text = match name {
            "redis" => format!("kind = \"redis\"\nurl = \"redis://127.0.0.1:{}\"", self.port),
            _ => {
                format!("kind = \"elasticsearch\"\nurl = \"http://127.0.0.1:{}\"", self.port)
            }
        };
        let mut sinks: HashMap<String, Configured> = toml::from_str(&format!("[sink]\n{text}"))?;
        let mut target = sinks.remove("sink").context("no sink")?.target;
        if let Target::Elasticsearch { layout, .. } = &mut target {
            *layout = EsLayout::Articles;
        }
        Ok(target)
    }
}

/// Takes every bulk request until standard input ends: with the process that started it.
pub(crate) fn serve_bulk() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// Answers the requests of a connection.
fn answer(mut stream: TcpStream) -> anyhow::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let (mut length, mut packed, mut line) = (0, false, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let head = line.trim().to_ascii_lowercase();
            if head.is_empty() {
                break;
            }
            if let Some(value) = head.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            packed |= head == "content-encoding: gzip";
        }
        let mut body = vec![0; length];
        std::io::Read::read_exact(&mut reader, &mut body)?;
        let coding = packed.then_some("gzip");
        let body = feedmill_formats::decode::capped(&body, coding, 100 << 20)?;
        // Two lines for each document.
        let items = body.iter().filter(|byte| **byte == b'\n').count() / 2;
        let items = vec![r#"{"index":{"status":201}}"#; items].join(",");
        let text = format!(r#"{{"errors":false,"items":[{items}]}}"#);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", text.len());
        stream.write_all(head.as_bytes())?;
        stream.write_all(text.as_bytes())?;
    }
}
