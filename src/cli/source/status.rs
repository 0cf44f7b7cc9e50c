//! `feedmill source status`: how all sources do, in groups, the worst first.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::super::out::Out;
use super::super::{Context, Failure, channel, text};
use crate::model::{Discovery, Health, Source, SourceId, Ts, Website};
use crate::store::ChannelState;

/// How a source does, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Its polls fail.
    Failing,
    /// It refuses us.
    Blocked,
    /// It says less than its rhythm lets expect.
    Late,
    /// Nothing of it was ever read.
    NeverFetched,
    /// It is not followed.
    Disabled,
    /// As it should be.
    Healthy,
}

impl Group {
    const ALL: [Self; 6] = [
        Self::Failing,
        Self::Blocked,
        Self::Late,
        Self::NeverFetched,
        Self::Disabled,
        Self::Healthy,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Blocked => "blocked",
            Self::Late => "late",
            Self::NeverFetched => "never fetched",
            Self::Disabled => "disabled",
            Self::Healthy => "healthy",
        }
    }
}

/// A source in its group.
#[derive(Debug, Serialize)]
struct Standing<'a> {
    #[serde(skip)]
    group: Group,
    name: &'a str,
    /// Since when it does like that.
    since: Option<Ts>,
    /// When a poll last succeeded.
    last_success_at: Option<Ts>,
    /// The channel that is worst, when there are channels.
    channel: Option<&'a str>,
    reason: String,
}

pub(super) async fn run(all: bool, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let sources = store.sources().await?;
    let (channels, searches) = (store.channels().await?, store.discoveries().await?);
    let searches: BTreeMap<SourceId, Discovery> = searches.into_iter().collect();
    let mut own: BTreeMap<SourceId, Vec<&ChannelState>> = BTreeMap::new();
    for channel in &channels {
        own.entry(channel.source).or_default().push(channel);
    }
    let mut standings: Vec<Standing<'_>> = Vec::with_capacity(sources.len());
    for source in &sources {
        let own = own.get(&source.id).map_or(&[][..], Vec::as_slice);
        standings.push(standing(source, own, searches.get(&source.id)));
    }
    standings.sort_by_key(|one| (one.group, one.since, one.name));
    let groups: Vec<(Group, Vec<&Standing<'_>>)> = Group::ALL
        .iter()
        .map(|group| (*group, standings.iter().filter(|one| one.group == *group).collect()))
        .collect();
    let key = |group: &Group| group.as_str().replace(' ', "_");
    let counts: BTreeMap<_, _> = groups.iter().map(|(group, of)| (key(group), of.len())).collect();
    let listed: BTreeMap<_, _> = groups.iter().map(|(group, of)| (key(group), of)).collect();
    let value = json!({ "sources": sources.len(), "counts": counts, "groups": listed });
    let now = context.clock.now();
    context.out.emit(&value, |out| told(&groups, all, now, out))
}

fn standing<'a>(
    source: &'a Source,
    channels: &[&'a ChannelState],
    search: Option<&Discovery>,
) -> Standing<'a> {
    let worst = channels.iter().map(|one| (group(one), *one)).min_by_key(|(group, _)| *group);
    let stand = |group, since, channel: Option<&'a ChannelState>, reason: String| Standing {
        group,
        name: &source.spec.name,
        since,
        last_success_at: channels.iter().filter_map(|one| one.last_success_at).max(),
        channel: channel.map(|one| one.url.as_str()),
        reason,
    };
    if !source.enabled() {
        return stand(
            Group::Disabled,
            source.disabled_at,
            None,
            source.disable_reason.clone().unwrap_or_default(),
        );
    }
    match worst {
        None => {
            let (since, reason) = unfollowed(source, search);
            stand(Group::NeverFetched, since, None, reason)
        }
        Some((group, one)) => {
            let said = one.reason.clone().unwrap_or_default();
            let reason = match (group, one.health) {
                (Group::Healthy, _) => String::new(),
                (Group::Late, health) => health.to_string(),
                _ => said,
            };
            stand(group, one.health_since, Some(one), reason)
        }
    }
}

/// Why a source has no channels.
fn unfollowed(source: &Source, search: Option<&Discovery>) -> (Option<Ts>, String) {
    match search {
        None if source.spec.website == Some(Website::Direct) => {
            (Some(source.created_at), "its home page is its article".to_owned())
        }
        None if source.spec.names_channels() => {
            (Some(source.created_at), "another source owns its channels".to_owned())
        }
        Some(Discovery { ended: Some(ended), found, tried, .. }) if found.is_empty() => {
            let reason = format!("nothing found among {} addresses", tried.len());
            (Some(*ended), format!("{reason}; `feedmill source show` tells which"))
        }
        Some(search) if !search.found.is_empty() => {
            (search.ended, "another source owns its channels".to_owned())
        }
        _ if source.spec.seeks_channels() => {
            (Some(source.created_at), "its feeds are being looked for".to_owned())
        }
        _ => (Some(source.created_at), "it names no channels, and none are looked for".to_owned()),
    }
}

/// Where a channel stands.
fn group(one: &ChannelState) -> Group {
    match (channel::health(one), channel::is_disabled(one)) {
        (Some(Health::Blocked), _) => Group::Blocked,
        (_, true) | (Some(Health::Failing), _) => Group::Failing,
        (Some(Health::Late | Health::Frozen | Health::Empty | Health::Overflowing), _) => {
            Group::Late
        }
        (None, _) => Group::NeverFetched,
        (Some(Health::Usual), _) if one.last_success_at.is_none() && one.last_error.is_some() => {
            Group::Failing
        }
        (Some(Health::Usual), _) => Group::Healthy,
    }
}

fn told(groups: &[(Group, Vec<&Standing<'_>>)], all: bool, now: Ts, out: &Out) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Code, Kind, NewSource, Status};

    fn source(enabled: bool) -> Source {
        Source {
            id: SourceId(1),
            uuid: String::new(),
            spec: NewSource::new("a", "https://a.example/"),
            enabled_at: enabled.then_some(Ts::from_ms(1)),
            disabled_at: None,
            disable_reason: (!enabled).then(|| "too loud".to_owned()),
            created_at: Ts::from_ms(1),
        }
    }

    fn channel(health: Health, fetched: bool) -> ChannelState {
        ChannelState {
            source: SourceId(1),
            id: String::new(),
            kind: Kind::Feed,
            url: "https://a.example/feed".into(),
            moved_from: None,
            status: Status::Pending,
            next_fetch_at: Ts::from_ms(2),
            last_fetched_at: fetched.then_some(Ts::from_ms(2)),
            last_success_at: Some(Ts::from_ms(1)),
            failures: 0,
            items: 0,
            last_error: Some(Code::NotFound),
            reason: Some("status 404".into()),
            health,
            health_since: Some(Ts::from_ms(2)),
            disabled_since: None,
            warnings: vec![],
        }
    }

    #[test]
    fn the_worst_channel_tells_the_group() {
        let of = |channels: &[ChannelState]| {
            let (source, refs) = (source(true), channels.iter().collect::<Vec<_>>());
            let standing = standing(&source, &refs, None);
            (standing.group, standing.reason)
        };
        let usual = channel(Health::Usual, true);
        assert_eq!(of(std::slice::from_ref(&usual)), (Group::Healthy, String::new()));
        assert_eq!(of(&[usual.clone(), channel(Health::Late, true)]).0, Group::Late);
        assert_eq!(of(&[usual.clone(), channel(Health::Usual, false)]).0, Group::NeverFetched);
        let blocked = channel(Health::Blocked, true);
        let failing = channel(Health::Failing, true);
        assert_eq!(of(&[blocked.clone(), usual]).0, Group::Blocked);
        assert_eq!(of(&[blocked, failing]), (Group::Failing, "status 404".to_owned()));
        let never = ChannelState { last_success_at: None, ..channel(Health::Usual, true) };
        assert_eq!(of(&[never]), (Group::Failing, "status 404".to_owned()));
        let given_up = ChannelState { status: Status::Dead, ..channel(Health::Usual, true) };
        assert_eq!(of(&[given_up]).0, Group::Failing);
    }

    #[test]
    fn a_source_without_channels_says_why() {
        let why = |source: &Source, search: Option<&Discovery>| {
            let standing = standing(source, &[], search);
            (standing.group, standing.reason)
        };
        let over = Discovery { ended: Some(Ts::from_ms(3)), ..Discovery::default() };
        assert_eq!(why(&source(false), None), (Group::Disabled, "too loud".to_owned()));
        let (group, reason) = why(&source(true), Some(&over));
        assert_eq!(group, Group::NeverFetched);
        assert!(reason.starts_with("nothing found"), "{reason}");
        assert!(why(&source(true), None).1.contains("being looked for"));
        let mut quiet = source(true);
        quiet.spec.discover = false;
        assert!(why(&quiet, None).1.contains("none are looked for"));
    }
}
