//! Work that keeps a core busy, such as compressing and parsing, off the threads that talk to the
//! network.
//!
//! No more of it is begun at once than the machine has cores for: more threads would do no more, and
//! each has a heap and a compressor of its own. What waits for something else must not be done here.

use std::num::NonZero;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Where work is done; clones share the seats.
#[derive(Clone, Debug)]
pub struct Desk(Arc<Semaphore>);

impl Default for Desk {
    /// A seat for each core, and another for one who waits for a disk.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new(cores + 1)))
    }
}

impl Desk {
    /// Does the work when there is a seat; fails when the work panics or the engine is ending.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // Kept until the result is here: by then the thread is free for the next, and no other is
        // started. Nobody closes the desk, and without a seat there would only be more at work.
        let _seat = self.0.acquire().await.ok();
        tokio::task::spawn_blocking(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn no_more_is_under_way_than_there_are_seats() {
        let (desk, at_work) = (Desk(Arc::new(Semaphore::new(2))), Arc::new(AtomicUsize::new(0)));
        let work = (0..20).map(|n| {
            let at_work = Arc::clone(&at_work);
            desk.work(move || {
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
        assert!(desk.work(|| panic!("as a test")).await.is_err());
        assert_eq!(desk.0.available_permits(), 2, "seats are free again, however work ends");
    }
}
