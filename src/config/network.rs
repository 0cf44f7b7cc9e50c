//! Exceptions to where the fetcher connects: fixed addresses for names, and permitted networks.
//!
//! These values only say what is meant; the fetcher's guard is what applies them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::BadValue;

/// A host, or with `*.` in front all names below one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(title = "hosts such as \"example.com\" or \"*.example.com\"")]
pub struct HostPattern(String);

impl HostPattern {
    /// Whether it means the host: the same name, or a name below `*.`. The dot that may end a name
    /// changes nothing.
    pub fn matches(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        match self.0.strip_prefix('*') {
            Some(suffix) => host.strip_suffix(suffix).is_some_and(|label| !label.is_empty()),
            None => host == self.0,
        }
    }
}

impl FromStr for HostPattern {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let host = text.trim().to_ascii_lowercase();
        let name = host.strip_prefix("*.").unwrap_or(&host);
        let is_label = |label: &str| {
            !label.is_empty()
                && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        };
        // An address literal is a host too, as it stands in a URL.
        let is_v6 = name.starts_with('[') && name.ends_with(']') && name == host;
        if is_v6 || name.split('.').all(is_label) {
            return Ok(Self(host));
        }
        Err(BadValue {
            given: text.to_owned(),
            wanted: "a host such as \"example.com\" or \"*.example.com\"",
        })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for HostPattern {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.0
    }
}

/// `HOST=IP:PORT`: requests to the host connect to this address. The host may be `*.example.test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(title = "entries such as \"news.example=127.0.0.1:8080\"")]
pub struct Resolve {
    host: HostPattern,
    address: SocketAddr,
}

impl Resolve {
    /// Where to connect for this host: the first entry that means it, and those of the same name.
    pub fn addresses(entries: &[Self], host: &str) -> Vec<SocketAddr> {
        let first = entries.iter().find(|entry| entry.host.matches(host));
        let same = |entry: &&Self| first.is_some_and(|first| first.host == entry.host);
        entries.iter().filter(same).map(|entry| entry.address).collect()
    }
}

impl FromStr for Resolve {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || BadValue {
            given: text.to_owned(),
            wanted: "HOST=IP:PORT, with HOST a name or *.name",
        };
        let (host, address) = text.split_once('=').ok_or_else(bad)?;
        let address = address.trim().parse().map_err(|_| bad())?;
        let host = host.parse().map_err(|_| bad())?;
        Ok(Self { host, address })
    }
}

impl fmt::Display for Resolve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.host, self.address)
    }
}

impl TryFrom<String> for Resolve {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<Resolve> for String {
    fn from(resolve: Resolve) -> Self {
        resolve.to_string()
    }
}

/// A range of addresses in CIDR form; a single address is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(title = "networks such as \"127.0.0.0/8\" or \"fd00::/8\"")]
pub struct Network(IpNet);

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Network {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let net = text.trim().parse::<IpNet>();
        net.or_else(|_| text.trim().parse::<IpAddr>().map(IpNet::from)).map(Self).map_err(|_| {
            BadValue { given: text.to_owned(), wanted: "a network such as \"127.0.0.0/8\"" }
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for Network {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_matches_its_name_or_the_names_below() {
        for (entry, host, expected) in [
            ("news.example=127.0.0.1:80", "news.example", true),
            ("News.Example=127.0.0.1:80", "NEWS.example", true),
            ("news.example=127.0.0.1:80", "www.news.example", false),
            ("*.test=[::1]:80", "news.test", true),
            ("*.test=[::1]:80", "a.b.test", true),
            ("*.test=[::1]:80", "test", false),
            ("*.test=[::1]:80", "news.attest", false),
        ] {
            let found = Resolve::addresses(&[entry.parse().unwrap()], host);
            assert_eq!(!found.is_empty(), expected, "{entry} {host}");
        }
    }

    #[test]
    fn a_name_may_have_several_addresses() {
        let entries: Vec<Resolve> =
            ["a.test=[::1]:80", "*.test=[::2]:80", "a.test=[::3]:80", "b.test=[::4]:80"]
                .map(|entry| entry.parse().unwrap())
                .into();
        let found = |host| Resolve::addresses(&entries, host);
        assert_eq!(found("a.test"), ["[::1]:80".parse().unwrap(), "[::3]:80".parse().unwrap()]);
        assert_eq!(found("b.test."), ["[::2]:80".parse().unwrap()], "the first that means it");
    }

    #[test]
    fn a_pattern_is_a_host_or_all_below() {
        for good in ["example.com", "*.Example.com", "192.0.2.1", "[2001:db8::1]"] {
            assert_eq!(good.parse::<HostPattern>().unwrap().to_string(), good.to_lowercase());
        }
        for bad in ["", "*", "a b", "https://a.test", "a.test:80", "a.*.test"] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn entries_print_as_written() {
        for entry in ["*.test=[::1]:80", "news.example=127.0.0.1:8080"] {
            assert_eq!(entry.parse::<Resolve>().unwrap().to_string(), entry);
        }
        for (written, printed) in [("127.0.0.0/8", "127.0.0.0/8"), ("10.1.2.3", "10.1.2.3/32")] {
            assert_eq!(written.parse::<Network>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn broken_entries_are_refused() {
        for bad in [
            "news.example",
            "=127.0.0.1:80",
            "news.example=127.0.0.1",
            "news.example=other.example:80",
            "*=127.0.0.1:80",
            "a.*.test=127.0.0.1:80",
            "http://a.test=127.0.0.1:80",
        ] {
            let error = bad.parse::<Resolve>().unwrap_err();
            assert!(error.to_string().contains("is not HOST=IP:PORT"), "{error}");
        }
        for bad in ["", "127.0.0.0/33", "localhost", "10/8"] {
            let error = bad.parse::<Network>().unwrap_err();
            assert!(error.to_string().contains("is not a network such as"), "{error}");
        }
    }

    #[test]
    fn a_network_contains_its_addresses() {
        let network: Network = "127.0.0.0/8".parse().unwrap();
        assert!(network.contains("127.9.9.9".parse().unwrap()));
        assert!(!network.contains("128.0.0.1".parse().unwrap()));
    }
}
