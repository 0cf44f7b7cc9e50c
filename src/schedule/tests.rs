//! Sequences of answers and what follows from them, and what must hold for every policy.

mod budget;
mod retry_after;

use proptest::prelude::*;

use super::*;

const POLICIES: [PollPolicy; 3] = [PollPolicy::Value, PollPolicy::Ewma, PollPolicy::Fixed];
/// A Monday.
const START: u32 = 1_735_516_800;

fn policy(choose: PollPolicy) -> Policy {
    Policy {
        choose,
        feed_interval: 15 * MINUTE,
        sitemap_interval: 6 * HOUR,
        min_interval: 5 * MINUTE,
        max_interval: DAY,
        jitter: 0.05,
        jitter_respects_min: true,
        ewma: Factors::default(),
        waits: Waits::default(),
        once: false,
        retries: 3,
        retry_first: MINUTE,
        retry_cap: DAY,
        seed: 7,
    }
}

fn ts(time: u32) -> Ts {
    Ts::from_ms(i64::from(time) * 1000)
}

fn poll(state: &State, at: u32) -> Poll<'_> {
    Poll {
        task: TaskId(1),
        kind: Kind::Feed,
        explicit: None,
        policy: None,
        limits: (None, None),
        due: ts(at),
        at: ts(at),
        state,
        price: FIRST_PRICE,
    }
}

const CONDITIONAL: Hints = Hints { document: None, fresh: None, conditional: true };

/// A feed with an item every `gap` seconds for a month until `until`.
fn steady(gap: u32, until: u32) -> State {
    let times: Vec<u32> = (1..=30 * 86_400 / gap).rev().map(|n| until - n * gap).collect();
    let found =
        Found { at: until, dated: &times, items: Some(30), recent: &times, ..Found::default() };
    policy(PollPolicy::Value).next_poll(&poll(&State::default(), until), &found, &CONDITIONAL).0
}

/// The interval and reason after a poll that brought nothing, an hour later.
fn plan(choose: PollPolicy, state: &State, price: f64) -> Decision {
    let at = state.last_ok + 3600;
    let poll = Poll { price, ..poll(state, at) };
    let found = Found { at, ..Found::default() };
    policy(choose).next_poll(&poll, &found, &CONDITIONAL).1
}

#[test]
fn a_busier_feed_is_polled_more_often_and_a_higher_price_makes_all_slower() {
    let (busy, slow) = (steady(1800, START), steady(40_000, START));
    let interval = |state, price| plan(PollPolicy::Value, state, price).interval;
    assert!(interval(&busy, 2000.0) < interval(&slow, 2000.0));
    assert!(interval(&busy, 500.0) < interval(&busy, 50_000.0));
    assert!(interval(&slow, 1e9) <= DAY);
    let reason = plan(PollPolicy::Value, &busy, 2000.0).reason;
    for part in ["poll in ", "(before: ", ": rate ", "profile x", "price 2.0e3; bound=", "; alt "] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn the_first_document_teaches_the_rate() {
    let rate = steady(3600, START).rate();
    assert!((16.0..26.0).contains(&rate), "{rate}");
}

#[test]
fn a_dead_feed_fades_to_days() {
    let mut state = steady(3600, START);
    let mut at = START;
    let mut last = Duration::ZERO;
    while at < START + 400 * 86_400 {
        let found = Found { at, ..Found::default() };
        let (next, decision) =
            policy(PollPolicy::Value).next_poll(&poll(&state, at), &found, &CONDITIONAL);
        (state, last) = (next, decision.interval);
        at = seconds(decision.at);
    }
    assert!(last > 4 * DAY && last <= 7 * DAY, "{last:?}");
}

#[test]
fn a_feed_that_would_overflow_is_guarded() {
    let mut state = steady(600, START);
    state.window = 5;
    let decision = plan(PollPolicy::Value, &state, 1e9);
    assert!(decision.interval < HOUR, "{}", decision.reason);
    assert!(decision.reason.contains("bound=guard"), "{}", decision.reason);
}

#[test]
fn errors_teach_nothing() {
    let before = steady(3600, START);
    let policy = policy(PollPolicy::Value);
    let mut state = before;
    for n in 0..5 {
        let at = START + 3600 * n;
        state = policy.after_failure(&poll(&state, at), &PollFailure::new(Code::Timeout)).state;
    }
    assert_eq!((state.n, state.e, state.ewma), (before.n, before.e, before.ewma));
    assert_eq!((state.hours, state.last_ok), (before.hours, before.last_ok));
    assert_eq!(state.failures(), 5);
}

#[test]
fn a_channel_is_disabled_probed_and_enabled_again() {
    let policy = policy(PollPolicy::Value);
    let mut state = steady(3600, START);
    for n in 1..=5 {
        assert!(!state.disabled, "{n}");
        state =
            policy.after_failure(&poll(&state, START), &PollFailure::new(Code::Forbidden)).state;
    }
    assert!(state.disabled);
    let probe = policy.after_failure(&poll(&state, START), &PollFailure::new(Code::Forbidden));
    let wait = probe.next.unwrap().at.since(ts(START));
    assert!((DAY..DAY.mul_f64(1.1)).contains(&wait), "{wait:?}");
    let found = Found { at: START + 90_000, ..Found::default() };
    let (state, _) = policy.next_poll(&poll(&state, START + 90_000), &found, &CONDITIONAL);
    assert!(!state.disabled && state.failures() == 0);

    let given_up = Waits { then: OnThreshold::Disable, ..policy.waits };
    let strict = Policy { waits: given_up, ..policy.clone() };
    let mut state = State::default();
    for tries in 1..=3 {
        let failed = strict.after_failure(&poll(&state, START), &PollFailure::new(Code::NotFound));
        assert_eq!((failed.next.is_none(), failed.state.disabled), (tries == 3, tries == 3));
        state = failed.state;
    }

    let waits = Waits { then: OnThreshold::KeepRetrying, ..policy.waits };
    let patient = Policy { waits, ..policy };
    let mut state = State::default();
    for _ in 0..60 {
        let failed = patient.after_failure(&poll(&state, START), &PollFailure::new(Code::NotFound));
        assert!(!failed.state.disabled);
        assert!(failed.next.unwrap().interval <= DAY);
        state = failed.state;
    }
}

#[test]
fn hints_make_it_later_and_an_operators_interval_overrides_them() {
    let state = steady(600, START);
    let decide = |explicit, hints: &Hints| {
        let poll = Poll { explicit, ..poll(&state, START + 600) };
        let found = Found { at: START + 600, items: Some(30), ..Found::default() };
        policy(PollPolicy::Value).next_poll(&poll, &found, hints).1
    };
    let document = Document { ttl: Some(3 * HOUR), skip: 0 };
    let ttl = Hints { document: Some(document), ..CONDITIONAL };
    assert_eq!(decide(None, &ttl).interval, 3 * HOUR);
    assert!(decide(None, &ttl).reason.contains("bound=ttl"));
    let fresh = Hints { fresh: Some(4 * HOUR), ..ttl };
    assert_eq!(decide(None, &fresh).interval, 4 * HOUR);
    assert_eq!(decide(Some(10 * MINUTE), &fresh).interval, 10 * MINUTE);
    let blind = Hints { conditional: false, ..CONDITIONAL };
    assert_eq!(decide(None, &blind).interval, HOUR);
}

#[test]
fn a_backlog_does_not_come_back_as_one_heap() {
    let state = State { last_ok: START - 7200, ..steady(600, START - 7200) };
    let waits = |due: u32, choose| {
        let wait = move |task| {
            let poll = Poll { task: TaskId(task), due: ts(due), ..poll(&state, START) };
            let found = Found { at: START, ..Found::default() };
            policy(choose).next_poll(&poll, &found, &CONDITIONAL).1
        };
        let waits = (0..100).map(move |task| wait(task).at.since(ts(START)));
        (waits.clone().min().unwrap(), waits.max().unwrap())
    };
    let (first, last) = waits(START, PollPolicy::Fixed);
    assert!(first >= 15 * MINUTE && last <= 16 * MINUTE, "{first:?} to {last:?}");
    let (first, last) = waits(START - 6600, PollPolicy::Fixed);
    assert!(first >= 15 * MINUTE && last >= 22 * MINUTE, "{first:?} to {last:?}");
    let (first, last) = waits(START - 6600, PollPolicy::Value);
    assert!(last - first >= 5 * MINUTE, "{first:?} to {last:?}");
}

#[test]
fn a_pushed_feed_is_checked_slowly() {
    let state = State { pushed: true, ..steady(600, START) };
    assert_eq!(plan(PollPolicy::Value, &state, 1.0).interval, DAY);
}

#[test]
fn a_sitemap_waits_for_its_kinds_interval_until_it_yields() {
    let policy = policy(PollPolicy::Value);
    let step = |state: &State, at: u32, undated: u32| {
        let poll = Poll { kind: Kind::Sitemap, ..poll(state, at) };
        let found = Found { at, undated, items: Some(500), ..Found::default() };
        policy.next_poll(&poll, &found, &CONDITIONAL)
    };
    let (mut state, decision) = step(&State::default(), START, 0);
    assert_eq!(decision.interval, 6 * HOUR);
    let mut last = decision.interval;
    for n in 1..40 {
        (state, Decision { interval: last, .. }) = step(&state, START + n * 21_600, 40);
    }
    assert!(last < 2 * HOUR, "{last:?}");
    for n in 40..1200 {
        (state, Decision { interval: last, .. }) = step(&state, START + n * 21_600, 0);
    }
    assert!(last >= DAY, "{last:?}");
}

#[test]
fn a_page_is_given_up_after_its_retries_but_never_for_our_haste() {
    let policy = policy(PollPolicy::Value);
    let retry = |code, n| policy.retry_page(TaskId(1), ts(0), code, n, None);
    assert_eq!(retry(Code::Upstream, 1).unwrap().interval, MINUTE);
    assert_eq!(retry(Code::Upstream, 3).unwrap().interval, 4 * MINUTE);
    assert!(retry(Code::Upstream, 4).is_none());
    assert!(retry(Code::NotFound, 1).is_none());
    assert!(retry(Code::RateLimited, 40).is_some());
}

/// Anything that can happen to a feed.
#[derive(Clone, Debug)]
enum Event {
    News(Vec<u32>, u32),
    Unchanged,
    Failed(Code, Option<u32>),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (proptest::collection::vec(0u32..100_000, 0..30), 0u32..5)
            .prop_map(|(ago, undated)| Event::News(ago, undated)),
        Just(Event::Unchanged),
        (proptest::sample::select(Code::ALL), proptest::option::of(0u32..200_000))
            .prop_map(|(code, told)| Event::Failed(code, told)),
    ]
}

fn hints() -> impl Strategy<Value = Hints> {
    let span = || proptest::option::of((0u64..200_000).prop_map(Duration::from_secs));
    (span(), span(), 0u8..24, proptest::collection::vec(0u8..7, 0..3), any::<bool>()).prop_map(
        |(ttl, fresh, hour, days, conditional)| Hints {
            document: Some(Document::new(ttl, &[hour, (hour + 1) % 24], &days)),
            fresh,
            conditional,
        },
    )
}

/// Whether the publisher asks to leave that time out.
fn is_skipped(state: &State, at: Ts) -> bool {
    let (hour, day) = state::hour_and_day(seconds(at));
    state.skip & (1 << hour) != 0 || state.skip & (1 << (24 + day)) != 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_the_promises_hold(
        choose in proptest::sample::select(&POLICIES[..]),
        events in proptest::collection::vec((event(), hints()), 1..25),
        explicit in proptest::option::of((0u64..200_000).prop_map(Duration::from_secs)),
        price in 1.0f64..1e7,
    ) {
        let policy = policy(choose);
        let (mut state, mut at, mut last_wait) = (State::default(), START, None);
        for (event, hints) in events {
            let poll = Poll { explicit, price, ..poll(&state, at) };
            let (next, when) = match &event {
                Event::Failed(code, told) => {
                    let told = told.map(|wait| ts(at + wait));
                    let status = (*code == Code::RateLimited).then_some(429);
                    let failure = PollFailure { status, told, fresh: hints.fresh, ..PollFailure::new(*code) };
                    let failed = policy.after_failure(&poll, &failure);
                    prop_assert_eq!(&failed, &policy.after_failure(&poll, &failure));
                    let Some(decision) = failed.next else { continue };
                    prop_assert!(decision.at > poll.at);
                    prop_assert!(told.is_none_or(|told| decision.at >= told));
                    // The same failure again never waits less, unless the server says so.
                    if let Some((before, wait)) = last_wait && before == *code && told.is_none() {
                        prop_assert!(decision.interval >= wait, "{}", decision.reason);
                    }
                    last_wait = (told.is_none() && hints.fresh.is_none())
                        .then_some((*code, decision.interval));
                    (failed.state, decision)
                }
                Event::News(..) | Event::Unchanged => {
                    last_wait = None;
                    let (mut dated, mut undated) = (vec![], 0);
                    if let Event::News(ago, more) = &event {
                        dated = ago.iter().map(|ago| at - ago).collect();
                        undated = *more;
                    }
                    dated.sort_unstable();
                    let items = matches!(event, Event::News(..)).then_some(30);
                    let found = Found { at, dated: &dated, undated, items, recent: &dated };
                    let (next, decision) = policy.next_poll(&poll, &found, &hints);
                    prop_assert_eq!(
                        (next, decision.clone()),
                        policy.next_poll(&poll, &found, &hints)
                    );
                    let wait = decision.at.since(poll.at);
                    let longest = DAY.max(Duration::from_secs_f32(next.floor + 1.0));
                    let dead = next.last_item > 0 && next.last_ok - next.last_item > 90 * 86_400;
                    let longest = if dead { longest.max(7 * DAY) } else { longest };
                    prop_assert!(wait >= 5 * MINUTE, "{}", decision.reason);
                    let floor = Duration::from_secs_f32(next.floor);
                    let is_cut = value::overflow(&next, next.floor.ceil() as u32).is_some();
                    let is_kept = wait + Duration::from_secs(1) >= floor;
                    prop_assert!(is_kept || is_cut, "{}", decision.reason);
                    if !decision.reason.contains("bound=skip") {
                        prop_assert!(wait <= longest, "{}", decision.reason);
                    }
                    prop_assert!(next.n.is_finite() && next.e.is_finite() && next.fano.is_finite());
                    (next, decision)
                }
            };
            prop_assert!(!is_skipped(&next, when.at), "{}", when.reason);
            state = State::from_bytes(&next.to_bytes()).unwrap();
            at = seconds(when.at).max(at + 1);
        }
    }
}

#[test]
fn the_first_failure_by_size_doubles_the_usual_interval_of_its_kind() {
    for (kind, wait) in [(Kind::Feed, 30 * MINUTE), (Kind::Sitemap, 12 * HOUR)] {
        let state = State::default();
        let poll = Poll { kind, ..poll(&state, START) };
        let failed =
            policy(PollPolicy::Value).after_failure(&poll, &PollFailure::new(Code::TooLarge));
        assert_eq!(failed.next.unwrap().interval, wait, "{kind}");
    }
}

#[test]
fn a_reason_names_what_bound_the_plan_and_the_wait_that_it_led_to() {
    let reason = |limits, explicit, kind| {
        let (state, hints) = (State::default(), CONDITIONAL);
        let poll = Poll { limits, explicit, kind, ..poll(&state, START) };
        let found = Found { at: START, ..Found::default() };
        policy(PollPolicy::Value).next_poll(&poll, &found, &hints).1
    };
    let none = (None, None);
    let decided = reason(none, Some(MINUTE), Kind::Feed);
    assert!(decided.interval == 5 * MINUTE && decided.reason.ends_with("bound=min"), "{decided:?}");
    let decided = reason(none, Some(48 * HOUR), Kind::Feed);
    assert!(decided.interval == DAY && decided.reason.ends_with("bound=max"), "{decided:?}");
    // A source's own limits count in place of the house's.
    let decided = reason((None, Some(HOUR)), None, Kind::Sitemap);
    assert!(decided.interval == HOUR && decided.reason.ends_with("bound=max"), "{decided:?}");
    let decided = reason((Some(MINUTE), None), Some(MINUTE), Kind::Feed);
    assert!(decided.interval == MINUTE && decided.reason.ends_with("bound=none"), "{decided:?}");

    let dead = State { last_ok: START, last_item: START - 300 * 86_400, ..State::default() };
    let decided = plan(PollPolicy::Value, &dead, 1.0);
    assert!(decided.reason.contains("bound=faded"), "{}", decided.reason);
    let at = dead.last_ok + 3600;
    let bounded = Poll { limits: (None, Some(DAY)), price: 1e9, ..poll(&dead, at) };
    let found = Found { at, ..Found::default() };
    let decided = policy(PollPolicy::Value).next_poll(&bounded, &found, &CONDITIONAL).1;
    assert!(decided.interval <= DAY, "who names a longest interval means it: {decided:?}");

    let skips = State { skip: 0x00ff_fffe, ..State::default() };
    let failed = policy(PollPolicy::Value)
        .after_failure(&poll(&skips, START + 3600), &PollFailure::new(Code::Timeout));
    let next = failed.next.unwrap();
    let wait = human(next.at.since(ts(START + 3600)));
    assert!(next.at.since(ts(START)) >= DAY, "{next:?}");
    assert!(next.reason.contains(&format!("again in {wait}; bound=skip")), "{next:?}");
}

#[test]
fn a_short_first_document_teaches_its_rate_and_no_rhythm_that_it_cannot_show() {
    let rate = |items: u32, gap: u32| {
        let times: Vec<u32> = (0..items).map(|n| START - n * gap).collect();
        let found = Found { at: START, dated: &times, items: Some(items), ..Found::default() };
        let mut state = State::default();
        value::learn(&mut state, &found, 1);
        state.rate()
    };
    // Two days of prior evidence stand against it.
    assert!((10.0..20.0).contains(&rate(50, 3600)), "hourly for two days: {}", rate(50, 3600));
    assert!(rate(10, 300) > 3.5, "ten within an hour: {}", rate(10, 300));
}
