//! Rows that are damaged: they are told by their ids, hold nothing else up, and are restored.

use feedmill::model::{ArticleId, EntryId, Outcome};
use feedmill::store::browse::damaged::damaged;
use feedmill::store::damage::ROW_DAMAGED;
use feedmill::store::outbox::{Delivery, Refusal, SinkCursor, Start, Wanted};
use feedmill::store::{ArticleFilter, DamagedTable, EventFilter, Reread};

use super::Open;
use super::events::poll;
use super::ready::{article, entry};
use super::trial::{Trial, begin};

struct Rows {
    articles: Vec<ArticleId>,
    entries: Vec<EntryId>,
}

fn url(at: usize) -> String {
    format!("https://a.example/{at}")
}

fn text(at: usize) -> String {
    format!("text {at}")
}

/// Four articles and entries: the first ones of both and the text of the second article are damaged.
async fn spoiled(trial: &Trial) -> Rows {
    let (mut articles, mut entries) = (Vec::new(), Vec::new());
    for at in 0..4 {
        poll(trial, |base, task| {
            let fact = article(task, &url(at), &text(at));
            let uid = at.to_string();
            articles.push(fact.id);
            entries.push(EntryId::of(task, &uid));
            Outcome { entries: vec![entry(task, &uid, "x")], article: Some(fact), ..base }
        })
        .await;
    }
    trial
        .backend
        .spoil(
            "UPDATE article SET body = replace(body, 'given', 'taken') WHERE row = 1;
             UPDATE article_text SET zstd = (SELECT zstd FROM article_text WHERE row = 3)
               WHERE row = 2;
             UPDATE entry SET body = '{' WHERE row = 1;
             UPDATE event SET payload = '{}' WHERE seq = 3",
        )
        .await;
    Rows { articles, entries }
}

pub(super) async fn damaged_rows_are_told_and_the_others_are_read(open: Open) {
    let trial = begin(open).await;
    let Rows { articles, entries } = spoiled(&trial).await;
    let store = &trial.store;
    let wanted = Wanted { entries: entries.clone(), articles: articles.clone(), sources: vec![] };
    let joined = store.join(wanted).await.unwrap();
    assert_eq!((joined.articles.len(), joined.entries.len(), joined.damaged.len()), (2, 3, 3));
    let is_damaged = |table, id: String| {
        joined.damaged.get(&(table, id)).is_some_and(|it| !it.reason.is_empty())
    };
    assert!(is_damaged(DamagedTable::Article, articles[0].to_string()));
    assert!(is_damaged(DamagedTable::Article, articles[1].to_string()));
    assert!(is_damaged(DamagedTable::Entry, entries[0].to_string()));
    for id in &articles[..2] {
        assert_eq!(store.article(*id).await.unwrap_err().code(), "database_corrupt");
    }
    assert_eq!(store.article(articles[2]).await.unwrap().unwrap().1, text(2));
    assert_eq!(store.entry(entries[0]).await.unwrap_err().code(), "database_corrupt");
    // The list of articles says of their texts nothing.
    let page = store.article_page(ArticleFilter { limit: 9, ..ArticleFilter::default() });
    let page = page.await.unwrap();
    assert_eq!((page.articles.len(), page.damaged.len(), page.last), (3, 1, Some(1)));
    assert_eq!(page.damaged[0].id, articles[0].to_string());
    let last = ArticleFilter { limit: 1, before_row: Some(2), ..ArticleFilter::default() };
    assert!(store.articles(last).await.unwrap().is_empty());
    let read =
        store.read_events(EventFilter { limit: 99, ..EventFilter::default() }).await.unwrap();
    let bad: Vec<i64> = read.iter().filter_map(|it| Some(it.as_ref().err()?.seq)).collect();
    assert_eq!((read.len(), bad), (8, vec![3]));
    assert_eq!(trial.events().await.len(), 8, "what is left of it is shown");
    let (rows, count) = damaged(&**store, 3).await.unwrap();
    let ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
    let expected = [articles[0].to_string(), articles[1].to_string(), entries[0].to_string()];
    assert_eq!((ids.as_slice(), count), (expected.as_slice(), 4));
}

pub(super) async fn what_is_read_again_restores_rows_and_sends_their_events(open: Open) {
    let trial = begin(open).await;
    let Rows { articles, entries } = spoiled(&trial).await;
    let store = &trial.store;
    store.open_sink("s", Start::Beginning).await.unwrap();
    let events = trial.events().await;
    let dead = |seq: i64, code| Refusal { seq, code, reason: "why".into() };
    let letters = [(0, ROW_DAMAGED), (1, ROW_DAMAGED), (3, ROW_DAMAGED), (7, "es_refused")];
    let refused = letters.map(|(at, code)| dead(events[at].seq, code)).to_vec();
    let cursor = SinkCursor { seq: 8, ..SinkCursor::default() };
    let told = Delivery { cursor, refused, ..Delivery::default() };
    assert!(store.note_delivery("s", told).await.unwrap());
    let task = trial.tasks().await.remove(0);
    for at in 0..2 {
        let fact = article(task.id, &url(at), &text(at));
        let entries = vec![(trial.now(), entry(task.id, "0", "x"))];
        let read = Reread { task: task.clone(), entries, article: Some((trial.now(), fact)) };
        assert_eq!(store.reread(read.clone()).await.unwrap(), if at == 0 { 2 } else { 1 });
        assert_eq!(store.reread(read).await.unwrap(), 0, "a second time nothing changes");
    }
    assert_eq!(trial.events().await.len(), 8, "what is as it was is not told again");
    for (at, id) in articles.iter().enumerate() {
        let (row, kept) = store.article(*id).await.unwrap().unwrap();
        assert_eq!((row.article.url, kept, row.revision), (url(at), text(at), 1));
    }
    assert_eq!(store.entry(entries[0]).await.unwrap().unwrap().entry.uid, "0");
    let again = store.dead_letters("s", 0, true, 9).await.unwrap();
    let again: Vec<i64> = again.iter().map(|letter| letter.seq).collect();
    assert_eq!(again, [events[0].seq, events[1].seq, events[3].seq]);
    assert_eq!(damaged(&**store, 9).await.unwrap().1, 1, "the log cannot be read again");
}

pub(super) async fn what_a_fetch_brings_takes_the_place_of_a_damaged_row(open: Open) {
    let trial = begin(open).await;
    let Rows { articles, entries } = spoiled(&trial).await;
    // One damaged row holds up neither its own task nor others of the batch.
    for (at, words) in [(0, "another text".to_owned()), (1, text(1)), (9, text(0))] {
        poll(&trial, |base, task| {
            let facts = vec![entry(task, "0", "changed")];
            Outcome { entries: facts, article: Some(article(task, &url(at), &words)), ..base }
        })
        .await;
    }
    let kinds = trial.kinds_of_events().await;
    let new = ["entry.updated", "article.updated", "article.new"];
    assert_eq!(kinds[8..], new, "only what is another than it was is told");
    let (row, words) = trial.store.article(articles[0]).await.unwrap().unwrap();
    assert_eq!((row.revision, words.as_str()), (2, "another text"));
    assert!(trial.store.article(articles[1]).await.unwrap().is_some());
    let row = trial.store.entry(entries[0]).await.unwrap().unwrap();
    assert_eq!(row.entry.title.as_deref(), Some("changed"));
    assert_eq!(damaged(&*trial.store, 9).await.unwrap().1, 1);
}
