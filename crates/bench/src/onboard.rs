//! On-boarding: home pages of many publishers, and nothing else, until their channels are found. The
//! engine is cut off in the middle and goes on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedmill::app::{self, Mode, Progress, RunOptions};
use feedmill::clock::Clock;
use feedmill::demo;
use feedmill::model::Lane;
use feedmill::sources::lists;
use feedmill::sources::plan::{Followed, Verdict};
use feedmill::store::Store;
use feedmill_newsroom::{Channel, Front, Newsroom, Setup};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::report::{Better, Report, rss_mb, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Simulated publishers
    #[arg(long, default_value_t = 1_000)]
    publishers: usize,
    /// Simulated seconds in a real one
    #[arg(long, default_value_t = 10.0)]
    rate: f64,
    /// How often the engine is cut off
    #[arg(long, default_value_t = 3)]
    cuts: u32,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let dir = tempfile::tempdir()?;
    let clock = Clock::fast(args.rate);
    let reading = clock.clone();
    let setup = Setup::new(Arc::new(move || reading.now().ms()));
    let newsroom = Newsroom::start(Setup {
        publishers: args.publishers,
        history: 6,
        publish_until: Some(setup.starts_at),
        sitemap_only_share: 0.15,
        fronts: vec![
            Front::Alternate,
            Front::Alternate,
            Front::Plain,
            Front::Anchor,
            Front::WordPress,
            Front::Header,
            Front::Alternate,
            Front::Plain,
            Front::Alternate,
            Front::Silent,
        ],
        ..setup
    })
    .await?;
    let options = demo::Options {
        publishers: args.publishers,
        seed: 1,
        rate: args.rate,
        publish_for: Duration::MAX,
        limit: Duration::MAX,
        dir: dir.path().to_owned(),
        keep: true,
    };
    let config = demo::config(&options, &newsroom)?;
    let store = app::open(&config, &clock).await?;
    let mut report = Report::new("onboard");
    let began = Instant::now();
    import(&newsroom, &*store).await?;
    report.figure("import_seconds", began.elapsed().as_secs_f64());
    for cut in 1..=args.cuts + 1 {
        let last = cut > args.cuts;
        let stop = CancellationToken::new();
        let (own, ticking, ended) = (config.clone(), clock.clone(), stop.clone());
        let running = RunOptions { mode: Mode::Forever, lanes: vec![Lane::Poll] };
        let engine = TaskTracker::new().spawn(async move {
            app::run(&own, &ticking, running, ended, Arc::new(Progress::default())).await
        });
        let enough = args.publishers * usize::try_from(cut)? / usize::try_from(args.cuts + 1)?;
        while over(&*store).await? < enough {
            anyhow::ensure!(!engine.is_finished(), "the engine ended by itself");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        say(&format!("{enough} searches are over after {} s", began.elapsed().as_secs()))?;
        if last {
            stop.cancel();
            engine.await??;
        } else {
            // As a kill would: nothing is brought to an end.
            engine.abort();
            drop(engine.await);
        }
    }
    report.figure("seconds", began.elapsed().as_secs_f64());
    judge(&newsroom, &*store, &mut report).await?;
    let delay = i64::try_from(config.hosts.delay.as_millis())?;
    let log = newsroom.log();
    report.bar("impolite", newsroom.impolite(delay).len() as f64, 0.0, Better::Lower);
    let refused = log.iter().filter(|request| request.status == 429).count();
    report.bar("status_429", refused as f64, 0.0, Better::Lower);
    report.figure("requests_per_publisher", log.len() as f64 / args.publishers.max(1) as f64);
    report.figure("rss_mb", rss_mb()?);
    store.close().await;
    newsroom.stop().await;
    Ok(report)
}

/// Takes the home pages in as a spreadsheet.
async fn import(newsroom: &Newsroom, store: &dyn Store) -> anyhow::Result<()> {
    let mut rows = "Name,URL\n".to_owned();
    for publisher in newsroom.publishers() {
        rows.push_str(&format!("{},{}\n", publisher.host, publisher.url("/")));
    }
    let mut followed = Followed::of(&[], store.rules().key.clone());
    for row in lists::read(rows.as_bytes(), None)?.rows {
        let entry = row.entry.map_err(anyhow::Error::msg)?;
        match followed.judge(&entry, |_| Ok(())) {
            Verdict::Add { new, .. } => drop(store.admit_source(*new).await?),
            other => anyhow::bail!("line {} is not taken: {other:?}", row.line),
        }
    }
    Ok(())
}

/// Searches that are over.
async fn over(store: &dyn Store) -> anyhow::Result<usize> {
    let searches = store.discoveries().await?;
    Ok(searches.iter().filter(|(_, search)| search.ended.is_some()).count())
}

/// Lays what was found beside what there is.
async fn judge(newsroom: &Newsroom, store: &dyn Store, report: &mut Report) -> anyhow::Result<()> {
    let sources = store.sources().await?;
    let specs: HashMap<_, _> =
        sources.iter().map(|source| (source.spec.name.as_str(), &source.spec)).collect();
    let (mut feeds, mut feeds_found, mut news, mut news_found) = (0_u32, 0_u32, 0_u32, 0_u32);
    for publisher in newsroom.publishers() {
        let spec = specs.get(publisher.host.as_str());
        if let Some(feed) = publisher.feed_url() {
            feeds += 1;
            feeds_found += u32::from(spec.is_some_and(|spec| spec.feed_urls.contains(&feed)));
        }
        if publisher.has(Channel::NewsSitemap) {
            let url = publisher.url("/news-sitemap.xml");
            news += 1;
            news_found += u32::from(spec.is_some_and(|spec| spec.sitemap_urls.contains(&url)));
        }
    }
    let share = |found: u32, all: u32| f64::from(found) * 100.0 / f64::from(all.max(1));
    report.figure("feeds", f64::from(feeds));
    report.figure("news_sitemaps", f64::from(news));
    report.bar("feeds_found_percent", share(feeds_found, feeds), 95.0, Better::Higher);
    report.bar("news_sitemaps_found_percent", share(news_found, news), 95.0, Better::Higher);
    Ok(())
}
