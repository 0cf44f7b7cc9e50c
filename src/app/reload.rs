//! Reads the configuration again while the engine runs, every `sources.reload_interval` and when
//! somebody asks for it, and hands what changed to those who work.
//!
//! A configuration that cannot be used changes nothing: the one that runs goes on, and the log says
//! what is wrong and where. Nothing here stops or restarts work.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{AppError, client, house, serve_settings};
use crate::clock::Clock;
use crate::config::{
    Change, Config, ConfigError, Loaded, Reloaded, change_of, is_key, is_section, reload, validate,
};
use crate::db::DbError;
use crate::fetch::{Handover, Tuning};
use crate::store::Store;

/// Reads the configuration, with the keys and values that the store keeps beside it.
type Read = dyn Fn(Vec<(String, String)>) -> Result<Loaded, ConfigError> + Send + Sync;

/// How a running engine gets its configuration again.
#[derive(Clone)]
pub struct Reload {
    read: Arc<Read>,
    asked: Arc<Notify>,
}

impl std::fmt::Debug for Reload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reload").finish_non_exhaustive()
    }
}

impl Reload {
    /// By reading it like this.
    pub fn new(
        read: impl Fn(Vec<(String, String)>) -> Result<Loaded, ConfigError> + Send + Sync + 'static,
    ) -> Self {
        Self { read: Arc::new(read), asked: Arc::default() }
    }

    /// Asks for it now.
    pub fn ask(&self) {
        self.asked.notify_one();
    }

    /// Of a configuration that stays as it is.
    #[must_use]
    pub fn fixed(config: &Config) -> Self {
        let config = config.clone();
        Self::new(move |_| {
            let (config, file, origins) = (config.clone(), None, BTreeMap::new());
            Ok(Loaded { config, file, origins, warnings: Vec::new() })
        })
    }

    /// What is configured now, with what the store keeps.
    pub(super) async fn now(&self, store: &dyn Store) -> Result<Loaded, ReloadError> {
        self.with(store.settings().await?).await
    }

    /// What would be configured, were these keys and values kept.
    pub async fn with(&self, kept: Vec<(String, String)>) -> Result<Loaded, ReloadError> {
        let read = Arc::clone(&self.read);
        let loaded = tokio::task::spawn_blocking(move || read(kept)).await;
        let loaded = loaded.map_err(|error| ReloadError::Unusable(error.to_string()))?;
        Ok(loaded?)
    }

    /// Keeps a value for a key of the running installation. It has to be one that running engines take
    /// over.
    pub async fn set(
        &self,
        store: &dyn Store,
        key: &str,
        value: &str,
    ) -> Result<Config, ReloadError> {
        // An unknown key is told with the nearest known one, further down.
        match change_of(key) {
            Change::FileOnly if is_key(key) || is_section(key) => {
                return Err(ReloadError::FileOnly(key.to_owned()));
            }
            Change::AtStart => return Err(ReloadError::Waits(key.to_owned())),
            Change::FileOnly | Change::Running => {}
        }
        let before = store.settings().await?;
        let running = self.with(before.clone()).await?.config;
        let mut kept: Vec<_> = before.into_iter().filter(|(known, _)| known != key).collect();
        kept.push((key.to_owned(), value.to_owned()));
        let read = self.with(kept).await?.config;
        if reload(&running, &read).waiting.iter().any(|waiting| waiting == key) {
            return Err(ReloadError::Waits(key.to_owned()));
        }
        store.keep_setting(key, Some(value.to_owned())).await?;
        self.ask();
        Ok(read)
    }
}

/// Why a configuration does not count.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It, or a part of it, cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// It cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A key that widens access or names a file.
    #[error(
        "`{0}` cannot be changed at run time: set it in the configuration file, the environment or a flag, and restart"
    )]
    FileOnly(String),
    /// A key that running engines cannot take over.
    #[error(
        "`{0}` only counts from the start of an engine on: set it in the file or the environment"
    )]
    Waits(String),
    /// What the store keeps beside it could not be read.
    #[error(transparent)]
    Db(#[from] DbError),
}

/// What those who work need of a configuration.
pub(super) fn tuning(config: &Config, clock: &Clock) -> Result<Tuning, AppError> {
    let (client, guard) = client(config, clock)?;
    let client = client.with_handover(Handover::of(&config.data_dir));
    Ok(Tuning {
        client,
        guard,
        house: Arc::new(house(config)),
        settings: serve_settings(config, clock),
        workers: config.fetch.workers,
        min_free: config.retention.min_free.as_bytes(),
    })
}

/// Reads it again until it is told to stop.
pub(super) async fn keep(
    reload: Reload,
    running: watch::Sender<Arc<Config>>,
    work: watch::Sender<Arc<Tuning>>,
    store: Arc<dyn Store>,
    clock: Clock,
    stop: CancellationToken,
) {
    // What waits for a restart, or is ignored, is told once, not every five minutes.
    let (mut told, mut warned) = (Vec::new(), Vec::new());
    loop {
        let pause = running.borrow().sources.reload_interval;
        let again = clock.now().after(pause.duration());
        let due = async {
            if pause.is_zero() {
                std::future::pending::<()>().await;
            }
            clock.sleep_until(again).await;
        };
        let asked = tokio::select! {
            () = stop.cancelled() => return,
            () = reload.asked.notified() => true,
            () = due => false,
        };
        let before = Arc::clone(&running.borrow());
        let after = match reload.now(&*store).await {
            Ok(Loaded { config: read, warnings, .. }) => {
                if warnings != warned {
                    for warning in &warnings {
                        tracing::warn!(%warning, "configuration warning");
                    }
                    warned = warnings;
                }
                apply(&before, &read, &work, &*store, &clock)
            }
            Err(error) => Err(error),
        };
        match after {
            Ok(Reloaded { config, changed, waiting }) => {
                if !waiting.is_empty() && (asked || waiting != told) {
                    let keys = waiting.join(", ");
                    tracing::warn!(keys, "these settings changed and count from the next start on");
                }
                told = waiting;
                if config != *before {
                    tracing::info!(keys = changed.join(", "), "the configuration was read again");
                    running.send_replace(Arc::new(config));
                } else if asked {
                    tracing::info!("the configuration was read again: nothing is different");
                }
            }
            // The engine tells of its database; there is a next time.
            Err(ReloadError::Db(error)) if error.is_transient() => {
                tracing::debug!(%error, "the configuration could not be read again");
            }
            Err(error) => {
                tracing::error!(%error, "the configuration cannot be used: the old one stays in effect");
            }
        }
    }
}

/// Makes what changed count from now on.
fn apply(
    running: &Config,
    read: &Config,
    work: &watch::Sender<Arc<Tuning>>,
    store: &dyn Store,
    clock: &Clock,
) -> Result<Reloaded, ReloadError> {
    let reloaded = reload(running, read);
    // It held together as a whole, but part of it has to wait.
    if let Some(problem) = validate(&reloaded.config).first() {
        let waiting = reloaded.waiting.join(", ");
        return Err(ReloadError::Unusable(format!(
            "{problem}; {waiting} only count from the next start on"
        )));
    }
    if reloaded.config != *running {
        let tuned = tuning(&reloaded.config, clock)
            .map_err(|error| ReloadError::Unusable(error.to_string()))?;
        store.rules().delay.set(reloaded.config.hosts.delay.duration());
        work.send_replace(Arc::new(tuned));
    }
    Ok(reloaded)
}
