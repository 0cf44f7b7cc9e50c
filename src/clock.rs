//! The one place where time comes from.
//!
//! Everything that schedules, waits or stamps asks a [`Clock`]. Three kinds exist: the machine's
//! own, a scaled one on which a day can pass in seconds (the newsroom and the engine under test
//! share it, also across processes), and one that tests move by hand. Time limits on sockets are
//! real whatever the clock says; what has to outlast them asks [`Clock::stretch`].

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use crate::model::Ts;

/// A source of "now" that can also wait.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    /// The machine's time when the clock was made, and the moment in monotonic time.
    System {
        origin: i64,
        made: Instant,
    },
    Scaled(Scale),
    Manual {
        now: AtomicI64,
        moved: Notify,
    },
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

impl Clock {
    fn of(kind: Kind) -> Self {
        Self(Arc::new(kind))
    }

    /// The machine's own clock.
    #[must_use]
    pub fn system() -> Self {
        Self::of(Kind::System { origin: to_ms(machine_ns()), made: Instant::now() })
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
        Self::of(Kind::Manual { now: AtomicI64::new(start.ms()), moved: Notify::new() })
    }

    /// The time. When the machine's clock is set back, time goes on from where it was; when it is
    /// set forward, or the machine slept, time follows.
    #[must_use]
    pub fn now(&self) -> Ts {
        let ms = match &*self.0 {
            Kind::System { origin, made } => {
                let ran = i64::try_from(made.elapsed().as_millis()).unwrap_or(i64::MAX);
                to_ms(machine_ns()).max(origin.saturating_add(ran))
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

    /// Waits until that time.
    pub async fn sleep_until(&self, at: Ts) {
        match &*self.0 {
            Kind::Manual { moved, .. } => loop {
                let change = moved.notified();
                tokio::pin!(change);
                change.as_mut().enable();
                if self.now() >= at {
                    return;
                }
                change.await;
            },
            Kind::System { .. } | Kind::Scaled(_) => {
                loop {
                    let left = at.since(self.now());
                    if left.is_zero() {
                        return;
                    }
                    // A day at most: the machine's clock may be set meanwhile.
                    let real = self.shrink(left).min(Duration::from_hours(24));
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
        if let Kind::Manual { now, moved } = &*self.0 {
            now.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
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
