//! `feedmill parse`: what we read in a feed, a sitemap or a list of feeds, and what is wrong with it.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use feedmill_formats::decode;
use feedmill_formats::feed::{self, Feed};
use feedmill_formats::opml::{self, Opml};
use feedmill_formats::sitemap::{self, Sitemap};
use feedmill_formats::url as web;
use serde_json::{Value, json};

use super::document::Document;
use super::out::{Out, Tone};
use super::{Context, Failure, text};
use crate::db::private;
use crate::model::Kind;

/// Shows a feed, a sitemap or an OPML list, and what is wrong with it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill parse https://example.com/feed.xml
  curl -s https://example.com/feed.xml | feedmill parse - --base https://example.com/feed.xml
  feedmill parse --batch saved/ --out read.jsonl")]
pub(super) struct Args {
    /// A file, an address, or - for standard input
    #[arg(value_name = "FILE|URL|-", required_unless_present = "batch", conflicts_with = "batch")]
    input: Option<String>,
    /// The address that a file was served at, for its relative links
    #[arg(long, value_name = "URL")]
    base: Option<String>,
    /// Reads every file in this directory and those below
    #[arg(long, value_name = "DIR", requires = "out")]
    batch: Option<PathBuf>,
    /// Where the lines of a batch go, one JSON object for each file
    #[arg(long, value_name = "FILE", requires = "batch")]
    out: Option<PathBuf>,
}

/// What a document turned out to be.
enum Known {
    Feed(Box<Feed>),
    Sitemap(Sitemap),
    List(Opml),
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if let (Some(dir), Some(out)) = (&args.batch, &args.out) {
        return batch(dir, out, context);
    }
    if args.out.is_some() {
        let message =
            "--out is for a batch: say --batch DIR, or send what is shown elsewhere with >";
        return Err(Failure::usage("usage", message));
    }
    let input = args.input.as_deref().unwrap_or("-");
    let mut document = Document::of(input, Kind::Feed, context).await?;
    if let Some(base) = &args.base {
        document.base = web::parse(base).map(String::from).map_err(|error| {
            let message = format!("the base {base} is no address: {error}; write it with https://");
            Failure::usage(error.code(), message)
        })?;
    }
    let read = read(&document).map_err(|(code, message)| Failure::failed(code, message))?;
    // What was read of it may be as large, and so may what is shown.
    drop(document);
    match &read {
        Known::Feed(feed) => {
            context.out.emit(&feed_value(feed), |out| feed_text(feed, context, out))
        }
        Known::Sitemap(sitemap) => context.out.emit(sitemap, |out| sitemap_text(sitemap, out)),
        Known::List(list) => context.out.emit(list, |out| list_text(list, out)),
    }
}

/// The document as a feed, else as a sitemap or a list of feeds; the failure is the feed's.
fn read(document: &Document) -> Result<Known, (&'static str, String)> {
    let limits = feed::Limits::default();
    let coding = decode::is_gzip(&document.body).then_some("gzip");
    let body = decode::capped(&document.body, coding, sitemap::Limits::default().bytes)
        .map_err(|error| (error.code(), error.to_string()))?;
    let feed = feed::parse(&body, document.content_type.as_deref(), &document.base, &limits);
    let error = match feed {
        Ok(feed) => return Ok(Known::Feed(Box::new(feed))),
        Err(error) => error,
    };
    if let Ok(sitemap) = sitemap::parse(&body, &document.base, &sitemap::Limits::default()) {
        return Ok(Known::Sitemap(sitemap));
    }
    opml::parse(&body).map(Known::List).map_err(|_| (error.code(), error.to_string()))
}

fn feed_value(feed: &Feed) -> Value {
    json!({ "feed": feed, "entries": feed.entries, "warnings": feed.warnings })
}

/// One line for each file, in the order of their names.
fn batch(dir: &Path, out: &Path, context: &Context) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::failed("batch", format!("cannot use {}: {error}", path.display()))
    };
    let mut files = Vec::new();
    collect(dir, &mut files).map_err(|error| failed(dir, error))?;
    files.sort();
    let mut lines =
        BufWriter::new(private::create_output(out).map_err(|error| failed(out, error))?);
    let mut unread = 0_u64;
    for path in &files {
        let name = path.strip_prefix(dir).unwrap_or(path).to_string_lossy().replace('\\', "/");
        let body = std::fs::read(path).map_err(|error| failed(path, error))?;
        let mut line = match read(&Document { body, content_type: None, base: String::new() }) {
            Ok(Known::Feed(feed)) => feed_value(&feed),
            Ok(Known::Sitemap(sitemap)) => json!(sitemap),
            Ok(Known::List(list)) => json!(list),
            Err((code, message)) => {
                unread += 1;
                json!({ "error": code, "message": message })
            }
        };
        if let Some(fields) = line.as_object_mut() {
            fields.insert("file".to_owned(), json!(name));
        }
        writeln!(lines, "{line}").map_err(|error| failed(out, error))?;
    }
    lines.flush().map_err(|error| failed(out, error))?;
    let told = text::count(files.len() as u64, "file");
    context.out.note(&format!("{told} read, {unread} of them without a feed or sitemap"));
    Ok(())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn feed_text(feed: &Feed, context: &Context, out: &Out) -> String {
    let version = feed.version.as_deref().unwrap_or("without a version");
    let format = format!("{} {version}", json!(feed.format).as_str().unwrap_or_default());
    let authors =
        feed.authors.iter().filter_map(|author| author.name.clone().or(author.email.clone()));
    let rhythm = [
        feed.ttl.map(|minutes| format!("ttl {minutes} min")),
        feed.update_minutes.map(|minutes| format!("changes every {minutes} min")),
        (!feed.skip_hours.is_empty()).then(|| format!("skips hours {:?}", feed.skip_hours)),
        (!feed.skip_days.is_empty()).then(|| format!("skips days {:?}", feed.skip_days)),
    ];
    let facts = [
        ("format", Some(format)),
        ("link", feed.link.clone()),
        ("self", feed.self_link.clone()),
        ("hubs", some(feed.hubs.join(", "))),
        ("about", feed.description.clone()),
        ("language", feed.language.clone()),
        ("authors", some(authors.collect::<Vec<_>>().join(", "))),
        ("categories", some(feed.categories.join(", "))),
        ("updated", feed.updated.map(|at| at.to_string())),
        ("rhythm", some(rhythm.into_iter().flatten().collect::<Vec<_>>().join(", "))),
        ("older", feed.paging.prev_archive.clone().or_else(|| feed.paging.next.clone())),
        ("generator", feed.generator.clone()),
    ];
    let facts = facts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<11} {}", text::one_line(&value?))));
    let now = context.clock.now();
    let rows = feed.entries.iter().map(|entry| {
        let when = entry.published.or(entry.updated).map(|at| text::when(at, now));
        [
            when.or_else(|| entry.published_raw.clone()).unwrap_or_default(),
            entry.title.clone().unwrap_or_default(),
            entry
                .byline
                .clone()
                .or_else(|| entry.authors.first()?.name.clone())
                .unwrap_or_default(),
            entry.link.clone().unwrap_or_default(),
        ]
    });
    let mut told = format!(
        "{}\n{}\n\n{}",
        text::one_line(feed.title.as_deref().unwrap_or("(no title)")),
        facts.collect::<Vec<_>>().join("\n"),
        match feed.entries.len() {
            1 => "1 entry".to_owned(),
            many => format!("{} entries", text::number(many as u64)),
        },
    );
    if !feed.entries.is_empty() {
        told.push_str(&format!(
            "\n{}",
            out.table(["when", "title", "author", "link"], rows.collect())
        ));
    }
    let warnings = feed.warnings.iter();
    let warnings: Vec<_> =
        warnings.map(|w| (w.code, w.message, w.detail.as_str(), u64::from(w.count))).collect();
    told + &warning_text(&warnings, out)
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn warning_text(warnings: &[(&str, &str, &str, u64)], out: &Out) -> String {
    let mut told = String::new();
    for (code, message, detail, count) in warnings {
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        let case =
            if detail.is_empty() { String::new() } else { format!(": {}", text::one_line(detail)) };
        let word = out.paint(Tone::Careful, "warning");
        told.push_str(&format!("\n{word}  {code}{times}: {message}{case}"));
    }
    if told.is_empty() { told } else { format!("\n{told}") }
}

fn sitemap_text(sitemap: &Sitemap, out: &Out) -> String {
    let date =
        |at: Option<feedmill_formats::date::Ts>| at.map(|at| at.to_string()).unwrap_or_default();
    let children = sitemap
        .children
        .iter()
        .map(|child| ["sitemap".to_owned(), date(child.lastmod), String::new(), child.loc.clone()]);
    let pages = sitemap.urls.iter().map(|page| {
        let title = page.news.as_ref().and_then(|news| news.title.clone());
        ["page".to_owned(), date(page.lastmod), title.unwrap_or_default(), page.loc.clone()]
    });
    let told = format!(
        "{}, {}\n{}",
        text::count(sitemap.children.len() as u64, "sitemap"),
        text::count(sitemap.urls.len() as u64, "page"),
        out.table(["what", "changed", "title", "address"], children.chain(pages).collect()),
    );
    let warnings = sitemap.warnings.iter();
    let warnings: Vec<_> =
        warnings.map(|w| (w.code, w.message, w.detail.as_str(), u64::from(w.count))).collect();
    told + &warning_text(&warnings, out)
}

fn list_text(list: &Opml, out: &Out) -> String {
    let rows = list.feeds.iter().map(|feed| {
        [feed.title.clone().unwrap_or_default(), feed.categories.join(", "), feed.feed_url.clone()]
    });
    let told = format!(
        "{}: {}\n{}",
        text::one_line(list.title.as_deref().unwrap_or("(no title)")),
        text::count(list.feeds.len() as u64, "feed"),
        out.table(["title", "category", "address"], rows.collect()),
    );
    let mut warnings = Vec::new();
    if list.truncated {
        warnings.push(("truncated", "the list ends too early", "", 1));
    }
    if list.left_out > 0 {
        warnings.push(("too_many_feeds", "there are more than are read", "", list.left_out as u64));
    }
    told + &warning_text(&warnings, out)
}
