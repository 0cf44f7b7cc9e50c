//! `feedmill source add`: looks, shows, asks, stores, polls once.
//!
//! Nothing is stored before the question was answered. The answers that showed the channels are handed
//! to their first poll, so that nobody is asked twice.

use std::sync::Arc;

use feedmill_formats::feed::Entry;
use feedmill_formats::url as web;
use serde_json::{Value, json};

use super::super::out::Out;
use super::super::{Context, Failure, text};
use super::{Add, channels};
use crate::app;
use crate::app::discover::{Look, Scout};
use crate::config::Config;
use crate::db::EngineLock;
use crate::fetch::Handover;
use crate::handle::listing::Preview;
use crate::model::{FoundChannel, IngestionMode, Kind, NewSource, Source, Tried, Ts, Website};
use crate::sources::MAX_NAME;
use crate::store::Store;

/// How long a running engine is waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

pub(super) async fn run(args: &Add, context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    let mut spec = super::spec(args, &config)?;
    spec.discover &= !args.no_discover;
    if args.no_check {
        let source = context.store_or_new().await?.add_source(spec).await?;
        let told = format!("{} is followed: {}", source.spec.name, channels(&source));
        return context.out.done(&source, &told);
    }
    if !args.yes && !context.out.interactive() {
        let message = "without a terminal nobody can be asked: say --yes to add what is found, or --no-check to add the addresses as they are";
        return Err(Failure::usage("not_confirmed", message));
    }
    let beside = store_if_any(&config, context).await?;
    taken(&spec, beside.as_deref()).await?;
    let scout = Scout::new(&config, &context.clock, beside, Arc::default())?;
    // A page that is to be read as a page needs no feed.
    let is_page = spec.website.is_some() || spec.ingestion_mode == IngestionMode::Spider;
    let around = spec.discover && config.discovery.enabled && !is_page;
    let named = args.flags.channels().map(|url| (url.trim(), false));
    // The home page of channels that are named needs no look.
    let is_looked_at = |url: &&str| {
        **url != *spec.url || spec.reads_pages() || args.flags.channels().next().is_none()
    };
    let given = args.urls.iter().map(|url| url.trim()).filter(is_looked_at);
    let asked: Vec<_> = given.map(|url| (url, around)).chain(named).collect();
    let mut looks = Vec::new();
    for (url, around) in asked {
        context.out.note(&format!("looking at {}", text::one_line(url)));
        looks.push((url, scout.look(url, around, &spec).await));
    }
    let spec = found(spec, args, &looks)?;
    let mut looks: Vec<Look> = looks.into_iter().map(|(_, look)| look).collect();
    context.out.preview(|out| shown(&spec, &looks, context.clock.now(), out));
    context.out.confirm(args.yes, &format!("Follow {}", text::one_line(&spec.name)))?;
    let store = context.store_or_new().await?;
    let laid_out = runs_beside(&config).then(|| LaidOut::new(&config, &looks));
    let source = store.add_source(spec).await?;
    let polled = poll(&source, &mut looks, &config, &store, context).await?;
    drop(laid_out);
    let shared = shared(&source, &*store).await?;
    let newest: Vec<&Entry> = looks.iter().flat_map(|look| &look.newest).collect();
    let value = json!({
        "source": source, "found": looks.iter().flat_map(|look| &look.search.found).collect::<Vec<_>>(),
        "polled": polled, "newest": newest.iter().map(|entry| brief(entry)).collect::<Vec<_>>(),
    });
    context.out.emit(&value, |_| {
        let then = if polled { "" } else { "; it is polled when an engine runs" };
        let mut told = format!("{} is followed: {}{then}", source.spec.name, channels(&source));
        told.push_str(&shared);
        for entry in &newest {
            let date = entry.published.or(entry.updated);
            let date = date.map_or_else(String::new, |at| text::when(at, context.clock.now()));
            let title = entry.title.as_deref().or(entry.link.as_deref()).unwrap_or("(no title)");
            told.push_str(&format!("\n  {date:<12} {}", text::one_line(title)));
        }
        told
    })
}

fn brief(entry: &Entry) -> Value {
    json!({ "title": entry.title, "link": entry.link, "published": entry.published })
}

/// The store, when there is one already: a look must not make it.
pub(super) async fn store_if_any(
    config: &Config,
    context: &Context,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    if config.postgres_url().is_none() && !config.database_path().exists() {
        return Ok(None);
    }
    context.store_or_new().await.map(Some)
}

/// Says at once what would be said after the look.
async fn taken(spec: &NewSource, store: Option<&dyn Store>) -> Result<(), Failure> {
    let Some(store) = store else { return Ok(()) };
    let sources = store.sources().await?;
    match sources.into_iter().any(|source| source.spec.name == spec.name) {
        true => Err(crate::store::SourceError::NameTaken(spec.name.clone()).into()),
        false => Ok(()),
    }
}

/// What is said of channels that another source had first.
async fn shared(source: &Source, store: &dyn Store) -> Result<String, Failure> {
    let (_, own) = store.source(&source.uuid).await?;
    let channels = source.spec.feed_urls.iter().chain(&source.spec.sitemap_urls);
    let others = channels.filter(|url| !own.iter().any(|one| one.url == **url));
    let told = others.map(|url| {
        format!("\n  {}: another source follows it too, and polls it", text::one_line(url))
    });
    Ok(told.collect())
}

/// Whether a look brought what the source is to be followed by.
fn is_enough(spec: &NewSource, look: &Look) -> bool {
    let lists = matches!(spec.website, Some(Website::List { .. }));
    let reads = |page: &Preview| spec.reads_pages() && (page.articles > 0 || !lists);
    !look.search.found.is_empty() || matches!(&look.page, Some(Ok(page)) if reads(page))
}

/// The source with the channels that were found, or all that was tried.
fn found(mut spec: NewSource, args: &Add, looks: &[(&str, Look)]) -> Result<NewSource, Failure> {
    let empty = looks.iter().filter(|(_, look)| !is_enough(&spec, look));
    let lines: Vec<String> = empty
        .flat_map(|(url, look)| {
            let head = format!("nothing to follow was found at {}; tried:", text::one_line(url));
            let tried = look.search.tried.iter().map(|Tried { url, why, .. }| {
                format!("  {}: {}", text::one_line(url), text::one_line(why))
            });
            let page = match &look.page {
                Some(Err(why)) => Some(format!("  read as a page: {}", text::one_line(why))),
                Some(Ok(_)) if spec.reads_pages() => {
                    Some("  read as a page: the selector picks no link to an article".to_owned())
                }
                _ => None,
            };
            std::iter::once(head).chain(tried).chain(page).collect::<Vec<_>>()
        })
        .collect();
    if !lines.is_empty() {
        let advice = "nothing was stored; --no-check adds an address as it is, `feedmill source add --help` tells of websites without feeds";
        let message = format!("{}\n{advice}", lines.join("\n"));
        return Err(Failure::failed("nothing_found", message));
    }
    (spec.feed_urls, spec.sitemap_urls) = (Vec::new(), Vec::new());
    let channels = || looks.iter().flat_map(|(_, look)| &look.search.found);
    for FoundChannel { url, kind, .. } in channels() {
        let list =
            if *kind == Kind::Sitemap { &mut spec.sitemap_urls } else { &mut spec.feed_urls };
        if !list.contains(url) {
            list.push(url.clone());
        }
    }
    // A page that was given is the home page; of a feed it is the root of its site.
    let is_channel = |url: &str| channels().any(|found| found.url == url);
    if args.flags.home().is_none() {
        match args.urls.iter().map(|url| url.trim()).find(|url| !is_channel(url)) {
            Some(page) if web::parse(page).is_ok() => page.clone_into(&mut spec.url),
            _ => {
                if let Some(url) = web::parse(&spec.url).ok().filter(|_| is_channel(&spec.url)) {
                    spec.url = format!("{}/", web::origin(&url));
                }
            }
        }
    }
    Ok(spec)
}

/// What was found and why it was chosen, as a table.
fn shown(spec: &NewSource, looks: &[Look], now: Ts, out: &Out) -> String {
    let found = looks.iter().flat_map(|look| &look.search.found);
    let rows = found.map(|found| {
        let kind = if found.news { "news sitemap".to_owned() } else { found.kind.to_string() };
        let title: String =
            found.title.as_deref().unwrap_or_default().chars().take(MAX_NAME).collect();
        [
            kind,
            text::one_line(&title),
            found.items.to_string(),
            found.newest.map(|at| text::when(at, now)).unwrap_or_default(),
            found.how.told().to_owned(),
            text::one_line(&found.url),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let mut told = Vec::new();
    if !rows.is_empty() {
        told.push(out.table(["kind", "title", "items", "newest", "why", "url"], rows));
    }
    let offered: Vec<String> = looks
        .iter()
        .flat_map(|look| &look.search.left)
        .map(|left| format!("also offered: {}", text::one_line(&left.url)))
        .collect();
    let pages = looks.iter().filter_map(|look| look.page.as_ref()?.as_ref().ok());
    let pages: Vec<String> = pages
        .filter(|_| spec.reads_pages() && spec.website != Some(Website::Direct))
        .map(|page| {
            let count = text::count(page.articles as u64, "article");
            let like = page.pattern.iter().map(|it| format!(", most like {}", text::one_line(it)));
            let samples = page.samples.iter().map(|it| format!("\n  {}", text::one_line(it)));
            format!(
                "the page lists {count}{}{}",
                like.collect::<String>(),
                samples.collect::<String>()
            )
        })
        .collect();
    told.extend(pages.into_iter().chain(offered));
    told.join("\n")
}

/// Polls the channels once, with the answers that are in hand. Beside an engine that is its work: it
/// finds the answers laid out, and is waited for.
async fn poll(
    source: &Source,
    looks: &mut [Look],
    config: &Config,
    store: &Arc<dyn Store>,
    context: &Context,
) -> Result<bool, Failure> {
    if runs_beside(config) {
        return waited(source, &**store).await;
    }
    let (_, channels) = store.source(&source.uuid).await?;
    let tasks: Vec<_> = channels
        .iter()
        .filter_map(|one| one.id.parse().ok())
        .filter_map(crate::model::TaskId::from_uuid)
        .collect();
    let answers = looks.iter_mut().flat_map(|look| std::mem::take(&mut look.answers)).collect();
    match app::poll(config, &context.clock, &tasks, answers).await {
        Ok(()) => Ok(true),
        Err(app::AppError::Lock(_)) => waited(source, &**store).await,
        Err(error) => Err(error.into()),
    }
}

/// Whether an engine works on the same directory.
fn runs_beside(config: &Config) -> bool {
    let lock = match config.postgres_url() {
        Some(_) => config.data_dir.join("engine"),
        None => config.database_path(),
    };
    EngineLock::is_held(&lock)
}

/// Answers that are laid out for an engine beside, as long as it is waited for.
struct LaidOut {
    handover: Handover,
    urls: Vec<String>,
}

impl LaidOut {
    fn new(config: &Config, looks: &[Look]) -> Self {
        let handover = Handover::of(&config.data_dir);
        let answers = looks.iter().flat_map(|look| &look.answers);
        // What cannot be laid out is asked for again.
        let laid = answers.filter(|answer| handover.lay(answer).is_ok());
        let urls = laid.map(|answer| answer.url.clone()).collect();
        Self { handover, urls }
    }
}

impl Drop for LaidOut {
    fn drop(&mut self) {
        self.urls.iter().for_each(|url| self.handover.take_back(url));
    }
}

/// Whether an engine polls all channels within a little while.
async fn waited(source: &Source, store: &dyn Store) -> Result<bool, Failure> {
    let all_polled = async {
        loop {
            let (_, channels) = store.source(&source.uuid).await?;
            if channels.iter().all(|one| one.last_fetched_at.is_some()) {
                return Ok(true);
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_polled).await.unwrap_or(Ok(false))
}
