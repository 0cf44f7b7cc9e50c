//! What a page declares about itself, as it says it: for those who hand that on unweighed.

use serde_json::{Map, Value};

use super::declared::Declared;
use super::tree::Tree;
use super::{MAX_BYTES, jsonld};

/// What a page declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    /// Meta elements: names in lower case, and contents, in their order.
    pub metas: Vec<(String, String)>,
    /// The address that it calls its own, as written.
    pub canonical: Option<String>,
    /// The JSON-LD object of its article.
    pub json_ld: Option<Map<String, Value>>,
}

impl Statement {
    /// Reads the declarations of a page; nothing of one that is too large or too deep to be read.
    #[must_use]
    pub fn read(html: &str) -> Self {
        if html.len() > MAX_BYTES {
            return Self::default();
        }
        let Ok(tree) = Tree::read(html) else { return Self::default() };
        let declared = Declared::collect(&tree);
        let json_ld = jsonld::own_article(&Declared::json_ld(&tree));
        Self { metas: declared.metas, canonical: declared.canonical, json_ld }
    }

    /// The content of the first meta element with this name.
    #[must_use]
    pub fn meta(&self, name: &str) -> Option<&str> {
        let found = self.metas.iter().find(|(known, content)| known == name && !content.is_empty());
        found.map(|(_, content)| content.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_come_as_they_are_written() {
        let said = Statement::read(
            r#"<html><head><meta property="og:type" content="article">
            <meta name="Keywords" content="a, b"><link rel="canonical" href="/x">
            <script type="application/ld+json">[{"@type":"WebSite","name":"n"},
              {"@type":"NewsArticle","headline":"h","wordCount":7}]</script></head></html>"#,
        );
        assert_eq!(said.meta("og:type"), Some("article"));
        assert_eq!(said.meta("keywords"), Some("a, b"));
        assert_eq!(said.meta("og:title"), None);
        assert_eq!(said.canonical.as_deref(), Some("/x"));
        assert_eq!(said.json_ld.unwrap()["wordCount"], 7);
        assert_eq!(Statement::read(""), Statement::default());
    }
}
