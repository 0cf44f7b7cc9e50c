//! `feedmill article`: what was read.

mod past;

use clap::Subcommand;
use feedmill_formats::rights::Rights;
use feedmill_formats::simhash::simhash;
use serde_json::{Value, json};

use super::out::Out;
use super::{Context, Failure, text};
use crate::app::told::told_of;
use crate::config::Span;
use crate::model::{Article, ArticleId, ArticleRow, Near, PastForm, Reference, Ts};
use crate::store::{ArticleFilter, Store};

/// Lists and shows what was read
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    List(List),
    /// Shows an article with its text
    Show {
        /// Its id (64 hex digits) or address
        #[arg(value_name = "ID|URL")]
        article: String,
        /// The form that it had, as `feedmill article revisions` numbers them
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        revision: Option<u32>,
    },
    /// Lists all that tell the same as an article with the same words, and who had it first
    Copies {
        /// Its id (64 hex digits) or address
        #[arg(value_name = "ID|URL")]
        article: String,
    },
    /// Lists the forms that an article has had, and how each differs from the one before
    Revisions {
        /// Its id (64 hex digits) or address
        #[arg(value_name = "ID|URL")]
        article: String,
    },
}

/// Lists articles, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill article list --since 2h
  feedmill article list --source example.com --since 2026-01-31T00:00:00Z --limit 200")]
pub(super) struct List {
    /// Only those of the source with this name or id
    #[arg(long)]
    source: Option<String>,
    /// Only those that came within this time (2h) or since this time (2026-01-31T00:00:00Z)
    #[arg(long, value_name = "SPAN|TIME")]
    since: Option<Since>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Goes on before this place, as the last page says
    #[arg(long, value_name = "PLACE")]
    before: Option<i64>,
}

/// A point in time, or how long ago it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Since {
    Ago(Span),
    At(Ts),
}

impl std::str::FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span = text.parse().map(Self::Ago);
        span.or_else(|_| text.parse().map(Self::At)).map_err(|_| {
            "write a time span such as 2h, or a time such as 2026-01-31T00:00:00Z".to_owned()
        })
    }
}

impl Since {
    pub(super) fn from(self, now: Ts) -> Ts {
        match self {
            Self::Ago(span) => now.before(span.duration()),
            Self::At(at) => at,
        }
    }
}

/// From when to when. A window that ends before it begins is a mistake, not an empty answer.
pub(super) fn window(
    since: Option<Since>,
    until: Option<Since>,
    now: Ts,
) -> Result<(Option<Ts>, Option<Ts>), Failure> {
    let at = |given: Option<Since>| given.map(|given| given.from(now));
    match (at(since), at(until)) {
        (Some(since), Some(until)) if until <= since => {
            let message = format!("--until ({until}) is not after --since ({since}): swap them");
            Err(Failure::usage("empty_window", message))
        }
        window => Ok(window),
    }
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args, context).await,
        Command::Show { article, revision } => show(article, *revision, context).await,
        Command::Copies { article } => past::copies(article, context).await,
        Command::Revisions { article } => past::revisions(article, context).await,
    }
}

async fn list(args: &List, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let sources = store.sources().await?;
    if let Some(name) = &args.source {
        // A name that nobody has is a mistake, not an empty list.
        store.source(name).await?;
    }
    let now = context.clock.now();
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let filter = ArticleFilter {
        source: args.source.clone(),
        since: args.since.map(|since| since.from(now)),
        before_row: args.before,
        limit: limit.saturating_add(1),
    };
    let mut articles = store.articles(filter).await?;
    let more = articles.len() > limit;
    articles.truncate(limit);
    let next = articles.last().map(|(row, _)| *row).filter(|_| more);
    let name = |article: &ArticleRow| {
        let owner = sources.iter().find(|source| Some(source.id) == article.source);
        owner.map(|source| source.spec.name.clone())
    };
    let named: Vec<_> = articles.iter().map(|(_, article)| (name(article), article)).collect();
    let values: Vec<_> = named.iter().map(|(name, article)| with_source(article, name)).collect();
    context
        .out
        .emit(&json!({ "articles": values, "next": next }), |out| page(&named, next, now, out))
}

fn with_source(article: &ArticleRow, name: &Option<String>) -> Value {
    let mut value = json!(article);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("source".to_owned(), json!(name));
    }
    value
}

fn page(
    articles: &[(Option<String>, &ArticleRow)],
    next: Option<i64>,
    now: Ts,
    out: &Out,
) -> String {
    if articles.is_empty() {
        return "no articles".to_owned();
    }
    let rows = articles.iter().map(|(source, row)| {
        [
            text::when(row.first_seen, now),
            source.clone().unwrap_or_default(),
            text::number(u64::from(row.article.word_count)),
            row.article.title.clone().unwrap_or_default(),
            row.article.url.clone(),
        ]
    });
    let mut told = out.table(["seen", "source", "words", "title", "url"], rows.collect());
    if let Some(place) = next {
        told.push_str(&format!("\n\nthere are more: say --before {place} for the next page"));
    }
    told
}

/// The article that somebody means by its id or address.
fn meant(wanted: &str, store: &dyn Store) -> Result<ArticleId, Failure> {
    wanted.parse::<ArticleId>().or_else(|_| {
        let message = "neither an id of 64 hex digits nor an address";
        let address = feedmill_formats::url::parse(wanted).map_err(|error| {
            Failure::usage(error.code(), format!("`{wanted}` is {message}: {error}"))
        })?;
        Ok(ArticleId::of(&feedmill_formats::url::key(&address, &store.rules().key)))
    })
}

fn unknown(wanted: &str) -> Failure {
    let message = format!("no article is kept as `{wanted}`: `feedmill article list` shows all");
    Failure::failed("unknown_article", message)
}

async fn show(wanted: &str, revision: Option<u32>, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let id = meant(wanted, &*store)?;
    let (mut article, mut body) = store.article(id).await?.ok_or_else(|| unknown(wanted))?;
    if let Some(revision) = revision.filter(|revision| *revision != article.revision) {
        let Some((form, text)) = store.past(id, revision).await? else {
            let message = format!(
                "there is no revision {revision} of it: `feedmill article revisions {wanted}` lists them"
            );
            return Err(Failure::failed("unknown_revision", message));
        };
        let PastForm { revision, article: read, content_hash, fetch, .. } = form;
        let simhash = simhash(&text);
        article = ArticleRow { revision, article: read, content_hash, simhash, fetch, ..article };
        body = text;
    }
    let told = told_of(&article, &*store).await?;
    let (sources, categories) = Reference::gathered(&told);
    let mut value = json!(article);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("text".to_owned(), json!(body));
        fields.insert("sources".to_owned(), json!(sources));
        fields.insert("categories".to_owned(), json!(categories));
        fields.insert("references".to_owned(), json!(told));
    }
    let now = context.clock.now();
    context.out.emit(&value, |_| {
        let told: String =
            told.iter().map(|one| format!("\n{}", text::told_by(one, now))).collect();
        format!("{}{told}\n\n{}", head(&article), text::plain(&body))
    })
}

/// The title and what else is known, each on a line of its own.
fn head(row: &ArticleRow) -> String {
    let Article { title, authors, tags, .. } = &row.article;
    let list = |items: &[String]| (!items.is_empty()).then(|| items.join(", "));
    let time = |at: Option<Ts>| at.map(|at| at.to_string());
    let revision = (row.revision > 1).then(|| row.revision.to_string());
    let lines = [
        ("url", Some(row.article.url.clone())),
        ("id", Some(row.id.to_string())),
        ("by", list(authors)),
        ("published", time(row.article.published)),
        ("updated", time(row.article.updated)),
        ("site", row.article.site_name.clone()),
        ("section", row.article.section.clone()),
        ("language", row.article.language.clone()),
        ("tags", list(tags)),
        ("image", row.article.lead_image.clone()),
        ("use", said_about_use(&row.article.rights)),
        ("words", Some(row.article.word_count.to_string())),
        ("revision", revision),
        ("same as", row.duplicate_of.map(|id| id.to_string())),
        ("copy", row.near.as_ref().map(Near::reason)),
        ("first seen", Some(row.first_seen.to_string())),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<11} {}", text::one_line(&value?))));
    let title = title.as_deref().unwrap_or("(no title)");
    format!("{}\n{}", text::one_line(title), lines.collect::<Vec<_>>().join("\n"))
}

/// What its publisher says about its use, in one line.
fn said_about_use(rights: &Rights) -> Option<String> {
    let uses = rights.uses.iter().map(|(name, value)| format!("{name}={value}"));
    let mining = rights.tdm_reservation.map(|reserved| format!("tdm-reservation={reserved}"));
    let policy = rights.tdm_policy.iter().cloned();
    let said: Vec<_> =
        rights.robots.iter().cloned().chain(uses).chain(mining).chain(policy).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_span_or_a_time() {
        let now = Ts::from_ms(10_000_000);
        assert_eq!("2h".parse::<Since>().unwrap().from(now), Ts::from_ms(2_800_000));
        let at = "1970-01-01T00:00:01Z".parse::<Since>().unwrap();
        assert_eq!(at.from(now), Ts::from_ms(1_000));
        assert!("yesterday".parse::<Since>().unwrap_err().contains("such as 2h"));
    }

    #[test]
    fn a_window_ends_after_it_begins() {
        let now = Ts::from_ms(10_000_000);
        let read = |text: &str| Some(text.parse::<Since>().unwrap());
        let given = window(read("2h"), read("1h"), now).unwrap();
        assert_eq!(given, (Some(Ts::from_ms(2_800_000)), Some(Ts::from_ms(6_400_000))));
        assert_eq!(window(None, None, now).unwrap(), (None, None));
        for until in ["2h", "3h", "1970-01-01T00:00:01Z"] {
            let failure = window(read("2h"), read(until), now).unwrap_err();
            assert_eq!(failure.code, "empty_window");
            assert!(failure.message.contains("not after --since (1970-01-01T00:46:40Z)"));
        }
    }
}
