//! What a poll of a recurring task leads to besides its content: when to come back, what is
//! remembered, how the channel does, and what the log says of that.

use std::time::Duration;

use serde_json::json;

use super::{Carried, Failure, House, listing};
use crate::model::{
    Class, Code, EventKind, FeedFact, FeedState, Health, Kind, Known, Lease, NewEvent, Next,
    Origin, PollFigures, PollPolicy, Task, Ts, Validators, Warned,
};
use crate::schedule::{
    Decision, Document, FIRST_PRICE, Failed, Found, Hints, Poll, PollFailure, Rates, Signs, State,
    judge, overflowed,
};

/// A channel that is suspected to be frozen is asked without validators at most this often.
const PROBE: Duration = Duration::from_hours(24);
/// A sitemap that nobody declared is left alone after so long without a new page, until it is named
/// again: those of past days are never taken away.
pub(super) const EXHAUSTED: Duration = Duration::from_hours(30 * 24);

/// What a document brought.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// Times of new items.
    pub(super) dated: Vec<u32>,
    /// New items without one.
    pub(super) undated: u32,
    /// Items in all.
    pub(super) items: u32,
    /// Pages that it leads to, which may have items: without any of its own it is not empty.
    pub(super) pages: u32,
    /// Publication times in it, oldest first.
    pub(super) recent: Vec<u32>,
    /// What it says about the pace.
    pub(super) document: Document,
    /// What was wrong with it.
    pub(super) warnings: Vec<Warned>,
}

/// What follows from a poll that went well.
pub(super) struct Polled {
    pub(super) decision: Decision,
    pub(super) fact: FeedFact,
    pub(super) events: Vec<NewEvent>,
    /// The time by the clock that is behind, ours or the server's.
    earliest: Ts,
}

/// Whole seconds, as the scheduler counts.
pub(super) fn seconds(at: Ts) -> u32 {
    u32::try_from(at.ms().max(0) / 1000).unwrap_or(u32::MAX)
}

fn remembered(known: &Known) -> State {
    let state = known.feed.schedule.as_deref().and_then(State::from_bytes).unwrap_or_default();
    // The operator's word counts more than what is remembered.
    let forgiven = state.disabled && known.feed.disabled_since.is_none();
    if forgiven { state.forgiven() } else { state }
}

/// Whether a channel came by itself: an index, a robots.txt or a guess named it, not the operator.
fn is_found(task: &Task) -> bool {
    match task.kind {
        Kind::Sitemap => task.origin != Origin::Manual,
        Kind::Listing => task.depth > 0,
        _ => false,
    }
}

/// Whether the operator is to hear of a failure. Of a sitemap that was found that is not so when it
/// was never there, or is there no longer.
pub(super) fn is_owed(task: &Task, known: &Known, code: Code) -> bool {
    let missing = matches!(code, Code::NotFound | Code::Gone);
    !is_found(task) || (known.feed.last_success.is_some() && !missing)
}

/// Whether that was the end of a sitemap that was found: what never answered as one was a guess, and
/// what is missing for good was taken away.
fn is_over(task: &Task, known: &Known, code: Code, disabled: bool) -> bool {
    let never = known.feed.last_success.is_none();
    let missing = matches!(code.class(), Class::NotFound | Class::Final);
    is_found(task) && ((never && missing) || (disabled && (never || missing)))
}

fn poll<'a>(lease: &Lease, known: &Known, state: &'a State, at: Ts, house: &House) -> Poll<'a> {
    let spec = lease.source.as_ref().map(|source| &source.spec);
    let listing = (lease.task.kind == Kind::Listing).then_some(house.spider.min_interval);
    let (min, max) = spec.map_or((None, None), |spec| (spec.min_interval, spec.max_interval));
    Poll {
        task: lease.task.id,
        kind: lease.task.kind,
        explicit: spec.and_then(|spec| spec.poll_interval),
        policy: spec.and_then(|spec| spec.poll_policy),
        limits: (min.or(listing), max),
        due: lease.task.next_fetch_at,
        at,
        state,
        price: known.price.unwrap_or(FIRST_PRICE),
    }
}

/// A poll that went well; without a document nothing changed.
pub(super) fn went_well(
    lease: &Lease,
    brought: Option<&Brought>,
    carried: &Carried,
    known: &Known,
    at: Ts,
    house: &House,
) -> Polled {
    let before = remembered(known);
    let poll = poll(lease, known, &before, at, house);
    // What a sitemap told of first is only known once it was committed: it is learned one late.
    let late = if lease.task.kind == Kind::Sitemap { known.feed.yielded } else { 0 };
    let found = Found {
        at: seconds(at),
        dated: brought.map_or(&[], |brought| brought.dated.as_slice()),
        undated: brought.map_or(0, |brought| brought.undated) + late,
        items: brought.map(|brought| brought.items),
        recent: brought.map_or(&[], |brought| brought.recent.as_slice()),
    };
    let hints = Hints {
        document: brought.map(|brought| brought.document),
        fresh: carried.fresh,
        conditional: !carried.validators.is_empty(),
    };
    let (state, decision) = house.policy.next_poll(&poll, &found, &hints);
    let new = u32::try_from(found.dated.len()).unwrap_or(u32::MAX).saturating_add(found.undated);
    let signs = Signs {
        code: None,
        items: brought.map(|brought| brought.items.saturating_add(brought.pages)),
        new_items: new,
        overflowed: overflowed(&before, &found),
        news_elsewhere: known.news_elsewhere,
    };
    let health = match is_found(&lease.task) {
        // It owes nobody anything: one of many, and often of a day that is over.
        true => Health::Usual,
        false => judge(&state, &signs, found.at, known.feed.health),
    };
    let mut events = Vec::new();
    if known.feed.disabled_since.is_some() {
        events.push(told(lease, EventKind::SourceEnabled, "a poll went well again", None));
    }
    events.extend(changed(lease, known, health, &decision.reason));
    let follows = house.policy.follows_price(&poll, &state);
    let state = FeedState {
        failures: 0,
        last_success: Some(at),
        body_bytes: brought.map_or(known.feed.body_bytes, |_| carried.bytes),
        interval_ms: ms(decision.interval),
        bucket: follows.then(|| Rates::bucket(state.rate())),
        schedule: Some(state.to_bytes()),
        health,
        health_since: since(known, health, at),
        disabled_since: None,
        warnings: brought
            .map_or_else(|| known.feed.warnings.clone(), |brought| brought.warnings.clone()),
        yielded: 0,
        heard: if new > 0 { heard(known) } else { known.feed.heard },
        ..known.feed.clone()
    };
    let new_items = if lease.task.kind == Kind::Sitemap { 0 } else { new };
    // What was there before the last poll says nothing about how soon news are found.
    let lately = found.dated.iter().filter(|at| before.last_ok > 0 && **at > before.last_ok);
    let delays = lately.map(|published| found.at.saturating_sub(*published)).collect();
    let interval_before_ms = known.feed.interval_ms;
    let figures = PollFigures { delays, interval_before_ms };
    let based_on = known.feed.version;
    let fact = FeedFact { based_on, state, items: found.items, new_items, figures };
    Polled { decision, fact, events, earliest: carried.earliest(at) }
}

/// All that other channels have told of.
fn heard(known: &Known) -> i64 {
    known.feed.heard.saturating_add(known.news_elsewhere.into())
}

/// The validators to ask with next time. Of a frozen channel they are set aside once a day: one
/// unconditional request shows whether they can be trusted.
pub(super) fn trusted(polled: &mut Polled, kept: Validators, known: &Known, at: Ts) -> Validators {
    let frozen = polled.fact.state.health == Health::Frozen && !kept.is_empty();
    let rested = known.feed.probed_at.is_none_or(|probed| at.since(probed) >= PROBE);
    if !(frozen && rested) {
        return kept;
    }
    polled.fact.state.probed_at = Some(at);
    polled.fact.state.heard = heard(known);
    polled.decision.reason.push_str("; frozen: the next poll is unconditional");
    Validators::default()
}

/// Since when a channel does as it does from now on.
fn since(known: &Known, health: Health, at: Ts) -> Option<Ts> {
    known.feed.health_since.filter(|_| health == known.feed.health).or(Some(at))
}

/// Where a channel goes after a poll that went well, and `told` of something or not: on, unless it was
/// only found and is exhausted. Then the reason says so.
pub(super) fn next(lease: &Lease, polled: &mut Polled, told: bool, at: Ts) -> Next {
    let last = polled.fact.state.schedule.as_deref().and_then(State::from_bytes);
    let last = last.map_or(0, |state| i64::from(state.last_item) * 1000);
    let quiet_since = Ts::from_ms(last).max(lease.task.discovered_at);
    let quiet = polled.earliest.since(quiet_since);
    if !is_found(&lease.task) || (told && lease.task.kind == Kind::Sitemap) {
        return Next::Again { at: polled.decision.at };
    }
    if lease.task.kind == Kind::Listing {
        return listing::come_back(lease, polled, (quiet, last > 0), at);
    }
    if quiet < EXHAUSTED {
        return Next::Again { at: polled.decision.at };
    }
    polled.decision.reason = "no new page in 30 days: over until it is named again".to_owned();
    Next::Fetched
}

/// A poll that failed: what follows, and `None` instead of a time when waiting does not help.
pub(super) fn went_wrong(
    lease: &Lease,
    failure: &Failure,
    known: &Known,
    at: Ts,
    house: &House,
) -> (Option<Decision>, FeedFact, Vec<NewEvent>) {
    let Failure { code, status, told: told_at, capped, fresh, .. } = *failure;
    let before = remembered(known);
    let poll = poll(lease, known, &before, at, house);
    let Failed { state, next } = {
        let in_a_row = u32::from(lease.task.failures_of(code)) + 1;
        let failure = PollFailure { code, status, told: told_at, capped, fresh, in_a_row };
        house.policy.after_failure(&poll, &failure)
    };
    let next = next.filter(|_| !is_over(&lease.task, known, code, state.disabled));
    let is_owed = is_owed(&lease.task, known, code);
    let signs = Signs { code: Some(code), ..Signs::default() };
    let health = match is_owed {
        true => judge(&state, &signs, seconds(at), known.feed.health),
        false => known.feed.health,
    };
    let why = next.as_ref().map_or(failure.detail.as_str(), |next| next.reason.as_str());
    let mut events = Vec::new();
    // Of one that is given up the log tells as of all tasks that are.
    if state.disabled && !before.disabled && is_owed && next.is_some() {
        events.push(told(lease, EventKind::SourceDisabled, why, Some(code)));
    }
    events.extend(changed(lease, known, health, why));
    let is_disabled = state.disabled || next.is_none();
    let state = FeedState {
        failures: known.feed.failures + 1,
        interval_ms: next.as_ref().and_then(|next| ms(next.interval)),
        schedule: Some(state.to_bytes()),
        health,
        health_since: since(known, health, at),
        disabled_since: known.feed.disabled_since.or(is_disabled.then_some(at)),
        ..known.feed.clone()
    };
    let interval_before_ms = known.feed.interval_ms;
    let figures = PollFigures { interval_before_ms, ..PollFigures::default() };
    let based_on = known.feed.version;
    let fact = FeedFact { based_on, state, items: None, new_items: 0, figures };
    (next, fact, events)
}

/// When to look again at a channel that another address answers for.
pub(super) fn elsewhere(lease: &Lease, at: Ts, house: &House) -> Ts {
    let (known, state) = (Known::default(), State::default());
    let poll = Poll { policy: Some(PollPolicy::Fixed), ..poll(lease, &known, &state, at, house) };
    let found = Found { at: seconds(at), ..Found::default() };
    house.policy.next_poll(&poll, &found, &Hints { conditional: true, ..Hints::default() }).1.at
}

fn ms(span: Duration) -> Option<i64> {
    i64::try_from(span.as_millis()).ok()
}

fn changed(lease: &Lease, known: &Known, health: Health, why: &str) -> Option<NewEvent> {
    let before = known.feed.health;
    (health != before).then(|| {
        let mut event = told(lease, EventKind::SourceHealth, why, None);
        if let Some(payload) = event.payload.as_object_mut() {
            payload.insert("health".into(), json!(health));
            payload.insert("before".into(), json!(before));
        }
        event
    })
}

/// What the log says about a channel of a source.
fn told(lease: &Lease, kind: EventKind, why: &str, code: Option<Code>) -> NewEvent {
    let task = &lease.task;
    NewEvent {
        kind,
        subject: task.source_id.clone().unwrap_or_else(|| task.id.to_string()),
        source: task.source,
        payload: json!({"channel": task.id, "url": task.url, "code": code, "reason": why}),
    }
}
