//! Takes records out of the archive that were taken down: here, and in the bucket.
//!
//! The index forgot them before; a row says what is still to be done until it is done.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::keep::{Keeper, blocking};
use super::raw::RawError;
use crate::archive::{self, ArchiveError, Carried, Remote, begun};
use crate::model::RawRef;
use crate::store::FetchFilter;
use crate::store::takedown::Erasure;

/// Records that are looked for at a time.
const PAGE: usize = 1_000;

impl Keeper {
    /// Takes out what was taken down, as far as it is in reach; how many records that were.
    pub(super) async fn erase(&self) -> Result<u64, RawError> {
        let (mut after, mut done) = (None, 0);
        loop {
            let page = self.store.erasures(after.take(), PAGE).await?;
            after = page.last().map(|last| last.raw.clone());
            if after.is_none() {
                return Ok(done);
            }
            let mut segments: BTreeMap<String, Vec<Erasure>> = BTreeMap::new();
            for erasure in page {
                segments.entry(erasure.raw.segment.clone()).or_default().push(erasure);
            }
            for (segment, gone) in segments {
                if self.erase_from(&segment, &gone).await? {
                    done += gone.len() as u64;
                    self.store.erased(gone.into_iter().map(|one| one.raw).collect()).await?;
                }
            }
        }
    }

    /// The same for a segment that is about to go as a whole.
    pub(super) async fn settle(&self, segment: &str) -> Result<(), RawError> {
        loop {
            let start = RawRef { segment: segment.to_owned(), offset: 0, length: 0 };
            let mut page = self.store.erasures(Some(start), PAGE).await?;
            page.retain(|one| one.raw.segment == segment);
            if page.is_empty() {
                return Ok(());
            }
            self.store.erased(page.into_iter().map(|one| one.raw).collect()).await?;
        }
    }

    /// Takes records out of a segment; false when another machine has it.
    async fn erase_from(&self, segment: &str, gone: &[Erasure]) -> Result<bool, RawError> {
        let (archive, places) = (Arc::clone(&self.archive), places(gone));
        if self.reader.is_here(segment) {
            self.part(segment, gone).await?;
        }
        let here = blocking(move || {
            places.iter().try_fold(false, |here, raw| Ok(archive.erase(raw)? || here))
        });
        let here = here.await?;
        let Some(remote) = self.reader.remote() else { return Ok(here || !self.shared) };
        if remote.size(segment).await?.is_none() {
            return Ok(here || !self.shared);
        }
        if here {
            remote.replace(self.reader.dir(), segment).await?;
            return Ok(true);
        }
        // Whoever wrote it may still have it, and then does it there and here.
        let local = begun(segment).map(|at| at.after(self.terms.keep_local));
        if self.shared && local.is_some_and(|until| until > self.clock.now()) {
            return Ok(false);
        }
        self.part(segment, gone).await?;
        self.erase_there(remote, segment, gone).await?;
        Ok(true)
    }

    /// Brings a segment here, takes the records out, and puts it back.
    async fn erase_there(
        &self,
        remote: &Remote,
        segment: &str,
        gone: &[Erasure],
    ) -> Result<(), RawError> {
        let dir = self.reader.dir().join("erase.partial");
        let failed = |error| ArchiveError::Io { path: dir.display().to_string(), source: error };
        crate::db::private::make_dir(&dir).map_err(failed)?;
        let mut fetched = Carried { missing: vec![segment.to_owned()], ..Carried::default() };
        fetched.fetch(remote, &dir).await?;
        let (now, places, place) = (self.clock.now(), places(gone), dir.clone());
        blocking(move || {
            places.iter().try_for_each(|raw| archive::erase(&place, raw, now).map(drop))
        })
        .await?;
        remote.replace(&dir, segment).await?;
        std::fs::remove_dir_all(&dir).map_err(failed)?;
        Ok(())
    }

    /// Gives those a payload of their own who only refer to one that goes.
    async fn part(&self, segment: &str, gone: &[Erasure]) -> Result<(), RawError> {
        let bodies: HashSet<&str> =
            gone.iter().filter_map(|one| one.body_sha256.as_deref()).collect();
        let offsets: HashSet<u64> = gone.iter().map(|one| one.raw.offset).collect();
        let filter = FetchFilter {
            segment: Some(segment.to_owned()),
            limit: usize::MAX,
            ..FetchFilter::default()
        };
        let mut alike = self.store.find_fetches(filter).await?;
        alike.retain(|it| it.body_sha256.as_deref().is_some_and(|body| bodies.contains(body)));
        let relies =
            |place: Option<(u64, u64)>| place.is_some_and(|(offset, _)| offsets.contains(&offset));
        let moved = self.copy(segment, alike, |it| relies(it.fields.payload_place())).await?;
        if !moved.is_empty() {
            let archive = Arc::clone(&self.archive);
            blocking(move || archive.sync()).await?;
            self.store.move_raw(moved).await?;
        }
        Ok(())
    }
}

fn places(gone: &[Erasure]) -> Vec<RawRef> {
    gone.iter().map(|one| one.raw.clone()).collect()
}
