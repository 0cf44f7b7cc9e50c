//! `feedmill extract`: reads one page, or many, as the engine would, and shows what it makes of them.

use std::path::{Path, PathBuf};

use feedmill_formats::article::explain::{Explanation, explain};
use feedmill_formats::article::{self, Evidence, Extracted, NotArticle};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::decode;
use serde_json::{Map, Value, json};

use super::document::Document;
use super::{Context, Failure, text};
use crate::model::Kind;

/// The largest file that is read.
const MAX_FILE: usize = 64 << 20;
/// How much of a block is shown.
const SHOWN: usize = 76;

/// Prints the article in a page as Markdown, with what is known about it
///
/// The page is a file, standard input with `-`, or fetched, guarded and limited as the engine does
/// it. Nothing is stored.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill extract https://example.com/story
  feedmill extract story.html --url https://example.com/story --json
  feedmill extract story.html --explain
  feedmill extract --batch corpus --out predictions.json")]
pub(super) struct Args {
    /// An address, a file, or - for standard input
    #[arg(value_name = "URL|FILE|-", required_unless_present = "batch", conflicts_with = "batch")]
    page: Option<String>,
    /// The address of a page that is read from a file
    #[arg(long, conflicts_with = "batch")]
    url: Option<String>,
    /// Shows which containers were weighed, and why each block was taken or left
    #[arg(long, conflicts_with = "batch")]
    explain: bool,
    /// Reads all pages of a directory: pages/ID.html or .html.gz, with truth.json beside pages/
    #[arg(long, value_name = "DIR", requires = "out")]
    batch: Option<PathBuf>,
    /// Where to write what was read from the directory, as JSON by id
    #[arg(long, value_name = "FILE", requires = "batch")]
    out: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if let (Some(dir), Some(out)) = (&args.batch, &args.out) {
        return batch(dir, out, context);
    }
    let (html, url) = page(args, context).await?;
    let evidence = Evidence::default();
    if args.explain {
        let told = explain(&html, &url, &evidence).map_err(refused)?;
        return context.out.emit(&told, |_| explanation(&told));
    }
    let found = article::extract(&html, &url, &evidence).map_err(refused)?;
    let markdown = article::markdown(&found.html, Some(&url));
    let mut value = json!(found);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("url".to_owned(), json!(url));
        fields.insert("markdown".to_owned(), json!(markdown));
    }
    context.out.emit(&value, |_| format!("{}\n\n{}", head(&found, &url), text::plain(&markdown)))
}

fn refused(error: NotArticle) -> Failure {
    Failure::failed(error.code(), format!("no article: {error}"))
}

/// The page and its address.
async fn page(args: &Args, context: &Context) -> Result<(String, String), Failure> {
    let named = args.page.as_deref().unwrap_or("-");
    let document = Document::of(named, Kind::Article, context).await?;
    let html = html_of(&document.body, document.content_type.as_deref())?;
    Ok((html, args.url.clone().unwrap_or(document.base)))
}

/// The text of a page, which may have been saved compressed.
fn html_of(bytes: &[u8], content_type: Option<&str>) -> Result<String, Failure> {
    let coding = decode::is_gzip(bytes).then_some("gzip");
    let body = decode::capped(bytes, coding, MAX_FILE)
        .map_err(|error| Failure::failed(error.code(), error.to_string()))?;
    Ok(charset::decode(&body, content_type, Markup::Html).text.into_owned())
}

/// The title and what else is known, each on a line of its own.
fn head(found: &Extracted, url: &str) -> String {
    let list = |items: &[String]| (!items.is_empty()).then(|| items.join(", "));
    let time = |at: Option<crate::model::Ts>| at.map(|at| at.to_string());
    let lines = [
        ("url", Some(url.to_owned()).filter(|url| !url.is_empty())),
        ("canonical", found.canonical_url.clone().filter(|own| own != url)),
        ("by", list(&found.authors)),
        ("published", time(found.published).or_else(|| found.day.clone())),
        ("updated", time(found.updated)),
        ("site", found.site_name.clone()),
        ("section", found.section.clone()),
        ("language", found.language.clone()),
        ("tags", list(&found.tags)),
        ("image", found.lead_image.clone()),
        ("paywalled", found.paywalled.map(|paid| if paid { "yes" } else { "no" }.to_owned())),
        ("license", found.rights.license.clone()),
        ("robots", list(&found.rights.robots)),
        ("words", Some(text::number(u64::from(found.word_count)))),
        ("method", Some(format!("{}, {:.0} % sure", found.method, found.confidence * 100.0))),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<11} {}", text::one_line(&value?))));
    let title = if found.title.is_empty() { "(no title)" } else { &found.title };
    format!("# {}\n\n{}", text::one_line(title), lines.collect::<Vec<_>>().join("\n"))
}

/// Containers and blocks as lines.
fn explanation(told: &Explanation) -> String {
    let mut out = String::from("containers, the best first:\n");
    for container in &told.containers {
        let (start, end) = container.blocks;
        out.push_str(&format!(
            "  {:.2}  blocks {start} to {end}  {} ({})\n",
            container.score,
            text::one_line(&container.element),
            container.rule
        ));
    }
    out.push_str("\nblocks:\n");
    for (index, block) in told.blocks.iter().enumerate() {
        let shown: String = text::one_line(&block.text).chars().take(SHOWN).collect();
        let mark = if block.why == "taken" { "+" } else { " " };
        out.push_str(&format!("{mark} {index:>4} {:.2} {:<16} {shown}\n", block.sure, block.why));
    }
    out
}

/// Reads all pages of a directory into one file.
fn batch(dir: &Path, out: &Path, context: &Context) -> Result<(), Failure> {
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::usage("unreadable", format!("cannot read {}: {error}", path.display()))
    };
    let truth = dir.join("truth.json");
    let known: Map<String, Value> = match std::fs::read(&truth) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| unreadable(&truth, &error))?,
        Err(_) => Map::new(),
    };
    let pages = dir.join("pages");
    let pages = if pages.is_dir() { pages } else { dir.to_path_buf() };
    let mut found = Map::new();
    let mut refused = 0_u64;
    for entry in std::fs::read_dir(&pages).map_err(|error| unreadable(&pages, &error))? {
        let path = entry.map_err(|error| unreadable(&pages, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".html.gz").or_else(|| name.strip_suffix(".html")) else {
            continue;
        };
        let bytes = std::fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        let url = known.get(id).and_then(|told| told.get("url")?.as_str()).unwrap_or_default();
        let told = match article::extract(&html_of(&bytes, None)?, url, &Evidence::default()) {
            Ok(article) => prediction(&article),
            Err(error) => {
                refused += 1;
                json!({ "refused": error.code() })
            }
        };
        found.insert(id.to_owned(), told);
    }
    let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
    let written = serde_json::to_vec(&found)
        .map_err(|error| error.to_string())
        .and_then(|bytes| std::fs::write(out, bytes).map_err(|error| error.to_string()));
    written.map_err(|error| {
        Failure::failed("unwritable", format!("cannot write {}: {error}", out.display()))
    })?;
    let told = format!(
        "{} read, {} no articles, written to {}",
        text::count(count, "page"),
        text::number(refused),
        out.display()
    );
    context.out.done(&json!({ "pages": count, "refused": refused }), &told)
}

/// What is compared with the truth of a corpus.
fn prediction(article: &Extracted) -> Value {
    json!({
        "articleBody": article.text, "title": article.title, "author": article.authors,
        "date": article.day.clone().or_else(|| article.published.map(|at| at.day())),
        "method": article.method, "confidence": article.confidence, "page_type": article.page_type,
    })
}
