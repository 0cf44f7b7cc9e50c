//! `feedmill source import` and `export`: sources as OPML.

use std::path::Path;

use feedmill_formats::opml::{self, Opml, Subscription};
use feedmill_formats::url::Url;
use serde_json::json;

use super::super::{Context, Failure, text};
use crate::fetch::Guard;
use crate::sources::{Wanted, specify};
use crate::store::SourceError;

/// Adds a source for each feed of a list; those that are followed already are left alone.
pub(super) async fn import(file: &Path, context: &Context) -> Result<(), Failure> {
    let unreadable =
        |error| Failure::failed("input", format!("cannot read {}: {error}", file.display()));
    let body = std::fs::read(file).map_err(unreadable)?;
    let list =
        opml::parse(&body).map_err(|error| Failure::failed(error.code(), error.to_string()))?;
    let fetch = context.load()?.config.fetch;
    let guard = Guard::new(&fetch);
    let permit = |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    let store = context.store_or_new().await?;
    let (mut added, mut known, mut refused) = (Vec::new(), 0_u64, Vec::new());
    for feed in &list.feeds {
        let wanted = Wanted {
            urls: vec![feed.feed_url.clone()],
            name: feed.title.as_deref().map(|title| title.chars().take(100).collect()),
            kind: Some(crate::model::Kind::Feed),
            category: feed.categories.first().map(|name| name.chars().take(100).collect()),
            ..Wanted::default()
        };
        let spec = match specify(&wanted, permit) {
            Ok(spec) => spec,
            Err(error) => {
                refused.push(error.to_string());
                continue;
            }
        };
        match store.add_source(spec).await {
            Ok(source) => added.push(source.spec.name.clone()),
            Err(SourceError::NameTaken(_)) => known += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let value = json!({ "added": added, "known": known, "refused": refused });
    context.out.emit(&value, |_| {
        let added = text::count(added.len() as u64, "source");
        let mut told = format!("{added} added, {known} known by name already");
        for reason in &refused {
            told.push_str(&format!("\nleft out: {}", text::one_line(reason)));
        }
        told
    })
}

/// Prints the feeds of all sources as OPML.
pub(super) async fn export(context: &Context) -> Result<(), Failure> {
    let sources = context.store().await?.sources().await?;
    let feeds = sources.iter().flat_map(|source| {
        source.spec.feed_urls.iter().map(|feed_url| Subscription {
            title: Some(source.spec.name.clone()),
            feed_url: feed_url.clone(),
            home_url: Some(source.spec.url.clone()),
            categories: source.spec.category.iter().cloned().collect(),
        })
    });
    let list = Opml { title: Some("Feedmill".to_owned()), feeds: feeds.collect() };
    context.out.emit(&list, |_| list.write())
}
