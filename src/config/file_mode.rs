//! Permissions of files that are written, as `chmod` takes them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::BadValue;

/// Who may read and write a file: `0600` is its owner alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(title = "permissions such as \"0600\" or \"0644\"")]
pub struct FileMode(#[schemars(with = "String")] u32);

impl FileMode {
    /// As a number.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl Default for FileMode {
    fn default() -> Self {
        Self(0o600)
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FromStr for FileMode {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let wanted = "permissions such as \"0600\", \"0640\" or \"0644\": files are never executable, and \
                      their owner can always read and write them";
        let bits = u32::from_str_radix(text.trim(), 8).ok();
        let bits = bits.filter(|bits| bits & !0o666 == 0 && bits & 0o600 == 0o600);
        bits.map(Self).ok_or_else(|| BadValue { given: text.to_owned(), wanted })
    }
}

impl Serialize for FileMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal_and_never_lock_the_owner_out() {
        for (text, expected) in [
            ("0600", Some(0o600)),
            ("600", Some(0o600)),
            ("0644", Some(0o644)),
            (" 0660 ", Some(0o660)),
            ("0755", None),
            ("0444", None),
            ("4600", None),
            ("rw-r--r--", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<FileMode>().ok().map(FileMode::bits), expected, "{text}");
        }
        assert_eq!(FileMode::default().to_string(), "0600");
    }
}
