//! Who decides where requests go: the configuration file, not a list and not a setting of the database.

use std::fs;

use super::Desk;

const URL: &str = "https://alder.example/feed";

#[test]
fn a_proxy_of_a_source_is_public_or_allowed_by_the_configuration() {
    let desk = Desk::new();
    let add = ["source", "add", "--no-check", URL, "--name", "alder"];
    for proxy in [
        "http://169.254.169.254",
        "http://10.0.0.1:3128",
        "http://2130706433:8080",
        "socks5h://0177.1:1080",
        "socks5://[::ffff:127.0.0.1]:1080",
        "https://localhost:8443",
    ] {
        let words = "the source's proxy is refused";
        desk.fails(&[&add[..], &["--proxy", proxy]].concat(), 2, words);
    }
    desk.ok(&add);
    let private = ["--proxy", "http://ann:hunter2@10.0.0.1:3128"];
    for command in ["access", "set"] {
        let args = [&["source", command, "alder"], &private[..]].concat();
        let told = desk.fails(&args, 2, "fetch.allow_networks can allow it");
        assert!(!told.contains("hunter2"), "{told}");
        desk.ok(&[&args[..], &["--set", "fetch.allow_networks=10.0.0.0/8"]].concat());
        desk.ok(&["source", "access", "alder", "--clear"]);
    }
    desk.ok(&["source", "access", "alder", "--proxy", "socks5h://proxy.example:1080"]);
    // It says so even where it was stored before.
    assert!(desk.ok(&["source", "show", "alder"]).contains("proxy.example"));
}

#[test]
fn a_list_never_says_how_its_sources_are_asked() {
    let desk = Desk::new();
    let list = r#"[{"name": "alder", "feed_url": "https://alder.example/feed",
        "access": {"proxy": "http://169.254.169.254", "cookie": "id=1"}}]"#;
    fs::write(desk.path().join("list.json"), list).unwrap();
    let told = desk.json(&["source", "import", "list.json"]);
    assert_eq!(told["added"], 1, "{told}");
    assert!(told["notes"][0].as_str().unwrap().contains("`access` is ignored"), "{told}");
    let shown = desk.json(&["source", "show", "alder"]).to_string();
    assert!(!shown.contains("169.254") && !shown.contains("***"), "{shown}");
}

#[test]
fn settings_that_widen_access_are_not_kept_in_the_database() {
    let desk = Desk::new();
    desk.ok(&["source", "add", "--no-check", URL]);
    for (key, value) in [
        ("sources.manager.token_file", "/etc/hostname"),
        ("fetch.allow_networks", "0.0.0.0/0"),
        ("api.open_on_loopback", "true"),
        ("sinks.ndjson.dir", "/tmp"),
    ] {
        desk.fails(&["config", "set", key, value], 2, "cannot be changed at run time");
    }
    desk.ok(&["config", "set", "schedule.default_interval", "30m"]);
}
