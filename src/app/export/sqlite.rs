//! A table in a database file, with the names that the other formats have.

use std::path::Path;

use super::{COLUMNS, Cell, Kind, Row, Writer};
use crate::db::Connection;

/// A table of a file.
pub(super) struct Table(Connection);

impl Table {
    pub(super) fn new(path: &Path) -> Result<Self, String> {
        let file = Connection::open(path).map_err(|error| error.to_string())?;
        let column = |(name, kind): (&str, Kind)| {
            let kind = if kind == Kind::Number { "INTEGER" } else { "TEXT" };
            format!("\"{name}\" {kind}")
        };
        let columns = COLUMNS.map(column).join(", ");
        let sql = format!(
            "PRAGMA journal_mode = OFF; CREATE TABLE article({columns});
             CREATE INDEX article_seen ON article(first_seen); BEGIN"
        );
        file.execute_batch(&sql).map_err(|error| error.to_string())?;
        Ok(Self(file))
    }
}

impl Writer for Table {
    fn put(&mut self, rows: &[Row]) -> Result<(), String> {
        let marks = vec!["?"; COLUMNS.len()].join(", ");
        let sql = format!("INSERT INTO article VALUES({marks})");
        let mut insert = self.0.prepare_cached(&sql).map_err(|error| error.to_string())?;
        for row in rows {
            for (at, cell) in (1..).zip(row.cells()) {
                let bound = match cell {
                    Cell::Text(text) => insert.raw_bind_parameter(at, text),
                    Cell::Time(at_) => insert.raw_bind_parameter(at, at_.map(|at| at.to_string())),
                    Cell::Number(number) => insert.raw_bind_parameter(at, number),
                };
                bound.map_err(|error| error.to_string())?;
            }
            insert.raw_execute().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        self.0.execute_batch("COMMIT").map_err(|error| error.to_string())?;
        self.0.close().map_err(|(_, error)| error.to_string())
    }
}
