//! Sources and their channels.

use std::collections::HashMap;

use super::Place;
use crate::db::statement::{Cells, Terms};
use crate::db::{DbError, whole, whole_rows};
use crate::model::{Code, Health, IngestionMode, Kind, Source, SourceId, Status, TaskId, Ts};
use crate::store::forms::{from_json, warnings};
use crate::store::{ChannelState, Store};

/// Which sources, and which part of them.
#[derive(Clone, Debug, Default)]
pub struct SourceQuery {
    /// With this in name or home page, in whatever case.
    pub search: Option<String>,
    /// In this category.
    pub category: Option<String>,
    /// With this tag.
    pub tag: Option<String>,
    /// Followed, or not.
    pub enabled: Option<bool>,
    /// Whose articles these producers look for.
    pub mode: Option<IngestionMode>,
    /// In the order in which they were added, instead of that of their names.
    pub by_age: bool,
    /// The last one first.
    pub descending: bool,
    /// Only those after this name, or this number when the order is that of age.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

pub(super) const COLUMNS: &str = "s.id, s.uuid, s.spec, s.enabled_at, s.disable_reason, s.created_at, s.disabled_at, s.name, s.url";

pub(super) fn read(row: &Cells) -> Result<Source, DbError> {
    let time = |at| row.maybe_int(at).map(|ms| ms.map(Ts::from_ms));
    Ok(Source {
        id: SourceId(row.int(0)?),
        uuid: row.text(1)?.to_owned(),
        spec: from_json("source", row.text(2)?)?,
        enabled_at: time(3)?,
        disable_reason: row.maybe_text(4)?.map(str::to_owned),
        created_at: Ts::from_ms(row.int(5)?),
        disabled_at: time(6)?,
    })
}

/// Sources by query. What people may write anywhere in a source is prepared by the statement and decided
/// here.
pub async fn sources(store: &dyn Store, query: &SourceQuery) -> Result<Vec<Source>, DbError> {
    let (mut found, mut after) = (Vec::new(), query.after.clone());
    loop {
        let window = query.limit.saturating_sub(found.len()).max(1);
        let rows = store.select(query.statement(store, after.as_deref(), window)).await?;
        let count = rows.len();
        for row in &rows {
            // The column that the order is of: what a damaged row says is not needed.
            let place = if query.by_age { row.int(0)?.to_string() } else { row.shown(7) };
            after = Some(place);
            let Some(source) = whole("source", read(row))? else { continue };
            let spec = &source.spec;
            if query.category.as_ref().is_none_or(|wanted| spec.category.as_ref() == Some(wanted))
                && query.tag.as_ref().is_none_or(|wanted| spec.tags.contains(wanted))
                && query.mode.is_none_or(|wanted| spec.ingestion_mode == wanted)
            {
                found.push(source);
            }
        }
        if count < window || found.len() >= query.limit {
            return Ok(found);
        }
    }
}

impl SourceQuery {
    fn statement(
        &self,
        store: &dyn Store,
        after: Option<&str>,
        window: usize,
    ) -> crate::db::statement::Statement {
        let mut terms = Terms::new(store.dialect());
        if let Some(search) = &self.search {
            terms.holds("(s.name || ' ' || s.url)", search);
        }
        let json = |text: &str| serde_json::Value::from(text).to_string();
        if let Some(category) = &self.category {
            terms.holds("s.spec", &format!("\"category\":{}", json(category)));
        }
        if let Some(tag) = &self.tag {
            terms.holds("s.spec", &json(tag));
        }
        if let Some(mode) = self.mode {
            terms.holds("s.spec", &format!("\"ingestion_mode\":\"{mode}\""));
        }
        if let Some(enabled) = self.enabled {
            terms.add(format!("s.enabled_at IS {}NULL", if enabled { "NOT " } else { "" }));
        }
        let (beyond, direction) = if self.descending { ('<', "DESC") } else { ('>', "ASC") };
        let column = if self.by_age { "s.id" } else { "s.name" };
        if let Some(after) = after {
            let mark = match self.by_age {
                true => terms.int(after.parse().unwrap_or(0)),
                false => terms.text(after),
            };
            terms.add(format!("{column} {beyond} {mark}"));
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM source s WHERE {} ORDER BY {column} {direction} LIMIT {}",
            terms.sql(),
            i64::try_from(window).unwrap_or(i64::MAX)
        );
        terms.statement(sql)
    }
}

/// The sources in these rows.
pub async fn by_ids(
    store: &dyn Store,
    ids: &[SourceId],
) -> Result<HashMap<SourceId, Source>, DbError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut terms = Terms::new(store.dialect());
    terms.among("s.id", ids.iter().map(|id| id.0));
    let sql = format!("SELECT {COLUMNS} FROM source s WHERE {}", terms.sql());
    let rows = store.select(terms.statement(sql)).await?;
    whole_rows("source", rows.iter().map(|row| read(row).map(|source| (source.id, source))))
}

/// Which channels, and which part of them.
#[derive(Clone, Debug, Default)]
pub struct ChannelQuery {
    /// Of these sources, when there are any.
    pub sources: Vec<SourceId>,
    /// This one.
    pub id: Option<TaskId>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// That do like this.
    pub health: Option<Health>,
    /// With this in address or title, in whatever case.
    pub search: Option<String>,
    /// Only what comes after this place: source and task.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: usize,
}

/// A channel as those see it who look at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// How it does.
    pub state: ChannelState,
    /// Its task.
    pub task: TaskId,
    /// Its source's name.
    pub source: String,
    /// Its source's public id.
    pub source_id: String,
    /// What it calls itself.
    pub title: Option<String>,
    /// The time between two polls that was chosen last.
    pub interval_ms: Option<u64>,
    /// Items of its last document that were new.
    pub new_items: u64,
}

impl Channel {
    /// Its place in a list.
    #[must_use]
    pub const fn place(&self) -> Place {
        Place { key: self.state.source.0, row: self.task.0 }
    }
}

/// Channels by query, source by source.
pub async fn channels(store: &dyn Store, query: &ChannelQuery) -> Result<Vec<Channel>, DbError> {
    let mut terms = Terms::new(store.dialect());
    let [feed, sitemap, listing] = [Kind::Feed, Kind::Sitemap, Kind::Listing].map(Kind::number);
    terms.add("t.lane = 0 AND t.source_id > 0");
    terms.add(format!("t.kind IN ({feed}, {sitemap}, {listing})"));
    terms.add(format!("NOT (t.kind = {listing} AND t.depth > 0)"));
    if !query.sources.is_empty() {
        terms.among("t.source_id", query.sources.iter().map(|id| id.0));
    }
    if let Some(id) = query.id {
        let id = terms.int(id.0);
        terms.add(format!("t.id = {id}"));
    }
    if let Some(kind) = query.kind {
        terms.add(format!("t.kind = {}", kind.number()));
    }
    if let Some(health) = query.health {
        terms.add(format!("coalesce(f.health, 0) = {} AND t.fetch_count > 0", health.number()));
    }
    if let Some(search) = &query.search {
        terms.holds("(t.url || ' ' || coalesce(f.title, ''))", search);
    }
    if let Some(place) = query.after {
        let (key, row) = (terms.int(place.key), terms.int(place.row));
        terms.add(format!("(t.source_id, t.id) > ({key}, {row})"));
    }
    let sql = format!(
        "SELECT t.id, t.kind, t.url, t.due,
           CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END, f.last_success,
           coalesce(f.failures, 0), coalesce(f.items, 0), x.last_error, x.reason, t.status,
           coalesce(f.health, 0), t.source_id, f.health_at, f.disabled_at, f.warnings,
           f.moved_from, s.name, s.uuid, f.title, f.interval_ms, coalesce(f.new_items, 0)
         FROM task t JOIN source s ON s.id = t.source_id LEFT JOIN feed f ON f.task_id = t.id
           LEFT JOIN fetch_state x ON x.task_id = t.id
         WHERE {} ORDER BY t.source_id, t.id LIMIT {}",
        terms.sql(),
        i64::try_from(query.limit).unwrap_or(i64::MAX)
    );
    whole_rows("channel", store.select(terms.statement(sql)).await?.iter().map(read_channel))
}

fn read_channel(row: &Cells) -> Result<Channel, DbError> {
    let time = |at| row.maybe_int(at).map(|ms| ms.map(Ts::from_ms));
    let text = |at| row.maybe_text(at).map(|text| text.map(str::to_owned));
    let task = TaskId(row.int(0)?);
    let state = ChannelState {
        source: SourceId(row.int(12)?),
        id: task.to_string(),
        kind: named("kind", row.int(1)?, Kind::from_number)?,
        url: row.text(2)?.to_owned(),
        next_fetch_at: Ts::from_ms(row.int(3)?),
        last_fetched_at: time(4)?,
        last_success_at: time(5)?,
        failures: row.narrow(6)?,
        items: row.narrow(7)?,
        last_error: row
            .maybe_int(8)?
            .map(|code| named("code", code, Code::from_number))
            .transpose()?,
        reason: text(9)?,
        status: named("status", row.int(10)?, Status::from_number)?,
        health: named("health", row.int(11)?, Health::from_number)?,
        health_since: time(13)?,
        disabled_since: time(14)?,
        warnings: warnings(text(15)?),
        moved_from: text(16)?,
    };
    Ok(Channel {
        state,
        task,
        source: row.text(17)?.to_owned(),
        source_id: row.text(18)?.to_owned(),
        title: text(19)?,
        interval_ms: row.maybe_int(20)?.and_then(|ms| u64::try_from(ms).ok()),
        new_items: row.count(21)?,
    })
}

fn named<T>(what: &'static str, number: i64, of: fn(i64) -> Option<T>) -> Result<T, DbError> {
    of(number).ok_or_else(|| DbError::Corrupt { what, value: number.to_string() })
}
