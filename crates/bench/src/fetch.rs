//! Asking and keeping: our client and archive beside a bare loop that asks, decodes and compresses.
//!
//! Both ask for the same pages of a newsroom in a process of its own, as many at a time, in turns, and
//! are charged the CPU time of this process. Ours does what the engine does with an answer before a
//! handler reads it: guard, record, archive, digest, sync before anybody may rely on it, inflate.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use feedmill::app;
use feedmill::archive::{Archive, Settings};
use feedmill::clock::Clock;
use feedmill::config::Config;
use feedmill::fetch::{Client, Desk};
use feedmill::model::{Kind, Validators};
use feedmill_formats::decode;
use feedmill_formats::url::Url;
use feedmill_newsroom::{Newsroom, Setup};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::report::{Better, Report, cpu_time};

/// The most that a page may inflate to.
const MAX_DECODED: usize = 50 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pages that each side asks for in a round
    #[arg(long, default_value_t = 2000)]
    pages: usize,
    /// Rounds of each side
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// What the newsroom's process says on its first line.
#[derive(Serialize, Deserialize)]
struct Place {
    addr: SocketAddr,
    pages: Vec<Url>,
}

/// Serves a newsroom until standard input ends: with the process that started it.
pub(crate) async fn serve() -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a process of its own is given no clock")]
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let newsroom = Newsroom::start(Setup {
        publishers: 40,
        history: 50,
        deep_history: true,
        publish_until: Some(now),
        keep_log: false,
        ..Setup::new(Arc::new(move || now))
    })
    .await?;
    let pages = newsroom.published(now).into_iter().map(|story| Url::parse(&story.url));
    let place = Place { addr: newsroom.addr(), pages: pages.collect::<Result<_, _>>()? };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&place)?)?;
    let ended = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(ended).await??;
    newsroom.stop().await;
    Ok(())
}

/// The newsroom's process; it ends with this value.
struct Neighbour(Child);

impl Drop for Neighbour {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start() -> anyhow::Result<(Neighbour, Place)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("newsroom").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut neighbour = Neighbour(command.spawn()?);
    let said = neighbour.0.stdout.take().context("the newsroom says nothing")?;
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    Ok((neighbour, serde_json::from_str(&line)?))
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let (_neighbour, place) = start()?;
    let dir = tempfile::tempdir()?;
    let config = config(&place, dir.path())?;
    let (ours, bare) = (Ours::new(&config)?, Bare::new(&place, &config)?);
    let pages: Vec<Url> = in_turn(&place.pages).into_iter().cycle().take(args.pages).collect();
    // Connections and caches are warm before anything counts.
    ours.round(&pages, config.fetch.workers).await?;
    bare.round(&pages, config.fetch.workers).await?;
    let (mut cpu_ours, mut cpu_bare) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..args.rounds {
        // Else the pages of the last round would be revisits, which cost nothing.
        ours.archive.close()?;
        let began = cpu_time();
        ours.round(&pages, config.fetch.workers).await?;
        let between = cpu_time();
        bare.round(&pages, config.fetch.workers).await?;
        cpu_ours += between - began;
        cpu_bare += cpu_time() - between;
    }
    ours.archive.close()?;
    let asked = (args.rounds * pages.len()) as f64;
    let (ours, bare) = (asked / cpu_ours.as_secs_f64(), asked / cpu_bare.as_secs_f64());
    let mut report = Report::new("fetch");
    report.figure("pages_per_cpu_second", ours);
    report.figure("bare_pages_per_cpu_second", bare);
    report.bar("ratio_to_bare", ours / bare, 0.6, Better::Higher);
    Ok(report)
}

/// One page of each host after the other, as politeness has it.
fn in_turn(pages: &[Url]) -> Vec<Url> {
    let mut hosts: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut placed: Vec<(usize, &Url)> = pages
        .iter()
        .map(|page| {
            let turn = hosts.entry(page.host_str()).or_default();
            *turn += 1;
            (*turn, page)
        })
        .collect();
    placed.sort_by_key(|(turn, _)| *turn);
    placed.into_iter().map(|(_, page)| page.clone()).collect()
}

/// The defaults, led to the newsroom.
fn config(place: &Place, dir: &Path) -> anyhow::Result<Config> {
    let mut config = Config { data_dir: dir.to_owned(), ..Config::default() };
    config.fetch.contact = "https://example.com/bot".to_owned();
    config.fetch.resolve = vec![format!("*.test={}", place.addr).parse()?];
    Ok(config)
}

/// Our way: every page archived and synced before the next one is asked for.
struct Ours {
    client: Client,
    archive: Arc<Archive>,
    desk: Desk,
    syncs: mpsc::Sender<oneshot::Sender<()>>,
}

impl Ours {
    fn new(config: &Config) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let (client, _) = app::client(config, &clock)?;
        let settings = Settings {
            dir: config.archive_dir(),
            segment_size: config.archive.segment_size.as_bytes(),
            segment_age: config.archive.segment_age.duration(),
            gzip_level: config.archive.gzip_level,
            agent: config.user_agent(),
            max_body: config.fetch.max_body.as_bytes(),
        };
        let archive = Arc::new(Archive::open(settings, clock)?);
        let (syncs, waiting) = mpsc::channel(256);
        TaskTracker::new().spawn(sync_all(Arc::clone(&archive), waiting));
        Ok(Self { client, archive, desk: Desk::default(), syncs })
    }

    async fn round(&self, pages: &[Url], workers: usize) -> anyhow::Result<()> {
        let pages = futures_util::stream::iter(pages).map(Ok::<_, anyhow::Error>);
        pages.try_for_each_concurrent(workers, |page| self.page(page)).await
    }

    async fn page(&self, page: &Url) -> anyhow::Result<()> {
        let nothing = Validators::default();
        let limit = Duration::from_secs(60);
        let exchange = self.client.get(page, Kind::Article, &nothing, None, limit).await?;
        anyhow::ensure!(exchange.status == 200, "{page} answered {}", exchange.status);
        let archive = Arc::clone(&self.archive);
        let append = move || {
            archive.append(&exchange)?;
            std::hint::black_box(Sha256::digest(&exchange.body));
            anyhow::Ok(exchange)
        };
        let exchange = self.desk.work("append", append).await??;
        let coding = exchange.headers.get("content-encoding");
        std::hint::black_box(decode::capped(&exchange.body, coding, MAX_DECODED)?);
        let (done, synced) = oneshot::channel();
        self.syncs.send(done).await?;
        Ok(synced.await?)
    }
}

/// Syncs once for all that wait, as the committer does.
async fn sync_all(archive: Arc<Archive>, mut waiting: mpsc::Receiver<oneshot::Sender<()>>) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, 256).await > 0 {
        let archive = Arc::clone(&archive);
        // Who waits hears of a failure by the end of its channel.
        let Ok(Ok(())) = tokio::task::spawn_blocking(move || archive.sync()).await else { return };
        for done in batch.drain(..) {
            done.send(()).ok();
        }
    }
}

/// The least that one can do: ask, decode, compress into one file.
struct Bare {
    http: reqwest::Client,
    file: Mutex<GzEncoder<std::fs::File>>,
}

impl Bare {
    fn new(place: &Place, config: &Config) -> anyhow::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "this is the peer, not ours")]
        let mut builder = reqwest::Client::builder().no_proxy();
        for host in place.pages.iter().filter_map(Url::host_str) {
            builder = builder.resolve(host, place.addr);
        }
        let file = std::fs::File::create(config.data_dir.join("bare.gz"))?;
        let level = Compression::new(config.archive.gzip_level);
        Ok(Self { http: builder.build()?, file: Mutex::new(GzEncoder::new(file, level)) })
    }

    async fn round(&self, pages: &[Url], workers: usize) -> anyhow::Result<()> {
        let pages = futures_util::stream::iter(pages).map(Ok::<_, anyhow::Error>);
        pages.try_for_each_concurrent(workers, |page| self.page(page)).await
    }

    async fn page(&self, page: &Url) -> anyhow::Result<()> {
        let request = self.http.get(page.clone()).header("accept-encoding", "gzip");
        let answer = request.send().await?.error_for_status()?;
        let coding = answer.headers().get("content-encoding").cloned();
        let body = answer.bytes().await?;
        let coding = coding.as_ref().and_then(|coding| coding.to_str().ok());
        let decoded = decode::capped(&body, coding, MAX_DECODED)?;
        self.file.lock().await.write_all(&decoded)?;
        Ok(())
    }
}
