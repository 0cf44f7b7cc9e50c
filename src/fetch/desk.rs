//! Work that keeps a core busy, such as compressing and parsing, off the threads that talk to the
//! network.
//!
//! No more of it is begun at once than the machine has cores for: more threads would do no more, and
//! each has a heap and a compressor of its own. What waits for something else must not be done here.
//!
//! A thread cannot be ended from outside. Work that takes too long is therefore counted as late, its
//! seat is given to others (a bounded number of times), and its caller can stop waiting for it.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinError};

use crate::progress::{Activity, Progress, Seat as ActiveSeat};

/// Work that takes longer is late.
const LATE_AFTER: Duration = Duration::from_secs(10);

/// Where work is done; clones share the seats.
#[derive(Clone, Debug)]
pub struct Desk(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    seats: Arc<Semaphore>,
    late_after: Duration,
    /// Late seats that are replaced by others at the same time.
    max_replaced: usize,
    taken: Mutex<Taken>,
    late_total: Counter,
    late_now: Gauge,
    activity: Arc<Activity>,
}

/// The seats that are taken, by number.
#[derive(Debug, Default)]
struct Taken {
    last: u64,
    seats: BTreeMap<u64, Seat>,
}

#[derive(Debug)]
struct Seat {
    what: &'static str,
    began: Instant,
    is_late: bool,
    is_replaced: bool,
}

/// Work that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// What is done.
    pub what: &'static str,
    /// For how long.
    pub busy: Duration,
    /// Whether that is too long.
    pub is_late: bool,
}

/// Why work brought no result.
#[derive(Debug, thiserror::Error)]
pub enum Unfinished {
    /// It panicked, or the engine is ending.
    #[error("{0}")]
    Failed(#[from] JoinError),
    /// It did not end within its time; the thread is left to itself.
    #[error("not finished after {} s", .0.as_secs())]
    OutOfTime(Duration),
}

impl Default for Desk {
    fn default() -> Self {
        Self::new(&Progress::default())
    }
}

impl Desk {
    /// A seat for each core, and another for one who waits for a disk. Late seats are counted, and the
    /// engine's activity knows which are taken.
    #[must_use]
    pub fn new(progress: &Progress) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let metrics = &progress.metrics;
        let counts = (metrics.cpu_seats_late.clone(), metrics.cpu_seats_late_now.clone());
        Self::with_seats(cores + 1, LATE_AFTER, counts, Arc::clone(&progress.activity))
    }

    fn with_seats(
        count: usize,
        late_after: Duration,
        (late_total, late_now): (Counter, Gauge),
        activity: Arc<Activity>,
    ) -> Self {
        let max_replaced = 2 * count;
        // Nothing goes on when those that replace late ones are late, too.
        activity.set_seats(count + max_replaced);
        Self(Arc::new(Shared {
            seats: Arc::new(Semaphore::new(count)),
            late_after,
            max_replaced,
            taken: Mutex::default(),
            late_total,
            late_now,
            activity,
        }))
    }

    /// Does the work when there is a seat; fails when the work panics or the engine is ending.
    pub async fn work<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        match self.run(what, None, work).await {
            Ok(done) => Ok(done),
            Err(Unfinished::Failed(error)) => Err(error),
            // Without a limit nothing is out of time.
            Err(Unfinished::OutOfTime(_)) => std::future::pending().await,
        }
    }

    /// Does the work when there is a seat, and waits for its end no longer than `limit` from then on.
    pub async fn work_within<T: Send + 'static>(
        &self,
        what: &'static str,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
        self.run(what, Some(limit), work).await
    }

    async fn run<T: Send + 'static>(
        &self,
        what: &'static str,
        limit: Option<Duration>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
        // Nobody closes the desk, and without a seat there would only be more at work.
        let permit = Arc::clone(&self.0.seats).acquire_owned().await.ok();
        let seat = Arc::new(OccupiedSeat::new(&self.0, what, permit));
        let worker = Arc::clone(&seat);
        let mut working = tokio::task::spawn_blocking(move || {
            let done = work();
            worker.is_done.store(true, Ordering::Release);
            done
        });
        // The seat is free when the thread has ended and its result is here: then the thread is free
        // for the next, and no other is started.
        let waiting = Waiting { seat, handle: working.abort_handle() };
        let first = limit.map_or(self.0.late_after, |limit| limit.min(self.0.late_after));
        if let Ok(done) = tokio::time::timeout(first, &mut working).await {
            return Ok(done?);
        }
        waiting.seat.late();
        let Some(limit) = limit else { return Ok(working.await?) };
        match tokio::time::timeout(limit.saturating_sub(first), &mut working).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Unfinished::OutOfTime(limit)),
        }
    }

    /// Work that is under way, the oldest first. Cheap: there are about as many as cores.
    #[must_use]
    pub fn under_way(&self) -> Vec<UnderWay> {
        let taken = self.0.taken();
        let view = taken.seats.values().map(|seat| {
            let busy = seat.began.elapsed();
            UnderWay { what: seat.what, busy, is_late: seat.is_late || busy >= self.0.late_after }
        });
        view.collect()
    }

    /// How many seats are late.
    #[must_use]
    pub fn late(&self) -> usize {
        self.under_way().iter().filter(|work| work.is_late).count()
    }
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A seat that is taken, until the thread has ended and nobody waits for it.
#[derive(Debug)]
struct OccupiedSeat {
    desk: Arc<Shared>,
    number: u64,
    is_done: AtomicBool,
    permit: Option<OwnedSemaphorePermit>,
    /// Readiness is told by it.
    _active: ActiveSeat,
}

impl OccupiedSeat {
    fn new(desk: &Arc<Shared>, what: &'static str, permit: Option<OwnedSemaphorePermit>) -> Self {
        let mut taken = desk.taken();
        taken.last += 1;
        let number = taken.last;
        let began = Instant::now();
        taken.seats.insert(number, Seat { what, began, is_late: false, is_replaced: false });
        drop(taken);
        let (is_done, active) = (AtomicBool::new(false), desk.activity.sit());
        Self { desk: Arc::clone(desk), number, is_done, permit, _active: active }
    }

    /// Lets others have another seat in place of this one.
    fn late(&self) {
        let mut taken = self.desk.taken();
        let replaced = taken.seats.values().filter(|seat| seat.is_replaced).count();
        let Some(seat) = taken.seats.get_mut(&self.number).filter(|seat| !seat.is_late) else {
            return;
        };
        seat.is_late = true;
        seat.is_replaced = replaced < self.desk.max_replaced;
        let (what, is_replaced) = (seat.what, seat.is_replaced);
        let seconds = seat.began.elapsed().as_secs();
        if is_replaced {
            self.desk.seats.add_permits(1);
        }
        self.desk.late_total.inc();
        self.desk.late_now.inc();
        drop(taken);
        tracing::warn!(what, seconds, replaced = is_replaced, "CPU work is late");
    }
}

impl Drop for OccupiedSeat {
    fn drop(&mut self) {
        let Some(seat) = self.desk.taken().seats.remove(&self.number) else { return };
        if seat.is_replaced
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
        }
        if seat.is_late {
            self.desk.late_now.dec();
            let seconds = seat.began.elapsed().as_secs();
            tracing::info!(what = seat.what, seconds, "late CPU work ended");
        }
    }
}

/// Somebody who waits for a result. Who stops waiting leaves the thread behind: it counts as late at
/// once, unless it had not begun.
struct Waiting {
    seat: Arc<OccupiedSeat>,
    handle: AbortHandle,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.handle.abort();
        // The thread's own share of the seat is gone when it has ended or will never begin.
        if !self.seat.is_done.load(Ordering::Acquire) && Arc::strong_count(&self.seat) > 1 {
            self.seat.late();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;

    fn desk(seats: usize, late_after: Duration) -> Desk {
        Desk::with_seats(seats, late_after, Default::default(), Arc::default())
    }

    #[tokio::test]
    async fn no_more_is_under_way_than_there_are_seats() {
        let (desk, at_work) = (desk(2, LATE_AFTER), Arc::new(AtomicUsize::new(0)));
        let work = (0..20).map(|n| {
            let at_work = Arc::clone(&at_work);
            desk.work("counting", move || {
                let others = at_work.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
                at_work.fetch_sub(1, Ordering::SeqCst);
                (n, others)
            })
        });
        let done = futures_util::future::join_all(work).await;
        for (place, done) in done.into_iter().enumerate() {
            let (n, others) = done.unwrap();
            assert!(n == place && others < 2, "{others} others were at work");
        }
        assert!(desk.work("a panic", || panic!("as a test")).await.is_err());
        assert_eq!(desk.0.seats.available_permits(), 2, "seats are free again, however work ends");
        assert!(desk.under_way().is_empty());
    }

    /// Work that goes on until its sender is dropped.
    fn endless() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
        let (hold, held) = mpsc::channel::<()>();
        (hold, move || assert!(held.recv().is_err()))
    }

    #[tokio::test]
    async fn late_seats_are_replaced_a_bounded_number_of_times() {
        let (desk, limit) = (desk(1, Duration::from_secs(600)), Duration::from_millis(20));
        let mut holds = Vec::new();
        for seat in 0..2 {
            let (hold, work) = endless();
            holds.push(hold);
            let end = desk.work_within("endless", limit, work).await;
            assert!(matches!(end, Err(Unfinished::OutOfTime(_))), "{seat}: {end:?}");
            assert_eq!(desk.late(), seat + 1);
            assert_eq!(desk.work("short", || 7).await.unwrap(), 7, "others go on");
        }
        let (hold, work) = endless();
        assert!(desk.work_within("endless", limit, work).await.is_err());
        assert_eq!(desk.late(), 3);
        assert_eq!(desk.0.seats.available_permits(), 0, "two are replaced, the third is not");
        assert_eq!((desk.0.late_total.get(), desk.0.late_now.get()), (3, 3));
        drop((hold, holds));
        // Threads end by themselves; the desk is as it was.
        let others = desk.work("short", || 7);
        assert_eq!(others.await.unwrap(), 7);
        while !desk.under_way().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!((desk.0.seats.available_permits(), desk.0.late_now.get()), (1, 0));
    }

    #[tokio::test]
    async fn who_stops_waiting_blocks_nobody() {
        let desk = desk(1, Duration::from_secs(600));
        let (hold, work) = endless();
        let (begun, begins) = mpsc::channel();
        let waiting = desk.work("endless", move || {
            begun.send(()).unwrap();
            work();
        });
        let waiting = tokio::time::timeout(Duration::from_millis(50), waiting);
        assert!(waiting.await.is_err());
        begins.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(desk.work("short", || 7).await.unwrap(), 7);
        assert_eq!(desk.late(), 1);
        drop(hold);
    }

    #[tokio::test]
    async fn seats_that_hang_are_known_when_nobody_waits_for_them() {
        let activity = Arc::<Activity>::default();
        let _running = activity.run(Duration::from_secs(60));
        let desk = Desk::with_seats(1, LATE_AFTER, Default::default(), Arc::clone(&activity));
        let later = || Instant::now() + Duration::from_secs(11);
        let mut holds = Vec::new();
        for seat in 0..3 {
            activity.enter(crate::progress::Phase::Full);
            assert_eq!(activity.stall_at(later()), None, "others go on beside {seat} of them");
            let (hold, work) = endless();
            holds.push(hold);
            assert!(desk.work_within("endless", Duration::from_millis(10), work).await.is_err());
        }
        assert!(activity.stall_at(later()).unwrap().contains("all 3 CPU seats"));
        drop(holds);
        while activity.stall_at(later()).is_some() {
            tokio::task::yield_now().await;
        }
    }
}
