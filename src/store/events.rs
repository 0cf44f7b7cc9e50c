//! Which events of the log are asked for. Pure: both backends run the same statement.

use crate::model::{EventKind, SourceId, Ts};

/// Which events, in the order of the log.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// After this place.
    pub after: i64,
    /// No further than so many places behind it.
    pub within: Option<i64>,
    /// Committed at or after this time.
    pub since: Option<Ts>,
    /// Of one of these kinds, when there are any.
    pub kinds: Vec<EventKind>,
    /// Of this source.
    pub source: Option<SourceId>,
    /// The last ones instead of the first ones.
    pub latest: bool,
    /// At most so many.
    pub limit: usize,
}

impl EventFilter {
    /// The statement; `after` and `limit` are how its two parameters are written.
    pub(super) fn sql(&self, [after, limit]: [&str; 2]) -> String {
        let mut sql = format!(
            "SELECT seq, at, kind, subject, source_id, payload, checksum FROM event WHERE seq > {after}"
        );
        if let Some(within) = self.within {
            sql.push_str(&format!(" AND seq <= {after} + {within}"));
        }
        if let Some(since) = self.since {
            // Places are in the order of time: only the end of the log is looked at.
            sql.push_str(&format!(
                " AND seq > coalesce((SELECT o.seq FROM event o WHERE o.at < {}
                   ORDER BY o.seq DESC LIMIT 1), 0)",
                since.ms()
            ));
        }
        if !self.kinds.is_empty() {
            let kinds: Vec<String> =
                self.kinds.iter().map(|kind| kind.number().to_string()).collect();
            sql.push_str(&format!(" AND kind IN ({})", kinds.join(", ")));
        }
        if let Some(source) = self.source {
            sql.push_str(&format!(" AND source_id = {}", source.0));
        }
        let order = if self.latest { "DESC" } else { "ASC" };
        sql + &format!(" ORDER BY seq {order} LIMIT {limit}")
    }

    /// What the statement found, in the order of the log.
    pub(super) fn in_order<T>(&self, mut found: Vec<T>) -> Vec<T> {
        if self.latest {
            found.reverse();
        }
        found
    }
}
