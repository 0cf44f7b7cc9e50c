//! Near-duplicates: articles of a made-up press brought into a store that knows many others already.
//!
//! The store is the product's own, embedded. Every article takes the whole way: its sketch, the
//! look-up, the decision, and keeping it with its text, its keys and its event. Beside it stands what
//! the 64-bit simhash alone can tell, at the distance that suits this press best.

mod known;
mod syndication;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use feedmill::clock::Clock;
use feedmill::db::Db;
use feedmill::frontier::{Frontier, TaskFilter};
use feedmill::model::{Article, ArticleFact, ArticleId, Kind, NewTask, Origin, Task, Ts};
use feedmill::store::{ArticleFilter, Reread, SqliteStore, Store};
use feedmill_formats::simhash::{distance, simhash};
use feedmill_formats::sketch::Sketch;
use futures_util::future::try_join_all;
use sha2::{Digest, Sha256};

use crate::report::{Better, Report, cpu_time, rss_mb, say};
use syndication::Copy;

/// Articles that are brought at the same time, as workers do: their transactions are one.
const BATCH: usize = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Stories of the press; there are about three and a half articles for each
    #[arg(long, default_value_t = 3_000)]
    stories: usize,
    /// Articles that the store knows before
    #[arg(long, default_value_t = 1_000_000)]
    known: usize,
    /// What the press follows from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the store is made, which stays; a directory that goes unless given
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let scratch = tempfile::tempdir()?;
    let dir = args.dir.clone().unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&dir)?;
    let path = dir.join("duplicates.db");
    // Opened once for its tables.
    let rules = || crate::frontier::rules(Duration::ZERO);
    SqliteStore::new(Db::open(&path)?, Clock::system(), rules()).close().await;
    let mut report = Report::new("duplicates");
    say(&format!("making {} articles that are known", args.known))?;
    let index = known::fill(&path, args.known, args.seed)?;
    report.figure("known", args.known as f64);
    if args.known > 0 {
        report.figure("index_bytes_per_document", index as f64 / args.known as f64);
    }

    say("writing the papers")?;
    let press = syndication::press(args.stories, args.seed);
    let store = SqliteStore::new(Db::open(&path)?, Clock::system(), rules());
    let task = some_task(&store).await?;
    say(&format!("bringing {} articles", press.len()))?;
    let before = cpu_time();
    for (batch, copies) in press.chunks(BATCH).enumerate() {
        let bring = |(at, copy)| bring(&store, &task, batch * BATCH + at, copy);
        try_join_all(copies.iter().enumerate().map(bring)).await?;
    }
    let spent = cpu_time() - before;
    report.figure("documents", press.len() as f64);
    let sketches = press.iter().map(|copy| Sketch::of(&copy.text).to_bytes().len());
    report.figure("sketch_bytes_per_document", sketches.sum::<usize>() as f64 / press.len() as f64);
    let rate = press.len() as f64 / spent.as_secs_f64();
    report.bar("documents_per_cpu_s", rate, 1_000.0, Better::Higher);
    report.figure("rss_mb", rss_mb()?);

    let clusters = clusters(&store, press.len()).await?;
    let told = pairs(&press, |at, _| clusters.get(at).copied());
    report.figure("pair_precision", told.precision());
    report.figure("pair_recall", told.recall());
    report.bar("pair_f1", told.f1(), 0.95, Better::Higher);
    alone(&press, told.wanted, &mut report);
    store.close().await;
    Ok(report)
}

/// A task that all articles are said to come from.
async fn some_task(store: &SqliteStore) -> anyhow::Result<Task> {
    let task = NewTask {
        url: "https://press.example/".to_owned(),
        kind: Kind::Article,
        origin: Origin::Manual,
        source: None,
        base_priority: 5,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: None,
        refetch: None,
    };
    store.submit(vec![task]).await?;
    store.list(TaskFilter { limit: 1, ..TaskFilter::default() }).await?.pop().context("no task")
}

fn address(at: usize, paper: usize) -> String {
    format!("https://www.paper{paper}.example/story/{at}")
}

async fn bring(store: &SqliteStore, task: &Task, at: usize, copy: &Copy) -> anyhow::Result<()> {
    let url = address(at, copy.paper);
    let fact = ArticleFact {
        id: ArticleId::of(&url),
        task: task.id,
        source: None,
        content_hash: Sha256::digest(&copy.text).into(),
        simhash: simhash(&copy.text),
        prints: vec![],
        sketch: Sketch::of(&copy.text),
        text: copy.text.clone(),
        fetch: None,
        article: Article {
            url,
            canonical_url: None,
            title: None,
            authors: vec![],
            published: None,
            updated: None,
            language: None,
            site_name: None,
            section: None,
            tags: vec![],
            lead_image: None,
            abstract_: None,
            word_count: u32::try_from(copy.text.split(' ').count())?,
            method: "made up".to_owned(),
            confidence: 1.0,
            rights: Default::default(),
            cut: vec![],
        },
    };
    let article = Some((Ts::from_ms(at as i64), fact));
    let kept = store.reread(Reread { task: task.clone(), entries: vec![], article }).await?;
    anyhow::ensure!(kept == 1, "it was not kept");
    Ok(())
}

/// The cluster of each article, by its place in the press.
async fn clusters(store: &SqliteStore, articles: usize) -> anyhow::Result<Vec<ArticleId>> {
    let filter = ArticleFilter { limit: articles, ..ArticleFilter::default() };
    let rows = store.articles(filter).await?;
    let mut clusters: Vec<(usize, ArticleId)> = Vec::with_capacity(rows.len());
    for (_, row) in rows {
        let place = row.article.url.rsplit('/').next().context("no place")?.parse()?;
        clusters.push((place, row.near.map_or(row.id, |near| near.cluster)));
    }
    clusters.sort_unstable_by_key(|(place, _)| *place);
    anyhow::ensure!(clusters.len() == articles, "articles are missing");
    Ok(clusters.into_iter().map(|(_, cluster)| cluster).collect())
}

/// Pairs of articles: told as copies of each other, rightly so, and those that are.
#[derive(Clone, Copy, Debug)]
struct Pairs {
    told: usize,
    right: usize,
    wanted: usize,
}

impl Pairs {
    fn precision(self) -> f64 {
        self.right as f64 / self.told.max(1) as f64
    }

    fn recall(self) -> f64 {
        self.right as f64 / self.wanted.max(1) as f64
    }

    fn f1(self) -> f64 {
        2.0 * self.right as f64 / (self.told + self.wanted).max(1) as f64
    }
}

/// The pairs of a grouping beside those of the truth.
fn pairs<G: std::hash::Hash + Eq>(press: &[Copy], group: impl Fn(usize, &Copy) -> G) -> Pairs {
    let (mut groups, mut stories, mut both) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (at, copy) in press.iter().enumerate() {
        *groups.entry(group(at, copy)).or_insert(0_usize) += 1;
        *stories.entry(copy.story).or_insert(0_usize) += 1;
        *both.entry((group(at, copy), copy.story)).or_insert(0_usize) += 1;
    }
    let count = |n: &usize| n * (n - 1) / 2;
    Pairs {
        told: groups.values().map(count).sum(),
        right: both.values().map(count).sum(),
        wanted: stories.values().map(count).sum(),
    }
}

/// What the simhash alone tells, at every distance.
fn alone(press: &[Copy], wanted: usize, report: &mut Report) {
    let hashes: Vec<(u64, usize)> =
        press.iter().map(|copy| (simhash(&copy.text), copy.story)).collect();
    let mut at_distance = [(0_usize, 0_usize); 65];
    for (at, (one, story)) in hashes.iter().enumerate() {
        for (other, other_story) in hashes.iter().take(at) {
            if let Some((told, right)) = at_distance.get_mut(distance(*one, *other) as usize) {
                *told += 1;
                *right += usize::from(story == other_story);
            }
        }
    }
    let (mut sum, mut best) = (Pairs { told: 0, right: 0, wanted }, 0.0_f64);
    for (bits, (told, right)) in at_distance.into_iter().enumerate() {
        sum = Pairs { told: sum.told + told, right: sum.right + right, wanted };
        best = best.max(sum.f1());
        if bits == 3 {
            report.figure("simhash_3_bits_recall", sum.recall());
        }
    }
    report.figure("simhash_best_f1", best);
}
