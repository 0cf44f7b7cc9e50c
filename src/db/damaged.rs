//! Rows that cannot be decoded: each is told and left out, and holds nothing else up.

use super::DbError;

/// What was read of a row; nothing when that is damaged. `doctor` lists such rows.
pub(crate) fn whole<T>(what: &'static str, read: Result<T, DbError>) -> Result<Option<T>, DbError> {
    match read {
        Err(DbError::Corrupt { what: part, value }) => {
            tracing::warn!(row = what, part, reason = value, "skipped damaged row");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// The same of many rows.
pub(crate) fn whole_rows<T, R: FromIterator<T>>(
    what: &'static str,
    read: impl IntoIterator<Item = Result<T, DbError>>,
) -> Result<R, DbError> {
    read.into_iter().filter_map(|row| whole(what, row).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_row_is_left_out_and_a_failure_is_told() {
        let damaged = || DbError::Corrupt { what: "column", value: "x".to_owned() };
        let rows = [Ok(1), Err(damaged()), Ok(3)];
        assert_eq!(whole_rows::<_, Vec<_>>("row", rows).unwrap(), [1, 3]);
        assert!(whole_rows::<i32, Vec<_>>("row", [Ok(1), Err(DbError::Busy)]).is_err());
    }
}
