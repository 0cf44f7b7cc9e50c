//! The truth: which stories exist, when, where, and of what they are copies. Everything follows
//! from the setup and a story's number, so nothing is stored and nothing can drift. No sockets and
//! no clock: callers say what time it is.

use std::collections::HashMap;
use std::ops::Range;

use serde::Serialize;

use crate::Setup;
use crate::markup::{day_path, slug};
use crate::prose::{self, Block, Language};
use crate::publisher::{Addressing, Channel, Publisher};
use crate::rng::{Purpose, Rng};

/// A wire copy appears at least this long after its original.
const COPY_LAG_MS: i64 = 10 * 60_000;
const NEWS_MS: i64 = 48 * 3_600_000;

/// What is true about a story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Story {
    /// Index of its publisher.
    pub publisher: usize,
    /// The canonical URL of its page.
    pub url: String,
    /// Its headline.
    pub title: String,
    /// Paragraphs and subheadings in order, joined by an empty line: what extraction should give.
    pub text: String,
    /// Who wrote it.
    pub authors: Vec<String>,
    /// The section it appeared in.
    pub category: String,
    /// What it is written in.
    pub language: Language,
    /// Visible from this simulated millisecond on, never before.
    pub published_at: i64,
    /// The URL of the story this is a wire copy of.
    pub copy_of: Option<String>,
    /// Channels that name it to a reader who follows them from the start.
    pub reachable_by: Vec<Channel>,
}

/// A story without its body: enough for feeds and lists.
pub(crate) struct Outline {
    pub(crate) number: i64,
    pub(crate) title: String,
    pub(crate) lede: String,
    pub(crate) authors: Vec<String>,
    pub(crate) category: &'static str,
    pub(crate) published_at: i64,
    /// Path and query of the page.
    pub(crate) path: String,
    /// Publisher and number of the original.
    pub(crate) copy_of: Option<(usize, i64)>,
    text_key: [u64; 3],
}

/// All publishers and their stories.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) publishers: Vec<Publisher>,
    hosts: HashMap<String, usize>,
    languages: HashMap<Language, Vec<usize>>,
    starts_at: i64,
    publish_until: Option<i64>,
    syndication: f64,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let publishers: Vec<Publisher> =
            (0..setup.publishers).map(|index| Publisher::new(index, setup)).collect();
        let mut languages: HashMap<Language, Vec<usize>> = HashMap::new();
        for publisher in &publishers {
            languages.entry(publisher.language).or_default().push(publisher.index);
        }
        Self {
            seed: setup.seed,
            hosts: publishers.iter().map(|it| (it.host.clone(), it.index)).collect(),
            publishers,
            languages,
            starts_at: setup.starts_at,
            publish_until: setup.publish_until,
            syndication: setup.syndication,
        }
    }

    pub(crate) fn publisher(&self, host: &str) -> Option<&Publisher> {
        self.publishers.get(*self.hosts.get(host)?)
    }

    /// The numbers of all stories that are visible at `now`.
    pub(crate) fn visible(&self, publisher: &Publisher, now: i64) -> Range<i64> {
        let now = self.publish_until.map_or(now, |until| now.min(until));
        publisher.oldest..publisher.rhythm.next_after(now).max(publisher.oldest)
    }

    pub(crate) fn outline(&self, publisher: &Publisher, number: i64) -> Outline {
        let copy_of = self.original(publisher, number);
        let (source, source_number) = copy_of.unwrap_or((publisher.index, number));
        let text_key = [self.seed, source as u64, source_number as u64];
        let headline = prose::headline(publisher.language, &text_key);
        let published_at = publisher.rhythm.published_at(number);
        let mut outline = Outline {
            number,
            title: headline.title,
            lede: headline.lede,
            authors: headline.authors,
            category: self.category(publisher, number),
            published_at,
            path: String::new(),
            copy_of,
            text_key,
        };
        outline.path = address(publisher, &outline);
        outline
    }

    pub(crate) fn category(&self, publisher: &Publisher, number: i64) -> &'static str {
        let key = [self.seed, publisher.index as u64, number as u64];
        Rng::of(Purpose::Page, &key).pick(&publisher.categories)
    }

    pub(crate) fn body(&self, publisher: &Publisher, outline: &Outline) -> Vec<Block> {
        prose::body(publisher.language, &outline.text_key)
    }

    /// The story that a path and query name, whether it is visible yet or not.
    pub(crate) fn find(&self, publisher: &Publisher, target: &str) -> Option<Outline> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let digits = match publisher.addressing {
            Addressing::Query => query.split('&').find_map(|pair| pair.strip_prefix("id="))?,
            Addressing::NumberFirst => path.strip_prefix("/news/")?.split('/').next()?,
            Addressing::HtmlFile => path.strip_suffix(".html")?.rsplit('-').next()?,
            Addressing::DatedCategory | Addressing::DatedSlash => {
                path.trim_end_matches('/').rsplit('-').next()?
            }
        };
        let number = digits.parse::<i64>().ok()?.checked_sub(1)?.checked_add(publisher.oldest)?;
        // Far beyond any run, and cheap to refuse.
        if !(publisher.oldest..1 << 24).contains(&number) {
            return None;
        }
        let outline = self.outline(publisher, number);
        let (own_path, _) = outline.path.split_once('?').unwrap_or((&outline.path, ""));
        (own_path == path).then_some(outline)
    }

    pub(crate) fn story(&self, publisher: &Publisher, outline: Outline) -> Story {
        let copy_of = outline.copy_of.and_then(|(source, number)| {
            let source = self.publishers.get(source)?;
            Some(source.url(&self.outline(source, number).path))
        });
        Story {
            publisher: publisher.index,
            url: publisher.url(&outline.path),
            text: prose::joined(&self.body(publisher, &outline)),
            category: outline.category.to_owned(),
            language: publisher.language,
            published_at: outline.published_at,
            copy_of,
            reachable_by: self.reachable_by(publisher, &outline),
            title: outline.title,
            authors: outline.authors,
        }
    }

    fn reachable_by(&self, publisher: &Publisher, outline: &Outline) -> Vec<Channel> {
        let reachable = |channel: &Channel| match channel {
            Channel::Feed => outline.number >= -(publisher.window as i64),
            Channel::NewsSitemap => outline.published_at > self.starts_at - NEWS_MS,
            Channel::Archive | Channel::Sitemap | Channel::Listing => true,
        };
        publisher.channels.iter().copied().filter(reachable).collect()
    }

    /// A share of stories is wire copy: the newest story that another publisher of the language had
    /// at that time. Copies are never copied, so an original is always one step away.
    fn original(&self, publisher: &Publisher, number: i64) -> Option<(usize, i64)> {
        let mut draw = self.copy_draw(publisher.index, number)?;
        let colleagues = self.languages.get(&publisher.language)?;
        let source = self.publishers.get(draw.pick(colleagues))?;
        let latest = publisher.rhythm.published_at(number) - COPY_LAG_MS;
        let newest = source.rhythm.next_after(latest) - 1;
        let usable = source.index != publisher.index
            && newest >= source.oldest
            && self.copy_draw(source.index, newest).is_none();
        usable.then_some((source.index, newest))
    }

    fn copy_draw(&self, index: usize, number: i64) -> Option<Rng> {
        let mut draw = Rng::of(Purpose::Copy, &[self.seed, index as u64, number as u64]);
        draw.chance(self.syndication).then_some(draw)
    }
}

/// The stories of the last 48 hours, for the news sitemap.
pub(crate) fn news(publisher: &Publisher, visible: Range<i64>, now: i64) -> Range<i64> {
    let from = publisher.rhythm.next_after(now - NEWS_MS).max(visible.start);
    from.max(visible.end - 1_000).min(visible.end)..visible.end
}

/// Path and query of a story's page.
fn address(publisher: &Publisher, outline: &Outline) -> String {
    let count = outline.number - publisher.oldest + 1;
    let slug = slug(&outline.title);
    let day = day_path(outline.published_at);
    match publisher.addressing {
        Addressing::DatedCategory => format!("/{}/{day}/{slug}-{count}", outline.category),
        Addressing::DatedSlash => format!("/{day}/{slug}-{count}/"),
        Addressing::NumberFirst => format!("/news/{count}/{slug}"),
        Addressing::HtmlFile => format!("/{slug}-{count}.html"),
        Addressing::Query => format!("/story.php?id={count}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn an_address_leads_back_to_its_story(seed: u64, index in 0_usize..20, number in -20_i64..5_000) {
            let setup = Setup { publishers: 20, seed, ..Setup::new(Arc::new(|| 1_772_452_800_000)) };
            let world = World::new(&setup);
            let site = &world.publishers[index];
            let path = world.outline(site, number).path;
            prop_assert_eq!(world.find(site, &path).unwrap().number, number);
            let tracked = format!("{path}{}utm_source=x", if path.contains('?') { '&' } else { '?' });
            prop_assert_eq!(world.find(site, &tracked).unwrap().number, number);
        }

        #[test]
        fn no_path_is_too_strange_to_be_refused(path in "/(news/|story.php\\?id=)?[-a-z0-9/.]{0,40}(.html)?") {
            let setup = Setup { publishers: 20, ..Setup::new(Arc::new(|| 1_772_452_800_000)) };
            let world = World::new(&setup);
            for site in &world.publishers {
                if let Some(found) = world.find(site, &path) {
                    prop_assert!(found.path.starts_with(path.split('?').next().unwrap()));
                }
            }
        }
    }
}
