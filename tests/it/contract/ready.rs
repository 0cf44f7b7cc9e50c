//! Ready-made facts for outcomes.

use feedmill_formats::sketch::Sketch;

use feedmill::model::{Article, ArticleFact, Entry, EntryFact, EntryId, TaskId, UrlHash};

/// An entry of a feed, told apart by `uid`, changed by `title`.
pub(crate) fn entry(feed: TaskId, uid: &str, title: &str) -> EntryFact {
    EntryFact {
        id: EntryId::of(feed, uid),
        entry: Entry {
            uid: uid.into(),
            canonical_link: None,
            given_link: None,
            title: Some(title.into()),
            summary: None,
            content: None,
            authors: vec![],
            categories: vec![],
            enclosures: vec![],
            published: None,
            published_raw: None,
            updated_raw: None,
            cut: vec![],
            updated: None,
        },
        content_hash: *UrlHash::of(title).as_bytes(),
        link_hash: None,
        fetch: None,
        slice: None,
    }
}

/// An article with this text.
pub(crate) fn article(task: TaskId, url: &str, text: &str) -> ArticleFact {
    ArticleFact {
        id: UrlHash::of(url),
        task,
        source: None,
        article: Article {
            url: url.into(),
            canonical_url: None,
            title: None,
            authors: vec![],
            published: None,
            updated: None,
            language: None,
            site_name: None,
            section: None,
            tags: vec![],
            lead_image: None,
            abstract_: None,
            word_count: 1,
            method: "given".into(),
            confidence: 1.0,
            rights: Default::default(),
            cut: vec![],
        },
        text: text.into(),
        content_hash: *UrlHash::of(text).as_bytes(),
        simhash: 0,
        sketch: Sketch::of(text),
        fetch: None,
        prints: vec![],
    }
}
