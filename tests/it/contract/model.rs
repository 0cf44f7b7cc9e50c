//! The frontier as simple as it can be told: vectors, no indexes, no database.
//!
//! It says what must come of a step; how a backend gets there is not its business. The one thing
//! that it takes from the product is the pure arithmetic of a host's pace.

use std::time::Duration;

use feedmill::frontier::Pace;
use feedmill::model::{HostAdvice, Kind, LeaseId, Next, Status, Ts};

use super::trial::{PAUSE, TERM};

pub(super) const HOSTS: usize = 3;
pub(super) const SOURCES: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) url: String,
    pub(super) host: usize,
    pub(super) kind: Kind,
    pub(super) priority: u8,
    pub(super) due: Ts,
    pub(super) status: Status,
    pub(super) retries: u16,
    pub(super) failed: bool,
    /// Whether it was ever asked for: from then on it has a rhythm of its own.
    asked: bool,
    pub(super) owner: Option<usize>,
    given_by: [bool; SOURCES],
    /// Leases that ended since its last answer without one.
    pub(super) lost: i64,
}

/// A lease on a host: for a task of its own, or lent to another host's.
#[derive(Clone, Copy, Debug)]
struct Hold {
    lease: LeaseId,
    task: usize,
}

#[derive(Clone, Debug, Default)]
struct Host {
    pace: Pace,
    free_at: Ts,
    hold: Option<Hold>,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) tasks: Vec<Task>,
    hosts: Vec<Host>,
    enabled: [bool; SOURCES],
}

/// A submission, as far as the model cares.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) url: String,
    pub(super) host: usize,
    pub(super) kind: Kind,
    pub(super) priority: u8,
    pub(super) source: Option<usize>,
    pub(super) at: Ts,
}

impl Model {
    pub(super) fn new() -> Self {
        Self { tasks: vec![], hosts: vec![Host::default(); HOSTS], enabled: [true; SOURCES] }
    }

    pub(super) fn find(&self, url: &str) -> Option<usize> {
        self.tasks.iter().position(|task| task.url == url)
    }

    /// Whether the task is under way, also when its lease ran out unnoticed.
    pub(super) fn leased(&self, task: usize) -> bool {
        self.hosts[self.tasks[task].host].hold.is_some_and(|hold| hold.task == task)
    }

    /// The task that a lease is still good for.
    pub(super) fn good_for(&self, lease: LeaseId) -> Option<usize> {
        let held = self.hosts.iter().enumerate().filter_map(|(at, host)| Some((at, host.hold?)));
        let mut own = held.filter(|(at, hold)| self.tasks[hold.task].host == *at);
        own.find(|(_, hold)| hold.lease == lease).map(|(_, hold)| hold.task)
    }

    /// Whether it was new, and whether it moved forward.
    pub(super) fn submit(&mut self, given: &Given, now: Ts) -> (bool, bool) {
        let wanted = given.source.is_none_or(|source| self.enabled[source]);
        let Some(known) = self.find(&given.url) else {
            let mut given_by = [false; SOURCES];
            given.source.into_iter().for_each(|source| given_by[source] = true);
            self.tasks.push(Task {
                url: given.url.clone(),
                host: given.host,
                kind: given.kind,
                priority: given.priority,
                due: given.at,
                status: if wanted { Status::Pending } else { Status::Parked },
                retries: 0,
                failed: false,
                asked: false,
                lost: 0,
                owner: given.source,
                given_by,
            });
            return (true, false);
        };
        let leased = self.leased(known);
        let task = &mut self.tasks[known];
        if let Some(source) = given.source {
            task.given_by[source] = true;
            if !wanted {
                return (false, false);
            }
            if task.owner.is_none() || task.status == Status::Parked {
                task.owner = Some(source);
            }
            if leased && task.status == Status::Parked {
                task.status = Status::Pending;
            }
        }
        if leased {
            return (false, false);
        }
        let waits = task.kind.recurs() || task.failed || task.asked || task.lost > 0;
        match task.status {
            Status::Pending => {
                let sooner = task.due > now && given.at < task.due && !waits;
                let higher = given.priority > task.priority;
                if sooner {
                    task.due = given.at;
                }
                task.priority = task.priority.max(given.priority);
                (false, sooner || higher)
            }
            Status::Parked if given.source.is_some() => {
                task.status = Status::Pending;
                task.priority = task.priority.max(given.priority);
                task.due = given.at;
                task.retries = 0;
                (false, true)
            }
            Status::Parked | Status::Fetched | Status::Dead => (false, false),
        }
    }

    pub(super) fn disable(&mut self, source: usize) {
        if !std::mem::replace(&mut self.enabled[source], false) {
            return;
        }
        let followed = self.enabled;
        for task in &mut self.tasks {
            if task.owner != Some(source) || task.status != Status::Pending {
                continue;
            }
            match (0..SOURCES).find(|heir| task.given_by[*heir] && followed[*heir]) {
                Some(heir) => task.owner = Some(heir),
                None => task.status = Status::Parked,
            }
        }
    }

    pub(super) fn enable(&mut self, source: usize, now: Ts) {
        // A channel that was given up is looked at again, whether its source was followed or not.
        for task in &mut self.tasks {
            let channel = task.kind == Kind::Feed && task.owner == Some(source);
            if channel && task.status == Status::Dead {
                (task.status, task.due, task.retries) = (Status::Pending, now, 0);
            }
        }
        if std::mem::replace(&mut self.enabled[source], true) {
            return;
        }
        for task in &mut self.tasks {
            if task.status == Status::Parked && task.given_by[source] {
                task.owner = Some(source);
                task.status = Status::Pending;
            }
        }
    }

    /// Ends the leases that ran out by now, all of them when their holder died; the tasks that lost
    /// theirs, and when that was.
    pub(super) fn end_leases(&mut self, now: Ts, all: bool) -> Vec<(usize, Ts)> {
        let mut lost = Vec::new();
        for (at, host) in self.hosts.iter_mut().enumerate() {
            let Some(hold) = host.hold.filter(|_| all || host.free_at <= now) else { continue };
            let ended = host.free_at.min(now);
            host.free_at = ended.after(host.pace.pause(PAUSE)).max(host.pace.blocked_until);
            host.hold = None;
            if self.tasks[hold.task].host == at {
                self.tasks[hold.task].lost += 1;
                lost.push((hold.task, ended));
            }
        }
        lost
    }

    /// The task that each host would serve now, best first.
    pub(super) fn heads(&self, now: Ts) -> Vec<usize> {
        let head = |host: usize| {
            let own = (0..self.tasks.len()).filter(|task| self.tasks[*task].host == host);
            own.filter(|at| {
                let task = &self.tasks[*at];
                task.status == Status::Pending && task.due <= now
            })
            .min_by_key(|at| (10 - self.tasks[*at].priority, self.tasks[*at].due, *at))
        };
        let free = (0..HOSTS).filter(|host| self.hosts[*host].free_at <= now);
        let mut heads: Vec<_> = free.filter_map(head).collect();
        heads.sort_by_key(|task| 10 - self.tasks[*task].priority);
        heads
    }

    pub(super) fn lease(&mut self, task: usize, lease: LeaseId, now: Ts) {
        let host = &mut self.hosts[self.tasks[task].host];
        host.hold = Some(Hold { lease, task });
        host.free_at = now.after(TERM);
    }

    pub(super) fn renew(&mut self, lease: LeaseId, now: Ts) -> bool {
        if self.good_for(lease).is_none() {
            return false;
        }
        for host in &mut self.hosts {
            if host.hold.is_some_and(|hold| hold.lease == lease) {
                host.free_at = now.after(TERM).max(host.pace.blocked_until);
            }
        }
        true
    }

    /// `None` when the lease is stale or ran out, else whether the host is lent.
    pub(super) fn extend(&mut self, lease: LeaseId, host: usize, now: Ts) -> Option<bool> {
        let task = self.good_for(lease)?;
        let until = self.hosts[self.tasks[task].host].free_at;
        if until <= now {
            return None;
        }
        let wanted = &mut self.hosts[host];
        if wanted.hold.is_some_and(|hold| hold.lease == lease) {
            return Some(true);
        }
        // A pause is waited out under the lease, a long wait is not.
        if wanted.hold.is_some() || wanted.free_at.since(now) > Duration::from_mins(10) {
            return Some(false);
        }
        wanted.hold = Some(Hold { lease, task });
        wanted.free_at = until;
        Some(true)
    }

    /// False when the lease is stale.
    pub(super) fn complete(
        &mut self,
        lease: LeaseId,
        next: &Next,
        advice: HostAdvice,
        now: Ts,
    ) -> bool {
        let Some(at) = self.good_for(lease) else { return false };
        let task = &mut self.tasks[at];
        let (ends, due) = match next {
            Next::Fetched => (Some(Status::Fetched), task.due),
            Next::Dead { .. } => (Some(Status::Dead), task.due),
            Next::Again { at } | Next::Retry { at, .. } | Next::Postpone { at, .. } => (None, *at),
        };
        task.due = due;
        task.status = ends.unwrap_or(task.status);
        task.failed = !matches!(next, Next::Fetched | Next::Again { .. });
        let postponed = matches!(next, Next::Postpone { .. });
        task.asked |= !postponed && advice != HostAdvice::NotAsked;
        task.lost = 0;
        task.retries = match next {
            Next::Fetched | Next::Again { .. } => 0,
            Next::Retry { .. } => task.retries + 1,
            Next::Postpone { .. } | Next::Dead { .. } => task.retries,
        };
        for host in &mut self.hosts {
            if host.hold.is_some_and(|hold| hold.lease == lease) {
                (host.pace, host.free_at) = host.pace.after(advice, now, PAUSE);
                host.hold = None;
            }
        }
        true
    }
}
