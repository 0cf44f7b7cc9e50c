//! `feedmill source test`: what selectors gain and lose on a source's last pages, before they are kept.

use std::collections::BTreeSet;

use feedmill_formats::article::{self, Selectors};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::{decode, url as web};
use serde::Serialize;
use serde_json::{Value, json};

use super::super::document::Document;
use super::super::out::{Out, Tone};
use super::super::{Context, Failure, text};
use super::selectors;
use crate::app;
use crate::app::replay::{Changes, is_nothing};
use crate::archive::Reader;
use crate::config::Config;
use crate::frontier::{Order, Sort, TaskFilter};
use crate::handle;
use crate::model::{Ask, Kind, Known, Source, Task, UrlHash};
use crate::store::{SourceError, Store};

/// Pages that are looked at for one that is kept, at the most.
const LOOK_BACK: usize = 10;
/// Fields of an article that nobody would compare by eye.
const LEFT_OUT: [&str; 4] = ["html", "content_hash", "simhash", "confidence"];
/// How much of a value is shown.
const SHOWN: usize = 48;

/// Shows what selectors gain and lose on a source's last pages, before they are kept
///
/// With selectors, they are compared with those that the source has; without, those that it has with
/// none. The pages come from the archive, and nobody is asked. The address of a page that is not there
/// is asked for, guarded and limited as the engine does it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill source test example.com --body '.story-text, article' --exclude .newsletter
  feedmill source test https://example.com/news/1 --title 'h1.headline'
  feedmill source test example.com --body .story-text --save")]
pub(in crate::cli) struct Args {
    /// The source's name or id, an address of it, or that of a page
    #[arg(value_name = "URL|NAME")]
    of: String,
    /// How many of its last pages
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    pages: u8,
    /// Keeps the selectors for the source afterwards
    #[arg(long)]
    save: bool,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    flags: selectors::Flags,
}

/// What is tested: a source on its last pages, or one page, which may be of a source.
enum Of {
    Source(Source),
    Page(web::Url, Option<Source>),
}

/// A page, and what is known besides it.
struct Page {
    url: String,
    html: String,
    known: Known,
}

/// A field that is different.
#[derive(Debug, Serialize)]
struct Pair {
    field: String,
    before: Value,
    after: Value,
}

/// A page under both.
#[derive(Debug, Serialize)]
struct Compared {
    url: String,
    /// What the body was found by, or why there is no article.
    before: String,
    after: String,
    fields: Vec<Pair>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    let store = context.store().await?;
    let of = resolve(&args.of, &*store).await?;
    let source = match &of {
        Of::Source(source) => Some(source),
        Of::Page(_, source) => source.as_ref(),
    };
    let kept = source.map(|source| source.spec.selectors.clone()).unwrap_or_default();
    let given = args.flags.selectors();
    // Without new ones, what the kept ones are good for.
    let (before, after) =
        if given.is_empty() { (Selectors::default(), kept) } else { (kept, given) };
    if after.is_empty() {
        let message = "there are no selectors to test: give some, such as --body '.story'";
        return Err(Failure::usage("no_selectors", message));
    }
    let shelf = Shelf { store: &*store, archive: app::reader(&config)?, config: &config };
    let pages = match &of {
        Of::Source(source) => shelf.last_pages(source, usize::from(args.pages)).await?,
        Of::Page(url, _) => vec![shelf.page(url, context).await?],
    };
    let mut changes = Changes::default();
    let compared: Vec<Compared> =
        pages.iter().map(|page| compare(page, &before, &after, &mut changes)).collect();
    let name = source.map(|source| source.spec.name.as_str());
    if !args.save {
        let value = json!({
            "source": name, "selectors": after, "pages": compared, "fields": changes.fields,
        });
        return context.out.emit(&value, |out| told(&compared, &changes, out));
    }
    let Some(source) = source else {
        let message = "no source has this page: add one with `feedmill source add` first";
        return Err(Failure::failed("unknown_source", message));
    };
    context.out.note(&told(&compared, &changes, &context.out));
    let question = format!("keep these selectors for {}", text::one_line(&source.spec.name));
    context.out.confirm(args.yes, &question)?;
    selectors::save(&source.uuid, after, context).await
}

/// What is meant: a source by its name, id or one of its addresses, or else a page.
async fn resolve(of: &str, store: &dyn Store) -> Result<Of, Failure> {
    let unknown = match store.source(of).await {
        Ok((source, _)) => return Ok(Of::Source(source)),
        Err(error @ SourceError::Unknown(_)) => error,
        Err(error) => return Err(error.into()),
    };
    let Ok(url) = web::parse(of) else { return Err(unknown.into()) };
    let sources = store.sources().await?;
    let is_its = |source: &&Source| {
        let channels = source.spec.feed_urls.iter().chain(&source.spec.sitemap_urls);
        channels.chain([&source.spec.url]).any(|known| known == of)
    };
    if let Some(source) = sources.iter().find(is_its) {
        return Ok(Of::Source(source.clone()));
    }
    let site = |url: &web::Url| web::site(&web::host(url)).to_owned();
    let is_near =
        |source: &&Source| web::parse(&source.spec.url).is_ok_and(|home| site(&home) == site(&url));
    let near = sources.iter().find(is_near).cloned();
    Ok(Of::Page(url, near))
}

/// Where pages are taken from.
struct Shelf<'a> {
    store: &'a dyn Store,
    archive: Reader,
    config: &'a Config,
}

impl Shelf<'_> {
    /// The last pages of a source that are kept.
    async fn last_pages(&self, source: &Source, wanted: usize) -> Result<Vec<Page>, Failure> {
        let filter = TaskFilter {
            kind: Some(Kind::Article),
            source: Some(source.uuid.clone()),
            order: Order { sort: Sort::Fetched, descending: true },
            limit: wanted * LOOK_BACK,
            ..TaskFilter::default()
        };
        let mut found = Vec::new();
        for task in self.store.list(filter).await? {
            if found.len() == wanted {
                break;
            }
            found.extend(self.kept(&task).await?);
        }
        if found.is_empty() {
            let message = "no page of it is in the archive: give the address of one instead";
            return Err(Failure::failed("no_pages", message));
        }
        Ok(found)
    }

    /// A page from the archive, or else as it is served now.
    async fn page(&self, url: &web::Url, context: &Context) -> Result<Page, Failure> {
        let hash = UrlHash::of(&web::key(url, &app::key_rules(self.config)));
        let filter = TaskFilter {
            kind: Some(Kind::Article),
            hash: Some(hash.head()),
            limit: 1,
            ..TaskFilter::default()
        };
        if let Some(task) = self.store.list(filter).await?.first()
            && let Some(page) = self.kept(task).await?
        {
            return Ok(page);
        }
        let document = Document::of(url.as_str(), Kind::Article, context).await?;
        let text = charset::decode(&document.body, document.content_type.as_deref(), Markup::Html);
        let known = self.known(hash, &document.base).await?;
        Ok(Page { url: document.base, html: text.text.into_owned(), known })
    }

    /// The last form of a page, when it is in the archive.
    async fn kept(&self, task: &Task) -> Result<Option<Page>, Failure> {
        let fetches = self.store.fetches(task.id, LOOK_BACK).await?;
        for fetch in fetches.iter().filter(|fetch| fetch.status == Some(200)) {
            let Some(raw) = &fetch.raw else { continue };
            let Ok(stored) = self.archive.stored(raw).await else { continue };
            let coding = stored.head.get("content-encoding");
            let limit = self.config.fetch.max_decoded.as_len();
            let Ok(body) = decode::capped(&stored.body, coding, limit) else { continue };
            let html = charset::decode(&body, stored.head.get("content-type"), Markup::Html);
            let known = self.known(task.url_hash, &fetch.url).await?;
            return Ok(Some(Page { url: fetch.url.clone(), html: html.text.into_owned(), known }));
        }
        Ok(None)
    }

    async fn known(&self, hash: UrlHash, url: &str) -> Result<Known, Failure> {
        let frame_of = web::parse(url).ok().map(|url| web::host(&url));
        Ok(self.store.lookup(Ask { evidence: Some(hash), frame_of, ..Ask::default() }).await?)
    }
}

/// Reads a page under both, and counts what is different.
fn compare(page: &Page, before: &Selectors, after: &Selectors, changes: &mut Changes) -> Compared {
    let read = |selectors| {
        let evidence = handle::evidence(&page.known, Some(selectors));
        match article::extract(&page.html, &page.url, &evidence) {
            Ok(found) => (format!("by {}", found.method), json!(found)),
            Err(error) => (format!("no article: {error}"), json!({})),
        }
    };
    let ((before, mut old), (after, mut new)) = (read(before), read(after));
    for side in [&mut old, &mut new] {
        side.as_object_mut().into_iter().for_each(|side| {
            side.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
        });
    }
    changes.compare(&old, &new);
    let names = [&old, &new].map(|side| side.as_object().into_iter().flat_map(|side| side.keys()));
    let names: BTreeSet<&String> = names.into_iter().flatten().collect();
    let get = |side: &Value, name: &String| side.get(name).cloned().unwrap_or_default();
    let pairs = names.into_iter().map(|name| Pair {
        field: name.clone(),
        before: get(&old, name),
        after: get(&new, name),
    });
    let fields = pairs.filter(|pair| pair.before != pair.after).collect();
    Compared { url: page.url.clone(), before, after, fields }
}

/// Every page with what is different side by side, and the sum.
fn told(pages: &[Compared], changes: &Changes, out: &Out) -> String {
    let of_page = |page: &Compared| {
        let head = format!("{}\n{} -> {}", page.url, page.before, page.after);
        if page.fields.is_empty() {
            return format!("{head}; nothing is different");
        }
        let rows = page.fields.iter().map(|pair| {
            let (word, tone) = match (is_nothing(&pair.before), is_nothing(&pair.after)) {
                (true, _) => ("gained", Tone::Good),
                (_, true) => ("lost", Tone::Bad),
                (false, false) => ("changed", Tone::Careful),
            };
            let (before, after) = (shown(&pair.before), shown(&pair.after));
            [pair.field.clone(), out.paint(tone, word), before, after]
        });
        format!("{head}\n\n{}", out.table(["field", "", "now", "then"], rows.collect()))
    };
    let mut parts: Vec<String> = pages.iter().map(of_page).collect();
    let rows = changes.fields.iter().map(|(name, fields)| {
        let numbers = [fields.gained, fields.changed, fields.lost].map(text::number);
        let [gained, changed, lost] = numbers;
        [name.clone(), gained, changed, lost]
    });
    let rows: Vec<_> = rows.collect();
    if pages.len() > 1 && !rows.is_empty() {
        let head = format!("{} in all", text::count(pages.len() as u64, "page"));
        parts
            .push(format!("{head}\n\n{}", out.table(["field", "gained", "changed", "lost"], rows)));
    }
    parts.join("\n\n")
}

/// A value in a few words.
fn shown(value: &Value) -> String {
    let whole = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items = items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            items.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    let line = text::one_line(&whole);
    let length = line.chars().count();
    if length <= SHOWN {
        return line;
    }
    let head: String = line.chars().take(SHOWN).collect();
    format!("{head}… ({length})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_a_few_words() {
        assert_eq!(shown(&Value::Null), "");
        assert_eq!(shown(&json!(["a", "b"])), "a, b");
        assert_eq!(shown(&json!(7)), "7");
        let long = shown(&json!("x".repeat(100)));
        assert!(long.ends_with("… (100)") && long.starts_with("xxx"), "{long}");
    }
}
