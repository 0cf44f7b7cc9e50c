//! The flags that say what a source is, shared by `add` and `set`, and `feedmill source set`.

use feedmill_formats::url::Url;
use serde_json::{Value, json};

use super::super::{Context, Failure};
use super::{Polls, access, selectors};
use crate::app::edit::{change, check_proxy};
use crate::fetch::Guard;
use crate::model::{Access, IngestionMode, Kind, NewSource};
use crate::sources::{SpecError, check, fields, guess_kind};

/// What can be said about a source.
#[derive(Debug, clap::Args)]
#[group(id = "fields")]
pub(in crate::cli) struct Flags {
    /// What to call it [default: the host of the first address]
    #[arg(long)]
    name: Option<String>,
    /// The publisher's home page [default: where its first channel is]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A feed; may be repeated
    #[arg(long = "feed-url", value_name = "URL")]
    feed_urls: Vec<String>,
    /// A sitemap; may be repeated
    #[arg(long = "sitemap-url", value_name = "URL")]
    sitemap_urls: Vec<String>,
    /// A label that its articles carry
    #[arg(long)]
    category: Option<String>,
    /// A further label; may be repeated
    #[arg(long = "tag", value_name = "LABEL")]
    tags: Vec<String>,
    /// 1 to 10, 10 is served first [default: 5]
    #[arg(long, value_name = "1-10")]
    priority: Option<String>,
    /// The pause between two requests to its hosts, when robots.txt names none, such as 2s
    #[arg(long, value_name = "SPAN")]
    rate_limit: Option<String>,
    /// Which producers look for its articles: feed, spider or both
    #[arg(long, value_name = "MODE")]
    mode: Option<IngestionMode>,
    /// Whether feeds and sitemaps that it does not name are looked for [default: yes]
    #[arg(long, value_name = "yes|no")]
    discover: Option<String>,
    /// The home page is no feed: "direct" when it is the article, "list" when it lists them
    #[arg(long, value_name = "direct|list")]
    website: Option<String>,
    /// Which elements of a list are, or hold, links to articles
    #[arg(long, value_name = "SELECTOR")]
    article_selector: Option<String>,
    /// Which element of a list is, or holds, the link to the next page
    #[arg(long, value_name = "SELECTOR")]
    pagination_selector: Option<String>,
    /// How many pages of a list are read [default: 1]
    #[arg(long, value_name = "N")]
    max_pages: Option<String>,
    /// An expression that tells its articles by their addresses; may be repeated
    #[arg(long = "article-url-pattern", value_name = "REGEX")]
    patterns: Vec<String>,
    /// How many links away from its home page the spider walks; 0 is that page alone, -1 is without end
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    max_depth: Option<String>,
    #[command(flatten)]
    pace: Polls,
    #[command(flatten)]
    selectors: selectors::Flags,
    #[command(flatten)]
    access: access::Flags,
}

impl Flags {
    /// What they say, field by field.
    pub(super) fn said(&self) -> Vec<(String, Value)> {
        let Self { name, url, category, priority, rate_limit, discover, website, .. } = self;
        let Self { article_selector, pagination_selector, max_pages, max_depth, .. } = self;
        let texts = [
            ("name", name),
            ("url", url),
            ("category", category),
            ("priority", priority),
            ("rate_limit", rate_limit),
            ("discover", discover),
            ("website", website),
            ("article_selector", article_selector),
            ("pagination_selector", pagination_selector),
            ("max_pages", max_pages),
            ("max_depth", max_depth),
        ];
        let lists = [
            ("feed_urls", &self.feed_urls),
            ("sitemap_urls", &self.sitemap_urls),
            ("tags", &self.tags),
            ("article_url_patterns", &self.patterns),
        ];
        let (polling, selectors) = (self.pace.polling(), self.selectors.selectors());
        let millis = |span: std::time::Duration| json!(span.as_millis() as u64);
        let others = [
            ("ingestion_mode", self.mode.map(|mode| json!(mode))),
            ("poll_interval_ms", polling.interval.map(millis)),
            ("min_interval_ms", polling.min.map(millis)),
            ("max_interval_ms", polling.max.map(millis)),
            ("poll_policy", polling.policy.map(|policy| json!(policy))),
            ("refetch", self.pace.refetch.map(|policy| json!(policy))),
            ("selectors", (!selectors.is_empty()).then(|| json!(selectors))),
        ];
        let texts =
            texts.into_iter().filter_map(|(name, text)| Some((name, json!(text.as_ref()?))));
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let lists = lists.map(|(name, list)| (name, json!(list)));
        let others = others.into_iter().filter_map(|(name, value)| Some((name, value?)));
        texts.chain(lists).chain(others).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Whether an address beside them is the home page: it is to be read, or its channels are named.
    pub(super) fn wants_home(&self) -> bool {
        let reads = self.website.is_some()
            || self.article_selector.is_some()
            || matches!(self.mode, Some(IngestionMode::Spider | IngestionMode::Both));
        self.url.is_none() && (reads || self.channels().next().is_some())
    }

    /// The feeds and sitemaps that are named.
    pub(super) fn channels(&self) -> impl Iterator<Item = &String> {
        self.feed_urls.iter().chain(&self.sitemap_urls)
    }

    /// The home page that is named.
    pub(super) const fn home(&self) -> Option<&String> {
        self.url.as_ref()
    }

    /// How they say that it is asked.
    pub(super) fn access(&self) -> Result<Access, Failure> {
        self.access.access()
    }
}

/// Changes what is said about a source
///
/// What is not named stays as it is; an empty value, or --clear, takes back what was said. Channels that
/// stay keep their entries and their rhythm, channels that go are no longer polled.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill source set example --category world --tag europe --priority 8
  feedmill source set example --add https://example.com/sitemap.xml --drop https://example.com/old.rss
  feedmill source set example --clear rate_limit --clear selectors")]
pub(in crate::cli) struct Args {
    /// The source's name or id
    #[arg(id = "source", value_name = "NAME")]
    source: String,
    /// A feed or sitemap to follow too, by its spelling; may be repeated
    #[arg(long = "add", value_name = "URL")]
    added: Vec<String>,
    /// A feed or sitemap that is no longer followed; may be repeated
    #[arg(long = "drop", value_name = "URL")]
    dropped: Vec<String>,
    /// A field of which nothing is said any more, such as category; may be repeated
    #[arg(long = "clear", value_name = "FIELD")]
    cleared: Vec<String>,
    #[command(flatten)]
    flags: Box<Flags>,
}

/// Changes what is said about a source.
pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (said, access) = (args.flags.said(), args.flags.access()?);
    let lists = [&args.added, &args.dropped, &args.cleared];
    if said.is_empty() && access.is_empty() && lists.iter().all(|list| list.is_empty()) {
        let message = "nothing is to be changed: name what to set, or what to --clear; see --help";
        return Err(Failure::usage("usage", message));
    }
    let guard = Guard::new(&context.load()?.config.fetch);
    let permit = |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    let edit = |spec: &mut NewSource| -> Result<(), SpecError> {
        for field in &args.cleared {
            fields::set(spec, field, &Value::Null)?;
        }
        for (field, value) in &said {
            fields::set(spec, field, value)?;
        }
        add(spec, &args.added)?;
        drop(spec, &args.dropped)?;
        merge(&mut spec.access, access.clone());
        check_proxy(&guard, &access)?;
        check(spec, permit)
    };
    let source = change(&*context.store().await?, &args.source, edit).await?;
    context.out.done(&source, &format!("{} is changed", source.spec.name))
}

fn add(spec: &mut NewSource, added: &[String]) -> Result<(), SpecError> {
    for given in added {
        let address = feedmill_formats::url::parse(given).map_err(|error| SpecError::Url {
            url: feedmill_formats::url::without_credentials(given),
            error,
        })?;
        let channels = match guess_kind(&address) {
            Kind::Sitemap => &mut spec.sitemap_urls,
            _ => &mut spec.feed_urls,
        };
        if !channels.contains(given) {
            channels.push(given.clone());
        }
    }
    Ok(())
}

fn drop(spec: &mut NewSource, dropped: &[String]) -> Result<(), SpecError> {
    for given in dropped {
        let before = spec.feed_urls.len() + spec.sitemap_urls.len();
        spec.feed_urls.retain(|url| url != given);
        spec.sitemap_urls.retain(|url| url != given);
        if spec.feed_urls.len() + spec.sitemap_urls.len() == before {
            return Err(SpecError::Refused {
                url: feedmill_formats::url::without_credentials(given),
                reason: "it is no channel of this source; `feedmill source show` lists them".into(),
            });
        }
    }
    Ok(())
}

/// What is said anew of how a source is asked; the rest stays.
fn merge(to: &mut Access, said: Access) {
    let Access { user_agent, headers, cookie, auth, proxy, bind, unconditional } = said;
    to.headers.extend(headers);
    to.user_agent = user_agent.or(to.user_agent.take());
    to.cookie = cookie.or(to.cookie.take());
    to.auth = auth.or(to.auth.take());
    to.proxy = proxy.or(to.proxy.take());
    if !bind.is_empty() {
        to.bind = bind;
    }
    to.unconditional |= unconditional;
}
