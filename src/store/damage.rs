//! Damaged rows: what a row holds is not what was written to it.
//!
//! Rows that carry a document have a checksum of it. A row that fails it, or cannot be read at all, is
//! told by its id and left out, so that it holds nothing else up: sinks make a dead letter of its
//! events, an export skips it, `doctor` lists it. Reading the archived bytes again restores it.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::db::DbError;
use crate::model::{Event, named};

/// The code of dead letters that are there because a row is damaged.
pub const ROW_DAMAGED: &str = "row_damaged";

named! {
    /// The tables whose rows are checked.
    pub enum DamagedTable {
        /// Articles and their texts.
        Article = 0 "article",
        /// Entries of feeds.
        Entry = 1 "entry",
        /// The log.
        Event = 2 "event",
        /// Forms of articles that another one followed.
        Revision = 3 "article revision",
        /// Sources.
        Source = 4 "source",
        /// Requests and where their answers are in the archive.
        Fetch = 5 "fetch",
        /// The frontier.
        Task = 6 "task",
    }
}

impl DamagedTable {
    /// What an operator can do about a damaged or missing row of this table.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Article | Self::Entry => "`feedmill replay` restores it from the archive",
            Self::Source | Self::Task => "`feedmill restore` brings it back from a backup",
            Self::Event | Self::Revision | Self::Fetch => "it cannot be restored",
        }
    }
}

/// A row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedRow {
    /// Where it is.
    pub table: DamagedTable,
    /// Its id, as commands and the API take it.
    pub id: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for DamagedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} is damaged: {}", self.table, self.id, self.reason)
    }
}

/// An event whose row is damaged.
#[derive(Clone, Debug, PartialEq)]
pub struct DamagedEvent {
    /// Its place.
    pub seq: i64,
    /// What is wrong with it.
    pub reason: String,
    /// What can be read of it: all but its payload.
    pub left: Option<Box<Event>>,
}

/// Why a row cannot be read, and what can be read of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Damage<T> {
    pub(super) reason: String,
    /// Everything but the document that it carries.
    pub(super) left: Option<T>,
}

impl<T> Damage<T> {
    pub(super) fn error(&self, what: &'static str) -> DbError {
        DbError::Corrupt { what, value: self.reason.clone() }
    }
}

/// A row as it was read, or what is wrong with it.
pub(super) type Checked<T> = Result<T, Damage<T>>;

/// Tells damage of one row, which is an answer, from failures of the database.
pub(super) fn checked<T>(
    read: Result<T, DbError>,
    left: impl FnOnce() -> Option<T>,
) -> Result<Checked<T>, DbError> {
    match read {
        Ok(row) => Ok(Ok(row)),
        Err(DbError::Corrupt { value, .. }) => Ok(Err(Damage { reason: value, left: left() })),
        Err(error) => Err(error),
    }
}

/// A row, or why it cannot be read: also when the page of the database that it is on is damaged.
pub(super) fn readable<T>(
    found: Result<Option<Checked<T>>, DbError>,
) -> Result<Option<Result<T, String>>, DbError> {
    match found {
        Ok(found) => Ok(found.map(|row| row.map_err(|damage| damage.reason))),
        Err(DbError::Corrupt { value, .. }) => Ok(Some(Err(value))),
        Err(error) => Err(error),
    }
}

/// What a row holds beside its document that says what the document is. It never changes without it.
pub(super) struct Beside(Vec<u8>);

impl Beside {
    /// Nothing.
    pub(super) const NOTHING: Self = Self(Vec::new());

    /// Of an entry or an article.
    pub(super) fn document(id: &[u8], content_hash: &[u8], published: Option<i64>) -> Self {
        let published = published.map_or(Vec::new(), |ms| ms.to_be_bytes().to_vec());
        Self::of(&[id, content_hash, &published])
    }

    /// Of an event.
    pub(super) fn event(at: i64, kind: i64, subject: &str) -> Self {
        Self::of(&[&at.to_be_bytes(), &kind.to_be_bytes(), subject.as_bytes()])
    }

    /// Parts cannot be taken for each other: each begins with its length.
    fn of(parts: &[&[u8]]) -> Self {
        let part = |part: &&[u8]| [&(part.len() as u64).to_be_bytes(), *part].concat();
        Self(parts.iter().flat_map(part).collect())
    }
}

/// The checksum of what a row holds: 64 bits of its SHA-256.
pub(super) fn checksum(document: &[&[u8]], beside: &Beside) -> i64 {
    let mut hash = Sha256::new();
    for part in document {
        hash.update(part);
    }
    if !beside.0.is_empty() {
        let document = hash.finalize_reset();
        hash.update(document);
        hash.update(&beside.0);
    }
    let digest: [u8; 32] = hash.finalize().into();
    i64::from_be_bytes(*digest.first_chunk().unwrap_or(&[0; 8]))
}

/// Fails when what a row holds is not what its checksum is of. An earlier version's is of the document
/// alone, and rows without one are older still.
pub(super) fn check(
    what: &'static str,
    document: &[&[u8]],
    beside: &Beside,
    expected: Option<i64>,
) -> Result<(), DbError> {
    let Some(expected) = expected else { return Ok(()) };
    let is_it = |beside| checksum(document, beside) == expected;
    if is_it(beside) || is_it(&Beside::NOTHING) {
        return Ok(());
    }
    Err(DbError::Corrupt { what, value: "its checksum is wrong".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_noticed_and_rows_without_a_checksum_pass() {
        let none = &Beside::NOTHING;
        let sum = checksum(&[b"body"], none);
        assert!(check("row", &[b"body"], none, Some(sum)).is_ok());
        assert!(check("row", &[b"bo", b"dy"], none, Some(sum)).is_ok());
        assert!(check("row", &[b"bodx"], none, Some(sum)).is_err());
        assert!(check("row", &[b"bodx"], none, None).is_ok());
    }

    #[test]
    fn a_changed_column_beside_the_document_is_noticed_and_older_checksums_hold() {
        let beside = Beside::event(1, 2, "subject");
        let sum = Some(checksum(&[b"body"], &beside));
        assert!(check("row", &[b"body"], &beside, sum).is_ok());
        assert!(check("row", &[b"bodx"], &beside, sum).is_err());
        for other in [
            Beside::event(2, 2, "subject"),
            Beside::event(1, 3, "subject"),
            Beside::event(1, 2, "subjecu"),
            Beside::document(b"1", b"2", None),
        ] {
            assert!(check("row", &[b"body"], &other, sum).is_err());
        }
        let older = Some(checksum(&[b"body"], &Beside::NOTHING));
        assert!(check("row", &[b"body"], &beside, older).is_ok());
        let dated = |published| Beside::document(b"1", b"2", published);
        let sum = Some(checksum(&[b"body"], &dated(None)));
        assert!(check("row", &[b"body"], &dated(Some(0)), sum).is_err());
    }

    #[test]
    fn damage_is_an_answer_and_a_failure_is_none() {
        let corrupt = DbError::Corrupt { what: "row", value: "why".into() };
        let damage = Damage { reason: "why".to_owned(), left: Some(7) };
        assert_eq!(checked(Err(corrupt), || Some(7)).unwrap(), Err(damage));
        assert_eq!(checked(Ok(1), || None).unwrap(), Ok(1));
        assert!(checked::<i64>(Err(DbError::Busy), || None).is_err());
    }
}
