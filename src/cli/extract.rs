//! `feedmill extract`: reads one page, or many, as the engine would, and shows what it makes of them.

use std::path::{Path, PathBuf};

use feedmill_formats::article::explain::{Explanation, explain};
use feedmill_formats::article::{self, Evidence, Extracted, NotArticle, PageType};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::feed::{self, Limits};
use feedmill_formats::{decode, sniff, url as web};
use serde_json::{Map, Value, json};

use super::document::Document;
use super::meter::Line;
use super::{Context, Failure, text};
use crate::db::private;
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
    let found = article::extract(&html, &url, &evidence);
    if args.explain {
        let told = explain(&html, &url, &evidence).map_err(refused)?;
        let mut value = json!(told);
        if let (Some(fields), Err(error)) = (value.as_object_mut(), &found) {
            fields.insert("refused".to_owned(), json!(error.code()));
        }
        return context
            .out
            .emit(&value, |_| format!("{}\n\n{}", outcome(found.as_ref()), explanation(&told)));
    }
    let found = found.map_err(refused)?;
    let markdown = article::markdown(&found.html, Some(&url));
    let mut value = json!(found);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("url".to_owned(), json!(url));
        fields.insert("markdown".to_owned(), json!(markdown));
    }
    context.out.emit(&value, |_| format!("{}\n\n{}", head(&found, &url), text::plain(&markdown)))
}

fn refused(error: NotArticle) -> Failure {
    Failure::failed(error.code(), format!("no article: {error}; --explain shows how it is read"))
}

/// What comes of a page, in a line.
fn outcome(found: Result<&Extracted, &NotArticle>) -> String {
    match found {
        Ok(found) => format!(
            "{}: {}, {:.0} % sure",
            text::one_line(&found.title),
            text::count(u64::from(found.word_count), "word"),
            found.confidence * 100.0
        ),
        Err(error) => format!("no article ({}): {error}", error.code()),
    }
}

/// The page and its address.
async fn page(args: &Args, context: &Context) -> Result<(String, String), Failure> {
    let named = args.page.as_deref().unwrap_or("-");
    if let Some(url) = args.url.as_deref().filter(|url| !is_web(url)) {
        let message = format!("{url} is not an address; give one with http:// or https://");
        return Err(Failure::usage("bad_url", message));
    }
    let document = Document::of(named, Kind::Article, context).await?;
    let html = html_of(&document.body, document.content_type.as_deref())?;
    Ok((html, args.url.clone().unwrap_or(document.base)))
}

fn is_web(url: &str) -> bool {
    web::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// The text of a page, which may have been saved compressed.
fn html_of(bytes: &[u8], content_type: Option<&str>) -> Result<String, Failure> {
    let coding = decode::is_gzip(bytes).then_some("gzip");
    let body = decode::capped(bytes, coding, MAX_FILE)
        .map_err(|error| Failure::failed(error.code(), error.to_string()))?;
    if let Some(form) = sniff::binary(&body) {
        return Err(Failure::failed("bad_content_type", format!("a {form} file is not a page")));
    }
    let html = charset::decode(&body, content_type, Markup::Html).text.into_owned();
    let is_page = html.contains("<html") || html.contains("<HTML") || html.contains("<body");
    if !is_page && feed::parse(&body, content_type, "", &Limits::default()).is_ok() {
        let message = "this is a feed, not a page; feedmill parse reads it";
        return Err(Failure::failed("bad_content_type", message));
    }
    Ok(html)
}

/// What is known about the article, as Markdown carries it: lines of YAML between two rules.
fn head(found: &Extracted, url: &str) -> String {
    let list = |items: &[String]| (!items.is_empty()).then(|| json!(items));
    let word = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    let published = found.published.map(|at| shown(&at.to_string()));
    let kind = (found.page_type != PageType::Article).then(|| json!(found.page_type));
    let fields = [
        ("title", Some(json!(found.title))),
        ("url", Some(json!(url)).filter(|_| !url.is_empty())),
        ("canonical", word(&found.canonical_url.clone().filter(|own| own != url))),
        ("authors", list(&found.authors)),
        ("published", word(&published.or_else(|| found.day.clone()))),
        ("updated", found.updated.map(|at| json!(shown(&at.to_string())))),
        ("site", word(&found.site_name)),
        ("section", word(&found.section)),
        ("language", word(&found.language)),
        ("tags", list(&found.tags)),
        ("image", word(&found.lead_image)),
        ("type", kind),
        ("paywalled", found.paywalled.map(|paid| json!(paid))),
        ("license", word(&found.rights.license)),
        ("robots", list(&found.rights.robots)),
        ("words", Some(json!(found.word_count))),
        ("method", Some(json!(found.method))),
        ("confidence", Some(json!((f64::from(found.confidence) * 100.0).round() / 100.0))),
    ];
    let lines = fields.into_iter().filter_map(|(name, value)| Some((name, yaml(&value?))));
    let lines: String = lines.map(|(name, value)| format!("{name}: {value}\n")).collect();
    let title = if found.title.is_empty() { "(no title)" } else { &found.title };
    format!("---\n{lines}---\n\n# {}", text::one_line(title))
}

/// A time without an hour that nobody told.
fn shown(at: &str) -> String {
    at.strip_suffix("T00:00:00Z").unwrap_or(at).to_owned()
}

/// A value in one line of YAML: bare where that is plain to read, or else as JSON writes it.
fn yaml(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let line = text::one_line(text);
            let starts = line.starts_with(char::is_alphanumeric);
            let is_word = ["true", "false", "yes", "no", "on", "off", "null"]
                .iter()
                .any(|word| line.eq_ignore_ascii_case(word));
            let tells = line.contains(": ") || line.contains(" #") || line.ends_with(':');
            let is_number = line.parse::<f64>().is_ok();
            let marks = line.contains(['[', ']', '{', '}', ',']);
            if starts && !is_word && !tells && !is_number && !marks {
                line
            } else {
                json!(line).to_string()
            }
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(yaml).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
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

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::failed("unwritable", format!("cannot write {}: {error}", path.display()))
}

/// Reads all pages of a directory into one file.
fn batch(dir: &Path, out: &Path, context: &Context) -> Result<(), Failure> {
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::usage("unreadable", format!("cannot read {}: {error}", path.display()))
    };
    let pages = dir.join("pages");
    let pages = if pages.is_dir() { pages } else { dir.to_path_buf() };
    // Beside the pages, whichever of the two directories was given.
    let beside = [dir.join("truth.json"), pages.with_file_name("truth.json")];
    let truth = beside.into_iter().find(|path| path.is_file());
    let known: Map<String, Value> = match truth {
        Some(path) => {
            std::fs::read(&path).map_err(|error| unreadable(&path, &error)).and_then(|told| {
                serde_json::from_slice(&told).map_err(|error| unreadable(&path, &error))
            })?
        }
        None => Map::new(),
    };
    // Before anything is read, since reading may take an hour.
    private::create_output(out).map_err(|error| unwritable(out, &error))?;
    let (mut found, mut refused) = (Map::new(), 0_u64);
    let mut line = Line::new(context);
    for entry in std::fs::read_dir(&pages).map_err(|error| unreadable(&pages, &error))? {
        let path = entry.map_err(|error| unreadable(&pages, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".html.gz").or_else(|| name.strip_suffix(".html")) else {
            continue;
        };
        let bytes = std::fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        let url = known.get(id).and_then(|told| told.get("url")?.as_str()).unwrap_or_default();
        let read = html_of(&bytes, None).map_err(|error| error.code).and_then(|html| {
            article::extract(&html, url, &Evidence::default()).map_err(NotArticle::code)
        });
        refused += u64::from(read.is_err());
        let told = read.map_or_else(|code| json!({ "refused": code }), |told| prediction(&told));
        found.insert(id.to_owned(), told);
        line.tell(format!("{} read", text::count(found.len() as u64, "page")));
    }
    line.clear();
    let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
    let bytes = serde_json::to_vec(&found).map_err(|error| unwritable(out, &error))?;
    std::fs::write(out, bytes).map_err(|error| unwritable(out, &error))?;
    let told = format!(
        "{} read, {} no articles, written to {}",
        text::count(count, "page"),
        text::number(refused),
        text::path(out)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_yaml_would_misread_is_quoted() {
        for (value, line) in [
            (json!("A plain title"), "A plain title"),
            (json!("https://example.com/a#b"), "https://example.com/a#b"),
            (json!("Live: the storm"), "\"Live: the storm\""),
            (json!("“Quoted” title"), "\"“Quoted” title\""),
            (json!("- no item"), "\"- no item\""),
            (json!("No"), "\"No\""),
            (json!("1984"), "\"1984\""),
            (json!("two\nlines"), "two lines"),
            (json!(["Jane Doe", "Doe, Max"]), "[Jane Doe, \"Doe, Max\"]"),
            (json!(true), "true"),
            (json!(12), "12"),
        ] {
            assert_eq!(yaml(&value), line);
        }
        assert_eq!(shown("2026-05-03T00:00:00Z"), "2026-05-03");
        assert_eq!(shown("2026-05-03T10:00:00Z"), "2026-05-03T10:00:00Z");
    }

    #[test]
    fn what_is_no_page_is_turned_away() {
        let code = |bytes: &[u8]| html_of(bytes, None).map_err(|error| error.code);
        assert_eq!(code(b"%PDF-1.7 ..."), Err("bad_content_type"));
        let feed = b"<rss version='2.0'><channel><title>a</title><item><title>b</title></item>\
            </channel></rss>";
        assert_eq!(code(feed), Err("bad_content_type"));
        assert_eq!(code(b"<p>A page"), Ok("<p>A page".to_owned()));
    }
}
