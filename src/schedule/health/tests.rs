//! Made-up feeds, healthy ones and ones with an injected fault, and what is said of them.

use std::time::Duration;

use super::*;
use crate::model::{Kind, PollPolicy, TaskId, Ts};
use crate::schedule::{Found, Hints, Policy, Poll, PollFailure, mix};

const DAY: u32 = 86_400;
/// A Monday.
const START: u32 = 1_735_516_800;
const WINDOW: usize = 20;
/// Weeks before a fault, and watched.
const WEEKS: (u32, u32) = (2, 1);
const FAULT: u32 = START + WEEKS.0 * 7 * DAY;
const END: u32 = FAULT + WEEKS.1 * 7 * DAY;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// 304 for ever, while a sitemap has the news.
    Frozen,
    Empty,
    /// Suddenly many times as much is published.
    Overflow,
    Wall,
}

fn unit(seed: u64, n: u64) -> f64 {
    (mix(seed, n) >> 11) as f64 / (1u64 << 53) as f64
}

/// Publications of a feed that works by day and less at weekends, in bursts.
fn published(seed: u64, fault: Fault) -> Vec<u32> {
    let rate = 2.0 * 20f64.powf(unit(seed, 1));
    let from = (unit(seed, 2) * 24.0) as usize;
    let mut times = Vec::new();
    for hour in (START - 60 * DAY) / 3600..END / 3600 {
        let (of_day, day) = super::super::state::hour_and_day(hour * 3600);
        let awake = if (of_day + 24 - from) % 24 < 12 { 1.9 } else { 0.1 };
        let weekend = if day < 5 { 1.0 } else { 0.5 };
        let surge = if fault == Fault::Overflow && hour * 3600 > FAULT { 40.0 } else { 1.0 };
        let mut mass = rate / 24.0 * awake * weekend * surge;
        let mut n = u64::from(hour) << 8;
        while unit(seed, n) < mass / (1.0 + mass) {
            times.push(hour * 3600 + (unit(seed, n ^ 0x80) * 3600.0) as u32);
            mass *= 0.97;
            n += 1;
        }
    }
    times.sort_unstable();
    times
}

/// Every verdict after the fault, from polls as the policy plans them.
fn verdicts(seed: u64, fault: Fault) -> Vec<Health> {
    let policy = Policy {
        choose: PollPolicy::Value,
        feed_interval: Duration::from_mins(15),
        sitemap_interval: Duration::from_hours(6),
        min_interval: Duration::from_mins(5),
        max_interval: Duration::from_hours(24),
        jitter: 0.05,
        jitter_respects_min: true,
        ewma: crate::schedule::Factors::default(),
        waits: crate::schedule::Waits::default(),
        once: false,
        retries: 3,
        retry_first: Duration::from_mins(1),
        retry_cap: Duration::from_hours(24),
        seed,
    };
    let times = published(seed, fault);
    let (mut state, mut at, mut seen, mut health) = (State::default(), START, 0, Health::Usual);
    let mut told = Vec::new();
    while at < END {
        let poll = Poll {
            task: TaskId(1),
            kind: Kind::Feed,
            explicit: None,
            policy: None,
            limits: (None, None),
            due: Ts::from_ms(i64::from(at) * 1000),
            at: Ts::from_ms(i64::from(at) * 1000),
            state: &state,
            price: 4000.0,
        };
        let there = times.partition_point(|time| *time <= at);
        let broken = at >= FAULT;
        let mut signs = Signs::default();
        let (next, when) = if broken && fault == Fault::Wall {
            signs.code = Some(Code::Forbidden);
            let failed = policy.after_failure(&poll, &PollFailure::new(Code::Forbidden));
            (failed.state, failed.next.unwrap().at)
        } else {
            let mut dated = &times[seen.max(there.saturating_sub(WINDOW))..there];
            let mut items = (!dated.is_empty()).then_some(WINDOW as u32);
            if broken && fault == Fault::Frozen {
                signs.news_elsewhere = dated.len() as u32;
                (dated, items) = (&[], None);
            } else if broken && fault == Fault::Empty {
                (dated, items) = (&[], Some(0));
            } else {
                seen = there;
            }
            signs.items = items;
            signs.new_items = dated.len() as u32;
            let found = Found { at, dated, undated: 0, items, recent: dated };
            signs.overflowed = overflowed(&state, &found);
            let hints = Hints { conditional: true, ..Hints::default() };
            let (next, decision) = policy.next_poll(&poll, &found, &hints);
            (next, decision.at)
        };
        state = next;
        let verdict = judge(&state, &signs, at, health);
        // A change of verdict is what is told; a fault is told after it happened.
        if verdict != health && (broken || fault == Fault::None) {
            told.push(verdict);
        }
        health = verdict;
        at = u32::try_from(when.ms() / 1000).unwrap();
    }
    told
}

#[test]
fn injected_faults_are_named() {
    let wanted = [
        (Fault::Frozen, Health::Frozen),
        (Fault::Empty, Health::Empty),
        (Fault::Overflow, Health::Overflowing),
        (Fault::Wall, Health::Blocked),
    ];
    let mut wrong = Vec::new();
    for seed in 0..200 {
        let (fault, health) = wanted[seed as usize % 4];
        let told = verdicts(seed, fault);
        if told.first() != Some(&health) {
            wrong.push((seed, fault, told));
        }
    }
    assert!(wrong.len() <= 10, "{} of 200 are wrong: {wrong:?}", wrong.len());
}

#[test]
fn healthy_feeds_raise_no_alarm() {
    let feeds = 50;
    let alarms: Vec<_> = (1000..1000 + feeds)
        .flat_map(|seed| verdicts(seed, Fault::None))
        .filter(|health| *health != Health::Usual)
        .collect();
    let weeks = f64::from(WEEKS.0 + WEEKS.1);
    let per_week = alarms.len() as f64 / (feeds as f64 / 100.0) / weeks;
    assert!(per_week < 1.0, "{per_week} for 100 sources and a week: {alarms:?}");
}

#[test]
fn an_unusual_silence_is_late_and_a_usual_one_is_not() {
    let times: Vec<u32> = (0..60 * 24).map(|hour| START - 60 * DAY + hour * 3600).collect();
    let mut state = State::default();
    let found = Found { at: START, dated: &times, items: Some(20), ..Found::default() };
    value::learn(&mut state, &found, 1);
    let quiet = |hours: u32, state: &State| {
        judge(state, &Signs::default(), START + hours * 3600, Health::Usual)
    };
    assert_eq!(quiet(3, &state), Health::Usual);
    assert_eq!(quiet(48, &state), Health::Late);
    assert_eq!(quiet(48, &State { n: 2.0, ..state }), Health::Usual, "too little is known");
}

#[test]
fn a_feed_that_only_shows_its_latest_item_overflows_by_rhythm_alone() {
    let known = State { last_ok: START, window: 1, n: 20.0, e: 30.0, ..State::default() };
    let one_after = |hours: u32, window: u32| {
        let at = START + hours * 3600;
        let dated = vec![at - 60; window as usize];
        overflowed(&known, &Found { at, dated: &dated, items: Some(window), ..Found::default() })
    };
    assert!(!one_after(2, 1), "0.05 items were to be expected");
    assert!(!one_after(2, 2));
    assert!(one_after(48, 1), "1.3 were");
    assert!(one_after(2, 20), "a long document that is new as a whole is a sign by itself");
    // Its guard is not raised by what is always so.
    let mut state = known;
    for n in 1..20 {
        let at = START + n * 86_400;
        let found = Found { at, dated: &[at - 60], items: Some(1), ..Found::default() };
        value::learn(&mut state, &found, 1);
    }
    assert!(state.fano < 2.0, "{}", state.fano);
}

#[test]
fn one_failure_is_no_verdict_and_three_are() {
    let mut state = State::default();
    let failed = Signs { code: Some(Code::Timeout), ..Signs::default() };
    state.note(true);
    assert_eq!(judge(&state, &failed, START, Health::Late), Health::Late);
    state.note(true);
    state.note(true);
    assert_eq!(judge(&state, &failed, START, Health::Late), Health::Failing);
}
