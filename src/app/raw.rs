//! What can be done with archived bytes: handed out as a WARC of their own, and checked, record by
//! record and against the index.
//!
//! Both only read, so both work beside a running engine.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use feedmill_formats::warc::{self, Digest, Member, Piece, RecordType};
use serde::Serialize;

use crate::archive::{self, Archive, ArchiveError, Reader};
use crate::db::DbError;
use crate::model::{FetchRecord, Ts};
use crate::sinks::permissions;
use crate::store::{FetchFilter, Store};

/// Fetches that are looked up at a time.
const PAGE: usize = 1_000;

/// Why nothing was exported, checked or pruned.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// What the application says.
    #[error(transparent)]
    App(#[from] super::AppError),
    /// An engine does it.
    #[error("{0}; it removes by itself what is no longer kept: --dry-run shows what that is")]
    Running(String),
    /// The name is taken.
    #[error("{0} exists already: choose another name")]
    Exists(String),
    /// The system said no.
    #[error("cannot write {path}: {source}")]
    Io {
        /// Which file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
}

impl RawError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Db(error) => error.code(),
            Self::Archive(error) => error.code(),
            Self::App(error) => error.code(),
            Self::Running(_) => "engine_running",
            Self::Exists(_) => "exists",
            Self::Io { .. } => "unwritable",
        }
    }

    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { path: path.clone(), source }
    }
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Answers in the file.
    pub records: u64,
    /// Its size.
    pub bytes: u64,
    /// Answers that are no longer kept.
    pub gone: u64,
    /// Why others are not in it.
    pub unreadable: Vec<String>,
}

/// Writes answers and their requests to a WARC file that needs no other. It has its name once it is
/// whole.
pub async fn export(
    store: &dyn Store,
    reader: &Reader,
    filter: FetchFilter,
    (agent, now): (&str, Ts),
    (file, mode): (&Path, u32),
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<Exported, RawError> {
    if file.exists() {
        return Err(RawError::Exists(file.display().to_string()));
    }
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let info = archive::warcinfo(&name, agent, now);
    let written = write(store, reader, filter, &info, (partial, mode), watch).await;
    let done = written
        .and_then(|done| fs::rename(partial, file).map_err(RawError::io(file)).map(|()| done));
    if done.is_err() {
        // What is left of it is of no use; that it cannot be removed is not what went wrong.
        drop(fs::remove_file(partial));
    }
    done
}

async fn write(
    store: &dyn Store,
    reader: &Reader,
    mut filter: FetchFilter,
    info: &[u8],
    (partial, mode): (&Path, u32),
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<Exported, RawError> {
    let file = permissions::create(partial, mode).map_err(RawError::io(partial))?;
    let mut out = BufWriter::new(file);
    let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(RawError::io(partial));
    put(info)?;
    let mut done = Exported { bytes: info.len() as u64, ..Exported::default() };
    filter.limit = PAGE;
    loop {
        let page = store.find_fetches(filter.clone()).await?;
        let Some(last) = page.last() else { break };
        filter.after = Some(last.id);
        for fetch in page.iter().filter(|fetch| fetch.status.is_some()) {
            let Some(raw) = &fetch.raw else {
                done.gone += 1;
                continue;
            };
            match reader.stored(raw).await {
                Ok(stored) => {
                    let (answer, request) = &stored.members;
                    put(answer)?;
                    put(request)?;
                    done.records += 1;
                    done.bytes += (answer.len() + request.len()) as u64;
                }
                Err(error) => done.unreadable.push(error.to_string()),
            }
            watch(done.records);
        }
    }
    let out = out.into_inner().map_err(|error| RawError::io(partial)(error.into_error()))?;
    out.sync_all().map_err(RawError::io(partial))?;
    Ok(done)
}

/// What was found in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Segments read.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Fetches that lead to their record.
    pub fetches: u64,
    /// Answers that no fetch leads to: written before a crash, and harmless.
    pub unindexed: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Something that is wrong with a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Which segment.
    pub segment: String,
    /// Where in it.
    pub offset: Option<u64>,
    /// What kind of trouble: `missing`, `damaged`, `digest`, `revisit` or `index`.
    pub code: &'static str,
    /// What it is.
    pub detail: String,
}

/// Reads segments from their first byte to the last, all or one, and compares them with the index.
pub async fn verify(
    store: &dyn Store,
    reader: &Reader,
    only: Option<&str>,
    watch: &mut (dyn FnMut(&str, u64) + Send),
) -> Result<Verified, RawError> {
    let mut names: BTreeSet<String> =
        Archive::closed(reader.dir())?.into_iter().map(|(name, _)| name).collect();
    if let Some(remote) = reader.remote() {
        names.extend(remote.list().await?.into_iter().map(|(name, _)| name));
    }
    names.extend(store.segments().await?.into_iter().map(|used| used.segment));
    let mut sum = Verified::default();
    for segment in names.iter().filter(|name| only.is_none_or(|only| only == name.as_str())) {
        watch(segment, sum.records);
        let rows = rows_of(store, segment).await?;
        let file = match reader.open(segment).await {
            Ok(file) => file,
            // It may have been removed since, with its rows.
            Err(ArchiveError::Missing { .. }) if rows_of(store, segment).await?.is_empty() => {
                continue;
            }
            Err(error @ ArchiveError::Missing { .. }) => {
                let detail = format!("{error}; {} fetches refer to it", rows.len());
                sum.problems.push(problem(segment, None, "missing", detail));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let open = !reader.dir().join(segment).exists() && reader.is_open(segment);
        let limit = reader.max_record();
        let (name, walked) = (segment.clone(), move || walk(file, limit));
        let walked = tokio::task::spawn_blocking(walked).await;
        let (members, gaps) = walked.map_err(|error| DbError::Engine(error.to_string()))?;
        sum.segments += 1;
        sum.records += members.len() as u64;
        let end = members.last().map_or(0, |last| last.offset + last.length);
        // The end of a segment that is being written may be half a record.
        for (offset, error) in gaps.into_iter().filter(|(offset, _)| !open || *offset < end) {
            sum.problems.push(problem(&name, Some(offset), "damaged", error));
        }
        compare(&name, &rows, &members, &mut sum);
    }
    Ok(sum)
}

fn problem(
    segment: &str,
    offset: Option<u64>,
    code: &'static str,
    detail: impl Into<String>,
) -> Problem {
    Problem { segment: segment.to_owned(), offset, code, detail: detail.into() }
}

async fn rows_of(store: &dyn Store, segment: &str) -> Result<Vec<FetchRecord>, DbError> {
    let segment = Some(segment.to_owned());
    store.find_fetches(FetchFilter { segment, limit: usize::MAX, ..FetchFilter::default() }).await
}

/// All whole records of a segment, and where there is something else.
fn walk(file: File, limit: u64) -> (Vec<Member>, Vec<(u64, String)>) {
    let (mut members, mut gaps) = (Vec::<Member>::new(), Vec::new());
    for piece in warc::pieces(file, limit) {
        match piece {
            Ok(Piece::Record(member)) => members.push(member),
            Ok(Piece::Gap { offset, error }) => gaps.push((offset, error.to_string())),
            Err(error) => {
                let end = members.last().map_or(0, |last| last.offset + last.length);
                gaps.push((end, error.to_string()));
            }
        }
    }
    (members, gaps)
}

/// Both ways: every record is what it says, and every fetch leads to its own.
fn compare(segment: &str, rows: &[FetchRecord], members: &[Member], sum: &mut Verified) {
    let by_offset: HashMap<u64, &Member> =
        members.iter().map(|member| (member.offset, member)).collect();
    let mut wrong = |offset, code, detail: &str| {
        sum.problems.push(problem(segment, Some(offset), code, detail));
    };
    for member in members {
        if !member.intact {
            wrong(member.offset, "digest", "the record is not what its digest says");
        }
        if member.fields.kind() == Some(RecordType::Revisit) && !leads_back(member, &by_offset) {
            wrong(member.offset, "revisit", "the payload that it refers to is not there");
        }
    }
    let is_answer = |member: &Member| {
        matches!(member.fields.kind(), Some(RecordType::Response | RecordType::Revisit))
    };
    let mut led = 0;
    for (row, raw) in rows.iter().filter_map(|row| Some((row, row.raw.as_ref()?))) {
        let id = format!("<urn:uuid:{}>", row.id);
        let found = by_offset.get(&raw.offset).filter(|member| {
            member.length == raw.length && member.fields.id() == Some(&id) && is_answer(member)
        });
        match found {
            Some(_) => led += 1,
            None => wrong(raw.offset, "index", &format!("fetch {} is not there", row.id)),
        }
    }
    sum.fetches += led;
    let answers = members.iter().filter(|member| is_answer(member)).count() as u64;
    sum.unindexed += answers.saturating_sub(led);
}

fn leads_back(revisit: &Member, by_offset: &HashMap<u64, &Member>) -> bool {
    let digest = |member: &Member| -> Option<Digest> { member.fields.payload_digest() };
    let Some((offset, length)) = revisit.fields.payload_place() else { return false };
    by_offset.get(&offset).is_some_and(|earlier| {
        earlier.length == length
            && earlier.fields.id() == revisit.fields.get("WARC-Refers-To")
            && digest(earlier) == digest(revisit)
    })
}
