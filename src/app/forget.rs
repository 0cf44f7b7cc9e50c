//! Takedowns, from the wish to the last byte: what is meant, what goes, and how it is made so.
//!
//! It can be stopped at any time and begun again: what is refused stays refused, what is gone stays
//! gone, and an engine goes on with what was left.

use std::sync::Arc;

use feedmill_formats::url as web;
use serde::Serialize;

use super::catalog;
use super::keep::alone;
use super::raw::RawError;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::DbError;
use crate::frontier::{Act, TaskFilter};
use crate::model::{NewTakedown, Scope, Takedown, TaskId};
use crate::store::takedown::{Doomed, Target};
use crate::store::{SourceError, Store};

/// Things that go in one transaction.
const PART: usize = 500;
/// Articles whose events are looked for at a time.
const BLANKED: usize = 5_000;

/// Why nothing was taken down.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// It could be either.
    #[error("`{0}` is a source and could be a host: say --scope source or --scope host")]
    Ambiguous(String),
    /// It is none of them.
    #[error("`{0}` is neither an address, nor a host, nor the name or id of a source")]
    Unknown(String),
    /// Nothing like that was taken down.
    #[error("nothing that is taken down is called `{0}`: `feedmill forget --list` shows it")]
    NotDown(String),
    /// Several takedowns could be meant.
    #[error("several takedowns are called `{0}`: say --scope address, host or source")]
    Several(String),
    /// The source could not be set aside.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl ForgetError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Ambiguous(_) | Self::Several(_) => "ambiguous",
            Self::Unknown(_) => "unknown_target",
            Self::NotDown(_) => "not_withdrawn",
            Self::Source(SourceError::Db(error)) | Self::Db(error) => error.code(),
            Self::Source(_) => "unknown_source",
        }
    }
}

/// What somebody means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// What is looked for.
    pub target: Target,
    scope: Scope,
    key: String,
    /// As people know it.
    pub name: String,
}

/// Finds out what is meant by an address, a host, or the name or id of a source.
pub async fn resolve(
    store: &dyn Store,
    text: &str,
    scope: Option<Scope>,
) -> Result<Meant, ForgetError> {
    let text = text.trim();
    let unknown = || ForgetError::Unknown(text.to_owned());
    let wants = |one| scope.is_none_or(|scope| scope == one);
    if wants(Scope::Address)
        && let Ok(url) = web::parse(text)
    {
        let key = web::key(&url, &store.rules().key);
        let (target, name) = (Target::Address(key.clone()), text.to_owned());
        return Ok(Meant { target, scope: Scope::Address, key, name });
    }
    let source = match store.source(text).await {
        Ok((source, _)) if wants(Scope::Source) => Some(source),
        Ok(_) | Err(SourceError::Unknown(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let host = host(text).filter(|_| wants(Scope::Host));
    match (source, host) {
        (Some(_), Some(_)) => Err(ForgetError::Ambiguous(text.to_owned())),
        (Some(source), None) => Ok(Meant {
            target: Target::Source(source.id),
            scope: Scope::Source,
            key: source.uuid,
            name: source.spec.name,
        }),
        (None, Some(host)) => Ok(Meant {
            target: Target::Host(host.clone()),
            scope: Scope::Host,
            key: host.clone(),
            name: host,
        }),
        (None, None) => Err(unknown()),
    }
}

/// A text as a host, when it could be one.
fn host(text: &str) -> Option<String> {
    let url = web::parse(&format!("https://{text}/")).ok()?;
    let plain = url.path() == "/" && url.query().is_none() && url.port().is_none();
    (plain && text.contains('.')).then(|| web::host(&url))
}

/// Takes down what is meant, and refuses it from now on; the record of it.
pub async fn forget(
    store: &dyn Store,
    meant: &Meant,
    (by, why): (&str, &str),
    watch: &mut (dyn FnMut(&Doomed) + Send),
) -> Result<Takedown, ForgetError> {
    let addresses = match meant.scope {
        Scope::Host => Vec::new(),
        _ => store.doomed(meant.target.clone()).await?.addresses.into_iter().collect(),
    };
    let (scope, target, name) = (meant.scope, meant.key.clone(), meant.name.clone());
    let (by, why) = (by.to_owned(), why.to_owned());
    let new = NewTakedown { scope, target, name, by, why, addresses };
    if scope == Scope::Source {
        store.set_enabled(&meant.key, Some(format!("taken down: {}", new.why))).await?;
    }
    let takedown = store.open_takedown(new.clone()).await?;
    finish(store, &takedown, meant.target.clone(), watch).await?;
    let all = store.takedowns().await?.into_iter();
    let is_it = |one: &Takedown| {
        (one.scope, &one.target, one.at) == (takedown.scope, &takedown.target, takedown.at)
    };
    Ok(all.into_iter().find(is_it).unwrap_or(takedown))
}

/// Takes away what is there of it.
async fn finish(
    store: &dyn Store,
    takedown: &Takedown,
    target: Target,
    watch: &mut (dyn FnMut(&Doomed) + Send),
) -> Result<(), DbError> {
    // Nothing comes in any more: what is found now is all.
    let doomed = store.doomed(target).await?;
    if takedown.scope != Scope::Host {
        let Takedown { scope, target, name, by, why, .. } = takedown.clone();
        let addresses = doomed.addresses.iter().copied().collect();
        store.open_takedown(NewTakedown { scope, target, name, by, why, addresses }).await?;
    }
    let articles: Vec<_> = doomed.articles.iter().copied().collect();
    for part in doomed.parts(PART) {
        let ids: Vec<TaskId> = part.tasks.iter().copied().collect();
        watch(&part);
        store.take_down(takedown, part).await?;
        if !ids.is_empty() {
            let filter = TaskFilter { limit: ids.len(), ids, ..TaskFilter::default() };
            store.sweep(Act::Withdraw, filter, false).await?;
        }
    }
    for some in articles.chunks(BLANKED) {
        store.blank_events(some.to_vec()).await?;
    }
    store.end_takedown(takedown).await
}

/// Goes on with takedowns that were interrupted.
pub(super) async fn go_on(store: &dyn Store) -> Result<(), DbError> {
    let open = store.takedowns().await?.into_iter();
    for takedown in open.filter(|one| one.done_at.is_none() && one.lifted_at.is_none()) {
        let target = match takedown.scope {
            Scope::Address => Target::Address(takedown.target.clone()),
            Scope::Host => Target::Host(takedown.target.clone()),
            Scope::Source => match store.source(&takedown.target).await {
                Ok((source, _)) => Target::Source(source.id),
                Err(SourceError::Db(error)) => return Err(error),
                // It was removed since, and what it owned is nobody's.
                Err(_) => {
                    store.end_takedown(&takedown).await?;
                    continue;
                }
            },
        };
        finish(store, &takedown, target, &mut |_| {}).await?;
    }
    Ok(())
}

/// Refuses no more what was taken down under this name.
pub async fn undo(
    store: &dyn Store,
    text: &str,
    scope: Option<Scope>,
    by: &str,
) -> Result<Takedown, ForgetError> {
    let key = web::parse(text).map(|url| web::key(&url, &store.rules().key));
    let is_it = |one: &Takedown| {
        one.lifted_at.is_none()
            && scope.is_none_or(|scope| scope == one.scope)
            && (one.name == text || one.target == text || key.as_ref() == Ok(&one.target))
    };
    let mut found: Vec<_> = store.takedowns().await?.into_iter().filter(is_it).collect();
    let Some(takedown) = found.pop() else { return Err(ForgetError::NotDown(text.to_owned())) };
    if !found.is_empty() {
        return Err(ForgetError::Several(text.to_owned()));
    }
    store.lift_takedown(takedown.scope, &takedown.target, by).await?;
    Ok(takedown)
}

/// What became of the bytes in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bytes {
    /// They are gone.
    Gone,
    /// The engine that runs takes them out within some minutes.
    LeftToTheEngine,
    /// Other machines have them, whose engines take them out.
    Elsewhere,
}

/// Takes the bytes out of the archive, unless an engine does it.
pub async fn erase(
    config: &Config,
    clock: &Clock,
    store: Arc<dyn Store>,
) -> Result<Bytes, RawError> {
    // Who rebuilds the store must know of it.
    catalog::keep(&*store, &catalog::Catalog::path(config)).await?;
    if store.erasures(None, 1).await?.is_empty() {
        return Ok(Bytes::Gone);
    }
    let kept = Arc::clone(&store);
    match alone(config, clock, store, async |keeper| keeper.erase().await).await {
        Ok(_) if kept.erasures(None, 1).await?.is_empty() => Ok(Bytes::Gone),
        Ok(_) => Ok(Bytes::Elsewhere),
        Err(RawError::Running(_)) => Ok(Bytes::LeftToTheEngine),
        Err(error) => Err(error),
    }
}
