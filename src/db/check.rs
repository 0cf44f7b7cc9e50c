//! Whether the pages of an embedded database fit together.

use std::path::{Path, PathBuf};
use std::thread;

use rusqlite::OpenFlags;
use tokio::sync::oneshot;

use super::{DbError, file};

/// Reads the whole file in a thread of its own; what is wrong with it, if anything. When nobody waits
/// for the answer any more, `late` hears of damage.
pub fn quick_check(
    path: &Path,
    late: impl FnOnce(String) + Send + 'static,
) -> oneshot::Receiver<Option<String>> {
    let (answer, done) = oneshot::channel();
    let path: PathBuf = path.to_owned();
    let check = move || {
        if let Err(Some(damage)) = answer.send(damage(&path)) {
            late(damage);
        }
    };
    // Without a thread there is no check: whoever waits is not held up.
    drop(thread::Builder::new().name("feedmill-check".into()).spawn(check));
    done
}

/// What SQLite says of a file; nothing when it is sound, or when another process keeps it from looking.
fn damage(path: &Path) -> Option<String> {
    let said = file::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(|conn| {
        let look = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        look.map_err(|error| DbError::opening(path, error))
    });
    match said {
        Ok(verdict) => (verdict != "ok").then(|| verdict.replace('\n', " ")),
        Err(DbError::Damaged { message, .. }) => Some(message),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::db::Db;

    #[tokio::test]
    async fn a_damaged_page_is_found_also_when_nobody_waits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        Db::open(&path).unwrap().close().await;
        assert_eq!(quick_check(&path, |_| {}).await, Ok(None));
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0xa5; 4_096], 4_096).unwrap();
        assert!(quick_check(&path, |_| {}).await.unwrap().is_some());
        let (tell, told) = oneshot::channel();
        drop(quick_check(&path, move |damage| tell.send(damage).unwrap()));
        // It was answered before that, or it is told.
        assert!(told.await.map_or(true, |damage| !damage.is_empty()));
    }
}
