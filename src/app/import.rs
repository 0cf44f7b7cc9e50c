//! Taking a list of sources in: what each row means, and bringing the new ones into the store.

use std::time::{Duration, Instant};

use bytes::Bytes;
use feedmill_formats::url::Url;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::model::{Admission, Ts};
use crate::sources::lists::{self, Format, ListError, ListText};
use crate::sources::plan::{Followed, Verdict};
use crate::store::{SourceError, Store};

/// Sources on their way into the store at a time; those that wait together share a transaction.
const ABREAST: usize = 256;
/// Batches of rows between the thread that reads and the store.
const BATCHES: usize = 2;
/// So many are polled at once; of a longer list, the others begin one after another.
const AT_ONCE: i64 = 20;
/// Between the first polls of two of those, in milliseconds.
const APART: i64 = 50;

/// How long checking the patterns of a list may take: many rows, each as costly as a source may be, would keep
/// a core busy for hours.
const PATTERN_TIME: Duration = Duration::from_secs(20);
const OUT_OF_PATTERN_TIME: &str =
    "the patterns of the rows before took too long to check: bring this row in with another list";

/// What became of a row.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its line in the list.
    pub line: u64,
    /// added, renamed, known or refused.
    pub result: &'static str,
    /// The source that was added, or has it already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The address that it is about.
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Why not, or why otherwise.
    pub reason: Option<String>,
}

/// What became of a list.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How it is written.
    pub format: Format,
    /// Sources that are new.
    pub added: u64,
    /// Rows that are followed already.
    pub known: u64,
    /// Rows that cannot be followed.
    pub refused: u64,
    /// What of the list means nothing here.
    pub notes: Vec<String>,
    /// Row by row.
    pub rows: Vec<Row>,
}

impl Report {
    fn new(format: Format) -> Self {
        Self { format, added: 0, known: 0, refused: 0, notes: Vec::new(), rows: Vec::new() }
    }

    /// Counts a row, and keeps it as long as there is room.
    fn add(&mut self, row: Row, room: usize) {
        match row.result {
            "refused" => self.refused += 1,
            "known" => self.known += 1,
            _ => self.added += 1,
        }
        if self.rows.len() < room {
            self.rows.push(row);
        }
    }
}

/// Why a list could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read; nothing was added.
    #[error(transparent)]
    List(#[from] ListError),
    /// A source could not be stored; those before it were.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The thread that reads the list ended.
    #[error("the list could not be read to its end: import it again")]
    Reader,
}

/// How a list is taken in.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions {
    /// How it is written; `None` for what it looks like.
    pub format: Option<Format>,
    /// Stores nothing.
    pub dry_run: bool,
    /// Rows of the report; those beyond are only counted.
    pub max_rows: usize,
    /// Now, for the time of the first polls.
    pub now: Ts,
}

/// The decision about a row, and the source to add.
type Judged = (Row, Option<Box<Admission>>);

/// What the reading thread sends.
enum Sent {
    Format(Format),
    Rows(Vec<Judged>),
    Notes(Vec<String>),
}

/// Takes a list in.
///
/// It is checked whole, then read row by row on a thread of its own; no more than a few
/// batches of rows are in memory at a time. `permit` has the last word on an address, `watch` gets the
/// number of sources that are stored.
pub async fn import(
    store: &dyn Store,
    body: Bytes,
    followed: Followed,
    permit: impl Fn(&Url) -> Result<(), String> + Send + 'static,
    options: ImportOptions,
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<Report, ImportError> {
    let (sender, mut batches) = mpsc::channel(BATCHES);
    let format = options.format;
    let reading =
        tokio::task::spawn_blocking(move || read(&body, format, followed, permit, &sender));
    let mut report = Report::new(Format::Urls);
    let mut spread = Spread { now: options.now, count: 0 };
    while let Some(sent) = batches.recv().await {
        match sent {
            Sent::Format(format) => report.format = format,
            Sent::Notes(notes) => report.notes = notes,
            Sent::Rows(rows) if options.dry_run => {
                rows.into_iter().for_each(|(row, _)| report.add(row, options.max_rows));
            }
            Sent::Rows(rows) => {
                admit(store, rows, &mut report, &mut spread, options.max_rows).await?;
                watch(report.added);
            }
        }
    }
    reading.await.map_err(|_| ImportError::Reader)??;
    Ok(report)
}

/// Reads a list and decides about its rows.
fn read(
    body: &[u8],
    format: Option<Format>,
    mut followed: Followed,
    permit: impl Fn(&Url) -> Result<(), String>,
    sender: &mpsc::Sender<Sent>,
) -> Result<(), ListError> {
    let list = ListText::open(body, format)?;
    let mut is_heard = sender.blocking_send(Sent::Format(list.format)).is_ok();
    let mut batch = Vec::with_capacity(ABREAST);
    let mut pattern_time = PATTERN_TIME;
    let notes = list.each(&mut |row| {
        is_heard &= !sender.is_closed();
        batch.push(judge(row, &mut followed, &permit, &mut pattern_time));
        if batch.len() >= ABREAST {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(ABREAST));
            is_heard &= sender.blocking_send(Sent::Rows(full)).is_ok();
        }
        is_heard
    })?;
    // Whoever no longer listens has failed before, and says so.
    drop(sender.blocking_send(Sent::Rows(batch)));
    drop(sender.blocking_send(Sent::Notes(notes)));
    Ok(())
}

/// What a row of a list means. `permit` has the last word on an address. Checking patterns takes from what is
/// left of `pattern_time`.
fn judge(
    row: lists::Row,
    followed: &mut Followed,
    permit: impl Fn(&Url) -> Result<(), String>,
    pattern_time: &mut Duration,
) -> Judged {
    let line = row.line;
    let refused = |address, reason| Row {
        line,
        result: "refused",
        name: None,
        address,
        reason: Some(reason),
    };
    let entry = match row.entry {
        Ok(entry) => entry,
        Err(reason) => return (refused(None, reason), None),
    };
    let has_patterns = entry.has_patterns();
    if has_patterns && pattern_time.is_zero() {
        return (refused(None, OUT_OF_PATTERN_TIME.to_owned()), None);
    }
    let began = Instant::now();
    let verdict = followed.judge(&entry, permit);
    if has_patterns {
        *pattern_time = pattern_time.saturating_sub(began.elapsed());
    }
    match verdict {
        Verdict::Refused { address, reason, .. } => (refused(address, reason), None),
        Verdict::Known { by, address } => {
            let (name, address) = (Some(by), Some(address));
            (Row { line, result: "known", name, address, reason: None }, None)
        }
        Verdict::Add { new, instead_of } => {
            let name = Some(new.spec.name.clone());
            let result = if instead_of.is_some() { "renamed" } else { "added" };
            let reason = instead_of.map(|title| format!("{title} is another source's name"));
            (Row { line, result, name, address: None, reason }, Some(new))
        }
    }
}

/// Lets the first polls of a long list begin one after another.
struct Spread {
    now: Ts,
    count: i64,
}

impl Spread {
    fn set(&mut self, admission: &mut Admission) {
        if self.count >= AT_ONCE {
            let after = self.count.saturating_mul(APART);
            admission.first_poll = Some(Ts::from_ms(self.now.ms().saturating_add(after)));
        }
        self.count += 1;
    }
}

/// Brings the new sources of a batch into the store, each whole or not at all.
async fn admit(
    store: &dyn Store,
    rows: Vec<Judged>,
    report: &mut Report,
    spread: &mut Spread,
    max_rows: usize,
) -> Result<(), SourceError> {
    let adding = rows.into_iter().map(|(row, mut new)| {
        new.iter_mut().for_each(|new| spread.set(new));
        async move {
            let added = match new {
                Some(new) => store.admit_source(*new).await.map(drop),
                None => Ok(()),
            };
            (row, added)
        }
    });
    let mut adding = stream::iter(adding).buffered(ABREAST);
    while let Some((mut row, added)) = adding.next().await {
        match added {
            Ok(()) => {}
            Err(SourceError::NameTaken(name)) => {
                let reason = format!("{name} was taken as a name meanwhile; import again");
                (row.result, row.name, row.reason) = ("refused", None, Some(reason));
            }
            Err(error) => return Err(error),
        }
        report.add(row, max_rows);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use feedmill_formats::url::KeyRules;

    use super::*;

    #[test]
    fn rows_with_patterns_are_refused_once_their_time_is_up() {
        let list =
            r#"[{"url": "https://a.test/", "patterns": ["/a/"]}, {"url": "https://b.test/"}]"#;
        let judged = |mut time: Duration| {
            let mut followed = Followed::of(&[], KeyRules::default());
            let rows = lists::read(list.as_bytes(), None).unwrap().rows.into_iter();
            let rows = rows.map(|row| judge(row, &mut followed, |_| Ok(()), &mut time).0);
            let results: Vec<_> = rows.map(|row| (row.result, row.reason)).collect();
            (results, time)
        };
        let (results, left) = judged(PATTERN_TIME);
        assert_eq!(results, [("added", None), ("added", None)]);
        assert!(left < PATTERN_TIME, "it is counted");
        let refused = ("refused", Some(OUT_OF_PATTERN_TIME.to_owned()));
        assert_eq!(judged(Duration::ZERO).0, [refused, ("added", None)]);
    }
}
