//! Articles as the canonical fetcher keeps them (S4 sections 2, 6 and 8), under its names.
//!
//! | key | what |
//! | --- | --- |
//! | `rss:article_canonical:UID` | the article, for 7 days |
//! | `rss:articles_by_category:CATEGORY` | ids of its articles, each for 7 days |
//! | `rss:article_canonical_index` | ids by time, as long as the article is there |
//! | `rss:canonical_attempted` | ids that were tried, each for 30 days |
//! | `rss:canonical_failures` | `UID:CODE` by time, each for 30 days |
//! | `rss:category_links:CATEGORY` | addresses that feeds have, each for 48 hours |
//! | `rss:times:KEY` | when the members of the set `rss:KEY` came |

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Pipeline;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Server;
use crate::clock::Clock;
use crate::model::{ArticleRow, EventKind, FetchId, Ts, canonical_uid as uid};
use crate::sinks::{About, Bodies, Item, Sink, SinkError, Taken, fetches};

const DAY: Duration = Duration::from_hours(24);
/// How long members of a key stay.
const ARTICLES: Duration = DAY.saturating_mul(7);
const ATTEMPTS: Duration = DAY.saturating_mul(30);
const LINKS: Duration = DAY.saturating_mul(2);
/// The category of what has none.
const NO_CATEGORY: &str = "uncategorized";

/// Writes articles.
pub struct Canonical {
    server: Server,
    /// What keys begin with: `rss:`.
    prefix: String,
    /// Tells how long pages were as they were served.
    bodies: Arc<dyn Bodies>,
    clock: Clock,
    layout: Layout,
}

/// What the cursor remembers: where times of members are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Layout {
    /// In a sorted set with the key of the set and `:at`, which may be the set of another category.
    #[default]
    BesideSets,
    /// Under keys of their own.
    Apart,
}

impl Canonical {
    /// A sink that writes under keys with this prefix.
    #[must_use]
    pub fn new(server: Server, prefix: String, bodies: Arc<dyn Bodies>, clock: Clock) -> Self {
        Self { server, prefix, bodies, clock, layout: Layout::default() }
    }

    /// Brings times that an earlier version wrote beside their sets to keys of their own.
    async fn move_times(&mut self) -> Result<(), SinkError> {
        for start in ["articles_by_category:", "category_links:", "canonical_attempted"] {
            let start = self.key(start);
            for old in self.server.keys(&start).await? {
                let Some(set) = old.strip_suffix(":at") else { continue };
                let mut asked = Pipeline::new();
                asked.cmd("TYPE").arg(&old).cmd("PTTL").arg(&old);
                let mut answers = self.server.run(&asked).await?.into_iter();
                let kind: Option<String> = answers.next().and_then(read);
                let left: Option<i64> = answers.next().and_then(read);
                if kind.as_deref() != Some("zset") {
                    continue;
                }
                let new = self.times(set);
                let mut commands = Pipeline::new();
                commands.atomic().cmd("ZUNIONSTORE").arg(&new).arg(2).arg(&new).arg(&old);
                commands.arg("AGGREGATE").arg("MAX").cmd("DEL").arg(&old);
                if let Some(left) = left.filter(|left| *left > 0) {
                    commands.cmd("PEXPIRE").arg(&new).arg(left);
                }
                self.server.run(&commands).await?;
            }
        }
        Ok(())
    }

    /// The sorted set that knows when the members of a set came.
    fn times(&self, set: &str) -> String {
        self.key(&format!("times:{}", set.strip_prefix(&self.prefix).unwrap_or(set)))
    }

    /// How long the pages of a batch were as they were served, where they are still there.
    async fn lengths(&self, batch: &[Item]) -> Result<HashMap<FetchId, usize>, SinkError> {
        let mut lengths = HashMap::new();
        for fetch in self.bodies.find(&fetches(batch)).await?.values() {
            if let Some(body) = self.bodies.body(fetch).await? {
                lengths.insert(fetch.id, body.bytes.len());
            }
        }
        Ok(lengths)
    }

    /// Writes items, of which those that were taken down are the last.
    async fn write(&mut self, part: &[Item]) -> Result<(), SinkError> {
        let now = self.clock.now();
        let mut out = Batch { lengths: self.lengths(part).await?, ..Batch::default() };
        for item in part {
            self.take(item, now, &mut out);
        }
        if out.commands.cmd_iter().next().is_some() {
            self.server.run(&out.commands).await?;
        }
        self.withdraw(&out.gone).await?;
        self.trim(&out, now).await
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Puts a member into a set, and its time beside it.
    fn member(&self, set: &str, member: &str, (at, span): (Ts, Duration), out: &mut Batch) {
        let (set, times) = (self.key(set), self.times(set));
        out.commands.cmd("SADD").arg(&set).arg(member);
        out.commands.cmd("ZADD").arg(&times).arg("GT").arg(seconds(at)).arg(member);
        // When nothing comes any more, the keys go as a whole.
        for key in [&set, &times] {
            out.commands.cmd("EXPIRE").arg(key).arg(span.as_secs());
        }
        out.keys.insert(times, (span, Some(set)));
    }

    fn take(&self, item: &Item, now: Ts, out: &mut Batch) {
        let at = item.event.at;
        match (&item.about, item.event.kind) {
            (About::Entry(row), EventKind::EntryNew | EventKind::EntryUpdated) => {
                if let Some(link) = &row.entry.canonical_link {
                    for category in categories(item) {
                        self.member(&format!("category_links:{category}"), link, (at, LINKS), out);
                    }
                }
            }
            (About::Article(row, text), _) => self.article(item, row, text, now, out),
            (_, EventKind::ArticleFailed) => {
                let said = |key: &str| item.event.payload.get(key).and_then(|it| it.as_str());
                if let Some((url, failure)) = said("url").zip(said("failure")) {
                    let uid = uid(url);
                    self.member("canonical_attempted", &uid, (at, ATTEMPTS), out);
                    out.ranked(
                        self.key("canonical_failures"),
                        format!("{uid}:{failure}"),
                        at,
                        ATTEMPTS,
                    );
                }
            }
            (_, EventKind::ArticleWithdrawn) => {
                let said = |key: &str| item.event.payload.get(key).and_then(|it| it.as_str());
                for url in [said("url"), said("given_url")].into_iter().flatten() {
                    let uid = uid(url);
                    out.commands.cmd("DEL").arg(self.key(&format!("article_canonical:{uid}")));
                    out.commands.cmd("ZREM").arg(self.key("article_canonical_index")).arg(&uid);
                    out.gone.push((uid, url.to_owned()));
                }
            }
            _ => {}
        }
    }

    fn article(&self, item: &Item, row: &ArticleRow, text: &str, now: Ts, out: &mut Batch) {
        let (at, article) = (item.event.at, &row.article);
        // Its readers look for what feeds gave them, wherever that led.
        let uid = uid(item.trail.given.as_deref().unwrap_or(&article.url));
        self.member("canonical_attempted", &uid, (at, ATTEMPTS), out);
        // What is over its time is not brought back by a delivery from the beginning.
        if at.after(ARTICLES) <= now {
            return;
        }
        let key = self.key(&format!("article_canonical:{uid}"));
        let length = row.fetch.and_then(|fetch| out.lengths.get(&fetch));
        let first = categories(item).first().map(|name| (*name).to_owned()).unwrap_or_default();
        let fields = [
            ("uid", uid.clone()),
            ("url", article.url.clone()),
            ("category", first),
            ("title", article.title.clone().unwrap_or_default()),
            ("raw_len", length.map_or(String::new(), |length| length.to_string())),
            ("text_len", text.chars().count().to_string()),
            ("clean_text", text.to_owned()),
            ("abstract", article.abstract_.clone().unwrap_or_default()),
            ("image", article.lead_image.clone().unwrap_or_default()),
            ("fetched_ts", seconds(at)),
            ("status", "success".to_owned()),
        ];
        let command = out.commands.cmd("HSET").arg(&key);
        for (name, value) in &fields {
            command.arg(name).arg(value);
        }
        out.commands.cmd("PEXPIREAT").arg(&key).arg(at.after(ARTICLES).ms());
        out.ranked(self.key("article_canonical_index"), uid.clone(), at, ARTICLES);
        for category in categories(item) {
            let set = format!("articles_by_category:{category}");
            self.member(&set, &uid, (at, ARTICLES), out);
        }
    }

    /// Takes out of all categories what was taken down: sources come and go, so nobody knows which.
    async fn withdraw(&mut self, gone: &[(String, String)]) -> Result<(), SinkError> {
        if gone.is_empty() {
            return Ok(());
        }
        let uids: Vec<&String> = gone.iter().map(|(uid, _)| uid).collect();
        let urls: Vec<&String> = gone.iter().map(|(_, url)| url).collect();
        for (name, members) in [("articles_by_category:", uids), ("category_links:", urls)] {
            let mut commands = Pipeline::new();
            let keys = self.server.keys(&self.key(name)).await?;
            for key in &keys {
                commands.cmd("SREM").arg(key).arg(&members);
                commands.cmd("ZREM").arg(self.times(key)).arg(&members);
            }
            if !keys.is_empty() {
                self.server.run(&commands).await?;
            }
        }
        Ok(())
    }

    /// Takes members out whose time is over.
    async fn trim(&mut self, touched: &Batch, now: Ts) -> Result<(), SinkError> {
        let mut asked = Pipeline::new();
        for (times, (span, _)) in &touched.keys {
            let limit = seconds(now.before(*span));
            asked.cmd("ZRANGEBYSCORE").arg(times).arg("-inf").arg(limit);
        }
        let over =
            if touched.keys.is_empty() { Vec::new() } else { self.server.run(&asked).await? };
        let mut commands = Pipeline::new();
        let mut any = false;
        for ((times, (span, set)), members) in touched.keys.iter().zip(over) {
            let members: Vec<String> = read(members).unwrap_or_default();
            if members.is_empty() {
                continue;
            }
            any = true;
            if let Some(set) = set {
                commands.cmd("SREM").arg(set).arg(&members);
            }
            let limit = seconds(now.before(*span));
            commands.cmd("ZREMRANGEBYSCORE").arg(times).arg("-inf").arg(limit);
        }
        if any {
            self.server.run(&commands).await?;
        }
        Ok(())
    }
}

/// Commands of a batch, and the keys that they touch.
#[derive(Default)]
struct Batch {
    commands: Pipeline,
    /// How long pages were as they were served.
    lengths: HashMap<FetchId, usize>,
    /// Ids and addresses of what was taken down.
    gone: Vec<(String, String)>,
    /// Sorted sets with how long members stay, and the set that has the same members.
    keys: BTreeMap<String, (Duration, Option<String>)>,
}

impl Batch {
    /// Puts a member into a sorted set.
    fn ranked(&mut self, key: String, member: String, at: Ts, span: Duration) {
        self.commands.cmd("ZADD").arg(&key).arg("GT").arg(seconds(at)).arg(member);
        self.keys.insert(key, (span, None));
    }
}

fn read<T: redis::FromRedisValue>(answer: redis::Value) -> Option<T> {
    redis::from_redis_value(answer).ok()
}

#[async_trait]
impl Sink for Canonical {
    async fn resume(&mut self, state: &serde_json::Value) -> Result<(), SinkError> {
        self.layout = serde_json::from_value(state.clone()).unwrap_or_default();
        Ok(())
    }

    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        if self.layout == Layout::BesideSets {
            self.move_times().await?;
            self.layout = Layout::Apart;
        }
        let is_gone = |item: &Item| item.event.kind == EventKind::ArticleWithdrawn;
        // What came back after it was taken down is not taken out again.
        for part in batch.chunk_by(|one, next| !is_gone(one) || is_gone(next)) {
            self.write(part).await?;
        }
        Ok(Taken { state: json!(self.layout), ..Taken::default() })
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        self.server.check().await
    }
}

/// All categories of an item, at least one.
fn categories(item: &Item) -> Vec<&str> {
    let mut all = item.categories();
    if all.is_empty() {
        all.push(NO_CATEGORY);
    }
    all
}

/// Seconds since the epoch, with their fraction.
fn seconds(at: Ts) -> String {
    format!("{}.{:03}", at.ms().div_euclid(1000), at.ms().rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_seed() {
        // sha1(url).hexdigest()[:16]
        assert_eq!(uid("https://example.com/xyz").len(), 16);
        assert_eq!(uid(""), "da39a3ee5e6b4b0d");
        assert_eq!(seconds(Ts::from_ms(1_500)), "1.500");
    }
}
