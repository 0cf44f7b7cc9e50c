//! The one place where time comes from.
//!
//! Everything that schedules, waits or stamps asks a [`Clock`]. Three kinds exist: the machine's
//! own, a scaled one on which a day can pass in seconds (the newsroom and the engine under test
//! share it, also across processes), and one that tests move by hand. Time limits on sockets are
//! real whatever the clock says; what has to outlast them asks [`Clock::stretch`].

use std::str::FromStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use crate::model::Ts;

/// A source of "now" that can also wait.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    System {
        made: Instant,
        follower: Mutex<Follower>,
    },
    Scaled(Scale),
    Manual {
        now: AtomicI64,
        /// What it was advanced by in all, in milliseconds: it never goes back.
        ran: AtomicI64,
        steps: AtomicU64,
        moved: Notify,
    },
}

/// A difference between the machine's clock and monotonic time is a step from this size on, in
/// milliseconds.
const STEP_MS: i64 = 2_000;
/// A step is followed once it has lasted for this long, in milliseconds.
const SETTLED_MS: i64 = 60_000;

/// Follows the machine's clock and rides out its faults.
///
/// Time goes on by monotonic time when the machine's clock steps. A step that lasts is right, or is
/// what everybody else on the machine goes by: then it is followed, forward or back, and counted.
#[derive(Debug)]
struct Follower {
    /// What has to be added to monotonic time, in milliseconds.
    offset: i64,
    /// Monotonic time at which the machine's clock was first seen elsewhere.
    stepped_at: Option<i64>,
    steps: u64,
}

impl Follower {
    const fn new(offset: i64) -> Self {
        Self { offset, stepped_at: None, steps: 0 }
    }

    /// The time, given the machine's time and monotonic time, all in milliseconds.
    fn read(&mut self, wall: i64, mono: i64) -> i64 {
        let expected = mono.saturating_add(self.offset);
        let off = wall.saturating_sub(expected);
        if off.abs() < STEP_MS {
            self.stepped_at = None;
            self.offset = self.offset.saturating_add(off.max(0));
            return expected.max(wall);
        }
        let since = *self.stepped_at.get_or_insert(mono);
        if mono.saturating_sub(since) < SETTLED_MS {
            return expected;
        }
        *self = Self { steps: self.steps + 1, ..Self::new(self.offset.saturating_add(off)) };
        wall
    }
}

/// How scaled time runs: it was `start` at the real time `origin` and goes `rate` times as fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Simulated seconds in a real one.
    pub rate: f64,
    /// The real instant, in Unix milliseconds.
    pub origin: i64,
    /// The simulated instant at `origin`.
    pub start: Ts,
}

/// The text is no scale.
#[derive(Debug, thiserror::Error)]
#[error(
    "not a clock `{0}`: write RATE@ORIGIN_MS/START_MS, such as 600@1700000000000/1700000000000"
)]
pub struct BadScale(String);

impl FromStr for Scale {
    type Err = BadScale;

    fn from_str(text: &str) -> Result<Self, BadScale> {
        let bad = || BadScale(text.to_owned());
        let (rate, rest) = text.split_once('@').ok_or_else(bad)?;
        let (origin, start) = rest.split_once('/').ok_or_else(bad)?;
        let rate: f64 = rate.parse().map_err(|_| bad())?;
        if !(rate.is_finite() && rate > 0.0) {
            return Err(bad());
        }
        Ok(Self {
            rate,
            origin: origin.parse().map_err(|_| bad())?,
            start: Ts::from_ms(start.parse().map_err(|_| bad())?),
        })
    }
}

impl std::fmt::Display for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}/{}", self.rate, self.origin, self.start.ms())
    }
}

/// Unix time of the machine, in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "this is the place that every now comes from")]
fn machine_ns() -> i128 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i128::try_from(since.as_nanos()).unwrap_or(i128::MAX),
        Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX),
    }
}

fn to_ms(ns: i128) -> i64 {
    i64::try_from(ns / 1_000_000).unwrap_or(i64::MAX)
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl Clock {
    fn of(kind: Kind) -> Self {
        Self(Arc::new(kind))
    }

    /// The machine's own clock.
    #[must_use]
    pub fn system() -> Self {
        let follower = Mutex::new(Follower::new(to_ms(machine_ns())));
        Self::of(Kind::System { made: Instant::now(), follower })
    }

    /// A clock on a given scale; every process with the same scale reads the same time.
    #[must_use]
    pub fn scaled(scale: Scale) -> Self {
        Self::of(Kind::Scaled(scale))
    }

    /// A clock that starts now, at eight in the morning of the machine's day (UTC), and runs `rate`
    /// times as fast. Publishers sleep at night, and schedules know: what is tried must not depend
    /// on the hour at which somebody tries it.
    #[must_use]
    pub fn fast(rate: f64) -> Self {
        const DAY: i64 = 24 * 60 * 60 * 1_000;
        let now = to_ms(machine_ns());
        let morning = now - now.rem_euclid(DAY) + DAY / 3;
        Self::scaled(Scale { rate, origin: now, start: Ts::from_ms(morning) })
    }

    /// A clock that stands still until it is moved.
    #[must_use]
    pub fn manual(start: Ts) -> Self {
        Self::of(Kind::Manual {
            now: AtomicI64::new(start.ms()),
            ran: AtomicI64::new(0),
            steps: AtomicU64::new(0),
            moved: Notify::new(),
        })
    }

    /// The time. When the machine's clock is set, or the machine slept, time goes on from where it
    /// was, and follows after a minute: a short fault of the machine's clock is not noticed here.
    #[must_use]
    pub fn now(&self) -> Ts {
        let ms = match &*self.0 {
            Kind::System { made, follower } => {
                let mut follower = follower.lock().unwrap_or_else(PoisonError::into_inner);
                follower.read(to_ms(machine_ns()), millis(made.elapsed()))
            }
            Kind::Scaled(scale) => {
                let elapsed_ns = machine_ns() - i128::from(scale.origin) * 1_000_000;
                #[expect(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    reason = "a simulated run is short enough for 53 bits of nanoseconds"
                )]
                let ran_ms = (elapsed_ns as f64 * scale.rate / 1e6) as i64;
                scale.start.ms().saturating_add(ran_ms)
            }
            Kind::Manual { now, .. } => now.load(Ordering::SeqCst),
        };
        Ts::from_ms(ms)
    }

    /// How often this clock was found elsewhere than its own passing says: it was set, forward or
    /// back. Times that were written down before may then lie in the future.
    #[must_use]
    pub fn steps(&self) -> u64 {
        match &*self.0 {
            Kind::System { follower, .. } => {
                follower.lock().unwrap_or_else(PoisonError::into_inner).steps
            }
            Kind::Scaled(_) => 0,
            Kind::Manual { steps, .. } => steps.load(Ordering::SeqCst),
        }
    }

    /// Waits until that time, and no longer than it is away now: a clock that is set back meanwhile
    /// does not hold anybody up.
    pub async fn sleep_until(&self, at: Ts) {
        let planned = at.since(self.now());
        match &*self.0 {
            Kind::Manual { moved, ran, .. } => {
                let enough = ran.load(Ordering::SeqCst).saturating_add(millis(planned));
                loop {
                    let change = moved.notified();
                    tokio::pin!(change);
                    change.as_mut().enable();
                    if self.now() >= at || ran.load(Ordering::SeqCst) >= enough {
                        return;
                    }
                    change.await;
                }
            }
            Kind::System { .. } | Kind::Scaled(_) => {
                let planned = self.shrink(planned);
                // Timers are not exact: only a clock that was set back is that late.
                let enough = planned + planned / 100 + Duration::from_secs(1);
                let begun = Instant::now();
                loop {
                    let left = at.since(self.now());
                    let allowed = enough.saturating_sub(begun.elapsed());
                    if left.is_zero() || allowed.is_zero() {
                        return;
                    }
                    // A minute at most: the machine's clock may be set meanwhile.
                    let real = self.shrink(left).min(allowed).min(Duration::from_mins(1));
                    tokio::time::sleep(real.max(Duration::from_micros(500))).await;
                }
            }
        }
    }

    /// How much of this clock's time passes in a real span.
    #[must_use]
    pub fn stretch(&self, real: Duration) -> Duration {
        match &*self.0 {
            Kind::Scaled(scale) => real.mul_f64(scale.rate),
            Kind::System { .. } | Kind::Manual { .. } => real,
        }
    }

    /// How much real time a span of this clock takes.
    #[must_use]
    pub fn shrink(&self, span: Duration) -> Duration {
        match &*self.0 {
            Kind::Scaled(scale) => span.div_f64(scale.rate),
            Kind::System { .. } | Kind::Manual { .. } => span,
        }
    }

    /// Whether it is the machine's own: what the time is can then also be asked elsewhere.
    #[must_use]
    pub fn is_system(&self) -> bool {
        matches!(*self.0, Kind::System { .. })
    }

    /// The scale, to hand to another process.
    #[must_use]
    pub fn scale(&self) -> Option<Scale> {
        match &*self.0 {
            Kind::Scaled(scale) => Some(*scale),
            Kind::System { .. } | Kind::Manual { .. } => None,
        }
    }

    /// Moves a manual clock; the others do not listen.
    pub fn advance(&self, by: Duration) {
        if let Kind::Manual { now, ran, moved, .. } = &*self.0 {
            now.fetch_add(millis(by), Ordering::SeqCst);
            ran.fetch_add(millis(by), Ordering::SeqCst);
            moved.notify_waiters();
        }
    }

    /// Sets a manual clock to any time, as an operator or a fault sets a machine's; the others do
    /// not listen.
    pub fn set(&self, to: Ts) {
        if let Kind::Manual { now, steps, moved, .. } = &*self.0 {
            now.store(to.ms(), Ordering::SeqCst);
            steps.fetch_add(1, Ordering::SeqCst);
            moved.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_survives_being_written_down() {
        let scale = Scale { rate: 600.0, origin: 1_700_000_000_000, start: Ts::from_ms(42) };
        assert_eq!(scale.to_string().parse::<Scale>().unwrap(), scale);
        for bad in ["", "x@1/2", "0@1/2", "-3@1/2", "600@1", "600@a/2", "inf@1/2"] {
            assert!(bad.parse::<Scale>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_scaled_clock_runs_fast_and_a_real_span_stretches() {
        let clock = Clock::fast(1000.0);
        let before = clock.now();
        let hour = before.ms().rem_euclid(86_400_000) / 3_600_000;
        assert_eq!(hour, 8, "it is morning: {before}");
        std::thread::sleep(Duration::from_millis(20));
        assert!(clock.now().since(before) >= Duration::from_secs(20));
        assert_eq!(clock.stretch(Duration::from_secs(1)), Duration::from_secs(1000));
        assert_eq!(clock.shrink(Duration::from_secs(1000)), Duration::from_secs(1));
    }

    const TEN_YEARS: i64 = 10 * 365 * 86_400_000;

    #[test]
    fn a_short_fault_of_the_machines_clock_is_not_noticed() {
        for fault in [TEN_YEARS, -TEN_YEARS] {
            let mut follower = Follower::new(1_000_000);
            assert_eq!(follower.read(1_005_000, 5_000), 1_005_000);
            assert_eq!(follower.read(1_006_000 + fault, 6_000), 1_006_000);
            assert_eq!(follower.read(1_021_000 + fault, 21_000), 1_021_000);
            assert_eq!(follower.read(1_022_000, 22_000), 1_022_000);
            assert_eq!((follower.steps, follower.stepped_at), (0, None));
        }
    }

    #[test]
    fn a_step_that_lasts_is_followed_both_ways() {
        let mut follower = Follower::new(1_000_000);
        let mut mono = 0;
        for (step, count) in [(TEN_YEARS, 1), (0, 2), (-3_600_000, 3)] {
            let wall = |mono: i64| 1_000_000 + step + mono;
            let before = follower.read(wall(mono), mono);
            assert_ne!(before, wall(mono), "not at once");
            mono += SETTLED_MS;
            assert_eq!(follower.read(wall(mono), mono), wall(mono));
            assert_eq!(follower.steps, count);
            mono += 1_000;
            assert_eq!(follower.read(wall(mono), mono), wall(mono));
        }
    }

    #[test]
    fn small_differences_are_followed_forward_and_never_back() {
        let mut follower = Follower::new(0);
        assert_eq!(follower.read(1_500, 1_000), 1_500);
        assert_eq!(follower.read(1_400, 1_100), 1_600, "monotonic time has passed");
        assert_eq!(follower.steps, 0);
    }

    #[tokio::test]
    async fn a_clock_that_is_set_back_does_not_hold_a_sleeper_up() {
        let clock = Clock::manual(Ts::from_ms(TEN_YEARS));
        let sleeper = clock.clone();
        let slept = async move { sleeper.sleep_until(Ts::from_ms(TEN_YEARS + 2_000)).await };
        let mover = async {
            tokio::task::yield_now().await;
            clock.set(Ts::from_ms(1_000));
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(2));
        };
        tokio::join!(slept, mover);
        assert_eq!((clock.now(), clock.steps()), (Ts::from_ms(3_000), 1));
    }

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_moved() {
        let clock = Clock::manual(Ts::from_ms(1000));
        let sleeper = clock.clone();
        let slept = async move {
            sleeper.sleep_until(Ts::from_ms(3000)).await;
            sleeper.now()
        };
        let mover = async {
            clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(1));
        };
        let (at, ()) = tokio::join!(slept, mover);
        assert_eq!(at, Ts::from_ms(3000));
    }
}
