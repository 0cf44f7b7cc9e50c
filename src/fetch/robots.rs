//! The rules of an address's origin: parsed once and not per page, and asked for on the way where a
//! redirect leads to another origin of the same host, such as from `http` to `https`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use feedmill_formats::robots::Robots;
use feedmill_formats::url as web;
use url::Url;

use super::hold::Step;
use super::hops::Trail;
use super::serve::{Answer, failed};
use super::{Desk, Server};
use crate::db::DbError;
use crate::handle::{self, Reply};
use crate::model::{Code, Kind, Lease, RobotsRef, Verdict};
use crate::store::Store;

/// What all rules in the cache may take, in bytes.
const MAX_CACHE: usize = 32 << 20;
/// What an entry takes besides its rules and the text of its key.
const ENTRY: usize = 200;
/// Comparing a path with more rules than this is work for the desk.
const MANY_RULES: usize = 500;

/// The rules for us, by the copy that they come from; a newer copy is another key.
#[derive(Debug, Default)]
pub struct RobotsCache {
    kept: Mutex<Kept>,
}

/// What the cache holds. The rules that were not used for longest go first.
#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<(RobotsRef, String), Cached>,
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct Cached {
    rules: Arc<Robots>,
    bytes: usize,
    last_use: u64,
}

impl Kept {
    fn get(&mut self, key: &(RobotsRef, String)) -> Option<Arc<Robots>> {
        self.uses += 1;
        let cached = self.entries.get_mut(key)?;
        cached.last_use = self.uses;
        Some(Arc::clone(&cached.rules))
    }

    fn insert(&mut self, key: (RobotsRef, String), rules: Arc<Robots>, limit: usize) {
        let bytes = ENTRY + rules.memory() + key.0.origin.len() + key.1.len();
        if self.bytes + bytes > limit {
            self.shrink(limit / 4 * 3);
        }
        self.uses += 1;
        let cached = Cached { rules, bytes, last_use: self.uses };
        self.bytes += bytes;
        if let Some(before) = self.entries.insert(key, cached) {
            self.bytes -= before.bytes;
        }
    }

    /// Lets the rules go that were not used for longest, until the rest takes no more than this.
    fn shrink(&mut self, limit: usize) {
        let mut uses: Vec<(u64, usize)> =
            self.entries.values().map(|cached| (cached.last_use, cached.bytes)).collect();
        uses.sort_unstable();
        let (mut bytes, mut oldest) = (self.bytes, 0);
        for (last_use, freed) in uses {
            if bytes <= limit {
                break;
            }
            (bytes, oldest) = (bytes - freed, last_use);
        }
        self.entries.retain(|_, cached| cached.last_use > oldest);
        self.bytes = bytes;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RobotsCache {
    /// The rules for `agent` of that copy, or of a newer one.
    pub async fn rules(
        &self,
        store: &dyn Store,
        desk: &Desk,
        copy: &RobotsRef,
        agent: &str,
    ) -> Result<Arc<Robots>, DbError> {
        let key = (copy.clone(), agent.to_owned());
        if let Some(rules) = locked(&self.kept).get(&key) {
            return Ok(rules);
        }
        let verdict = store.robots(&copy.origin).await?.map(|state| state.verdict);
        let rules = read_rules(desk, verdict.unwrap_or(Verdict::AllowAll), agent.to_owned()).await;
        locked(&self.kept).insert(key, Arc::clone(&rules), MAX_CACHE);
        Ok(rules)
    }
}

/// Reads a copy at the desk. A reader that panics rules everything out: what it said is not known.
async fn read_rules(desk: &Desk, verdict: Verdict, agent: String) -> Arc<Robots> {
    let read = move || handle::robots_rules(&verdict).only_for(&agent);
    let rules = desk.work("parsing robots.txt", read).await;
    Arc::new(rules.unwrap_or_else(|_| Robots::parse(b"User-agent: *\nDisallow: /")))
}

impl Server {
    /// The rules that an address is under. `copy` is the one that the lease came with.
    pub(super) async fn rules(
        &self,
        lease: &Arc<Lease>,
        copy: &RobotsRef,
        url: &Url,
        trail: &mut Trail,
    ) -> Result<Arc<Robots>, Reply> {
        let origin = web::origin(url);
        if origin != copy.origin {
            return Box::pin(self.rules_elsewhere(lease, origin, url, trail)).await;
        }
        let agent = &self.house.robots_agent;
        let rules = || self.robots.rules(&*self.store, &self.desk, copy, agent);
        self.hold.until_done(Step::Ask, rules).await.map_err(|error| ours(&error))
    }

    /// The rules of another origin of the lease's host: the kept copy while it is fresh, or else its
    /// robots.txt, asked for under the same lease and kept with the outcome.
    async fn rules_elsewhere(
        &self,
        lease: &Arc<Lease>,
        origin: String,
        url: &Url,
        trail: &mut Trail,
    ) -> Result<Arc<Robots>, Reply> {
        let kept = self.hold.until_done(Step::Ask, || self.store.robots(&origin)).await;
        let kept = kept.map_err(|error| ours(&error))?;
        let asked = trail.robots.as_ref().filter(|fact| fact.origin == origin);
        let now = self.clock.now();
        let fresh = kept.as_ref().filter(|state| state.expires_at > now);
        if let Some(state) = asked.map(|fact| &fact.state).or(fresh) {
            let (verdict, agent) = (state.verdict.clone(), self.house.robots_agent.clone());
            return Ok(read_rules(&self.desk, verdict, agent).await);
        }
        let reply = match self.walk(lease, web::robots_url(url), Kind::Robots, trail).await {
            Answer::Reply(reply) => reply,
            Answer::LeadsTo(..) | Answer::Lost => {
                return Err(failed(Code::HostBusy, "the lease is another's", None));
            }
        };
        let (task, now) = (lease.task.id, self.clock.now());
        let house = Arc::clone(&self.house);
        let rule = move || handle::robots_of(origin, &reply, kept.as_ref(), task, now, &house);
        let ruling = self.desk.work("parsing robots.txt", rule).await;
        let ruling = ruling.map_err(|error| failed(Code::Internal, error.to_string(), None))?;
        trail.advice = ruling.advice;
        let fact = trail.robots.insert(ruling.fact);
        if let Some((detail, until)) = ruling.missing {
            return Err(failed(Code::RobotsUnreachable, detail, Some(until)));
        }
        let asked_for = u64::try_from(fact.crawl_delay_ms.unwrap_or(0)).unwrap_or(0);
        let (verdict, agent) = (fact.state.verdict.clone(), self.house.robots_agent.clone());
        let rules = read_rules(&self.desk, verdict, agent).await;
        trail.slower(&lease.task.host, Duration::from_millis(asked_for));
        Ok(rules)
    }
}

impl Server {
    /// Whether rules let us ask for an address.
    pub(super) async fn allows(&self, rules: Arc<Robots>, url: &Url) -> Result<bool, Reply> {
        let (agent, path) = (self.house.robots_agent.clone(), web::path_and_query(url));
        if rules.len() <= MANY_RULES {
            return Ok(rules.allows(&agent, &path));
        }
        let allowed = self.desk.work("matching robots.txt", move || rules.allows(&agent, &path));
        allowed.await.map_err(|error| failed(Code::Internal, error.to_string(), None))
    }
}

fn ours(error: &DbError) -> Reply {
    failed(Code::Internal, error.to_string(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ts;

    fn rules(host: usize) -> Arc<Robots> {
        let rules: String = (0..30_000).map(|n| format!("Disallow: /{host}/{n}\n")).collect();
        Arc::new(Robots::parse(format!("User-agent: *\n{rules}").as_bytes()).only_for("feedmill"))
    }

    fn key(host: usize) -> (RobotsRef, String) {
        let origin = format!("https://h{host}.example");
        (RobotsRef { origin, fetched_at: Ts::from_ms(1) }, "feedmill".to_owned())
    }

    #[test]
    fn the_cache_is_bounded_in_bytes_and_keeps_what_is_used() {
        let (mut kept, limit) = (Kept::default(), 8 << 20);
        let large = rules(7);
        assert!(large.memory() > 500_000, "{}", large.memory());
        for host in 0..400 {
            kept.insert(key(host), Arc::clone(&large), limit);
            assert!(kept.get(&key(0)).is_some(), "is used all the time: {host}");
            let held: usize = kept.entries.values().map(|cached| cached.bytes).sum();
            assert_eq!(held, kept.bytes);
            assert!(held <= limit, "{held} bytes after {host}");
        }
        assert!(kept.entries.len() > 4 && kept.get(&key(399)).is_some());
        assert!(kept.get(&key(1)).is_none(), "the oldest goes first");
        // The same key again replaces, and one that is larger than all holds no other.
        kept.insert(key(0), Arc::clone(&large), limit);
        kept.insert(key(1), large, 1_000);
        assert_eq!(kept.entries.len(), 1);
    }
}
