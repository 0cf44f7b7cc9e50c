//! Segments of the archive that were lost: what no commit refers to yet is written again, and what the
//! index refers to is noted there as gone.

use std::sync::Arc;

use crate::archive::{Archive, ArchiveError, Loss};
use crate::db::DbError;
use crate::model::FetchId;
use crate::store::{Commit, FetchFilter, Store};

/// Fetches whose places one transaction forgets.
const BATCH: usize = 5_000;
/// Lost fetches that the log names.
const NAMED: usize = 5;
/// How often what was lost is written again before it has to wait.
const ATTEMPTS: usize = 3;

/// Brings the bytes that these commits refer to to disk; what was lost with its segment is written
/// again. What cannot be, because nobody has it any more, stays lost.
pub(super) async fn sync(
    archive: &Arc<Archive>,
    commits: impl Iterator<Item = &mut Commit>,
) -> Result<(), DbError> {
    let mut places: Vec<_> = commits
        .flat_map(|commit| &mut commit.outcome.fetches)
        .filter_map(|fetch| Some((fetch.id, fetch.raw.as_mut()?)))
        .collect();
    if places.is_empty() {
        return Ok(());
    }
    for _ in 0..ATTEMPTS {
        blocking(archive, Archive::sync).await?;
        let lost = places.iter_mut().filter(|(_, raw)| archive.has_lost(raw));
        let mut again = 0;
        for (id, raw) in lost {
            let id: FetchId = *id;
            if let Some(place) = blocking(archive, move |archive| archive.append_again(id)).await? {
                **raw = place;
                again += 1;
            }
        }
        if again == 0 {
            return Ok(());
        }
        tracing::warn!(records = again, "wrote archive records again after their segment was lost");
    }
    Err(DbError::Disk("archive segments disappear while they are written".to_owned()))
}

async fn blocking<T: Send + 'static>(
    archive: &Arc<Archive>,
    work: impl FnOnce(&Archive) -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, DbError> {
    let archive = Arc::clone(archive);
    tokio::task::spawn_blocking(move || work(&archive))
        .await
        .map_err(|error| DbError::Engine(error.to_string()))?
        .map_err(|error| DbError::Disk(error.to_string()))
}

/// Notes in the index what was lost of the archive, and logs which fetches that are. A database that
/// cannot be asked now is asked again later.
pub async fn note_losses(store: &dyn Store, archive: &Archive) -> Result<(), DbError> {
    let mut losses = archive.take_losses();
    while let Some(loss) = losses.pop() {
        if let Err(error) = note_loss(store, &loss).await {
            losses.push(loss);
            archive.give_back(losses);
            return Err(error);
        }
    }
    Ok(())
}

async fn note_loss(store: &dyn Store, loss: &Loss) -> Result<(), DbError> {
    let (segment, kept) = (&loss.segment, loss.cause.kept());
    let first = FetchFilter { segment: Some(segment.clone()), ..FetchFilter::default() };
    let mut named = Vec::new();
    // What is kept comes first in a segment, and so do its fetches in time.
    let mut filter = FetchFilter { limit: BATCH, ..first };
    while named.len() < NAMED {
        let page = store.find_fetches(filter.clone()).await?;
        let Some(last) = page.last() else { break };
        filter.after = Some(last.id);
        let lost = page.into_iter().filter(|fetch| {
            fetch.raw.as_ref().is_some_and(|raw| raw.offset.saturating_add(raw.length) > kept)
        });
        named.extend(lost.map(|fetch| format!("{} {}", fetch.id, fetch.url)));
    }
    named.truncate(NAMED);
    let mut fetches = 0;
    loop {
        match store.forget_segment(segment, kept, BATCH).await? {
            0 => break,
            some => fetches += some,
        }
    }
    let cause = loss.cause.as_str();
    if fetches > 0 {
        tracing::error!(
            segment,
            cause,
            fetches,
            first = named.join(", "),
            "responses lost with their archive segment; what was read from them is kept"
        );
    } else {
        tracing::info!(segment, cause, "no stored response was lost with the archive segment");
    }
    Ok(())
}
