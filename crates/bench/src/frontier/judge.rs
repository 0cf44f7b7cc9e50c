//! Who was asked when: what a publisher would complain about, judged by the clock of this process.
//!
//! It sees what a design does and nothing of how it does it, so both are judged alike.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Times are stored in milliseconds: a pause may be that much shorter.
const GRAIN: Duration = Duration::from_millis(1);

/// What came of the claims so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Tasks that were handed out.
    pub(super) claims: u64,
    /// Claims of a host that was under way, or within its pause.
    pub(super) impolite: u64,
    /// Tasks that were handed out before.
    pub(super) doubles: u64,
    /// The most claims that passed between two of the same host, or before its first.
    pub(super) longest_wait: u64,
}

#[derive(Debug, Default)]
struct Host {
    under_way: u32,
    ended: Option<Instant>,
    last_claim: u64,
}

#[derive(Debug, Default)]
struct Seen {
    hosts: HashMap<String, Host>,
    tasks: HashSet<String>,
    verdict: Verdict,
}

/// Watches the claims of one design.
#[derive(Debug)]
pub(super) struct Judge {
    pause: Duration,
    seen: Mutex<Seen>,
}

impl Judge {
    /// Hosts want this pause after each request.
    pub(super) fn new(pause: Duration) -> Self {
        Self { pause, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task was handed out: its request begins.
    pub(super) fn claimed(&self, host: &str, task: String, at: Instant) {
        let mut guard = self.seen();
        let Seen { hosts, tasks, verdict } = &mut *guard;
        verdict.claims += 1;
        verdict.doubles += u64::from(!tasks.insert(task));
        let host = hosts.entry(host.to_owned()).or_default();
        let pausing = host.ended.is_some_and(|ended| at < ended + self.pause.saturating_sub(GRAIN));
        verdict.impolite += u64::from(host.under_way > 0 || pausing);
        verdict.longest_wait = verdict.longest_wait.max(verdict.claims - host.last_claim);
        host.last_claim = verdict.claims;
        host.under_way += 1;
    }

    /// Its answer is there; nothing is said of the database yet.
    pub(super) fn ended(&self, host: &str, at: Instant) {
        if let Some(host) = self.seen().hosts.get_mut(host) {
            host.under_way = host.under_way.saturating_sub(1);
            host.ended = host.ended.max(Some(at));
        }
    }

    /// The verdict on all claims so far, were these all the hosts that waited.
    pub(super) fn verdict(&self, hosts: u64) -> Verdict {
        let seen = self.seen();
        let last = |host: &Host| seen.verdict.claims - host.last_claim;
        let mut waiting: Vec<u64> = seen.hosts.values().map(last).collect();
        if (seen.hosts.len() as u64) < hosts {
            waiting.push(seen.verdict.claims);
        }
        let longest = waiting.into_iter().max().unwrap_or_default();
        Verdict { longest_wait: seen.verdict.longest_wait.max(longest), ..seen.verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn judged(steps: &[(&str, char, u64)]) -> Verdict {
        let (judge, begin) = (Judge::new(SECOND), Instant::now());
        for (n, (host, step, ms)) in steps.iter().enumerate() {
            let at = begin + Duration::from_millis(*ms);
            match step {
                'c' => judge.claimed(host, n.to_string(), at),
                _ => judge.ended(host, at),
            }
        }
        judge.verdict(1)
    }

    #[test]
    fn a_pause_counts_from_the_end_of_a_request() {
        assert_eq!(judged(&[("a", 'c', 0), ("a", 'e', 500), ("a", 'c', 1_500)]).impolite, 0);
        assert_eq!(judged(&[("a", 'c', 0), ("a", 'e', 500), ("a", 'c', 1_400)]).impolite, 1);
        assert_eq!(judged(&[("a", 'c', 0), ("a", 'e', 500), ("b", 'c', 600)]).impolite, 0);
    }

    #[test]
    fn a_host_that_is_under_way_is_left_alone() {
        assert_eq!(judged(&[("a", 'c', 0), ("a", 'c', 9_000)]).impolite, 1);
    }

    #[test]
    fn a_task_is_handed_out_once() {
        let judge = Judge::new(Duration::ZERO);
        for _ in 0..2 {
            judge.claimed("a", "task".into(), Instant::now());
            judge.ended("a", Instant::now());
        }
        assert_eq!(judge.verdict(1).doubles, 1);
    }

    #[test]
    fn whoever_is_never_served_waits_all_the_time() {
        let judge = Judge::new(Duration::ZERO);
        for n in 0..5 {
            judge.claimed(if n == 2 { "b" } else { "a" }, n.to_string(), Instant::now());
        }
        assert_eq!(judge.verdict(2).longest_wait, 3);
        assert_eq!(judge.verdict(3).longest_wait, 5);
    }
}
