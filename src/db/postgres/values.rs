//! Values on their way to and from PostgreSQL.

use std::borrow::Cow;
use std::error::Error;

use tokio_postgres::types::{FromSql, Type, accepts};

/// A whole number, however wide its column is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Num(pub(crate) i64);

impl<'a> FromSql<'a> for Num {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *ty {
            Type::INT2 => i16::from_sql(ty, raw)?.into(),
            Type::INT4 => i32::from_sql(ty, raw)?.into(),
            _ => i64::from_sql(ty, raw)?,
        }))
    }

    accepts!(INT2, INT4, INT8);
}

/// One column of a batch, for UNNEST.
pub(crate) fn column<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// The text without what PostgreSQL cannot keep: the character 0.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { text.into() }
}
