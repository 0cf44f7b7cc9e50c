//! Two stores side by side: both are read in the order of their keys, value by value.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

use super::{Phase, Progress, Row, Side, TOLD, Table, Value, key_of};
use crate::db::DbError;

/// A row that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its table.
    pub table: String,
    /// Its key.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

/// All that is not the same; the first rows by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Discord {
    /// Rows that differ.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Difference>,
}

impl Discord {
    fn add(&mut self, table: &Table, row: &Row, what: String) {
        self.count += 1;
        if self.first.len() < TOLD {
            let key = key_of(table, row).iter().map(ToString::to_string).collect::<Vec<_>>();
            self.first.push(Difference { table: table.name.clone(), key: key.join(", "), what });
        }
    }
}

impl fmt::Display for Discord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = if self.count == 1 { "row differs" } else { "rows differ" };
        write!(f, "{} {rows} from the source: begin again with --restart", self.count)?;
        for Difference { table, key, what } in &self.first {
            write!(f, "\n{table} ({key}): {what}")?;
        }
        Ok(())
    }
}

/// The rows of a table, one at a time.
struct Rows<'a> {
    side: &'a mut dyn Side,
    table: &'a Table,
    waiting: VecDeque<Row>,
    after: Row,
}

impl<'a> Rows<'a> {
    fn of(side: &'a mut dyn Side, table: &'a Table) -> Self {
        Self { side, table, waiting: VecDeque::new(), after: Row::new() }
    }

    fn next(&mut self) -> Result<Option<Row>, DbError> {
        if self.waiting.is_empty() {
            self.waiting = self.side.read(self.table, &self.after)?.into();
            if let Some(last) = self.waiting.back() {
                self.after = key_of(self.table, last).to_vec();
            }
        }
        Ok(self.waiting.pop_front())
    }
}

/// Compares all tables.
pub(super) fn compare(
    source: &mut dyn Side,
    target: &mut dyn Side,
    tables: &[Table],
    total: u64,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Discord, DbError> {
    let mut discord = Discord::default();
    let mut rows = 0;
    for table in tables {
        let mut done = || {
            rows += 1;
            if rows % super::ROWS as u64 == 0 || rows == total {
                let (phase, table) = (Phase::Check, table.name.clone());
                watch(&Progress { phase, table, rows, total });
            }
        };
        let (source, target) = (Rows::of(source, table), Rows::of(target, table));
        compare_table(source, target, &mut discord, &mut done)?;
    }
    Ok(discord)
}

fn compare_table(
    mut source: Rows<'_>,
    mut target: Rows<'_>,
    discord: &mut Discord,
    done: &mut dyn FnMut(),
) -> Result<(), DbError> {
    let table = source.table;
    let (mut here, mut there) = (source.next()?, target.next()?);
    loop {
        let order = match (&here, &there) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(two)) => key_order(table, one, two),
        };
        match (&here, &there) {
            (Some(row), _) if order.is_lt() => {
                discord.add(table, row, "is missing in the target".to_owned());
            }
            (_, Some(row)) if order.is_gt() => {
                discord.add(table, row, "is in the target only".to_owned());
            }
            (Some(one), Some(two)) => {
                if let Some(column) = changed(table, one, two) {
                    discord.add(table, one, format!("has another {column}"));
                }
            }
            _ => {}
        }
        if order.is_le() {
            done();
            here = source.next()?;
        }
        if order.is_ge() {
            there = target.next()?;
        }
    }
}

fn key_order(table: &Table, one: &[Value], two: &[Value]) -> Ordering {
    let pairs = key_of(table, one).iter().zip(key_of(table, two));
    pairs.map(|(one, two)| one.order(two)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The first column that is not the same.
fn changed<'a>(table: &'a Table, one: &[Value], two: &[Value]) -> Option<&'a str> {
    let mut columns = table.columns.iter().zip(one.iter().zip(two));
    columns.find(|(_, (one, two))| !one.is_same(two)).map(|(column, _)| column.as_str())
}
