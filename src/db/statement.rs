//! Statements that both databases read: the text, what it is given, and the rows that it answers with.
//!
//! Nothing here knows what a statement means. Whatever people wrote goes into one as a parameter, never
//! as its text.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};
use tokio_postgres::types::Type;

use super::postgres::{Given, Num};
use super::{Db, DbError, PgDb};

/// The ways in which the databases differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The embedded database.
    Sqlite,
    /// The server.
    Postgres,
}

/// What a statement is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Int(number) => number.to_sql(),
            Self::Text(text) => text.to_sql(),
            Self::Bytes(bytes) => bytes.to_sql(),
        }
    }
}

/// What a statement is given, as PostgreSQL's driver wants it.
pub(crate) fn given(values: &[Value]) -> Vec<Given<'_>> {
    fn one(value: &Value) -> Given<'_> {
        match value {
            Value::Int(number) => number,
            Value::Text(text) => text,
            Value::Bytes(bytes) => bytes,
        }
    }
    values.iter().map(one).collect()
}

/// Conditions of a statement, all of which have to hold.
#[derive(Debug)]
pub(crate) struct Terms {
    dialect: Dialect,
    conditions: Vec<String>,
    pub(crate) values: Vec<Value>,
}

impl Terms {
    pub(crate) const fn new(dialect: Dialect) -> Self {
        Self { dialect, conditions: Vec::new(), values: Vec::new() }
    }

    pub(crate) fn add(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    /// The mark that stands for a value.
    pub(crate) fn mark(&mut self, value: Value) -> String {
        let kind = match (&value, self.dialect) {
            (Value::Int(_), _) => "bigint",
            (Value::Text(_), _) => "text",
            (Value::Bytes(_), Dialect::Sqlite) => "blob",
            (Value::Bytes(_), Dialect::Postgres) => "bytea",
        };
        self.values.push(value);
        let sign = if self.dialect == Dialect::Sqlite { '?' } else { '$' };
        format!("CAST({sign}{} AS {kind})", self.values.len())
    }

    pub(crate) fn int(&mut self, number: i64) -> String {
        self.mark(Value::Int(number))
    }

    pub(crate) fn text(&mut self, text: &str) -> String {
        self.mark(Value::Text(text.to_owned()))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> String {
        self.mark(Value::Bytes(bytes.to_owned()))
    }

    /// That a column holds a text, whatever the case of its Latin letters.
    pub(crate) fn holds(&mut self, column: &str, part: &str) {
        let part = self.text(&part.to_ascii_lowercase());
        self.add(match self.dialect {
            Dialect::Sqlite => format!("instr(lower({column}), {part}) > 0"),
            Dialect::Postgres => format!("strpos(lower({column} COLLATE \"C\"), {part}) > 0"),
        });
    }

    /// That a column is one of these numbers. However many there are, it is one statement.
    pub(crate) fn among(&mut self, column: &str, numbers: impl IntoIterator<Item = i64>) {
        let list: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
        let list = self.text(&format!("[{}]", list.join(",")));
        self.add(match self.dialect {
            Dialect::Sqlite => format!("{column} IN (SELECT value FROM json_each({list}))"),
            Dialect::Postgres => format!(
                "{column} IN (SELECT v::bigint FROM json_array_elements_text({list}::json) v)"
            ),
        });
    }

    /// All conditions, or that anything goes.
    pub(crate) fn sql(&self) -> String {
        if self.conditions.is_empty() { "true".to_owned() } else { self.conditions.join(" AND ") }
    }

    /// A statement with these values.
    pub(crate) fn statement(self, sql: String) -> Statement {
        Statement { sql, values: self.values }
    }
}

/// A statement with what it is given.
#[derive(Clone, Debug)]
pub struct Statement {
    sql: String,
    values: Vec<Value>,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row that a statement answered with. Cells are read by their places.
#[derive(Clone, Debug)]
pub struct Cells(Vec<Cell>);

impl Cells {
    fn get(&self, at: usize) -> &Cell {
        self.0.get(at).unwrap_or(&Cell::Null)
    }

    fn wrong(at: usize, cell: &Cell) -> DbError {
        // What a row holds is no message.
        let shown: String = format!("{cell:?}").chars().take(60).collect();
        DbError::Corrupt { what: "column", value: format!("{shown} at {at}") }
    }

    /// A whole number that may be missing.
    pub(crate) fn maybe_int(&self, at: usize) -> Result<Option<i64>, DbError> {
        match self.get(at) {
            Cell::Null => Ok(None),
            Cell::Int(number) => Ok(Some(*number)),
            other => Err(Self::wrong(at, other)),
        }
    }

    /// A whole number.
    pub(crate) fn int(&self, at: usize) -> Result<i64, DbError> {
        self.maybe_int(at)?.ok_or_else(|| Self::wrong(at, &Cell::Null))
    }

    /// A count.
    pub(crate) fn count(&self, at: usize) -> Result<u64, DbError> {
        let number = self.maybe_int(at)?.unwrap_or(0);
        u64::try_from(number).map_err(|_| Self::wrong(at, &Cell::Int(number)))
    }

    /// A number in a narrower type.
    pub(crate) fn narrow<T: TryFrom<i64>>(&self, at: usize) -> Result<T, DbError> {
        let number = self.int(at)?;
        T::try_from(number).map_err(|_| Self::wrong(at, &Cell::Int(number)))
    }

    /// Text that may be missing.
    pub(crate) fn maybe_text(&self, at: usize) -> Result<Option<&str>, DbError> {
        match self.get(at) {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text)),
            other => Err(Self::wrong(at, other)),
        }
    }

    /// Text.
    pub(crate) fn text(&self, at: usize) -> Result<&str, DbError> {
        self.maybe_text(at)?.ok_or_else(|| Self::wrong(at, &Cell::Null))
    }

    /// A key, to go on behind it; nothing when it cannot be one.
    pub(crate) fn value(&self, at: usize) -> Option<Value> {
        match self.get(at) {
            Cell::Int(number) => Some(Value::Int(*number)),
            Cell::Bytes(bytes) => Some(Value::Bytes(bytes.clone())),
            Cell::Text(text) => Some(Value::Text(text.clone())),
            Cell::Null | Cell::Real(_) => None,
        }
    }

    /// Whatever it is, as text.
    pub(crate) fn shown(&self, at: usize) -> String {
        match self.get(at) {
            Cell::Text(text) => text.clone(),
            Cell::Int(number) => number.to_string(),
            Cell::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            Cell::Null | Cell::Real(_) => String::new(),
        }
    }

    /// Bytes that may be missing.
    pub(crate) fn maybe_blob(&self, at: usize) -> Result<Option<&[u8]>, DbError> {
        match self.get(at) {
            Cell::Null => Ok(None),
            Cell::Bytes(bytes) => Ok(Some(bytes)),
            other => Err(Self::wrong(at, other)),
        }
    }

    /// Bytes of a fixed length that may be missing.
    pub(crate) fn maybe_bytes<const N: usize>(
        &self,
        at: usize,
    ) -> Result<Option<[u8; N]>, DbError> {
        match self.get(at) {
            Cell::Null => Ok(None),
            cell @ Cell::Bytes(bytes) => {
                bytes.as_slice().try_into().map(Some).map_err(|_| Self::wrong(at, cell))
            }
            other => Err(Self::wrong(at, other)),
        }
    }

    /// Bytes of a fixed length.
    pub(crate) fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], DbError> {
        self.maybe_bytes(at)?.ok_or_else(|| Self::wrong(at, &Cell::Null))
    }
}

/// A database that runs statements which both read.
#[async_trait]
pub trait Statements: Send + Sync {
    /// How it wants them written.
    fn dialect(&self) -> Dialect;

    /// The rows that a statement answers with.
    async fn select(&self, statement: Statement) -> Result<Vec<Cells>, DbError>;

    /// Runs statements in one transaction; how many rows they touched together.
    async fn change(&self, statements: Vec<Statement>) -> Result<u64, DbError>;
}

#[async_trait]
impl Statements for Db {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn select(&self, statement: Statement) -> Result<Vec<Cells>, DbError> {
        self.read(move |conn| select(conn, &statement)).await
    }

    async fn change(&self, statements: Vec<Statement>) -> Result<u64, DbError> {
        let statements = Arc::new(statements);
        self.write(move |conn| {
            let mut touched = 0;
            for statement in statements.iter() {
                let mut run = conn.prepare_cached(&statement.sql)?;
                touched += run.execute(params_from_iter(&statement.values))? as u64;
            }
            Ok(touched)
        })
        .await
    }
}

fn select(conn: &Connection, statement: &Statement) -> Result<Vec<Cells>, DbError> {
    let mut select = conn.prepare_cached(&statement.sql)?;
    let width = select.column_count();
    let mut rows = select.query(params_from_iter(&statement.values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let cell = |at| -> Result<Cell, DbError> {
            Ok(match row.get_ref(at)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(number) => Cell::Int(number),
                ValueRef::Real(number) => Cell::Real(number),
                ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_owned()),
            })
        };
        found.push(Cells((0..width).map(cell).collect::<Result<_, _>>()?));
    }
    Ok(found)
}

#[async_trait]
impl Statements for PgDb {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn select(&self, statement: Statement) -> Result<Vec<Cells>, DbError> {
        let client = self.client().await?;
        let found =
            super::postgres::rows(&client, &statement.sql, &given(&statement.values)).await?;
        found.iter().map(cells).collect()
    }

    async fn change(&self, statements: Vec<Statement>) -> Result<u64, DbError> {
        let mut client = self.client().await?;
        let tx = client.transaction().await?;
        let mut touched = 0;
        for statement in &statements {
            touched += super::postgres::run(&tx, &statement.sql, &given(&statement.values)).await?;
        }
        tx.commit().await?;
        Ok(touched)
    }
}

fn cells(row: &tokio_postgres::Row) -> Result<Cells, DbError> {
    let cell = |(at, column): (usize, &tokio_postgres::Column)| -> Result<Cell, DbError> {
        Ok(match *column.type_() {
            Type::INT2 | Type::INT4 | Type::INT8 => {
                row.try_get::<_, Option<Num>>(at)?.map_or(Cell::Null, |number| Cell::Int(number.0))
            }
            Type::BOOL => {
                row.try_get::<_, Option<bool>>(at)?.map_or(Cell::Null, |it| Cell::Int(it.into()))
            }
            Type::FLOAT8 => row.try_get::<_, Option<f64>>(at)?.map_or(Cell::Null, Cell::Real),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(Cell::Null, Cell::Bytes),
            _ => row.try_get::<_, Option<String>>(at)?.map_or(Cell::Null, Cell::Text),
        })
    };
    Ok(Cells(row.columns().iter().enumerate().map(cell).collect::<Result<_, _>>()?))
}
