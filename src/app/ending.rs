//! The end of a run: asked for, or for a reason that nobody asked for, which the process must end with.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::AppError;

/// Ends a run; clones share it.
#[derive(Clone, Debug)]
pub struct Ending {
    stop: CancellationToken,
    cause: Arc<Mutex<Option<AppError>>>,
}

impl Ending {
    /// The end of a run that `stop` ends.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop, cause: Arc::default() }
    }

    /// Ends the run because it cannot go on. The first cause counts.
    pub(super) fn fail(&self, error: AppError) {
        tracing::error!(code = error.code(), %error, "the process stops");
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.cancel();
    }

    /// Why it could not go on.
    pub fn result(&self) -> Result<(), AppError> {
        let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner).take();
        cause.map_or(Ok(()), Err)
    }
}
