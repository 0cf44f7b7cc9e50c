//! PostgreSQL as one end of a transfer: pages of rows out, COPY in.

use std::collections::HashMap;
use std::pin::pin;

use deadpool_postgres::GenericClient as _;
use futures_util::TryStreamExt;
use tokio::runtime::Handle;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;

use super::values::size;
use super::{BYTES, Counters, LEASE, NOTE, Note, ROWS, Row, Side, Table, Value, quoted};
use crate::db::postgres::{Tx, first, rows, run};
use crate::db::{Conn, DbError, PgDb, Session};

/// All sequences with the table that they count for; the one without is that of leases.
const SEQUENCES: &str = "SELECT coalesce(t.relname::text, 'lease'), s.oid::bigint,
      pg_sequence_last_value(s.oid)
    FROM pg_class s
      LEFT JOIN pg_depend d ON d.objid = s.oid AND d.classid = 'pg_class'::regclass
        AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
      LEFT JOIN pg_class t ON t.oid = d.refobjid
    WHERE s.relkind = 'S' AND s.relnamespace = current_schema()::regnamespace
      AND (t.oid IS NOT NULL OR s.relname = 'lease_id')";

/// A connection of its own.
pub struct PgSide {
    db: PgDb,
    client: Conn,
    runtime: Handle,
    types: HashMap<String, Vec<Type>>,
}

impl PgSide {
    /// Takes a connection. Must be called within a runtime, and used outside of its threads.
    pub async fn open(db: &PgDb) -> Result<Self, DbError> {
        let client = db.maintenance().await?;
        let (db, runtime) = (db.clone(), Handle::current());
        Ok(Self { db, client, runtime, types: HashMap::new() })
    }

    /// The types of a table's columns.
    fn types(&mut self, table: &Table) -> Result<Vec<Type>, DbError> {
        if let Some(known) = self.types.get(&table.name) {
            return Ok(known.clone());
        }
        let sql = format!("SELECT {} FROM {}", table.listed(), quoted(&table.name));
        let client = &self.client;
        let prepared = async { client.limit().apply(client.raw()?.prepare(&sql)).await };
        let statement = self.runtime.block_on(prepared)?;
        let types: Vec<_> =
            statement.columns().iter().map(|column| column.type_().clone()).collect();
        self.types.insert(table.name.clone(), types.clone());
        Ok(types)
    }

    /// The columns of the key, ordered as everywhere.
    fn key(&mut self, table: &Table) -> Result<String, DbError> {
        let types = self.types(table)?;
        let column = |(name, ty): (&String, &Type)| match *ty {
            Type::TEXT => format!("{} COLLATE \"C\"", quoted(name)),
            _ => quoted(name),
        };
        Ok(table.key().zip(&types).map(column).collect::<Vec<_>>().join(", "))
    }
}

impl Side for PgSide {
    fn place(&self) -> String {
        self.db.place()
    }

    fn freeze(&mut self, alone: bool) -> Result<(), DbError> {
        let mut begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned();
        if alone {
            let tables = super::tables()?;
            let names: Vec<_> = tables.iter().map(|table| quoted(&table.name)).collect();
            begin = format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE {} IN SHARE MODE",
                names.join(", ")
            );
        }
        self.runtime.block_on(self.client.batch_execute(&begin))
    }

    fn count(&mut self, table: &Table) -> Result<u64, DbError> {
        let (name, own) = (quoted(&table.name), table.own_rows());
        let sql = format!("SELECT count(*) FROM {name} WHERE {own}");
        let row = self.runtime.block_on(self.client.query_one(&sql, &[]))?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0))
    }

    fn read(&mut self, table: &Table, after: &[Value]) -> Result<Vec<Row>, DbError> {
        let key = self.key(table)?;
        let further = match after.len() {
            0 => String::new(),
            n => format!(" AND ({key}) > ({})", places(n)),
        };
        let (listed, name, own) = (table.listed(), quoted(&table.name), table.own_rows());
        let sql =
            format!("SELECT {listed} FROM {name} WHERE {own}{further} ORDER BY {key} LIMIT {ROWS}");
        let client = &self.client;
        let read = async {
            let raw = client.raw()?;
            let select = raw.prepare_cached(&sql).await?;
            let mut found = pin!(raw.query_raw(&select, after).await?);
            let (mut rows, mut taken) = (Vec::new(), 0);
            // What was not read of a page is thrown away, and asked for again with the next.
            while taken < BYTES
                && let Some(row) = found.try_next().await?
            {
                let values = (0..row.len()).map(|at| row.try_get(at));
                let values = values.collect::<Result<Row, _>>()?;
                taken += size(&values);
                rows.push(values);
            }
            Ok::<_, DbError>(rows)
        };
        self.runtime.block_on(client.limit().apply(read))
    }

    fn counters(&mut self) -> Result<Counters, DbError> {
        let found = self.runtime.block_on(self.client.query(SEQUENCES, &[]))?;
        let mut counters = Counters::new();
        for row in found {
            if let Some(last) = row.try_get(2)? {
                counters.insert(row.try_get(0)?, last);
            }
        }
        Ok(counters)
    }

    fn note(&mut self) -> Result<Option<Note>, DbError> {
        let text = self.runtime.block_on(note_in(&self.client))?;
        text.map(|text| Note::from_text(&text)).transpose()
    }

    fn clear(&mut self, tables: &[Table]) -> Result<(), DbError> {
        let names = tables.iter().map(|table| quoted(&table.name)).collect::<Vec<_>>().join(", ");
        let sql = format!("TRUNCATE {names} RESTART IDENTITY");
        self.runtime.block_on(self.client.batch_execute(&sql))
    }

    fn write(&mut self, table: &Table, rows: &[Row], note: &Note) -> Result<(), DbError> {
        let types = self.types(table)?;
        let sql = format!("COPY {}({}) FROM STDIN BINARY", quoted(&table.name), table.listed());
        let (client, note) = (&mut self.client, note.to_text()?);
        self.runtime.block_on(async {
            let tx = client.transaction().await?;
            let copied = async {
                let mut lines =
                    pin!(BinaryCopyInWriter::new(tx.raw()?.copy_in(&sql).await?, &types));
                for row in rows {
                    lines.as_mut().write_raw(row).await?;
                }
                Ok::<_, DbError>(lines.finish().await?)
            };
            tx.limit().apply(copied).await?;
            run(
                &tx,
                "INSERT INTO meta VALUES($1, $2)
                 ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                &[&NOTE, &note],
            )
            .await?;
            tx.commit().await
        })
    }

    fn finish(
        &mut self,
        tables: &[Table],
        counters: &Counters,
        sinks: &[(String, String)],
    ) -> Result<(), DbError> {
        let client = &mut self.client;
        self.runtime.block_on(async {
            let tx = client.transaction().await?;
            set_sequences(&tx, tables, counters).await?;
            for (old, new) in sinks {
                run(
                    &tx,
                    "UPDATE sink SET name = $2 WHERE name = $1
                       AND NOT EXISTS(SELECT 1 FROM sink WHERE name = $2)",
                    &[old, new],
                )
                .await?;
            }
            run(&tx, "DELETE FROM meta WHERE key = $1", &[&NOTE]).await?;
            tx.commit().await?;
            // The first look at the new tables must not be without any statistics.
            client.batch_execute("ANALYZE").await?;
            Ok(())
        })
    }
}

/// Lets every sequence go on after the last number that was given out there, or is here.
async fn set_sequences(tx: &Tx<'_>, tables: &[Table], counters: &Counters) -> Result<(), DbError> {
    for row in rows(tx, SEQUENCES, &[]).await? {
        let (name, sequence): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let table = tables.iter().find(|table| table.name == name && name != LEASE);
        let mut last = counters.get(&name).copied().unwrap_or(0);
        if let Some((table, key)) = table.and_then(|table| Some((table, table.key().next()?))) {
            let sql = format!("SELECT max({}) FROM {}", quoted(key), quoted(&table.name));
            let found = first(tx, &sql, &[]).await?;
            let here: Option<i64> = found.map(|row| row.try_get(0)).transpose()?.flatten();
            last = last.max(here.unwrap_or(0));
        }
        if last > 0 {
            run(tx, "SELECT setval($1::bigint::oid::regclass, $2)", &[&sequence, &last]).await?;
        }
    }
    Ok(())
}

/// What is noted about a transfer into this database.
pub(super) async fn note_in(client: &Conn) -> Result<Option<String>, DbError> {
    let found = first(client, "SELECT value FROM meta WHERE key = $1", &[&NOTE]).await?;
    Ok(found.map(|row| row.try_get(0)).transpose()?)
}

fn places(n: usize) -> String {
    (1..=n).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ")
}
