//! Writes the reference: a configuration file with every key, its documentation and its default.

use super::Config;
use super::aliases::ALIASES;
use super::keys::{KEYS, Place};
use super::show::leaves;

const HEAD: &str = "\
# Feedmill's configuration: every key with its default. Take what you need; unknown keys are errors.
#
# Feedmill reads `feedmill.toml` in the current directory, or the file that `--config` names.
# A flag wins over the environment, the environment over the file, the file over the default.
# In the environment a key is written as FEEDMILL_SECTION__KEY: FEEDMILL_FETCH__WORKERS=20. Items of
# a list are separated by commas there.
#
# Time spans are written as \"250ms\", \"15s\", \"5m\", \"6h\", \"7d\" or \"1h30m\"; a bare number is seconds.
# Sizes are written as \"500KB\", \"10MB\", \"1GB\" (powers of 1000) or \"10MiB\" (powers of 1024); a bare
# number is bytes.
";

/// The commented TOML. Loading it as it is changes nothing.
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    let mut current = String::new();
    for (path, value) in leaves(&Config::default()) {
        let Some(Place::Key { key, .. }) = KEYS.find(&path) else { continue };
        let (section, name) = path.rsplit_once('.').unwrap_or(("", &path));
        if section != current {
            if current.starts_with("sinks.") && !section.starts_with("sinks.") {
                text.push_str(&kinds());
            }
            text.push_str(&heading(section, &current));
            current = section.to_owned();
        }
        text.push('\n');
        comment(&mut text, &key.doc);
        if key.secret {
            comment(&mut text, &format!("`{name}_file` names a file that holds it instead."));
        }
        let aliases = ALIASES.iter().filter(|(_, aliased, _)| *aliased == path);
        let aliases: Vec<_> =
            aliases.map(|(name, _, convert)| format!("{name}{}", convert.note())).collect();
        if !aliases.is_empty() {
            comment(&mut text, &format!("Also read from the environment: {}.", aliases.join(", ")));
        }
        text.push_str(&format!("#{name} = {value}\n"));
    }
    text
}

/// The kinds of sinks, each with what it has of its own.
fn kinds() -> String {
    let mut text =
        "\n# The kinds of sinks, and what each has beside `batch`, `start`, `filter` and \
                    `redact`:\n"
            .to_owned();
    for variant in &KEYS.variants {
        text.push_str(&format!("#\n# kind = \"{}\": {}\n", variant.kind, one_line(&variant.doc)));
        for (name, doc) in &variant.keys {
            text.push_str(&format!("#   {name}: {}\n", one_line(doc)));
        }
    }
    text
}

fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A section's documentation and its line. An entry that the user names is an example, so its line
/// is a comment too.
fn heading(section: &str, before: &str) -> String {
    let mut text = "\n".to_owned();
    let mut named = false;
    for (end, _) in section.match_indices('.').chain([(section.len(), "")]) {
        let part = section.split_at(end).0;
        if let Some(found) = KEYS.section(part) {
            let told = before == part || before.starts_with(&format!("{part}."));
            if !told {
                comment(&mut text, &found.doc);
            }
            named = found.path.contains('*');
        }
    }
    text.push_str(&format!("{}[{section}]\n", if named { "#" } else { "" }));
    text
}

fn comment(text: &mut String, doc: &str) {
    for line in doc.lines() {
        text.push_str(format!("# {line}").trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_file_is_the_reference() {
        assert!(
            include_str!("../../feedmill.example.toml") == reference(),
            "feedmill.example.toml is out of date: \
             run `feedmill config reference > feedmill.example.toml`"
        );
    }

    #[test]
    fn the_reference_changes_nothing() {
        assert_eq!(toml::from_str::<Config>(&reference()).unwrap(), Config::default());
    }

    #[test]
    fn uncommented_the_reference_states_the_defaults() {
        let reference = reference();
        let uncommented = reference.lines().map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => key,
            _ => line,
        });
        let text = uncommented.collect::<Vec<_>>().join("\n");
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), Config::default());
        let stated = leaves(&Config::default()).len();
        let keys = text.lines().filter(|line| !line.starts_with('#') && line.contains(" = "));
        assert_eq!(keys.count(), stated);
    }

    #[test]
    fn every_alias_is_listed() {
        let reference = reference();
        for (name, ..) in ALIASES {
            assert!(reference.contains(name), "{name}");
        }
    }
}
