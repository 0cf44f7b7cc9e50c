//! Addresses that are not taken in any more, because they were taken down. Pure.

use std::collections::HashSet;

use feedmill_formats::url as web;

use crate::model::UrlHash;

/// What is refused, as far as somebody has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// All addresses of these hosts, and of those below them.
    pub hosts: Vec<String>,
    /// Addresses with these hashes of their normalised form.
    pub hashes: HashSet<UrlHash>,
}

impl Refusals {
    /// Whether nothing is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.hashes.is_empty()
    }

    /// Whether an address is refused.
    #[must_use]
    pub fn refuses(&self, hash: UrlHash, url: &str) -> bool {
        self.hashes.contains(&hash)
            || (!self.hosts.is_empty()
                && web::parse(url).is_ok_and(|url| {
                    let host = web::host(&url);
                    self.hosts.iter().any(|above| is_below(&host, above))
                }))
    }
}

/// Whether a host is another one, or below it.
#[must_use]
pub fn is_below(host: &str, above: &str) -> bool {
    host.strip_suffix(above).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_refused_with_all_below_it() {
        let refused = Refusals { hosts: vec!["a.example".into()], hashes: HashSet::new() };
        let refuses = |url: &str| refused.refuses(UrlHash::of(url), url);
        for url in ["https://a.example/x", "http://www.A.example:8080/", "https://b.a.example/"] {
            assert!(refuses(url), "{url}");
        }
        for url in ["https://ba.example/", "https://example/", "https://b.example/a.example", "x"] {
            assert!(!refuses(url), "{url}");
        }
    }

    #[test]
    fn an_address_is_refused_by_its_hash() {
        let hash = UrlHash::of("https://a.example/x");
        let refused = Refusals { hosts: vec![], hashes: [hash].into() };
        assert!(refused.refuses(hash, "whatever it is written like"));
        assert!(!refused.refuses(UrlHash::of("https://a.example/y"), "https://a.example/y"));
        assert!(Refusals::default().is_empty() && !refused.is_empty());
    }
}
