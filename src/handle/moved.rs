//! A feed's own address: when it has moved for good. Pure.
//!
//! One permanent redirect proves little: sites put them up by mistake and during maintenance. Only
//! when many polls over days were all sent to the same place for good, and what is there is the feed
//! that we know, its address changes. A temporary redirect begins the count anew. Whether it is that feed
//! shows the first time: later its entries are known because they were read there.

use std::time::Duration;

use serde_json::json;

use super::Carried;
use crate::model::{EventKind, FeedState, Kind, Lease, Moved, Moving, NewEvent, NewTask, Ts};

/// Polls in a row that have to be sent to the same place.
const POLLS: u32 = 10;
/// For so long at least.
const FOR: Duration = Duration::from_hours(6 * 24);

/// Counts a poll that went well, and concludes. `is_ours`: what was there is known to be this feed.
pub(super) fn watch(
    lease: &Lease,
    state: &mut FeedState,
    carried: &Carried,
    is_ours: bool,
    at: Ts,
) -> Option<Moved> {
    if lease.task.kind != Kind::Feed {
        return None;
    }
    let before = state.moving.take();
    let foreign = |moving: &Moving| moving.polls == 0;
    if !carried.for_good || carried.final_url == lease.task.url {
        state.moving = before.filter(foreign);
        return None;
    }
    let same = before.filter(|moving| moving.to == carried.final_url);
    let moving = match same {
        Some(moving) if foreign(&moving) => moving,
        Some(moving) => Moving { polls: moving.polls.saturating_add(1), ..moving },
        None => Moving { to: carried.final_url.clone(), since: at, polls: is_ours.into() },
    };
    if !is_ours || moving.polls < POLLS || at.since(moving.since) < FOR {
        state.moving = Some(moving);
        return None;
    }
    let task = &lease.task;
    Some(Moved {
        event: NewEvent {
            kind: EventKind::FeedMoved,
            subject: task.id.to_string(),
            source: task.source,
            payload: json!({
                "from": task.url, "to": moving.to, "since": moving.since, "polls": moving.polls,
            }),
        },
        to: NewTask {
            url: moving.to,
            kind: task.kind,
            origin: task.origin,
            source: task.source,
            base_priority: task.priority,
            depth: task.depth,
            redirects: 0,
            parent: None,
            not_before: None,
            refetch: None,
        },
    })
}
