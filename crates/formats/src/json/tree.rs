//! A tree of JSON that takes no more memory than it may. What is beyond is read over and left out.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The bytes of an object that is not empty. Its map makes room for several members at once.
const OBJECT: usize = 640;
/// The bytes of a value. An array doubles its room when it grows.
const VALUE: usize = 2 * size_of::<Value>();
/// The bytes of a text besides its own.
const TEXT: usize = 16;

/// The bytes of memory that trees may still take.
#[derive(Debug)]
pub struct Budget(Cell<usize>);

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    /// The tree of a text, as far as the budget allows; `None` when the text is not JSON.
    #[must_use]
    pub fn tree(&self, text: &str) -> Option<Value> {
        let before = self.0.get();
        let mut reader = serde_json::Deserializer::from_str(text);
        let tree = Seed(self).deserialize(&mut reader);
        let tree = tree.and_then(|tree| reader.end().map(|()| tree.unwrap_or_default()));
        if tree.is_err() {
            // What was read before the fault is gone.
            self.0.set(before);
        }
        tree.ok()
    }

    /// Takes so many bytes; nothing more can be taken once they are not left.
    fn take(&self, bytes: usize) -> bool {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or_default());
        left.is_some()
    }

    fn text(&self, text: &str) -> bool {
        self.take(text.len() + TEXT)
    }
}

/// Reads a value; `None` where the budget does not allow it.
struct Seed<'b>(&'b Budget);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Option<Value>, D::Error> {
        // What holds others is paid for before them, so that it stays when they are left out.
        if !self.0.take(VALUE) {
            return IgnoredAny::deserialize(reader).map(|_| None);
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Option<Value>, E> {
        Ok(Some(Value::Bool(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Option<Value>, E> {
        Ok(Some(Value::Number(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<Value>, E> {
        Ok(Some(Value::Number(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Option<Value>, E> {
        Ok(Some(Number::from_f64(number).map_or(Value::Null, Value::Number)))
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(Some(Value::Null))
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<Value>, E> {
        Ok(self.0.text(text).then(|| Value::String(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Option<Value>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(self.0))? {
            list.extend(item);
        }
        Ok(Some(Value::Array(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Option<Value>, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key_seed(Name(self.0))? {
            if object.is_empty() {
                self.0.take(OBJECT);
            }
            let value = members.next_value_seed(Seed(self.0))?;
            if let (Some(name), Some(value)) = (name, value) {
                object.insert(name, value);
            }
        }
        Ok(Some(Value::Object(object)))
    }
}

/// Reads the name of a member.
struct Name<'b>(&'b Budget);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Option<String>, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<String>, E> {
        Ok(self.0.text(name).then(|| name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_budget_does_not_allow_is_left_out() {
        let text = r#"{"a":["b","c"],"d":{"e":1}}"#;
        let whole = json!({ "a": ["b", "c"], "d": { "e": 1 } });
        assert_eq!(Budget::new(10_000).tree(text), Some(whole));
        let first = json!({ "a": ["b", "c"], "d": {} });
        assert_eq!(Budget::new(1_200).tree(text), Some(first));
        let long = format!("{{\"a\":[{}{{}}],\"b\":1}}", r#"{"c":1},"#.repeat(10));
        let Some(Value::Object(kept)) = Budget::new(4_000).tree(&long) else { panic!("an object") };
        assert_eq!(kept["a"].as_array().map(Vec::len), Some(5), "what holds others is kept");
        assert_eq!(Budget::new(0).tree(text), Some(Value::Null));
        let many = format!("[{}1]", r#"{"":{"":{}}},"#.repeat(300_000));
        let Some(Value::Array(kept)) = Budget::new(1 << 20).tree(&many) else { panic!("a list") };
        assert!((500..1_000).contains(&kept.len()), "{}", kept.len());
    }

    #[test]
    fn one_budget_is_for_all_trees() {
        let budget = Budget::new(200);
        assert_eq!(budget.tree("[1]"), Some(json!([1])));
        assert_eq!(budget.tree("[1]"), Some(json!([])));
        assert_eq!(budget.tree("[1]"), Some(Value::Null));
        assert_eq!(budget.tree("[1,2"), None, "but it has to be JSON");
    }

    proptest! {
        #[test]
        fn within_the_budget_a_tree_is_what_others_read(text in "[\\[\\]{}\",:1.e\\\\untrl -]{0,40}") {
            let other = serde_json::from_str::<Value>(&text).ok();
            prop_assert_eq!(Budget::new(1 << 20).tree(&text), other);
        }
    }
}
