//! What becomes of the rows of a list: added, known already, or refused, and by what name. Pure.
//!
//! A row is known by its first channel, or by its home page when it names none. So a list can be read
//! again at any time: what is there is left alone.

use std::collections::{HashMap, HashSet};

use feedmill_formats::url::{self, KeyRules, Url};

use super::lists::{Entry, address_of};
use super::{MAX_NAME, specify};
use crate::model::{Admission, NewSource, Source};

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is to be added.
    Add {
        /// What is added.
        new: Box<Admission>,
        /// The name that it would have, had not another source it already.
        instead_of: Option<String>,
    },
    /// A source has it already.
    Known {
        /// The name of that source.
        by: String,
        /// Its address in the row.
        address: String,
    },
    /// It cannot be followed.
    Refused {
        /// Its address in the row, when it has one.
        address: Option<String>,
        /// The stable name of the reason.
        code: &'static str,
        /// Why.
        reason: String,
    },
}

/// A source that has an address, and the label that its articles carry.
#[derive(Clone, Debug)]
struct Has {
    name: String,
    category: Option<String>,
}

/// What is followed, and what it is called.
#[derive(Clone, Debug)]
pub struct Followed {
    rules: KeyRules,
    channels: HashMap<String, Vec<Has>>,
    homes: HashMap<String, Vec<Has>>,
    names: HashSet<String>,
}

impl Followed {
    /// What these sources follow.
    #[must_use]
    pub fn of(sources: &[Source], rules: KeyRules) -> Self {
        let (channels, homes) = (HashMap::new(), HashMap::new());
        let mut followed = Self { rules, channels, homes, names: HashSet::new() };
        for source in sources {
            followed.add(&source.spec);
        }
        followed
    }

    fn add(&mut self, spec: &NewSource) {
        let keys = spec.feed_urls.iter().chain(&spec.sitemap_urls).map(|url| self.key(url));
        let has = Has { name: spec.name.clone(), category: spec.category.clone() };
        for key in keys.collect::<Vec<_>>() {
            self.channels.entry(key).or_default().push(has.clone());
        }
        self.homes.entry(self.key(&spec.url)).or_default().push(has);
        self.names.insert(spec.name.clone());
    }

    /// What makes an address the same as another.
    fn key(&self, address: &str) -> String {
        url::parse(address).map_or_else(|_| address.to_owned(), |url| url::key(&url, &self.rules))
    }

    /// Who has it, and by which address. A feed may stand under several labels: its articles carry all.
    #[must_use]
    pub fn who(&self, spec: &NewSource) -> Option<(&String, String)> {
        let first = spec.feed_urls.first().or_else(|| spec.sitemap_urls.first());
        let (known, address) = match first {
            Some(channel) => (&self.channels, channel),
            None => (&self.homes, &spec.url),
        };
        let known = known.get(&self.key(address))?;
        let same = |has: &&Has| {
            first.is_none() || spec.category.is_none() || has.category == spec.category
        };
        known.iter().find(same).map(|has| (&has.name, address.clone()))
    }

    /// The name, or one that nobody has: with its label or the host of its address, and a number if need
    /// be.
    fn free_name(&self, spec: &NewSource) -> String {
        let NewSource { name, category, .. } = spec;
        if !self.names.contains(name) {
            return name.clone();
        }
        let address = spec.feed_urls.first().unwrap_or(&spec.url);
        let shared = self.channels.contains_key(&self.key(address));
        let host = url::parse(address).map(|url| url::host(&url)).unwrap_or_default();
        // What tells it from the other: the label when the feed is the same, else the host.
        let host = category.clone().filter(|_| shared || *name == host).unwrap_or(host);
        let endings = (2..).map(|n| format!(" ({host} {n})"));
        let endings = std::iter::once(format!(" ({host})")).chain(endings);
        let names = endings.map(|ending| {
            let room = MAX_NAME.saturating_sub(ending.chars().count());
            let start: String = name.chars().take(room).collect();
            format!("{}{ending}", start.trim_end()).chars().take(MAX_NAME).collect::<String>()
        });
        names.take(self.names.len() + 3).find(|name| !self.names.contains(name)).unwrap_or_default()
    }

    /// Decides about a row, and remembers it when it is to be added. `permit` has the last word on an
    /// address.
    pub fn judge(&mut self, entry: &Entry, permit: impl Fn(&Url) -> Result<(), String>) -> Verdict {
        let mut spec = match specify(&entry.wanted(), permit) {
            Ok(spec) => spec,
            Err(error) => {
                let address = address_of(&entry.said).map(|it| url::without_credentials(&it));
                return Verdict::Refused { address, code: error.code(), reason: error.to_string() };
            }
        };
        if let Some((by, address)) = self.who(&spec) {
            return Verdict::Known { by: by.clone(), address };
        }
        let name = self.free_name(&spec);
        let title = std::mem::replace(&mut spec.name, name);
        let instead_of = (title != spec.name).then_some(title);
        self.add(&spec);
        let disabled = entry.disabled.clone();
        let new = Box::new(Admission { spec, disabled, first_poll: None });
        Verdict::Add { new, instead_of }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(said: &[(&str, &str)]) -> Entry {
        let said = said.iter().map(|(name, text)| ((*name).to_owned(), json!(text)));
        Entry { said: said.collect(), disabled: None }
    }

    fn judged(followed: &mut Followed, said: &[(&str, &str)]) -> String {
        match followed.judge(&entry(said), |_| Ok(())) {
            Verdict::Add { new, instead_of: None } => new.spec.name,
            Verdict::Add { new, instead_of: Some(_) } => format!("renamed {}", new.spec.name),
            Verdict::Known { by, .. } => format!("known by {by}"),
            Verdict::Refused { code, .. } => code.to_owned(),
        }
    }

    #[test]
    fn a_name_that_is_taken_gets_the_host_and_then_a_number() {
        let mut followed = Followed::of(&[], KeyRules::default());
        let mut add = |address: &str, title: &str| {
            judged(&mut followed, &[("feed_url", address), ("name", title)])
        };
        assert_eq!(add("http://a.example/1", "News"), "News");
        assert_eq!(add("http://b.example/1", "News"), "renamed News (b.example)");
        assert_eq!(add("http://b.example/2", "News"), "renamed News (b.example 2)");
        assert_eq!(add("http://b.example/3", "News"), "renamed News (b.example 3)");
        let long = "x".repeat(MAX_NAME);
        assert_eq!(add("http://a.example/4", &long), long);
        let renamed = add("http://a.example/5", &long);
        assert!(renamed.ends_with("x (a.example)"), "{renamed}");
    }

    #[test]
    fn a_row_is_known_by_its_channel_or_by_its_home_page() {
        let mut followed = Followed::of(&[], KeyRules::default());
        let mut add = |said: &[(&str, &str)]| judged(&mut followed, said);
        let feed = ("feed_url", "https://a.example/feed");
        assert_eq!(add(&[feed, ("name", "A")]), "A");
        assert_eq!(add(&[("feed_url", "http://a.example/feed/?utm_source=x")]), "known by A");
        assert_eq!(add(&[("url", "https://a.example/")]), "known by A");
        let world = ("category", "world");
        assert_eq!(add(&[feed, world, ("name", "A")]), "renamed A (world)");
        assert_eq!(add(&[feed, world]), "known by A (world)");
        assert_eq!(add(&[("url", "https://a.example/sport")]), "a.example");
        assert_eq!(add(&[("feed_url", "https://a.example/2"), ("name", "B")]), "B");
        assert_eq!(add(&[("url", "ftp://a.example/")]), "url_scheme");
        assert_eq!(add(&[("name", "nothing")]), "no_url");
    }
}
