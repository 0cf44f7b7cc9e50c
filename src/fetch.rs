//! How: asking publishers for what the frontier hands out.
//!
//! The guard stands before every hop, the client keeps the caps, the worker serves one lease from
//! request to commit, the dispatcher keeps the workers busy. Nothing here decides what an answer
//! means, and nothing retries: the frontier is the only retry model.

mod client;
mod committer;
mod desk;
mod dispatch;
mod flows;
mod guard;
mod handover;
mod hold;
mod hops;
mod losses;
mod pulse;
mod request;
mod robots;
mod serve;
mod spans;
mod tally;
mod tell;
mod usage;
mod ways;

use crate::model::Code;

pub use client::{Client, ClientSettings};
pub use committer::Committer;
pub use desk::{Desk, UnderWay};
pub use dispatch::{Dispatcher, Mode, Stuck, Tuning};
pub use guard::{Guard, Refusal};
pub use handover::Handover;
pub use hold::Hold;
pub use hops::redirect_target;
pub use losses::note_losses;
pub use pulse::watch_database;
pub use robots::RobotsCache;
pub use serve::{ServeSettings, Server, fetch_record};
pub use usage::UsageMeter;
pub use ways::poster;

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Not in time.
    #[error("no {what} within {limit}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        limit: String,
    },
    /// The name does not resolve.
    #[error("cannot resolve {host}: {message}")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver says.
        message: String,
    },
    /// The guard refuses the address.
    #[error(transparent)]
    Guarded(#[from] Refusal),
    /// The connection failed or broke.
    #[error("connection failed: {0}")]
    Network(String),
    /// The head of the answer is beyond all measure.
    #[error("the answer's headers are more than we take")]
    Head,
    /// The request cannot be made.
    #[error("cannot ask for it: {0}")]
    BadRequest(String),
}

impl FetchError {
    /// The outcome that this failure is.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Timeout { .. } => Code::Timeout,
            Self::Dns { .. } => Code::Dns,
            Self::Guarded(_) => Code::Guarded,
            Self::Network(_) => Code::Network,
            Self::Head => Code::TooLarge,
            Self::BadRequest(_) => Code::BadUrl,
        }
    }
}
