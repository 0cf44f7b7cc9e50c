//! How sources and their channels do, in words that the command line and the HTTP server share. Pure.

use serde::Serialize;

use crate::model::{Discovery, Health, Source, Status, Ts, Website};
use crate::store::ChannelState;

/// How a source does, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
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
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Failing,
        Self::Blocked,
        Self::Late,
        Self::NeverFetched,
        Self::Disabled,
        Self::Healthy,
    ];

    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
pub struct Standing<'a> {
    #[serde(skip)]
    /// Its group.
    pub group: Group,
    /// Its name.
    pub name: &'a str,
    /// Since when it does like that.
    pub since: Option<Ts>,
    /// When a poll last succeeded.
    pub last_success_at: Option<Ts>,
    /// The channel that is worst, when there are channels.
    pub channel: Option<&'a str>,
    /// Why it is in that group.
    pub reason: String,
}

/// How a source does, by its channels and the search for them.
#[must_use]
pub fn standing<'a>(
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
    match (health(one), is_disabled(one)) {
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

/// Whether a channel is no longer polled, on its own account.
#[must_use]
pub const fn is_disabled(channel: &ChannelState) -> bool {
    match channel.status {
        Status::Dead => true,
        Status::Pending => channel.disabled_since.is_some(),
        Status::Fetched | Status::Parked => false,
    }
}

/// How a channel does; nothing is known of what was never asked for.
#[must_use]
pub fn health(channel: &ChannelState) -> Option<Health> {
    channel.last_fetched_at.map(|_| channel.health)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Code, Kind, NewSource, SourceId};

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
