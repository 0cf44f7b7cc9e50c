//! `feedmill source import --rehearse`: what following a list would find and cost, before anything is
//! stored.
//!
//! Every host is asked in turn as the engine would ask it; several hosts at a time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use feedmill_formats::discover::How;
use feedmill_formats::rights::Rights;
use feedmill_formats::url::{self as web, KeyRules};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;

use super::super::out::Out;
use super::super::{Context, Failure, text};
use super::add;
use crate::app;
use crate::app::discover::{Look, Scout};
use crate::config::Config;
use crate::handle::listing::Preview;
use crate::model::{FoundChannel, NewSource, Source, Tried, Ts};
use crate::sources::plan::Followed;

/// Hosts that are looked at together.
const TOGETHER: usize = 16;
/// Entries shown of a row.
const SAMPLES: usize = 3;
const DAY: Duration = Duration::from_hours(24);

/// What is known of a row before it is imported.
#[derive(Debug, Serialize)]
struct Row {
    /// Where it stands in the list.
    line: u64,
    name: String,
    url: String,
    /// What would be followed.
    found: Vec<FoundChannel>,
    /// What else the site declares.
    offered: Vec<String>,
    /// Whether its page is read for articles.
    reads_page: bool,
    /// What the page itself would bring, read for articles.
    page: Option<Preview>,
    /// Titles of its newest entries.
    samples: Vec<String>,
    /// What was looked at in vain.
    tried: Vec<Tried>,
    /// Who else has its channels: other rows, and sources that are followed.
    overlaps: Vec<String>,
    /// Polls and pages in a day, as far as the feed's own dates tell.
    requests_per_day: f64,
    /// What robots.txt says about uses of its texts.
    rights: Rights,
}

impl Row {
    /// Whether there is a channel, or a page to be read as the row says.
    fn has_something(&self) -> bool {
        !self.found.is_empty()
            || self.reads_page && self.page.as_ref().is_some_and(|page| page.articles > 0)
    }

    /// What there is, for people.
    fn what(&self) -> String {
        let channel = |it: &FoundChannel| {
            let kind = if it.news { "news sitemap".to_owned() } else { it.kind.to_string() };
            format!("{kind} {} ({})", it.url, text::count(it.items.into(), "item"))
        };
        let mut what: Vec<String> = self.found.iter().map(channel).collect();
        if what.is_empty() && !self.reads_page {
            let why = self.tried.last().map(|tried| tried.why.as_str()).unwrap_or_default();
            what.push(format!("no feed: {why}"));
        }
        if let Some(page) = self.page.as_ref().filter(|_| self.reads_page || self.found.is_empty())
        {
            let count = text::count(page.articles as u64, "article");
            let spelled = page.pattern.as_ref().map(|it| format!(" like {it}")).unwrap_or_default();
            what.push(format!("the page lists {count}{spelled}"));
        }
        what.join(", ")
    }
}

/// All rows, and what they amount to.
#[derive(Debug, Serialize)]
struct Rehearsal {
    rows: Vec<Row>,
    /// Rows with something to follow.
    found: usize,
    /// Expected requests in a day, by host, the busiest first.
    hosts: Vec<(String, f64)>,
    /// Rows that cannot be followed, and why.
    refused: Vec<Refused>,
    /// Rows that a source follows already: nobody was asked for them.
    known: Vec<Known>,
    /// Requests that the rehearsal itself made.
    requests: u32,
}

#[derive(Debug, Serialize)]
struct Refused {
    line: u64,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Known {
    line: u64,
    name: String,
    /// The source that follows it.
    by: String,
}

/// Looks at every source of a list and tells what would come of it, beside what is followed already.
pub(super) async fn run(
    list: Vec<(u64, Result<NewSource, String>)>,
    config: &Config,
    context: &Context,
) -> Result<(), Failure> {
    let store = add::store_if_any(config, context).await?;
    let followed = match &store {
        Some(store) => store.sources().await?,
        None => Vec::new(),
    };
    let scout = Scout::new(config, &context.clock, store, Arc::default())?;
    // The rows of one host one after the other, so that none waits for its turn in vain.
    let mut by_host: BTreeMap<String, Vec<(u64, NewSource)>> = BTreeMap::new();
    let (mut refused, mut known) = (Vec::new(), Vec::new());
    let own = Followed::of(&followed, app::key_rules(config));
    for (line, row) in list {
        match row {
            Err(reason) => {
                context.out.note(&format!("line {line}: {}", text::one_line(&reason)));
                refused.push(Refused { line, reason });
            }
            Ok(new) => match own.who(&new) {
                Some((by, _)) => known.push(Known { line, name: new.name, by: by.clone() }),
                None => {
                    let host = web::parse(&new.url).map(|url| web::host(&url)).unwrap_or_default();
                    by_host.entry(host).or_default().push((line, new));
                }
            },
        }
    }
    let total: usize = by_host.values().map(Vec::len).sum();
    let looks = by_host.into_values().map(|rows| async {
        let mut seen = Vec::new();
        for (at, new) in rows {
            seen.push((at, look(&scout, &new, config).await, new));
        }
        seen
    });
    let mut looked = stream::iter(looks).buffer_unordered(TOGETHER);
    let (mut seen, mut told) = (Vec::with_capacity(total), 0);
    while let Some(of_host) = looked.next().await {
        seen.extend(of_host);
        if seen.len() >= told + 100 || seen.len() == total {
            told = seen.len();
            context.out.note(&format!("looked at {told} of {total}"));
        }
    }
    seen.sort_by_key(|(at, ..)| *at);
    let mut rehearsal = gather(seen, &followed, config, context.clock.now());
    (rehearsal.refused, rehearsal.known) = (refused, known);
    context.out.emit(&rehearsal, |out| told_of(&rehearsal, out))
}

/// One look at what a row names, or for what it does not name.
async fn look(scout: &Scout, new: &NewSource, config: &Config) -> Look {
    let home = Some(&new.url).filter(|_| new.reads_pages());
    let channels = new.feed_urls.iter().chain(&new.sitemap_urls);
    let named: Vec<&String> = channels.chain(home).collect();
    if named.is_empty() {
        return scout.look(&new.url, new.discover && config.discovery.enabled, new).await;
    }
    let mut all = Look::default();
    for url in named {
        let mut one = scout.look(url, false, new).await;
        all.search.found.append(&mut one.search.found);
        all.search.tried.append(&mut one.search.tried);
        all.page = all.page.or(one.page);
        all.rights.and(one.rights);
        for (host, count) in one.requests {
            *all.requests.entry(host).or_default() += count;
        }
        if all.newest.is_empty() {
            (all.newest, all.times) = (one.newest, one.times);
        }
    }
    all
}

fn gather(
    seen: Vec<(u64, Look, NewSource)>,
    followed: &[Source],
    config: &Config,
    now: Ts,
) -> Rehearsal {
    let rules = app::key_rules(config);
    let mut owners: HashMap<String, Vec<String>> = HashMap::new();
    for source in followed {
        for url in source.spec.feed_urls.iter().chain(&source.spec.sitemap_urls) {
            owners.entry(key(url, &rules)).or_default().push(source.spec.name.clone());
        }
    }
    let known = owners.clone();
    for (_, look, new) in &seen {
        for found in &look.search.found {
            owners.entry(key(&found.url, &rules)).or_default().push(new.name.clone());
        }
    }
    let (mut rows, mut hosts, mut requests) = (Vec::new(), BTreeMap::<String, f64>::new(), 0);
    let mut counted = HashSet::new();
    for (line, look, new) in seen {
        requests += look.requests.values().sum::<u32>();
        let mut overlaps = Vec::new();
        for found in &look.search.found {
            let key = key(&found.url, &rules);
            let is_followed = |name: &&String| known.get(&key).is_some_and(|of| of.contains(name));
            let others = owners.get(&key).into_iter().flatten();
            let mut others: Vec<&String> =
                others.filter(|name| **name != new.name || is_followed(name)).collect();
            others.dedup();
            overlaps
                .extend(others.into_iter().map(|name| format!("{} is also {name}'s", found.url)));
        }
        let per_day = expected(&look, &new, config, now);
        let address = look.search.found.first().map_or(&new.url, |it| &it.url);
        // A feed that several rows share is polled once.
        let first = counted.insert(key(address, &rules));
        if let Some(url) = web::parse(address).ok().filter(|_| first) {
            *hosts.entry(web::host(&url)).or_default() += per_day;
        }
        let mut look = look;
        let page = match look.page.take() {
            Some(Ok(page)) => Some(page),
            Some(Err(why)) => {
                look.search.tried.push(Tried { url: new.url.clone(), how: How::Itself, why });
                None
            }
            None => None,
        };
        let title = |entry: &feedmill_formats::feed::Entry| entry.title.clone();
        rows.push(Row {
            line,
            reads_page: new.reads_pages(),
            name: new.name,
            url: new.url,
            offered: look.search.left.iter().map(|left| left.url.clone()).collect(),
            samples: look.newest.iter().filter_map(title).take(SAMPLES).collect(),
            found: look.search.found,
            tried: look.search.tried,
            page,
            overlaps,
            requests_per_day: per_day,
            rights: look.rights,
        });
    }
    let mut hosts: Vec<(String, f64)> = hosts.into_iter().filter(|(_, n)| *n > 0.0).collect();
    hosts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let found = rows.iter().filter(|row| row.has_something()).count();
    Rehearsal { rows, found, hosts, refused: Vec::new(), known: Vec::new(), requests }
}

/// What makes an address the same as another.
fn key(url: &str, rules: &KeyRules) -> String {
    web::parse(url).map_or_else(|_| url.to_owned(), |url| web::key(&url, rules))
}

/// Polls in a day by the interval that would be chosen, and the pages that the feed brings.
fn expected(look: &Look, new: &NewSource, config: &Config, now: Ts) -> f64 {
    let span = look.times.first().zip(look.times.last()).map(|(first, last)| last.since(*first));
    let days = span.map_or(0.0, |span| span.as_secs_f64() / DAY.as_secs_f64());
    let pages = if days > 0.0 { (look.times.len() - 1) as f64 / days } else { 0.0 };
    let polls = look.search.found.iter().map(|found| {
        let interval = app::first_interval(config, new, found.kind, &look.times, now);
        DAY.as_secs_f64() / interval.as_secs_f64().max(1.0)
    });
    polls.sum::<f64>() + pages
}

fn told_of(rehearsal: &Rehearsal, out: &Out) -> String {
    let rows = rehearsal.rows.iter().map(|row| {
        [
            text::one_line(&row.name),
            text::one_line(&row.what()),
            text::one_line(&row.samples.first().cloned().unwrap_or_default()),
            format!("{:.0}", row.requests_per_day.ceil()),
            text::one_line(&row.overlaps.join("; ")),
            if row.rights.is_empty() { String::new() } else { "see --json".to_owned() },
        ]
    });
    let head = ["name", "found", "newest entry", "requests/day", "overlaps", "rights"];
    let table = out.table(head, rows.collect());
    let hosts = rehearsal.hosts.iter().take(10);
    let hosts: Vec<String> =
        hosts.map(|(host, per_day)| format!("\n  {host} {:.0}", per_day.ceil())).collect();
    let sum: f64 = rehearsal.hosts.iter().map(|(_, per_day)| per_day).sum();
    let mut told = format!(
        "{table}\n\n{} of {} have something to follow",
        rehearsal.found,
        text::count(rehearsal.rows.len() as u64, "row"),
    );
    if !hosts.is_empty() {
        told.push_str(&format!(
            "; about {:.0} requests a day on {}, most of them:{}",
            sum.ceil(),
            text::count(rehearsal.hosts.len() as u64, "host"),
            hosts.concat(),
        ));
    }
    for (count, what) in [
        (rehearsal.known.len(), "followed already, and not looked at"),
        (rehearsal.refused.len(), "cannot be followed"),
    ] {
        if count > 0 {
            told.push_str(&format!("\n{}: {what}", text::count(count as u64, "row")));
        }
    }
    let made = text::count(rehearsal.requests.into(), "request");
    format!("{told}\n{made} made to look; nothing was stored")
}
