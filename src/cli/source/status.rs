//! `feedmill source status`: how all sources do, in groups, the worst first.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::out::Out;
use super::super::{Context, Failure, text};
use crate::app::longest_interval;
use crate::app::standing::{AsOf, Group, Standing, standing};
use crate::model::{Discovery, SourceId, Ts};
use crate::store::ChannelState;
use crate::store::browse::damaged::damaged_sources;

pub(super) async fn run(all: bool, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let sources = store.sources().await?;
    let (channels, searches) = (store.channels().await?, store.discoveries().await?);
    let searches: BTreeMap<SourceId, Discovery> = searches.into_iter().collect();
    let mut own: BTreeMap<SourceId, Vec<&ChannelState>> = BTreeMap::new();
    for channel in &channels {
        own.entry(channel.source).or_default().push(channel);
    }
    let max_interval = longest_interval(&context.load()?.config);
    let as_of = AsOf::now(&context.clock, &*store, max_interval).await?;
    let mut standings: Vec<Standing<'_>> = Vec::with_capacity(sources.len());
    for source in &sources {
        let own = own.get(&source.id).map_or(&[][..], Vec::as_slice);
        standings.push(standing(source, own, searches.get(&source.id), &as_of));
    }
    standings.sort_by_key(|one| (one.group, one.since, one.name));
    let groups: Vec<(Group, Vec<&Standing<'_>>)> = Group::ALL
        .iter()
        .map(|group| (*group, standings.iter().filter(|one| one.group == *group).collect()))
        .collect();
    let key = |group: &Group| group.as_str().replace(' ', "_");
    let counts: BTreeMap<_, _> = groups.iter().map(|(group, of)| (key(group), of.len())).collect();
    let listed: BTreeMap<_, _> = groups.iter().map(|(group, of)| (key(group), of)).collect();
    let damaged = damaged_sources(&*store).await?;
    let value = json!({
        "sources": sources.len(), "counts": counts, "damaged": damaged, "groups": listed
    });
    context.out.emit(&value, |out| {
        let shown = listing(&groups, all, context.clock.now(), out);
        if damaged == 0 {
            return shown;
        }
        let damaged = text::count(damaged, "damaged source");
        format!("{shown}\n\n{damaged} left out: `feedmill doctor` lists what is damaged")
    })
}

fn listing(groups: &[(Group, Vec<&Standing<'_>>)], all: bool, now: Ts, out: &Out) -> String {
    if groups.iter().all(|(_, of)| of.is_empty()) {
        return "no sources yet: `feedmill source add URL` adds one".to_owned();
    }
    let counts = groups.iter().map(|(group, of)| format!("{} {}", of.len(), group.as_str()));
    let mut parts = vec![counts.collect::<Vec<_>>().join(", ")];
    for (group, of) in groups.iter().filter(|(_, of)| !of.is_empty()) {
        if *group == Group::Healthy && !all {
            parts.push("--all lists the healthy ones as well".to_owned());
            continue;
        }
        let rows = of.iter().map(|one| {
            [
                text::one_line(one.name),
                one.since.map(|at| text::when(at, now)).unwrap_or_default(),
                text::ever(one.last_success_at, now),
                text::one_line(&one.reason),
                one.channel.map(text::one_line).unwrap_or_default(),
            ]
        });
        let head = [group.as_str(), "since", "last success", "why", "channel"];
        parts.push(out.table(head, rows.collect()));
    }
    parts.join("\n\n")
}
