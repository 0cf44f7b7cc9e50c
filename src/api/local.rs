//! Whether a request was sent by a program on this machine, or by a proxy for somebody else. Pure.
//!
//! A reverse proxy on this machine connects from loopback like any local program does. Everybody whom
//! it serves would be taken for a local user, so whatever shows a proxy makes a request not local: it
//! needs a token then. nginx sends HTTP/1.0 and its upstream's name as `Host` unless it is configured
//! otherwise, and since 1.29.7 HTTP/1.1; other proxies pass the client's `Host` on or add headers. A proxy that
//! speaks HTTP/1.1, adds nothing and rewrites `Host` is told by its account (`local_user`). One that runs under our
//! own account or as root cannot be told from a local program, which is why local requests are never
//! administrators and `api.open_on_loopback = false` belongs behind every proxy.

use std::net::SocketAddr;

use axum::http::{HeaderMap, Method, Uri, Version, header};

/// Headers that proxies and content delivery networks add.
const PROXY_HEADERS: &[&str] = &[
    "cdn-loop",
    "client-ip",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "max-forwards",
    "surrogate-capability",
    "true-client-ip",
    "via",
    "wl-proxy-client-ip",
    "x-bluecoat-via",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-nginx-proxy",
    "x-queue-start",
    "x-real-ip",
    "x-real-port",
    "x-remote-addr",
    "x-remote-ip",
    "x-request-start",
    "x-scheme",
    "x-url-scheme",
    "x-varnish",
];

/// What names of such headers begin with.
const PROXY_PREFIXES: &[&str] = &[
    "cf-",
    "fastly-",
    "fly-",
    "proxy-",
    "x-amz-cf-",
    "x-amzn-",
    "x-appengine-",
    "x-arr-",
    "x-azure-",
    "x-envoy-",
    "x-forwarded",
    "x-haproxy-",
    "x-original-",
    "x-proxy",
    "x-vercel-",
];

/// Why a request is not taken for one of a local program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotLocal {
    /// A version that proxies speak to their upstreams.
    #[error("it uses {0}, as reverse proxies do")]
    Version(&'static str),
    /// A header that only proxies add.
    #[error("it came through a proxy (header `{0}`)")]
    Header(String),
    /// Another account of this machine, such as that of a proxy.
    #[error("it comes from another user account of this machine")]
    User,
    /// A name by which nobody on this machine calls us.
    #[error("its Host is not this server's address")]
    Host,
}

/// Whether a browser says that a page of another site sent a request. A link that somebody follows is
/// not the page's own doing.
pub(super) fn is_foreign_page(method: &Method, headers: &HeaderMap) -> bool {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let foreign = matches!(said("sec-fetch-site"), Some("cross-site" | "same-site"));
    foreign && !(*method == Method::GET && said("sec-fetch-mode") == Some("navigate"))
}

/// Whether a request is one of a local program. `own` is where we listen; nothing on a Unix socket.
pub(super) fn check(
    version: Version,
    headers: &HeaderMap,
    own: Option<SocketAddr>,
) -> Result<(), NotLocal> {
    match version {
        Version::HTTP_11 | Version::HTTP_2 | Version::HTTP_3 => {}
        Version::HTTP_10 => return Err(NotLocal::Version("HTTP/1.0")),
        _ => return Err(NotLocal::Version("HTTP/0.9")),
    }
    if let Some(name) = headers.keys().find(|name| is_proxy_header(name.as_str())) {
        return Err(NotLocal::Header(name.to_string()));
    }
    let host = sole_host(headers).ok_or(NotLocal::Host)?;
    if is_own(host, own) { Ok(()) } else { Err(NotLocal::Host) }
}

/// Whether only proxies add a header. Some write its name with underscores.
fn is_proxy_header(name: &str) -> bool {
    let name = name.replace('_', "-");
    PROXY_HEADERS.contains(&name.as_str())
        || PROXY_PREFIXES.iter().any(|start| name.starts_with(start))
}

/// Whether a `Host` is a name of loopback, with the port at which we listen.
fn is_own(host: &str, own: Option<SocketAddr>) -> bool {
    let (name, port) = split(host);
    let name = name.to_ascii_lowercase();
    let loopback = matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]");
    match own {
        None => loopback,
        Some(own) => {
            let own_name = match own {
                SocketAddr::V4(own) => own.ip().to_string(),
                SocketAddr::V6(own) => format!("[{}]", own.ip()),
            };
            let own_port = own.port().to_string();
            (loopback || name == own_name) && port.unwrap_or("80") == own_port
        }
    }
}

/// A `Host` as its name and its port.
pub(super) fn split(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (host, None),
    }
}

/// The `Host` of a request. Two of them are none: a proxy and we might not read the same one.
pub(super) fn sole_host(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::HOST).iter();
    match (all.next(), all.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

/// Whether a whole address in the request line names another host than `Host` does.
pub(super) fn is_contradicted(uri: &Uri, headers: &HeaderMap) -> bool {
    let host = sole_host(headers).unwrap_or_default();
    uri.authority().is_some_and(|named| !named.as_str().eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        });
        let mut all = HeaderMap::new();
        for (name, value) in pairs {
            all.append(name, value);
        }
        all
    }

    fn seen(version: Version, pairs: &[(&str, &str)]) -> Result<(), NotLocal> {
        check(version, &headers(pairs), Some("127.0.0.1:7171".parse().unwrap()))
    }

    #[test]
    fn a_local_program_is_local() {
        for host in ["127.0.0.1:7171", "localhost:7171", "LocalHost:7171", "[::1]:7171"] {
            let browser = [
                ("host", host),
                ("user-agent", "Mozilla/5.0"),
                ("sec-fetch-site", "same-origin"),
                ("connection", "keep-alive"),
            ];
            assert_eq!(seen(Version::HTTP_11, &browser), Ok(()), "{host}");
        }
        let own = |host, own: &str| {
            check(Version::HTTP_11, &headers(&[("host", host)]), own.parse().ok())
        };
        assert_eq!(own("127.0.0.1", "127.0.0.1:80"), Ok(()));
        assert_eq!(own("127.0.0.2:7171", "127.0.0.2:7171"), Ok(()));
        assert_eq!(own("[::1]:7171", "[::1]:7171"), Ok(()));
        assert_eq!(own("localhost", ""), Ok(()), "a Unix socket has no port");
        assert_eq!(own("news.example", ""), Err(NotLocal::Host));
    }

    #[test]
    fn what_a_proxy_sends_is_not() {
        let host = ("host", "127.0.0.1:7171");
        assert_eq!(
            seen(Version::HTTP_10, &[host, ("connection", "close")]),
            Err(NotLocal::Version("HTTP/1.0"))
        );
        assert!(seen(Version::HTTP_09, &[host]).is_err());
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "X_Forwarded_For",
            "X_Real-IP",
            "X-Forwarded-Host",
            "x-forwarded-proto",
            "X-FORWARDED",
            "X-Real-IP",
            "Via",
            "CF-Connecting-IP",
            "True-Client-IP",
            "X-Envoy-External-Address",
            "X-Original-URI",
            "Proxy-Connection",
        ] {
            let told = seen(Version::HTTP_11, &[host, (name, "")]);
            assert_eq!(told, Err(NotLocal::Header(name.to_lowercase())), "even when it is empty");
        }
        for host in
            ["news.example", "news.example:7171", "127.0.0.1", "127.0.0.1:80", "localhost:8080", ""]
        {
            assert_eq!(seen(Version::HTTP_11, &[("host", host)]), Err(NotLocal::Host), "{host}");
        }
        assert_eq!(seen(Version::HTTP_11, &[]), Err(NotLocal::Host));
        assert_eq!(seen(Version::HTTP_11, &[host, host]), Err(NotLocal::Host), "two are none");
    }

    #[test]
    fn a_page_of_another_site_is_told_by_the_browser() {
        for (method, site, mode, foreign) in [
            (Method::GET, "same-origin", "cors", false),
            (Method::POST, "same-origin", "cors", false),
            (Method::GET, "none", "navigate", false),
            (Method::GET, "cross-site", "navigate", false),
            (Method::POST, "cross-site", "navigate", true),
            (Method::GET, "cross-site", "no-cors", true),
            (Method::GET, "same-site", "cors", true),
        ] {
            let sent = headers(&[("sec-fetch-site", site), ("sec-fetch-mode", mode)]);
            assert_eq!(is_foreign_page(&method, &sent), foreign, "{method} {site} {mode}");
        }
        assert!(!is_foreign_page(&Method::POST, &HeaderMap::new()), "no browser");
    }

    #[test]
    fn an_address_in_the_request_line_must_be_the_hosts() {
        let host = headers(&[("host", "127.0.0.1:7171")]);
        for (uri, contradicted) in [
            ("/api/v1/me", false),
            ("http://127.0.0.1:7171/api/v1/me", false),
            ("http://evil.example/api/v1/me", true),
            ("http://ann@127.0.0.1:7171/", true),
        ] {
            assert_eq!(is_contradicted(&uri.parse().unwrap(), &host), contradicted, "{uri}");
        }
    }
}
