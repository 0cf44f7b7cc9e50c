//! A takedown: what was taken back for good, by whom and why.

use serde::Serialize;

use super::{Ts, UrlHash, named};

named! {
    /// How much a takedown takes.
    pub enum Scope {
        /// One address.
        Address = 0 "address",
        /// All addresses of a host and of those below it.
        Host = 1 "host",
        /// All that a source owns.
        Source = 2 "source",
    }
}

/// A takedown that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTakedown {
    /// How much it takes.
    pub scope: Scope,
    /// The normalised address, the host, or the source's id.
    pub target: String,
    /// The same as people know it.
    pub name: String,
    /// Who wants it.
    pub by: String,
    /// Why.
    pub why: String,
    /// Addresses that are refused from then on; a host's need not be named.
    pub addresses: Vec<UrlHash>,
}

/// A takedown as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Takedown {
    /// How much it takes.
    pub scope: Scope,
    /// The normalised address, the host, or the source's id.
    pub target: String,
    /// The same as people know it.
    pub name: String,
    /// Who wanted it.
    pub by: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Ts,
    /// Articles that went.
    pub articles: u64,
    /// Entries of feeds that went.
    pub entries: u64,
    /// Records of the archive that went.
    pub records: u64,
    /// When nothing was left to be taken.
    pub done_at: Option<Ts>,
    /// Since when it is no longer refused.
    pub lifted_at: Option<Ts>,
    /// Who wanted that.
    pub lifted_by: Option<String>,
}
