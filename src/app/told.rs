//! Who told of an article.

use feedmill_formats::url as web;

use crate::db::DbError;
use crate::frontier::{TaskFilter, queue_key};
use crate::model::{ArticleRow, Kind, Reference, TaskId};
use crate::store::Store;

/// All who told of an article: under its own address, and under those that led there.
pub async fn told_of(article: &ArticleRow, store: &dyn Store) -> Result<Vec<Reference>, DbError> {
    let url = web::parse(&article.article.url).ok();
    let rules = store.rules();
    let filter = TaskFilter {
        host: url.map(|url| queue_key(&web::host(&url), &rules.groups).to_owned()),
        hash: Some(article.id.head()),
        limit: usize::MAX,
        ..TaskFilter::default()
    };
    let own = store.list(filter).await?.into_iter().filter(|task| task.kind == Kind::Article);
    let mut tasks: Vec<TaskId> = own.map(|task| task.id).collect();
    if !tasks.contains(&article.task_id) {
        tasks.push(article.task_id);
    }
    let mut told = store.references(tasks).await?;
    // Of an address that others led to, only the first way there is one.
    let mut seen = Vec::new();
    told.retain(|one| {
        let by = (one.source_id.clone(), one.origin, one.channel.clone());
        !seen.contains(&by) && {
            seen.push(by);
            true
        }
    });
    Ok(told)
}
