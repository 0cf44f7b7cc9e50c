//! Why a request was not answered as hoped: `application/problem+json` (RFC 9457), with a stable code.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::edit::EditError;
use crate::app::import::ImportError;
use crate::app::{AppError, ReloadError};
use crate::archive::ArchiveError;
use crate::db::DbError;
use crate::sources::SpecError;
use crate::store::SourceError;

/// What is wrong with one part of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct FieldError {
    /// Which part: a parameter, or a field of the body.
    field: String,
    /// What is wrong with it.
    message: String,
}

/// Why a request was not answered as hoped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: the code tells more.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: String,
    /// The status.
    status: u16,
    /// What happened and what to do.
    detail: String,
    /// Stable, for machines.
    code: String,
    /// What is wrong with which part of the request.
    errors: Vec<FieldError>,
    /// When to try again, in seconds: a header of the answer; 0 for none.
    #[serde(skip)]
    retry_after: u16,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            errors: Vec::new(),
            retry_after: 0,
        }
    }

    pub(super) fn bad(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(super) fn not_found(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    pub(super) fn unusable(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    pub(super) fn conflict(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// A parameter that cannot be used.
    pub(super) fn parameter(field: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::bad("bad_parameter", format!("`{field}`: {message}")).about(field, message)
    }

    /// The same, and which part of the request it is about.
    pub(super) fn about(mut self, field: impl Into<String>, message: impl Into<String>) -> Self {
        self.errors.push(FieldError { field: field.into(), message: message.into() });
        self
    }

    /// The same, and when to try again.
    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = u16::try_from(seconds).unwrap_or(u16::MAX);
        self
    }

    pub(super) const fn status(&self) -> u16 {
        self.status
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(&self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if self.retry_after > 0 {
            let seconds = HeaderValue::from(self.retry_after);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        response
    }
}

impl From<DbError> for Problem {
    fn from(error: DbError) -> Self {
        tracing::warn!(%error, "a request could not be answered");
        let status = match error.is_transient() {
            true => StatusCode::SERVICE_UNAVAILABLE,
            false => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.code(), error.to_string())
    }
}

impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::NameTaken(name) => {
                let detail = format!("a source named `{name}` exists already: choose another name");
                Self::conflict("name_taken", detail).about("name", "is taken")
            }
            SourceError::Unknown(name) => {
                Self::not_found("unknown_source", format!("no source is called `{name}`"))
            }
            SourceError::Withdrawn(_) => {
                Self::unusable("withdrawn", error.to_string()).about("url", "was taken down")
            }
            SourceError::Changed(_) => Self::conflict("source_changed", error.to_string()),
            SourceError::Db(error) => error.into(),
        }
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::List(error) => Self::unusable(error.code(), error.to_string()),
            ImportError::Source(error) => error.into(),
            ImportError::Reader => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
            }
        }
    }
}

impl From<SpecError> for Problem {
    fn from(error: SpecError) -> Self {
        let field = match &error {
            SpecError::NoUrl | SpecError::NoChannel => "url".to_owned(),
            SpecError::Url { .. } | SpecError::Refused { .. } => "url".to_owned(),
            SpecError::Label { what, .. } => (*what).to_owned(),
            SpecError::Priority(_) => "priority".to_owned(),
            SpecError::Field { field, .. } | SpecError::Selector { field, .. } => field.clone(),
            SpecError::Pattern { .. } | SpecError::Patterns(_) => "article_url_patterns".to_owned(),
            SpecError::UnknownField(name) => name.clone(),
            SpecError::TooMany { what, .. } => (*what).to_owned(),
            SpecError::TooLarge(_) => "body".to_owned(),
            SpecError::Access { .. } | SpecError::Proxy(_) => "access".to_owned(),
            SpecError::AdminOnly(why) => {
                let status = StatusCode::FORBIDDEN;
                return Self::new(status, error.code(), error.to_string())
                    .about(why.field(), "needs the scope admin");
            }
            SpecError::Interval | SpecError::FixedInterval(_) => "poll_interval".to_owned(),
            SpecError::Limits => "max_interval".to_owned(),
        };
        Self::unusable(error.code(), error.to_string()).about(field, error.to_string())
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Spec(error) => error.into(),
            EditError::Source(error) => error.into(),
        }
    }
}

impl From<ReloadError> for Problem {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Db(error) => error.into(),
            ReloadError::FileOnly(ref key) => {
                let message = "is set in the configuration file only";
                Self::new(StatusCode::FORBIDDEN, "file_only", error.to_string())
                    .about(key.clone(), message)
            }
            ReloadError::Waits(_) => Self::unusable("not_at_run_time", error.to_string()),
            ReloadError::Config(_) | ReloadError::Unusable(_) => {
                Self::unusable("bad_setting", error.to_string())
            }
        }
    }
}

impl From<AppError> for Problem {
    fn from(error: AppError) -> Self {
        tracing::warn!(%error, "a request could not be answered");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.code(), error.to_string())
    }
}

impl From<ArchiveError> for Problem {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Missing { .. } => {
                Self::new(StatusCode::GONE, "not_kept", error.to_string())
            }
            error => {
                tracing::warn!(%error, "a request could not be answered");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Self::new(status, error.code(), error.to_string())
            }
        }
    }
}
