//! The way to an answer: whose turn it is to be asked, and where a redirect may lead.
//!
//! Every queue that a lease holds is asked at its own pace, whoever was asked in between. No request
//! goes to a queue that the lease does not hold.

use std::collections::HashMap;
use std::time::Duration;

use feedmill_formats::url as web;
use url::Url;

use super::Server;
use super::hold::Step;
use crate::archive::Retained;
use crate::clock::Clock;
use crate::frontier::{Extension, queue_key};
use crate::model::{Exchange, FetchRecord, HostAdvice, Kind, Lease, RobotsFact, Ts};
use crate::progress::Progress;

/// How long a host that somebody else is asking is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked at meanwhile: its pause apart, within these bounds.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// What is left behind on the way to an answer.
pub(super) struct Trail {
    /// The requests made.
    pub(super) fetches: Vec<FetchRecord>,
    /// The robots.txt of another origin of the host that a redirect led to.
    pub(super) robots: Option<RobotsFact>,
    /// What asking for it means for the host's pace.
    pub(super) advice: Option<HostAdvice>,
    /// Time that is left. The pauses between hops are the hosts' own wish and do not count.
    pub(super) left: Duration,
    /// What came back, until it is committed.
    pub(super) retained: Vec<Retained>,
    /// The queues that the lease holds.
    turns: HashMap<String, Turn>,
}

/// When a queue may be asked, in the clock's time, and the pause that it wants after that.
struct Turn {
    at: Ts,
    pause: Duration,
}

impl Trail {
    pub(super) fn new(left: Duration) -> Self {
        let (fetches, retained) = (Vec::new(), Vec::new());
        Self { fetches, robots: None, advice: None, left, retained, turns: HashMap::new() }
    }

    fn hold(&mut self, queue: &str, at: Ts, pause: Duration) {
        self.turns.insert(queue.to_owned(), Turn { at, pause });
    }

    /// Waits until the queue may be asked; for how long, in the clock's time.
    pub(super) async fn turn_of(
        &self,
        queue: &str,
        clock: &Clock,
        progress: &Progress,
    ) -> Duration {
        let Some(turn) = self.turns.get(queue) else { return Duration::ZERO };
        let wait = turn.at.since(clock.now());
        let _waiting = progress.wait_for_turn();
        clock.sleep_until(turn.at).await;
        wait
    }

    /// The queue was asked, just now.
    pub(super) fn asked(&mut self, queue: &str, clock: &Clock) {
        if let Some(turn) = self.turns.get_mut(queue) {
            turn.at = clock.now().after(turn.pause);
        }
    }

    /// The queue wants a pause of at least this.
    pub(super) fn slower(&mut self, queue: &str, pause: Duration) {
        if let Some(turn) = self.turns.get_mut(queue).filter(|turn| turn.pause < pause) {
            turn.at = turn.at.after(pause.saturating_sub(turn.pause));
            turn.pause = pause;
        }
    }
}

/// Whether a redirect is followed.
pub(super) enum Follow {
    /// It is.
    Yes,
    /// Its target is a task of its own.
    OwnTask,
    /// Its target cannot be asked now, or not before this time.
    Busy(Option<Ts>),
    /// The lease is another's.
    Lost,
}

impl Server {
    /// The way of a lease begins at its own host, which is free.
    pub(super) fn set_out(&self, lease: &Lease) -> Trail {
        let mut trail = Trail::new(self.settings.task_timeout);
        trail.hold(&lease.task.host, self.clock.now(), lease.delay);
        trail
    }

    /// The queue that an address is asked through.
    pub(super) fn queue_of(&self, url: &Url) -> String {
        queue_key(&web::host(url), &self.store.rules().groups).to_owned()
    }

    /// Whether a redirect is followed under this lease. Within the host it is. Feeds and robots.txt
    /// also lead to other hosts, under those hosts' slots; everything that robots.txt rules becomes
    /// a task of its own there, unless its article is to stay at the first address.
    pub(super) async fn follow(
        &self,
        lease: &Lease,
        kind: Kind,
        from: &Url,
        (to, permanent): (&Url, bool),
        trail: &mut Trail,
    ) -> Follow {
        let (house, is_page) = (&self.house, kind == Kind::Article);
        let elsewhere = || web::key(to, &house.key) != lease.task.url_key;
        if is_page && house.redirects.ends(permanent) && elsewhere() {
            return Follow::OwnTask;
        }
        if web::host(to) == web::host(from) {
            return Follow::Yes;
        }
        let stays = is_page && house.redirects.stays(permanent);
        if lease.robots.is_some() && kind != Kind::Robots && !stays {
            return Follow::OwnTask;
        }
        self.borrow(lease, to, trail).await
    }

    /// Takes a slot of the address's host into the lease; one that somebody else is asking is waited
    /// for a little.
    async fn borrow(&self, lease: &Lease, to: &Url, trail: &mut Trail) -> Follow {
        let queue = self.queue_of(to);
        if trail.turns.contains_key(&queue) {
            return Follow::Yes;
        }
        let host = web::host(to);
        let give_up = self.clock.now().after(PATIENCE);
        loop {
            let extend = || self.store.extend(lease.id, &host);
            match self.hold.until_done(Step::Ask, extend).await {
                Ok(Extension::Granted { wait, pause }) => {
                    trail.hold(&queue, self.clock.now().after(wait), pause);
                    return Follow::Yes;
                }
                Ok(Extension::Busy { pause }) => {
                    let look = self.clock.now().after(pause.clamp(LOOKS.0, LOOKS.1));
                    if look > give_up {
                        return Follow::Busy(None);
                    }
                    let _waiting = self.progress.wait_for_turn();
                    self.clock.sleep_until(look).await;
                }
                Ok(Extension::Blocked { until }) => return Follow::Busy(Some(until)),
                Ok(Extension::Stale) => return Follow::Lost,
                Err(error) => {
                    tracing::warn!(%error, "a redirect could not be followed");
                    return Follow::Busy(None);
                }
            }
        }
    }
}

/// Where an answer sends us, without the part that is never sent.
#[must_use]
pub fn redirect_target(exchange: &Exchange, from: &Url) -> Option<Url> {
    if !matches!(exchange.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let mut target = web::join(from, &exchange.headers.text("location")?).ok()?;
    target.set_fragment(None);
    Some(target)
}
