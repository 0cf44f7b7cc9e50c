//! Taking a list of sources in: what each row means, and bringing the new ones into the store.

use feedmill_formats::url::Url;
use futures_util::{StreamExt, stream};
use serde::Serialize;

use crate::model::{Admission, Ts};
use crate::sources::lists::{Format, List};
use crate::sources::plan::{Followed, Verdict};
use crate::store::{SourceError, Store};

/// Sources on their way into the store at a time; those that wait together share a transaction.
const ABREAST: usize = 256;
/// So many are polled at once; of a longer list, the others begin one after another.
const AT_ONCE: usize = 20;
/// Between the first polls of two of those, in milliseconds.
const APART: i64 = 50;

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

/// Sources to add, each with its place in the report.
pub type New = Vec<(usize, Admission)>;

/// What each row of a list means. `permit` has the last word on an address.
pub fn judge(
    list: List,
    followed: &mut Followed,
    permit: impl Fn(&Url) -> Result<(), String> + Copy,
) -> (Report, New) {
    let (mut rows, mut new) = (Vec::with_capacity(list.rows.len()), Vec::new());
    for row in list.rows {
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
            Err(reason) => {
                rows.push(refused(None, reason));
                continue;
            }
        };
        rows.push(match followed.judge(&entry, permit) {
            Verdict::Refused { address, reason, .. } => refused(address, reason),
            Verdict::Known { by, address } => {
                Row { line, result: "known", name: Some(by), address: Some(address), reason: None }
            }
            Verdict::Add { new: admission, instead_of } => {
                let name = Some(admission.spec.name.clone());
                new.push((rows.len(), *admission));
                let result = if instead_of.is_some() { "renamed" } else { "added" };
                let reason = instead_of.map(|title| format!("{title} is another source's name"));
                Row { line, result, name, address: None, reason }
            }
        });
    }
    let count = |result: &str| rows.iter().filter(|row| row.result == result).count() as u64;
    let report = Report {
        format: list.format,
        added: new.len() as u64,
        known: count("known"),
        refused: count("refused"),
        notes: list.notes,
        rows,
    };
    (report, new)
}

/// Lets the first polls of a long list begin one after another.
pub fn spread(new: &mut New, now: Ts) {
    for (at, (_, admission)) in new.iter_mut().enumerate().skip(AT_ONCE) {
        let after = i64::try_from(at).unwrap_or(i64::MAX).saturating_mul(APART);
        admission.first_poll = Some(Ts::from_ms(now.ms().saturating_add(after)));
    }
}

/// Brings sources into the store, each whole or not at all; `watch` is told how many are done.
pub async fn admit(
    store: &dyn Store,
    new: New,
    report: &mut Report,
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<(), SourceError> {
    let mut done = 0;
    let adding =
        new.into_iter().map(|(at, new)| async move { (at, store.admit_source(new).await) });
    let mut adding = stream::iter(adding).buffered(ABREAST);
    while let Some((at, added)) = adding.next().await {
        done += 1;
        watch(done);
        match added {
            Ok(_) => {}
            Err(SourceError::NameTaken(name)) => {
                report.added -= 1;
                report.refused += 1;
                if let Some(row) = report.rows.get_mut(at) {
                    let reason = format!("{name} was taken as a name meanwhile; import again");
                    (row.result, row.name, row.reason) = ("refused", None, Some(reason));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
