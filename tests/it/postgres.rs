//! A database of its own for each test, on the server that `FEEDMILL_TEST_POSTGRES` names.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use feedmill::db::{PgDb, Session as _};
use tokio_postgres::{Client, NoTls};

/// A database that is gone when the test is.
pub(crate) struct Database {
    /// Its address.
    pub(crate) url: String,
    server: String,
    name: String,
}

/// The server's address; `None` when tests that need one are to be left out.
pub(crate) fn server() -> Option<String> {
    match std::env::var("FEEDMILL_TEST_POSTGRES") {
        Ok(off) if off == "off" => None,
        Ok(url) => Some(url),
        Err(_) => panic!(
            "this test needs PostgreSQL: run scripts/test, which starts a server, or put the URL that \
             `scripts/postgres start DIR` prints into FEEDMILL_TEST_POSTGRES (`off` leaves such tests out)"
        ),
    }
}

/// A plain connection, past the product.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "it ends with its client")]
    tokio::spawn(connection);
    client
}

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A new, empty database; `None` when tests that need one are to be left out.
pub(crate) async fn database() -> Option<Database> {
    let server = server()?;
    let name = format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let client = connect(&server).await;
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (base, _) = server.rsplit_once('/').expect("the URL ends with a database");
    Some(Database { url: format!("{base}/{name}"), server, name })
}

impl Database {
    /// A copy, of what nobody is connected to.
    pub(crate) async fn copy(&self) -> Self {
        let name = format!("{}_{}", self.name, NEXT.fetch_add(1, Ordering::Relaxed));
        let client = connect(&self.server).await;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        client.execute(cut, &[&self.name]).await.unwrap();
        client
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {}", self.name))
            .await
            .unwrap();
        let (base, _) = self.url.rsplit_once('/').expect("the URL ends with a database");
        Self { url: format!("{base}/{name}"), server: self.server.clone(), name }
    }
}

/// Does something that has to be waited for from wherever we are, also from within a runtime.
pub(crate) fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    });
    thread.join().unwrap()
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        apart(async move {
            let client = connect(&server).await;
            let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            // A test that fails must say why, and not that its database could not be dropped.
            drop(client.batch_execute(&sql).await);
        });
    }
}

async fn relations(client: &Client) -> BTreeSet<(String, String)> {
    let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name <> 'schema_version'";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn both_dialects_end_in_the_same_tables_and_columns() {
    let Some(database) = database().await else { return };
    let db = PgDb::open(&database.url, None).await.unwrap();
    let ours = relations(&connect(&database.url).await).await;
    db.close().await;

    let mut embedded = feedmill::db::Connection::open_in_memory().unwrap();
    feedmill::db::migrate::up(&mut embedded).unwrap();
    let sql = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
        WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%'";
    let mut select = embedded.prepare(sql).unwrap();
    let theirs = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let theirs: BTreeSet<(String, String)> = theirs.map(Result::unwrap).collect();
    assert_eq!(ours.symmetric_difference(&theirs).collect::<Vec<_>>(), Vec::<&_>::new());
}

#[tokio::test]
async fn up_and_down_leave_nothing_behind() {
    use feedmill::db::migrate::postgres::{down, status, up};
    let Some(database) = database().await else { return };
    let db = PgDb::connect(&database.url, None).await.unwrap();
    let mut client = db.client().await.unwrap();
    assert!(status(&client).await.unwrap().iter().all(|step| !step.applied));
    let taken = up(&mut client).await.unwrap();
    assert!(!taken.is_empty());
    assert!(up(&mut client).await.unwrap().is_empty());
    assert!(status(&client).await.unwrap().iter().all(|step| step.applied));
    assert_eq!(down(&mut client, usize::MAX).await.unwrap().len(), taken.len());
    let left = "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace
          AND relname NOT LIKE 'schema_version%')
        + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)";
    assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    up(&mut client).await.unwrap();
    let newer = "UPDATE schema_version SET version = 9999
        WHERE version = (SELECT max(version) FROM schema_version)";
    client.execute(newer, &[]).await.unwrap();
    let newer = up(&mut client).await.unwrap_err();
    assert!(newer.to_string().contains("newer feedmill"), "{newer}");
    db.close().await;
}

#[tokio::test]
async fn ten_processes_that_start_at_once_make_one_schema() {
    let Some(database) = database().await else { return };
    let opened = (0..10).map(|_| PgDb::open(&database.url, None));
    for db in futures_util::future::join_all(opened).await {
        db.unwrap().close().await;
    }
}
