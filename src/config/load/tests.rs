//! The layers, seen through `load`: precedence, aliases, secrets, and every message.

use std::fs;

use super::super::{Format, Level, Sink, Size, Span, Target};
use super::*;

/// Options with these variables and flags, and no file.
fn options(env: &[(&str, &str)], flags: &[(&str, &str)]) -> LoadOptions {
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    LoadOptions {
        env: pairs(env).into_iter().collect(),
        overrides: pairs(flags),
        ..LoadOptions::default()
    }
}

/// A `feedmill.toml` with this text, and what loading it gives. The directory's name is cut from
/// messages, so that they can be compared.
fn with_file(text: &str, mut options: LoadOptions) -> Result<Loaded, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("feedmill.toml");
    fs::write(&file, text).unwrap();
    options.file = Some(file);
    load(&options).map_err(|e| e.to_string().replace(&format!("{}/", dir.path().display()), ""))
}

fn refused(text: &str) -> String {
    with_file(text, LoadOptions::default()).unwrap_err()
}

#[test]
fn without_any_layer_there_are_the_defaults() {
    let loaded = load(&LoadOptions::default()).unwrap();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.file, None);
    assert!(loaded.origins.is_empty() && loaded.warnings.is_empty());
}

#[test]
fn flag_wins_over_environment_over_alias_over_file_over_default() {
    let file = "[fetch]\nworkers = 20";
    let canonical = ("FEEDMILL_FETCH__WORKERS", "30");
    let alias = ("WORKER_COUNT", "25");
    let flag = ("fetch.workers", "40");
    for (text, env, flags, workers) in [
        ("", vec![], vec![], 10),
        (file, vec![], vec![], 20),
        (file, vec![alias], vec![], 25),
        (file, vec![canonical], vec![], 30),
        (file, vec![alias, canonical], vec![], 30),
        (file, vec![alias, canonical], vec![flag], 40),
        ("", vec![], vec![flag, ("fetch.workers", "41")], 41),
    ] {
        let loaded = with_file(text, options(&env, &flags)).unwrap();
        assert_eq!(loaded.config.fetch.workers, workers, "{env:?} {flags:?}");
    }
}

#[test]
fn origins_tell_where_each_value_came_from() {
    let text = "data_dir = 'news'\n\n[fetch]\nworkers = 20\nagent = 'x'\n";
    let env = [("HOST_RPS", "2"), ("FEEDMILL_FETCH__AGENT", "y")];
    let loaded = with_file(text, options(&env, &[("log.level", "debug")])).unwrap();
    let path = loaded.file.clone().unwrap();
    let expected = [
        ("data_dir", Origin::File { path: path.clone(), line: 1 }),
        ("fetch.agent", Origin::Env("FEEDMILL_FETCH__AGENT".into())),
        ("fetch.workers", Origin::File { path, line: 4 }),
        ("hosts.delay", Origin::Env("HOST_RPS".into())),
        ("log.level", Origin::Flag),
    ];
    assert_eq!(loaded.origins, expected.map(|(key, origin)| (key.to_owned(), origin)).into());
}

#[test]
fn every_alias_sets_its_key() {
    for (name, key, convert) in ALIASES {
        let (given, expected) = match (key, convert) {
            ("database.url", _) => ("other.db", "\"file:other.db\""),
            ("sources.manager.url", _) => ("http://m:8050", "\"http://m:8050\""),
            ("fetch.agent", _) => ("Mine/1", "\"Mine/1\""),
            ("fetch.max_body", _) => ("2000000", "\"2MB\""),
            ("hosts.delay", _) => ("4", "\"250ms\""),
            ("log.level", _) => ("DEBUG", "\"debug\""),
            ("log.format", _) => ("JSON", "\"json\""),
            ("schedule.jitter", _) => ("0.25", "0.25"),
            (
                "fetch.workers" | "retry.max" | "hosts.concurrency" | "schedule.failure_threshold",
                _,
            ) => ("7", "7"),
            (_, Convert::Millis) => ("7000", "\"7s\""),
            ("fetch.request_timeout", _) => ("7", "\"7s\""),
            _ => ("420", "\"7m\""),
        };
        // Room for each value beside the defaults of its neighbours.
        let flags = [("fetch.task_timeout", "1h"), ("schedule.min_interval", "1m")];
        let flags: Vec<_> = flags.into_iter().filter(|(flag, _)| *flag != key).collect();
        let loaded = load(&options(&[(name, given)], &flags)).unwrap();
        let (_, value) = leaves(&loaded.config).into_iter().find(|(path, _)| path == key).unwrap();
        assert_eq!(value.to_string(), expected, "{name}");
        assert_eq!(loaded.origins[key], Origin::Env(name.to_owned()));
        assert_eq!(loaded.warnings, Vec::<String>::new());
    }
}

#[test]
fn an_alias_that_loses_is_warned_about() {
    let env = [("WORKER_COUNT", "5"), ("NEWSFED_CONCURRENCY", "6"), ("USER_AGENT", "")];
    let loaded = load(&options(&env, &[])).unwrap();
    assert_eq!(loaded.config.fetch.workers, 5);
    let warning = "NEWSFED_CONCURRENCY is ignored: WORKER_COUNT sets `fetch.workers` already";
    assert_eq!(loaded.warnings, [warning]);
}

#[test]
fn a_variable_that_cannot_be_used_is_named() {
    for (name, value, message) in [
        (
            "WORKER_COUNT",
            "many",
            "`fetch.workers` in the environment (WORKER_COUNT) is \"many\", \
             but must be a whole number",
        ),
        (
            "FETCH_TIMEOUT_MS",
            "2s",
            "`fetch.request_timeout` in the environment (FETCH_TIMEOUT_MS) is \"2s\", \
             but must be a number of milliseconds",
        ),
        (
            "HOST_RPS",
            "0",
            "`hosts.delay` in the environment (HOST_RPS) is \"0\", \
             but must be a number of requests per second above 0",
        ),
        (
            "LOG_FORMAT",
            "xml",
            "`log.format` in the environment (LOG_FORMAT) is \"xml\", \
             but must be \"text\" or \"json\"",
        ),
        (
            "FEEDMILL_FETCH__WORKERS",
            "2000",
            "`fetch.workers` in the environment (FEEDMILL_FETCH__WORKERS) is 2000: \
             choose 1 to 1000",
        ),
        (
            "FEEDMILL_FETCH__WORKER",
            "5",
            "unknown environment variable `FEEDMILL_FETCH__WORKER`: \
             did you mean `FEEDMILL_FETCH__WORKERS`?",
        ),
        (
            "FEEDMILL_ZZZ",
            "5",
            "unknown environment variable `FEEDMILL_ZZZ`: \
             `feedmill config reference` lists all keys",
        ),
        (
            "FEEDMILL_FETCH",
            "5",
            "unknown environment variable `FEEDMILL_FETCH`: \
             `feedmill config reference` lists all keys",
        ),
    ] {
        let error = load(&options(&[(name, value)], &[])).unwrap_err();
        assert_eq!((error.code(), error.exit_code()), ("config_invalid", 2));
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn other_variables_are_left_alone() {
    let env = [("PATH", "/bin"), ("FEEDMILL_CLOCK", "60"), ("feedmill_fetch__workers", "0")];
    assert_eq!(load(&options(&env, &[])).unwrap().config, Config::default());
}

#[test]
fn values_are_typed_by_their_key() {
    let env = [
        ("FEEDMILL_DATA_DIR", "123"),
        ("FEEDMILL_ROBOTS__APPLY_TO_FEEDS", "yes"),
        ("FEEDMILL_FETCH__ALLOW_NETWORKS", "10.0.0.0/8, 127.0.0.1"),
        ("FEEDMILL_FETCH__MAX_BODY", "1MiB"),
        ("FEEDMILL_SCHEDULE__JITTER", "0"),
        ("FEEDMILL_SINKS__NDJSON__DIR", "/out"),
        ("FEEDMILL_SINKS__MORE__KIND", "ndjson"),
    ];
    let config = load(&options(&env, &[("log.format", "json")])).unwrap().config;
    assert_eq!(config.data_dir, Path::new("123"));
    assert!(config.robots.apply_to_feeds);
    let networks: Vec<_> = config.fetch.allow_networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "127.0.0.1/32"]);
    assert_eq!(config.fetch.max_body, Size::bytes(1 << 20));
    assert_eq!(config.schedule.jitter, 0.0);
    assert_eq!((config.log.level, config.log.format), (Level::Info, Format::Json));
    assert_eq!(config.sinks["ndjson"], Sink::new(Target::ndjson("/out")));
    assert_eq!(config.sinks["more"], Sink::new(Target::ndjson("")));
}

#[test]
fn sinks_of_the_file_replace_the_default_one() {
    for (text, expected) in [
        ("", vec!["ndjson"]),
        ("[fetch]\n", vec!["ndjson"]),
        ("[sinks.mine]\nkind = 'ndjson'", vec!["mine"]),
        ("[sinks]", vec![]),
        ("sinks = {}", vec![]),
    ] {
        let config = with_file(text, LoadOptions::default()).unwrap().config;
        assert_eq!(config.sinks.keys().collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn spans_and_sizes_may_be_bare_numbers() {
    let text = "[fetch]\nrequest_timeout = 20\nmax_body = 4096\n[hosts]\ndelay = 0.5";
    let config = with_file(text, LoadOptions::default()).unwrap().config;
    assert_eq!(config.fetch.request_timeout, Span::seconds(20));
    assert_eq!(config.fetch.max_body, Size::bytes(4096));
    assert_eq!(config.hosts.delay, Span::millis(500));
}

#[test]
fn unknown_keys_are_told_all_at_once_with_the_nearest() {
    let text =
        "datadir = 'x'\n[fetch]\nworker = 3\n[sinks.mine]\nkind = 'ndjson'\ndirs = 'y'\n[qq]";
    assert_eq!(
        refused(text),
        "unknown key `datadir` in feedmill.toml line 1: did you mean `data_dir`?\n\
         unknown key `fetch.worker` in feedmill.toml line 3: did you mean `fetch.workers`?\n\
         unknown key `sinks.mine.dirs` in feedmill.toml line 6: did you mean `sinks.mine.dir`?\n\
         unknown key `qq` in feedmill.toml line 7: `feedmill config reference` lists all keys"
    );
    let error = load(&options(&[], &[("fetch.worker", "3")])).unwrap_err();
    let message = "unknown key `fetch.worker` on the command line: did you mean `fetch.workers`?";
    assert_eq!(error.to_string(), message);
}

#[test]
fn wrong_values_name_key_place_and_what_is_wanted() {
    for (text, message) in [
        (
            "[fetch]\nworkers = 'ten'",
            "`fetch.workers` in feedmill.toml line 2 is \"ten\", but must be a whole number",
        ),
        (
            "[fetch]\nworkers = -1",
            "`fetch.workers` in feedmill.toml line 2 is -1, but must be a whole number",
        ),
        (
            "[fetch]\nworkers = 1.5",
            "`fetch.workers` in feedmill.toml line 2 is 1.5, but must be a whole number",
        ),
        (
            "[fetch.workers]\nx = 1",
            "`fetch.workers` in feedmill.toml line 1 is { x = 1 }, but must be a whole number",
        ),
        ("data_dir = 3", "`data_dir` in feedmill.toml line 1 is 3, but must be text in quotes"),
        (
            "fetch = 3",
            "`fetch` in feedmill.toml line 1 is of type integer, but must be a section: `[fetch]`",
        ),
        (
            "[robots]\nttl = '1x'",
            "`robots.ttl` in feedmill.toml line 2 is \"1x\", but must be a time span such as \"250ms\", \"15s\", \"5m\", \"6h\" or \"7d\"",
        ),
        (
            "[fetch]\nmax_body = true",
            "`fetch.max_body` in feedmill.toml line 2 is true, but must be a size such as \"500KB\", \"10MB\" or \"1GiB\"",
        ),
        (
            "[robots]\napply_to_feeds = 1",
            "`robots.apply_to_feeds` in feedmill.toml line 2 is 1, but must be true or false",
        ),
        (
            "[schedule]\npolicy = 'magic'",
            "`schedule.policy` in feedmill.toml line 2 is \"magic\", but must be \"value\" or \"ewma\" or \"fixed\"",
        ),
        (
            "[fetch]\nresolve = ['a.test']",
            "`fetch.resolve` in feedmill.toml line 2 is [\"a.test\"], but must be a list of entries such as \"news.example=127.0.0.1:8080\"",
        ),
        (
            "[fetch]\nallow_networks = '127.0.0.1'",
            "`fetch.allow_networks` in feedmill.toml line 2 is \"127.0.0.1\", but must be a list of networks such as \"127.0.0.0/8\" or \"fd00::/8\"",
        ),
        (
            "[sinks.mine]",
            "`sinks.mine` in feedmill.toml line 1 cannot be used: missing field `kind`",
        ),
        (
            "[sinks.mine]\nkind = 'x'",
            "`sinks.mine` in feedmill.toml line 2 cannot be used: unknown variant `x`, expected one of `ndjson`, `files`, `stdout`, `elasticsearch`, `webhook`, `redis`, `redis_stream`, `nats`",
        ),
        (
            "[database]\nurl = ['hunter2']",
            "`database.url` in feedmill.toml line 2 is ***, but must be text in quotes",
        ),
    ] {
        assert_eq!(refused(text), message, "{text}");
    }
}

#[test]
fn a_number_beyond_all_bounds_is_refused_at_its_key() {
    let told = refused("[fetch]\nworkers = 99999999999999999999");
    assert!(told.starts_with("`fetch.workers` in feedmill.toml line 2 cannot be read: "), "{told}");
}

#[test]
fn files_of_other_systems_can_be_read() {
    let text = "\u{feff}[fetch]\r\nworkers = 3\r\n";
    assert_eq!(with_file(text, LoadOptions::default()).unwrap().config.fetch.workers, 3);
}

#[test]
fn several_wrong_values_are_told_together() {
    let told = refused("[fetch]\nworkers = 'x'\nagents = 'y'\n[hosts]\ndelay = 'z'");
    assert_eq!(told.lines().count(), 3, "{told}");
}

#[test]
fn broken_toml_is_one_sentence_with_its_place() {
    let told = refused("[fetch]\nworkers = = 3\n");
    assert!(told.starts_with("feedmill.toml line 2, column 11 is not valid TOML: "), "{told}");
    assert!(!told.contains('\n') && !told.ends_with('.'), "{told}");
    let told = refused("[fetch]\nworkers = 3\nworkers = 4");
    assert!(told.starts_with("feedmill.toml line 3, column 1 is not valid TOML: "), "{told}");
}

#[test]
fn only_a_file_that_was_asked_for_must_exist() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none.toml");
    let search = LoadOptions { search: Some(missing.clone()), ..LoadOptions::default() };
    assert_eq!(load(&search).unwrap().file, None);
    let named = missing.display().to_string();
    let by_variable = options(&[("FEEDMILL_CONFIG", &named)], &[]);
    for asked in [LoadOptions { file: Some(missing), ..LoadOptions::default() }, by_variable] {
        let error = load(&asked).unwrap_err();
        assert_eq!((error.code(), error.exit_code()), ("config_unreadable", 2));
        assert!(error.to_string().starts_with(&format!("cannot read {named}: ")), "{error}");
    }
}

#[test]
fn a_named_file_wins_over_the_variable_and_that_over_the_search() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = dir.path().join(name);
        fs::write(&path, format!("data_dir = '{name}'")).unwrap();
        path
    };
    let (named, variable, search) = (file("named"), file("variable"), file("search"));
    let mut asked = options(&[("FEEDMILL_CONFIG", &variable.display().to_string())], &[]);
    asked.search = Some(search.clone());
    asked.file = Some(named.clone());
    assert_eq!(load(&asked).unwrap().file, Some(named));
    asked.file = None;
    assert_eq!(load(&asked).unwrap().config.data_dir, Path::new("variable"));
    asked.env.clear();
    assert_eq!(load(&asked).unwrap().file, Some(search));
}

#[test]
fn a_secret_can_come_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("url");
    fs::write(&secret, "file:/secret.db\r\n").unwrap();
    let secret = secret.display().to_string();
    let variable = ("FEEDMILL_DATABASE__URL_FILE", secret.as_str());
    let from_file = format!("[database]\nurl_file = '{secret}'");
    let plain = "[database]\nurl = 'file:/plain.db'";
    for (text, env, flags) in [
        (from_file.as_str(), vec![], vec![]),
        (plain, vec![variable], vec![]),
        (plain, vec![], vec![("database.url_file", secret.as_str())]),
    ] {
        let loaded = with_file(text, options(&env, &flags)).unwrap();
        assert_eq!(loaded.config.database.url.expose(), "file:/secret.db");
        assert!(loaded.origins.contains_key("database.url"));
    }
    let both = format!("[database]\nurl = 'file:/plain.db'\nurl_file = '{secret}'");
    let message = "`database.url` in feedmill.toml line 3 and `database.url_file` are both set: \
                   keep one of them";
    assert_eq!(refused(&both), message);
    let told = refused("[database]\nurl_file = '/nonexistent/url'");
    let names =
        "`database.url_file` in feedmill.toml line 2 names \"/nonexistent/url\", which cannot";
    assert!(told.starts_with(names), "{told}");
    let told = refused("[database]\nurl_file = 3");
    assert!(told.ends_with("is 3, but must be the path of a file"), "{told}");
}

#[test]
fn a_refused_database_tells_the_variable_and_not_the_password() {
    let env = [("FRONTIER_DB_URL", "mysql://ann:hunter2@db.example/news")];
    let told = load(&options(&env, &[])).unwrap_err().to_string();
    assert!(
        told.starts_with("`database.url` in the environment (FRONTIER_DB_URL) names"),
        "{told}"
    );
    assert!(!told.contains("hunter2"), "{told}");
}
