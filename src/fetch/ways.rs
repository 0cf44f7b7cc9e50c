//! The ways out: directly, from one of our addresses, or through a proxy. Each way has its own pool
//! of connections, by scheme, host and port.
//!
//! A proxy from the environment is never used: it would resolve names past the guard.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use feedmill_formats::url as web;
use url::{Host, Url};

use super::guard::{PastProxy, ProxyAddress};
use super::{FetchError, Guard};
use crate::config::SecretUrl;
use crate::model::{Source, UrlHash};

/// Header lines that an answer may have at the most.
const MAX_HEADERS: usize = 256;
/// Bytes that the head of an answer may have at the most.
pub(super) const MAX_HEAD: u32 = 64 * 1024;

/// Connections to a publisher that are kept for the next request…
const FETCHER: usize = 2;
/// …and to a target of ours, which gets as many requests at a time.
const POSTER: usize = 64;

/// Bytes that the buffers of idle connections may take together, for each way out. A connection that is kept for
/// the next request keeps the buffer of its last response, and the HTTP library has no limit for all of them.
const MAX_IDLE_BUFFERS: usize = 32 << 20;
/// The largest buffer of a connection in the HTTP library…
const MAX_PLAIN_BUFFER: usize = 408 << 10;
/// …and about the largest behind TLS, which hands on few records at a time.
const MAX_TLS_BUFFER: usize = 64 << 10;

/// A client for requests that are no fetches, behind the guard and directly. It follows nothing.
pub fn poster(
    guard: Guard,
    connect_timeout: Duration,
    trusted: Vec<reqwest::Certificate>,
) -> Result<reqwest::Client, FetchError> {
    Ways { trusted, idle: POSTER, ..Ways::new(guard, connect_timeout) }.pool(Way::default())
}

/// The way of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Way {
    pub(super) proxy: Option<String>,
    /// The proxy is not the operator's but one that a source names: the guard holds for it.
    is_sources_proxy: bool,
    bind: Option<IpAddr>,
}

impl Way {
    /// The source's own way where it has one, else the house's.
    pub(super) fn of(
        url: &Url,
        proxy: &SecretUrl,
        bind: &[IpAddr],
        source: Option<&Source>,
    ) -> Self {
        let access = source.map(|source| &source.spec.access);
        let operators = proxy.expose();
        let proxy = access.and_then(|access| access.proxy.as_ref()).unwrap_or(proxy).expose();
        let own = access.map(|access| access.bind.as_slice()).filter(|bind| !bind.is_empty());
        Self {
            proxy: (!proxy.is_empty()).then(|| proxy.to_owned()),
            is_sources_proxy: proxy != operators,
            bind: sticky(own.unwrap_or(bind), url),
        }
    }

    /// A name that has to be looked up before anybody is asked: that of a source's proxy, because the
    /// HTTP library does not tell why it could not connect to a SOCKS proxy, and that of an address on
    /// the operator's proxy, whose name the resolver lets pass.
    pub(super) fn name_to_check(&self, url: &Url) -> Option<String> {
        match ProxyAddress::parse(self.proxy.as_deref()?)?.host {
            Host::Domain(name) => {
                let is_target = url.domain().is_some_and(|target| target == name);
                (self.is_sources_proxy || is_target).then_some(name)
            }
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }
}

/// The address that a host always gets. An address that is added or taken away moves no host
/// but those that it gains or leaves.
fn sticky(bind: &[IpAddr], url: &Url) -> Option<IpAddr> {
    if bind.is_empty() {
        return None;
    }
    let host = web::host(url);
    bind.iter().copied().max_by_key(|ip| UrlHash::of(&format!("{host} {ip}")).head())
}

/// The connections of a way, and what the buffers of those that are kept take.
#[derive(Debug)]
struct Pool {
    client: reqwest::Client,
    /// By scheme, host and port.
    buffers: HashMap<String, usize>,
    buffered: usize,
}

impl Pool {
    fn new(client: reqwest::Client) -> Self {
        Self { client, buffers: HashMap::new(), buffered: 0 }
    }

    /// Counts the buffer of a connection that brought a body of so many bytes; whether all are too large now.
    fn note_buffer(&mut self, url: &Url, body: usize) -> bool {
        let most = if url.scheme() == "http" { MAX_PLAIN_BUFFER } else { MAX_TLS_BUFFER };
        let buffer = self.buffers.entry(url.origin().ascii_serialization()).or_default();
        let grown = body.min(most).saturating_sub(*buffer);
        *buffer += grown;
        self.buffered += grown;
        self.buffered > MAX_IDLE_BUFFERS
    }
}

/// One pool for each way that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    guard: Guard,
    connect_timeout: Duration,
    /// Who may sign for a server, beside those whom the system trusts.
    trusted: Vec<reqwest::Certificate>,
    /// Connections to a host that are kept for the next request.
    idle: usize,
    pools: Arc<Mutex<HashMap<Way, Pool>>>,
}

impl Ways {
    pub(super) fn new(guard: Guard, connect_timeout: Duration) -> Self {
        Self { guard, connect_timeout, trusted: Vec::new(), idle: FETCHER, pools: Arc::default() }
    }

    /// The pool of a way.
    pub(super) fn pool(&self, way: Way) -> Result<reqwest::Client, FetchError> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&way) {
            return Ok(pool.client.clone());
        }
        let client = self.build(&way)?;
        pools.insert(way, Pool::new(client.clone()));
        Ok(client)
    }

    /// Counts a body that arrived. A pool whose idle connections may hold too much is dropped: that closes them,
    /// and requests that are under way end as they would have.
    pub(super) fn note_body(&self, way: &Way, url: &Url, bytes: usize) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if pools.get_mut(way).is_some_and(|pool| pool.note_buffer(url, bytes)) {
            pools.remove(way);
        }
    }

    fn build(&self, way: &Way) -> Result<reqwest::Client, FetchError> {
        #[expect(clippy::disallowed_methods, reason = "this is fetch::Client")]
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .local_address(way.bind)
            .connect_timeout(self.connect_timeout)
            .pool_max_idle_per_host(self.idle)
            .pool_idle_timeout(Duration::from_secs(30))
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEAD);
        if !self.trusted.is_empty() {
            builder = builder.tls_certs_merge(self.trusted.iter().cloned());
        }
        builder = match &way.proxy {
            None => builder.dns_resolver(self.guard.clone()),
            Some(proxy) => {
                // Not told further: the address of a proxy may hold a password.
                let unusable = || FetchError::BadRequest("the proxy's address is unusable".into());
                let address = ProxyAddress::parse(proxy).ok_or_else(unusable)?;
                let builder = if way.is_sources_proxy {
                    self.guard.check_proxy(proxy)?;
                    builder.dns_resolver(self.guard.clone())
                } else {
                    let (guard, host) = (self.guard.clone(), address.host.to_string());
                    builder.dns_resolver(PastProxy { guard, proxy: host })
                };
                builder.proxy(reqwest::Proxy::all(proxy).map_err(|_| unusable())?)
            }
        };
        builder.build().map_err(|error| FetchError::BadRequest(super::client::chain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_keeps_its_address() {
        let all: Vec<IpAddr> = (1..=4).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        let fewer = all.split_last().unwrap().1;
        let mut used = std::collections::HashSet::new();
        for n in 0..200 {
            let host = Url::parse(&format!("http://host{n}.example/")).unwrap();
            let had = sticky(&all, &host).unwrap();
            assert_eq!(sticky(&all, &host), Some(had));
            assert!(!fewer.contains(&had) || sticky(fewer, &host) == Some(had), "{host} moved");
            used.insert(had);
        }
        assert_eq!(used.len(), all.len());
        assert_eq!(sticky(&[], &Url::parse("http://host.example/").unwrap()), None);
    }
}
