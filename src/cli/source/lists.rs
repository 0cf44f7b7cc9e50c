//! `feedmill source import` and `export`: sources as OPML.

use std::collections::HashSet;

use feedmill_formats::opml::{self, Opml, Subscription};
use feedmill_formats::url::{self as web, KeyRules, Url};
use serde::Serialize;

use super::super::{Context, Failure, document, text};
use super::rehearse;
use crate::app;
use crate::fetch::Guard;
use crate::model::{Kind, Source};
use crate::sources::{MAX_NAME, Wanted, specify};
use crate::store::SourceError;

/// What became of the feeds of a list.
#[derive(Debug, Default, Serialize)]
struct Imported {
    /// The names of the sources that were added.
    added: Vec<String>,
    /// How many were followed already.
    known: u64,
    /// Those that could not have their title for a name.
    renamed: Vec<String>,
    /// What was left out, and why.
    refused: Vec<String>,
    /// Whether the list ends too early.
    truncated: bool,
}

/// What is followed and what it is called.
struct Followed {
    rules: KeyRules,
    addresses: HashSet<String>,
    names: HashSet<String>,
}

impl Followed {
    fn of(sources: &[Source], rules: KeyRules) -> Self {
        let urls =
            sources.iter().flat_map(|it| it.spec.feed_urls.iter().chain(&it.spec.sitemap_urls));
        let addresses = urls.map(|url| key(url, &rules)).collect();
        let names = sources.iter().map(|source| source.spec.name.clone()).collect();
        Self { rules, addresses, names }
    }

    fn has(&self, address: &str) -> bool {
        self.addresses.contains(&key(address, &self.rules))
    }

    fn add(&mut self, address: &str, name: &str) {
        self.addresses.insert(key(address, &self.rules));
        self.names.insert(name.to_owned());
    }

    /// The name, or one that nobody has: with the host of the feed, and a number if need be.
    fn free_name(&self, name: &str, address: &str) -> String {
        let host = web::parse(address).map(|url| web::host(&url)).unwrap_or_default();
        let endings = (2..).map(|n| format!(" ({host} {n})"));
        let endings = [String::new(), format!(" ({host})")].into_iter().chain(endings);
        let names = endings.map(|ending| {
            let room = MAX_NAME.saturating_sub(ending.chars().count());
            let start: String = name.chars().take(room).collect();
            format!("{}{ending}", start.trim_end()).chars().take(MAX_NAME).collect::<String>()
        });
        names.take(self.names.len() + 3).find(|name| !self.names.contains(name)).unwrap_or_default()
    }
}

/// What makes an address the same as another.
fn key(address: &str, rules: &KeyRules) -> String {
    web::parse(address).map_or_else(|_| address.to_owned(), |url| web::key(&url, rules))
}

/// Adds a source for each feed of a list; those that are followed already are left alone.
pub(super) async fn import(file: &str, rehearse: bool, context: &Context) -> Result<(), Failure> {
    let body = document::local(file)?;
    let list =
        opml::parse(&body).map_err(|error| Failure::failed(error.code(), error.to_string()))?;
    let config = context.load()?.config;
    let guard = Guard::new(&config.fetch);
    let permit = |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    if rehearse {
        let specs = list.feeds.iter().filter_map(|feed| specify(&wanted(feed), permit).ok());
        return rehearse::run(specs.collect(), &config, context).await;
    }
    let store = context.store_or_new().await?;
    let mut followed = Followed::of(&store.sources().await?, app::key_rules(&config));
    let mut done = Imported { truncated: list.truncated, ..Imported::default() };
    for feed in &list.feeds {
        let spec = match specify(&wanted(feed), permit) {
            Ok(spec) => spec,
            Err(error) => {
                done.refused.push(told_of(&feed.feed_url, &error.to_string()));
                continue;
            }
        };
        if followed.has(&feed.feed_url) {
            done.known += 1;
            continue;
        }
        let title = spec.name.clone();
        let name = followed.free_name(&title, &feed.feed_url);
        match store.add_source(crate::model::NewSource { name, ..spec }).await {
            Ok(source) => {
                let name = source.spec.name;
                followed.add(&feed.feed_url, &name);
                if name != title {
                    done.renamed.push(format!("{name}: {title} is the name of another source"));
                }
                if let Some(more) = feed.categories.get(1..).filter(|more| !more.is_empty()) {
                    let more = more.join(", ");
                    done.refused
                        .push(format!("{name}: a source has one category, not also {more}"));
                }
                done.added.push(name);
            }
            Err(SourceError::NameTaken(name)) => {
                let reason = format!("{name} was taken as a name meanwhile; import the list again");
                done.refused.push(told_of(&feed.feed_url, &reason));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if list.left_out > 0 {
        let feeds = text::count(list.left_out as u64, "feed");
        done.refused.push(format!("{feeds} beyond the most that a list may have"));
    }
    context.out.emit(&done, |_| done.told())
}

fn wanted(feed: &Subscription) -> Wanted {
    let label = |text: &String| text.chars().take(MAX_NAME).collect();
    Wanted {
        urls: vec![feed.feed_url.clone()],
        name: feed.title.as_ref().map(label),
        kind: Some(Kind::Feed),
        category: feed.categories.first().map(label),
        ..Wanted::default()
    }
}

/// A reason with the address that it is about.
fn told_of(address: &str, reason: &str) -> String {
    let address = web::without_credentials(address);
    if reason.contains(&address) { reason.to_owned() } else { format!("{address}: {reason}") }
}

impl Imported {
    fn told(&self) -> String {
        let added = text::count(self.added.len() as u64, "source");
        let mut told = format!("{added} added, {} followed already", self.known);
        let renamed = self.renamed.iter().map(|line| ("renamed", line));
        let refused = self.refused.iter().map(|line| ("left out", line));
        for (what, line) in renamed.chain(refused) {
            told.push_str(&format!("\n{what}: {}", text::one_line(line)));
        }
        if self.truncated {
            told.push_str("\nwarning: the list ends too early, what follows is missing");
        }
        told
    }
}

/// Prints the feeds of all sources as OPML.
pub(super) async fn export(context: &Context) -> Result<(), Failure> {
    let sources = context.store().await?.sources().await?;
    let feeds = sources.iter().flat_map(|source| {
        source.spec.feed_urls.iter().map(|feed_url| Subscription {
            title: Some(source.spec.name.clone()),
            feed_url: feed_url.clone(),
            home_url: Some(source.spec.url.clone()),
            categories: source.spec.category.iter().cloned().collect(),
        })
    });
    let title = Some("Feedmill".to_owned());
    let list = Opml { title, feeds: feeds.collect(), ..Opml::default() };
    context.out.emit(&list, |_| list.write())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_the_host_and_then_a_number() {
        let mut followed = Followed::of(&[], KeyRules::default());
        let mut add = |address: &str, title: &str| {
            assert!(!followed.has(address), "{address}");
            let name = followed.free_name(title, address);
            followed.add(address, &name);
            assert!(followed.has(address) && name.chars().count() <= MAX_NAME, "{name}");
            name
        };
        assert_eq!(add("http://a.example/1", "News"), "News");
        assert_eq!(add("http://b.example/1", "News"), "News (b.example)");
        assert_eq!(add("http://b.example/2", "News"), "News (b.example 2)");
        assert_eq!(add("http://b.example/3", "News"), "News (b.example 3)");
        let long = "x".repeat(MAX_NAME);
        assert_eq!(add("http://a.example/4", &long), long);
        assert!(add("http://a.example/5", &long).ends_with("x (a.example)"));
    }
}
