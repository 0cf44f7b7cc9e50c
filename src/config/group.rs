//! Hosts that share one budget, because one platform serves them all.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::BadValue;

/// `NAME=HOST HOST …`: these hosts are one queue with one pause. A host may be `*.example.test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(title = "entries such as \"blogs=blogs.example *.blogs.example\"")]
pub struct Group {
    name: String,
    hosts: Vec<String>,
}

impl Group {
    /// The queue's name and the hosts in it.
    #[must_use]
    pub fn parts(&self) -> (String, Vec<String>) {
        (self.name.clone(), self.hosts.clone())
    }
}

impl FromStr for Group {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || BadValue {
            given: text.to_owned(),
            wanted: "NAME=HOST HOST, with each HOST a name or *.name",
        };
        let (name, hosts) = text.split_once('=').ok_or_else(bad)?;
        let name = name.trim().to_owned();
        let hosts: Vec<_> = hosts.split_whitespace().map(str::to_ascii_lowercase).collect();
        let is_host = |host: &String| {
            let name = host.strip_prefix("*.").unwrap_or(host);
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
        };
        if name.is_empty() || hosts.is_empty() || !hosts.iter().all(is_host) {
            return Err(bad());
        }
        Ok(Self { name, hosts })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.hosts.join(" "))
    }
}

impl TryFrom<String> for Group {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<Group> for String {
    fn from(group: Group) -> Self {
        group.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_reads_as_it_is_written() {
        let group: Group = "blogs = *.Blogs.example  blogs.example".parse().unwrap();
        assert_eq!(group.to_string(), "blogs=*.blogs.example blogs.example");
        for bad in ["", "blogs", "blogs=", "=a.example", "blogs=*", "blogs=a/b"] {
            assert!(bad.parse::<Group>().is_err(), "{bad}");
        }
    }
}
