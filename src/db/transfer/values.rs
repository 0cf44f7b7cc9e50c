//! Values on their way from one database to another, as both know them.

use std::cmp::Ordering;
use std::error::Error;

use rusqlite::types::{ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::Table;
use crate::db::DbError;
use crate::db::postgres::{Num, clean};

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The values of a row, in the order of its table's columns.
pub(crate) type Row = Vec<Value>;

/// The part of a row that is its key.
pub(crate) fn key_of<'a>(table: &Table, row: &'a [Value]) -> &'a [Value] {
    row.get(..table.keys).unwrap_or(row)
}

/// Roughly what a row takes.
pub(super) fn size(row: &[Value]) -> usize {
    let one = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::Null | Value::Int(_) | Value::Real(_) => 8,
    };
    row.iter().map(one).sum()
}

impl Value {
    /// The order that both databases keep their keys in.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(one), Self::Int(two)) => one.cmp(two),
            (Self::Text(one), Self::Text(two)) => one.as_bytes().cmp(two.as_bytes()),
            (Self::Blob(one), Self::Blob(two)) => one.cmp(two),
            (one, two) => one.rank().cmp(&two.rank()),
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Int(_) => 1,
            Self::Real(_) => 2,
            Self::Text(_) => 3,
            Self::Blob(_) => 4,
        }
    }

    /// Whether both mean the same, wherever they are kept.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(two)) => one == two || clean(one) == clean(two),
            (Self::Real(one), Self::Real(two)) => one.to_bits() == two.to_bits(),
            (one, two) => one == two,
        }
    }

    pub(super) fn from_sqlite(value: ValueRef<'_>, column: &str) -> Result<Self, DbError> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Int(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_owned()),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Self::Text(text.to_owned()),
                Err(_) => {
                    let value = format!("{column}: {}", String::from_utf8_lossy(bytes));
                    return Err(DbError::Corrupt { what: "text that is not UTF-8", value });
                }
            },
        })
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Blob(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

type Failed = Box<dyn Error + Sync + Send>;

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Failed> {
        Ok(match *ty {
            Type::BOOL => Self::Int(bool::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Self::Real(f64::from_sql(ty, raw)?),
            Type::BYTEA => Self::Blob(raw.to_owned()),
            Type::INT2 | Type::INT4 | Type::INT8 => Self::Int(Num::from_sql(ty, raw)?.0),
            _ => Self::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Failed> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        carried(ty)
    }
}

fn carried(ty: &Type) -> bool {
    let known =
        [Type::BOOL, Type::FLOAT8, Type::BYTEA, Type::INT2, Type::INT4, Type::INT8, Type::TEXT];
    known.contains(ty)
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        match (self, ty) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Int(number), &Type::INT2) => i16::try_from(*number)?.to_sql(ty, out),
            (Self::Int(number), &Type::INT4) => i32::try_from(*number)?.to_sql(ty, out),
            (Self::Int(number), &Type::INT8) => number.to_sql(ty, out),
            (Self::Int(number), &Type::BOOL) => (*number != 0).to_sql(ty, out),
            (Self::Real(number), &Type::FLOAT8) => number.to_sql(ty, out),
            (Self::Text(text), &Type::TEXT) => clean(text).to_sql(ty, out),
            (Self::Blob(bytes), &Type::BYTEA) => bytes.to_sql(ty, out),
            (value, ty) => Err(format!("a column of type {ty} cannot hold {value:?}").into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        carried(ty)
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::Real),
            any::<String>().prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Blob),
        ]
    }

    /// Two keys of one column.
    fn keys() -> impl Strategy<Value = (Value, Value)> {
        fn both<T>(two: (T, T), of: impl Fn(T) -> Value) -> (Value, Value) {
            (of(two.0), of(two.1))
        }
        prop_oneof![
            any::<(i64, i64)>().prop_map(|two| both(two, Value::Int)),
            any::<(String, String)>().prop_map(|two| both(two, Value::Text)),
            any::<(Vec<u8>, Vec<u8>)>().prop_map(|two| both(two, Value::Blob)),
        ]
    }

    proptest! {
        #[test]
        fn a_value_comes_back_from_sqlite_as_it_was(value in value()) {
            let conn = rusqlite::Connection::open_in_memory().unwrap();
            let back = conn.query_row("SELECT ?1", [&value], |row| {
                Ok(Value::from_sqlite(row.get_ref(0)?, "x").unwrap())
            });
            let back = back.unwrap();
            // SQLite keeps what is no number as nothing.
            let nothing = matches!(value, Value::Real(number) if number.is_nan());
            prop_assert!(value.is_same(&back) || nothing && back == Value::Null);
        }

        #[test]
        fn keys_are_ordered_as_sqlite_orders_them((one, two) in keys()) {
            let conn = rusqlite::Connection::open_in_memory().unwrap();
            let less =
                conn.query_row("SELECT ?1 < ?2", [&one, &two], |row| row.get::<_, bool>(0));
            prop_assert_eq!(one.order(&two) == Ordering::Less, less.unwrap());
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        let mut out = BytesMut::new();
        let fits =
            |value: &Value, ty: &Type, out: &mut BytesMut| ToSql::to_sql(value, ty, out).is_ok();
        assert!(fits(&Value::Int(7), &Type::INT2, &mut out));
        assert!(!fits(&Value::Int(70_000), &Type::INT2, &mut out));
        assert!(!fits(&Value::Text("7".into()), &Type::INT8, &mut out));
    }
}
