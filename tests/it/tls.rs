//! TLS to PostgreSQL, on a server with a certificate that it signed itself.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use feedmill::db::{PgDb, Session as _};
use tempfile::TempDir;

/// A throw-away server, gone with the test.
struct Server {
    dir: TempDir,
    url: String,
}

fn script(args: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/postgres");
    let output = Command::new(script).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl Server {
    fn start() -> Option<Self> {
        if std::env::var("FEEDMILL_TEST_POSTGRES").is_ok_and(|url| url == "off") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        // The server's own user has to reach it.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let url = script(&["start", dir.path().join("pg").to_str().unwrap(), "--tls"]);
        Some(Self { dir, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        script(&["stop", self.dir.path().join("pg").to_str().unwrap()]);
    }
}

/// Whether the connection is encrypted, or why there is none.
async fn encrypted(url: &str) -> Result<bool, String> {
    let db = PgDb::connect(url, None).await.map_err(|error| error.to_string())?;
    let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let row = db.client().await.unwrap().query_one(sql, &[]).await.unwrap();
    db.close().await;
    Ok(row.get(0))
}

#[tokio::test]
async fn every_mode_encrypts_and_trusts_as_libpq_does() {
    let Some(server) = Server::start() else { return };
    // The certificate can be read by the server's user and by root only.
    let kept = server.dir.path().join("pg/data/server.crt");
    let root = server.dir.path().join("root.crt");
    std::fs::copy(&kept, &root).unwrap();
    let root = format!("sslrootcert={}", root.display());
    let by_name = server.url.replace("127.0.0.1", "localhost");
    let url = |url: &str, query: &str| format!("{url}?{query}");

    assert_eq!(encrypted(&server.url).await, Ok(true), "prefer is what is usual");
    assert_eq!(encrypted(&url(&server.url, "sslmode=disable")).await, Ok(false));
    assert_eq!(encrypted(&url(&server.url, "sslmode=require")).await, Ok(true));
    for mode in ["require", "verify-ca", "verify-full"] {
        let given = url(&by_name, &format!("sslmode={mode}&{root}"));
        assert_eq!(encrypted(&given).await, Ok(true), "{mode}");
    }
    // Signed by somebody trusted, but for another name.
    let another = format!("{}&{root}", url(&server.url, "sslmode=verify-ca"));
    assert_eq!(encrypted(&another).await, Ok(true));
    let another = format!("{}&{root}", url(&server.url, "sslmode=verify-full"));
    let told = encrypted(&another).await.unwrap_err();
    assert!(told.contains("not valid for name"), "{told}");
    // Signed by nobody that the system trusts.
    for mode in ["verify-ca", "verify-full"] {
        let told = encrypted(&url(&by_name, &format!("sslmode={mode}"))).await.unwrap_err();
        assert!(told.contains("invalid peer certificate"), "{mode}: {told}");
    }
    // A root certificate of somebody else.
    let other = server.dir.path().join("other.crt");
    let key = server.dir.path().join("other.key");
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other", "-out"])
        .arg(&other)
        .arg("-keyout")
        .arg(&key)
        .output()
        .unwrap();
    assert!(made.status.success());
    let wrong = url(&by_name, &format!("sslmode=require&sslrootcert={}", other.display()));
    let told = encrypted(&wrong).await.unwrap_err();
    assert!(told.contains("invalid peer certificate"), "{told}");
    // News from other processes comes over TLS as well.
    let store = feedmill::db::PgDb::open(&url(&by_name, "sslmode=require"), None).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_server_without_tls_is_refused_when_it_is_required() {
    let Some(database) = crate::postgres::database().await else { return };
    assert_eq!(encrypted(&database.url).await, Ok(false), "prefer goes without");
    let told = encrypted(&format!("{}?sslmode=require", database.url)).await.unwrap_err();
    assert!(told.contains("TLS"), "{told}");
}
