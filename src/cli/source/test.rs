//! `feedmill source test`: what selectors gain and lose on a source's last pages, before they are kept.

use feedmill_formats::article::Selectors;
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::url as web;
use serde_json::{Value, json};

use super::super::document::Document;
use super::super::out::{Out, Shown, Tone};
use super::super::{Context, Failure, text};
use super::selectors;
use crate::app;
use crate::app::replay::{Changes, is_nothing};
use crate::app::shelf::{Compared, Page, Shelf, compare};
use crate::config::Config;
use crate::frontier::TaskFilter;
use crate::model::{Kind, Source, UrlHash};
use crate::store::{SourceError, Store};

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
    let (archive, max_decoded) = (app::reader(&config)?, config.fetch.max_decoded.as_len());
    let shelf = Shelf { store: &*store, archive: &archive, max_decoded };
    let pages = match &of {
        Of::Source(source) => shelf.last_pages(source, usize::from(args.pages)).await?,
        Of::Page(url, _) => vec![page(&shelf, url, &config, context).await?],
    };
    if pages.is_empty() {
        let message = "no page of it is in the archive: give the address of one instead";
        return Err(Failure::failed("no_pages", message));
    }
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
    context.out.preview(|out| told(&compared, &changes, out));
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

/// A page from the archive, or else as it is served now.
async fn page(
    shelf: &Shelf<'_>,
    url: &web::Url,
    config: &Config,
    context: &Context,
) -> Result<Page, Failure> {
    let hash = UrlHash::of(&web::key(url, &app::key_rules(config)));
    let filter = TaskFilter {
        kind: Some(Kind::Article),
        hash: Some(hash.head()),
        limit: 1,
        ..TaskFilter::default()
    };
    if let Some(task) = shelf.store.list(filter).await?.first()
        && let Some(page) = shelf.kept(task).await?
    {
        return Ok(page);
    }
    let document = Document::of(url.as_str(), Kind::Article, context).await?;
    let text = charset::decode(&document.body, document.content_type.as_deref(), Markup::Html);
    let known = shelf.known(hash, &document.base).await?;
    Ok(Page { url: document.base, html: text.text.into_owned(), known })
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
            [Shown::from(&pair.field), Shown::painted(tone, word), before.into(), after.into()]
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
