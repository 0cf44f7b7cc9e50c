//! Which events a sink wants. Pure.

use super::{About, Item};
use crate::model::{Event, KindPattern};

/// Which events a sink wants. An empty list asks for nothing in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of one of these kinds.
    pub kinds: Vec<KindPattern>,
    /// Of a source with one of these names or ids.
    pub sources: Vec<String>,
    /// Of a source in one of these categories.
    pub categories: Vec<String>,
    /// Of a source with one of these tags.
    pub tags: Vec<String>,
    /// In one of these languages: `en` takes `en-GB` as well.
    pub languages: Vec<String>,
    /// Not of pages that say this about their use: `ai-train=no`, `noindex`, `tdm`.
    pub without_rights: Vec<String>,
}

impl Filter {
    /// Whether this kind of event is wanted at all.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.fits(event.kind))
    }

    /// Whether it is wanted. What has no language passes a filter of languages only when it is no
    /// article: whoever wants French texts still wants to know that a source is gone.
    #[must_use]
    pub fn passes(&self, item: &Item) -> bool {
        self.wants(&item.event)
            && self.whose(item)
            && match &item.about {
                About::Event | About::Entry(_) => true,
                About::Article(row, _) => {
                    self.speaks(row.article.language.as_deref())
                        && !self.without_rights.iter().any(|said| row.article.rights.says(said))
                }
            }
    }

    fn whose(&self, item: &Item) -> bool {
        if self.sources.is_empty() && self.categories.is_empty() && self.tags.is_empty() {
            return true;
        }
        let Some(source) = &item.source else { return false };
        let spec = &source.spec;
        let of = |list: &[String], has: &dyn Fn(&String) -> bool| {
            list.is_empty() || list.iter().any(has)
        };
        of(&self.sources, &|name| *name == spec.name || *name == source.uuid)
            && of(&self.categories, &|category| spec.category.as_ref() == Some(category))
            && of(&self.tags, &|tag| spec.tags.contains(tag))
    }

    fn speaks(&self, language: Option<&str>) -> bool {
        let language = language.unwrap_or_default();
        self.languages.is_empty()
            || self.languages.iter().any(|wanted| {
                let rest = language.get(..wanted.len()).filter(|s| s.eq_ignore_ascii_case(wanted));
                let rest = rest.and_then(|_| language.get(wanted.len()..));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_takes_its_regions() {
        let filter = Filter { languages: vec!["en".into(), "pt-BR".into()], ..Filter::default() };
        for (language, passes) in [
            (Some("en"), true),
            (Some("EN-gb"), true),
            (Some("eng"), false),
            (Some("pt"), false),
            (Some("pt-br"), true),
            (None, false),
        ] {
            assert_eq!(filter.speaks(language), passes, "{language:?}");
        }
        assert!(Filter::default().speaks(None));
    }
}
