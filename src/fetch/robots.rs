//! The rules of an address's origin: parsed once and not per page, and asked for on the way where a
//! redirect leads to another origin of the same host, such as from `http` to `https`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use feedmill_formats::robots::Robots;
use feedmill_formats::url as web;
use url::Url;

use super::Server;
use super::hold::Step;
use super::hops::Trail;
use super::serve::{Answer, failed};
use crate::db::DbError;
use crate::handle::{self, Reply};
use crate::model::{Code, Kind, Lease, RobotsRef, Verdict};
use crate::store::Store;

/// Copies kept at the most; when full, all are let go and read again as needed.
const MOST: usize = 1_000;

/// Rules by the copy that they come from; a newer copy is another key.
#[derive(Debug, Default)]
pub struct RobotsCache {
    kept: Mutex<HashMap<RobotsRef, Arc<Robots>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RobotsCache {
    /// The rules of that copy, or of a newer one.
    pub async fn rules(&self, store: &dyn Store, copy: &RobotsRef) -> Result<Arc<Robots>, DbError> {
        if let Some(rules) = locked(&self.kept).get(copy) {
            return Ok(Arc::clone(rules));
        }
        let text = match store.robots(&copy.origin).await?.map(|state| state.verdict) {
            Some(Verdict::Rules(text)) => text,
            Some(Verdict::AllowAll) | None => String::new(),
        };
        let rules = Arc::new(Robots::parse(text.as_bytes()));
        let mut kept = locked(&self.kept);
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(copy.clone(), Arc::clone(&rules));
        Ok(rules)
    }
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
        let rules = || self.robots.rules(&*self.store, copy);
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
            return Ok(Arc::new(handle::robots_rules(&state.verdict)));
        }
        let reply = match self.walk(lease, web::robots_url(url), Kind::Robots, trail).await {
            Answer::Reply(reply) => reply,
            Answer::LeadsTo(..) | Answer::Lost => {
                return Err(failed(Code::HostBusy, "the lease is another's", None));
            }
        };
        let (task, now) = (lease.task.id, self.clock.now());
        let ruling = handle::robots_of(origin, &reply, kept.as_ref(), task, now, &self.house);
        trail.advice = ruling.advice;
        let fact = trail.robots.insert(ruling.fact);
        if let Some((detail, until)) = ruling.missing {
            return Err(failed(Code::RobotsUnreachable, detail, Some(until)));
        }
        let asked_for = u64::try_from(fact.crawl_delay_ms.unwrap_or(0)).unwrap_or(0);
        let rules = Arc::new(handle::robots_rules(&fact.state.verdict));
        trail.slower(&lease.task.host, Duration::from_millis(asked_for));
        Ok(rules)
    }
}

fn ours(error: &DbError) -> Reply {
    failed(Code::Internal, error.to_string(), None)
}
