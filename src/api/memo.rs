//! Answers that are costly and may be a moment old.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// An answer is usually good for at least so long.
const LEAST: Duration = Duration::from_secs(5);
/// And for so many times as long as it took: whoever asks again and again costs a twentieth at the most.
const FACTOR: u32 = 20;
/// One that is no longer good is told once more for at least so long.
const ONCE_MORE: Duration = Duration::from_secs(5);
/// Answers that are kept at the most.
const KEPT: usize = 200;

/// Answers by what was asked. The first asker works and those who ask the same wait; once an answer is no
/// longer good, it is told once more while somebody makes a new one, so that nobody waits again.
#[derive(Debug)]
pub(super) struct Memo<K, V> {
    least: Duration,
    factor: u32,
    kept: Arc<Mutex<Vec<Kept<K, V>>>>,
    turns: Mutex<Vec<(K, Weak<Turn>)>>,
}

/// Whoever holds it makes an answer.
type Turn = tokio::sync::Mutex<()>;

/// Looks at everything at a time, for those who wait: there must be connections left for those who ask for
/// less.
const WIDE: usize = 2;
/// What takes longer while nobody waits for it is given up.
const LONGEST: Duration = Duration::from_secs(60);

/// Who works on answers. What nobody waits for is done one at a time, so that it takes little from those who
/// wait, and is left when the server stops.
#[derive(Clone, Debug)]
pub(super) struct Workers {
    tasks: TaskTracker,
    turn: Arc<Turn>,
    wide: Arc<Semaphore>,
    over: CancellationToken,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            tasks: TaskTracker::new(),
            turn: Arc::default(),
            wide: Arc::new(Semaphore::new(WIDE)),
            over: CancellationToken::new(),
        }
    }
}

impl Workers {
    /// Does something while nobody waits for it.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (turn, over) = (Arc::clone(&self.turn), self.over.clone());
        self.tasks.spawn(over.run_until_cancelled_owned(async move {
            let _turn = turn.lock().await;
            if tokio::time::timeout(LONGEST, work).await.is_err() {
                tracing::debug!("an answer that nobody waits for took too long");
            }
        }));
    }

    /// Leaves all that nobody waits for.
    pub(super) async fn stop(&self) {
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[derive(Debug)]
struct Kept<K, V> {
    key: K,
    value: V,
    good_until: Instant,
    /// What is older than this is told to nobody, unless a new one is on its way.
    told_until: Instant,
    renewing: bool,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self::new(LEAST, FACTOR)
    }
}

impl<K, V> Memo<K, V> {
    /// Answers that are good for at least so long, and for so many times as long as they took.
    pub(super) fn new(least: Duration, factor: u32) -> Self {
        Self { least, factor, kept: Arc::default(), turns: Mutex::default() }
    }
}

/// What is known of an answer.
enum Known<V> {
    Good(V),
    /// It is told once more, and whoever heard of it first makes a new one.
    Old(V),
    Nothing,
}

impl<K, V> Memo<K, V>
where
    K: Clone + PartialEq + Send + 'static,
    V: Clone + Send + 'static,
{
    /// An answer for which everything has to be looked at.
    pub(super) async fn get<E, F>(&self, workers: &Workers, key: K, work: F) -> Result<V, E>
    where
        E: std::fmt::Display + Send,
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        self.answer(workers, true, key, work).await
    }

    /// An answer; `wide` when everything has to be looked at for it.
    pub(super) async fn answer<E, F>(
        &self,
        workers: &Workers,
        wide: bool,
        key: K,
        work: F,
    ) -> Result<V, E>
    where
        E: std::fmt::Display + Send,
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        let mut known = look(&self.kept, &key);
        let turn = self.turn(&key);
        let turn = match known {
            Known::Nothing => {
                let turn = turn.lock().await;
                known = look(&self.kept, &key);
                Some(turn)
            }
            _ => None,
        };
        match known {
            Known::Good(value) => Ok(value),
            Known::Old(value) => {
                drop(turn);
                let renewal = Renewal { kept: Arc::clone(&self.kept), key };
                let terms = (self.least, self.factor);
                workers.spawn(async move {
                    let began = Instant::now();
                    match work.await {
                        Ok(value) => renewal.done(value, good_for(began.elapsed(), terms)),
                        Err(error) => tracing::debug!(%error, "figures could not be had"),
                    }
                });
                Ok(value)
            }
            Known::Nothing => {
                let _permit = if wide { workers.wide.acquire().await.ok() } else { None };
                let began = Instant::now();
                let value = work.await?;
                let good = good_for(began.elapsed(), (self.least, self.factor));
                keep(&self.kept, key, value.clone(), good);
                Ok(value)
            }
        }
    }

    /// The turn of those who ask this.
    fn turn(&self, key: &K) -> Arc<Turn> {
        let mut turns = locked(&self.turns);
        turns.retain(|(_, turn)| turn.strong_count() > 0);
        let known = turns.iter().find(|(of, _)| of == key).and_then(|(_, turn)| turn.upgrade());
        known.unwrap_or_else(|| {
            let turn = Arc::default();
            turns.push((key.clone(), Arc::downgrade(&turn)));
            turn
        })
    }

    /// What was asked for an answer like this, while that may still be told.
    pub(super) fn key_where(&self, fits: impl Fn(&K, &V) -> bool) -> Option<K> {
        let (kept, now) = (locked(&self.kept), Instant::now());
        let mut told = kept.iter().filter(|one| one.told_until > now);
        told.find(|one| fits(&one.key, &one.value)).map(|one| one.key.clone())
    }

    /// Forgets all answers: something was changed.
    pub(super) fn forget(&self) {
        locked(&self.kept).clear();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look<K: PartialEq, V: Clone>(kept: &Mutex<Vec<Kept<K, V>>>, key: &K) -> Known<V> {
    let (mut kept, now) = (locked(kept), Instant::now());
    kept.retain(|one| one.told_until > now || one.renewing);
    match kept.iter_mut().find(|one| one.key == *key) {
        None => Known::Nothing,
        Some(one) if one.good_until > now || one.renewing => Known::Good(one.value.clone()),
        Some(one) => {
            one.renewing = true;
            Known::Old(one.value.clone())
        }
    }
}

/// How long an answer is good that took so long.
fn good_for(took: Duration, (least, factor): (Duration, u32)) -> Duration {
    least.max(took * factor)
}

fn keep<K: PartialEq, V>(kept: &Mutex<Vec<Kept<K, V>>>, key: K, value: V, good: Duration) {
    let good_until = Instant::now() + good;
    let told_until = good_until + good.max(ONCE_MORE);
    let mut kept = locked(kept);
    kept.retain(|one| one.key != key);
    // What was quick to answer goes first: it is as quick again.
    let soonest = (0..).zip(kept.iter()).min_by_key(|(_, one)| one.told_until).map(|(at, _)| at);
    if let Some(at) = soonest.filter(|_| kept.len() >= KEPT) {
        kept.swap_remove(at);
    }
    kept.push(Kept { key, value, good_until, told_until, renewing: false });
}

/// A new answer on its way. However that ends, the next who asks may begin another.
struct Renewal<K: PartialEq, V> {
    kept: Arc<Mutex<Vec<Kept<K, V>>>>,
    key: K,
}

impl<K: Clone + PartialEq, V> Renewal<K, V> {
    fn done(&self, value: V, good: Duration) {
        keep(&self.kept, self.key.clone(), value, good);
    }
}

impl<K: PartialEq, V> Drop for Renewal<K, V> {
    fn drop(&mut self) {
        if let Some(one) = locked(&self.kept).iter_mut().find(|one| one.key == self.key) {
            one.renewing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(memo: &Memo<u8, u32>, workers: &Workers, answer: u32) -> u32 {
        let work = async move { Ok::<_, std::io::Error>(answer) };
        let told = memo.get(workers, 1, work).await.unwrap();
        settled(workers).await;
        told
    }

    /// Whatever was begun is done before anybody asks again.
    async fn settled(workers: &Workers) {
        workers.tasks.close();
        workers.tasks.wait().await;
        workers.tasks.reopen();
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_answer_is_told_once_more_and_a_very_old_one_never() {
        let (memo, workers) = (Memo::default(), Workers::default());
        assert_eq!(ask(&memo, &workers, 1).await, 1);
        assert_eq!(ask(&memo, &workers, 2).await, 1);
        tokio::time::advance(LEAST + Duration::from_secs(1)).await;
        assert_eq!(ask(&memo, &workers, 3).await, 1);
        assert_eq!(ask(&memo, &workers, 4).await, 3);
        tokio::time::advance(3 * LEAST).await;
        assert_eq!(ask(&memo, &workers, 5).await, 5);
        memo.forget();
        assert_eq!(ask(&memo, &workers, 6).await, 6);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_the_same_waits_and_who_asks_something_else_does_not() {
        let (memo, workers) = (Memo::<u8, u32>::default(), Workers::default());
        let slow = |value| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, std::io::Error>(value)
        };
        let other = async {
            let began = Instant::now();
            let told = memo.get(&workers, 2, async { Ok::<_, std::io::Error>(9) }).await.unwrap();
            (told, began.elapsed())
        };
        let (first, second, other) =
            tokio::join!(memo.get(&workers, 1, slow(1)), memo.get(&workers, 1, slow(2)), other);
        assert_eq!((first.unwrap(), second.unwrap()), (1, 1), "one of them worked for both");
        assert_eq!(other, (9, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_hangs_or_fails_is_tried_again() {
        let (memo, workers) = (Memo::<u8, u32>::default(), Workers::default());
        assert_eq!(ask(&memo, &workers, 1).await, 1);
        tokio::time::advance(LEAST + Duration::from_secs(1)).await;
        let hangs = std::future::pending::<Result<u32, std::io::Error>>();
        assert_eq!(memo.get(&workers, 1, hangs).await.unwrap(), 1);
        assert_eq!(
            memo.get(&workers, 1, async { Err(std::io::Error::other("no")) }).await.unwrap(),
            1
        );
        settled(&workers).await;
        assert_eq!(ask(&memo, &workers, 2).await, 2, "what is too old is not told");
        tokio::time::advance(LEAST + Duration::from_secs(1)).await;
        let hangs = std::future::pending::<Result<u32, std::io::Error>>();
        assert_eq!(memo.get(&workers, 1, hangs).await.unwrap(), 2);
        workers.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_no_answer() {
        let (memo, workers) = (Memo::<u8, u32>::default(), Workers::default());
        let fails = async { Err(std::io::Error::other("no")) };
        assert!(memo.get(&workers, 1, fails).await.is_err());
        assert_eq!(ask(&memo, &workers, 2).await, 2);
    }
}
