//! The HTTP server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

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
    /// Whether programs of the account that Feedmill runs as, and of root, may read and do everyday writing
    /// without a token, while it listens on loopback. What needs `admin`, and what comes through a proxy, always needs a token.
    /// Behind a reverse proxy set it to false.
    pub open_on_loopback: bool,
    /// A Unix socket for tools on this machine, such as `/run/feedmill/api.sock`. Programs of the account
    /// that Feedmill runs as, and of root, need no token there and may do everything. Empty for none.
    pub socket: PathBuf,
    /// Requests a second from one address, on average; short bursts may be ten times that. 0 for no limit.
    pub rate_limit: u32,
    /// Largest body of a request, but for lists (`api.max_upload`).
    pub max_body: Size,
    /// Largest list of sources or addresses in one request. Two are taken at a time; others wait.
    pub max_upload: Size,
    /// Connections at a time. A new one takes the place of the one that has been idle for the longest
    /// time. Requests may have three eighths of them, streams as much, health checks an eighth.
    pub max_connections: usize,
    /// Streams at a time: events as they happen, lists as lines, raw bodies.
    pub max_streams: usize,
    /// Streams at a time of one client: a token, or an address where no token was sent.
    pub max_client_streams: usize,
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
            socket: PathBuf::new(),
            rate_limit: 100,
            max_body: Size::megabytes(1),
            max_upload: Size::megabytes(32),
            max_connections: 1_000,
            max_streams: 200,
            max_client_streams: 50,
            cors_origins: Vec::new(),
        }
    }
}
