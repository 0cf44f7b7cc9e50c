//! Why a command did not do what it was asked to: one sentence, a stable code, an exit code.

use clap::error::ErrorKind;

use crate::api::ApiError;
use crate::app::carry::CarryError;
use crate::app::edit::EditError;
use crate::app::raw::RawError;
use crate::app::rebuild::RebuildError;
use crate::app::{AppError, ReloadError};
use crate::archive::ArchiveError;
use crate::config::ConfigError;
use crate::db::DbError;
use crate::sources::SpecError;
use crate::store::SourceError;

/// The operation failed.
const FAILED: u8 = 1;
/// The command line or the configuration has to change first.
const USAGE: u8 = 2;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Failure {
    /// Stable, for machines.
    pub(super) code: &'static str,
    /// How the process ends.
    pub(super) exit: u8,
    /// What happened and what to do; one line for each problem.
    pub(super) message: String,
}

impl Failure {
    /// It was tried and did not work.
    pub(super) fn failed(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, exit: FAILED, message: message.into() }
    }

    /// It cannot be tried like this.
    pub(super) fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, exit: USAGE, message: message.into() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { code: error.code(), exit: error.exit_code(), message: error.to_string() }
    }
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        Self { code: error.code(), exit: error.exit_code(), message: error.to_string() }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::failed(error.code(), error.to_string())
    }
}

impl From<CarryError> for Failure {
    fn from(error: CarryError) -> Self {
        Self::failed(error.code(), error.to_string())
    }
}

impl From<RebuildError> for Failure {
    fn from(error: RebuildError) -> Self {
        Self::failed(error.code(), error.to_string())
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        Self::failed(error.code(), error.to_string())
    }
}

impl From<RawError> for Failure {
    fn from(error: RawError) -> Self {
        Self::failed(error.code(), error.to_string())
    }
}

impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        Self::failed(error.code(), error.to_string())
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let code = match &error {
            SourceError::NameTaken(_) => "name_taken",
            SourceError::Unknown(_) => "unknown_source",
            SourceError::Changed(_) => "source_changed",
            SourceError::Withdrawn(_) => "withdrawn",
            SourceError::Db(inner) => inner.code(),
        };
        Self::failed(code, error.to_string())
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        Self::usage(error.code(), error.to_string())
    }
}

impl From<ReloadError> for Failure {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Config(error) => error.into(),
            ReloadError::Db(error) => error.into(),
            ReloadError::FileOnly(_) => Self::usage("file_only", error.to_string()),
            ReloadError::Waits(_) => Self::usage("not_at_run_time", error.to_string()),
            ReloadError::Unusable(message) => Self::failed("config", message),
        }
    }
}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Spec(error) => error.into(),
            EditError::Source(error) => error.into(),
        }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::usage("usage", one_sentence(&error.to_string()))
    }
}

/// Whether the "error" is the help or version that was asked for, or shown for want of a command.
pub(super) fn is_help(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// The parser explains itself over several paragraphs; one line is easier to read in a log.
fn one_sentence(rendered: &str) -> String {
    let told =
        rendered.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let kept = told.filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    let sentence = kept.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    format!("{}; see --help", sentence.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_error_becomes_one_sentence() {
        for (args, words) in [
            (vec!["feedmill", "disk", "--bogus"], "unexpected argument '--bogus' found"),
            (vec!["feedmill", "sourc"], "unrecognized subcommand 'sourc'; tip: "),
            (vec!["feedmill", "source", "add"], "were not provided: <URL>..."),
            (vec!["feedmill", "run", "--lanes", "fast"], "one of poll, page, media"),
        ] {
            let args: Vec<_> = args.into_iter().map(Into::into).collect();
            let error = super::super::read(&args).unwrap_err();
            let failure = Failure::from(error);
            assert_eq!((failure.code, failure.exit), ("usage", 2));
            assert!(failure.message.contains(words), "{failure}");
            assert!(failure.message.ends_with("; see --help"), "{failure}");
            assert!(
                !failure.message.contains('\n') && !failure.message.contains("Usage"),
                "{failure}"
            );
        }
    }
}
