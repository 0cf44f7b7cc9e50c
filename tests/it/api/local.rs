//! Who is taken for a program on this machine: no stranger whom a reverse proxy brings here. The Unix
//! socket and the login link, which stand for a token.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use feedmill::store::gate::Scope;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{Answer, Server, new_worlds, token};
use crate::kill::{ANYWHERE, binary, terminate};
use crate::support::{World, until};

/// The account that owns nothing.
const NOBODY: u32 = 65_534;
const READ: &str = "/api/v1/sources";
const ADMIN: &str = "/api/v1/audit";

#[tokio::test(flavor = "multi_thread")]
async fn open_loopback_reads_and_writes_and_is_no_administrator() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let me = server.json("/api/v1/me").await;
    assert_eq!(
        (&me["name"], &me["scope"], &me["open"]),
        (&json!("local"), &json!("write"), &json!(true))
    );
    assert_eq!(server.get(READ).await.status, 200);
    let made = json!({"url": "https://alder.example/"});
    assert_eq!(server.send("POST", READ, &made).await.status, 201);
    for (method, path) in [
        ("GET", ADMIN),
        ("GET", "/api/v1/tokens"),
        ("GET", "/api/v1/takedowns"),
        ("POST", "/api/v1/takedowns"),
        ("PUT", "/api/v1/config/schedule.default_interval"),
        ("DELETE", "/api/v1/config/schedule.default_interval"),
    ] {
        let told = server.send(method, path, &json!({"value": "30m"})).await;
        assert_eq!((told.status, &*told.code()), (401, "unauthorized"), "{method} {path}");
        assert_eq!(told.header("www-authenticate"), Some("Bearer"));
        assert!(told.text().contains("--scope admin"), "{}", told.text());
    }
    // The login link of this run opens all of it, and nothing like it does.
    for (bearer, status) in [
        (format!("Bearer {}", server.login), 200),
        (format!("Bearer {}0", server.login), 401),
        ("Bearer fml_".to_owned(), 401),
        (server.login.clone(), 401),
    ] {
        let told = server.ask("GET", ADMIN, &[("authorization", &bearer)], "").await;
        assert_eq!(told.status, status, "{}", told.text());
    }
    let other = Server::start(&world, |_| {}).await;
    let bearer = format!("Bearer {}", server.login);
    let told = other.ask("GET", READ, &[("authorization", &bearer)], "").await;
    assert_eq!(told.status, 401, "it is of another run, and a token that is sent counts");
    other.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_through_a_proxy_needs_a_token() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let public = |config: &mut feedmill::config::Config| {
        config.api.public_url = "https://news.example".to_owned();
    };
    let server = Server::start(&world, public).await;
    let bearer = format!("Bearer {}", token(&world, "reader", Scope::Read, 1).await);
    let at = server.address.to_string();
    let lines: &[(&str, &str)] = &[
        ("forwarded", "for=192.0.2.1"),
        ("x-forwarded-for", "127.0.0.1"),
        ("X-Forwarded-Host", "127.0.0.1"),
        ("x-real-ip", ""),
        ("via", "1.1 proxy"),
        ("cf-connecting-ip", "127.0.0.1"),
        ("host", "news.example"),
        ("host", "localhost:9999"),
    ];
    for line in lines {
        let told = server.ask("GET", READ, &[*line], "").await;
        assert_eq!((told.status, &*told.code()), (401, "unauthorized"), "{line:?}");
        let with = server.ask("GET", READ, &[*line, ("authorization", &bearer)], "").await;
        assert_eq!(with.status, 200, "{line:?}");
        let open = server.ask("GET", "/healthz", &[*line], "").await;
        assert_eq!(open.status, 200, "health is everybody's");
    }
    let raw = async |text: String| server.raw(text.as_bytes()).await.status;
    let old = format!("GET {READ} HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    assert_eq!(raw(old.clone()).await, 401, "as nginx asks");
    assert_eq!(
        raw(old.replace("Connection: close", &format!("Authorization: {bearer}"))).await,
        200
    );
    let new = |more: &str| format!("GET {READ} HTTP/1.1\r\n{more}Connection: close\r\n\r\n");
    assert_eq!(raw(new(&format!("Host: {at}\r\n"))).await, 200);
    assert!(raw(new("")).await >= 400, "no Host");
    assert!(raw(new(&format!("Host: {at}\r\nHost: {at}\r\n"))).await >= 400, "two of them");
    let twice = format!("Host: {at}\r\nAuthorization: {bearer}\r\nAuthorization: {bearer}\r\n");
    assert_eq!(raw(new(&twice)).await, 401, "two tokens are none");
    let whole = new(&format!("Host: {at}\r\n")).replace("GET /", "GET http://evil.example/");
    assert_eq!(raw(whole).await, 421, "the request line names another host");
    server.stop().await;
}

/// nginx before a server, in a directory of its own.
struct Nginx {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Nginx {
    /// Nothing when `FEEDMILL_TEST_NGINX` is `off`. `more` are lines beside `proxy_pass`; without an `account` it
    /// runs under our own.
    async fn start(upstream: SocketAddr, more: &str, account: Option<u32>) -> Option<Self> {
        if std::env::var("FEEDMILL_TEST_NGINX").is_ok_and(|said| said == "off") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let here = dir.path().display();
        let config = format!(
            "daemon off; master_process off; pid {here}/pid; error_log {here}/error.log;
             events {{}}
             http {{
               access_log off; client_body_temp_path {here}/b; proxy_temp_path {here}/p;
               fastcgi_temp_path {here}/f; uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
               server {{ listen {address}; location / {{ proxy_pass http://{upstream}; {more} }} }}
             }}"
        );
        std::fs::write(dir.path().join("nginx.conf"), config).unwrap();
        let mut nginx = Command::new("nginx");
        if let Some(account) = account {
            std::os::unix::fs::chown(dir.path(), Some(account), Some(account)).unwrap();
            nginx.uid(account).gid(account);
        }
        let child = nginx
            .args(["-p", &here.to_string(), "-c", &format!("{here}/nginx.conf")])
            .args(["-e", &format!("{here}/error.log")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect(
                "this test needs nginx: run scripts/test, which sees to it, or leave it out with \
                 FEEDMILL_TEST_NGINX=off",
            );
        let nginx = Self { child, address, _dir: dir };
        until("nginx listens", || async { std::net::TcpStream::connect(address).is_ok() }).await;
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_every_stranger_needs_a_token() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let bearer = format!("Bearer {}", token(&world, "reader", Scope::Read, 1).await);
    let newer = "proxy_http_version 1.1; proxy_set_header Connection \"\";";
    let telling = "proxy_http_version 1.1; proxy_set_header X-Forwarded-For $remote_addr;";
    let mut ways = vec![("", None), (telling, None)];
    // Only root can run a proxy under another account.
    let is_root = rustix::process::geteuid().is_root();
    ways.extend(is_root.then_some((newer, Some(NOBODY))));
    for (more, account) in ways {
        let Some(nginx) = Nginx::start(server.address, more, account).await else { return };
        let through = Server::at(nginx.address);
        assert_eq!(through.get("/healthz").await.status, 200);
        for path in [READ, ADMIN, "/api/v1/me", "/metrics"] {
            assert_eq!(through.get(path).await.status, 401, "{path} {more}");
        }
        let made = json!({"url": "https://alder.example/"});
        assert_eq!(through.send("POST", READ, &made).await.status, 401);
        // A stranger may send whatever a local program would.
        let lie = [("host", server.address.to_string())];
        let lie: Vec<_> = lie.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(through.ask("GET", READ, &lie, "").await.status, 401, "{more}");
        let with = through.ask("GET", READ, &[("authorization", &bearer)], "").await;
        assert_eq!(with.status, 200, "{}", with.text());
    }
    server.stop().await;
}

async fn on_socket(path: &Path, request: &str) -> Answer {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    Answer::read(&answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unix_socket_needs_no_token_and_no_proxy_may_use_it() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let path = world.dir().join("api.sock");
    let server = Server::start(&world, |config| {
        config.api.open_on_loopback = false;
        config.api.socket = path.clone();
    })
    .await;
    let ask = async |version: &str, host: &str, more: &str| {
        let request = format!(
            "GET {ADMIN} HTTP/{version}\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"
        );
        on_socket(&path, &request).await
    };
    assert_eq!(server.get(ADMIN).await.status, 401);
    let answer = ask("1.1", "localhost", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    for (version, host, more) in [
        ("1.0", "localhost", ""),
        ("1.1", "localhost", "X-Forwarded-For: 192.0.2.1\r\n"),
        ("1.1", "localhost", "Authorization: Bearer fm_nobody\r\n"),
    ] {
        assert_eq!(ask(version, host, more).await.status, 401, "{version} {host} {more}");
    }
    let audit = ask("1.1", "localhost", "").await.json();
    let who = &audit["items"][0]["who"];
    assert_eq!(who, "refused login from unix socket (1 in a row)", "{audit}");
    assert_eq!(ask("1.1", "news.example", "").await.status, 421);
    server.stop().await;
    assert!(!path.exists(), "it goes with the server");
}

/// The program with its output on a terminal, or not.
fn start(world: &World, terminal: bool) -> Child {
    let program = binary();
    let mut command = match terminal {
        false => binary(),
        true => {
            let mut script = Command::new("script");
            script.args(["--quiet", "--return", "--flush", "/dev/null", "--command"]);
            script
        }
    };
    let dir = world.config.data_dir.display();
    let arguments = format!("run --roles api --data-dir {dir} --set {ANYWHERE}");
    match terminal {
        false => command.args(arguments.split(' ')),
        true => command.arg(format!("{} {arguments}", program.get_program().display())),
    };
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("FEEDMILL_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_a_login_link_and_nothing_else_does() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let mut child = start(&world, true);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("#token=")).expect("a link");
    let link = line.split_once("http://").unwrap().1.trim();
    let (address, token) = link.split_once("/#token=").unwrap();
    let token: String = token.chars().take_while(char::is_ascii_graphic).collect();
    let server = Server::at(address.parse().unwrap());
    let told = server.ask("GET", ADMIN, &[("authorization", &format!("Bearer {token}"))], "").await;
    assert_eq!(told.status, 200, "{}", told.text());
    // It ends the program and then itself, which is no success to it.
    terminate(&mut child);

    let mut child = start(&world, false);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("the dashboard and the API are at") {
        assert!(errors.read_line(&mut said).unwrap() > 0, "{said}");
    }
    terminate(&mut child);
    errors.read_to_string(&mut said).unwrap();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!said.contains("token="), "{said}");
}
