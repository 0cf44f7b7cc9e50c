//! Where the archived responses are, in the order in which they came.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use feedmill_formats::warc::{self, Piece, RecordType};

use super::RebuildError;
use crate::archive::{ArchiveError, Reader, begun};
use crate::db::DbError;
use crate::model::{FetchId, Kind, RawRef, Ts};

/// One response in a segment.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) id: FetchId,
    /// When it was asked for.
    pub(super) at: Ts,
    /// When its turn comes: never before what stands in front of it in its segment, unless it was
    /// copied there from an older one.
    pub(super) when: Ts,
    /// What it was asked for as, where that was written down.
    pub(super) kind: Option<Kind>,
    segment: u32,
    offset: u64,
    length: u64,
    url: u64,
}

/// All responses.
#[derive(Debug, Default)]
pub(super) struct Index {
    segments: Vec<String>,
    places: Vec<Place>,
    by_url: HashMap<u64, Vec<usize>>,
}

fn hash(url: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    url.hash(&mut hasher);
    hasher.finish()
}

impl Index {
    /// Reads the segments through; also what cannot be read in them, and why.
    pub(super) async fn read(
        reader: &Reader,
        names: &[String],
    ) -> Result<(Self, Vec<String>), RebuildError> {
        let (mut index, mut unreadable) = (Self::default(), Vec::new());
        for (number, name) in names.iter().enumerate() {
            let file = match reader.open(name).await {
                Ok(file) => file,
                Err(error @ (ArchiveError::Missing { .. } | ArchiveError::Io { .. })) => {
                    unreadable.push(error.to_string());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let (limit, number) = (reader.max_record(), u32::try_from(number).unwrap_or(u32::MAX));
            let segment = name.clone();
            let read = move || places(file, &segment, number, limit);
            let read = tokio::task::spawn_blocking(read).await;
            let (places, gaps) = read.map_err(|error| DbError::Engine(error.to_string()))?;
            index.places.extend(places);
            unreadable.extend(gaps);
        }
        index.segments = names.to_vec();
        index.places.sort_by_key(|place| place.when);
        for (at, place) in index.places.iter().enumerate() {
            index.by_url.entry(place.url).or_default().push(at);
        }
        Ok((index, unreadable))
    }

    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    /// When the first response came.
    pub(super) fn first(&self) -> Option<Ts> {
        self.places.first().map(|place| place.when.min(place.at))
    }

    pub(super) fn get(&self, at: usize) -> Option<(Place, RawRef)> {
        let place = self.places.get(at)?;
        let segment = self.segments.get(usize::try_from(place.segment).ok()?)?.clone();
        let raw = RawRef { segment, offset: place.offset, length: place.length };
        Some((place.clone(), raw))
    }

    /// The next responses of an address after a place.
    pub(super) fn after(&self, at: usize, url: &str) -> impl Iterator<Item = usize> + use<'_> {
        let all = self.by_url.get(&hash(url)).into_iter().flatten();
        all.copied().filter(move |one| *one > at)
    }
}

/// The responses of a segment, and what is none and cannot be read.
fn places(file: std::fs::File, name: &str, segment: u32, limit: u64) -> (Vec<Place>, Vec<String>) {
    let (mut places, mut gaps) = (Vec::new(), Vec::new());
    let begun = begun(name).unwrap_or(Ts::from_ms(0));
    let mut last = begun;
    for piece in warc::pieces(file, limit) {
        let member = match piece {
            Ok(Piece::Record(member)) => member,
            Ok(Piece::Gap { offset, error }) => {
                gaps.push(format!("archive {name} at {offset}: {error}"));
                continue;
            }
            Err(error) => {
                gaps.push(format!("archive {name}: {error}"));
                break;
            }
        };
        let fields = &member.fields;
        let is_response = matches!(fields.kind(), Some(RecordType::Response | RecordType::Revisit));
        let id = fields.id().and_then(|id| id.strip_prefix("<urn:uuid:")?.strip_suffix('>'));
        let (Some(id), Some(at), Some(url)) =
            (id.and_then(|id| id.parse().ok()), fields.date(), fields.target_uri())
        else {
            continue;
        };
        if !is_response {
            continue;
        }
        // A name tells whole seconds.
        let is_copy = at.ms() / 1_000 < begun.ms() / 1_000;
        let when = if is_copy { at } else { last.max(at) };
        last = last.max(when);
        let kind = fields.get(warc::TASK_KIND).and_then(|kind| kind.parse().ok());
        let (offset, length, url) = (member.offset, member.length, hash(url));
        places.push(Place { id, at, when, kind, segment, offset, length, url });
    }
    (places, gaps)
}
