//! What a sink does not hand on as it is. Pure.

use sha2::{Digest, Sha256};

use super::{About, Item};
use crate::model::Person;

/// What becomes of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redaction {
    /// It is handed on.
    #[default]
    Keep,
    /// It is left out.
    Drop,
    /// A fingerprint takes its place: the same for the same value and salt.
    Hash,
}

/// What a sink does not hand on as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redact {
    /// E-mail addresses of authors, also where they stand for a name.
    pub emails: Redaction,
    /// Names of authors, and their pages.
    pub authors: Redaction,
    /// Texts: of articles, and summary and content of entries.
    pub texts: Redaction,
    /// Goes into fingerprints, so that nobody can try out values.
    pub salt: String,
}

impl Redact {
    /// Takes out of an item what is not to be handed on.
    pub fn apply(&self, item: &mut Item) {
        match &mut item.about {
            About::Event => {}
            About::Entry(row) => {
                let entry = &mut row.entry;
                entry.authors = entry.authors.drain(..).filter_map(|it| self.person(it)).collect();
                entry.summary = self.maybe(self.texts, entry.summary.take());
                entry.content = self.maybe(self.texts, entry.content.take());
            }
            About::Article(row, text) => {
                let article = &mut row.article;
                let names = article.authors.drain(..).filter_map(|name| self.name(name));
                article.authors = names.collect();
                article.abstract_ = self.maybe(self.texts, article.abstract_.take());
                *text = self.value(self.texts, std::mem::take(text)).unwrap_or_default();
            }
        }
    }

    fn person(&self, person: Person) -> Option<Person> {
        let person = Person {
            name: person.name.and_then(|name| self.name(name)),
            email: self.maybe(self.emails, person.email),
            uri: self.maybe(self.authors, person.uri),
        };
        let empty = person.name.is_none() && person.email.is_none() && person.uri.is_none();
        (!empty).then_some(person)
    }

    /// Whether everything is handed on.
    #[must_use]
    pub fn is_off(&self) -> bool {
        [self.emails, self.authors, self.texts].iter().all(|how| *how == Redaction::Keep)
    }

    /// A text, such as the description of a page.
    #[must_use]
    pub fn text(&self, text: String) -> Option<String> {
        self.value(self.texts, text)
    }

    /// A name; an address that stands for one is an address too.
    #[must_use]
    pub fn name(&self, name: String) -> Option<String> {
        let is_address = name.split_whitespace().any(is_email);
        let name = if is_address { self.value(self.emails, name) } else { Some(name) };
        name.and_then(|name| self.value(self.authors, name))
    }

    fn maybe(&self, how: Redaction, value: Option<String>) -> Option<String> {
        value.and_then(|value| self.value(how, value))
    }

    fn value(&self, how: Redaction, value: String) -> Option<String> {
        match how {
            Redaction::Keep => Some(value),
            Redaction::Drop => None,
            Redaction::Hash => {
                let mut hash = Sha256::new();
                hash.update(self.salt.as_bytes());
                hash.update([0]);
                hash.update(value.trim().to_lowercase().as_bytes());
                let hash: [u8; 32] = hash.finalize().into();
                let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
                Some(format!("sha256:{hex}"))
            }
        }
    }
}

/// Whether a word is an e-mail address, in whatever brackets.
fn is_email(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(name: &str, email: Option<&str>) -> Person {
        Person { name: Some(name.into()), email: email.map(Into::into), uri: None }
    }

    #[test]
    fn addresses_go_wherever_they_stand() {
        let drop = Redact { emails: Redaction::Drop, ..Redact::default() };
        let kept = drop.person(person("Ann", Some("ann@example.com"))).unwrap();
        assert_eq!(kept, person("Ann", None));
        assert_eq!(drop.person(person("ann@example.com", None)), None);
        assert_eq!(drop.name("Ann <ann@example.com>".into()), None);
        assert_eq!(drop.name("Ann @ home".into()).as_deref(), Some("Ann @ home"));
        let hash = Redact { emails: Redaction::Hash, salt: "s".into(), ..Redact::default() };
        let one = hash.person(person("Ann", Some("ann@example.com"))).unwrap().email.unwrap();
        assert!(one.starts_with("sha256:") && one.len() == 39, "{one}");
        assert_eq!(hash.value(Redaction::Hash, "ANN@example.com ".into()), Some(one.clone()));
        let other = Redact { salt: "t".into(), ..hash };
        assert_ne!(other.value(Redaction::Hash, "ann@example.com".into()), Some(one));
    }

    #[test]
    fn names_and_texts_go_when_asked() {
        let redact =
            Redact { authors: Redaction::Drop, texts: Redaction::Drop, ..Redact::default() };
        assert_eq!(redact.person(person("Ann", None)), None);
        assert_eq!(redact.maybe(redact.texts, Some("text".into())), None);
        let whole = person("Ann", Some("ann@example.com"));
        assert_eq!(Redact::default().person(whole.clone()), Some(whole));
    }
}
