//! What an operator hears of a channel without looking for it: log lines beside the events.
//!
//! The log of events is the output; these lines are only its echo, once an outcome is true.

use crate::model::{EventKind, Lease, NewEvent};

/// Tells of events about a source's channel.
pub(super) fn tell(lease: &Lease, events: &[NewEvent]) {
    let source = lease.source.as_ref().map(|source| source.spec.name.as_str());
    for NewEvent { kind, payload, .. } in events {
        let said = |key: &str| payload.get(key).and_then(|value| value.as_str());
        let (url, code, reason) = (lease.task.url.as_str(), said("code"), said("reason"));
        match kind {
            EventKind::SourceDisabled => {
                tracing::error!(source, url, code, reason, "a channel is disabled");
            }
            EventKind::SourceEnabled => {
                tracing::info!(source, url, reason, "a channel is enabled again");
            }
            EventKind::SourceHealth | EventKind::SourceDiscovered => {
                let health = said("health");
                tracing::info!(source, url, health, reason, "the health of a channel changed");
            }
            _ => {}
        }
    }
}
