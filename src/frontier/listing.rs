//! Which tasks, in which order, from which place on; and the same as SQL that both databases read.
//!
//! Pure.

use std::fmt;
use std::str::FromStr;

use super::Share;
use crate::db::statement::{Dialect, Statement, Terms};
use crate::model::{Code, Kind, Origin, State, Status, Task, TaskId, Ts, named};

named! {
    /// What a listing is sorted by; equals are in the order of their rows.
    pub enum Sort {
        /// When we first heard of it, exactly.
        Id = 0 "id",
        /// When it is due.
        Due = 1 "due",
        /// Its priority.
        Priority = 2 "priority",
        /// When we first heard of it.
        Discovered = 3 "discovered",
        /// When it was last asked for; what never was comes first.
        Fetched = 4 "fetched",
    }
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// What it is sorted by.
    pub sort: Sort,
    /// Whether the greatest comes first.
    pub descending: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self { sort: Sort::Id, descending: false }
    }
}

/// A place in a listing: behind one task. It stays a place when that task is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The order in which it is a place.
    pub order: Order,
    key: i64,
    id: i64,
}

/// Text that is no place in a listing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a place in a list: use what the page before told as next")]
pub struct BadCursor;

impl Cursor {
    /// The place behind a task.
    #[must_use]
    pub fn behind(task: &Task, order: Order) -> Self {
        let key = match order.sort {
            Sort::Id | Sort::Discovered => task.id.0,
            Sort::Due => task.next_fetch_at.ms(),
            Sort::Priority => i64::from(task.priority),
            Sort::Fetched => task.last_fetched_at.map_or(0, Ts::ms),
        };
        Self { order, key, id: task.id.0 }
    }

    /// Whether it comes before another place of the same order.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        let (one, two) = ((self.key, self.id), (other.key, other.id));
        if self.order.descending { one > two } else { one < two }
    }

    /// The task that it is behind.
    #[must_use]
    pub const fn task(&self) -> TaskId {
        TaskId(self.id)
    }

    /// The place behind a row, in the order of rows.
    pub(super) fn behind_row(id: i64) -> Self {
        Self { order: Order::default(), key: id, id }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.order.descending { "desc" } else { "asc" };
        write!(f, "{}.{direction}.{}.{}", self.order.sort, self.key, self.id)
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let parts: Vec<&str> = text.split('.').collect();
        let [sort, direction, key, id] = parts.as_slice() else { return Err(BadCursor) };
        let descending = match *direction {
            "asc" => false,
            "desc" => true,
            _ => return Err(BadCursor),
        };
        Ok(Self {
            order: Order { sort: sort.parse().map_err(|_| BadCursor)?, descending },
            key: key.parse().map_err(|_| BadCursor)?,
            id: id.parse().map_err(|_| BadCursor)?,
        })
    }
}

/// Which tasks, and which part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// One of these, when there are any.
    pub ids: Vec<TaskId>,
    /// Standing like one of these, when there are any.
    pub states: Vec<State>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// Of this host, or group of hosts.
    pub host: Option<String>,
    /// With these first 64 bits of the hash of its normalised address.
    pub hash: Option<i64>,
    /// Owned by the source with this name or id.
    pub source: Option<String>,
    /// That came to us like this.
    pub origin: Option<Origin>,
    /// Whose last outcome had this code.
    pub code: Option<Code>,
    /// With this in its address, in whatever case.
    pub search: Option<String>,
    /// Last asked for, or first heard of when it never was, before this time.
    pub before: Option<Ts>,
    /// The order.
    pub order: Order,
    /// Only what comes after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: usize,
}

/// Whether a task of `task t` is under way. Leases are few: they are looked up once, not for each task.
pub(super) const LEASED: &str = "(t.host_id, t.id) IN (SELECT l.queue_id, l.lease_task FROM host l
    WHERE l.lease_id IS NOT NULL AND l.lease_task IS NOT NULL)";

/// What conditions speak about.
pub(super) const FILTERED: &str = "task t LEFT JOIN fetch_state f ON f.task_id = t.id";
/// The same where nothing is asked about the last outcome.
const BARE: &str = "task t";

fn stands(state: State) -> String {
    let (status, more) = match state {
        State::Fetching => return LEASED.to_owned(),
        State::Pending => (Status::Pending, "t.retry = 0 AND "),
        State::Failed => (Status::Pending, "t.retry > 0 AND "),
        State::Fetched => (Status::Fetched, ""),
        State::Dead => (Status::Dead, ""),
        State::Parked => (Status::Parked, ""),
    };
    format!("t.status = {} AND {more}NOT {LEASED}", status.number())
}

impl TaskFilter {
    /// Which tasks, of `task t` and its `fetch_state f`, wherever the listing has come to.
    pub(super) fn terms(&self, dialect: Dialect) -> Terms {
        let mut terms = Terms::new(dialect);
        // The row that keeps the highest number taken is no task.
        // The sign keeps an index out of it that would lead along hosts.
        terms.add("+t.host_id <> 0");
        if !self.ids.is_empty() {
            let ids: Vec<_> = self.ids.iter().map(|id| id.0.to_string()).collect();
            terms.add(format!("t.id IN ({})", ids.join(", ")));
        }
        if !self.states.is_empty() {
            let states: Vec<_> = self.states.iter().map(|state| stands(*state)).collect();
            terms.add(format!("({})", states.join(" OR ")));
        }
        let numbers = [
            ("t.kind", self.kind.map(Kind::number)),
            ("t.origin", self.origin.map(Origin::number)),
            ("f.last_error", self.code.map(Code::number)),
        ];
        if let Some(lane) = self.kind.map(Kind::lane) {
            // An index knows the few that are polled.
            terms.add(format!("t.lane = {}", lane.number()));
        }
        for (column, number) in numbers {
            if let Some(number) = number {
                terms.add(format!("{column} = {number}"));
            }
        }
        if let Some(host) = &self.host {
            let host = terms.text(host);
            terms
                .add(format!("t.host_id = (SELECT id FROM host WHERE name = {host} AND slot = 0)"));
        }
        if let Some(hash) = self.hash {
            let hash = terms.int(hash);
            // The lanes are all there are: naming them lets the index lead to the row.
            terms.add(format!("t.lane IN (0, 1, 2) AND t.hash = {hash}"));
        }
        if let Some(source) = &self.source {
            let source = terms.text(source);
            terms.add(format!(
                "t.source_id = (SELECT id FROM source WHERE uuid = {source} OR name = {source} LIMIT 1)"
            ));
        }
        if let Some(before) = self.before {
            let before = terms.int(before.ms());
            terms.add(format!("coalesce(t.fetched_at, t.discovered_at) < {before}"));
        }
        if let Some(part) = &self.search {
            terms.holds("t.url", part);
        }
        terms
    }

    /// A statement for the places of the tasks alone, from the filter's place on: key and id.
    pub(crate) fn places(&self, dialect: Dialect) -> Statement {
        let terms = self.terms_from_here(dialect);
        let key = column(self.order.sort);
        let sql = format!(
            "SELECT {key}, t.id FROM {} WHERE {} {}",
            self.tables(),
            terms.sql(),
            self.tail()
        );
        terms.statement(sql)
    }

    /// What has to be read to tell which tasks are meant.
    pub(super) const fn tables(&self) -> &'static str {
        if self.code.is_some() { FILTERED } else { BARE }
    }

    /// A place from what that statement answers with.
    pub(crate) fn place(&self, key: i64, id: i64) -> Cursor {
        Cursor { order: self.order, key, id }
    }

    /// Whether an index leads to the tasks in their order: few are looked at in vain.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        let Self { ids, states, kind, host, hash, source, origin, code, search, before, .. } = self;
        let free = states.is_empty()
            && host.is_none()
            && source.is_none()
            && search.is_none()
            && (kind.is_none() && origin.is_none() && code.is_none() && before.is_none());
        let in_order = matches!(self.order.sort, Sort::Id | Sort::Discovered);
        (free && in_order) || !ids.is_empty() || hash.is_some() || *states == [State::Fetching]
    }

    /// The same from the filter's place on.
    pub(super) fn terms_from_here(&self, dialect: Dialect) -> Terms {
        let mut terms = self.terms(dialect);
        let Some(after) = &self.after else { return terms };
        let (beyond, id) = (if self.order.descending { '<' } else { '>' }, terms.int(after.id));
        match self.order.sort {
            Sort::Id | Sort::Discovered => terms.add(format!("t.id {beyond} {id}")),
            sort => {
                let key = terms.int(after.key);
                terms.add(format!("({}, t.id) {beyond} ({key}, {id})", column(sort)));
            }
        }
        terms
    }

    /// `ORDER BY` and `LIMIT`.
    pub(super) fn tail(&self) -> String {
        let direction = if self.order.descending { "DESC" } else { "ASC" };
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        match self.order.sort {
            Sort::Id | Sort::Discovered => format!("ORDER BY t.id {direction} LIMIT {limit}"),
            sort => {
                let key = column(sort);
                format!("ORDER BY {key} {direction}, t.id {direction} LIMIT {limit}")
            }
        }
    }
}

const fn column(sort: Sort) -> &'static str {
    match sort {
        // Numbers are given in the order in which we hear of addresses.
        Sort::Id | Sort::Discovered => "t.id",
        Sort::Due => "t.due",
        Sort::Priority => "t.prio",
        Sort::Fetched => {
            "coalesce(CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END, 0)"
        }
    }
}

/// Name, status, whether it failed, whether it is leased, and how many: the largest shares first.
pub(super) fn shares_sql(by: Share, top: usize) -> String {
    let (table, id) = match by {
        Share::Source => ("source", "source_id"),
        Share::Host => ("host", "host_id"),
    };
    format!(
        "SELECT n.name, t.status, t.retry > 0, {LEASED}, count(*)
         FROM (SELECT {id} AS id, count(*) AS n FROM task WHERE {id} IS NOT NULL
           GROUP BY {id} ORDER BY count(*) DESC, {id} LIMIT {top}) k
         JOIN {table} n ON n.id = k.id JOIN task t ON t.{id} = k.id
         GROUP BY k.id, n.name, k.n, 2, 3, 4 ORDER BY k.n DESC, k.id"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::statement::Value;
    use proptest::prelude::*;

    #[test]
    fn only_a_place_that_we_told_is_a_place() {
        for bad in ["", "42", "id.asc.1", "id.up.1.1", "name.asc.1.1", "id.asc.x.1", "id.asc.1.1.1"]
        {
            assert_eq!(bad.parse::<Cursor>(), Err(BadCursor), "{bad}");
        }
    }

    #[test]
    fn what_people_write_is_never_part_of_the_statement() {
        let filter = TaskFilter {
            host: Some("a' OR 1=1".into()),
            source: Some("b' --".into()),
            search: Some("C'; DROP".into()),
            ..TaskFilter::default()
        };
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            let terms = filter.terms(dialect);
            assert!(!terms.sql().contains("1=1") && !terms.sql().contains("--"), "{}", terms.sql());
            let given = ["a' OR 1=1", "b' --", "c'; drop"].map(|text| Value::Text(text.into()));
            assert_eq!(terms.values, given);
        }
    }

    proptest! {
        #[test]
        fn a_place_reads_back(sort in 0..5i64, descending: bool, key: i64, id: i64) {
            let order = Order { sort: Sort::from_number(sort).unwrap(), descending };
            let cursor = Cursor { order, key, id };
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
    }
}
