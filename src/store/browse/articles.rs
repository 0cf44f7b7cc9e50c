//! Articles, newest first.

use std::collections::HashMap;

use super::sources::by_ids;
use super::{Found, Hunt, Place, whole};
use crate::db::DbError;
use crate::db::statement::{Cells, Dialect, Statement, Terms};
use crate::model::{ArticleId, ArticleRow, FetchId, Near, Source, SourceId, TaskId, Ts};
use crate::store::Store;
use crate::store::damage::{Beside, check};
use crate::store::forms::{from_json, to_share};

/// Which articles, and which part of them.
#[derive(Clone, Debug, Default)]
pub struct ArticleQuery {
    /// Of this source.
    pub source: Option<SourceId>,
    /// Of a source in this category.
    pub category: Option<String>,
    /// Of a source with this tag.
    pub tag: Option<String>,
    /// In this language: `en` takes `en-GB` as well.
    pub language: Option<String>,
    /// With this in the title, in whatever case.
    pub title: Option<String>,
    /// First seen at or after this time.
    pub since: Option<Ts>,
    /// First seen before this time.
    pub until: Option<Ts>,
    /// Only those with the very text of an earlier one, or only the others.
    pub duplicates: Option<bool>,
    /// Only what comes after this place.
    pub after: Option<Place>,
    /// Only what comes before that place instead: the last of it.
    pub backwards: bool,
    /// At most so many.
    pub limit: usize,
}

/// An article with the source that owns it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedArticle {
    /// Its place in the list.
    pub place: Place,
    /// The article.
    pub article: ArticleRow,
    /// Its source, while that is there.
    pub source: Option<Source>,
}

pub(super) const COLUMNS: &str = "a.row, a.id, a.task_id, a.source_id, a.content_hash, a.simhash, \
    a.duplicate_of, a.revision, a.first_seen, a.last_seen, a.fetch_id, a.body, a.cluster, \
    a.nearest, a.share, a.wire, a.checksum, a.published";

impl ArticleQuery {
    fn is_picky(&self) -> bool {
        [&self.category, &self.tag, &self.language, &self.title].iter().any(|one| one.is_some())
    }

    fn statement(&self, dialect: Dialect, from: Option<Place>, window: usize) -> Statement {
        let mut terms = Terms::new(dialect);
        if let Some(source) = self.source {
            let source = terms.int(source.0);
            terms.add(format!("a.source_id = {source}"));
        }
        if let Some(since) = self.since {
            let since = terms.int(since.ms());
            terms.add(format!("a.first_seen >= {since}"));
        }
        if let Some(until) = self.until {
            let until = terms.int(until.ms());
            terms.add(format!("a.first_seen < {until}"));
        }
        if let Some(copies) = self.duplicates {
            terms.add(format!("a.duplicate_of IS {}NULL", if copies { "NOT " } else { "" }));
        }
        if let Some(place) = from {
            let (key, row) = (terms.int(place.key), terms.int(place.row));
            let beyond = if self.backwards { '>' } else { '<' };
            terms.add(format!("(a.first_seen, a.row) {beyond} ({key}, {row})"));
        }
        let direction = if self.backwards { "ASC" } else { "DESC" };
        let sql = format!(
            "SELECT {COLUMNS} FROM article a WHERE {}
             ORDER BY a.first_seen {direction}, a.row {direction} LIMIT {window}",
            terms.sql()
        );
        terms.statement(sql)
    }

    fn wants(&self, article: &ArticleRow, source: Option<&Source>) -> bool {
        let read = &article.article;
        let labelled = |wanted: &Option<String>, has: &dyn Fn(&String, &Source) -> bool| {
            wanted.as_ref().is_none_or(|wanted| source.is_some_and(|source| has(wanted, source)))
        };
        let speaks = |wanted: &String| {
            let (wanted, has) = (wanted.to_lowercase(), read.language.as_deref().unwrap_or(""));
            let has = has.to_lowercase();
            has == wanted || has.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('-'))
        };
        let says = |wanted: &String| {
            let title = read.title.as_deref().unwrap_or_default().to_lowercase();
            title.contains(&wanted.to_lowercase())
        };
        labelled(&self.category, &|wanted, source| source.spec.category.as_ref() == Some(wanted))
            && labelled(&self.tag, &|wanted, source| source.spec.tags.contains(wanted))
            && self.language.as_ref().is_none_or(speaks)
            && self.title.as_ref().is_none_or(says)
    }
}

pub(super) fn read(row: &Cells) -> Result<(Place, ArticleRow), DbError> {
    let (own, content) = (row.bytes::<32>(1)?, row.bytes::<32>(4)?);
    let beside = Beside::document(&own, &content, row.maybe_int(17)?);
    check("article", &[row.text(11)?.as_bytes()], &beside, row.maybe_int(16)?)?;
    let id = |at| row.maybe_bytes(at).map(|bytes| bytes.map(ArticleId::from_bytes));
    let (share, wire) = (row.maybe_int(14)?, row.maybe_int(15)? == Some(1));
    let near = match (id(12)?, id(13)?) {
        (Some(cluster), Some(nearest)) => {
            let share = to_share(share.map_or(Ok(0), |_| row.narrow(14))?);
            Some(Near { cluster, nearest, share, wire })
        }
        _ => None,
    };
    let article = ArticleRow {
        id: ArticleId::from_bytes(row.bytes(1)?),
        task_id: TaskId(row.int(2)?),
        source: row.maybe_int(3)?.map(SourceId),
        content_hash: row.bytes(4)?,
        simhash: row.int(5)?.cast_unsigned(),
        duplicate_of: id(6)?,
        revision: row.narrow(7)?,
        first_seen: Ts::from_ms(row.int(8)?),
        last_seen: Ts::from_ms(row.int(9)?),
        fetch: row.maybe_bytes(10)?.map(FetchId::from_bytes),
        article: from_json("article", row.text(11)?)?,
        near,
    };
    Ok((Place { key: article.first_seen.ms(), row: row.int(0)? }, article))
}

/// Articles by query, newest first. Backwards, `next` leads to newer ones.
pub async fn articles(
    store: &dyn Store,
    query: &ArticleQuery,
) -> Result<Found<ListedArticle>, DbError> {
    let mut hunt = Hunt::new(query.limit, query.after, query.is_picky());
    let mut sources: HashMap<SourceId, Source> = HashMap::new();
    while hunt.goes_on() {
        let statement = query.statement(store.dialect(), hunt.from, hunt.window);
        let rows = store.select(statement).await?;
        let rows = rows.iter().map(|row| whole(row, 8, read)).collect::<Result<Vec<_>, _>>()?;
        let unknown = rows.iter().filter_map(|(_, row)| row.as_ref()?.source);
        let unknown: Vec<_> = unknown.filter(|id| !sources.contains_key(id)).collect();
        sources.extend(by_ids(store, &unknown).await?);
        hunt.take(rows.into_iter().map(|(place, article)| {
            let Some(article) = article else { return (place, None) };
            let source = article.source.and_then(|id| sources.get(&id));
            let wanted = query.wants(&article, source);
            let source = source.cloned();
            (place, wanted.then_some(ListedArticle { place, article, source }))
        }));
    }
    let mut found = hunt.found();
    if query.backwards {
        found.items.reverse();
    }
    Ok(found)
}
