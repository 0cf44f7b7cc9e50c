//! Servers with certificates of their own, and a pipe that is nobody else's.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use feedmill::app::deliver;
use feedmill::config::{Sink as Configured, Span, Target};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::faults::publish;
use super::servers::redis_server;
use super::targets::{drain, read};
use crate::kill::command;
use crate::process::Process;
use crate::support::World;

/// Runs openssl in a directory.
fn openssl(dir: &Path, args: &str) {
    let done = Command::new("openssl").args(args.split(' ')).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Takes connections in with a certificate that somebody signed whom no system knows: `ca.pem` in the
/// directory.
fn acceptor(dir: &Path) -> TlsAcceptor {
    openssl(
        dir,
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca",
    );
    openssl(dir, "req -newkey rsa:2048 -nodes -keyout key.pem -out csr.pem -subj /CN=localhost");
    fs::write(dir.join("ext"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(
        dir,
        "x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out cert.pem",
    );
    let cert = CertificateDer::from_pem_file(dir.join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A cluster behind such a certificate.
async fn cluster(dir: &Path) -> String {
    let acceptor = acceptor(dir);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    TaskTracker::new().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = vec![0; 4096];
            drop(stream.read(&mut head).await);
            let body = r#"{"version": {"number": "9.1.0"}}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
            drop(stream.shutdown().await);
        }
    });
    url
}

/// A way to another server that leads through such a certificate.
async fn covered(dir: &Path, port: u16) -> SocketAddr {
    let acceptor = acceptor(dir);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    TaskTracker::new().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut inside = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            TaskTracker::new().spawn(async move {
                drop(tokio::io::copy_bidirectional(&mut stream, &mut inside).await);
            });
        }
    });
    address
}

/// What a cluster there is said to be, or why nothing is.
async fn asked(world: &World, url: &str, root: &Path) -> Result<String, String> {
    let mut target = Target::elasticsearch(url.to_owned().into());
    if let Target::Elasticsearch { root_cert, .. } = &mut target {
        *root_cert = root.to_owned();
    }
    checked(world, target).await
}

async fn checked(world: &World, target: Target) -> Result<String, String> {
    let mut config = world.config.clone();
    config.sinks = [("sink".to_owned(), Configured::new(target))].into();
    let made = deliver::sink("sink", &config, &world.clock, &world.store);
    let (mut sink, _) = made.map_err(|error| error.to_string())?.unwrap();
    sink.check().await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_trusted_by_its_own_certificate() {
    // As in the tests of PostgreSQL's TLS: without servers there need be no openssl either.
    if std::env::var("FEEDMILL_TEST_POSTGRES").is_ok_and(|url| url == "off") {
        return;
    }
    let world = World::new(1, 1).await;
    let dir = world.dir();
    let url = cluster(dir).await;
    let told = asked(&world, &url, Path::new("")).await.unwrap_err();
    assert!(told.contains("certificate"), "{told}");
    let who = asked(&world, &url, &dir.join("ca.pem")).await.unwrap();
    assert!(who.ends_with("elasticsearch 9.1.0"), "{who}");
    for (file, words) in [("none.pem", "No such file"), ("key.pem", "holds no certificate")] {
        let told = asked(&world, &url, &dir.join(file)).await.unwrap_err();
        assert!(told.contains(words), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_trusted_by_its_own_certificate_and_has_what_was_delivered() {
    let Some((server, mut redis, url)) = redis_server().await else { return };
    let world = read(1, 2).await;
    let address = covered(world.dir(), server.port).await;
    let inside = format!("127.0.0.1:{}", server.port);
    let url = url.replace("redis://", "rediss://").replace(&inside, &address.to_string());
    let target = |root_cert: &str| {
        let root_cert = if root_cert.is_empty() { "".into() } else { world.dir().join(root_cert) };
        let (url, timeout) = (url.clone().into(), Span::seconds(10));
        Target::RedisStream { url, root_cert, key: "told".to_owned(), max_len: 0, timeout }
    };
    for (root_cert, words) in
        [("", "certificate"), ("none.pem", "No such file"), ("key.pem", "holds no certificate")]
    {
        let told = checked(&world, target(root_cert)).await.unwrap_err();
        assert!(told.contains(words), "{told}");
    }
    let said = checked(&world, target("ca.pem")).await.unwrap();
    assert!(said.starts_with("rediss://") && said.ends_with("answers"), "{said}");
    drain(&world, "told", Configured::new(target("ca.pem"))).await;
    let told: u64 = redis::cmd("XLEN").arg("told").query_async(&mut redis).await.unwrap();
    assert!(told > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_output_has_lines_and_nothing_else_and_holds_nobody_up() {
    let world = read(1, 2).await;
    // More than a pipe takes.
    publish(&world.config.database_path(), 1, 200, world.clock.now().ms());
    let sink = ["sinks.out.kind=stdout"];
    let mut child = Process::spawn(
        command(&world, &world.config.data_dir, None, &sink)
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    );
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    // Nobody reads on, and it ends all the same.
    assert!(crate::kill::terminate(&mut child));
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let whole =
        (first + &rest).lines().map(serde_json::from_str::<Value>).filter(Result::is_ok).count();
    assert!(whole > 1);
    // With a reader every line is an event.
    let mut child = Process::spawn(
        command(&world, &world.config.data_dir, None, &sink)
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    );
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let last = world.store.log_ends(0).await.unwrap().last;
    let place =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["event"]["seq"].as_i64().unwrap();
    while place(&lines.next().unwrap().unwrap()) < last {}
    assert!(crate::kill::terminate(&mut child));
    for line in lines {
        place(&line.unwrap());
    }
}
