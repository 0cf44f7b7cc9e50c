//! What is told of the work while it is done: log lines and spans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Secret, SecretUrl};

/// What Feedmill says about its work, on standard error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Least important level to show: "error", "warn", "info", "debug" or "trace".
    pub level: Level,
    /// "text" for people, "json" for machines.
    pub format: Format,
    /// The wording of lines about tasks: "feedmill", or that of a design that it grew out of, for the
    /// dashboards and alerts that read it: `north_cloud`, "newsfed" or "canonical".
    pub messages: Messages,
}

/// Whose words log lines about tasks are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Messages {
    #[default]
    Feedmill,
    NorthCloud,
    Newsfed,
    Canonical,
}

/// Where the steps of each task are told to, as spans over OTLP (http/protobuf).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// Address of the collector, such as `http://127.0.0.1:4318`. Empty for no spans at all.
    pub endpoint: SecretUrl,
    /// Share of the tasks that are told of (0 to 1).
    pub sample_ratio: f64,
    /// More header lines for the collector, such as `authorization: Bearer …`.
    pub headers: Vec<Secret>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { endpoint: SecretUrl::default(), sample_ratio: 0.1, headers: Vec::new() }
    }
}

/// How important a log line must be to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl Level {
    /// The name, as written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Text,
    Json,
}
