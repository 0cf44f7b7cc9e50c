//! Whether a page that was read is asked for again, and when.
//!
//! Says what the operator's policy means for one page. It never looks at what a page says: whether
//! something changed is for the publisher's dates and validators to tell.

use std::time::Duration;

use super::House;
use crate::model::{Lease, Next, Refetch, RefetchPolicy, Ts, Website};

/// The policy where a source has none, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Refetching {
    /// Whether pages are asked for again.
    pub policy: RefetchPolicy,
    /// Least time between two requests for a page.
    pub interval: Duration,
    /// How often a page is asked for again at the most.
    pub times: u32,
}

fn policy(lease: &Lease, house: &House) -> RefetchPolicy {
    let own = lease.source.as_ref().and_then(|source| source.spec.refetch);
    own.unwrap_or(house.refetch.policy)
}

/// How often a page is read that is all of its source: as often as a channel would be polled.
pub(super) fn of_direct(lease: &Lease, house: &House) -> Option<Duration> {
    let spec = &lease.source.as_ref()?.spec;
    let is_home = spec.website == Some(Website::Direct) && lease.task.depth == 0;
    let interval = spec.poll_interval.or(spec.min_interval).unwrap_or(house.policy.feed_interval);
    (is_home && lease.task.url == spec.url).then(|| {
        interval.max(house.policy.min_interval).min(house.policy.max_interval.max(interval))
    })
}

/// Where a page goes that was read, or that did not change.
pub(super) fn after_reading(lease: &Lease, at: Ts, house: &House) -> Next {
    if let Some(interval) = of_direct(lease, house) {
        return Next::Again { at: at.after(interval) };
    }
    let Refetching { interval, times, .. } = house.refetch;
    if policy(lease, house) == RefetchPolicy::Interval && lease.task.fetch_count < times {
        Next::Again { at: at.after(interval) }
    } else {
        Next::Fetched
    }
}

/// What it means for a page that its feed or sitemap dates its last change. A date in the future is
/// no fact.
pub(super) fn on_change(
    lease: &Lease,
    changed: Option<Ts>,
    at: Ts,
    house: &House,
) -> Option<Refetch> {
    let changed = changed.filter(|changed| *changed <= at)?;
    let Refetching { interval: after, times: most, .. } = house.refetch;
    let follows = policy(lease, house) == RefetchPolicy::OnLastmodNewer;
    follows.then_some(Refetch { changed, after, most })
}
