//! The guard against being sent where no publisher is: private networks, odd schemes, credentials.
//!
//! It stands twice: [`Guard::check_url`] before every hop, because an address literal never
//! reaches a resolver, and the resolver itself, because a name can lead anywhere and change its
//! mind. Names in `fetch.resolve` are the operator's own word and pass.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hickory_resolver::TokioResolver;
use reqwest::dns::{Addrs, Name, Resolve as ResolveName, Resolving};
use tokio::sync::OnceCell;
use url::{Host, Url};

use super::FetchError;
use crate::config::{Network, Resolve};

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
    /// An address that is not on the public internet.
    #[error(
        "refused: {host} is {ip}, which is not a public address (fetch.allow_networks can allow it)"
    )]
    Private {
        /// As asked for.
        host: String,
        /// Where it leads.
        ip: IpAddr,
    },
}

/// What may be connected to.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    overrides: Vec<Resolve>,
    allowed: Vec<Network>,
    resolver: OnceCell<TokioResolver>,
}

impl Guard {
    /// A guard with the operator's exceptions.
    #[must_use]
    pub fn new(overrides: Vec<Resolve>, allowed: Vec<Network>) -> Self {
        Self(Arc::new(Inner { overrides, allowed, resolver: OnceCell::new() }))
    }

    /// Checks what can be told from the address alone.
    pub fn check_url(&self, url: &Url) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        let ip = match url.host().ok_or(Refusal::NoHost)? {
            Host::Domain(_) => return Ok(()),
            Host::Ipv4(ip) => IpAddr::V4(ip),
            Host::Ipv6(ip) => IpAddr::V6(ip),
        };
        self.check_ip(&ip.to_string(), ip)
    }

    fn check_ip(&self, host: &str, ip: IpAddr) -> Result<(), Refusal> {
        if is_public(ip) || self.0.allowed.iter().any(|network| network.contains(ip)) {
            return Ok(());
        }
        Err(Refusal::Private { host: host.to_owned(), ip })
    }

    async fn addresses(&self, host: &str) -> Result<Vec<SocketAddr>, FetchError> {
        if let Some(word) = self.0.overrides.iter().find(|word| word.matches(host)) {
            return Ok(vec![word.address()]);
        }
        let dns = |message: String| FetchError::Dns { host: host.to_owned(), message };
        let resolver = self
            .0
            .resolver
            .get_or_try_init(|| async { TokioResolver::builder_tokio()?.build() })
            .await
            .map_err(|error| dns(error.to_string()))?;
        let found = resolver.lookup_ip(host).await.map_err(|error| dns(error.to_string()))?;
        let mut addresses = Vec::new();
        for ip in found.iter() {
            // One private answer among public ones is a trick, not an accident.
            self.check_ip(host, ip)?;
            addresses.push(SocketAddr::new(ip, 0));
        }
        if addresses.is_empty() {
            return Err(dns("no addresses".to_owned()));
        }
        Ok(addresses)
    }
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

/// Whether an address is one that a publisher can have.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    if let Some(v4) = embedded_v4(ip) {
        return is_public_v4(v4);
    }
    let [first, second, ..] = ip.segments();
    // Only 2000::/3 is handed out; within it, the ranges for documents and for tunnels are not.
    (first & 0xe000) == 0x2000
        && !(first == 0x2001 && (second == 0x0db8 || second < 0x0200))
        && first != 0x3fff
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, NAT64 or 6to4.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [s0, s1, s2, .., s6, s7] = ip.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    if let Some(mapped) = ip.to_ipv4() {
        return Some(mapped);
    }
    match (s0, s1) {
        (0x0064, 0xff9b) => Some(v4(s6, s7)),
        (0x2002, _) => Some(v4(s1, s2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new(Vec::new(), Vec::new())
    }

    #[test]
    fn literals_in_any_notation_stay_outside() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://0/",
            "http://10.0.0.1/",
            "http://172.16.3.4/",
            "http://192.168.1.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://100.64.0.1/",
            "http://198.18.0.1/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[fe80::1]/",
            "http://[fc00::1]/",
            "http://[fd12:3456::1]/",
            "http://[ff02::1]/",
            "http://[2001:db8::1]/",
            "http://[2001::1]/",
        ] {
            let parsed = Url::parse(url).unwrap();
            assert!(matches!(guard().check_url(&parsed), Err(Refusal::Private { .. })), "{url}");
        }
    }

    #[test]
    fn public_addresses_and_names_pass() {
        for url in ["http://93.184.216.34/", "https://example.com/", "http://[2606:2800:220:1::1]/"]
        {
            assert_eq!(guard().check_url(&Url::parse(url).unwrap()), Ok(()), "{url}");
        }
    }

    #[test]
    fn schemes_and_credentials_are_refused() {
        for (url, refusal) in [
            ("file:///etc/passwd", Refusal::Scheme("file".into())),
            ("ftp://example.com/", Refusal::Scheme("ftp".into())),
            ("http://me:secret@example.com/", Refusal::Credentials),
            ("http://me@example.com/", Refusal::Credentials),
        ] {
            assert_eq!(guard().check_url(&Url::parse(url).unwrap()), Err(refusal), "{url}");
        }
    }

    #[test]
    fn the_operator_may_allow_a_network() {
        let guard = Guard::new(Vec::new(), vec!["127.0.0.0/8".parse().unwrap()]);
        assert_eq!(guard.check_url(&Url::parse("http://127.0.0.1:8080/").unwrap()), Ok(()));
        assert!(guard.check_url(&Url::parse("http://10.0.0.1/").unwrap()).is_err());
    }

    #[tokio::test]
    async fn an_override_answers_before_any_resolver() {
        let guard = Guard::new(vec!["*.newsroom.test=127.0.0.1:8099".parse().unwrap()], Vec::new());
        let found = guard.addresses("alder.newsroom.test").await.unwrap();
        assert_eq!(found, ["127.0.0.1:8099".parse().unwrap()]);
    }
}
