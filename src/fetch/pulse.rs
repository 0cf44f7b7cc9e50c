//! Whether the database answers, asked every few seconds: statements may wait long for their answers
//! before they are given up, and a pause is to be told sooner.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::hold::{Hold, PAUSE, Step};
use crate::db::DbError;
use crate::store::Store;

/// Between two questions.
const INTERVAL: Duration = Duration::from_secs(2);
/// Who does not answer within this time is silent.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks until it is told to stop; work is paused while there is no answer. `gone` is called when there
/// is nothing to go back to.
pub async fn watch_database(
    store: Arc<dyn Store>,
    hold: Hold,
    gone: impl FnOnce(String) + Send,
    stop: CancellationToken,
) {
    loop {
        let answer = tokio::select! {
            () = stop.cancelled() => break,
            answer = store.ping(LIMIT) => answer,
        };
        let wait = match answer {
            Err(error @ DbError::Lost(_)) => {
                hold.begin(Step::Answer, error.code(), error.to_string());
                PAUSE
            }
            Err(DbError::Schema(message)) => return gone(message),
            // Other trouble is met, and told, by those who work.
            _ => {
                hold.end(Step::Answer);
                INTERVAL
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
        }
    }
}
