//! Why no source can be made of what was said, each with what to do about it.

use feedmill_formats::url::UrlError;
use feedmill_formats::walk::PatternError;

use super::{AdminOnly, MAX_NAME, MAX_SIZE, MOST};

/// Why no source can be made of what was said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is nothing to follow.
    #[error("a source needs an address to follow: give the URL of a home page, feed or sitemap")]
    NoUrl,
    /// A home page of which nothing is wanted.
    #[error(
        "there is nothing to follow: give it a feed or sitemap, or let it be looked for (discover)"
    )]
    NoChannel,
    /// An address cannot be fetched.
    #[error("`{url}` cannot be followed: {}", advice(error))]
    Url {
        /// As given, without the password that it may carry.
        url: String,
        /// What is wrong with it.
        error: UrlError,
    },
    /// An address that may not be fetched.
    #[error("`{url}` cannot be followed: {reason}")]
    Refused {
        /// As given.
        url: String,
        /// Why not.
        reason: String,
    },
    /// A name, category or tag that cannot be shown in a table.
    #[error("the {what} {problem}: choose 1 to {MAX_NAME} printable characters")]
    Label {
        /// Which one.
        what: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Outside of 1 to 10.
    #[error("the priority is {0}: choose 1 to 10, 10 is served first")]
    Priority(u8),
    /// Something that is not written as it should be.
    #[error("`{field}` is `{given}`: write {wanted}")]
    Field {
        /// Which.
        field: String,
        /// As given.
        given: String,
        /// What it takes.
        wanted: String,
    },
    /// A selector that cannot be used.
    #[error("`{field}`: {error}")]
    Selector {
        /// Of what.
        field: String,
        /// What is wrong with it.
        error: String,
    },
    /// An expression that cannot be used.
    #[error("the pattern `{pattern}` cannot be used: {problem}")]
    Pattern {
        /// As given.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Expressions that cannot be used together.
    #[error("article_url_patterns: {0}")]
    Patterns(PatternError),
    /// Nobody knows what that is.
    #[error("there is no field `{0}`")]
    UnknownField(String),
    /// More than anybody means.
    #[error("it has {count} {what}: {MOST} are the most")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// So many.
        count: usize,
    },
    /// More than the store takes.
    #[error("all that is said about it takes {0} bytes: {MAX_SIZE} are the most")]
    TooLarge(usize),
    /// A header, cookie, credential or proxy that cannot be used.
    #[error("the {what} {problem}")]
    Access {
        /// Which.
        what: String,
        /// What is wrong with it, and what to do.
        problem: &'static str,
    },
    /// A proxy that may not be used.
    #[error("{0}")]
    Proxy(String),
    /// A change that needs more rights than the caller has.
    #[error("{0}")]
    AdminOnly(AdminOnly),
    /// No time at all.
    #[error("the interval is 0: choose a time span such as 30m")]
    Interval,
    /// A longest interval that is shorter than the shortest.
    #[error("the longest interval is shorter than the shortest one: choose a longer one")]
    Limits,
    /// An interval, and a way to choose one.
    #[error("an interval is kept as it is: leave out {0}, or the interval")]
    FixedInterval(&'static str),
}

impl SpecError {
    /// The stable name of the refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoUrl => "no_url",
            Self::NoChannel => "no_channel",
            Self::Url { error, .. } => error.code(),
            Self::Refused { .. } => "refused_address",
            Self::Label { .. } => "bad_name",
            Self::Priority(_) => "bad_priority",
            Self::Field { .. } => "bad_field",
            Self::Selector { .. } => "bad_selector",
            Self::Pattern { .. } | Self::Patterns(_) => "bad_pattern",
            Self::UnknownField(_) => "unknown_field",
            Self::TooMany { .. } => "too_many",
            Self::TooLarge(_) => "too_large",
            Self::Access { .. } => "bad_access",
            Self::Proxy(_) => "refused_proxy",
            Self::AdminOnly(_) => "forbidden",
            Self::Interval | Self::Limits | Self::FixedInterval(_) => "bad_interval",
        }
    }
}

/// What is wrong with an address, and what to do about it.
fn advice(error: &UrlError) -> String {
    match error {
        UrlError::Scheme(scheme) => {
            format!("it is a {scheme}: address; give an http or https address")
        }
        UrlError::Credentials => {
            "it carries a user name or password; give the address without them".to_owned()
        }
        UrlError::Malformed(::url::ParseError::RelativeUrlWithoutBase) => {
            "it is no whole address; write it with https:// in front".to_owned()
        }
        UrlError::Malformed(_) | UrlError::NoHost | UrlError::TooLong(_) => error.to_string(),
    }
}
