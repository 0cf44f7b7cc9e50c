//! JSON from outside, checked before a tree is built of it.
//!
//! A tree of JSON takes up to thirty times the bytes of its text (`[0,0,0,…`). The check walks over the
//! text, counts its values and levels, and keeps nothing, so that a caller builds a tree only of what is
//! small enough.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

mod tree;

pub use tree::Budget;

/// How large a tree may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most levels of arrays and objects inside each other.
    pub depth: usize,
    /// The most values; a name and its value in an object count as two.
    pub values: usize,
    /// Whether strings may have the character 0.
    pub nul: bool,
}

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is not JSON.
    #[error("{0}")]
    Syntax(String),
    /// Its arrays and objects are nested too deep.
    #[error("JSON is nested deeper than {0} levels")]
    TooDeep(usize),
    /// It has too many values.
    #[error("JSON has more than {0} values")]
    TooManyValues(usize),
    /// A string has the character 0, which no field of ours can hold.
    #[error("`{field}`: has a character 0 in it")]
    Nul {
        /// The name of the nearest field.
        field: String,
    },
}

impl JsonError {
    /// The stable name of this failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "bad_json",
            Self::TooDeep(_) => "too_deep",
            Self::TooManyValues(_) => "too_many_values",
            Self::Nul { .. } => "nul_character",
        }
    }
}

/// Checks a text without building a tree; the number of its values.
///
/// # Errors
/// When it is not JSON, breaks a limit or has a character 0 in a string.
pub fn check(text: &[u8], limits: Limits) -> Result<usize, JsonError> {
    let mut walk = Walk { limits, values: 0, fault: None, field: String::new() };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let walked = Step { walk: &mut walk, depth: 0 }.deserialize(&mut reader);
    match walked.and_then(|()| reader.end()) {
        Ok(()) => Ok(walk.values),
        Err(error) => Err(walk.fault.unwrap_or_else(|| JsonError::Syntax(error.to_string()))),
    }
}

struct Walk {
    limits: Limits,
    values: usize,
    fault: Option<JsonError>,
    /// The name of the field that was entered last.
    field: String,
}

impl Walk {
    fn count<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.values += 1;
        match self.values > self.limits.values {
            true => Err(self.fail(JsonError::TooManyValues(self.limits.values))),
            false => Ok(()),
        }
    }

    fn fail<E: serde::de::Error>(&mut self, fault: JsonError) -> E {
        let error = E::custom(&fault);
        self.fault = Some(fault);
        error
    }

    fn text<E: serde::de::Error>(&mut self, text: &str) -> Result<(), E> {
        match !self.limits.nul && text.contains('\0') {
            true => {
                let field = if self.field.is_empty() { "body" } else { &self.field };
                let field = field.chars().take(60).filter(|c| !c.is_control()).collect();
                Err(self.fail(JsonError::Nul { field }))
            }
            false => Ok(()),
        }
    }
}

struct Step<'w> {
    walk: &'w mut Walk,
    depth: usize,
}

impl Step<'_> {
    fn enter<E: serde::de::Error>(&mut self) -> Result<usize, E> {
        let depth = self.depth + 1;
        match depth > self.walk.limits.depth {
            true => Err(self.walk.fail(JsonError::TooDeep(self.walk.limits.depth))),
            false => Ok(depth),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.walk.count::<D::Error>()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.walk.text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let depth = self.enter()?;
        while items.next_element_seed(Step { walk: self.walk, depth })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let depth = self.enter()?;
        while members.next_key_seed(Name(self.walk))?.is_some() {
            members.next_value_seed(Step { walk: self.walk, depth })?;
        }
        Ok(())
    }
}

/// The name of a member.
struct Name<'w>(&'w mut Walk);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.count::<D::Error>()?;
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<(), E> {
        self.0.text(name)?;
        self.0.field.clear();
        self.0.field.push_str(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { depth: 4, values: 10, nul: false };

    #[test]
    fn what_is_small_is_counted() {
        for (text, values) in
            [("1", 1), ("[]", 1), (r#"{"a":[null,"b",1.5,-2,true]}"#, 8), (" \"x\" ", 1)]
        {
            assert_eq!(check(text.as_bytes(), LIMITS), Ok(values), "{text}");
        }
    }

    #[test]
    fn what_is_deep_large_or_broken_is_refused_by_name() {
        let deep = "[".repeat(1 << 20);
        let many = format!("[{}]", vec!["{}"; 1_000].join(","));
        for (text, code) in [
            (deep.as_str(), "too_deep"),
            (r#"{"a":{"a":{"a":{"a":{}}}}}"#, "too_deep"),
            (&many, "too_many_values"),
            (r#"{"a":1,"b":2,"c":3,"d":4,"e":5}"#, "too_many_values"),
            ("{", "bad_json"),
            ("[1] 2", "bad_json"),
            ("{1:2}", "bad_json"),
            (r#"{"a":"\u0000"}"#, "nul_character"),
            (r#"[{"b\u0000":1}]"#, "nul_character"),
        ] {
            let error = check(text.as_bytes(), LIMITS).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
        }
        assert!(check(br#"{"a":"\u0000"}"#, Limits { nul: true, ..LIMITS }).is_ok());
        let nul = check(br#"{"name":["\u0000"]}"#, LIMITS).unwrap_err().to_string();
        assert!(nul.contains("`name`"), "{nul}");
    }
}
