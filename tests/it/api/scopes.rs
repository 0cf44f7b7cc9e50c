//! Who may do what, over every operation that the document names.

use feedmill::config::Config;
use feedmill::store::gate::{self, Scope};
use serde_json::Value;

use super::{Server, new_worlds, token};
use crate::kill::binary;
use crate::process::Process;
use crate::support::{World, until};

/// Every operation with the scope that it needs; nothing for those that everybody may use.
fn operations() -> Vec<(String, String, Option<Scope>)> {
    let said: Value = serde_json::from_str(&feedmill::api::openapi()).unwrap();
    let mut all = Vec::new();
    for (path, item) in said["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scope = operation["security"][0]["token"][0].as_str();
            let scope = scope.map(|scope| scope.parse().unwrap());
            // Nobody has these ids, so that nothing happens to anybody.
            let path = path.replace(['{', '}'], "");
            all.push((method.to_uppercase(), path, scope));
        }
    }
    assert!(all.len() > 50, "{}", all.len());
    all
}

/// Where a world is, for commands.
fn place(world: &World) -> [String; 4] {
    let (dir, url) = (world.config.data_dir.display(), world.config.postgres_url());
    let url = format!("database.url={}", url.unwrap_or_default());
    ["--data-dir".into(), dir.to_string(), "--set".into(), url]
}

fn closed(config: &mut Config) {
    config.api.open_on_loopback = false;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_wants_its_scope() {
    for (world, _database) in new_worlds(1, 1).await {
        wants_scopes(&world).await;
    }
}

async fn wants_scopes(world: &World) {
    let server = Server::start(world, closed).await;
    let mut tokens = Vec::new();
    for (seed, scope) in (1..).zip(Scope::ALL) {
        tokens.push((*scope, token(world, scope.as_str(), *scope, seed).await));
    }
    for (method, path, needed) in operations() {
        if path.ends_with("/stream") {
            continue;
        }
        let without = server.ask(&method, &path, &[], "").await;
        let Some(needed) = needed else {
            assert!(without.status < 400, "{method} {path}: {}", without.status);
            continue;
        };
        assert_eq!(without.status, 401, "{method} {path}");
        assert_eq!(without.header("www-authenticate"), Some("Bearer"));
        for (scope, token) in &tokens {
            let bearer = format!("Bearer {token}");
            let status = server.ask(&method, &path, &[("authorization", &bearer)], "").await.status;
            match *scope >= needed {
                true => {
                    assert!(!matches!(status, 401 | 403), "{method} {path} as {scope}: {status}")
                }
                false => assert_eq!(status, 403, "{method} {path} as {scope}"),
            }
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_open_loopback_only_an_administrators_operations_want_a_token() {
    let (world, _database) = new_worlds(1, 1).await.swap_remove(0);
    let server = Server::start(&world, |_| {}).await;
    let mut admins = 0;
    for (method, path, needed) in operations() {
        if path.ends_with("/stream") {
            continue;
        }
        let status = server.ask(&method, &path, &[], "").await.status;
        match needed == Some(Scope::Admin) {
            true => assert_eq!(status, 401, "{method} {path}"),
            false => assert!(!matches!(status, 401 | 403), "{method} {path}: {status}"),
        }
        admins += usize::from(needed == Some(Scope::Admin));
        // What a proxy sends is nobody's without a token.
        let sent = [("x-forwarded-for", "192.0.2.1")];
        let status = server.ask(&method, &path, &sent, "").await.status;
        assert_eq!(status == 401, needed.is_some(), "{method} {path} through a proxy: {status}");
    }
    assert!(admins >= 7, "{admins}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_until_it_is_revoked_and_only_as_it_is() {
    for (world, database) in new_worlds(1, 1).await {
        is_good_until_revoked(&world).await;
        if database.is_none() {
            // It is nowhere to be read, neither in the store nor through the API.
            let file = std::fs::read(world.config.database_path()).unwrap();
            let token = "fm_0707070707";
            assert!(!file.windows(token.len()).any(|part| part == token.as_bytes()));
        }
    }
}

async fn is_good_until_revoked(world: &World) {
    let server = Server::start(world, closed).await;
    let token = token(world, "dash", Scope::Read, 7).await;
    assert!(token.starts_with("fm_0707070707"), "{token}");
    let ask =
        async |sent: &str| server.ask("GET", "/api/v1/me", &[("authorization", sent)], "").await;
    let good = ask(&format!("Bearer {token}")).await;
    let me = good.json();
    assert_eq!(
        (&me["name"], &me["scope"], &me["open"]),
        (&"dash".into(), &"read".into(), &false.into())
    );
    assert!(me["at"].is_string() && me["rate"].as_f64().is_some_and(|rate| rate > 1.0), "{me}");
    assert_eq!(ask(&format!("bearer {token}")).await.status, 200);
    let (mut forged, last) = (token.clone(), token.ends_with('0'));
    forged.pop();
    forged.push(if last { '1' } else { '0' });
    for bad in [
        format!("Bearer {forged}"),
        format!("Basic {token}"),
        token.clone(),
        "Bearer fm_".into(),
        "Bearer ".into(),
    ] {
        assert_eq!(ask(&bad).await.status, 401, "{bad}");
    }
    let kept = gate::tokens(&*world.store).await.unwrap();
    assert!(kept[0].used_at.is_some());
    assert!(!format!("{kept:?}").contains(&token));
    assert!(gate::revoke(&*world.store, "dash").await.unwrap());
    assert_eq!(ask(&format!("Bearer {token}")).await.status, 401);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_others_reach_needs_a_token_and_a_port_of_its_own() {
    for (world, _database) in new_worlds(1, 1).await {
        needs_token_and_port(&world).await;
    }
}

async fn needs_token_and_port(world: &World) {
    let run = |listen: &str| {
        let set = format!("api.listen={listen}");
        let arguments = ["run", "--roles", "api", "--set", &set, "--json"];
        let output = binary().args(arguments).args(place(world)).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap() + &String::from_utf8(output.stdout).unwrap()
    };
    let open = run("0.0.0.0:0");
    assert!(open.contains("no_token") && open.contains("feedmill token create"), "{open}");
    let server = Server::start(world, |_| {}).await;
    let taken = run(&server.address.to_string());
    assert!(taken.contains("cannot_listen") && taken.contains("api.listen"), "{taken}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_made_listed_revoked_and_audited_by_command() {
    for (world, _database) in new_worlds(1, 1).await {
        tokens_by_command(&world).await;
    }
}

async fn tokens_by_command(world: &World) {
    let run = |arguments: &[&str]| {
        let output = binary().args(arguments).args(place(world)).arg("--json").output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    let made = run(&["token", "create", "dash", "--scope", "write"]);
    let token = made["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("fm_") && token.len() == 67, "{made}");
    assert_ne!(run(&["token", "create", "other", "--scope", "read"])["token"], token.as_str());
    assert!(run(&["token", "create", "dash", "--scope", "read"])["token"].is_null());
    let listed = run(&["token", "list"]);
    assert_eq!(listed["tokens"][0]["name"], "dash");
    assert!(!listed.to_string().contains(&token));

    let server = Server::start(world, closed).await;
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let answer = server
        .ask("POST", "/api/v1/frontier/submit", &headers, r#"{"url":"https://a.example/"}"#)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let book = run(&["token", "audit"]);
    assert_eq!(book["audit"][0]["who"], "dash", "{book}");
    assert_eq!(book["audit"][0]["path"], "/api/v1/frontier/submit");
    assert_eq!(run(&["token", "revoke", "dash"])["revoked"], "dash");
    assert_eq!(server.ask("GET", "/api/v1/me", &headers, "").await.status, 401);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_an_engine_knows_the_figures_of_the_store() {
    for (world, _database) in new_worlds(3, 1).await {
        world.follow().await;
        let token = token(&world, "monitor", Scope::Read, 5).await;
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let set = format!("api.listen=127.0.0.1:{port}");
        let arguments = ["run", "--roles", "api", "--set", &set];
        let mut child = Process::spawn(binary().args(arguments).args(place(&world)));
        let bearer = format!("Bearer {token}");
        let server = Server::at(([127, 0, 0, 1], port).into());
        until("the figures of the store", async || {
            if tokio::net::TcpStream::connect(server.address).await.is_err() {
                return false;
            }
            let told = server.ask("GET", "/metrics", &[("authorization", &bearer)], "").await;
            told.text().lines().any(|line| line == "feedmill_sources 3")
        })
        .await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
