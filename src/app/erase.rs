//! Takes records out of the archive that were taken down: here, and in the bucket.
//!
//! The index forgot them before; a row says what is still to be done until it is done.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::PathBuf;
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
                self.tidy()?;
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

    /// Takes records out of a segment; false when that has to wait, or another machine has it.
    async fn erase_from(&self, segment: &str, gone: &[Erasure]) -> Result<bool, RawError> {
        // Of each, so that all are forgotten now.
        let free: Vec<bool> = gone.iter().map(|one| self.archive.forget(&one.raw)).collect();
        if free.contains(&false) {
            return Ok(false);
        }
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

    /// Where segments of the bucket are worked on.
    fn bench(&self) -> PathBuf {
        self.reader.dir().join("erase.partial")
    }

    /// Removes what a crash left there.
    fn tidy(&self) -> Result<(), ArchiveError> {
        let dir = self.bench();
        match std::fs::remove_dir_all(&dir) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ArchiveError::Io { path: dir.display().to_string(), source })
            }
            _ => Ok(()),
        }
    }

    /// Brings a segment here, takes the records out, and puts it back.
    async fn erase_there(
        &self,
        remote: &Remote,
        segment: &str,
        gone: &[Erasure],
    ) -> Result<(), RawError> {
        let dir = self.bench();
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
        Ok(self.tidy()?)
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
        self.move_raw(moved).await
    }
}

fn places(gone: &[Erasure]) -> Vec<RawRef> {
    gone.iter().map(|one| one.raw.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use feedmill_formats::url::UrlHash;
    use rusqlite::Connection;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::app::{archive_settings, rules};
    use crate::archive::Archive;
    use crate::clock::Clock;
    use crate::config::Config;
    use crate::db::Db;
    use crate::model::{Exchange, Headers, Ts, new_uuid};
    use crate::store::SqliteStore;

    fn page(path: &str) -> Exchange {
        let began = Ts::from_ms(1_800_000_000_000);
        Exchange {
            id: new_uuid(began),
            url: format!("https://example.com/{path}"),
            request: Headers::default(),
            status: 200,
            reason: "OK".into(),
            headers: Headers::default(),
            body: "the same for both ".repeat(100).into(),
            truncated: None,
            remote: None,
            began,
            ended: began,
            elapsed: Duration::ZERO,
        }
    }

    fn hash(page: &Exchange) -> String {
        UrlHash::from_bytes(Sha256::digest(&page.body).into()).to_string()
    }

    /// Notes a fetch as its commit does.
    fn commit(conn: &Connection, page: &Exchange, raw: &RawRef) {
        let sql = "INSERT INTO fetch VALUES(?1, 1, 1, ?2, 200, 0, 1, 1, NULL, ?3, ?4, ?5, ?6)";
        let (offset, length) = (raw.offset as i64, raw.length as i64);
        let id = page.id.as_bytes().as_slice();
        conn.execute(sql, (id, &page.url, hash(page), &raw.segment, offset, length)).unwrap();
    }

    #[tokio::test]
    async fn a_revisit_on_its_way_keeps_the_payload_that_it_relies_on() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        let clock = Clock::manual(Ts::from_ms(1_800_000_000_000));
        let db = Db::open(&config.database_path()).unwrap();
        let store = Arc::new(SqliteStore::new(db, clock.clone(), rules(&config, &clock)));
        let conn = Connection::open(config.database_path()).unwrap();
        let archive = Arc::new(Archive::open(archive_settings(&config), clock.clone()).unwrap());
        let keeper = Keeper::new(&config, Arc::clone(&archive), store, clock).unwrap();
        let (gone, alike) = (page("gone"), page("alike"));
        let first = archive.append(&gone).unwrap();
        conn.execute(
            "INSERT INTO erasure VALUES(?1, ?2, ?3, ?4)",
            (&first.segment, first.offset as i64, first.length as i64, hash(&gone)),
        )
        .unwrap();

        let writer = archive.writer();
        let revisit = archive.append(&alike).unwrap();
        archive.sync().unwrap();
        let relies_on = keeper.reader.stored(&revisit).await.unwrap().fields.payload_place();
        assert_eq!(relies_on, Some((first.offset, first.length)));
        assert_eq!(keeper.erase().await.unwrap(), 0, "somebody may still need it");
        commit(&conn, &alike, &revisit);
        drop(writer);
        assert_eq!(keeper.erase().await.unwrap(), 1);
        assert!(keeper.reader.stored(&first).await.is_err(), "it is gone");
        let filter = FetchFilter { ids: vec![alike.id], limit: 1, ..FetchFilter::default() };
        let now = keeper.store.find_fetches(filter).await.unwrap().remove(0).raw.unwrap();
        assert_eq!(keeper.reader.stored(&now).await.unwrap().body, alike.body);
    }
}
