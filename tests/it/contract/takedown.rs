//! What was taken down is gone, told, and refused.

use feedmill::frontier::{Act, TaskFilter};
use feedmill::model::{
    Code, EntryFact, EventKind, FetchRecord, Lane, Lease, NewTakedown, Next, Outcome, RawRef,
    Scope, Status, Takedown, UrlHash, new_uuid,
};
use feedmill::store::Reread;
use feedmill::store::takedown::{Doomed, Target};

use super::Open;
use super::ready::{article, entry};
use super::trial::{PAUSE, Trial, begin, feed, owned_by, page, then};

const STORY: &str = "https://a.example/story";
const OTHER: &str = "https://b.example/other";
const FEED: &str = "https://c.example/feed";
const HOUR: std::time::Duration = std::time::Duration::from_hours(1);

fn linked(fact: EntryFact, to: &str) -> EntryFact {
    let mut fact = EntryFact { link_hash: Some(UrlHash::of(to)), ..fact };
    fact.entry.canonical_link = Some(to.to_owned());
    fact.entry.content = Some("all of its words".into());
    fact
}

fn fetch(trial: &Trial, lease: &Lease, offset: u64) -> FetchRecord {
    FetchRecord {
        id: new_uuid(trial.now()),
        task: Some(lease.task.id),
        at: trial.now(),
        url: lease.task.url.clone(),
        status: Some(200),
        code: Code::Ok,
        bytes: 10,
        elapsed_ms: 1,
        content_type: None,
        body_sha256: Some("ab".into()),
        raw: Some(RawRef { segment: "s1".into(), offset, length: 300 }),
    }
}

/// Serves a page with an article.
async fn story(trial: &Trial, url: &str, offset: u64) -> Lease {
    let lease = trial.take().await;
    assert_eq!(lease.task.url, url);
    let mut fact = article(lease.task.id, url, &format!("the words of {url}"));
    fact.article.title = Some("its title".into());
    let fetches = vec![fetch(trial, &lease, offset)];
    trial.commit(&lease, Outcome { article: Some(fact), fetches, ..then(Next::Fetched) }).await;
    trial.pass(PAUSE);
    lease
}

/// A page that nobody asks for during the test.
fn later(trial: &Trial, url: &str) -> feedmill::model::NewTask {
    let not_before = Some(trial.now().after(HOUR * 9_999));
    feedmill::model::NewTask { not_before, ..page(url) }
}

/// Serves the feed with these entries; which tasks they led to.
async fn poll(trial: &Trial, links: &[&str]) {
    trial.pass(HOUR);
    let lease = trial.take().await;
    assert_eq!(lease.task.url, FEED);
    let facts = links.iter().map(|link| linked(entry(lease.task.id, link, "a title"), link));
    let outcome = Outcome {
        entries: facts.collect(),
        discovered: links.iter().map(|link| later(trial, link)).collect(),
        fetches: vec![fetch(trial, &lease, 9_000)],
        ..then(Next::Again { at: trial.now().after(HOUR) })
    };
    trial.commit(&lease, outcome).await;
}

fn wish(scope: Scope, target: &str, addresses: Vec<UrlHash>) -> NewTakedown {
    NewTakedown {
        scope,
        target: target.into(),
        name: target.into(),
        by: "ann".into(),
        why: "she asked".into(),
        addresses,
    }
}

/// All of it, as the application does it.
async fn take_down(trial: &Trial, scope: Scope, key: &str, target: Target) -> (Takedown, Doomed) {
    let store = &trial.store;
    let addresses = match scope {
        Scope::Host => vec![],
        _ => store.doomed(target.clone()).await.unwrap().addresses.into_iter().collect(),
    };
    let takedown = store.open_takedown(wish(scope, key, addresses)).await.unwrap();
    let doomed = store.doomed(target).await.unwrap();
    let articles = doomed.articles.iter().copied().collect();
    for part in doomed.clone().parts(2) {
        let ids: Vec<_> = part.tasks.iter().copied().collect();
        store.take_down(&takedown, part).await.unwrap();
        if !ids.is_empty() {
            let filter = TaskFilter { limit: ids.len(), ids, ..TaskFilter::default() };
            store.sweep(Act::Withdraw, filter, false).await.unwrap();
        }
    }
    store.blank_events(articles).await.unwrap();
    store.end_takedown(&takedown).await.unwrap();
    (takedown, doomed)
}

async fn codes(trial: &Trial, urls: &[&str]) -> Vec<&'static str> {
    let batch = urls.iter().map(|url| page(url)).collect();
    let report = trial.store.submit(batch).await.unwrap();
    report.rejected.iter().map(|rejected| rejected.code).collect()
}

pub(super) async fn damaged_rows_go_as_well(open: Open) {
    for damage in [
        "UPDATE article SET body = '{', sketch = NULL; UPDATE entry SET body = '{';
         UPDATE event SET payload = '{'",
        // Nothing of the row can be read.
        "UPDATE entry SET body = '{', content_hash = substr(content_hash, 1, 4)",
        "UPDATE entry SET link_hash = substr(link_hash, 1, 4)",
    ] {
        let trial = begin(open).await;
        let store = &trial.store;
        trial.submit([page(STORY)]).await;
        story(&trial, STORY, 100).await;
        trial.submit([feed(FEED)]).await;
        poll(&trial, &[STORY]).await;
        trial.backend.spoil(damage).await;
        let (takedown, doomed) =
            take_down(&trial, Scope::Address, STORY, Target::Address(STORY.into())).await;
        assert_eq!((doomed.articles.len(), doomed.entries.len()), (1, 1), "{damage}");
        let found = store.takedowns().await.unwrap();
        let found = found.iter().find(|it| it.target == takedown.target).unwrap();
        assert_eq!((found.articles, found.entries), (1, 1), "{damage}");
        assert!(store.article(UrlHash::of(STORY)).await.unwrap().is_none());
        assert!(store.entry(*doomed.entries.first().unwrap()).await.unwrap().is_none());
        let events = trial.events().await;
        let kinds = events.iter().map(|event| event.kind);
        assert!(kinds.collect::<Vec<_>>().contains(&EventKind::ArticleWithdrawn));
    }
}

pub(super) async fn an_address_goes_with_all_that_is_known_of_it(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    trial.submit([page(STORY)]).await;
    story(&trial, STORY, 100).await;
    trial.submit([page(OTHER)]).await;
    story(&trial, OTHER, 500).await;
    trial.submit([feed(FEED)]).await;
    poll(&trial, &[STORY, OTHER]).await;

    let (takedown, doomed) =
        take_down(&trial, Scope::Address, STORY, Target::Address(STORY.into())).await;
    assert_eq!((doomed.articles.len(), doomed.entries.len(), doomed.fetches.len()), (1, 1, 1));
    assert!(store.article(UrlHash::of(STORY)).await.unwrap().is_none());
    assert!(store.article(UrlHash::of(OTHER)).await.unwrap().is_some());
    let gone = *doomed.entries.first().unwrap();
    assert!(store.entry(gone).await.unwrap().is_none());
    let task = trial.task(STORY).await;
    assert_eq!((task.status, task.last_error), (Status::Dead, Some(Code::Withdrawn)));

    // The log tells of it, and its older events name it only.
    let events = trial.events().await;
    let (article, entry) = (UrlHash::of(STORY).to_string(), gone.to_string());
    let last: Vec<_> = events[events.len() - 2..]
        .iter()
        .map(|event| (event.kind, event.subject.as_str()))
        .collect();
    assert_eq!(
        last,
        [(EventKind::ArticleWithdrawn, article.as_str()), (EventKind::EntryDeleted, &entry)]
    );
    let of = |url: &str| {
        let subject = UrlHash::of(url).to_string();
        let new = |event: &&feedmill::model::Event| {
            event.kind == EventKind::ArticleNew && event.subject == subject
        };
        events.iter().find(new).unwrap().payload.get("title").cloned()
    };
    assert_eq!((of(STORY), of(OTHER)), (None, Some("its title".into())));

    // What was served is out of the index, and waits to be erased.
    let waiting = store.erasures(None, 9).await.unwrap();
    let raw = RawRef { segment: "s1".into(), offset: 100, length: 300 };
    assert_eq!((waiting.len(), &waiting[0].raw), (1, &raw));
    assert_eq!(store.erasures(Some(raw.clone()), 9).await.unwrap(), []);
    store.erased(vec![raw]).await.unwrap();
    assert_eq!(store.erasures(None, 9).await.unwrap(), []);

    // Nobody brings it back: an operator, a feed, an archived page.
    assert_eq!(
        codes(&trial, &[STORY, "http://A.example/story?utm_source=x"]).await,
        ["withdrawn"; 2]
    );
    assert!(store.is_refused("http://a.example/story").await.unwrap());
    assert!(!store.is_refused(OTHER).await.unwrap());
    let before = trial.events().await.len();
    poll(&trial, &[STORY, OTHER]).await;
    assert_eq!(trial.events().await.len(), before);
    assert!(store.entry(gone).await.unwrap().is_none());
    let all = TaskFilter { ids: vec![task.id], limit: 1, ..TaskFilter::default() };
    assert_eq!(store.sweep(Act::Retry, all, false).await.unwrap().done, 0);
    let read = Reread {
        task: task.clone(),
        entries: vec![],
        article: Some((trial.now(), super::ready::article(task.id, STORY, "again"))),
    };
    assert_eq!(store.reread(read).await.unwrap(), 0);

    let kept = store.takedowns().await.unwrap();
    let (articles, entries, records) = (kept[0].articles, kept[0].entries, kept[0].records);
    assert_eq!((articles, entries, records), (1, 1, 1));
    assert_eq!((kept[0].by.as_str(), kept[0].why.as_str()), ("ann", "she asked"));
    assert!(kept[0].done_at.is_some() && kept[0].at == takedown.at);
}

pub(super) async fn what_is_refused_no_more_can_come_again(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    trial.submit([page(STORY)]).await;
    story(&trial, STORY, 100).await;
    trial.submit([feed(FEED)]).await;
    poll(&trial, &[STORY]).await;
    take_down(&trial, Scope::Address, STORY, Target::Address(STORY.into())).await;
    poll(&trial, &[STORY]).await;
    assert!(!store.lift_takedown(Scope::Host, STORY, "bob").await.unwrap());
    assert!(store.lift_takedown(Scope::Address, STORY, "bob").await.unwrap());
    assert!(!store.lift_takedown(Scope::Address, STORY, "bob").await.unwrap());
    let kept = store.takedowns().await.unwrap();
    assert_eq!(kept[0].lifted_by.as_deref(), Some("bob"));

    assert!(store.article(UrlHash::of(STORY)).await.unwrap().is_none(), "it stays gone");
    assert_eq!(codes(&trial, &[STORY]).await, [""; 0]);
    trial.pass(PAUSE);
    story(&trial, STORY, 700).await;
    assert!(store.article(UrlHash::of(STORY)).await.unwrap().is_some());
    let before = trial.events().await.len();
    poll(&trial, &[STORY]).await;
    let kinds: Vec<_> = trial.events().await[before..].iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::EntryNew]);

    // And be taken down again, which is another record.
    trial.pass(PAUSE);
    take_down(&trial, Scope::Address, STORY, Target::Address(STORY.into())).await;
    assert_eq!(store.takedowns().await.unwrap().len(), 2);
    assert_eq!(codes(&trial, &[STORY]).await, ["withdrawn"]);
}

pub(super) async fn what_is_under_way_is_turned_away(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    trial.submit([page(STORY), page(OTHER)]).await;
    let leases = trial.claim(2, Lane::ALL).await;
    take_down(&trial, Scope::Address, STORY, Target::Address(STORY.into())).await;
    for lease in &leases {
        // One of them leads to what is refused, by a redirect.
        let url = STORY;
        let fact = article(lease.task.id, url, "words");
        let fetches = vec![fetch(&trial, lease, 100 + lease.task.id.0.unsigned_abs())];
        let outcome = Outcome { article: Some(fact), fetches, ..then(Next::Fetched) };
        trial.commit(lease, outcome).await;
        let task = trial.task(&lease.task.url).await;
        assert_eq!((task.status, task.last_error), (Status::Dead, Some(Code::Withdrawn)));
    }
    assert!(store.article(UrlHash::of(STORY)).await.unwrap().is_none());
    assert_eq!(trial.kinds_of_events().await, [""; 0]);
    assert_eq!(store.erasures(None, 9).await.unwrap().len(), 2);
}

pub(super) async fn a_host_goes_with_all_below_it(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    let below = "https://www.a.example/below";
    for (at, url) in [STORY, below, OTHER].into_iter().enumerate() {
        trial.submit([page(url)]).await;
        story(&trial, url, 1_000 * (at as u64 + 1)).await;
    }
    let far = "https://www.a.example/never-fetched";
    trial.submit([feed(FEED)]).await;
    poll(&trial, &[far, OTHER]).await;
    let host = || Target::Host("a.example".into());
    let (_, doomed) = take_down(&trial, Scope::Host, "a.example", host()).await;
    assert_eq!((doomed.articles.len(), doomed.entries.len(), doomed.fetches.len()), (2, 1, 2));
    let withdrawn: Vec<_> = trial
        .events()
        .await
        .into_iter()
        .filter(|event| event.kind == EventKind::ArticleWithdrawn)
        .map(|event| event.payload["url"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(withdrawn.len(), 3, "also what only a feed had: {withdrawn:?}");
    assert!(withdrawn.contains(&far.to_owned()));
    assert_eq!(
        codes(&trial, &["https://b.a.example/x", "https://a.example/", "https://ba.example/"])
            .await,
        ["withdrawn"; 2]
    );
    assert!(store.article(UrlHash::of(OTHER)).await.unwrap().is_some());
    let again = store.doomed(host()).await.unwrap();
    assert!(again.articles.is_empty() && again.entries.is_empty() && again.fetches.is_empty());
}

pub(super) async fn a_source_goes_with_all_that_it_owns(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    let source = trial.source("one", &[FEED]).await;
    poll(&trial, &[]).await;
    trial.submit([owned_by(&source, page(STORY))]).await;
    story(&trial, STORY, 100).await;
    trial.submit([page(OTHER)]).await;
    story(&trial, OTHER, 500).await;
    poll(&trial, &["https://d.example/linked"]).await;
    trial.disable("one").await;
    let target = Target::Source(source.id);
    let (_, doomed) = take_down(&trial, Scope::Source, &source.uuid, target).await;
    assert_eq!((doomed.articles.len(), doomed.entries.len()), (1, 1));
    assert!(store.article(UrlHash::of(STORY)).await.unwrap().is_none());
    assert!(store.article(UrlHash::of(OTHER)).await.unwrap().is_some());
    assert_eq!(codes(&trial, &[STORY, FEED]).await, ["withdrawn"; 2]);
    let refused = store.set_enabled("one", None).await;
    assert!(matches!(refused, Err(feedmill::store::SourceError::Withdrawn(_))));
    assert!(store.lift_takedown(Scope::Source, &source.uuid, "ann").await.unwrap());
    trial.enable("one").await;
    poll(&trial, &["https://d.example/linked"]).await;
}
