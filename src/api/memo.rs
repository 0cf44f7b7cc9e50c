//! An answer that is costly and may be a moment old.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// An answer is good for at least so long.
const LEAST: Duration = Duration::from_secs(5);
/// And for so many times as long as it took: whoever asks again and again costs a twentieth at the most.
const FACTOR: u32 = 20;

/// Answers by what was asked; one asker works, the others wait for it.
#[derive(Debug)]
pub(super) struct Memo<K, V>(Mutex<Vec<(K, Instant, V)>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V: Clone> Memo<K, V> {
    pub(super) async fn get<E>(
        &self,
        key: K,
        work: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        let mut kept = self.0.lock().await;
        let began = Instant::now();
        kept.retain(|(_, until, _)| *until > began);
        if let Some((_, _, value)) = kept.iter().find(|(known, _, _)| *known == key) {
            return Ok(value.clone());
        }
        let value = work.await?;
        let until = Instant::now() + LEAST.max(began.elapsed() * FACTOR);
        kept.push((key, until, value.clone()));
        Ok(value)
    }
}
