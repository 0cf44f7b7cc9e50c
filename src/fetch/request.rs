//! The header lines of a request: what is sent, and what of it may be seen.
//!
//! What a source's publisher gave us goes to the source's own site and nowhere else, whoever sends
//! us on. Secrets are in what is sent and never in what is recorded.

use feedmill_formats::url as web;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::FetchError;
use crate::model::{Access, Auth, Headers, Kind, Source, Validators};

/// What stands in the record for a value that is secret.
const MASK: &[u8] = b"***";

/// Header lines on their way out.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// As sent.
    pub(super) sent: HeaderMap,
    /// As recorded.
    pub(super) recorded: Headers,
}

/// The lines of a request.
pub(super) fn lines(
    url: &Url,
    kind: Kind,
    validators: &Validators,
    agent: &str,
    source: Option<&Source>,
) -> Result<Lines, FetchError> {
    let access = source.filter(|source| is_own_site(source, url)).map(|source| &source.spec.access);
    let mut lines = Lines::default();
    // The HTTP library adds this line by itself; the record shows it.
    lines.recorded.push("host", authority(url).as_bytes());
    let agent = access.and_then(|access| access.user_agent.as_deref()).unwrap_or(agent);
    lines.add("user-agent", agent)?;
    lines.add("accept", accept(kind))?;
    lines.add("accept-encoding", "gzip, br, zstd, deflate")?;
    if let Some(etag) = &validators.etag {
        lines.add("if-none-match", etag)?;
    }
    if let Some(date) = &validators.last_modified {
        lines.add("if-modified-since", date)?;
    }
    if let Some(access) = access {
        lines.add_access(access)?;
    }
    Ok(lines)
}

/// Whether an address is of the source's own site: its registrable domain, never by plain HTTP where
/// the source is at home behind TLS, and at no port but the usual one or one that the operator named.
fn is_own_site(source: &Source, url: &Url) -> bool {
    let spec = &source.spec;
    let Ok(home) = web::parse(&spec.url) else { return false };
    let is_of_site = |other: &Url| {
        let (home_host, host) = (web::host(&home), web::host(other));
        web::site(&home_host) == web::site(&host)
            && (other.scheme() == "https" || home.scheme() == "http")
    };
    // Another service may listen beside the publisher's.
    let mut named = [&spec.url].into_iter().chain(&spec.feed_urls).chain(&spec.sitemap_urls);
    let mut is_named = || {
        named.any(|named| {
            web::parse(named).is_ok_and(|named| named.port() == url.port() && is_of_site(&named))
        })
    };
    is_of_site(url) && (url.port().is_none() || is_named())
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

const fn accept(kind: Kind) -> &'static str {
    match kind {
        Kind::Feed | Kind::Archive => {
            "application/rss+xml, application/atom+xml, application/feed+json, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5"
        }
        Kind::Sitemap => "application/xml, text/xml;q=0.9, */*;q=0.5",
        Kind::Robots => "text/plain, */*;q=0.5",
        Kind::Enclosure => "*/*",
        Kind::Probe => {
            "text/html, application/rss+xml, application/atom+xml, application/feed+json, application/xml;q=0.9, */*;q=0.5"
        }
        Kind::Listing | Kind::Article => "text/html, application/xhtml+xml;q=0.9, */*;q=0.5",
    }
}

impl Lines {
    fn add(&mut self, name: &'static str, value: &str) -> Result<(), FetchError> {
        let bytes = Headers::bytes(value);
        let value = HeaderValue::from_bytes(&bytes).map_err(|error| bad(name, &error))?;
        self.sent.append(HeaderName::from_static(name), value);
        self.recorded.push(name, &bytes);
        Ok(())
    }

    fn add_access(&mut self, access: &Access) -> Result<(), FetchError> {
        for (name, value) in &access.headers {
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|error| bad(name, &error))?;
            self.add_secret(name, value.expose())?;
        }
        if let Some(cookie) = &access.cookie {
            self.add_secret(header::COOKIE, cookie.expose())?;
        }
        match &access.auth {
            Some(Auth::Basic { user, password }) => {
                let pair = format!("{user}:{}", password.expose());
                self.add_secret(
                    header::AUTHORIZATION,
                    &format!("Basic {}", base64(pair.as_bytes())),
                )
            }
            Some(Auth::Bearer(token)) => {
                self.add_secret(header::AUTHORIZATION, &format!("Bearer {}", token.expose()))
            }
            None => Ok(()),
        }
    }

    /// A source's own line takes the place of ours.
    fn add_secret(&mut self, name: HeaderName, value: &str) -> Result<(), FetchError> {
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|error| bad(name.as_str(), &error))?;
        value.set_sensitive(true);
        self.recorded.0.retain(|(have, _)| have != name.as_str());
        self.recorded.push(name.as_str(), MASK);
        self.sent.insert(name, value);
        Ok(())
    }
}

/// Never tells the value: it may be a secret.
fn bad(name: &str, error: &dyn std::error::Error) -> FetchError {
    FetchError::BadRequest(format!("header {name}: {error}"))
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = [0, 1, 2].iter().fold(0_usize, |bits, &at| {
            bits << 8 | usize::from(group.get(at).copied().unwrap_or_default())
        });
        for place in 0..4 {
            let digit = DIGITS.get(bits >> (18 - 6 * place) & 0x3f).copied().unwrap_or_default();
            text.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NewSource, Secret, SourceId, Ts};

    fn secret(text: &str) -> Secret {
        Secret::from(text.to_owned())
    }

    fn source(home: &str) -> Source {
        Source {
            id: SourceId(1),
            uuid: "alder".into(),
            spec: NewSource {
                access: Access {
                    user_agent: Some("Alder/1".into()),
                    headers: [("x-key", "hunter1"), ("accept", "text/hunter2")]
                        .map(|(name, value)| (name.to_owned(), secret(value)))
                        .into(),
                    cookie: Some(secret("id=hunter3")),
                    auth: Some(Auth::Basic { user: "ann".into(), password: secret("hunter4") }),
                    ..Access::default()
                },
                ..NewSource::new("alder", home)
            },
            enabled_at: None,
            disabled_at: None,
            disable_reason: None,
            created_at: Ts::from_ms(0),
        }
    }

    fn asked(url: &str, home: &str) -> Lines {
        let url = Url::parse(url).unwrap();
        lines(&url, Kind::Feed, &Validators::default(), "House/1", Some(&source(home))).unwrap()
    }

    #[test]
    fn the_own_site_gets_what_its_publisher_gave_us() {
        let home = "https://www.alder.example/";
        for (url, is_own) in [
            ("https://www.alder.example/feed", true),
            ("https://feeds.alder.example/feed", true),
            ("https://alder.example./feed", true),
            ("http://www.alder.example/feed", false),
            ("https://alder.example.com/feed", false),
            ("https://balder.example/feed", false),
            ("https://192.0.2.1/feed", false),
        ] {
            let sent = asked(url, home).sent;
            let expected = if is_own { "Alder/1" } else { "House/1" };
            assert_eq!(sent["user-agent"], expected, "{url}");
            for name in ["x-key", "cookie", "authorization"] {
                assert_eq!(sent.contains_key(name), is_own, "{url} {name}");
            }
        }
        let elsewhere = asked("https://b.co.uk/", "https://a.co.uk/").sent;
        assert!(!elsewhere.contains_key("cookie"), "a public suffix is no site");
    }

    #[test]
    fn other_ports_get_nothing_unless_they_were_named() {
        let sent = |source: &Source, url: &str| {
            let url = Url::parse(url).unwrap();
            let lines = lines(&url, Kind::Feed, &Validators::default(), "House/1", Some(source));
            lines.unwrap().sent.contains_key("cookie")
        };
        let mut plain = source("https://alder.example/");
        assert!(!sent(&plain, "https://alder.example:8443/feed"));
        plain.spec.feed_urls = vec!["https://feeds.alder.example:8443/feed".into()];
        plain.spec.sitemap_urls = vec!["http://alder.example:8080/map".into()];
        for (url, is_own) in [
            ("https://alder.example:443/feed", true),
            ("https://alder.example:8443/feed", true),
            ("https://alder.example:9443/feed", false),
            // Named, but not behind TLS as its home is.
            ("http://alder.example:8080/map", false),
            ("https://alder.example:8080/map", false),
            ("http://alder.example:8443/feed", false),
        ] {
            assert_eq!(sent(&plain, url), is_own, "{url}");
        }
        let odd = source("http://alder.example:8000/");
        for (url, is_own) in [
            ("http://alder.example:8000/feed", true),
            ("http://alder.example/feed", true),
            ("https://alder.example/feed", true),
            ("http://alder.example:8001/feed", false),
        ] {
            assert_eq!(sent(&odd, url), is_own, "{url}");
        }
    }

    #[test]
    fn secrets_are_sent_and_not_recorded() {
        let lines = asked("https://alder.example/feed", "https://alder.example/");
        assert_eq!(lines.sent["authorization"], "Basic YW5uOmh1bnRlcjQ=");
        assert_eq!(lines.sent["accept"], "text/hunter2");
        assert_eq!(lines.sent.get_all("accept").iter().count(), 1);
        for name in ["x-key", "accept", "cookie", "authorization"] {
            assert_eq!(lines.recorded.get(name), Some("***"), "{name}");
        }
        assert_eq!(lines.recorded.get("host"), Some("alder.example"));
        assert!(!format!("{lines:?}").contains("hunter"), "{lines:?}");
    }

    #[test]
    fn validators_are_echoed_byte_for_byte() {
        let mut kept = Headers::default();
        kept.push("etag", b"W/\"caf\xe9\"");
        let etag = kept.get("etag").map(str::to_owned);
        let validators = Validators { etag, last_modified: Some("yesterday, about noon".into()) };
        let url = Url::parse("https://alder.example:8443/").unwrap();
        for kind in Kind::ALL {
            let lines = lines(&url, *kind, &validators, "House/1", None).unwrap();
            assert_eq!(lines.sent["if-none-match"].as_bytes(), b"W/\"caf\xe9\"", "{kind}");
            assert_eq!(lines.sent["if-modified-since"], "yesterday, about noon", "{kind}");
            assert_eq!(lines.recorded.get("host"), Some("alder.example:8443"));
        }
    }

    #[test]
    fn base64_is_as_the_rfc_has_it() {
        for (text, code) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), code, "{text}");
        }
    }
}
