//! Prints the configuration in effect, with the origin of what was set. Secrets print as `***`.

use serde_json::json;
use toml::Value;

use super::load::Loaded;
use super::{Config, Origin};

/// The whole configuration as TOML; a comment after each value that was set says by what.
pub fn show(loaded: &Loaded) -> String {
    let mut text = String::new();
    let mut current = String::new();
    for (path, value) in leaves(&loaded.config) {
        if value.is_table() {
            text.push_str(&format!("\n[{path}]\n"));
            continue;
        }
        let (section, name) = path.rsplit_once('.').unwrap_or(("", &path));
        if section != current {
            text.push_str(&format!("\n[{section}]\n"));
            current = section.to_owned();
        }
        let origin = loaded.origins.get(&path).map(|origin| format!(" # from {origin}"));
        text.push_str(&format!("{name} = {value}{}\n", origin.unwrap_or_default()));
    }
    text
}

/// The same for machines: the values, the file that was read, and the origins by key.
pub fn show_json(loaded: &Loaded) -> serde_json::Value {
    let origins = loaded.origins.iter().map(|(path, origin)| (path.clone(), origin_json(origin)));
    json!({
        "config": loaded.config,
        "file": loaded.file,
        "origins": origins.collect::<serde_json::Map<_, _>>(),
        "warnings": loaded.warnings,
    })
}

/// Every value with its key, and what it was set by; secrets are hidden.
pub fn values(loaded: &Loaded) -> Vec<(String, serde_json::Value, String)> {
    let one = |(path, value): (String, Value)| {
        let origin = loaded.origins.get(&path).map(origin_json);
        let origin = origin.as_ref().and_then(|origin| origin.get("from")?.as_str());
        let origin = origin.unwrap_or("default").to_owned();
        (path, json!(value), origin)
    };
    leaves(&loaded.config).into_iter().map(one).collect()
}

fn origin_json(origin: &Origin) -> serde_json::Value {
    match origin {
        Origin::Default => json!({ "from": "default" }),
        Origin::Profile(name) => json!({ "from": "profile", "name": name }),
        Origin::File { path, line } => json!({ "from": "file", "path": path, "line": line }),
        Origin::Env(name) => json!({ "from": "env", "name": name }),
        Origin::Flag => json!({ "from": "flag" }),
        Origin::Store => json!({ "from": "store" }),
    }
}

/// Every value with its path, in the order of declaration; an empty table counts as a value.
pub(super) fn leaves(config: &Config) -> Vec<(String, Value)> {
    fn walk(path: &str, value: Value, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Table(table) if !table.is_empty() => {
                for (name, inner) in table {
                    walk(&super::keys::join(path, &name), inner, found);
                }
            }
            value => found.push((path.to_owned(), value)),
        }
    }
    let mut found = Vec::new();
    // Text, numbers, switches and lists of text: none of them can fail to become TOML.
    if let Ok(value) = Value::try_from(config) {
        walk("", value, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{LoadOptions, load};
    use super::*;

    fn loaded(env: &[(&str, &str)]) -> Loaded {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        load(&LoadOptions { env: env.collect(), ..LoadOptions::default() }).unwrap()
    }

    #[test]
    fn what_is_shown_is_the_configuration() {
        let set = loaded(&[("WORKER_COUNT", "20"), ("FEEDMILL_FETCH__RESOLVE", "*.test=[::1]:80")]);
        assert_eq!(toml::from_str::<Config>(&show(&set)).unwrap(), set.config);
        let default = loaded(&[]);
        assert_eq!(toml::from_str::<Config>(&show(&default)).unwrap(), Config::default());
        assert!(!show(&default).contains('#'));
    }

    #[test]
    fn what_was_set_tells_its_origin() {
        let shown = show(&loaded(&[("WORKER_COUNT", "20"), ("FEEDMILL_DATA_DIR", "/var/news")]));
        for line in [
            "data_dir = \"/var/news\" # from the environment (FEEDMILL_DATA_DIR)",
            "[fetch]",
            "workers = 20 # from the environment (WORKER_COUNT)",
            "request_timeout = \"15s\"",
            "[sinks.ndjson]",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "no line {line}\n{shown}");
        }
    }

    #[test]
    fn an_empty_map_is_shown_as_such() {
        let mut none = loaded(&[]);
        none.config.sinks.clear();
        assert_eq!(toml::from_str::<Config>(&show(&none)).unwrap(), none.config);
    }

    #[test]
    fn passwords_are_not_shown() {
        let mut loaded = loaded(&[]);
        let url = "postgres://ann:hunter2@db.example/news".to_owned();
        loaded.config.database.url = url.into();
        let shown = [show(&loaded), show_json(&loaded).to_string(), format!("{loaded:?}")];
        for text in shown {
            assert!(text.contains("postgres://ann:***@db.example/news"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn machines_get_values_and_origins() {
        let shown = show_json(&loaded(&[("HOST_RPS", "2")]));
        assert_eq!(shown["config"]["hosts"]["delay"], "500ms");
        assert_eq!(shown["config"]["sinks"]["ndjson"]["kind"], "ndjson");
        assert_eq!(shown["file"], serde_json::Value::Null);
        assert_eq!(
            shown["origins"],
            json!({ "hosts.delay": { "from": "env", "name": "HOST_RPS" } })
        );
    }
}
