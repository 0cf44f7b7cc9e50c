//! Values that must not be seen: whatever prints them prints `***`.
//!
//! Only `expose` gives the text out. A key of one of these types may also be given as `<key>_file`,
//! the path of a file that holds it: the schema marks it as `writeOnly`, and that mark is the rule.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

const MASK: &str = "***";

/// A token or password.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("writeOnly" = true))]
pub struct Secret(String);

/// A URL that may carry a password: all of it may be seen but that.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("writeOnly" = true))]
pub struct SecretUrl(String);

impl Secret {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl SecretUrl {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<String> for SecretUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Whether a secret is set may be seen.
impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "" } else { MASK })
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() || self.0.starts_with("file:") {
            return f.write_str(&self.0);
        }
        let Some((scheme, rest)) = self.0.split_once("://") else {
            return f.write_str(MASK);
        };
        write!(f, "{scheme}://")?;
        // The last `@`, wherever it is: a password may hold `/`, `?` or `@` that should have been
        // escaped, and hiding too much is the safe mistake.
        let place = match rest.rsplit_once('@') {
            Some((user, place)) => {
                match user.split_once(':') {
                    Some((name, _)) if !name.contains(['@', ',', '/']) => {
                        write!(f, "{name}:{MASK}@")?
                    }
                    // Some servers take a token in the place of a name; databases do not.
                    None if scheme.starts_with("postgres") => write!(f, "{user}@")?,
                    _ => write!(f, "{MASK}@")?,
                }
                place
            }
            None => rest,
        };
        let (place, query) = place.split_once('?').map_or((place, ""), |(place, _)| (place, "?"));
        match place.split_once('/') {
            // Whoever takes messages over HTTP often knows us by the path.
            Some((host, path)) if scheme.starts_with("http") && !path.is_empty() => {
                write!(f, "{host}/{MASK}")
            }
            _ if query.is_empty() => f.write_str(place),
            _ => write!(f, "{place}?{MASK}"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({self})")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::from("hunter2".to_owned());
        assert_eq!(secret.to_string(), "***");
        assert_eq!(format!("{secret:?}"), "Secret(***)");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"***\"");
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(Secret::default().to_string(), "");
    }

    #[test]
    fn a_url_is_printed_without_its_password() {
        for (url, printed) in [
            ("", ""),
            ("file:/var/a@b.db", "file:/var/a@b.db"),
            ("postgres://db.example/news", "postgres://db.example/news"),
            ("postgres://ann@db.example/news", "postgres://ann@db.example/news"),
            ("postgres://ann:pw@db.example/news", "postgres://ann:***@db.example/news"),
            ("postgres://ann:p/w?@x@db.example/news", "postgres://ann:***@db.example/news"),
            ("postgres://db.example/news?password=pw", "postgres://db.example/news?***"),
            ("https://hooks.example/services/t0ken?key=pw", "https://hooks.example/***"),
            ("https://es.example:9200/", "https://es.example:9200/"),
            ("http://ann:pw@proxy.example:3128", "http://ann:***@proxy.example:3128"),
            ("nats://t0ken@nats.example:4222", "nats://***@nats.example:4222"),
            ("nats://t0ken@a.example,nats://ann:pw@b.example", "nats://***@b.example"),
            ("redis://:pw@redis.example/0", "redis://:***@redis.example/0"),
            ("ann:pw@tcp(db.example)/news", "***"),
            ("host=db.example password=pw", "***"),
        ] {
            let url = SecretUrl::from(url.to_owned());
            assert_eq!(url.to_string(), printed);
            assert_eq!(format!("{url:?}"), format!("SecretUrl({printed})"));
            assert_eq!(serde_json::to_value(&url).unwrap(), printed);
        }
    }
}
