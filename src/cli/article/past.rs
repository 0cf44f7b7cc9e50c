//! `feedmill article copies` and `revisions`: where else an article's words are, and how they changed.

use serde_json::json;

use super::{meant, text, unknown};
use crate::cli::out::Out;
use crate::cli::{Context, Failure};
use crate::model::{ArticleRow, Change, Revision, Ts};
use crate::store::near::{self, Cluster};

pub(super) async fn copies(wanted: &str, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let rows = store.copies(meant(wanted, &*store)?).await?;
    let cluster = Cluster::of(rows).ok_or_else(|| unknown(wanted))?;
    let now = context.clock.now();
    context.out.emit(&json!(cluster), |out| told(&cluster, now, out))
}

fn told(cluster: &Cluster, now: Ts, out: &Out) -> String {
    let first = &cluster.first;
    if cluster.articles.len() == 1 {
        return format!("nobody else is known to have it: {}", text::one_line(&first.url));
    }
    let rows = cluster.articles.iter().map(|row| {
        [
            text::when(row.first_seen, now),
            near::site(&row.article),
            likeness(row),
            row.article.published.map(|at| at.to_string()).unwrap_or_default(),
            row.article.url.clone(),
        ]
    });
    let table = out.table(["seen", "site", "in common", "published", "url"], rows.collect());
    let (copies, sites) = (cluster.articles.len(), cluster.sites);
    let sites = if sites == 1 { "1 site".to_owned() } else { format!("{sites} sites") };
    format!("{copies} articles at {sites}, first at {} ({})\n\n{table}", first.site, first.at)
}

fn likeness(row: &ArticleRow) -> String {
    match &row.near {
        _ if row.duplicate_of.is_some() => "all of it".to_owned(),
        Some(near) => format!("{:.0} %", near.share * 100.0),
        None => String::new(),
    }
}

pub(super) async fn revisions(wanted: &str, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let revisions = store.revisions(meant(wanted, &*store)?).await?;
    if revisions.is_empty() {
        return Err(unknown(wanted));
    }
    let now = context.clock.now();
    context.out.emit(&json!({ "revisions": revisions }), |out| {
        let rows = revisions.iter().map(|form| listed(form, now));
        out.table(["revision", "seen", "words", "change", "updated", "title"], rows.collect())
    })
}

fn listed(form: &Revision, now: Ts) -> [String; 6] {
    [
        form.revision.to_string(),
        text::when(form.seen, now),
        text::number(u64::from(form.word_count)),
        form.change.map(changed).unwrap_or_default(),
        form.updated.map(|at| at.to_string()).unwrap_or_default(),
        form.title.clone().unwrap_or_default(),
    ]
}

fn changed(change: Change) -> String {
    let silent = if change.silent { ", silent" } else { "" };
    format!("+{} -{}{silent}", change.added, change.removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_in_one_word_and_its_size() {
        let change = Change { added: 12, removed: 3, silent: false };
        assert_eq!(changed(change), "+12 -3");
        assert_eq!(changed(Change { silent: true, ..change }), "+12 -3, silent");
    }
}
