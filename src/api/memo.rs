//! Answers that are costly and may be a moment old.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
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

/// Work that nobody waits for. One is done at a time, so that it takes little from those who wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Background {
    tasks: TaskTracker,
    turn: Arc<Turn>,
}

impl Background {
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let turn = Arc::clone(&self.turn);
        self.tasks.spawn(async move {
            let _turn = turn.lock().await;
            work.await;
        });
    }

    /// Waits until all of it is done.
    pub(super) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[derive(Debug)]
struct Kept<K, V> {
    key: K,
    value: V,
    good_until: Instant,
    /// What is older than this is told to nobody.
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
    pub(super) async fn get<E, F>(&self, background: &Background, key: K, work: F) -> Result<V, E>
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
                let (kept, terms) = (Arc::clone(&self.kept), (self.least, self.factor));
                background.spawn(async move {
                    let began = Instant::now();
                    match work.await {
                        Ok(value) => keep(&kept, key, value, good_for(began.elapsed(), terms)),
                        Err(error) => {
                            tracing::debug!(%error, "figures could not be had");
                            give_up(&kept, &key);
                        }
                    }
                });
                Ok(value)
            }
            Known::Nothing => {
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

fn give_up<K: PartialEq, V>(kept: &Mutex<Vec<Kept<K, V>>>, key: &K) {
    if let Some(one) = locked(kept).iter_mut().find(|one| one.key == *key) {
        one.renewing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(memo: &Memo<u8, u32>, background: &Background, answer: u32) -> u32 {
        let work = async move { Ok::<_, std::io::Error>(answer) };
        let told = memo.get(background, 1, work).await.unwrap();
        // Whatever was begun is done before anybody asks again.
        background.finish().await;
        background.tasks.reopen();
        told
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_answer_is_told_once_more_and_a_very_old_one_never() {
        let (memo, background) = (Memo::default(), Background::default());
        assert_eq!(ask(&memo, &background, 1).await, 1);
        assert_eq!(ask(&memo, &background, 2).await, 1);
        tokio::time::advance(LEAST + Duration::from_secs(1)).await;
        assert_eq!(ask(&memo, &background, 3).await, 1);
        assert_eq!(ask(&memo, &background, 4).await, 3);
        tokio::time::advance(3 * LEAST).await;
        assert_eq!(ask(&memo, &background, 5).await, 5);
        memo.forget();
        assert_eq!(ask(&memo, &background, 6).await, 6);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_the_same_waits_and_who_asks_something_else_does_not() {
        let (memo, background) = (Memo::<u8, u32>::default(), Background::default());
        let slow = |value| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, std::io::Error>(value)
        };
        let other = async {
            let began = Instant::now();
            let told =
                memo.get(&background, 2, async { Ok::<_, std::io::Error>(9) }).await.unwrap();
            (told, began.elapsed())
        };
        let (first, second, other) = tokio::join!(
            memo.get(&background, 1, slow(1)),
            memo.get(&background, 1, slow(2)),
            other
        );
        assert_eq!((first.unwrap(), second.unwrap()), (1, 1), "one of them worked for both");
        assert_eq!(other, (9, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_no_answer() {
        let (memo, background) = (Memo::<u8, u32>::default(), Background::default());
        let fails = async { Err(std::io::Error::other("no")) };
        assert!(memo.get(&background, 1, fails).await.is_err());
        assert_eq!(ask(&memo, &background, 2).await, 2);
    }
}
