//! The guard for proxies.
//!
//! `fetch.proxy` is set by the operator and may be anywhere. A proxy that a source names is an address
//! like any other: it must be public, however it is spelled and wherever its name leads, unless
//! `fetch.allow_networks` allows it. Otherwise whoever may change a source could have any service of the
//! private network answer in the publisher's place.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve as ResolveName, Resolving};
use url::{Host, Url};

use super::{Guard, Refusal, is_localhost, ranges};

/// Where a proxy listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fetch) struct ProxyAddress {
    pub(in crate::fetch) host: Host<String>,
    port: u16,
}

impl ProxyAddress {
    pub(in crate::fetch) fn parse(proxy: &str) -> Option<Self> {
        let url = Url::parse(proxy).ok()?;
        // Hosts of `socks5:` URLs are not normalized: 0x7f.1 would pass for a name.
        let host = Host::parse(url.host_str()?).ok()?;
        let usual = if matches!(url.scheme(), "socks5" | "socks5h") { Some(1080) } else { None };
        let port = url.port_or_known_default().or(usual)?;
        Some(Self { host, port })
    }
}

impl Guard {
    /// Checks what can be told of a source's proxy from its URL alone. Where its name leads is checked
    /// when it is resolved.
    pub fn check_proxy(&self, proxy: &str) -> Result<(), Refusal> {
        if proxy.is_empty() {
            return Ok(());
        }
        let refuse = |refusal| Refusal::Proxy(Box::new(refusal));
        let address = ProxyAddress::parse(proxy).ok_or_else(|| refuse(Refusal::NoHost))?;
        self.check_proxy_address(&address).map_err(refuse)
    }

    fn check_proxy_address(&self, address: &ProxyAddress) -> Result<(), Refusal> {
        let host = address.host.to_string();
        let port = address.port;
        if let Some(checked) = self.check_resolved(&host, Some(port)) {
            return checked;
        }
        // Port 1080 and the like: `fetch.allow_ports` is about publishers and may not list them.
        if !ranges::is_web_port(port) && !self.0.ports.contains(&port) {
            return Err(Refusal::Port(port));
        }
        match &address.host {
            Host::Ipv4(ip) => self.check_ip(&host, (*ip).into()),
            Host::Ipv6(ip) => self.check_ip(&host, (*ip).into()),
            Host::Domain(name) if is_localhost(name) => self
                .check_ip(&host, Ipv4Addr::LOCALHOST.into())
                .or_else(|_| self.check_ip(&host, Ipv6Addr::LOCALHOST.into())),
            Host::Domain(_) => Ok(()),
        }
    }
}

/// A resolver for requests through the operator's proxy: the proxy may be anywhere, all others are
/// guarded.
#[derive(Clone, Debug)]
pub(in crate::fetch) struct PastProxy {
    pub(in crate::fetch) guard: Guard,
    pub(in crate::fetch) proxy: String,
}

impl ResolveName for PastProxy {
    fn resolve(&self, name: Name) -> Resolving {
        if !name.as_str().eq_ignore_ascii_case(&self.proxy) {
            return self.guard.resolve(name);
        }
        let guard = self.guard.clone();
        Box::pin(async move {
            let found = guard.lookup(name.as_str()).await?;
            Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fetch;

    const PRIVATE: &[&str] = &[
        "http://127.0.0.1:8080",
        "http://169.254.169.254",
        "https://10.0.0.1:3128",
        "http://ann:pw@192.168.0.1:3128",
        "http://2130706433:8080",
        "http://0177.0.0.1:8080",
        "http://0x7f.1:8080",
        "http://127.1:8080",
        "http://[::1]:8080",
        "http://[::ffff:10.0.0.1]:8080",
        "http://[64:ff9b::a9fe:a9fe]:8080",
        "http://[fd00::1]:8080",
        "http://localhost:8080",
        "http://LOCALHOST.:8080",
        "socks5://127.0.0.1",
        "socks5://2130706433:1080",
        "socks5h://0x7f.1:1080",
        "socks5h://0177.1:1080",
        "socks5://[::ffff:127.0.0.1]:1080",
        "socks5h://localhost:1080",
        "http://168.63.129.16:8080",
        "http://0.0.0.0:8080",
    ];

    #[test]
    fn a_sources_proxy_is_no_way_into_a_private_network() {
        let guard = Guard::new(&Fetch::default());
        for proxy in PRIVATE {
            let refused = guard.check_proxy(proxy);
            assert!(
                matches!(&refused, Err(Refusal::Proxy(why)) if matches!(**why, Refusal::Private { .. })),
                "{proxy}: {refused:?}"
            );
            assert!(!refused.unwrap_err().to_string().contains("pw"), "{proxy}");
        }
        for proxy in
            ["http://proxy.example:3128", "socks5h://8.8.8.8", "https://[2606:4700::1]", ""]
        {
            assert_eq!(guard.check_proxy(proxy), Ok(()), "{proxy}");
        }
        for (proxy, port) in [("http://8.8.8.8:25", 25), ("socks5://proxy.example:6379", 6379)] {
            let refused = Err(Refusal::Proxy(Box::new(Refusal::Port(port))));
            assert_eq!(guard.check_proxy(proxy), refused, "{proxy}");
        }
    }

    #[test]
    fn the_configuration_file_can_allow_it() {
        let open = ["127.0.0.0/8", "10.0.0.1"].map(|network| network.parse().unwrap());
        let resolve = vec!["proxy.test=192.168.0.1:3128".parse().unwrap()];
        let fetch = Fetch { allow_networks: open.into(), resolve, ..Fetch::default() };
        let guard = Guard::new(&fetch);
        for proxy in ["http://127.0.0.1:8080", "socks5://10.0.0.1", "http://proxy.test:3128"] {
            assert_eq!(guard.check_proxy(proxy), Ok(()), "{proxy}");
        }
        assert!(guard.check_proxy("http://10.0.0.2:8080").is_err());
        assert!(guard.check_proxy("http://proxy.test:25").is_err(), "the entry is for port 3128");
    }
}
