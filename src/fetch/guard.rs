//! The guard against being sent where no publisher is: private networks, other services' ports, odd
//! schemes, credentials.
//!
//! It stands twice: [`Guard::check_url`] before every hop, because an address literal never
//! reaches a resolver, and the resolver itself, because a name can lead anywhere and change its
//! mind. Names in `fetch.resolve` are the operator's own word and pass, and so does the name of
//! `fetch.proxy`. A source's own proxy is guarded like a publisher.

mod proxy;
mod ranges;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hickory_resolver::TokioResolver;
use reqwest::dns::{Addrs, Name, Resolve as ResolveName, Resolving};
use tokio::sync::OnceCell;
use url::{Host, Url};

use super::FetchError;
use crate::config::{Fetch, HostPattern, Network, Resolve};

pub(super) use proxy::{PastProxy, ProxyAddress};

/// Addresses of one name that are tried at the most, however many it has.
const MAX_ADDRESSES: usize = 16;

/// An address that the guard does not let through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not http or https.
    #[error("refused: {0}: is not a web scheme")]
    Scheme(String),
    /// A user name or password in the address.
    #[error("refused: the address carries credentials")]
    Credentials,
    /// No host.
    #[error("refused: the address has no host")]
    NoHost,
    /// A host outside of the operator's list.
    #[error("refused: {0} is not among fetch.allow_hosts")]
    NotListed(String),
    /// A port of something that is not the web.
    #[error("refused: port {0} is not one of the web (fetch.allow_ports can allow it)")]
    Port(u16),
    /// An address that is not on the public internet.
    #[error("refused: {} not a public address (fetch.allow_networks can allow it)", leads(host, *ip))]
    Private {
        /// As asked for.
        host: String,
        /// Where it leads.
        ip: IpAddr,
    },
    /// The proxy that a source names is not allowed.
    #[error("the source's proxy is {0}")]
    Proxy(Box<Self>),
}

/// A host with where it leads, unless it says so itself.
fn leads(host: &str, ip: IpAddr) -> String {
    if host.trim_matches(['[', ']']) == ip.to_string() {
        format!("{host} is")
    } else {
        format!("{host} is {ip}, which is")
    }
}

/// What may be connected to.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    resolve: Vec<Resolve>,
    networks: Vec<Network>,
    hosts: Vec<HostPattern>,
    ports: Vec<u16>,
    resolver: OnceCell<TokioResolver>,
}

impl Guard {
    /// A guard with the operator's exceptions, on the system's resolver.
    #[must_use]
    pub fn new(fetch: &Fetch) -> Self {
        Self::build(fetch, OnceCell::new())
    }

    /// The same on another resolver.
    #[must_use]
    pub fn with_resolver(fetch: &Fetch, resolver: TokioResolver) -> Self {
        Self::build(fetch, OnceCell::from(resolver))
    }

    /// No guard at all: for what an operator names, such as a search engine next door.
    #[must_use]
    pub fn none() -> Self {
        let all = ["0.0.0.0/0", "::/0"];
        let networks = all.iter().filter_map(|network| network.parse().ok()).collect();
        let fetch = Fetch { allow_networks: networks, ..Fetch::default() };
        Self::build(&fetch, OnceCell::new())
    }

    fn build(fetch: &Fetch, resolver: OnceCell<TokioResolver>) -> Self {
        Self(Arc::new(Inner {
            resolve: fetch.resolve.clone(),
            networks: fetch.allow_networks.clone(),
            hosts: fetch.allow_hosts.clone(),
            ports: fetch.allow_ports.clone(),
            resolver,
        }))
    }

    /// Checks what can be told from the address alone.
    pub fn check_url(&self, url: &Url) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(Refusal::NoHost)?;
        let hosts = &self.0.hosts;
        if !hosts.is_empty() && !hosts.iter().any(|pattern| pattern.matches(host)) {
            return Err(Refusal::NotListed(host.to_owned()));
        }
        if let Some(checked) = self.check_resolved(host, url.port()) {
            return checked;
        }
        self.check_port(url.port_or_known_default().unwrap_or_default())?;
        match url.host() {
            Some(Host::Ipv4(ip)) => self.check_ip(host, ip.into()),
            Some(Host::Ipv6(ip)) => self.check_ip(host, ip.into()),
            Some(Host::Domain(name)) if is_localhost(name) => self
                .check_ip(host, Ipv4Addr::LOCALHOST.into())
                .or_else(|_| self.check_ip(host, Ipv6Addr::LOCALHOST.into())),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }

    /// What `fetch.resolve` says of a host, if anything. A port in the URL wins over the entry's when the
    /// connection is made, so another one than the entry's is only for addresses that everybody may reach.
    fn check_resolved(&self, host: &str, port: Option<u16>) -> Option<Result<(), Refusal>> {
        let fixed = Resolve::addresses(&self.0.resolve, host);
        let mut others = fixed.iter().filter(|fixed| port.is_some_and(|port| port != fixed.port()));
        let check = |other: &SocketAddr| {
            self.check_ip(host, other.ip()).and_then(|()| self.check_port(port.unwrap_or_default()))
        };
        (!fixed.is_empty()).then(|| others.try_for_each(check))
    }

    fn check_port(&self, port: u16) -> Result<(), Refusal> {
        let ports = &self.0.ports;
        let open = if ports.is_empty() { ranges::is_web_port(port) } else { ports.contains(&port) };
        if open { Ok(()) } else { Err(Refusal::Port(port)) }
    }

    fn check_ip(&self, host: &str, ip: IpAddr) -> Result<(), Refusal> {
        let ip = ip.to_canonical();
        if ranges::is_public(ip) || self.0.networks.iter().any(|network| network.contains(ip)) {
            return Ok(());
        }
        Err(Refusal::Private { host: host.to_owned(), ip })
    }

    /// Where to connect for a name, at this moment.
    pub(super) async fn addresses(&self, host: &str) -> Result<Vec<SocketAddr>, FetchError> {
        let fixed = Resolve::addresses(&self.0.resolve, host);
        if !fixed.is_empty() {
            return Ok(fixed);
        }
        self.admit(host, self.lookup(host).await?)
    }

    async fn lookup(&self, host: &str) -> Result<Vec<IpAddr>, FetchError> {
        let dns = |message: String| FetchError::Dns { host: host.to_owned(), message };
        let resolver = self
            .0
            .resolver
            .get_or_try_init(|| async { TokioResolver::builder_tokio()?.build() })
            .await
            .map_err(|error| dns(error.to_string()))?;
        let found = resolver.lookup_ip(host).await.map_err(|error| dns(error.to_string()))?;
        Ok(found.iter().collect())
    }

    /// The answers that may be connected to. Private ones among others are left out; a name that has
    /// nothing else is refused.
    fn admit(
        &self,
        host: &str,
        answers: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        let mut refusal = None;
        let mut admitted = Vec::new();
        for ip in answers {
            match self.check_ip(host, ip) {
                Ok(()) => admitted.push(SocketAddr::new(ip, 0)),
                Err(refused) => refusal = Some(refused),
            }
            if admitted.len() == MAX_ADDRESSES {
                break;
            }
        }
        match refusal {
            _ if !admitted.is_empty() => Ok(admitted),
            Some(refused) => Err(refused.into()),
            None => {
                let message = "it has no addresses".to_owned();
                Err(FetchError::Dns { host: host.to_owned(), message })
            }
        }
    }
}

/// Names that mean this machine, whatever a resolver says.
fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    last == "localhost"
        || matches!(name.as_str(), "localhost.localdomain" | "ip6-localhost" | "ip6-loopback")
}

impl ResolveName for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.addresses(name.as_str()).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
