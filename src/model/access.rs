//! How a source is asked: what its publisher gave us to be let in, and by which way we go.
//!
//! Whatever may be a secret prints as `***`; only [`NewSource::stored`](super::NewSource::stored)
//! writes it out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Secret, SecretUrl};

/// What a source's requests have beyond everybody's. Agent, headers, cookie and credentials go to
/// the source's own site and nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Access {
    /// The `User-Agent` instead of the house's.
    pub user_agent: Option<String>,
    /// Further header lines.
    pub headers: BTreeMap<String, Secret>,
    /// The `Cookie` line.
    pub cookie: Option<Secret>,
    /// Credentials.
    pub auth: Option<Auth>,
    /// A proxy instead of the house's.
    pub proxy: Option<SecretUrl>,
    /// Addresses to connect from, instead of the house's.
    pub bind: Vec<IpAddr>,
    /// Whether its pages are asked for without the validators of their last answer.
    pub unconditional: bool,
}

/// Credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// A name and a password.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A token.
    Bearer(Secret),
}

impl Access {
    /// Whether it is everybody's way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same with its secrets written out.
    pub(super) fn exposed(&self) -> Value {
        let headers: BTreeMap<_, _> =
            self.headers.iter().map(|(name, value)| (name, value.expose())).collect();
        let auth = self.auth.as_ref().map(|auth| match auth {
            Auth::Basic { user, password } => {
                json!({ "basic": { "user": user, "password": password.expose() } })
            }
            Auth::Bearer(token) => json!({ "bearer": token.expose() }),
        });
        json!({
            "user_agent": self.user_agent,
            "headers": headers,
            "cookie": self.cookie.as_ref().map(Secret::expose),
            "auth": auth,
            "proxy": self.proxy.as_ref().map(SecretUrl::expose),
            "bind": self.bind,
            "unconditional": self.unconditional,
        })
    }
}
