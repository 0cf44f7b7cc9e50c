//! The index of the archive: where bytes are, what is still needed, what is read in them again.

use feedmill::model::{
    Code, FetchId, FetchRecord, Kind, Lease, Next, Outcome, RawRef, TaskId, Ts, new_uuid,
};
use feedmill::store::{FetchFilter, MovedRaw, Reread};

use super::Open;
use super::ready::{article, entry};
use super::trial::{DAY, PAUSE, Trial, begin, feed, owned_by, page, then};

const FEED: &str = "https://a.example/feed";

fn record(task: TaskId, at: Ts, segment: &str, offset: u64) -> FetchRecord {
    FetchRecord {
        id: new_uuid(at),
        task: Some(task),
        at,
        url: "https://a.example/".into(),
        status: Some(200),
        code: Code::Ok,
        bytes: 10,
        elapsed_ms: 1,
        content_type: None,
        body_sha256: Some("ab".into()),
        raw: Some(RawRef { segment: segment.into(), offset, length: 7 }),
    }
}

/// Ends a lease with one fetch, whose bytes are at this place.
async fn fetched(trial: &Trial, lease: &Lease, segment: &str, offset: u64) -> FetchRecord {
    let fetch = record(lease.task.id, trial.now(), segment, offset);
    let next = match lease.task.kind {
        Kind::Feed => Next::Again { at: trial.now().after(PAUSE) },
        _ => Next::Fetched,
    };
    trial.commit(lease, Outcome { fetches: vec![fetch.clone()], ..then(next) }).await;
    fetch
}

/// The same, and a day goes by.
async fn serve(trial: &Trial, lease: &Lease, segment: &str, offset: u64) -> FetchRecord {
    let fetch = fetched(trial, lease, segment, offset).await;
    trial.pass(DAY);
    fetch
}

async fn ids(trial: &Trial, filter: FetchFilter) -> Vec<FetchId> {
    let filter = FetchFilter { limit: 100, ..filter };
    let found = trial.store.find_fetches(filter).await.unwrap();
    found.iter().map(|fetch| fetch.id).collect()
}

pub(super) async fn fetches_are_found_by_what_is_asked_for(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    let others = [owned_by(&source, page("https://c.example/")), page("https://b.example/")];
    trial.submit(others).await;
    let leases = trial.claim(3, feedmill::model::Lane::ALL).await;
    let mut made = Vec::new();
    for (lease, segment) in leases.iter().zip(["s1", "s1", "s2"]) {
        made.push(fetched(&trial, lease, segment, made.len() as u64).await);
        trial.pass(PAUSE);
    }
    made.push(serve(&trial, &trial.take().await, "s2", 3).await);
    let all: Vec<_> = made.iter().map(|fetch| fetch.id).collect();
    let any = FetchFilter::default;
    assert_eq!(ids(&trial, any()).await, all);
    assert_eq!(ids(&trial, FetchFilter { ids: vec![all[2]], ..any() }).await, all[2..3]);
    assert_eq!(ids(&trial, FetchFilter { segment: Some("s1".into()), ..any() }).await, all[..2]);
    assert_eq!(ids(&trial, FetchFilter { since: Some(made[1].at), ..any() }).await, all[1..]);
    assert_eq!(ids(&trial, FetchFilter { until: Some(made[1].at), ..any() }).await, all[..1]);
    assert_eq!(ids(&trial, FetchFilter { after: Some(all[0]), ..any() }).await, all[1..]);
    let mut owned = made.clone();
    let elsewhere = trial.task("https://b.example/").await.id;
    owned.retain(|fetch| fetch.task != Some(elsewhere));
    assert_eq!(owned.len(), 3);
    let of_source = ids(&trial, FetchFilter { source: Some(source.id), ..any() }).await;
    assert_eq!(of_source, owned.iter().map(|fetch| fetch.id).collect::<Vec<_>>());
    let at_b = FetchFilter { host: Some("b.example".into()), ..any() };
    let of_b: Vec<_> = made.iter().filter(|fetch| fetch.task == Some(elsewhere)).collect();
    assert_eq!(ids(&trial, at_b).await, of_b.iter().map(|fetch| fetch.id).collect::<Vec<_>>());
    let found = trial.store.find_fetches(FetchFilter { limit: 1, ..any() }).await.unwrap();
    assert_eq!(found, made[..1], "as it was kept");
    let segments = trial.store.segments().await.unwrap();
    let told: Vec<_> =
        segments.iter().map(|used| (used.segment.as_str(), used.records, used.last)).collect();
    assert_eq!(told, [("s1", 2, made[1].at), ("s2", 2, made[3].at)]);
}

pub(super) async fn the_last_documents_of_a_feed_are_needed(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(FEED)]).await;
    let mut made = Vec::new();
    for (n, segment) in ["old", "old", "old", "new"].into_iter().enumerate() {
        made.push(serve(&trial, &trial.take().await, segment, n as u64).await);
    }
    trial.submit([page("https://a.example/page")]).await;
    let lease = trial.claim(1, &[feedmill::model::Lane::Page]).await.pop().unwrap();
    serve(&trial, &lease, "old", 9).await;
    let needed = async |segment: &str, n| {
        let found = trial.store.needed(segment, n).await.unwrap();
        found.iter().map(|fetch| fetch.id).collect::<Vec<_>>()
    };
    assert!(needed("old", 0).await.is_empty());
    assert!(needed("old", 1).await.is_empty(), "the last one is in the other segment");
    assert_eq!(needed("old", 3).await, [made[1].id, made[2].id]);
    assert_eq!(needed("old", 10).await.len(), 3, "no page is needed");
    assert_eq!(needed("new", 1).await, [made[3].id]);
}

pub(super) async fn bytes_move_and_are_forgotten(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(FEED)]).await;
    let mut made = Vec::new();
    for n in 0..4 {
        made.push(serve(&trial, &trial.take().await, "old", n).await);
    }
    let to = RawRef { segment: "new".into(), offset: 70, length: 8 };
    let moved = |fetch: FetchId, from: &str| MovedRaw { fetch, from: from.into(), to: to.clone() };
    // One that is elsewhere by now stays there.
    let batch = vec![moved(made[1].id, "old"), moved(made[2].id, "other")];
    trial.store.move_raw(batch).await.unwrap();
    // Of a segment that was cut, what is left of it stays.
    assert_eq!(trial.store.forget_segment("old", u64::MAX, 9).await.unwrap(), 0);
    assert_eq!(trial.store.forget_segment("old", 0, 2).await.unwrap(), 2);
    assert_eq!(trial.store.forget_segment("old", 0, 2).await.unwrap(), 1);
    assert_eq!(trial.store.forget_segment("old", 0, 2).await.unwrap(), 0);
    let all = trial.store.find_fetches(FetchFilter { limit: 9, ..FetchFilter::default() });
    let places: Vec<_> = all.await.unwrap().into_iter().map(|fetch| fetch.raw).collect();
    assert_eq!(places, [None, Some(to), None, None]);
    let kept = FetchFilter { kept: true, ..FetchFilter::default() };
    assert_eq!(ids(&trial, kept).await, [made[1].id]);
    assert_eq!(trial.store.segments().await.unwrap().len(), 1);
}

pub(super) async fn what_is_read_again_changes_once_and_no_task(open: Open) {
    let trial = begin(open).await;
    trial.submit([feed(FEED)]).await;
    let lease = trial.take().await;
    let task = lease.task.clone();
    let (early, late) = (Some(new_uuid(trial.now())), Some(new_uuid(trial.now().after(DAY))));
    let mut known = entry(task.id, "known", "as it was");
    known.fetch = early;
    let outcome = Outcome {
        entries: vec![known.clone()],
        ..then(Next::Again { at: trial.now().after(DAY) })
    };
    trial.commit(&lease, outcome).await;
    let tasks = format!("{:?}", trial.tasks().await);
    let at = trial.now();
    let reread = |entries: Vec<feedmill::model::EntryFact>, article| Reread {
        task: task.clone(),
        entries: entries.into_iter().map(|fact| (at, fact)).collect(),
        article,
    };
    let mut better = entry(task.id, "known", "better read");
    better.fetch = late;
    let mut page = article(task.id, "https://a.example/1", "the text");
    page.fetch = early;
    let facts = || vec![better.clone(), entry(task.id, "found now", "new")];
    let first = reread(facts(), Some((at, page.clone())));
    assert_eq!(trial.store.reread(first.clone()).await.unwrap(), 3);
    assert_eq!(trial.store.reread(first).await.unwrap(), 0, "a second time nothing changes");
    let told = ["entry.new", "entry.updated", "entry.new", "article.new"];
    assert_eq!(trial.kinds_of_events().await, told);
    let row = trial.store.entry(better.id).await.unwrap().unwrap();
    assert_eq!((row.content_hash, row.seen_count), (better.content_hash, 1));
    let since = async |feed, fetch: Option<FetchId>| {
        trial.store.entries_since(feed, fetch.unwrap()).await.unwrap()
    };
    assert_eq!(since(task.id, early).await, [(better.id, late.unwrap())]);
    assert_eq!(since(task.id, late).await, [(better.id, late.unwrap())]);
    assert_eq!(since(task.id, Some(FetchId::max())).await, []);
    assert_eq!(since(TaskId(task.id.0 + 1), early).await, []);
    // What came later is not undone by what came before.
    assert_eq!(trial.store.reread(reread(vec![known], None)).await.unwrap(), 0);
    page.article.title = Some("a better title".into());
    let again = reread(vec![], Some((at, page.clone())));
    assert_eq!(trial.store.reread(again).await.unwrap(), 1);
    let (row, text) = trial.store.article(page.id).await.unwrap().unwrap();
    assert_eq!((row.revision, row.article.title), (2, page.article.title));
    assert_eq!(text, "the text");
    assert_eq!(format!("{:?}", trial.tasks().await), tasks, "no task was touched");
}
