//! What can be wrong with a configuration, told so that it can be put right at once.
//!
//! All of it ends the program with exit code 2: nothing is guessed and nothing is started.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::keys::variable;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    Profile(&'static str),
    File {
        path: PathBuf,
        line: usize,
    },
    Env(String),
    Flag,
    /// The operator's word to a running installation, which is kept in its database.
    Store,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the defaults"),
            Self::Profile(name) => write!(f, "the profile {name}"),
            Self::File { path, line } => write!(f, "{} line {line}", path.display()),
            Self::Env(name) => write!(f, "the environment ({name})"),
            Self::Flag => f.write_str("the command line"),
            Self::Store => f.write_str("`feedmill config set`"),
        }
    }
}

/// Why no configuration could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: io::Error },
    #[error("{} line {line}, column {column} is not valid TOML: {message}", file.display())]
    Syntax { file: PathBuf, line: usize, column: usize, message: String },
    /// One line for each problem.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

impl ConfigError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Syntax { .. } => "config_syntax",
            Self::Invalid(_) => "config_invalid",
        }
    }

    /// The user has to change something before it makes sense to try again.
    pub fn exit_code(&self) -> u8 {
        2
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// One thing to put right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("unknown {}{}", describe(key, origin), hint(nearest.as_deref(), origin))]
    UnknownKey { key: String, origin: Origin, nearest: Option<String> },
    #[error("`{key}`{} {message}", place(origin))]
    WrongValue { key: String, origin: Origin, message: String },
    #[error("`{key}`{} {message}", place(origin))]
    Refused { key: String, origin: Origin, message: String },
}

impl Problem {
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownKey { .. } => "unknown_key",
            Self::WrongValue { .. } => "wrong_value",
            Self::Refused { .. } => "refused_value",
        }
    }

    /// With the origin of its key, if that was set.
    pub(super) fn located(mut self, origins: &BTreeMap<String, Origin>) -> Self {
        if let Self::Refused { key, origin, .. } = &mut self
            && let Some(found) = origins.get(key)
        {
            *origin = found.clone();
        }
        self
    }

    pub fn key(&self) -> &str {
        match self {
            Self::UnknownKey { key, .. }
            | Self::WrongValue { key, .. }
            | Self::Refused { key, .. } => key,
        }
    }
}

/// People look for what they wrote: the variable in the environment, the key elsewhere.
fn describe(key: &str, origin: &Origin) -> String {
    match origin {
        Origin::Env(name) => format!("environment variable `{name}`"),
        _ => format!("key `{key}`{}", place(origin)),
    }
}

fn place(origin: &Origin) -> String {
    match origin {
        Origin::Default => String::new(),
        Origin::Flag => format!(" on {origin}"),
        Origin::Profile(_) | Origin::File { .. } | Origin::Env(_) => format!(" in {origin}"),
        Origin::Store => format!(" by {origin}"),
    }
}

fn hint(nearest: Option<&str>, origin: &Origin) -> String {
    match (nearest, origin) {
        (Some(key), Origin::Env(_)) => format!(": did you mean `{}`?", variable(key)),
        (Some(key), _) => format!(": did you mean `{key}`?"),
        (None, _) => ": `feedmill config reference` lists all keys".to_owned(),
    }
}
