//! Requests that were made, newest first.

use crate::db::statement::{Cells, Terms};
use crate::db::{DbError, whole_rows};
use crate::model::{Code, FetchId, FetchRecord, RawRef, SourceId, TaskId, Ts};
use crate::store::Store;
use crate::store::raw::{first_id, from_index};

/// Which requests, and which part of them.
#[derive(Clone, Debug, Default)]
pub struct FetchQuery {
    /// For this task.
    pub task: Option<TaskId>,
    /// For tasks of this source.
    pub source: Option<SourceId>,
    /// For tasks of this host, or group of hosts.
    pub host: Option<String>,
    /// Made at or after this time.
    pub since: Option<Ts>,
    /// Made before this time.
    pub until: Option<Ts>,
    /// Only what comes after this one.
    pub after: Option<FetchId>,
    /// At most so many.
    pub limit: usize,
}

pub(super) const COLUMNS: &str = "f.id, f.task_id, f.at, f.url, f.status, f.code, f.bytes, f.elapsed_ms, \
    f.content_type, f.body_sha256, f.segment, f.\"offset\", f.length";

impl FetchQuery {
    /// What holds of a fetch `f`.
    pub(super) fn terms(&self, mut terms: Terms) -> Terms {
        if let Some(task) = self.task {
            let task = terms.int(task.0);
            terms.add(format!("f.task_id = {task}"));
        }
        if let Some(source) = self.source {
            let source = terms.int(source.0);
            terms.add(format!(
                "f.task_id IN (SELECT t.id FROM task t WHERE t.source_id = {source})"
            ));
        }
        if let Some(host) = &self.host {
            let host = terms.text(host);
            terms.add(format!(
                "f.task_id IN (SELECT t.id FROM task t WHERE t.host_id =
                   (SELECT h.id FROM host h WHERE h.name = {host} AND h.slot = 0))"
            ));
        }
        // Ids begin with the time.
        let bounds =
            [(">=", self.since.map(first_id)), ("<", self.until.map(first_id)), ("<", self.after)];
        for (sign, id) in bounds {
            if let Some(id) = id {
                let id = terms.bytes(id.as_bytes());
                terms.add(format!("f.id {sign} {id}"));
            }
        }
        terms
    }
}

pub(super) fn read(row: &Cells) -> Result<FetchRecord, DbError> {
    let raw = match row.maybe_text(10)? {
        Some(segment) => Some(RawRef {
            segment: segment.to_owned(),
            offset: row.narrow(11)?,
            length: row.narrow(12)?,
        }),
        None => None,
    };
    let code = row.int(5)?;
    let unknown = || DbError::Corrupt { what: "code", value: code.to_string() };
    Ok(FetchRecord {
        id: FetchId::from_bytes(row.bytes(0)?),
        task: from_index(row.int(1)?),
        at: Ts::from_ms(row.int(2)?),
        url: row.text(3)?.to_owned(),
        status: row.maybe_int(4)?.and_then(|status| u16::try_from(status).ok()),
        code: Code::from_number(code).ok_or_else(unknown)?,
        bytes: row.count(6)?,
        elapsed_ms: row.count(7)?,
        content_type: row.maybe_text(8)?.map(str::to_owned),
        body_sha256: row.maybe_text(9)?.map(str::to_owned),
        raw,
    })
}

/// Requests by query.
pub async fn fetches(store: &dyn Store, query: &FetchQuery) -> Result<Vec<FetchRecord>, DbError> {
    let terms = query.terms(Terms::new(store.dialect()));
    let sql = format!(
        "SELECT {COLUMNS} FROM \"fetch\" f WHERE {} ORDER BY f.id DESC LIMIT {}",
        terms.sql(),
        i64::try_from(query.limit).unwrap_or(i64::MAX)
    );
    whole_rows("fetch", store.select(terms.statement(sql)).await?.iter().map(read))
}
