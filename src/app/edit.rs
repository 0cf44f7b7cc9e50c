//! Changing and removing a source, as the command line and the HTTP server do it.

use std::time::Duration;

use super::pace;
use crate::fetch::Guard;
use crate::model::{Access, NewSource, Source, SourceChange, Ts};
use crate::sources::SpecError;
use crate::store::{SourceError, Store};

/// How often a change is made up again when somebody else was faster.
const TRIES: usize = 5;
/// Articles that are taken back in one transaction.
const WITHDRAWN_AT_ONCE: usize = 500;

/// Why a source is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// What was said cannot be.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The store did not do it.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Checks the proxy that a source names: it has to be public like a publisher, unless the configuration
/// file allows it.
pub fn check_proxy(guard: &Guard, access: &Access) -> Result<(), SpecError> {
    let proxy = access.proxy.as_ref().map_or("", |proxy| proxy.expose());
    guard.check_proxy(proxy).map_err(|refusal| SpecError::Proxy(refusal.to_string()))
}

/// Makes a change up of what a source is and writes it, again when somebody else was faster.
pub async fn change(
    store: &dyn Store,
    name: &str,
    edit: impl Fn(&mut NewSource) -> Result<(), SpecError>,
) -> Result<Source, EditError> {
    let mut tries = 0;
    loop {
        let (source, _) = store.source(name).await?;
        let mut now = source.spec.clone();
        edit(&mut now)?;
        let whole = SourceChange::Whole { was: Box::new(source.spec), now: Box::new(now) };
        match store.respecify(&source.uuid, whole).await {
            Err(SourceError::Changed(_)) if tries < TRIES => tries += 1,
            done => return Ok(done?),
        }
    }
}

/// Follows a source again. What 429 responses taught about it is cleared with the rest.
pub async fn enable(
    store: &dyn Store,
    name: &str,
    now: Ts,
    min_interval: Duration,
) -> Result<Source, SourceError> {
    let source = store.set_enabled(name, None).await?;
    pace::forget(store, &source.uuid, now, min_interval).await?;
    Ok(source)
}

/// Forgets a source, and takes back the articles that nobody else gave when that is wanted; how many
/// these were.
pub async fn remove(
    store: &dyn Store,
    name: &str,
    articles: bool,
) -> Result<(Source, u64), SourceError> {
    let mut withdrawn = 0;
    if articles {
        loop {
            match store.withdraw(name, WITHDRAWN_AT_ONCE).await? {
                0 => break,
                gone => withdrawn += gone,
            }
        }
    }
    Ok((store.remove_source(name).await?, withdrawn))
}
