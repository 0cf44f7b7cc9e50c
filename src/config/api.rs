//! The HTTP server.

use std::net::{Ipv4Addr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Size;

/// The HTTP server: the API under `/api/v1`, feeds of what was gathered, and the dashboard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// Where it listens. On anything but loopback it only starts when there is a token (`feedmill token
    /// create`); put a proxy with TLS before it.
    #[schemars(title = "an address and a port such as \"127.0.0.1:7171\"")]
    pub listen: SocketAddr,
    /// The address under which others reach it, such as `https://news.example.org`. Empty for the one
    /// that a request names.
    pub public_url: String,
    /// A `WebSub` hub that the feeds of what was gathered name, for those who want to be told. It has to
    /// look at these feeds by itself. Empty for none.
    pub hub: String,
    /// Whether everybody on this machine may do everything without a token, while it listens on loopback.
    pub open_on_loopback: bool,
    /// Requests a second from one address, on average; short bursts may be ten times that. 0 for no limit.
    pub rate_limit: u32,
    /// Largest body of a request.
    pub max_body: Size,
    /// Connections at a time.
    pub max_connections: usize,
    /// Web pages of these origins may use it from a browser, such as `https://app.example.org`. Empty for
    /// none but its own.
    pub cors_origins: Vec<String>,
}

impl Default for Api {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7171)),
            public_url: String::new(),
            hub: String::new(),
            open_on_loopback: true,
            rate_limit: 100,
            max_body: Size::megabytes(32),
            max_connections: 1_000,
            cors_origins: Vec::new(),
        }
    }
}
