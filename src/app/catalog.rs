//! What the archive's segments do not say, and a store that is rebuilt from them must know: the sources,
//! the numbers of their channels, and what was taken down.
//!
//! It is one small file in the data directory, written when it changes. It holds no header, cookie,
//! credential or proxy: those have to be set again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::AppError;
use super::raw::RawError;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{DbError, private};
use crate::model::{Access, Kind, NewSource, Scope, Source, TaskId, Ts};
use crate::store::{ChannelState, Store};

/// The form of the file.
const VERSION: u32 = 1;
/// Events by which the log may have come further than the catalog says.
const EVENTS_STEP: i64 = 1_000_000;
/// No catalog is larger.
const MAX_SIZE: u64 = 1 << 30;

/// Everything that is kept beside the segments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Catalog {
    version: u32,
    /// The log did not come further than this: a rebuilt one goes on behind it.
    #[serde(default)]
    pub(super) events: i64,
    pub(super) sources: Vec<CatalogSource>,
    pub(super) takedowns: Vec<CatalogTakedown>,
}

/// A source, without what may be a secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CatalogSource {
    pub(super) id: String,
    pub(super) created_at: i64,
    /// Why it is not followed.
    pub(super) disabled: Option<String>,
    pub(super) spec: NewSource,
    /// It had headers, a cookie, credentials or a proxy, which are not here.
    pub(super) access_removed: bool,
    pub(super) channels: Vec<CatalogChannel>,
}

/// A channel and the number of its task: the ids of its entries follow from that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CatalogChannel {
    pub(super) task: i64,
    pub(super) kind: Kind,
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) moved_from: Option<String>,
}

/// A takedown that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CatalogTakedown {
    pub(super) scope: Scope,
    pub(super) target: String,
    pub(super) name: String,
    pub(super) by: String,
    pub(super) why: String,
}

impl CatalogSource {
    fn of(source: &Source, channels: &[ChannelState]) -> Self {
        let Access { user_agent, unconditional, .. } = source.spec.access.clone();
        let access = Access { user_agent, unconditional, ..Access::default() };
        let mut spec = NewSource { access, ..source.spec.clone() };
        let addresses = spec.feed_urls.iter_mut().chain(&mut spec.sitemap_urls);
        addresses.chain([&mut spec.url]).for_each(|url| *url = without_password(url));
        let own = channels.iter().filter(|channel| channel.source == source.id);
        let channels = own.filter_map(|channel| {
            Some(CatalogChannel {
                task: TaskId::from_uuid(channel.id.parse().ok()?)?.0,
                kind: channel.kind,
                url: without_password(&channel.url),
                moved_from: channel.moved_from.as_deref().map(without_password),
            })
        });
        Self {
            id: source.uuid.clone(),
            created_at: source.created_at.ms(),
            disabled: (!source.enabled())
                .then(|| source.disable_reason.clone().unwrap_or_default()),
            access_removed: spec != source.spec,
            spec,
            channels: channels.collect(),
        }
    }
}

/// An address without the name and password that it may carry.
fn without_password(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            // An address that has a host can do without both.
            let _ignored = (parsed.set_username(""), parsed.set_password(None));
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}

impl Catalog {
    /// Where it is: in the data directory, or with the segments where those are elsewhere, so that they
    /// can be read without the data directory.
    pub(super) fn path(config: &Config) -> PathBuf {
        let archive = config.archive_dir();
        let dir = if archive.starts_with(&config.data_dir) { &config.data_dir } else { &archive };
        dir.join("catalog.json")
    }

    /// What the store knows now.
    pub(super) async fn of(store: &dyn Store) -> Result<Self, DbError> {
        let channels = store.channels().await?;
        let sources = store.sources().await?;
        let sources = sources.iter().map(|source| CatalogSource::of(source, &channels)).collect();
        let takedowns = store.takedowns().await?.into_iter().filter(|one| one.lifted_at.is_none());
        let takedowns = takedowns.map(|one| CatalogTakedown {
            scope: one.scope,
            target: one.target,
            name: one.name,
            by: one.by,
            why: one.why,
        });
        // In large steps, so that the file need not be written again for every event.
        let events = (store.log_ends(0).await?.last / EVENTS_STEP + 2) * EVENTS_STEP;
        Ok(Self { version: VERSION, events, sources, takedowns: takedowns.collect() })
    }

    /// Reads a catalog; `None` when there is none.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = match private::read_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() > MAX_SIZE {
            return Err(io::Error::other("larger than a catalog can be"));
        }
        Ok(Some(serde_json::from_reader(io::BufReader::new(file))?))
    }

    /// Writes it, unless it is there like that. Its directory is not created: an archive that is lost stays lost
    /// until something is written to it, so that `/readyz` reports it.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        if fs::symlink_metadata(path).is_ok_and(|found| found.len() == text.len() as u64)
            && Self::read(path).is_ok_and(|kept| kept.as_ref() == Some(self))
        {
            return Ok(());
        }
        let part = path.with_extension("json.part");
        let mut file = private::create_regular(&part)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&part, path)
    }
}

/// Brings the catalog up to date.
pub(super) async fn keep(store: &dyn Store, path: &Path) -> Result<(), RawError> {
    let mut catalog = Catalog::of(store).await?;
    if (catalog.sources.len() as u64) < store.totals().await?.sources {
        // The catalog that is there knows the source whose row is damaged.
        tracing::warn!("a source is damaged: the catalog is not written");
        return Ok(());
    }
    let (to, shown) = (path.to_owned(), path.display().to_string());
    let write = move || {
        // A restore may have reserved more than the log shows.
        let kept = Catalog::read(&to).ok().flatten();
        catalog.events = kept.map_or(catalog.events, |kept| kept.events.max(catalog.events));
        catalog.write(&to)
    };
    let done = tokio::task::spawn_blocking(write).await;
    done.map_err(io::Error::other).flatten().map_err(|source| RawError::Io { path: shown, source })
}

/// The highest number that a channel had.
pub(super) fn highest(catalog: &Catalog) -> i64 {
    let channels = catalog.sources.iter().flat_map(|source| &source.channels);
    channels.map(|channel| channel.task).max().unwrap_or(0)
}

/// A place in the log behind every event that was ever written to it, where the last one that is known is `last`.
pub(super) fn events_behind(catalog: Option<&Catalog>, last: i64) -> i64 {
    match catalog {
        Some(catalog) => catalog.events.max(last),
        // How far it came is not known: far beyond what anybody had.
        None => last.saturating_add(1_000 * EVENTS_STEP),
    }
}

/// Notes that the log goes on behind a place, before anything is written there.
pub(super) async fn note_events(
    config: &Config,
    clock: &Clock,
    events: i64,
) -> Result<(), AppError> {
    let path = Catalog::path(config);
    let mut catalog = match Catalog::read(&path) {
        Ok(Some(catalog)) => catalog,
        _ => {
            let store = super::open(config, clock).await?;
            let catalog = Catalog::of(&*store).await;
            store.close().await;
            catalog?
        }
    };
    catalog.events = catalog.events.max(events.saturating_add(2 * EVENTS_STEP));
    if let Err(error) = catalog.write(&path) {
        tracing::warn!(%error, path = %path.display(), "cannot write the catalog that a rebuild needs");
    }
    Ok(())
}

/// When a source was added.
pub(super) const fn created(source: &CatalogSource) -> Ts {
    Ts::from_ms(source.created_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Auth, Secret, SourceId};

    #[test]
    fn no_secret_is_written_and_what_is_written_is_read() {
        let secret = || Secret::from("hunter2".to_owned());
        let spec = NewSource {
            feed_urls: vec!["https://ann:hunter2@a.example/feed".into()],
            access: Access {
                user_agent: Some("Agent/1".into()),
                headers: [("x-key".to_owned(), secret())].into(),
                auth: Some(Auth::Bearer(secret())),
                ..Access::default()
            },
            ..NewSource::new("a", "https://a.example/")
        };
        let now = Ts::from_ms(1);
        let source = Source {
            id: SourceId(1),
            uuid: "x".into(),
            spec,
            enabled_at: Some(now),
            disabled_at: None,
            disable_reason: None,
            created_at: now,
        };
        let kept = CatalogSource::of(&source, &[]);
        assert!(kept.access_removed);
        assert_eq!(kept.spec.access.user_agent.as_deref(), Some("Agent/1"));
        let catalog =
            Catalog { version: VERSION, events: 7, sources: vec![kept], takedowns: Vec::new() };
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        let path = Catalog::path(&config);
        assert_eq!(path, dir.path().join("data/catalog.json"));
        assert_eq!(Catalog::read(&path).unwrap(), None);
        assert!(catalog.write(&path).is_err(), "a lost directory stays lost");
        fs::create_dir(&config.data_dir).unwrap();
        catalog.write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("x-key"), "{text}");
        assert_eq!(Catalog::read(&path).unwrap(), Some(catalog));
    }
}
