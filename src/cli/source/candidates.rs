//! `feedmill source candidates`: hosts that a source links to, for people to look at.

use serde_json::json;

use super::super::{Context, Failure, text};
use crate::store::OutsideHost;

pub(super) async fn run(name: &str, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let (source, _) = store.source(name).await?;
    let found = store.outside(source.id).await?;
    let now = context.clock.now();
    context.out.emit(&json!({ "source": source.spec.name, "candidates": found }), |out| {
        if found.is_empty() {
            return "no links to other sites were noted".to_owned();
        }
        let row = |one: &OutsideHost| {
            [
                text::number(one.links),
                one.host.clone(),
                text::when(one.first_seen, now),
                text::when(one.last_seen, now),
                one.url.clone(),
            ]
        };
        let head = ["links", "host", "first seen", "last seen", "first link"];
        out.table(head, found.iter().map(row).collect())
    })
}
