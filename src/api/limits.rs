//! How much may go on at a time: requests, bodies that arrive, streams and uploads each have a share of
//! the connections, so that none of them takes what the others need. Health checks have their own.
//!
//! Within a share, one client may take only a part. A client is a token where one was sent and checked,
//! else an address (for IPv6 its network of 64 bits).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connections::Connection;
use super::problem::Problem;
use crate::config;
use crate::metrics::Metrics;

/// Uploads of lists at a time; others wait for a while.
const UPLOADS: usize = 2;
/// How long an upload waits for its turn.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a body waits for memory.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);
/// Memory for bodies that are not small, in KiB, of all requests together. Reading JSON may take as much
/// again a few times.
const BODY_MEMORY_KIB: usize = 32 << 10;
/// Memory for large responses that are not yet sent, in KiB, of all requests together.
const RESPONSE_MEMORY_KIB: usize = 48 << 10;
/// Responses to GET requests that are made at a time; others wait.
const MAKING: usize = 8;
/// How long a GET request waits for its turn.
const MAKING_TIMEOUT: Duration = Duration::from_secs(10);
/// Searches for feeds at a time.
const SEARCHES: usize = 2;
/// The most health checks at a time.
const MAX_HEALTH: usize = 64;

/// Whoever is counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Client {
    Address(IpAddr),
    Token(String),
    /// All that connect through the Unix socket.
    Socket,
}

impl Client {
    pub(super) fn at(address: IpAddr) -> Self {
        Self::Address(network(address))
    }
}

/// The address that stands for a client: one machine has many in its network of IPv6.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All clients together have everything.
    Total,
    /// This client has its part.
    Client,
}

/// So many at a time, and so many of one client.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    total: usize,
    per_client: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    clients: HashMap<Client, usize>,
}

impl ConcurrencyLimit {
    pub(super) fn new(total: usize, per_client: usize) -> Arc<Self> {
        let (total, per_client) = (total.max(1), per_client.clamp(1, total.max(1)));
        Arc::new(Self { total, per_client, taken: Mutex::default() })
    }

    pub(super) fn acquire(self: &Arc<Self>, client: &Client) -> Result<Permit, Full> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.total >= self.total {
            return Err(Full::Total);
        }
        let own = taken.clients.entry(client.clone()).or_default();
        if *own >= self.per_client {
            return Err(Full::Client);
        }
        *own += 1;
        taken.total += 1;
        Ok(Permit { limit: Arc::clone(self), client: client.clone() })
    }
}

/// A place that is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    limit: Arc<ConcurrencyLimit>,
    client: Client,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.limit.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total = taken.total.saturating_sub(1);
        if let Some(own) = taken.clients.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.clients.remove(&self.client);
            }
        }
    }
}

/// The limits of an HTTP server.
#[derive(Debug)]
pub(super) struct ApiLimits {
    /// Requests that are worked on.
    requests: Arc<ConcurrencyLimit>,
    /// Health checks that are worked on.
    health: Arc<ConcurrencyLimit>,
    /// Requests whose body is still on its way.
    bodies: Arc<ConcurrencyLimit>,
    /// Answers that are written as they come to be.
    streams: Arc<ConcurrencyLimit>,
    uploads: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    making: Arc<Semaphore>,
    response_memory: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    trials: Arc<Semaphore>,
    pub(super) max_body: usize,
    pub(super) max_upload: usize,
    metrics: Arc<crate::app::Progress>,
}

impl ApiLimits {
    /// Shares of so many connections. What may not be closed to make room (requests, streams, health
    /// checks) is never more than seven eighths of them.
    pub(super) fn new(
        config: &config::Api,
        connections: usize,
        metrics: Arc<crate::app::Progress>,
    ) -> Self {
        let part = |eighths: usize| (connections * eighths / 8).max(1);
        let most_of = |total: usize| (total * 3 / 4).max(1);
        let shared = |total: usize| ConcurrencyLimit::new(total, most_of(total));
        let streams = config.max_streams.min(part(3));
        Self {
            requests: shared(part(3)),
            health: shared(part(1).min(MAX_HEALTH)),
            bodies: shared(part(1)),
            streams: ConcurrencyLimit::new(streams, config.max_client_streams),
            uploads: Arc::new(Semaphore::new(UPLOADS)),
            memory: Arc::new(Semaphore::new(BODY_MEMORY_KIB)),
            making: Arc::new(Semaphore::new(MAKING)),
            response_memory: Arc::new(Semaphore::new(RESPONSE_MEMORY_KIB)),
            searches: Arc::new(Semaphore::new(SEARCHES)),
            trials: Arc::new(Semaphore::new(1)),
            max_body: config.max_body.as_len(),
            max_upload: config.max_upload.as_len(),
            metrics,
        }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics.metrics
    }

    pub(super) fn request(&self, client: &Client, is_health: bool) -> Result<Permit, Problem> {
        let share = if is_health { &self.health } else { &self.requests };
        share.acquire(client).map_err(|_| {
            self.refused("requests");
            busy("busy", "too many requests are worked on at the same time", 1)
        })
    }

    pub(super) fn body(&self, client: &Client) -> Result<Permit, Problem> {
        self.bodies.acquire(client).map_err(|_| {
            self.refused("bodies");
            busy("busy", "too many requests are being received at the same time", 5)
        })
    }

    pub(super) fn stream(&self, client: &Client) -> Result<Permit, Problem> {
        self.streams.acquire(client).map_err(|full| {
            self.refused("streams");
            match full {
                Full::Total => {
                    busy("too_many_streams", "all streams are taken (`api.max_streams`)", 10)
                }
                Full::Client => Problem::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too_many_streams",
                    "this client has all the streams that one may have (`api.max_client_streams`)",
                )
                .retry_after(10),
            }
        })
    }

    /// The turn of an upload, within a while.
    pub(super) async fn upload(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let turn = Arc::clone(&self.uploads).acquire_owned();
        match tokio::time::timeout(UPLOAD_TIMEOUT, turn).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => {
                self.refused("uploads");
                Err(busy("busy", "other lists are being imported: try again later", 10))
            }
        }
    }

    /// Memory for a body of so many bytes, within a while.
    pub(super) async fn memory(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let kib = bytes.div_ceil(1 << 10).clamp(1, BODY_MEMORY_KIB);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let memory = Arc::clone(&self.memory).acquire_many_owned(kib);
        match tokio::time::timeout(MEMORY_TIMEOUT, memory).await {
            Ok(Ok(memory)) => Ok(memory),
            _ => {
                self.refused("memory");
                Err(busy("busy", "too many large requests at the same time", 5))
            }
        }
    }

    /// The turn of a response to be made, within a while: a database that hangs holds the turns of others.
    pub(super) async fn making(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let detail = "too many requests are answered at the same time";
        self.turn(&self.making, "responses", detail).await
    }

    /// The turn of a search for feeds, which makes requests to publishers and reads what they answer.
    pub(super) async fn search(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let detail = "other searches for feeds are under way";
        self.turn(&self.searches, "searches", detail).await
    }

    /// The turn of a trial of selectors, which reads pages of the archive.
    pub(super) async fn trial(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.turn(&self.trials, "trials", "other selectors are being tried").await
    }

    async fn turn(
        &self,
        turns: &Arc<Semaphore>,
        limit: &'static str,
        detail: &str,
    ) -> Result<OwnedSemaphorePermit, Problem> {
        match tokio::time::timeout(MAKING_TIMEOUT, Arc::clone(turns).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => {
                self.refused(limit);
                Err(busy("busy", detail, 5))
            }
        }
    }

    /// Memory for a response of so many bytes until it is sent. It is not waited for, because clients that do
    /// not read can hold it for long.
    pub(super) fn response_memory(&self, bytes: u64) -> Result<OwnedSemaphorePermit, Problem> {
        let kib = usize::try_from(bytes.div_ceil(1 << 10)).unwrap_or(usize::MAX);
        let kib = u32::try_from(kib.clamp(1, RESPONSE_MEMORY_KIB)).unwrap_or(u32::MAX);
        Arc::clone(&self.response_memory).try_acquire_many_owned(kib).map_err(|_| {
            self.refused("responses");
            let detail =
                "too many large responses are not yet read: try again, or ask for fewer items";
            busy("busy", detail, 5)
        })
    }

    pub(super) fn refused(&self, limit: &'static str) {
        self.metrics().api_limited.get_or_create(&[("limit", limit)]).inc();
    }
}

fn busy(code: &str, detail: &str, seconds: u64) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after(seconds)
}

/// What a request holds until it is answered.
#[derive(Debug)]
pub(super) struct RequestScope {
    pub(super) limits: Arc<ApiLimits>,
    pub(super) client: Client,
    pub(super) connection: Arc<Connection>,
    held: Mutex<Vec<OwnedSemaphorePermit>>,
}

impl RequestScope {
    pub(super) fn new(
        limits: Arc<ApiLimits>,
        client: Client,
        connection: Arc<Connection>,
    ) -> Arc<Self> {
        Arc::new(Self { limits, client, connection, held: Mutex::default() })
    }

    /// Keeps a permit until the request is answered.
    pub(super) fn hold(&self, permit: OwnedSemaphorePermit) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(permit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> Client {
        Client::at(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let limit = ConcurrencyLimit::new(3, 2);
        let own = [limit.acquire(&client(1)).unwrap(), limit.acquire(&client(1)).unwrap()];
        assert_eq!(limit.acquire(&client(1)).unwrap_err(), Full::Client);
        let other = limit.acquire(&client(2)).unwrap();
        assert_eq!(limit.acquire(&client(3)).unwrap_err(), Full::Total);
        drop(own);
        let again = limit.acquire(&client(1)).unwrap();
        drop((other, again));
        assert_eq!(
            limit.taken.lock().unwrap().clients.len(),
            0,
            "nothing is kept of those who left"
        );
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let at = |text: &str| Client::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:192.0.2.1"), client(1));
    }

    #[test]
    fn what_may_not_be_closed_is_never_all() {
        for connections in [8, 20, 1_000] {
            let config = config::Api { max_streams: 10_000, ..config::Api::default() };
            let limits = ApiLimits::new(&config, connections, Arc::default());
            let taken = limits.requests.total + limits.health.total + limits.streams.total;
            assert!(taken < connections, "{taken} of {connections}");
        }
    }
}
