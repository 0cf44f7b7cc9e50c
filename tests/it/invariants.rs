//! What must hold between any two transactions, whatever was killed, read past the product.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use feedmill::db::Connection;
use feedmill::frontier::TaskFilter;
use feedmill::model::{FetchRecord, RawRef};
use feedmill_formats::warc;

use crate::postgres::connect;
use crate::support::World;

/// What must not be, in a dialect that both databases speak. Kinds of tasks: 0 is robots.txt, which
/// never waits in a queue, and 6 an article; status 0 is pending, code 0 is fine. Kinds of events: 0
/// is a new entry, 10 and 12 a new article.
const NEVER: &[(&str, &str)] = &[
    (
        "a pending task waits nowhere",
        "SELECT count(*) FROM task t WHERE t.status = 0 AND t.kind <> 0
           AND NOT EXISTS(SELECT 1 FROM queue q WHERE q.task_id = t.id)
           AND NOT EXISTS(SELECT 1 FROM delayed d WHERE d.task_id = t.id)",
    ),
    (
        "a task waits in two places",
        "SELECT count(*) FROM queue q JOIN delayed d ON d.task_id = q.task_id",
    ),
    (
        "what is done waits",
        "SELECT count(*) FROM task t WHERE t.status <> 0
           AND (EXISTS(SELECT 1 FROM queue q WHERE q.task_id = t.id)
             OR EXISTS(SELECT 1 FROM delayed d WHERE d.task_id = t.id))",
    ),
    (
        "a host's head is not its queue's",
        "SELECT count(*) FROM host h WHERE h.concurrency = 1 AND h.queue_id = h.id
           AND (coalesce(h.top_page, 0) <> coalesce((SELECT 10 - min(q.nprio) FROM queue q
               WHERE q.host_id = h.id AND q.lane = 1), 0)
             OR coalesce(h.top_poll, 0) <> coalesce((SELECT 10 - min(q.nprio) FROM queue q
               WHERE q.host_id = h.id AND q.lane = 0), 0))",
    ),
    (
        "an article was told twice",
        "SELECT count(*) FROM (SELECT subject FROM event WHERE kind IN (10, 12)
           GROUP BY subject HAVING count(*) > 1) twice",
    ),
    (
        "an entry was told twice",
        "SELECT count(*) FROM (SELECT subject FROM event WHERE kind = 0
           GROUP BY subject HAVING count(*) > 1) twice",
    ),
    (
        "an article was not told",
        "SELECT (SELECT count(*) FROM article)
           - (SELECT count(*) FROM event WHERE kind IN (10, 12))",
    ),
    (
        "a page was done twice",
        "SELECT count(*) FROM (SELECT f.task_id FROM \"fetch\" f JOIN task t ON t.id = f.task_id
           WHERE t.kind = 6 AND f.code = 0 GROUP BY f.task_id HAVING count(*) > 1) twice",
    ),
];

/// Holds an embedded database to it, while no engine runs.
pub(crate) fn hold_in_file(path: &Path) {
    let conn = Connection::open(path).unwrap();
    for (breach, sql) in NEVER {
        let found: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(found, 0, "{breach}");
    }
}

/// Holds a shared database to it, also while engines run.
pub(crate) async fn hold_on_server(url: &str) {
    let client = connect(url).await;
    for (breach, sql) in NEVER {
        let found: i64 = client.query_one(*sql, &[]).await.unwrap().get(0);
        assert_eq!(found, 0, "{breach}");
    }
}

/// Every request in the database has its record in one of these archives, whole and its own.
pub(crate) async fn hold_archived(world: &World, archives: &[PathBuf]) {
    let mut records = 0;
    for task in world.tasks(TaskFilter::default()).await {
        for fetch in world.store.fetches(task.id, usize::from(u16::MAX)).await.unwrap() {
            if let Some(raw) = &fetch.raw {
                hold_record(&fetch, raw, archives);
                records += 1;
            }
        }
    }
    assert!(records > 0, "there is nothing to look at");
}

fn hold_record(fetch: &FetchRecord, raw: &RawRef, archives: &[PathBuf]) {
    let names = [raw.segment.clone(), format!("{}.open", raw.segment)];
    let paths = archives.iter().flat_map(|dir| names.iter().map(|name| dir.join(name)));
    let path = paths.into_iter().find(|path| fs::exists(path).unwrap());
    let mut file = File::open(path.unwrap_or_else(|| panic!("no {}", raw.segment))).unwrap();
    file.seek(SeekFrom::Start(raw.offset)).unwrap();
    let mut bytes = Vec::new();
    file.take(raw.length).read_to_end(&mut bytes).unwrap();
    let record = warc::read_member(&bytes, 1 << 30).unwrap();
    assert_eq!(record.fields.target_uri(), Some(fetch.url.as_str()));
}
