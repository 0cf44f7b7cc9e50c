//! How sources and their channels do, in words that the command line and the HTTP server share. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::explain::queue_of;
use super::pauses::{self, HostPause};
use crate::clock::Clock;
use crate::db::DbError;
use crate::frontier::{FOREVER, Rules};
use crate::model::{Code, Discovery, Health, Source, SourceId, Status, Ts, Website};
use crate::schedule::human;
use crate::store::usage::{SourceUsage, day_of, usage};
use crate::store::{ChannelState, Store};

/// How a source does, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Its polls fail.
    Failing,
    /// It refuses us.
    Blocked,
    /// It stored more than it may, and waits for the next day.
    OverQuota,
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
    pub const ALL: [Self; 7] = [
        Self::Failing,
        Self::Blocked,
        Self::OverQuota,
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
            Self::OverQuota => "over quota",
            Self::Late => "late",
            Self::NeverFetched => "never fetched",
            Self::Disabled => "disabled",
            Self::Healthy => "healthy",
        }
    }
}

/// The shortest time after which a poll that was due and not made is overdue.
const OVERDUE_AFTER: Duration = Duration::from_mins(2);
/// And the longest, however seldom a channel is polled.
const OVERDUE_AT_LAST: Duration = Duration::from_mins(15);
/// On a fast clock an engine needs this much real time.
const REAL_SLACK: Duration = Duration::from_secs(10);

/// A feed that has been silent for long waits for up to a week, and quiet days last as long.
const LONGEST_SILENCE: Duration = Duration::from_hours(8 * 24);
/// The longest wait between probes of a channel that failed.
const LONGEST_COOLDOWN: Duration = Duration::from_hours(3 * 24);

/// The time at which health is told, and by how much a poll may be late or ahead.
#[derive(Clone, Debug)]
pub struct AsOf {
    now: Ts,
    slack: Duration,
    /// The longest that a channel without limits of its own waits for its next poll.
    max_interval: Duration,
    /// What sources stored today, as far as that is looked at.
    usage: Arc<HashMap<SourceId, SourceUsage>>,
    /// Hosts that nothing is asked of, by name, and what an address's host is called.
    paused: Arc<HashMap<String, HostPause>>,
    rules: Arc<Rules>,
}

impl AsOf {
    /// Now, on this clock, with what sources stored today.
    pub async fn now(
        clock: &Clock,
        store: &dyn Store,
        max_interval: Duration,
    ) -> Result<Self, DbError> {
        let now = clock.now();
        let used = usage(store, day_of(now)).await?.into_iter();
        let usage = Arc::new(used.map(|used| (used.source, used)).collect());
        let slack = clock.stretch(REAL_SLACK).max(OVERDUE_AFTER);
        let paused = pauses::all(store).await?.into_iter();
        let paused = Arc::new(paused.map(|pause| (pause.host.clone(), pause)).collect());
        Ok(Self { now, slack, max_interval, usage, paused, rules: Arc::new(store.rules().clone()) })
    }

    /// The pause of a channel's host, when it lasts and keeps the channel from being polled.
    #[must_use]
    pub fn pause(&self, one: &ChannelState) -> Option<&HostPause> {
        if self.paused.is_empty() || one.status != Status::Pending || is_disabled(one) {
            return None;
        }
        let pause = self.paused.get(&queue_of(&one.url, &self.rules)?)?;
        let lasts = pause.until >= one.next_fetch_at && pause.until > self.now.after(self.slack);
        lasts.then_some(pause)
    }

    /// Bytes that a source stored today.
    #[must_use]
    pub fn bytes_today(&self, source: SourceId) -> u64 {
        self.usage.get(&source).map_or(0, |used| used.bytes)
    }

    /// Since when a channel's poll is overdue, if it is: by as long as its polls are apart, within limits.
    /// It follows from now and the time that was planned, so that it is told also when nothing is polled.
    #[must_use]
    pub fn overdue(&self, one: &ChannelState) -> Option<Ts> {
        let due = one.next_fetch_at;
        let apart = one.last_fetched_at.map_or(Duration::ZERO, |last| due.since(last));
        let tolerance = apart.clamp(OVERDUE_AFTER, OVERDUE_AT_LAST).max(self.slack);
        let is_polled = one.status == Status::Pending && !is_disabled(one);
        (is_polled && due.after(tolerance) < self.now).then_some(due)
    }

    /// How far ahead the next poll of a channel is planned, when that is farther than its longest
    /// interval allows: a faulty clock did it, not the schedule.
    fn too_far(&self, source: &Source, one: &ChannelState) -> Option<Duration> {
        let spec = &source.spec;
        let named = [spec.poll_interval, spec.max_interval].into_iter().flatten().max();
        let longest = named.unwrap_or(self.max_interval).max(self.max_interval);
        let said = |what: &str| one.reason.as_deref().is_some_and(|why| why.contains(what));
        let longest = match one.last_error {
            // A server may ask for any pause.
            Some(Code::RateLimited) => return None,
            Some(_) => longest.max(LONGEST_COOLDOWN),
            None if said("bound=faded") || said("bound=skip") => longest.max(LONGEST_SILENCE),
            None => longest,
        };
        let ahead = one.next_fetch_at.since(self.now);
        // Polls that come out of a backlog are spread by half their interval.
        (one.status == Status::Pending && ahead > longest.mul_f64(1.6)).then_some(ahead)
    }
}

/// Why a source is late whose polls are not made.
const OVERDUE: &str =
    "Poll overdue. Check that an engine runs and that its workers are not all busy";

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
    as_of: &AsOf,
) -> Standing<'a> {
    let group = |one: &ChannelState| match group(one, as_of) {
        Group::Healthy if as_of.too_far(source, one).is_some() => Group::Late,
        group => group,
    };
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
    let used = as_of.usage.get(&source.id);
    if let Some((used, at)) = used.and_then(|used| Some((used, used.limited_at?)))
        && !matches!(worst, Some((Group::Failing | Group::Blocked, _)))
    {
        let reason = used.reason.clone().unwrap_or_default();
        return stand(Group::OverQuota, Some(at), None, reason);
    }
    match worst {
        None => {
            let (since, reason) = unfollowed(source, search);
            stand(Group::NeverFetched, since, None, reason)
        }
        Some((group, one)) => {
            let said = one.reason.clone().unwrap_or_default();
            let overdue = as_of.overdue(one).filter(|_| is_well(one));
            let pause = as_of.pause(one).filter(|_| is_well(one));
            let reason = match (group, one.health) {
                (Group::Healthy, _) => String::new(),
                (Group::Late | Group::NeverFetched, _) if pause.is_some() => {
                    pause.map(waiting_for).unwrap_or_default()
                }
                (Group::Late | Group::NeverFetched, _) if overdue.is_some() => OVERDUE.to_owned(),
                (Group::Late, Health::Usual) => {
                    let ahead = as_of.too_far(source, one).unwrap_or_default();
                    let ahead = human(ahead);
                    format!("next poll in {ahead}, beyond its longest interval: check the clock")
                }
                (Group::Late, health) => health.to_string(),
                _ => said,
            };
            stand(group, overdue.or(one.health_since), Some(one), reason)
        }
    }
}

/// Why a channel is not polled whose host is paused.
fn waiting_for(pause: &HostPause) -> String {
    if pause.until >= FOREVER {
        return format!("Host {} is blocked: {}", pause.host, pause.reason);
    }
    format!("Host {} is paused until {}: {}", pause.host, pause.until, pause.reason)
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

/// Whether a channel has nothing worse to tell than that it was not asked.
fn is_well(one: &ChannelState) -> bool {
    matches!(health(one), None | Some(Health::Usual))
}

/// Where a channel stands.
fn group(one: &ChannelState, as_of: &AsOf) -> Group {
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
        (Some(Health::Usual), _)
            if as_of.overdue(one).or(as_of.pause(one).map(|it| it.until)).is_some() =>
        {
            Group::Late
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
    use crate::model::{Kind, NewSource};

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

    fn as_of(now: Ts, slack: Duration) -> AsOf {
        let rules = Arc::new(crate::app::wiring::rules(
            &crate::config::Config::default(),
            &Clock::system(),
        ));
        let (usage, paused) = (Arc::default(), Arc::default());
        AsOf { now, slack, max_interval: Duration::from_hours(24), usage, paused, rules }
    }

    fn soon() -> AsOf {
        as_of(Ts::from_ms(10), OVERDUE_AFTER)
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
            let standing = standing(&source, &refs, None, &soon());
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
    fn a_poll_beyond_the_longest_interval_is_not_healthy() {
        let of = |days: u64, error: Option<Code>, reason: &str| {
            let channel = ChannelState {
                next_fetch_at: soon().now.after(Duration::from_hours(24 * days)),
                last_error: error,
                reason: Some(reason.to_owned()),
                ..channel(Health::Usual, true)
            };
            let source = source(true);
            let standing = standing(&source, &[&channel], None, &soon());
            (standing.group, standing.reason)
        };
        assert_eq!(of(1, None, "").0, Group::Healthy);
        let (group, reason) = of(3650, None, "");
        assert_eq!(group, Group::Late);
        assert!(reason.starts_with("next poll in 3650d"), "{reason}");
        assert_eq!(of(5, None, "").0, Group::Late);
        assert_eq!(of(5, None, "poll in 5d; bound=faded").0, Group::Healthy);
        assert_eq!(of(5, Some(Code::RateLimited), "").0, Group::Healthy, "the server asked for it");
    }

    #[test]
    fn a_source_without_channels_says_why() {
        let why = |source: &Source, search: Option<&Discovery>| {
            let standing = standing(source, &[], search, &soon());
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

    #[test]
    fn a_poll_that_was_not_made_is_told() {
        let at = |minutes: u64| Ts::from_ms(1_000_000_000).after(Duration::from_mins(minutes));
        // Polled last, due, and now, in minutes; the clock's slack; and whether it is overdue.
        let cases = [
            (Some(0), 10, 9, 2, false),
            (Some(0), 10, 19, 2, false),
            (Some(0), 10, 21, 2, true),
            (Some(9), 10, 13, 2, true),
            (Some(9), 10, 11, 2, false),
            (Some(0), 600, 614, 2, false),
            (Some(0), 600, 616, 2, true),
            (None, 10, 13, 2, true),
            (Some(0), 10, 21, 100, false),
        ];
        for (last, due, now, slack, wanted) in cases {
            let one = ChannelState {
                last_fetched_at: last.map(at),
                next_fetch_at: at(due),
                ..channel(Health::Usual, true)
            };
            let as_of = as_of(at(now), Duration::from_mins(slack));
            assert_eq!(as_of.overdue(&one).is_some(), wanted, "{last:?} {due} {now}");
            let (source, refs) = (source(true), [&one]);
            let told = standing(&source, &refs, None, &as_of);
            let group = match (last, wanted) {
                (None, _) => Group::NeverFetched,
                (_, true) => Group::Late,
                (_, false) => Group::Healthy,
            };
            assert_eq!(told.group, group, "{last:?} {due} {now}");
            assert_eq!(told.reason == OVERDUE, wanted, "{}", told.reason);
            let parked = ChannelState { status: Status::Parked, ..one };
            assert_eq!(as_of.overdue(&parked), None, "nobody waits for it");
        }
    }

    #[test]
    fn a_source_over_its_quota_says_so() {
        let used = SourceUsage {
            source: SourceId(1),
            bytes: 3_000_000_000,
            limited_at: Some(Ts::from_ms(5)),
            reason: Some("too much".to_owned()),
        };
        let limited = |limited_at| AsOf {
            usage: Arc::new(HashMap::from([(
                SourceId(1),
                SourceUsage { limited_at, ..used.clone() },
            )])),
            ..soon()
        };
        let (source, well, bad) =
            (source(true), channel(Health::Usual, true), channel(Health::Failing, true));
        let group = |one, as_of: &AsOf| standing(&source, &[one], None, as_of).group;
        let told = limited(used.limited_at);
        let standing = standing(&source, &[&well], None, &told);
        assert_eq!((standing.group, standing.reason.as_str()), (Group::OverQuota, "too much"));
        assert_eq!(group(&bad, &told), Group::Failing, "what is worse is told");
        assert_eq!(group(&well, &limited(None)), Group::Healthy);
        assert_eq!(told.bytes_today(SourceId(1)), 3_000_000_000);
    }
}
