//! Who told of an address, and what the spider and lists have to know.

use feedmill::model::{
    Ask, FeedFact, FeedState, Kind, NewSource, NewTask, Next, Origin, Outcome, Outside, TaskId,
    UrlHash,
};

use super::Open;
use super::trial::{DAY, PAUSE, Trial, a, begin, feed, owned_by, page, then};

const STORY: &str = "https://a.example/story";

fn told(task: NewTask, origin: Origin, parent: i64) -> NewTask {
    NewTask { origin, parent: Some(TaskId(parent)), ..task }
}

async fn references(trial: &Trial) -> Vec<(Option<String>, &'static str, Option<String>, u64)> {
    let start: feedmill::model::Ts = "2026-11-15T12:00:00Z".parse().unwrap();
    let told = trial.store.references(vec![trial.task(STORY).await.id]).await.unwrap();
    let days = |at: feedmill::model::Ts| at.since(start).as_secs() / DAY.as_secs();
    told.into_iter()
        .map(|one| (one.source, one.origin.as_str(), one.channel, days(one.first_seen)))
        .collect()
}

pub(super) async fn every_channel_that_told_of_an_address_is_kept_with_its_first_time(open: Open) {
    let trial = begin(open).await;
    let (one, two) = (
        trial.source("one", &["https://a.example/feed"]).await,
        NewSource {
            category: Some("world".into()),
            ..NewSource::new("two", "https://two.example/")
        },
    );
    let two = trial.store.add_source(two).await.unwrap();
    let channel = trial.task("https://a.example/feed").await.id.0;
    trial.submit([a(Kind::Sitemap, "https://a.example/sitemap.xml")]).await;
    let sitemap = trial.task("https://a.example/sitemap.xml").await.id.0;
    let by_feed = told(owned_by(&one, page(STORY)), Origin::Feed, channel);
    let by_sitemap = told(owned_by(&one, page(STORY)), Origin::Sitemap, sitemap);
    let by_walk = |page_id| told(owned_by(&two, page(STORY)), Origin::Spider, page_id);
    trial.submit([by_feed.clone()]).await;
    for again in [by_feed, by_sitemap, by_walk(71), by_walk(72)] {
        trial.pass(DAY);
        trial.submit([again.clone()]).await;
        trial.submit([again]).await;
    }
    let (feed, site) = ("https://a.example/feed", "https://a.example/sitemap.xml");
    let expected = [
        (Some("one".to_owned()), "feed", Some(feed.to_owned()), 0),
        (Some("one".to_owned()), "sitemap", Some(site.to_owned()), 2),
        (Some("two".to_owned()), "spider", Some("https://two.example/".to_owned()), 3),
    ];
    assert_eq!(references(&trial).await, expected, "all pages of a walk are one channel");
    let id = trial.task(STORY).await.id;
    let told = trial.store.references(vec![id]).await.unwrap();
    assert_eq!(told[2].category.as_deref(), Some("world"));

    // The owner goes: what it told stays known, and so does the time.
    trial.disable("one").await;
    let mut kept = references(&trial).await;
    kept.sort();
    assert!(expected.iter().all(|one| kept.contains(one)), "{kept:?}");
    trial.store.remove_source("one").await.unwrap();
    let names: Vec<_> = references(&trial).await.into_iter().filter_map(|one| one.0).collect();
    assert_eq!(names.iter().filter(|name| *name == "two").count(), names.len());
}

pub(super) async fn one_batch_may_tell_of_an_address_many_times(open: Open) {
    let trial = begin(open).await;
    let one = trial.source("one", &[]).await;
    let two = trial.source("two", &[]).await;
    trial
        .submit([
            told(owned_by(&one, page(STORY)), Origin::Feed, 11),
            told(owned_by(&one, page(STORY)), Origin::Feed, 11),
            told(owned_by(&one, page(STORY)), Origin::Feed, 12),
            told(owned_by(&two, page(STORY)), Origin::Feed, 13),
            page(STORY),
        ])
        .await;
    let told = references(&trial).await;
    let mut names: Vec<_> = told.iter().filter_map(|one| one.0.as_deref()).collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "one", "two"]);
}

pub(super) async fn what_lists_and_the_spider_ask_is_answered(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("one", &[]).await;
    let known = ["https://a.example/1", "https://b.example/2"];
    trial.submit(known.map(page)).await;
    trial.submit([feed("https://a.example/3")]).await;
    let asked = [
        "https://a.example/1",
        "https://b.example/2",
        "https://a.example/2",
        "https://a.example/3",
    ];
    let pages = asked.map(|url| (url.split('/').nth(2).unwrap().to_owned(), UrlHash::of(url)));
    let ask = Ask { pages: pages.into(), ..Ask::default() };
    let found = trial.store.lookup(ask).await.unwrap().pages;
    assert_eq!(found, known.map(UrlHash::of).into(), "by host and in the lane of pages");

    let listing = |depth, url| NewTask { depth, ..owned_by(&source, a(Kind::Listing, url)) };
    trial.submit([listing(0, "https://c.example/"), listing(1, "https://d.example/2")]).await;
    for _ in 0..5 {
        let lease = trial.take().await;
        let listed = lease.task.kind == Kind::Listing;
        let state = FeedState::default();
        let fact = FeedFact {
            based_on: 0,
            state,
            items: Some(12),
            new_items: 5,
            figures: Default::default(),
        };
        let outside =
            |links| Outside { host: "x.example".into(), url: "https://x.example/1".into(), links };
        let outcome = Outcome {
            feed: listed.then_some(fact),
            outside: if listed { vec![outside(2)] } else { Vec::new() },
            ..then(Next::Again { at: trial.now().after(DAY) })
        };
        trial.commit(&lease, outcome).await;
        trial.pass(PAUSE);
    }
    let id = source.id;
    let ask = Ask { walked_by: Some(id), listed_before: Some((id, 1)), ..Ask::default() };
    let known = trial.store.lookup(ask).await.unwrap();
    assert_eq!((known.walked, known.listed), (2, 12));
    let outside = trial.store.outside(id).await.unwrap();
    assert_eq!((outside.len(), outside[0].host.as_str(), outside[0].links), (1, "x.example", 4));
    assert!(outside[0].first_seen < outside[0].last_seen);
    let (_, channels) = trial.store.source("one").await.unwrap();
    assert_eq!(channels.len(), 1, "of the pages that are walked the home page is the channel");
    assert_eq!((channels[0].kind, channels[0].items), (Kind::Listing, 12));
    trial.store.remove_source("one").await.unwrap();
    assert!(trial.store.outside(id).await.unwrap().is_empty());
}

pub(super) async fn a_page_that_leads_on_rises_by_need_and_else_after_a_week(open: Open) {
    let trial = begin(open).await;
    let list = a(Kind::Listing, "https://a.example/list");
    trial.submit([list.clone()]).await;
    let lease = trial.take().await;
    trial.end(&lease, Next::Fetched).await;
    trial.pass(2 * DAY);
    assert_eq!(trial.submit([list.clone()]).await.raised, 0);
    trial.pass(6 * DAY);
    assert_eq!(trial.submit([list.clone()]).await.raised, 1);
    let lease = trial.take().await;
    trial.end(&lease, Next::Fetched).await;
    trial.pass(PAUSE);
    let again = feedmill::model::Refetch {
        changed: trial.now(),
        after: std::time::Duration::ZERO,
        most: u32::MAX,
    };
    assert_eq!(trial.submit([NewTask { refetch: Some(again), ..list }]).await.raised, 1);
}
