//! Who may have a worker, case by case; and whatever comes, nobody waits for ever.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn key(source: i64, site: i64) -> FlowKey {
    FlowKey { source, site }
}

/// Workers, and flows with what they hold and how long they take; each source has the site of its number.
fn shares(workers: usize, flows: &[(i64, usize, Speed)]) -> WorkerShares {
    let all: HashMap<i64, Flow> = flows
        .iter()
        .map(|(number, held, speed)| (*number, Flow { held: *held, speed: *speed }))
        .collect();
    let under_way =
        flows.iter().flat_map(|(number, held, _)| (0..*held).map(|_| key(*number, *number)));
    WorkerShares::new(workers, all.clone(), all, 0).holding(under_way.map(|key| (key, 0)), SLOW_MS)
}

#[test]
fn a_source_and_a_site_have_their_shares() {
    use Speed::{Fast, Slow, Unknown};
    type Case =
        (&'static str, usize, Vec<(i64, usize, Speed)>, Result<(), Refusal>, Result<(), Refusal>);
    let full = Err(Refusal::Source);
    // Workers, what is held, and whether source 1 gets another one: in its share, and of the rest.
    let cases: [Case; 9] = [
        ("nothing is under way", 10, vec![], Ok(()), Ok(())),
        ("half for who is not known", 10, vec![(1, 4, Unknown)], Ok(()), Ok(())),
        ("and no more", 10, vec![(1, 5, Unknown)], full, full),
        ("who is fast has what nobody wants", 10, vec![(1, 9, Fast)], full, Ok(())),
        (
            "slow ones have half together",
            10,
            vec![(1, 1, Slow), (2, 4, Slow)],
            Err(Refusal::Slow),
            Err(Refusal::Slow),
        ),
        (
            "the more are served, the smaller is a share",
            10,
            vec![(1, 2, Fast), (2, 2, Fast), (3, 2, Fast)],
            full,
            Ok(()),
        ),
        (
            "a share is never nothing",
            3,
            vec![(2, 1, Fast), (3, 1, Fast), (4, 1, Fast)],
            Ok(()),
            Ok(()),
        ),
        ("one worker serves everybody", 1, vec![(1, 0, Slow)], Ok(()), Ok(())),
        ("two workers leave one", 2, vec![(1, 1, Unknown)], full, full),
    ];
    for (what, workers, held, in_share, of_rest) in cases {
        let shares = shares(workers, &held);
        assert_eq!(shares.allows(key(1, 1), Pass::Share), in_share, "{what}");
        assert_eq!(shares.allows(key(1, 1), Pass::Rest), of_rest, "{what}");
    }
    assert_eq!(WorkerShares::unlimited().allows(key(1, 1), Pass::Share), Ok(()));
    let stopped = shares(10, &[]).without(Arc::new(HashSet::from([1])));
    for pass in Pass::ALL {
        assert_eq!(stopped.allows(key(1, 1), pass), Err(Refusal::Quota));
        assert_eq!(stopped.allows(key(2, 1), pass), Ok(()));
        assert_eq!(stopped.avoid(pass).sources, [1]);
    }
}

#[test]
fn a_quarter_of_the_workers_is_kept_for_sites_that_are_known_to_be_fast() {
    let mut shares = shares(8, &[]).with_fast_sites([100].into_iter());
    for number in 0..6 {
        assert_eq!(shares.allows(key(number, number), Pass::Share), Ok(()), "{number}");
        shares.take(key(number, number), false);
    }
    for pass in Pass::ALL {
        assert_eq!(shares.allows(key(9, 9), pass), Err(Refusal::Unproven));
        assert_eq!(shares.allows(key(9, 100), pass), Ok(()));
        assert_eq!(shares.avoid(pass).sites, AvoidSites::AllBut(vec![100]));
    }
    // Those that take long leave their workers to others, up to half as many as there are workers.
    let late = |count: i64| {
        let for_ms = |number| if number < count { LEAVES_WORKER_MS + 1 } else { 0 };
        let under_way = (0..8).map(|number| (key(number, number), for_ms(number)));
        WorkerShares::new(8, HashMap::new(), HashMap::new(), 0).holding(under_way, SLOW_MS)
    };
    assert!(late(2).is_for_fast_sites());
    assert!(!late(3).is_for_fast_sites());
    assert!(!late(8).is_for_fast_sites());
    assert_eq!(late(8).unproven, 4);
}

#[test]
fn hosts_of_one_domain_are_one_site() {
    let site = site_number("a.example.co.uk");
    assert_eq!(site, site_number("b.c.example.co.uk"));
    assert_ne!(site, site_number("other.co.uk"));
    assert_ne!(site_number("10.0.0.1"), site_number("10.0.0.2"));
    // Another source on the site of the first has no more than the site has.
    let mut shares = shares(4, &[]);
    shares.take(key(1, site), false);
    shares.take(key(2, site), false);
    assert_eq!(shares.allows(key(3, site), Pass::Rest), Err(Refusal::Site));
    assert_eq!(shares.allows(key(3, 5), Pass::Rest), Ok(()));
}

#[test]
fn polls_have_workers_of_their_own() {
    let reserve = |workers, polls, n| {
        WorkerShares::new(workers, HashMap::new(), HashMap::new(), polls).polls_first(n)
    };
    let cases = [
        ((0, 0, 9), 0),
        ((1, 0, 1), 0),
        ((2, 0, 2), 1),
        ((10, 0, 10), 2),
        ((10, 1, 10), 1),
        ((10, 2, 8), 0),
        ((40, 0, 3), 3),
    ];
    for ((workers, polls, n), wanted) in cases {
        assert_eq!(
            reserve(workers, polls, n),
            wanted,
            "{workers} workers, {polls} polls, {n} wanted"
        );
    }
}

#[test]
fn response_times_tell_slow_from_fast() {
    let of = |times: &[u64]| {
        let mut time = ResponseTime::default();
        times.iter().for_each(|took| time.record(*took, false, SLOW_MS, 0));
        time
    };
    let speed = |times: &[u64]| of(times).speed(SLOW_MS, 0);
    assert_eq!(speed(&[200; 2]), Speed::Unknown);
    assert_eq!(speed(&[200; 3]), Speed::Fast);
    assert_eq!(speed(&[200, 200, 200, 60_000]), Speed::Fast, "one time-out");
    assert_eq!(speed(&[14_000]), Speed::Unknown);
    assert_eq!(speed(&[14_000; 2]), Speed::Slow);
    assert_eq!(speed(&[600; 2]), Speed::Unknown);
    assert_eq!(speed(&[200, 600, 600]), Speed::Fast);
    assert_eq!(speed(&[600; 4]), Speed::Unknown, "neither slow nor known to be fast");
    assert_eq!(speed(&[600; 5]), Speed::Slow);
    // Fast polls say nothing about pages.
    let mut polled = of(&[20; 100]);
    for page in 1..=3 {
        polled.record(20, true, SLOW_MS, 0);
        let expected = if page < 3 { Speed::Unknown } else { Speed::Fast };
        assert_eq!(polled.speed(SLOW_MS, 0), expected);
    }
    // Fast requests in between do not hide slow ones: what counts is how long workers wait.
    let hidden: Vec<u64> = [14_000].into_iter().chain([20; 30]).cycle().take(62).collect();
    assert_eq!(speed(&hidden), Speed::Slow);
    // Where everything takes long, that is how it is.
    let slow_line = [of(&[5_000; 3]), of(&[6_000; 3]), of(&[4_000; 3])];
    let limit = slow_limit(slow_line.iter().copied());
    assert!(slow_line.iter().all(|time| time.speed(limit, 0) == Speed::Fast), "{limit}");
    let mixed = [of(&[90; 3]), of(&[14_000; 3]), of(&[70; 3])];
    assert_eq!(slow_limit(mixed.iter().copied()), SLOW_MS);
    assert_eq!(slow_limit(std::iter::empty()), SLOW_MS);
}

#[test]
fn most_sources_raise_the_limit_only_up_to_a_bound() {
    let of = |average_ms| ResponseTime { average_ms, samples: SAMPLES, ..ResponseTime::default() };
    let limit = |honest: &[u64], others: usize, take: u64| {
        slow_limit(honest.iter().copied().chain(std::iter::repeat_n(take, others)).map(of))
    };
    for others in [6, 100, 10_000] {
        assert_eq!(limit(&[20, 40, 90], others, 200), 800, "four times what is usual");
        assert_eq!(limit(&[20, 40, 90], others, 3_000), SLOW_ANYWHERE_MS);
        assert_eq!(limit(&[20], others, 60_000), SLOW_ANYWHERE_MS);
        assert_eq!(limit(&[], others, 3_000), 12_000, "everything is slow");
        assert_eq!(limit(&[2_000], others, 3_000), 8_000, "nothing is fast");
    }
    assert_eq!(limit(&[3_000], 0, 0), 12_000);
}

/// Sources with a site each, in steps of 20 ms. Some are hostile: they have pages without end that take long.
struct Town {
    honest: usize,
    hostile: usize,
    workers: usize,
    feed_ms: u64,
    page_ms: u64,
}

/// What was served after the first minute.
#[derive(Debug, Default)]
struct Served {
    /// Polls of honest sources, as a part of those that were due.
    part_of_polls: f64,
    /// The most pages that were under way at once.
    most_pages: usize,
    /// Steps in which a worker was idle although something was due.
    idle: u32,
}

#[derive(Clone, Copy)]
struct Request {
    source: usize,
    is_poll: bool,
    since: u64,
    takes: u64,
}

impl Town {
    const STEP: u64 = 20;
    const WARM: u64 = 60_000;
    const END: u64 = 120_000;
    /// Between two polls of a source.
    const INTERVAL: u64 = 2_000;

    fn run(&self) -> Served {
        let sources = self.honest + self.hostile;
        let mut poll_due: Vec<u64> = (0..sources as u64).map(|n| n * 37 % Self::INTERVAL).collect();
        let mut page_due: Vec<u64> =
            (0..sources).map(|source| if source < self.honest { u64::MAX } else { 0 }).collect();
        let mut under_way: Vec<Request> = Vec::new();
        let mut times: HashMap<i64, ResponseTime> = HashMap::new();
        let (mut served, mut polls) = (Served::default(), 0u64);
        for now in (0..Self::END).step_by(Self::STEP as usize) {
            let limit = slow_limit(times.values().copied());
            under_way.retain(|one| {
                let is_over = one.since + one.takes <= now;
                if is_over {
                    let time = times.entry(one.source as i64).or_default();
                    time.record(one.takes, !one.is_poll, limit, now);
                }
                !is_over
            });
            let left = under_way.iter().filter(|one| now - one.since > LEAVES_WORKER_MS).count();
            let left = left.min(WorkerShares::waiting_places(self.workers));
            let free = self.workers - (under_way.len() - left);
            let asked: HashSet<usize> = under_way.iter().map(|one| one.source).collect();
            let dues = [(false, &page_due), (true, &poll_due)];
            let mut waiting: Vec<(bool, u64, usize)> = dues
                .iter()
                .flat_map(|(is_poll, due)| {
                    due.iter().enumerate().map(|(n, due)| (*is_poll, *due, n))
                })
                .filter(|(_, due, source)| *due <= now && !asked.contains(source))
                .collect();
            waiting.sort_unstable();
            let mut shares = shares_of(self, &under_way, &times, now);
            let taken = self.claim(free, now, &mut shares, &waiting);
            for one in &taken {
                if one.is_poll {
                    polls += u64::from(now >= Self::WARM && one.source < self.honest);
                    poll_due[one.source] = now + Self::INTERVAL;
                }
                // The pause of its host.
                let next = now + one.takes + 100;
                page_due[one.source] = if one.source < self.honest { u64::MAX } else { next };
            }
            under_way.extend(&taken);
            if now >= Self::WARM {
                let others = waiting.iter().any(|(.., n)| taken.iter().all(|one| one.source != *n));
                served.idle += u32::from(taken.len() < free && others);
                let pages = under_way.iter().filter(|one| !one.is_poll).count();
                served.most_pages = served.most_pages.max(pages);
            }
        }
        let possible =
            (Self::END - Self::WARM) / (Self::INTERVAL + Self::STEP) * self.honest as u64;
        served.part_of_polls = polls as f64 / possible.max(1) as f64;
        served
    }

    /// Claims as both databases do: some polls first, then by pass and time, pages before polls.
    fn claim(
        &self,
        free: usize,
        now: u64,
        shares: &mut WorkerShares,
        waiting: &[(bool, u64, usize)],
    ) -> Vec<Request> {
        let mut taken: Vec<Request> = Vec::new();
        let polls_first = shares.polls_first(free);
        for (most, only_polls) in [(polls_first, true), (free, false)] {
            for pass in Pass::ALL {
                for (is_poll, _, source) in waiting {
                    if taken.len() >= most {
                        break;
                    }
                    let is_taken = taken.iter().any(|one| one.source == *source);
                    let key = key(*source as i64, *source as i64);
                    if is_taken || (only_polls && !is_poll) || shares.allows(key, pass).is_err() {
                        continue;
                    }
                    shares.take(key, *is_poll);
                    let takes = if *is_poll { self.feed_ms } else { self.page_ms };
                    taken.push(Request { source: *source, is_poll: *is_poll, since: now, takes });
                }
            }
        }
        taken
    }
}

/// The shares of an engine, as `fetch/flows.rs` puts them together.
fn shares_of(
    town: &Town,
    under_way: &[Request],
    times: &HashMap<i64, ResponseTime>,
    now: u64,
) -> WorkerShares {
    let limit = slow_limit(times.values().copied());
    let mut held: HashMap<i64, usize> = HashMap::new();
    under_way.iter().for_each(|one| *held.entry(one.source as i64).or_default() += 1);
    let late = under_way.iter().filter(|one| now - one.since > limit);
    let late: HashSet<i64> = late.map(|one| one.source as i64).collect();
    let speed = |time: ResponseTime| time.speed(limit, now);
    let polls = under_way.iter().filter(|one| one.is_poll).count();
    let requests =
        under_way.iter().map(|one| (key(one.source as i64, one.source as i64), now - one.since));
    let (sources, sites) =
        (flows(&held, times, speed, &HashSet::new()), flows(&held, times, speed, &late));
    let shares = WorkerShares::new(town.workers, sources, sites, polls).holding(requests, limit);
    if !shares.is_for_fast_sites() {
        return shares;
    }
    let fast = times.iter().filter(|(_, time)| speed(**time) == Speed::Fast);
    shares.with_fast_sites(fast.map(|(site, _)| *site))
}

#[test]
fn limits_hold_also_when_most_sources_are_hostile() {
    for (honest, hostile, workers, page_ms) in [
        (15, 20, 8, 3_000),
        (15, 20, 16, 3_000),
        (15, 20, 16, 9_000),
        (5, 100, 16, 3_000),
        (5, 100, 16, 9_000),
        (1, 100, 16, 3_000),
    ] {
        let town = Town { honest, hostile, workers, feed_ms: 20, page_ms };
        let served = town.run();
        let what = format!("{honest} honest, {hostile} hostile, {workers} workers, {page_ms} ms");
        assert!(served.part_of_polls > 0.9, "{what}: {served:?}");
        // Those of many are not all known yet.
        let is_known = hostile < 100;
        assert!(!is_known || served.most_pages <= workers / 2, "{what}: {served:?}");
    }
}

#[test]
fn behind_a_slow_line_no_worker_is_idle() {
    for (honest, hostile) in [(30, 0), (10, 30)] {
        let town = Town { honest, hostile, workers: 8, feed_ms: 2_500, page_ms: 2_900 };
        let served = town.run();
        assert_eq!(served.idle, 0, "{served:?}");
    }
}

#[test]
fn slow_requests_are_forgiven_with_time() {
    let mut time = ResponseTime::default();
    let minute = 60_000;
    for _ in 0..1_000 {
        time.record(30_000, false, SLOW_MS, 0);
    }
    assert_eq!(time.speed(SLOW_MS, 6 * minute), Speed::Slow);
    assert_eq!(time.speed(SLOW_MS, 7 * minute), Speed::Unknown);
    assert_eq!(time.speed(SLOW_MS, 8 * minute), Speed::Fast);
    // Whose requests are seldom and slow is never called so: hardly a worker waits for it.
    let mut seldom = ResponseTime::default();
    for at in 0..100 {
        seldom.record(9_000, false, SLOW_MS, at * 15 * minute);
        assert_ne!(seldom.speed(SLOW_MS, at * 15 * minute), Speed::Slow);
    }
}

/// A task that waits: its key, its priority, and how many rounds it takes.
#[derive(Clone, Debug)]
struct Waiting {
    key: FlowKey,
    prio: u8,
    rounds: u32,
}

/// Claims as both databases do: by pass, then priority, then time.
fn claim(queue: &mut VecDeque<Waiting>, n: usize, shares: &mut WorkerShares) -> Vec<Waiting> {
    let mut taken = Vec::new();
    for pass in Pass::ALL {
        for prio in (1..=10).rev() {
            let mut at = 0;
            while at < queue.len() && taken.len() < n {
                let one = &queue[at];
                let avoid = shares.avoid(pass);
                let is_avoided = avoid.sources.contains(&one.key.source)
                    || match &avoid.sites {
                        AvoidSites::These(sites) => sites.contains(&one.key.site),
                        AvoidSites::AllBut(sites) => !sites.contains(&one.key.site),
                    };
                assert_eq!(
                    is_avoided,
                    shares.allows(one.key, pass).is_err(),
                    "two ways to say one thing"
                );
                if one.prio != prio || is_avoided {
                    at += 1;
                    continue;
                }
                shares.take(one.key, false);
                taken.extend(queue.remove(at));
            }
        }
    }
    taken
}

fn tasks() -> impl Strategy<Value = Vec<Waiting>> {
    let task = (0i64..6, 0i64..8, 1u8..=10, 1u32..20)
        .prop_map(|(source, site, prio, rounds)| Waiting { key: key(source, site), prio, rounds });
    proptest::collection::vec(task, 0..60)
}

proptest! {
    /// Whatever waits is served in the end; a worker is idle only while everybody who waits holds half of
    /// the workers or is slow; and a source, a site and all slow ones keep their limits.
    #[test]
    fn everybody_is_served_and_limits_hold(tasks in tasks(), workers in 1usize..12) {
        let mut queue: VecDeque<Waiting> = tasks.into();
        let mut under_way: Vec<(Waiting, u32)> = Vec::new();
        let (mut sources, mut sites): (HashMap<i64, ResponseTime>, HashMap<i64, ResponseTime>) =
            Default::default();
        for round in 0..2_000u32 {
            if queue.is_empty() && under_way.is_empty() {
                return Ok(());
            }
            let limit = slow_limit(sources.values().copied());
            let count = |of: fn(&FlowKey) -> i64| {
                let mut held: HashMap<i64, usize> = HashMap::new();
                for (one, _) in &under_way {
                    *held.entry(of(&one.key)).or_default() += 1;
                }
                held
            };
            let (none, now) = (HashSet::new(), u64::from(round) * 500);
            let speed = |time: ResponseTime| time.speed(limit, now);
            let mut shares = WorkerShares::new(
                workers,
                flows(&count(|key| key.source), &sources, speed, &none),
                flows(&count(|key| key.site), &sites, speed, &none),
                0,
            )
            .holding(under_way.iter().map(|(one, _)| (one.key, 0)), limit);
            if shares.is_for_fast_sites() {
                let fast = sites.iter().filter(|(_, time)| speed(**time) == Speed::Fast);
                shares = shares.with_fast_sites(fast.map(|(site, _)| *site));
            }
            let free = workers - under_way.len();
            let taken = claim(&mut queue, free, &mut shares);
            let half = (workers / 2).max(1);
            if taken.len() < free {
                for one in &queue {
                    prop_assert!(shares.allows(one.key, Pass::Rest).is_err(), "somebody waits for nothing");
                }
            }
            for flow in shares.sources.values().chain(shares.sites.values()) {
                prop_assert!(flow.held <= workers);
                let is_new = taken.iter().any(|one| shares.is_slow(one.key));
                prop_assert!(!is_new || shares.slow <= half, "slow ones hold {}", shares.slow);
            }
            under_way.extend(taken.into_iter().map(|one| (one, round)));
            under_way.retain(|(one, since)| {
                let ends = round - since + 1 >= one.rounds;
                if ends {
                    let took = u64::from(one.rounds) * 500;
                    sources.entry(one.key.source).or_default().record(took, false, limit, now);
                    sites.entry(one.key.site).or_default().record(took, false, limit, now);
                }
                !ends
            });
        }
        prop_assert!(false, "{} tasks still wait", queue.len());
    }
}
