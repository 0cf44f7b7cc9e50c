//! `feedmill source`: the publishers that are followed.

mod access;
mod add;
mod candidates;
mod diff;
mod errors;
mod lists;
mod pace;
mod rehearse;
mod selectors;
mod set;
mod show;
mod status;
mod test;

use clap::Subcommand;
use feedmill_formats::url::Url;
use serde_json::json;

use super::{Context, Failure, text};
use crate::app::edit;
use crate::config::{Config, Span};
use crate::fetch::Guard;
use crate::model::{Kind, NewSource, PollPolicy, Polling, RefetchPolicy, Source};
use crate::sources::{Wanted, specify};

/// Adds, shows and changes the publishers that are followed
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Add(Box<Add>),
    Set(Box<set::Args>),
    Access(Box<access::Args>),
    Pace(Box<pace::Args>),
    Selectors(Box<selectors::Args>),
    Test(Box<test::Args>),
    List(show::List),
    /// Shows how all sources do, in groups, the worst first
    Status {
        /// Lists the healthy ones as well
        #[arg(long)]
        all: bool,
    },
    /// Shows a source and how its channels do
    Show {
        /// The source's name or id
        name: String,
    },
    /// Lists hosts that pages of a spidered source link to and that are not its own
    ///
    /// They may be worth following themselves. `spider.external_links` says what becomes of such links.
    Candidates {
        /// The source's name or id
        name: String,
    },
    /// Shows what went wrong with its channels lately, by code and newest first
    Errors {
        /// The source's name or id
        name: String,
        /// How many are listed of each channel
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Shows what its feeds changed between their last two forms, told or not
    Diff {
        /// The source's name or id
        name: String,
    },
    Import(lists::Import),
    /// Follows the lists of `[sources]` once: a source-manager's sources, and sets in Redis
    ///
    /// A running engine does the same by itself, as often as the configuration says.
    Sync,
    Export(lists::Export),
    /// Forgets a source; its articles stay unless --articles is given
    Remove {
        /// The source's name or id
        name: String,
        /// Also takes back the articles that no other source gave, and tells those who have them
        #[arg(long)]
        articles: bool,
        /// Does not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Follows a disabled source again, and channels that are only probed or were given up
    Enable {
        /// The source's name or id
        name: String,
    },
    /// Stops following a source, until it is enabled again
    Disable {
        /// The source's name or id
        name: String,
        /// Why, for those who look later
        #[arg(long, default_value = "disabled by the operator")]
        reason: String,
    },
}

/// How polls are chosen.
#[derive(Debug, clap::Args)]
pub(super) struct Polls {
    /// A fixed time between polls, such as 30m, within `schedule.min_interval` and `max_interval`
    #[arg(long, value_name = "SPAN")]
    interval: Option<Span>,
    /// At least so long between polls, in place of `schedule.min_interval`
    #[arg(long, value_name = "SPAN")]
    min_interval: Option<Span>,
    /// At most so long between polls, in place of `schedule.max_interval`
    #[arg(long, value_name = "SPAN")]
    max_interval: Option<Span>,
    /// How its polls are chosen: value, ewma or fixed [default: as schedule.policy says]
    #[arg(long, value_name = "POLICY")]
    policy: Option<PollPolicy>,
    /// Whether its pages are asked for again: never, interval or `on_lastmod_newer` [default: as
    /// refetch.policy says]
    #[arg(long, value_name = "POLICY")]
    refetch: Option<RefetchPolicy>,
}

impl Polls {
    /// Whether nothing is to be changed.
    fn says_nothing(&self) -> bool {
        self.polling() == Polling::default() && self.refetch.is_none()
    }

    fn polling(&self) -> Polling {
        Polling {
            interval: self.interval.map(Span::duration),
            policy: self.policy,
            min: self.min_interval.map(Span::duration),
            max: self.max_interval.map(Span::duration),
        }
    }
}

/// Looks at an address, shows the feeds and sitemaps found there, and follows them
///
/// An address may be a feed, a sitemap or any page of a site: then its feed is looked for, and its news
/// sitemap. Several addresses make one source with several channels. Nothing is stored before you say
/// yes. The channels are polled once, with what was read already.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill source add https://example.com
  feedmill source add https://example.com/feed.xml --yes
  feedmill source add https://example.com/rss https://example.com/sitemap.xml --name example")]
pub(super) struct Add {
    /// Addresses of its feeds and sitemaps, or of a page to look for them
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
    /// Adds the addresses as they are, without a look: feeds, or sitemaps when their file names say so
    #[arg(long)]
    no_check: bool,
    /// Looks at the addresses themselves alone, not for feeds around them
    #[arg(long)]
    no_discover: bool,
    /// The addresses are feeds, whatever they are called
    #[arg(long, conflicts_with = "sitemap")]
    feed: bool,
    /// The addresses are sitemaps, whatever they are called
    #[arg(long)]
    sitemap: bool,
    #[command(flatten)]
    flags: set::Flags,
}

impl Add {
    fn wanted(&self) -> Result<Wanted, Failure> {
        let kind = self.feed.then_some(Kind::Feed);
        let (mut urls, mut said) = (self.urls.clone(), self.flags.said());
        if self.flags.wants_home() && !urls.is_empty() {
            // What is read as a page, or has its channels named, is the home page, not a feed.
            said.insert(0, ("url".to_owned(), json!(urls.remove(0))));
        }
        Ok(Wanted {
            urls,
            kind: kind.or_else(|| self.sitemap.then_some(Kind::Sitemap)),
            said,
            access: self.flags.access()?,
        })
    }
}

pub(super) async fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Add(args) => add::run(args, context).await,
        Command::Set(args) => set::run(args, context).await,
        Command::Access(args) => access::run(args, context).await,
        Command::Pace(args) => pace::run(args, context).await,
        Command::Selectors(args) => selectors::run(args, context).await,
        Command::Test(args) => test::run(args, context).await,
        Command::List(args) => show::list(args, context).await,
        Command::Status { all } => status::run(*all, context).await,
        Command::Show { name } => show::show(name, context).await,
        Command::Candidates { name } => candidates::run(name, context).await,
        Command::Diff { name } => diff::run(name, context).await,
        Command::Import(args) => lists::import(args, context).await,
        Command::Sync => lists::sync(context).await,
        Command::Export(args) => lists::export(args, context).await,
        Command::Errors { name, limit } => errors::run(name, *limit, context).await,
        Command::Remove { name, articles, yes } => remove(name, *articles, *yes, context).await,
        Command::Enable { name } => {
            let (store, now) = (context.store().await?, context.clock.now());
            let min_interval = context.load()?.config.schedule.min_interval.duration();
            let source = edit::enable(&*store, name, now, min_interval).await?;
            context.out.done(&source, &format!("{} is followed", source.spec.name))
        }
        Command::Disable { name, reason } => {
            let store = context.store().await?;
            if reason.trim().is_empty() || reason.chars().any(char::is_control) {
                let message = "a reason is one line that says something: give it with --reason";
                return Err(Failure::usage("bad_reason", message));
            }
            let source = store.set_enabled(name, Some(reason.trim().to_owned())).await?;
            context.out.done(&source, &format!("{} is no longer followed", source.spec.name))
        }
    }
}

/// What is to be followed. Said before anything is opened, so that a mistake leaves nothing behind.
fn spec(args: &Add, config: &Config) -> Result<NewSource, Failure> {
    let guard = Guard::new(&config.fetch);
    let permit = |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    let spec = specify(&args.wanted()?, permit)?;
    edit::check_proxy(&guard, &spec.access)?;
    Ok(spec)
}

fn channels(source: &Source) -> String {
    let (feeds, sitemaps) = (source.spec.feed_urls.len(), source.spec.sitemap_urls.len());
    let kinds = [(feeds, "feed"), (sitemaps, "sitemap")];
    let told = kinds.into_iter().filter(|(n, _)| *n > 0);
    let mut told: Vec<_> = told.map(|(n, kind)| text::count(n as u64, kind)).collect();
    if told.is_empty() {
        let home = if source.spec.seeks_channels() { "feeds to be found" } else { "its home page" };
        told.push(home.to_owned());
    }
    told.join(", ")
}

async fn remove(name: &str, articles: bool, yes: bool, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let (source, _) = store.source(name).await?;
    let what = if articles { " and its articles" } else { "" };
    context.out.confirm(yes, &format!("Forget {}{what}", text::one_line(&source.spec.name)))?;
    let (source, withdrawn) = edit::remove(&*store, name, articles).await?;
    let told = match articles {
        true => format!("{} taken back", text::count(withdrawn, "article")),
        false => "its articles stay".to_owned(),
    };
    context.out.done(&source, &format!("{} is forgotten; {told}", source.spec.name))
}
