//! The identity of web addresses: what may be fetched, and when two addresses are one.
//!
//! A URL is fetched as it was given; its key only tells whether it is already known. The key must
//! never depend on anything but the address and the rules, and keying a key gives the same key.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use ::url::ParseError;
pub use ::url::Url;

/// The longest address that is accepted, in bytes of its escaped form.
pub const MAX_LEN: usize = 2_048;

/// Parameters that say where a reader came from and never what is shown: lower case, one space
/// between two.
const TRACKING: &str = "\
    __hsfp __hssc __hstc __twitter_impression _branch_match_id _branch_referrer _bta_c _bta_tid \
    _ga _gl _hsenc _hsmi _ke _kx _openstat at_campaign at_medium cmpid dclid dm_i ef_id epik \
    fb_action_ids fb_action_types fb_ref fb_source fbclid ftag ga_campaign ga_content ga_medium \
    ga_source ga_term gad_campaignid gad_source gbraid gclid gclsrc guccounter guce_referrer \
    guce_referrer_sig hsctatracking icid igsh igshid li_fat_id mbid mc_cid mc_eid mkcid mkt_tok \
    ml_subscriber ml_subscriber_hash msclkid mtm_campaign mtm_cid mtm_content mtm_group \
    mtm_keyword mtm_medium mtm_placement mtm_source ncid ns_campaign ns_linkname ns_mchannel \
    ns_source oly_anon_id oly_enc_id piwik_campaign piwik_keyword piwik_kwd pk_campaign \
    pk_keyword pk_kwd rb_clickid s_cid s_kwcid sc_campaign sc_cid sr_share srsltid ttclid twclid \
    vero_conv vero_id wbraid wickedid wt_mc xtor yclid ysclid zanpid";

/// Why an address cannot be a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is not a URL.
    #[error("malformed URL: {0}")]
    Malformed(ParseError),
    /// It is not fetched over HTTP.
    #[error("scheme {0:?} is not http or https")]
    Scheme(String),
    /// It carries a user name or a password.
    #[error("URL carries credentials")]
    Credentials,
    /// It names no host.
    #[error("URL has no host")]
    NoHost,
    /// It is longer than [`MAX_LEN`].
    #[error("URL has {0} bytes, more than {MAX_LEN}")]
    TooLong(usize),
}

impl UrlError {
    /// The stable name of this refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "url_malformed",
            Self::Scheme(_) => "url_scheme",
            Self::Credentials => "url_credentials",
            Self::NoHost => "url_no_host",
            Self::TooLong(_) => "url_too_long",
        }
    }
}

impl From<ParseError> for UrlError {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::EmptyHost => Self::NoHost,
            other => Self::Malformed(other),
        }
    }
}

/// The address that was given, when it may be fetched.
///
/// # Errors
/// When it is no absolute http(s) URL, carries credentials or is too long.
pub fn parse(given: &str) -> Result<Url, UrlError> {
    admit(Url::parse(given.trim())?)
}

/// Whether a text may be shown as a link: an absolute http or https address. Others (`file:`, `data:`,
/// `javascript:`) do harm on the reader's machine, and lead to nothing that was published.
#[must_use]
pub fn is_link(text: &str) -> bool {
    Url::parse(text.trim()).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// Whether a text begins with the scheme of an address that is no link, such as `javascript:`. Names and
/// relative addresses have none.
#[must_use]
pub fn is_other_scheme(text: &str) -> bool {
    let is_relative = |error| matches!(error, ParseError::RelativeUrlWithoutBase);
    !is_link(text) && !Url::parse(text.trim()).is_err_and(is_relative)
}

/// The address that a reference found at `base` leads to, when it may be fetched.
///
/// # Errors
/// As [`parse`].
pub fn join(base: &Url, reference: &str) -> Result<Url, UrlError> {
    admit(base.join(reference.trim())?)
}

fn admit(url: Url) -> Result<Url, UrlError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlError::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlError::Credentials);
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(UrlError::NoHost);
    }
    // Its key is an address too, and can be longer: a bare `%` is three bytes in it.
    const GROWS: usize = 3;
    let long = match url.as_str().len() {
        // An `s` more where the scheme does not count.
        long if long > MAX_LEN / GROWS => {
            long.max(key(&url, &LONGEST).len() + usize::from(url.scheme() == "http"))
        }
        long => long,
    };
    if long > MAX_LEN { Err(UrlError::TooLong(long)) } else { Ok(url) }
}

/// The rules that leave the most of an address in its key.
const LONGEST: KeyRules = KeyRules {
    keep_trailing_slash: true,
    keeping: Vec::new(),
    keep_scheme: true,
    exact: false,
    tracking: Vec::new(),
};

/// The address as given, fit to be shown: what looks like a user name and password is hidden.
#[must_use]
pub fn without_credentials(given: &str) -> String {
    match given.split_once("//") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((_, place)) => format!("{scheme}//***@{place}"),
            None => given.to_owned(),
        },
        None => given.to_owned(),
    }
}

/// What an operator may say about how addresses are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRules {
    /// `/a` and `/a/` are two pages.
    pub keep_trailing_slash: bool,
    /// Hosts on which they are, whatever holds elsewhere: exact, or `*.suffix`.
    pub keeping: Vec<String>,
    /// `http://a` and `https://a` are two pages.
    pub keep_scheme: bool,
    /// Whatever differs at all is another page.
    pub exact: bool,
    /// More tracking parameters than are known, in lower case; a `*` ends the beginning of one.
    pub tracking: Vec<String>,
}

/// The normalised form: two addresses with the same key are the same page.
#[must_use]
pub fn key(url: &Url, rules: &KeyRules) -> String {
    if rules.exact {
        return url.as_str().to_owned();
    }
    let mut key = String::with_capacity(url.as_str().len());
    key.push_str(if rules.keep_scheme { url.scheme() } else { "https" });
    key.push_str("://");
    let host = host(url);
    key.push_str(&host);
    if let Some(port) = url.port().filter(|port| rules.keep_scheme || !matches!(port, 80 | 443)) {
        key.push_str(&format!(":{port}"));
    }
    let path = url.path();
    let keeps = rules.keep_trailing_slash || rules.keeping.iter().any(|one| fits(one, &host));
    let path = if keeps { path } else { path.trim_end_matches('/') };
    if path.is_empty() {
        key.push('/');
    }
    push_path(&mut key, path);
    push_query(&mut key, url.query().unwrap_or_default(), rules);
    key
}

/// Whether a pattern, a host or `*.suffix`, means this host.
#[must_use]
pub fn fits(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(suffix) => host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.')),
        None => host == pattern,
    }
}

/// Writes a path with one spelling of its escapes: upper-case, and none that is not needed.
fn push_path(out: &mut String, path: &str) {
    for (byte, escaped) in unescape(path) {
        // A lone percent sign is escaped, or it could form a new escape with what follows.
        if !escaped && byte != b'%' || is_unreserved(byte) {
            out.push(char::from(byte));
        } else {
            push_escaped(out, byte);
        }
    }
}

fn push_query(out: &mut String, query: &str, rules: &KeyRules) {
    let mut pairs: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (form_bytes(name).collect::<Vec<u8>>(), value))
        .filter(|(name, _)| !is_tracking(name, rules))
        .collect();
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (at, (name, value)) in pairs.into_iter().enumerate() {
        out.push(if at == 0 { '?' } else { '&' });
        name.into_iter().for_each(|byte| push_form(out, byte));
        out.push('=');
        form_bytes(value).for_each(|byte| push_form(out, byte));
    }
}

fn is_tracking(name: &[u8], rules: &KeyRules) -> bool {
    let Ok(name) = std::str::from_utf8(name).map(str::to_ascii_lowercase) else { return false };
    name.starts_with("utm_")
        || TRACKING.split(' ').any(|tracker| tracker == name)
        || rules.tracking.iter().any(|tracker| match tracker.strip_suffix('*') {
            Some(begins) => name.starts_with(begins),
            None => *tracker == name,
        })
}

fn form_bytes(text: &str) -> impl Iterator<Item = u8> {
    unescape(text).map(|(byte, escaped)| if byte == b'+' && !escaped { b' ' } else { byte })
}

fn push_form(out: &mut String, byte: u8) {
    match byte {
        b' ' => out.push('+'),
        _ if is_unreserved(byte) => out.push(char::from(byte)),
        _ => push_escaped(out, byte),
    }
}

fn push_escaped(out: &mut String, byte: u8) {
    out.push_str(&format!("%{byte:02X}"));
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The bytes that an escaped text stands for, and whether each was written as an escape.
pub(crate) fn unescape(text: &str) -> impl Iterator<Item = (u8, bool)> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        if let [b'%', high, low, tail @ ..] = rest
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            rest = tail;
            return Some((high << 4 | low, true));
        }
        let (first, tail) = rest.split_first()?;
        rest = tail;
        Some((*first, false))
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The host in lower case, without port and without the dot of a fully qualified name.
#[must_use]
pub fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    match host.strip_suffix('.') {
        Some(name) if !name.is_empty() && !name.ends_with('.') => name.to_owned(),
        _ => host,
    }
}

/// Scheme, host and any port that is not the scheme's own: what a robots.txt speaks for.
#[must_use]
pub fn origin(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), host(url))
}

/// Where the robots.txt of this address is.
#[must_use]
pub fn robots_url(url: &Url) -> Url {
    let mut robots = url.clone();
    robots.set_path("/robots.txt");
    robots.set_query(None);
    robots.set_fragment(None);
    robots
}

/// The registrable domain of a host, such as `example.co.uk`; the host itself when it has none.
#[must_use]
pub fn site(host: &str) -> &str {
    if host.starts_with('[') || host.parse::<IpAddr>().is_ok() {
        return host;
    }
    psl::domain_str(host).unwrap_or(host)
}

/// Path and query as they are sent in a request.
#[must_use]
pub fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// SHA-256 of a key: the identity of a page. Written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UrlHash([u8; 32]);

impl UrlHash {
    /// The hash of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// The hash with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 64 bits, big-endian: a short key for indexes.
    #[must_use]
    pub fn head(&self) -> i64 {
        self.0.first_chunk().map_or(0, |head| i64::from_be_bytes(*head))
    }
}

impl fmt::Display for UrlHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for UrlHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UrlHash({self})")
    }
}

/// The text is not 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a URL hash of 64 hex digits: {0:?}")]
pub struct BadHash(String);

impl FromStr for UrlHash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        let bad = || BadHash(text.chars().take(80).collect());
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(bad()) };
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some(hex(*high)? << 4 | hex(*low)?)).collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(bad)
    }
}

impl Serialize for UrlHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UrlHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key_of(given: &str) -> String {
        key(&parse(given).unwrap(), &KeyRules::default())
    }

    #[test]
    fn keys_follow_the_rules() {
        for (rule, given, expected) in [
            ("lowercase scheme", "HTTP://Example.com/Path", "https://example.com/Path"),
            ("lowercase host", "https://EXAMPLE.COM/path", "https://example.com/path"),
            ("default https port", "https://example.com:443/path", "https://example.com/path"),
            ("default http port", "http://example.com:80/path", "https://example.com/path"),
            ("other port", "https://example.com:8080/path", "https://example.com:8080/path"),
            ("trailing slash", "https://example.com/path/", "https://example.com/path"),
            ("root slash", "https://example.com/", "https://example.com/"),
            ("fragment", "https://example.com/path#section", "https://example.com/path"),
            (
                "sorted query",
                "https://example.com/path?z=1&a=2",
                "https://example.com/path?a=2&z=1",
            ),
            ("utm", "https://example.com/path?utm_source=x&id=1", "https://example.com/path?id=1"),
            ("fbclid", "https://example.com/path?fbclid=a1&id=1", "https://example.com/path?id=1"),
            ("dot segments", "https://example.com/a/b/../c", "https://example.com/a/c"),
            ("http upgraded", "http://example.com/path", "https://example.com/path"),
            ("query emptied", "https://example.com/path?utm_source=x", "https://example.com/path"),
            ("no path", "https://example.com", "https://example.com/"),
            ("swapped port", "https://example.com:80/", "https://example.com/"),
            ("empty query", "https://example.com/a?", "https://example.com/a"),
            ("case of escapes", "https://e.com/a%2fb%c3%a9", "https://e.com/a%2Fb%C3%A9"),
            ("needless escapes", "https://e.com/%7Euser/%61", "https://e.com/~user/a"),
            ("lone percent", "https://e.com/%%37%41", "https://e.com/%257A"),
            ("umlaut", "https://e.com/ü?ö=ä", "https://e.com/%C3%BC?%C3%B6=%C3%A4"),
            (
                "spaces",
                "https://e.com/?q=a+b&r=a%20b&s=a%2Bb",
                "https://e.com/?q=a+b&r=a+b&s=a%2Bb",
            ),
            ("many values", "https://e.com/?b=2&a=z&a=y", "https://e.com/?a=z&a=y&b=2"),
            ("bare name", "https://e.com/?123&&", "https://e.com/?123="),
            ("case of trackers", "https://e.com/?UTM_Source=x&Ref=y", "https://e.com/?Ref=y"),
            ("international name", "https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("qualified name", "https://example.com./a", "https://example.com/a"),
            ("IPv6", "http://[::1]:8080/a", "https://[::1]:8080/a"),
        ] {
            assert_eq!(key_of(given), expected, "{rule}");
        }
    }

    #[test]
    fn rules_change_the_key() {
        let url = parse("https://example.com/a/?ref=b").unwrap();
        let tracking = vec!["ref".to_owned()];
        let rules = KeyRules { keep_trailing_slash: true, tracking, ..KeyRules::default() };
        assert_eq!(key(&url, &rules), "https://example.com/a/");
        let keeping = vec!["*.example.com".to_owned(), "other.example".to_owned()];
        let rules = KeyRules { keeping, ..KeyRules::default() };
        for (given, expected) in [
            ("https://www.example.com/a/", "https://www.example.com/a/"),
            ("https://example.com/a/", "https://example.com/a"),
            ("https://other.example/a/", "https://other.example/a/"),
        ] {
            assert_eq!(key(&parse(given).unwrap(), &rules), expected);
        }
        let plain = parse("http://example.com:80/a/?my_x=1&re=2#c").unwrap();
        let tracking = vec!["my_*".to_owned()];
        let rules = KeyRules { keep_scheme: true, tracking, ..KeyRules::default() };
        assert_eq!(key(&plain, &rules), "http://example.com/a?re=2");
        let exact = KeyRules { exact: true, ..KeyRules::default() };
        assert_eq!(key(&plain, &exact), "http://example.com/a/?my_x=1&re=2#c");
        assert_eq!(key(&url, &KeyRules::default()), "https://example.com/a?ref=b");
    }

    #[test]
    fn trackers_are_written_as_they_are_compared() {
        for name in TRACKING.split(' ') {
            assert_eq!(name, name.to_ascii_lowercase());
            assert_eq!(key_of(&format!("https://example.com/?{name}=1")), "https://example.com/");
        }
    }

    #[test]
    fn refusals_have_codes() {
        let long = format!("https://example.com/{}", "a".repeat(MAX_LEN));
        for (given, code) in [
            ("", "url_malformed"),
            ("/relative", "url_malformed"),
            ("https://exa mple.com/", "url_malformed"),
            ("mailto:someone@example.com", "url_scheme"),
            ("ftp://example.com/", "url_scheme"),
            ("javascript:void(0)", "url_scheme"),
            ("https://user@example.com/", "url_credentials"),
            ("https://:secret@example.com/", "url_credentials"),
            ("https://", "url_no_host"),
            (long.as_str(), "url_too_long"),
        ] {
            assert_eq!(parse(given).unwrap_err().code(), code, "{given}");
        }
        assert_eq!(
            parse("ftp://example.com/").unwrap_err().to_string(),
            "scheme \"ftp\" is not http or https"
        );
    }

    #[test]
    fn references_are_resolved() {
        let base = parse(" https://example.com/news/today?a=1 ").unwrap();
        assert_eq!(join(&base, "../feed.xml\n").unwrap().as_str(), "https://example.com/feed.xml");
        assert_eq!(join(&base, "//cdn.example/a").unwrap().as_str(), "https://cdn.example/a");
        assert_eq!(join(&base, "data:text/plain,a").unwrap_err().code(), "url_scheme");
    }

    #[test]
    fn parts_of_an_address() {
        let url = parse("http://WWW.Example.co.uk:8080/a/b?c=d#e").unwrap();
        assert_eq!(host(&url), "www.example.co.uk");
        assert_eq!(origin(&url), "http://www.example.co.uk:8080");
        assert_eq!(robots_url(&url).as_str(), "http://www.example.co.uk:8080/robots.txt");
        assert_eq!(path_and_query(&url), "/a/b?c=d");
        assert_eq!(path_and_query(&parse("https://example.com").unwrap()), "/");
        assert_eq!(origin(&parse("https://example.com:443/a").unwrap()), "https://example.com");
        assert_eq!(host(&parse("https://example.com:8080/path").unwrap()), "example.com");
    }

    #[test]
    fn sites_are_registrable_domains() {
        for (host, expected) in [
            ("www.example.co.uk", "example.co.uk"),
            ("news.example.com", "example.com"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("co.uk", "co.uk"),
        ] {
            assert_eq!(site(host), expected);
        }
    }

    #[test]
    fn hashes_are_of_the_key() {
        let hash = UrlHash::of(&key_of("HTTP://Example.com/path?b=2&a=1"));
        assert_eq!(hash, UrlHash::of(&key_of("https://example.com/path?a=1&b=2")));
        let hex = hash.to_string();
        assert_eq!(hex.len(), 64);
        assert_eq!(hex.parse::<UrlHash>().unwrap(), hash);
        assert_eq!(UrlHash::from_bytes(*hash.as_bytes()), hash);
        assert!(hex.starts_with(&format!("{:016x}", hash.head())));
        assert_eq!(serde_json::to_string(&hash).unwrap(), format!("\"{hex}\""));
        assert_eq!(serde_json::from_str::<UrlHash>(&format!("\"{hex}\"")).unwrap(), hash);
        for bad in ["", "00", "zz", &"z".repeat(64), &format!("{hex}0"), &format!("{hex}00")] {
            assert!(bad.parse::<UrlHash>().is_err(), "{bad}");
        }
    }

    /// Text that is likely to be an address, with all that makes keys hard.
    fn address() -> impl Strategy<Value = String> {
        let host = "[a-zA-Z0-9.ü-]{1,12}(:[0-9]{1,5})?";
        let path = "(/|[a-z.]|%[0-9a-fA-F]{2}|%|é|;|=|\\+|:|@|\\\\){0,12}";
        let query = "([a-c&=+ ]|utm_|%[0-9a-fA-F]{2}|%|ä|\\?|/){0,12}";
        (prop::bool::ANY, host, path, query).prop_map(|(tls, host, path, query)| {
            format!("http{}://{host}/{path}?{query}", if tls { "s" } else { "" })
        })
    }

    proptest! {
        #[test]
        fn keying_a_key_changes_nothing(
            given in address(), keep: bool, strict: bool, exact: bool,
        ) {
            let rules = KeyRules {
                keep_trailing_slash: keep,
                keeping: Vec::new(),
                keep_scheme: strict,
                exact,
                tracking: if strict { vec!["ref".to_owned()] } else { Vec::new() },
            };
            if let Ok(url) = parse(&given) {
                let first = key(&url, &rules);
                prop_assert_eq!(key(&parse(&first).unwrap(), &rules), first);
            }
        }

        #[test]
        fn the_order_of_parameters_does_not_matter(
            (names, shuffled) in prop::collection::btree_map("[a-e]{1,3}", "[a-z%+&]{0,3}", 0..6)
                .prop_map(|pairs| pairs.into_iter().collect::<Vec<_>>())
                .prop_flat_map(|pairs| (Just(pairs.clone()), Just(pairs).prop_shuffle()))
        ) {
            let address = |pairs: &[(String, String)]| {
                let query: Vec<_> = pairs.iter()
                    .map(|(name, value)| format!("{name}={}", value.replace('&', "%26")))
                    .collect();
                key_of(&format!("https://example.com/?{}", query.join("&")))
            };
            prop_assert_eq!(address(&names), address(&shuffled));
        }

        #[test]
        fn nothing_panics(given in ".*", reference in ".*") {
            if let Ok(url) = parse(&given) {
                prop_assert!(key(&url, &KeyRules::default()).starts_with("https://"));
                prop_assert!(!host(&url).is_empty());
                prop_assert!(path_and_query(&url).starts_with('/'));
                prop_assert!(host(&url).ends_with(site(&host(&url))));
                prop_assert!(robots_url(&url).path() == "/robots.txt");
            }
            let base = parse("https://example.com/a/b").unwrap();
            if let Ok(url) = join(&base, &reference) {
                prop_assert!(key(&url, &KeyRules::default()).starts_with("https://"));
            }
        }
    }
}
