//! Puts the layers together: what the store keeps > flag > environment > file > profile > default.
//!
//! Every layer becomes a flat list of paths with a value and an origin, so that each later step can
//! say where a value came from. Nothing is printed, and the process's environment is read in one
//! place only, `LoadOptions::from_process`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io, mem};

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Table, Value};

use super::aliases::{ALIASES, Convert};
use super::error::{ConfigError, Origin, Problem};
use super::keys::{KEYS, Key, Place, join};
use super::runtime::{Change, change_of};
use super::show::leaves;
use super::{Config, Profile, validate};

/// Variables with our prefix that are no keys: the file to read, and the clock of tests.
pub const RESERVED: [&str; 2] = ["FEEDMILL_CONFIG", "FEEDMILL_CLOCK"];

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// A file that must exist. Without it, `FEEDMILL_CONFIG` names one.
    pub file: Option<PathBuf>,
    /// A file to read if it exists and no other is named.
    pub search: Option<PathBuf>,
    pub env: BTreeMap<String, String>,
    /// Dotted keys and their values, from flags.
    pub overrides: Vec<(String, String)>,
    /// The same, from what was said to a running installation and is kept in its store.
    pub kept: Vec<(String, String)>,
}

impl LoadOptions {
    /// `feedmill.toml` in the current directory, and the environment of this process.
    pub fn from_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self {
            search: Some(PathBuf::from("feedmill.toml")),
            env: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
            ..Self::default()
        }
    }
}

/// A configuration that holds together, and how it came to be.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub config: Config,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// Where each value that was set came from.
    pub origins: BTreeMap<String, Origin>,
    pub warnings: Vec<String>,
}

/// Reads all layers, checks every value, then the whole.
pub fn load(options: &LoadOptions) -> Result<Loaded, ConfigError> {
    let mut layers = Layers::default();
    let file = read_file(options)?;
    if let Some((path, text)) = &file {
        layers.add_file(path, text)?;
    }
    layers.add_default_entries();
    for (name, raw) in &options.env {
        layers.add_variable(name, raw);
    }
    for (name, key, convert) in ALIASES {
        let raw = options.env.get(name).map_or("", |raw| raw.trim());
        if !raw.is_empty() {
            layers.add_alias(name, key, convert, raw);
        }
    }
    for (path, raw) in &options.overrides {
        layers.add_text(path, raw, Origin::Flag);
    }
    for (path, raw) in &options.kept {
        layers.add_kept(path, raw);
    }
    layers.add_profile();
    layers.finish(file.map(|(path, _)| path))
}

fn read_file(options: &LoadOptions) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let named = options.env.get("FEEDMILL_CONFIG").filter(|path| !path.is_empty());
    let must_exist = options.file.clone().or_else(|| named.map(PathBuf::from));
    let optional = must_exist.is_none();
    let Some(file) = must_exist.or_else(|| options.search.clone()) else { return Ok(None) };
    match fs::read_to_string(&file) {
        Ok(text) => Ok(Some((file, text))),
        Err(reason) if optional && reason.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(reason) => Err(ConfigError::Unreadable { file, reason }),
    }
}

/// A value that some layer sets. An empty section has no key, and is kept because a bare `[sinks]`
/// means something.
struct Given {
    key: Option<&'static Key>,
    value: Value,
    origin: Origin,
}

#[derive(Default)]
struct Layers {
    given: BTreeMap<String, Given>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl Layers {
    fn add_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let table = DeTable::parse(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            let message = error.message().replace('\n', ", ");
            ConfigError::Syntax { file: path.to_owned(), line, column, message }
        })?;
        let origin_at =
            |start| Origin::File { path: path.to_owned(), line: position(text, start).0 };
        self.add_table("", table.into_inner(), &origin_at);
        Ok(())
    }

    fn add_table(&mut self, path: &str, table: DeTable<'_>, origin_at: &dyn Fn(usize) -> Origin) {
        for (name, value) in table {
            let origin = origin_at(name.span().start);
            let path = join(path, name.get_ref());
            match (KEYS.find(&path), value.get_ref()) {
                (None, _) => self.add_unknown(&path, origin),
                (Some(Place::Section), DeValue::Table(inner)) if inner.is_empty() => {
                    let value = Value::Table(Table::new());
                    self.given.insert(path, Given { key: None, value, origin });
                }
                (Some(Place::Section), DeValue::Table(inner)) => {
                    self.add_table(&path, inner.clone(), origin_at);
                }
                (Some(Place::Section), other) => {
                    let kind = other.type_str();
                    let message = format!("is of type {kind}, but must be a section: `[{path}]`");
                    self.problems.push(Problem::WrongValue { key: path, origin, message });
                }
                (Some(Place::Key { key, is_file }), _) => {
                    match Value::deserialize(ValueDeserializer::from(value)) {
                        Ok(value) => self.add(&path, key, is_file, value, origin),
                        Err(error) => {
                            let message = format!("cannot be read: {}", error.message());
                            self.problems.push(Problem::WrongValue { key: path, origin, message });
                        }
                    }
                }
            }
        }
    }

    /// Named entries have defaults as long as the file names none. They are laid out like given
    /// ones, so that a variable or flag can change a single key of them.
    fn add_default_entries(&mut self) {
        let section = |path: &str| path.split('.').next().map(str::to_owned);
        let in_file: BTreeSet<_> = self.given.keys().map(|path| section(path)).collect();
        for (path, value) in leaves(&Config::default()) {
            let Some(Place::Key { key, .. }) = KEYS.find(&path) else { continue };
            if key.path.contains('*') && !in_file.contains(&section(&path)) {
                let origin = Origin::Default;
                self.given.insert(path, Given { key: Some(key), value, origin });
            }
        }
    }

    fn add_variable(&mut self, name: &str, raw: &str) {
        if RESERVED.contains(&name) {
            return;
        }
        if let Some(rest) = name.strip_prefix("FEEDMILL_") {
            let path = rest.to_ascii_lowercase().replace("__", ".");
            self.add_text(&path, raw, Origin::Env(name.to_owned()));
        }
    }

    fn add_alias(&mut self, name: &str, path: &str, convert: Convert, raw: &str) {
        let origin = Origin::Env(name.to_owned());
        if let Some(Given { origin: Origin::Env(other), .. }) = self.given.get(path) {
            self.warnings.push(format!("{name} is ignored: {other} sets `{path}` already"));
            return;
        }
        match convert.apply(raw) {
            Ok(text) => self.add_text(path, &text, origin),
            Err(wanted) => {
                let message = format!("is {raw:?}, but must be {wanted}");
                self.problems.push(Problem::WrongValue { key: path.to_owned(), origin, message });
            }
        }
    }

    fn add_text(&mut self, path: &str, raw: &str, origin: Origin) {
        match KEYS.find(path) {
            Some(Place::Key { key, is_file }) => {
                self.add(path, key, is_file, key.read(raw), origin);
            }
            Some(Place::Section) | None => self.add_unknown(path, origin),
        }
    }

    /// A value from the store. Values that an earlier version kept for keys that only the file may set
    /// are ignored: whoever could use the API then must not decide about access now.
    fn add_kept(&mut self, path: &str, raw: &str) {
        let known = KEYS.find(path).is_some();
        if known && change_of(path) == Change::FileOnly {
            self.warnings.push(format!(
                "`{path}` was set at run time by an earlier version and is ignored: set it in the \
                 configuration file, or remove it with `feedmill config unset {path}`"
            ));
            return;
        }
        self.add_text(path, raw, Origin::Store);
    }

    /// What the profile sets and nobody else. Its project's name is as good as its own.
    fn add_profile(&mut self) {
        let Some(given) = self.given.get_mut("profile") else { return };
        // What is none is found with the other values.
        let Some(profile) = given.value.as_str().and_then(Profile::named) else { return };
        given.value = Value::String(profile.as_str().to_owned());
        for (path, raw) in profile.settings() {
            if !self.given.contains_key(path) {
                self.add_text(path, raw, Origin::Profile(profile.as_str()));
            }
        }
    }

    fn add_unknown(&mut self, path: &str, origin: Origin) {
        let nearest = KEYS.nearest(path).filter(|nearest| nearest != path);
        self.problems.push(Problem::UnknownKey { key: path.to_owned(), origin, nearest });
    }

    fn add(&mut self, path: &str, key: &'static Key, is_file: bool, value: Value, origin: Origin) {
        let (path, value) = match path.strip_suffix("_file").filter(|_| is_file) {
            None => (path, value),
            Some(secret) => match read_secret(&value) {
                Ok(value) => (secret, value),
                Err(message) => {
                    let key = path.to_owned();
                    self.problems.push(Problem::WrongValue { key, origin, message });
                    return;
                }
            },
        };
        // The names within one layer are unique, except for flags, of which the last counts.
        let twice = self.given.get(path).is_some_and(|earlier| {
            origin != Origin::Flag
                && mem::discriminant(&earlier.origin) == mem::discriminant(&origin)
        });
        if twice {
            let message = format!("and `{path}_file` are both set: keep one of them");
            self.problems.push(Problem::WrongValue { key: path.to_owned(), origin, message });
            return;
        }
        self.given.insert(path.to_owned(), Given { key: Some(key), value, origin });
    }

    /// Each value is tried alone, so that every wrong one is found and told with its origin.
    fn check_values(&mut self) {
        let mut units: BTreeMap<&str, Vec<(&String, &Given)>> = BTreeMap::new();
        for (path, given) in &self.given {
            let unit = given.key.map_or(path.as_str(), |key| key.unit(path));
            units.entry(unit).or_default().push((path, given));
        }
        let mut strangers = Vec::new();
        for (unit, entries) in units {
            strangers.extend(strangers_in(unit, &entries));
            let Err(error) = config_from(&entries) else { continue };
            let message = match entries.as_slice() {
                [(path, Given { key: Some(key), value, .. })] if path.as_str() == unit => {
                    let shown = if key.secret { "***".to_owned() } else { value.to_string() };
                    format!("is {shown}, but must be {}", key.wanted)
                }
                _ => format!("cannot be used: {}", error.message()),
            };
            let mut origins = entries.iter().map(|(_, given)| &given.origin);
            let origin = origins.find(|origin| **origin != Origin::Default);
            let origin = origin.cloned().unwrap_or(Origin::Default);
            self.problems.push(Problem::WrongValue { key: unit.to_owned(), origin, message });
        }
        self.problems.append(&mut strangers);
    }

    fn finish(mut self, file: Option<PathBuf>) -> Result<Loaded, ConfigError> {
        self.check_values();
        if !self.problems.is_empty() {
            return Err(ConfigError::Invalid(self.problems));
        }
        let entries: Vec<_> = self.given.iter().collect();
        let config = config_from(&entries).map_err(|error| {
            let (key, message) = ("configuration".to_owned(), error.message().to_owned());
            ConfigError::Invalid(vec![Problem::Refused { key, origin: Origin::Default, message }])
        })?;
        let set = self.given.into_iter().filter(|(_, given)| given.key.is_some());
        let set = set.filter(|(_, given)| given.origin != Origin::Default);
        let origins: BTreeMap<_, _> = set.map(|(path, given)| (path, given.origin)).collect();
        let problems = validate(&config).into_iter().map(|problem| problem.located(&origins));
        let problems: Vec<_> = problems.collect();
        if !problems.is_empty() {
            return Err(ConfigError::Invalid(problems));
        }
        Ok(Loaded { config, file, origins, warnings: self.warnings })
    }
}

/// Keys in an entry that entries of its kind do not have.
fn strangers_in(unit: &str, entries: &[(&String, &Given)]) -> Vec<Problem> {
    let tag = join(unit, "kind");
    let kind = entries.iter().find(|(path, _)| **path == tag);
    let Some(kind) = kind.and_then(|(_, given)| given.value.as_str()) else { return Vec::new() };
    let stranger = |(path, given): &(&String, &Given)| {
        let key = given.key.filter(|key| !key.kinds.is_empty())?;
        let known = key.kinds.iter().any(|it| it == kind) || **path == tag;
        let message =
            format!("is set, but only {} has it, and this is {kind}", key.kinds.join(" or "));
        let (key, origin) = ((*path).clone(), given.origin.clone());
        (!known).then_some(Problem::WrongValue { key, origin, message })
    };
    entries.iter().filter_map(stranger).collect()
}

/// The secret in a file. Editors end a file with a newline that is not part of it.
fn read_secret(path: &Value) -> Result<Value, String> {
    let Some(path) = path.as_str() else {
        return Err(format!("is {path}, but must be the path of a file"));
    };
    match fs::read_to_string(path) {
        Ok(text) => Ok(Value::String(text.trim_end_matches(['\r', '\n']).to_owned())),
        Err(error) => Err(format!("names {path:?}, which cannot be read: {error}")),
    }
}

/// The configuration with these values, which come in the order of their paths.
fn config_from(entries: &[(&String, &Given)]) -> Result<Config, toml::de::Error> {
    fn put(table: &mut Table, path: &str, value: Value) {
        let Some((first, rest)) = path.split_once('.') else {
            table.insert(path.to_owned(), value);
            return;
        };
        let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(inner) = inner {
            put(inner, rest, value);
        }
    }
    let mut root = Table::new();
    for (path, given) in entries {
        put(&mut root, path, given.value.clone());
    }
    Config::deserialize(Value::Table(root))
}

/// Line and column of a byte in a text, both counted from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[cfg(test)]
mod tests;
