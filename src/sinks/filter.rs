//! Which events a sink wants. Pure.

use super::item::Subject;
use super::{About, Item};
use crate::model::{Event, EventKind, KindPattern};

/// Which events a sink wants. An empty list asks for nothing in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of one of these kinds.
    pub kinds: Vec<KindPattern>,
    /// Of a source with one of these names or ids, or told of by one.
    pub sources: Vec<String>,
    /// Of a source in one of these categories, or told of by one.
    pub categories: Vec<String>,
    /// Of a source with one of these tags.
    pub tags: Vec<String>,
    /// In one of these languages: `en` takes `en-GB` as well.
    pub languages: Vec<String>,
    /// Not of pages that say this about their use: `ai-train=no`, `noindex`, `tdm`.
    pub without_rights: Vec<String>,
}

impl Filter {
    /// Whether this kind of event is wanted at all. Whoever gets articles or entries is told when one
    /// is taken down.
    #[must_use]
    pub fn wants(&self, event: &Event) -> bool {
        let fits = |kind| self.kinds.iter().any(|wanted| wanted.fits(kind));
        let has_words = |kind: &&EventKind| Subject::of(**kind) != Subject::Other;
        self.kinds.is_empty()
            || fits(event.kind)
            || event.kind == EventKind::ArticleWithdrawn
                && EventKind::ALL.iter().filter(has_words).any(|kind| fits(*kind))
    }

    /// Whether it is wanted. What has no language passes a filter of languages only when it is no
    /// article: whoever wants French texts still wants to know that a source is gone. What is taken
    /// down may have been somebody else's when it was handed on.
    #[must_use]
    pub fn passes(&self, item: &Item) -> bool {
        if item.event.kind == EventKind::ArticleWithdrawn {
            return self.wants(&item.event);
        }
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
        let (source, told) = (item.source.as_deref(), &item.trail.told);
        let of = |list: &[String], has: &dyn Fn(&String) -> bool| {
            list.is_empty() || list.iter().any(has)
        };
        of(&self.sources, &|name| {
            let own = source.is_some_and(|it| *name == it.spec.name || *name == it.uuid);
            own || told.iter().any(|it| [&it.source, &it.source_id].contains(&&Some(name.clone())))
        }) && of(&self.categories, &|category| {
            let own = source.is_some_and(|it| it.spec.category.as_ref() == Some(category));
            own || told.iter().any(|it| it.category.as_ref() == Some(category))
        }) && of(&self.tags, &|tag| source.is_some_and(|it| it.spec.tags.contains(tag)))
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
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::model::Ts;

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

    #[test]
    fn a_takedown_reaches_whoever_may_have_had_it() {
        let event = |kind| Event {
            seq: 1,
            at: Ts::default(),
            kind,
            subject: String::new(),
            source: None,
            payload: Value::Null,
        };
        for (kinds, told) in [
            (&[][..], true),
            (&["article.new"], true),
            (&["entry.*"], true),
            (&["source.*", "feed.gone"], false),
            (&["article.failed"], false),
        ] {
            let kinds = kinds.iter().map(|kind| kind.parse().unwrap()).collect();
            // Its source is gone, and so is the name that it was wanted by.
            let sources = vec!["somebody".to_owned()];
            let filter = Filter { kinds, sources, ..Filter::default() };
            let about = About::Event;
            let item = |kind| Item {
                event: event(kind),
                about: about.clone(),
                source: None,
                trail: Arc::default(),
            };
            assert_eq!(filter.passes(&item(EventKind::ArticleWithdrawn)), told, "{filter:?}");
            assert!(!filter.passes(&item(EventKind::SourceHealth)));
        }
    }
}
