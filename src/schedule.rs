//! When to come back. Pure: the same facts give the same time, with a reason that people can read.
//!
//! A poll that went well teaches what the feed publishes, and a policy chooses the next one:
//! [`PollPolicy::Value`] weighs expected delay against the price of a request, [`PollPolicy::Ewma`] follows the
//! time between items, [`PollPolicy::Fixed`] the operator. Publishers' wishes can only make it later.
//! Failures wait as one table says and teach nothing. Every wait is spread a little by a hash of
//! the task and the time, so that nothing aligns and everything can be replayed.

mod budget;
mod ewma;
mod health;
mod hints;
mod pace;
mod profile;
mod reason;
mod state;
mod templates;
mod value;
mod waits;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::model::{Class, Code, Kind, PollPolicy, TaskId, Ts};

pub use budget::{FIRST_PRICE, Made, Price, Rates};
pub use ewma::{Factors, RECENT};
pub use health::{Signs, judge, overflowed};
pub use hints::{Document, Hints};
pub use reason::human;
use reason::{Grounds, Reason};
pub use state::State;
pub use value::{Bounds, Found};
use waits::grown;
pub use waits::{Backoff, OnPermanent, OnThreshold, Waits};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// Who asks for a longer pause is left alone, and the operator is told.
const WEEK: Duration = Duration::from_hours(7 * 24);
/// A poll that came late by half its interval comes out of a backlog: the next one moves by up to this
/// share, so that what piled up does not come back as one heap.
const BACKLOG: f64 = 0.5;
/// A poll that had to wait for quiet hours to end comes within this many seconds after.
const AFTER_SKIP: u32 = 600;

/// How recurring tasks are polled and failures waited out.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How the next poll is chosen where the source does not say.
    pub choose: PollPolicy,
    /// Between two polls of a feed under `fixed`, and the first one under `ewma`.
    pub feed_interval: Duration,
    /// Between two polls of a sitemap, until it has shown what it yields.
    pub sitemap_interval: Duration,
    /// Never sooner.
    pub min_interval: Duration,
    /// Never later.
    pub max_interval: Duration,
    /// Polls move by up to this share of their interval.
    pub jitter: f64,
    /// Whether that never makes an interval shorter than the least one.
    pub jitter_respects_min: bool,
    /// How `ewma` moves.
    pub ewma: Factors,
    /// How failures are waited out.
    pub waits: Waits,
    /// Whether a page is given up at its first failure.
    pub once: bool,
    /// Failed attempts after which a page is given up.
    pub retries: u32,
    /// The first wait after a page failed; it doubles with each.
    pub retry_first: Duration,
    /// The longest such wait.
    pub retry_cap: Duration,
    /// What the spreading of polls depends on besides task and time.
    pub seed: u64,
}

/// When, and why then.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When to come back.
    pub at: Ts,
    /// The interval chosen, before it was spread.
    pub interval: Duration,
    /// Why, for people.
    pub reason: String,
}

/// A recurring task at the moment when its next poll is planned.
#[derive(Clone, Copy, Debug)]
pub struct Poll<'a> {
    /// Which task.
    pub task: TaskId,
    /// Feed or sitemap.
    pub kind: Kind,
    /// The operator's fixed interval.
    pub explicit: Option<Duration>,
    /// How its source wants polls to be chosen.
    pub policy: Option<PollPolicy>,
    /// Its source's own shortest and longest interval, in place of the house's.
    pub limits: (Option<Duration>, Option<Duration>),
    /// When the poll was planned for.
    pub due: Ts,
    /// When the poll was made.
    pub at: Ts,
    /// What is remembered.
    pub state: &'a State,
    /// The price of a request, in item-seconds.
    pub price: f64,
}

/// How a poll failed, as far as the next one depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFailure {
    /// The class of waits that it belongs to.
    pub code: Code,
    /// The HTTP status, when the server answered: only 429 teaches a longer interval.
    pub status: Option<u16>,
    /// The time that `Retry-After` names.
    pub told: Option<Ts>,
    /// Whether it names a later one than is kept to.
    pub capped: bool,
    /// How long the response says that it stays fresh.
    pub fresh: Option<Duration>,
    /// Failures of this code in a row, this one counted.
    pub in_a_row: u32,
}

impl PollFailure {
    /// A failure of which only the code is known.
    #[must_use]
    pub const fn new(code: Code) -> Self {
        Self { code, status: None, told: None, capped: false, fresh: None, in_a_row: 1 }
    }
}

/// What a failed poll leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// What is remembered from now on.
    pub state: State,
    /// When to ask again; `None` when waiting does not help.
    pub next: Option<Decision>,
}

/// Two numbers stirred into one that looks random and depends on nothing else.
#[must_use]
pub(crate) const fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_add(0x632b_e59b_d9b4_e019);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Whole seconds, as states have them.
fn seconds(at: Ts) -> u32 {
    u32::try_from(at.ms().max(0) / 1000).unwrap_or(u32::MAX)
}

fn whole(span: Duration) -> u32 {
    u32::try_from(span.as_secs()).unwrap_or(u32::MAX)
}

/// An interval on its way through the hints.
struct Choice {
    interval: u32,
    grounds: Grounds,
    /// The interval at which the document overflows.
    guarded: Option<u32>,
    /// What else kept it from being shorter or longer.
    edge: &'static str,
    longest: u32,
}

impl Policy {
    /// Between which intervals the policy chooses.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let min = whole(self.min_interval);
        Bounds { min, max: whole(self.max_interval).max(min) }
    }

    /// The same for a channel whose source may have limits of its own.
    fn bounds_of(&self, poll: &Poll<'_>) -> Bounds {
        let house = self.bounds();
        let (min, max) = (poll.limits.0.map_or(house.min, whole), poll.limits.1.map(whole));
        Bounds { min, max: max.unwrap_or(house.max).max(min) }
    }

    /// The interval of a kind that nobody said anything about.
    const fn usual(&self, kind: Kind) -> Duration {
        match kind {
            Kind::Feed => self.feed_interval,
            // A page has a shortest interval of its own, which is longer.
            Kind::Listing => self.min_interval,
            _ => self.sitemap_interval,
        }
    }

    /// When to poll again after a poll that went well, and what is remembered from now on.
    #[must_use]
    pub fn next_poll(
        &self,
        poll: &Poll<'_>,
        found: &Found<'_>,
        hints: &Hints,
    ) -> (State, Decision) {
        let mut state = *poll.state;
        if state.disabled {
            state.forgive();
        }
        state.note(false);
        pace::fade(&mut state, seconds(poll.at), self.bounds_of(poll).min);
        if let Some(document) = hints.document {
            document.keep(&mut state);
        }
        value::learn(&mut state, found, self.salt(poll.task));
        if poll.kind != Kind::Feed {
            // Only a feed loses what it cannot hold.
            state.window = 0;
        }
        let choice = self.choose(poll, &mut state, found);
        let decision = self.settle(poll, &state, &choice, hints);
        state.interval = whole(decision.interval);
        (state, decision)
    }

    /// Whether a channel's polls follow the price of a request.
    #[must_use]
    pub fn follows_price(&self, poll: &Poll<'_>, state: &State) -> bool {
        poll.explicit.is_none()
            && poll.policy.unwrap_or(self.choose) == PollPolicy::Value
            && !state.pushed
            && (poll.kind == Kind::Feed || state.last_item > 0)
    }

    fn choose(&self, poll: &Poll<'_>, state: &mut State, found: &Found<'_>) -> Choice {
        let bounds = self.bounds_of(poll);
        let plain = |interval: u32, grounds| Choice {
            interval: interval.clamp(bounds.min, bounds.max),
            grounds,
            guarded: None,
            edge: match interval {
                _ if interval < bounds.min => "min",
                _ if interval > bounds.max => "max",
                _ => "none",
            },
            longest: bounds.max,
        };
        let usual = self.usual(poll.kind);
        let named = match poll.kind {
            Kind::Feed => "the default interval",
            _ => "the default interval of its kind",
        };
        match (poll.explicit, poll.policy.unwrap_or(self.choose)) {
            (Some(interval), _) => {
                plain(whole(interval), Grounds::Fixed("the source's own interval"))
            }
            _ if state.pushed => plain(bounds.max, Grounds::Fixed("a hub tells of news")),
            (None, PollPolicy::Fixed) => plain(whole(usual), Grounds::Fixed(named)),
            (None, PollPolicy::Value) if poll.kind != Kind::Feed && state.last_item == 0 => {
                plain(whole(usual), Grounds::Fixed("nothing is known of its yield yet"))
            }
            (None, PollPolicy::Ewma) => {
                let (interval, why) = ewma::step(state, found, whole(usual), bounds, &self.ewma);
                plain(interval, Grounds::Ewma { why, smoothed: state.ewma })
            }
            (None, PollPolicy::Value) => {
                // Whoever names a longest interval means it.
                let fades = poll.limits.1.is_none();
                let (plan, longest) = value::plan(state, poll.price, bounds, fades);
                Choice {
                    interval: plan.interval,
                    guarded: plan.guarded.then_some(plan.interval),
                    edge: plan.edge,
                    grounds: Grounds::Value { plan, n: state.n, price: poll.price },
                    longest,
                }
            }
        }
    }

    /// Lets the hints have their say, and spreads the poll.
    fn settle(&self, poll: &Poll<'_>, state: &State, choice: &Choice, hints: &Hints) -> Decision {
        let overflow = |longest| value::overflow(state, longest);
        let (floor, hint) = match poll.explicit {
            // The operator's interval counts more than hints, but not more than what 429s taught.
            Some(_) => pace::floor(state, overflow),
            None => hints::floor(state, hints, choice.guarded, overflow),
        };
        let floor = if hint == "retry-after" { floor } else { floor.min(choice.longest) };
        let interval = choice.interval.max(floor);
        // What the guard leaves of a floor is a latest time: polls spread below it.
        let floor = if hint == "guard" { choice.interval } else { floor };
        let bound = match choice.guarded {
            _ if interval > choice.interval => hint,
            Some(_) => "guard",
            None => choice.edge,
        };
        let (start, luck) = (seconds(poll.at), self.luck(poll.task, poll.at));
        let late = whole(poll.at.since(poll.due)) >= interval / 2;
        let share = if late { self.jitter.max(BACKLOG) } else { self.jitter };
        let later = (f64::from(interval) * share * luck) as u32;
        // At the longest interval, or the longest that loses nothing, polls spread below it.
        let spread = if !self.jitter_respects_min {
            (f64::from(interval) * (1.0 + share * (2.0 * luck - 1.0))).max(floor.into()) as u32
        } else if interval + later > choice.longest.max(floor) || bound == "guard" {
            (interval - later).max(floor).max(self.bounds_of(poll).min)
        } else {
            interval + later
        };
        let at = start.saturating_add(spread);
        let (at, skipped) = self.out_of_skip(state, at, luck);
        let bound = if skipped { "skip" } else { bound };
        let before = (poll.state.interval > 0).then_some(poll.state.interval);
        Decision {
            at: poll.at.after(Duration::from_secs(u64::from(at - start))),
            interval: Duration::from_secs(u64::from(interval)),
            reason: Reason { wait: at - start, before, at, grounds: &choice.grounds, bound }
                .to_string(),
        }
    }

    /// The first instant that the publisher does not ask to leave out, and whether it is later.
    fn out_of_skip(&self, state: &State, at: u32, luck: f64) -> (u32, bool) {
        let open = hints::allowed(state.skip, at);
        if open > at { (open + (f64::from(AFTER_SKIP) * luck) as u32, true) } else { (at, false) }
    }

    /// When to ask again for a recurring task whose poll failed. A time that the server named is
    /// kept to the letter.
    #[must_use]
    pub fn after_failure(&self, poll: &Poll<'_>, failure: &PollFailure) -> Failed {
        let PollFailure { code, told, fresh, .. } = *failure;
        let mut state = *poll.state;
        if code == Code::RateLimited && failure.status == Some(429) {
            let pause = told.map_or(0, |told| whole(told.since(poll.at)));
            pace::learn(&mut state, seconds(poll.at), pause);
        }
        state.note(true);
        // The end of an outage is often a 503: what failed before it says nothing about our pace.
        let failures = match code.is_counted_alone() {
            true => failure.in_a_row,
            false => state.failures(),
        };
        let interval = match (poll.explicit, state.interval) {
            (Some(explicit), _) => explicit,
            (None, 0) => self.usual(poll.kind),
            (None, interval) => Duration::from_secs(u64::from(interval)),
        };
        let flaps = state.flaps();
        let longest = Duration::from_secs(u64::from(self.bounds_of(poll).max));
        let Some(mut ruled) = self.waits.after(code, failures, flaps, interval, longest) else {
            return Failed { state, next: None };
        };
        match self.waits.then {
            OnThreshold::KeepRetrying if ruled.disabled => {
                ruled = waits::Wait { wait: ruled.wait.min(DAY), disabled: false };
            }
            OnThreshold::Disable if ruled.disabled => {
                state.disabled = true;
                return Failed { state, next: None };
            }
            _ => {}
        }
        // Nobody should wait that long without knowing.
        ruled.disabled |= failure.capped || told.is_some_and(|told| told.since(poll.at) > WEEK);
        state.disabled |= ruled.disabled;
        // A retry is a request like any other: it keeps the interval that 429s taught.
        let learned = pace::floor(&state, |longest| value::overflow(&state, longest)).0;
        let least = hints::fresh(fresh).max(learned);
        let wait = ruled.wait.max(Duration::from_secs(u64::from(least)));
        let mut next = self.wait(poll.task, poll.at, wait, code, failures, told);
        let at = seconds(next.at);
        let (open, skipped) = self.out_of_skip(&state, at, self.luck(poll.task, poll.at));
        if skipped {
            next.at = next.at.after(Duration::from_secs(u64::from(open - at)));
            let wait = human(next.at.since(poll.at));
            next.reason = format!("{code}: attempt {failures} failed, again in {wait}; bound=skip");
        }
        if ruled.disabled {
            next.reason.push_str("; disabled: only probed until a probe goes well");
        }
        Failed { state, next: Some(next) }
    }

    /// When to ask again for what nobody remembers anything of, after so many failures in a row.
    #[must_use]
    pub fn after_failures(
        &self,
        task: TaskId,
        at: Ts,
        code: Code,
        failures: u32,
        told: Option<Ts>,
    ) -> Option<Decision> {
        let wait = self.waits.plain(code, failures, self.feed_interval, self.max_interval)?;
        Some(self.wait(task, at, wait, code, failures, told))
    }

    /// When to ask again for a page after `attempts` failed ones; `None` when it is given up.
    #[must_use]
    pub fn retry_page(
        &self,
        task: TaskId,
        at: Ts,
        code: Code,
        attempts: u32,
        told: Option<Ts>,
    ) -> Option<Decision> {
        let limited = code.class() == Class::RateLimited;
        if self.once || !code.is_transient() || (attempts > self.retries && !limited) {
            return None;
        }
        let cap = if limited { DAY } else { self.retry_cap };
        let wait = grown(self.retry_first, attempts.saturating_sub(1), 2.0, cap);
        Some(self.wait(task, at, wait, code, attempts, told))
    }

    fn wait(
        &self,
        task: TaskId,
        at: Ts,
        wait: Duration,
        code: Code,
        failures: u32,
        told: Option<Ts>,
    ) -> Decision {
        if let Some(told) = told.filter(|told| *told > at) {
            return Decision {
                at: told,
                interval: told.since(at),
                reason: format!("{code}: the server asked to come back at {told}"),
            };
        }
        let spread = wait + wait.mul_f64(0.1 * self.luck(task, at));
        Decision {
            at: at.after(spread),
            interval: wait,
            reason: format!("{code}: attempt {failures} failed, again in {}", human(spread)),
        }
    }

    const fn salt(&self, task: TaskId) -> u64 {
        mix(self.seed, task.0.cast_unsigned())
    }

    /// A number in 0..1 that depends on nothing but seed, task and time.
    fn luck(&self, task: TaskId, at: Ts) -> f64 {
        let stirred = mix(self.salt(task), at.ms().cast_unsigned());
        (stirred >> 11) as f64 / (1u64 << 53) as f64
    }
}
