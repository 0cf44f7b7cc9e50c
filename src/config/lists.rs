//! Lists of sources that others keep and we follow.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BadValue, Secret, SecretUrl, Size, Span};

/// Lists of sources that others keep and Feedmill follows while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sources {
    /// How often a running engine reads its configuration again, and what `config set` changed; also
    /// at SIGHUP. 0 only then. Sources that are added are followed at once.
    pub reload_interval: Span,
    /// Sets of addresses in Redis, each as "redis://HOST:PORT/DB PATTERN", or `rediss://` with TLS. The last part of a key
    /// that the pattern finds is a category; the members are submitted as article pages of a source
    /// with that name. Such as `redis://127.0.0.1:6379/0 rss:category_links:*`.
    pub redis_sets: Vec<RedisSet>,
    /// How often these sets are read.
    pub redis_interval: Span,
    /// Bytes that one source may add to the archive and the database in a day (UTC). A source that stored
    /// more is over quota: nothing of it is fetched until the next day. 0 for any number.
    pub max_bytes_per_day: Size,
    pub manager: Manager,
}

/// A source-manager whose sources are added, changed and disabled here as they are there. Other
/// sources are never touched. What it says is believed, so that it may stand in a private network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Manager {
    /// Where it is, such as `http://source-manager:8050`. Empty for none.
    pub url: String,
    /// How often it is asked.
    pub interval: Span,
    /// A token, if it asks for one.
    pub token: Secret,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            reload_interval: Span::minutes(5),
            redis_sets: Vec::new(),
            redis_interval: Span::minutes(1),
            max_bytes_per_day: Size::megabytes(2_000),
            manager: Manager::default(),
        }
    }
}

impl Default for Manager {
    fn default() -> Self {
        Self { url: String::new(), interval: Span::minutes(5), token: Secret::default() }
    }
}

/// `redis://HOST:PORT/DB PATTERN`: sets whose keys match the pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(
    with = "String",
    title = "entries such as \"redis://127.0.0.1:6379/0 rss:category_links:*\""
)]
pub struct RedisSet {
    url: SecretUrl,
    /// Which keys.
    pub pattern: String,
}

impl RedisSet {
    /// Where the server is: host and port.
    #[must_use]
    pub fn address(&self) -> (String, u16) {
        let url = self.parsed();
        let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or("127.0.0.1");
        let port = url.as_ref().and_then(url::Url::port).unwrap_or(6379);
        (host.trim_matches(['[', ']']).to_owned(), port)
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> u32 {
        let path = self.parsed().map(|url| url.path().trim_matches('/').to_owned());
        path.and_then(|path| path.parse().ok()).unwrap_or(0)
    }

    /// The server's address with its password.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.expose()
    }

    /// The list as it may be shown.
    #[must_use]
    pub fn name(&self) -> String {
        let (host, port) = self.address();
        let scheme =
            self.parsed().map_or_else(|| "redis".to_owned(), |url| url.scheme().to_owned());
        format!("{scheme}://{host}:{port}/{}", self.database())
    }

    fn parsed(&self) -> Option<url::Url> {
        url::Url::parse(self.url.expose()).ok()
    }
}

impl FromStr for RedisSet {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        // A password is not told.
        let bad = || BadValue {
            given: SecretUrl::from(text.to_owned()).to_string(),
            wanted: "redis://HOST:PORT/DB PATTERN, such as \"redis://127.0.0.1:6379/0 rss:category_links:*\"",
        };
        let (url, pattern) = text.trim().split_once(char::is_whitespace).ok_or_else(bad)?;
        let parsed = url::Url::parse(url).map_err(|_| bad())?;
        let database = parsed.path().trim_matches('/');
        let sound = matches!(parsed.scheme(), "redis" | "rediss")
            && parsed.host_str().is_some_and(|host| !host.is_empty())
            && (database.is_empty() || database.parse::<u32>().is_ok())
            && !pattern.trim().is_empty();
        let (url, pattern) = (SecretUrl::from(url.to_owned()), pattern.trim().to_owned());
        if sound { Ok(Self { url, pattern }) } else { Err(bad()) }
    }
}

impl fmt::Display for RedisSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.url, self.pattern)
    }
}

impl TryFrom<String> for RedisSet {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<RedisSet> for String {
    fn from(set: RedisSet) -> Self {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_says_where_and_which_and_keeps_its_password() {
        let set: RedisSet = "redis://ann:h%40nter@cache.example:6381/3 rss:*".parse().unwrap();
        assert_eq!(set.address(), ("cache.example".to_owned(), 6381));
        assert_eq!((set.database(), set.pattern.as_str()), (3, "rss:*"));
        assert_eq!(set.url(), "redis://ann:h%40nter@cache.example:6381/3");
        assert_eq!(set.to_string(), "redis://ann:***@cache.example:6381/3 rss:*");
        let tls: RedisSet = "rediss://cache.example/1 x".parse().unwrap();
        assert_eq!(tls.name(), "rediss://cache.example:6379/1");
        let plain: RedisSet = "redis://[::1] x".parse().unwrap();
        assert_eq!((plain.address(), plain.database()), (("::1".to_owned(), 6379), 0));
        for bad in ["redis://a", "http://a x", "redis://a/b x", "rss:*", "redis://u:hunter@a/b x"] {
            let told = bad.parse::<RedisSet>().unwrap_err().to_string();
            assert!(told.contains("PATTERN") && !told.contains("hunter"), "{told}");
        }
    }
}
