//! What both backends decide in the same way: which lane a host serves, whether a known task moves,
//! where a served one goes. Pure.

use std::time::Duration;

use super::{Act, Candidate, Counts, MAX_STRIKES, Rules, Stats};
use crate::model::{Code, HostAdvice, Kind, Lane, Next, Origin, Refetch, State, Status, Task, Ts};

/// A dead task may be asked for again after this long, when it is submitted again.
const GRAVE_MS: i64 = 30 * 24 * 3_600 * 1_000;
/// How long a recurring task that was over stays so when it is named again.
const NAP_MS: i64 = 24 * 3_600 * 1_000;
/// The same of a page that lists others: all pages of a site name the same ones.
const LONG_NAP_MS: i64 = 7 * NAP_MS;

/// The lane to serve: the one with the highest head, but polls and pages take turns while both wait,
/// whatever their priorities. Pages that feeds told of go before polls, so a host with many of them would
/// never be polled again; and polls before pages would never end. `tops` are the highest queued
/// priorities by lane.
pub(super) fn lane(tops: [Option<i64>; 3], last: Option<Lane>, asked: &[Lane]) -> Option<Lane> {
    let [poll, page, media] = tops;
    let top = |lane: Lane| match lane {
        Lane::Poll => poll,
        Lane::Page => page,
        Lane::Media => media,
    };
    let waits = |lane: Lane| asked.contains(&lane) && top(lane).is_some();
    let both = waits(Lane::Poll) && waits(Lane::Page);
    let had_its_turn = |lane: Lane| both && lane != Lane::Media && last == Some(lane);
    asked
        .iter()
        .filter(|lane| top(**lane).is_some() && !had_its_turn(**lane))
        .max_by_key(|lane| (top(**lane), std::cmp::Reverse(lane.number())))
        .copied()
}

/// How many waiting tasks are looked at for the first one of these lanes. The first is one of them where
/// all lanes are asked for. Otherwise there may be millions of other lanes before it: whoever waits for it
/// wakes up when the last of so many is due, promotes them, and looks further.
pub(super) const fn looked_at(lanes: &[Lane]) -> i64 {
    if lanes.len() >= Lane::ALL.len() { 1 } else { 1_000 }
}

/// What is written down of a task that is given up because its leases ran out.
pub(super) const POISONED: &str = "its lease ran out five times in a row";

/// What is written down of a task that was taken down.
pub(super) const TAKEN_DOWN: &str = "it was taken down";
/// Its code in both databases.
pub(super) const WITHDRAWN: i64 = Code::Withdrawn.number();

/// What a lease that ended without an answer costs its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    /// Nothing more than the host's pause.
    Spared,
    /// It waits until then.
    PutOff(Ts),
    /// It is given up.
    Poison,
}

impl Strike {
    /// Until when a host rests whose robots.txt this is: nothing there is asked for without it, so it
    /// is never given up.
    pub(super) fn rest(self, ended: Ts) -> Option<Ts> {
        match self {
            Self::Spared => None,
            Self::PutOff(at) => Some(at),
            Self::Poison => Some(ended.after(Duration::from_hours(24))),
        }
    }

    /// The judgement on the `count`th such lease in a row, which ended at `ended`. Of all that was
    /// under way when an engine died, nobody can tell what it died of. So from the second time on
    /// each waits longer, by a measure of its own: the innocent part from the culprit, are answered,
    /// and start afresh.
    pub(super) fn of(count: i64, task: i64, ended: Ts) -> Self {
        if count >= MAX_STRIKES {
            return Self::Poison;
        }
        let minutes = match count {
            ..=1 => return Self::Spared,
            2 => 1,
            3 => 30,
            _ => 240,
        };
        let wait: u64 = 60_000 * minutes;
        // Up to half of it more; rows that follow each other get shares far apart.
        let share = task.wrapping_mul(8).wrapping_add(count).cast_unsigned();
        let share = share.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        Self::PutOff(ended.after(Duration::from_millis(wait + wait * share / 2_048)))
    }
}

/// Until when the tasks of an origin wait whose robots.txt could not be fetched. What a clock that was ahead
/// planned does not count.
pub(super) fn robots_retry(robots: &Task, now: Ts, rules: &Rules) -> Option<Ts> {
    let is_past = robots.last_fetched_at.is_none_or(|at| at <= now);
    let waits = robots.retry_count > 0 && robots.next_fetch_at > now && is_past;
    (waits && !rules.ignore_pauses).then_some(robots.next_fetch_at)
}

/// Why they wait.
pub(super) fn waits_for(robots: &Task, until: Ts) -> String {
    format!("{} could not be fetched and is requested again at {until}", robots.url)
}

/// Who told of an address: a source, and by which of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Teller {
    pub(super) source: i64,
    pub(super) origin: Origin,
    /// The feed or sitemap; 0 for the pages of the source, all of which are one channel, and for its
    /// operator.
    pub(super) channel: i64,
}

impl Teller {
    /// Who told of a task whose row says this.
    pub(super) fn new(source: i64, origin: Origin, parent: Option<i64>) -> Self {
        let has_channels = matches!(origin, Origin::Feed | Origin::Sitemap);
        Self { source, origin, channel: parent.filter(|_| has_channels).unwrap_or(0) }
    }

    /// Who tells of an address now.
    pub(super) fn of(new: &Candidate) -> Option<Self> {
        let parent = new.parent.map(|parent| parent.0);
        new.source.map(|source| Self::new(source.0, new.origin, parent))
    }
}

/// The channel in a task's own row, in both databases.
pub(super) const CHANNEL: &str =
    "CASE WHEN t.origin IN (0, 1) THEN coalesce(t.parent_id, 0) ELSE 0 END";

/// What is kept of a task that is given again.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownTask {
    pub(super) kind: Kind,
    pub(super) prio: i64,
    pub(super) status: Status,
    pub(super) due: i64,
    pub(super) fetched_at: Option<i64>,
    pub(super) fetch_count: u32,
    pub(super) last_error: Option<Code>,
    /// Leases of it that ended without an answer since the last one.
    pub(super) strikes: i64,
    pub(super) owner: Option<i64>,
    pub(super) depth: i64,
}

impl KnownTask {
    /// What it is once it was wished for as this: what was only looked at is what somebody says it is.
    pub(super) fn turns_into(&self, wish: &Wish) -> Kind {
        if self.kind == Kind::Probe || self.yields_to(wish) { wish.kind } else { self.kind }
    }

    /// Whether an operator's word goes before all that is known of a channel: a walk only came upon it, or
    /// its own source calls it something else now.
    pub(super) fn yields_to(&self, wish: &Wish) -> bool {
        let is_channel = |kind| matches!(kind, Kind::Feed | Kind::Sitemap | Kind::Listing);
        let is_own = wish.own && wish.source.is_some();
        let was_found = self.kind == Kind::Listing && self.depth > 0;
        let renamed = self.owner == wish.source && self.kind != wish.kind;
        is_own && is_channel(wish.kind) && is_channel(self.kind) && (was_found || renamed)
    }
}

/// The priority that a number stands for, if it is one.
pub(super) fn priority(number: i64) -> Option<i64> {
    (1..=10).contains(&number).then_some(number)
}

/// Whether a task goes to the next source that wants it: it is set aside, or a look that is over.
pub(super) fn is_free(kind: Kind, status: Status) -> bool {
    let is_over = matches!(status, Status::Fetched | Status::Dead);
    status == Status::Parked || (kind == Kind::Probe && is_over)
}

/// A wish for a known task: at which priority, from when on, and whether a source wants it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) kind: Kind,
    pub(super) prio: i64,
    pub(super) at: i64,
    pub(super) sourced: bool,
    pub(super) source: Option<i64>,
    /// An operator's own, and not what another task told of.
    pub(super) own: bool,
    pub(super) refetch: Option<Refetch>,
}

impl Wish {
    /// The wish that a submission makes.
    pub(super) fn of(new: &Candidate, now: Ts) -> Self {
        Self {
            kind: new.kind,
            prio: new.priority.into(),
            at: new.not_before.unwrap_or(now).ms(),
            sourced: new.source.is_some(),
            source: new.source.map(|source| source.0),
            own: new.parent.is_none(),
            refetch: new.refetch,
        }
    }
}

/// When a task that moves is due; `None` when it stays where it is. Pending tasks move to a greater
/// priority or an earlier time; failures keep their wait. Dead ones rise after a month unless the
/// reason was final; parked ones rise with an enabled source; of what is done, recurring ones rise after
/// a day, and others when they changed since.
pub(super) fn new_due(known: &KnownTask, wish: &Wish, now: Ts) -> Option<i64> {
    let turns = known.turns_into(wish) != known.kind || known.yields_to(wish);
    if turns && (wish.sourced || known.status != Status::Parked) {
        return Some(wish.at);
    }
    match known.status {
        Status::Pending => {
            // What comes back has its own rhythm, and a task that failed or was struck waits as it
            // was told: a feed that names it again must not lead it from crash to crash.
            let comes_back = wish.kind.recurs() || known.fetch_count > 0;
            let waits = comes_back || known.last_error.is_some() || known.strikes > 0;
            let sooner = !waits && known.due > now.ms() && wish.at < known.due;
            (sooner || wish.prio > known.prio).then_some(if sooner { wish.at } else { known.due })
        }
        Status::Dead | Status::Fetched if wish.kind == Kind::Probe && known.kind == Kind::Probe => {
            let rested = known.fetched_at.is_none_or(|at| now.ms() - at >= NAP_MS);
            (rested || wish.own).then_some(wish.at)
        }
        // Taken down while it was under way, and no longer refused.
        Status::Dead if known.last_error == Some(Code::Withdrawn) => Some(wish.at),
        Status::Dead => {
            let finally =
                matches!(known.last_error, Some(Code::Gone | Code::Redirect | Code::RobotsBlocked));
            let rested = known.fetched_at.is_none_or(|at| now.ms() - at >= GRAVE_MS);
            (rested && !finally).then_some(wish.at)
        }
        Status::Parked => wish.sourced.then_some(wish.at),
        Status::Fetched if wish.kind.recurs() && wish.refetch.is_none() => {
            // An index names all of its sitemaps each time.
            let nap = if wish.kind == Kind::Listing { LONG_NAP_MS } else { NAP_MS };
            let rested = known.fetched_at.is_some_and(|at| now.ms() - at >= nap);
            rested.then_some(wish.at)
        }
        Status::Fetched => {
            let Refetch { changed, after, most } = wish.refetch?;
            let fetched_at = Ts::from_ms(known.fetched_at?);
            let is_old = fetched_at < changed && known.fetch_count <= most;
            is_old.then(|| fetched_at.after(after).max(now).ms())
        }
    }
}

/// What has to be forgotten of a channel that yields to an operator's word, in both databases: what it
/// was told by was another's.
pub(super) const FORGOTTEN: [&str; 2] = ["feed", "fetch_state"];

/// What a response means for one of the hosts that its lease holds: it is about the host that responded.
pub(super) const fn advice(given: HostAdvice, answered: bool) -> HostAdvice {
    if answered { given } else { HostAdvice::Neutral }
}

/// Where a served task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) status: Status,
    /// When it comes back; `None` leaves its time as it is.
    pub(super) at: Option<Ts>,
    /// One more failure in a row.
    pub(super) failed: bool,
    /// Failures of other kinds before it do not count.
    pub(super) counted_alone: bool,
    /// The failures so far stay.
    pub(super) keeps_failures: bool,
    /// The publisher was asked.
    pub(super) asked: bool,
    pub(super) code: Option<Code>,
}

impl Ending {
    /// What an outcome means for a task that stood at `before` when it came in.
    pub(super) fn of(next: &Next, advice: HostAdvice, before: Status) -> Self {
        let (status, at, code) = match *next {
            Next::Fetched => (Status::Fetched, None, None),
            Next::Again { at } => (Status::Pending, Some(at), None),
            Next::Retry { at, code } | Next::Postpone { at, code } => {
                (Status::Pending, Some(at), Some(code))
            }
            Next::Dead { code } => (Status::Dead, None, Some(code)),
        };
        // Its source was disabled or removed while it was under way.
        let parked = before == Status::Parked && status == Status::Pending;
        let postponed = matches!(next, Next::Postpone { .. });
        Self {
            status: if parked { Status::Parked } else { status },
            at,
            failed: matches!(next, Next::Retry { .. }),
            counted_alone: matches!(next, Next::Retry { code, .. } if code.is_counted_alone()),
            keeps_failures: postponed || status == Status::Dead,
            asked: !postponed && advice != HostAdvice::NotAsked,
            code,
        }
    }
}

impl Stats {
    /// Counts `n` tasks of a kind that stand alike; kinds come one after the other.
    pub(super) fn count(&mut self, kind: Kind, state: State, n: u64) {
        if self.by_kind.last().is_none_or(|(last, _)| *last != kind) {
            self.by_kind.push((kind, Counts::default()));
        }
        let of_kind = self.by_kind.last_mut().map(|(_, counts)| counts);
        for counts in [Some(&mut self.total), of_kind].into_iter().flatten() {
            counts.add(state, n);
        }
    }
}

impl Counts {
    /// Counts `n` more tasks that stand like this.
    pub(super) const fn add(&mut self, state: State, n: u64) {
        *match state {
            State::Pending => &mut self.pending,
            State::Fetching => &mut self.fetching,
            State::Fetched => &mut self.fetched,
            State::Failed => &mut self.failed,
            State::Dead => &mut self.dead,
            State::Parked => &mut self.parked,
        } += n;
    }
}

/// What has to be known about a task before an operator's sweep may touch it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Swept {
    pub(super) kind: Kind,
    pub(super) status: Status,
    /// Somebody holds a lease for it, on whatever host.
    pub(super) leased: bool,
    /// It is a feed or sitemap that a source declares.
    pub(super) channel: bool,
    /// It was taken down.
    pub(super) withdrawn: bool,
    /// Nobody owns it, or a source that is followed.
    pub(super) wanted: bool,
}

impl Act {
    /// Whether it may be done to a task. A lease that is out there must find its task, what is set
    /// aside waits for its source, robots.txt is asked for by need alone, and a source without its
    /// channels would silently be followed no more.
    pub(super) const fn may(self, task: &Swept) -> bool {
        let idle = matches!(task.status, Status::Parked) || matches!(task.kind, Kind::Robots);
        !task.leased
            && match self {
                Self::Retry => !idle && task.wanted && !task.withdrawn,
                Self::Hasten => !idle && task.wanted && matches!(task.status, Status::Pending),
                Self::Delete => !task.channel,
                Self::Withdraw => !task.withdrawn,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_and_pages_alternate_while_both_wait() {
        let both = [Some(9), Some(2), None];
        assert_eq!(lane(both, None, Lane::ALL), Some(Lane::Poll));
        assert_eq!(lane(both, Some(Lane::Poll), Lane::ALL), Some(Lane::Page));
        assert_eq!(lane(both, Some(Lane::Page), Lane::ALL), Some(Lane::Poll));
        assert_eq!(lane(both, Some(Lane::Poll), &[Lane::Poll]), Some(Lane::Poll));
        let pages_first = [Some(5), Some(7), None];
        assert_eq!(lane(pages_first, None, Lane::ALL), Some(Lane::Page));
        assert_eq!(lane(pages_first, Some(Lane::Page), Lane::ALL), Some(Lane::Poll));
        assert_eq!(lane(pages_first, Some(Lane::Poll), Lane::ALL), Some(Lane::Page));
        assert_eq!(lane(pages_first, Some(Lane::Page), &[Lane::Page]), Some(Lane::Page));
        assert_eq!(lane([Some(1), None, Some(1)], Some(Lane::Poll), Lane::ALL), Some(Lane::Poll));
        assert_eq!(lane([None; 3], None, Lane::ALL), None);
    }

    #[test]
    fn strikes_are_spared_once_then_put_off_and_the_fifth_is_the_end() {
        let minutes = |count, task| match Strike::of(count, task, Ts::from_ms(0)) {
            Strike::PutOff(at) => at.ms() as f64 / 60_000.0,
            other => panic!("{other:?}"),
        };
        for task in 0..1_000 {
            assert_eq!(Strike::of(1, task, Ts::from_ms(0)), Strike::Spared);
            for (count, least) in [(2, 1.0), (3, 30.0), (4, 240.0)] {
                let wait = minutes(count, task);
                assert!(least <= wait && wait < 1.5 * least, "{wait} min after {count}");
                assert!(
                    (wait - minutes(count, task + 1)).abs() > 0.01 * least,
                    "{task} meets the next"
                );
            }
            assert_eq!(Strike::of(MAX_STRIKES, task, Ts::from_ms(0)), Strike::Poison);
        }
    }

    #[test]
    fn a_sweep_spares_what_others_rely_on() {
        let dead = Swept {
            withdrawn: false,
            kind: Kind::Article,
            status: Status::Dead,
            leased: false,
            channel: false,
            wanted: true,
        };
        let may = |task: Swept| (Act::Retry.may(&task), Act::Delete.may(&task));
        assert_eq!(may(dead), (true, true));
        assert_eq!(may(Swept { leased: true, ..dead }), (false, false));
        assert_eq!(may(Swept { status: Status::Parked, ..dead }), (false, true));
        assert_eq!(may(Swept { kind: Kind::Robots, ..dead }), (false, true));
        assert_eq!(may(Swept { wanted: false, ..dead }), (false, true));
        assert_eq!(may(Swept { kind: Kind::Feed, channel: true, ..dead }), (true, false));
        assert_eq!(may(Swept { withdrawn: true, ..dead }), (false, true));
        assert!(Act::Withdraw.may(&Swept { channel: true, ..dead }));
        assert!(!Act::Withdraw.may(&Swept { leased: true, ..dead }), "its commit is turned away");
    }

    #[test]
    fn advice_is_for_the_host_that_responded() {
        let until = Ts::from_ms(7);
        let (slow, pause) =
            (HostAdvice::SlowDown { until: Some(until) }, HostAdvice::Pause { until });
        let others = [HostAdvice::NotAsked, HostAdvice::Fine, HostAdvice::Neutral];
        for given in others.into_iter().chain([slow, pause]) {
            assert_eq!(advice(given, true), given);
            assert_eq!(advice(given, false), HostAdvice::Neutral);
        }
    }

    #[test]
    fn what_was_parked_meanwhile_stays_parked_unless_it_is_over() {
        let at = Ts::from_ms(7);
        let ending = |next| Ending::of(&next, HostAdvice::Fine, Status::Parked).status;
        assert_eq!(ending(Next::Again { at }), Status::Parked);
        assert_eq!(ending(Next::Retry { at, code: Code::Timeout }), Status::Parked);
        assert_eq!(ending(Next::Fetched), Status::Fetched);
        assert_eq!(ending(Next::Dead { code: Code::Gone }), Status::Dead);
    }
}
