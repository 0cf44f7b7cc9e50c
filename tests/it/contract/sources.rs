//! Sources and the tasks they own.

use std::time::Duration;

use feedmill::frontier::TaskFilter;
use feedmill::model::{
    Access, Admission, Ask, Code, EventKind, FeedFact, FeedState, Health, IngestionMode, Kind,
    Lane, NewSource, NewTask, Next, Origin, Outcome, PollPolicy, Polling, RefetchPolicy, Secret,
    SourceChange, Status, TaskId, Website,
};
use feedmill::store::{ArticleFilter, ChannelState, SourceError};
use feedmill_formats::article::Selectors;

use super::Open;
use super::ready::article;
use super::trial::{DAY, PAUSE, allow_all, begin, owned_by, page, then};

const FEED: &str = "https://a.example/feed";

pub(super) async fn names_are_unique(open: Open) {
    let trial = begin(open).await;
    let first = trial.source("a", &[FEED]).await;
    let again = trial.store.add_source(first.spec.clone()).await;
    assert!(matches!(again, Err(SourceError::NameTaken(name)) if name == "a"));
    let nobody = trial.store.set_enabled("b", None).await;
    assert!(matches!(nobody, Err(SourceError::Unknown(name)) if name == "b"));
    let (by_id, channels) = trial.store.source(&first.uuid).await.unwrap();
    assert_eq!((by_id, channels.len()), (first, 1));
}

pub(super) async fn how_a_source_is_asked_can_be_changed(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    assert!(source.spec.access.is_empty());
    let access = Access {
        cookie: Some(Secret::from("id=hunter2".to_owned())),
        bind: vec!["192.0.2.1".parse().unwrap()],
        ..Access::default()
    };
    let changed = trial.store.respecify("a", SourceChange::Access(access.clone())).await.unwrap();
    assert_eq!(changed.spec.access, access);
    let lease = trial.take().await;
    let cookie = lease.source.unwrap().spec.access.cookie.clone().unwrap();
    assert_eq!(cookie.expose(), "id=hunter2", "the secret itself comes back");
    let polling = Polling {
        interval: None,
        policy: Some(PollPolicy::Ewma),
        min: Some(Duration::from_mins(1)),
        max: Some(Duration::from_hours(1)),
    };
    let again = Some(RefetchPolicy::Interval);
    let paced = trial.store.respecify("a", SourceChange::Pace(polling, again)).await.unwrap().spec;
    assert_eq!((paced.min_interval, paced.max_interval), (polling.min, polling.max));
    assert_eq!((paced.poll_interval, paced.poll_policy), (None, polling.policy));
    assert_eq!(paced.refetch, again);
    let nothing = SourceChange::Pace(Polling::default(), None);
    let paced = trial.store.respecify("a", nothing).await.unwrap().spec;
    assert_eq!((paced.poll_policy, paced.max_interval, paced.refetch), (None, None, None));
    assert!(paced.access.cookie.is_some(), "the rest stays");
    let selectors: Selectors = serde_json::from_str(r#"{"body": ".text, main"}"#).unwrap();
    let change = SourceChange::Selectors(Box::new(selectors.clone()));
    trial.store.respecify("a", change).await.unwrap();
    let (kept, _) = trial.store.source("a").await.unwrap();
    assert_eq!((kept.spec.selectors, kept.spec.poll_policy), (selectors, None));
    let nobody = trial.store.respecify("b", SourceChange::Access(access)).await;
    assert!(matches!(nobody, Err(SourceError::Unknown(name)) if name == "b"));
}

pub(super) async fn what_a_source_says_of_its_channels_can_be_changed(open: Open) {
    const SITEMAP: &str = "https://b.example/sitemap.xml";
    const NEW: &str = "https://c.example/feed";
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED, NEW]).await;
    let heir = trial.source("heir", &[NEW]).await;
    trial.end(&trial.take().await, Next::Again { at: trial.now().after(DAY) }).await;
    let polled = trial.task(FEED).await;
    let was = trial.store.source("a").await.unwrap().0.spec;
    let mut now = was.clone();
    now.name = "b".into();
    now.url = "https://a.example/home".into();
    now.priority = 9;
    now.feed_urls = vec![FEED.into()];
    now.sitemap_urls = vec![SITEMAP.into()];
    let whole = |was: &NewSource, now: &NewSource| SourceChange::Whole {
        was: Box::new(was.clone()),
        now: Box::new(now.clone()),
    };
    let changed = trial.store.respecify("a", whole(&was, &now)).await.unwrap();
    assert_eq!((&changed.spec, changed.id), (&now, source.id));
    assert_eq!(trial.store.source("b").await.unwrap().0, changed);
    let kept = trial.task(FEED).await;
    assert_eq!(
        (kept.next_fetch_at, kept.priority, kept.source),
        (polled.next_fetch_at, 9, Some(source.id))
    );
    assert_eq!(trial.task(NEW).await.source, Some(heir.id), "another source still names it");
    let channels = trial.store.source("b").await.unwrap().1;
    let urls: Vec<_> = channels.iter().map(|one| one.url.as_str()).collect();
    assert_eq!(urls, [FEED, SITEMAP]);

    let late = trial.store.respecify("b", whole(&was, &now)).await;
    assert!(matches!(late, Err(SourceError::Changed(name)) if name == "b"));
    let taken = NewSource { name: "heir".into(), ..now.clone() };
    let taken = trial.store.respecify("b", whole(&now, &taken)).await;
    assert!(matches!(taken, Err(SourceError::NameTaken(name)) if name == "heir"));

    let none = NewSource { feed_urls: vec![], sitemap_urls: vec![], ..now.clone() };
    trial.store.respecify("b", whole(&now, &none)).await.unwrap();
    for url in [FEED, SITEMAP] {
        let task = trial.task(url).await;
        assert_eq!((task.status, task.source), (Status::Parked, None), "{url}");
    }
    trial.enable("b").await;
    assert_eq!(trial.task(FEED).await.status, Status::Parked, "it is no longer its own");
    trial.store.respecify("b", whole(&none, &now)).await.unwrap();
    let again = trial.task(FEED).await;
    assert_eq!((again.status, again.source), (Status::Pending, Some(source.id)));
    assert_eq!(again.id, polled.id, "what is known of it stays");
}

pub(super) async fn a_source_that_is_only_walked_is_not_polled(open: Open) {
    let trial = begin(open).await;
    let mode = |ingestion_mode| NewSource {
        feed_urls: vec![FEED.to_owned()],
        ingestion_mode,
        ..NewSource::new("a", "https://a.example/")
    };
    let kinds = || async {
        let some = TaskFilter { limit: 9, ..TaskFilter::default() };
        let all = trial.store.list(some).await.unwrap();
        let live = all.into_iter().filter(|task| task.status == Status::Pending);
        let mut kinds: Vec<Kind> = live.map(|task| task.kind).collect();
        kinds.sort_by_key(|kind| kind.to_string());
        kinds
    };
    trial.store.add_source(mode(IngestionMode::Spider)).await.unwrap();
    assert_eq!(kinds().await, [Kind::Listing]);
    for (now, after) in [
        (IngestionMode::Both, &[Kind::Feed, Kind::Listing][..]),
        (IngestionMode::Feed, &[Kind::Feed]),
        (IngestionMode::Spider, &[Kind::Listing]),
    ] {
        let (source, _) = trial.store.source("a").await.unwrap();
        let change = SourceChange::Whole { was: Box::new(source.spec), now: Box::new(mode(now)) };
        trial.store.respecify("a", change).await.unwrap();
        assert_eq!(kinds().await, after, "{now:?}");
    }
}

pub(super) async fn what_an_operator_names_goes_before_what_a_walk_came_upon(open: Open) {
    const PAGE: &str = "https://a.example/latest";
    let trial = begin(open).await;
    let walker = NewSource {
        ingestion_mode: IngestionMode::Spider,
        ..NewSource::new("walker", "https://a.example/")
    };
    let walker = trial.store.add_source(walker).await.unwrap();
    let walked = NewTask { kind: Kind::Listing, depth: 1, ..page(PAGE) };
    trial.submit([NewTask { parent: Some(TaskId(1)), ..owned_by(&walker, walked) }]).await;
    let list = NewSource {
        website: Some(Website::List {
            article_selector: "a".into(),
            pagination_selector: None,
            max_pages: 1,
        }),
        ingestion_mode: IngestionMode::Spider,
        ..NewSource::new("list", PAGE)
    };
    let list = trial.store.add_source(list).await.unwrap();
    let task = trial.task(PAGE).await;
    assert_eq!((task.source, task.kind, task.depth), (Some(list.id), Kind::Listing, 0));
    let (_, channels) = trial.store.source("list").await.unwrap();
    assert_eq!(channels.len(), 1);
    // Who comes later and names the same waits until the first one goes.
    let other = NewSource { name: "other".into(), ..list.spec.clone() };
    let other = trial.store.add_source(other).await.unwrap();
    assert_eq!(trial.task(PAGE).await.source, Some(list.id));
    trial.store.remove_source("walker").await.unwrap();
    trial.store.remove_source("list").await.unwrap();
    assert_eq!(trial.task(PAGE).await.source, Some(other.id));
}

pub(super) async fn what_two_sources_share_carries_both_labels(open: Open) {
    let trial = begin(open).await;
    let labelled = |name: &str| NewSource {
        feed_urls: vec![FEED.to_owned()],
        category: Some(name.to_owned()),
        ..NewSource::new(name, "https://a.example/")
    };
    let first = trial.store.add_source(labelled("world")).await.unwrap();
    trial.store.add_source(labelled("sport")).await.unwrap();
    let url = "https://a.example/1";
    let channel = trial.task(FEED).await.id;
    let told = NewTask { origin: Origin::Feed, parent: Some(channel), ..page(url) };
    trial.submit([owned_by(&first, told)]).await;
    let names = || async {
        let told = trial.store.references(vec![trial.task(url).await.id]).await.unwrap();
        told.into_iter().filter_map(|one| one.category).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["world", "sport"]);
    trial.disable("sport").await;
    assert_eq!(names().await, ["world"], "who is not followed is not told");
    trial.enable("sport").await;
    // What the first one leaves behind is the other's.
    let lease = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
    let mut fact = article(lease.task.id, url, "what it says");
    fact.source = Some(first.id);
    let id = fact.id;
    trial.commit(&lease, Outcome { article: Some(fact), ..then(Next::Fetched) }).await;
    let second = trial.store.source("sport").await.unwrap().0;
    trial.submit([owned_by(&second, page(url))]).await;
    trial.store.remove_source("world").await.unwrap();
    let (row, _) = trial.store.article(id).await.unwrap().unwrap();
    assert_eq!(row.source, Some(second.id));
}

pub(super) async fn a_source_may_come_in_disabled_or_later(open: Open) {
    let trial = begin(open).await;
    let spec = |name: &str| NewSource {
        feed_urls: vec![format!("https://{name}.example/feed")],
        ..NewSource::new(name, format!("https://{name}.example/"))
    };
    let disabled = Some("until they answer".to_owned());
    let off = Admission { disabled: disabled.clone(), ..spec("off").into() };
    let off = trial.store.admit_source(off).await.unwrap();
    assert_eq!((off.enabled_at, off.disabled_at), (None, Some(trial.now())));
    assert_eq!(off.disable_reason, disabled);
    let later = Admission { first_poll: Some(trial.now().after(DAY)), ..spec("later").into() };
    trial.store.admit_source(later).await.unwrap();
    assert!(trial.idle().await);
    trial.pass(DAY);
    assert_eq!(trial.take().await.source.unwrap().spec.name, "later");
    trial.enable("off").await;
    let (on, _) = trial.store.source("off").await.unwrap();
    assert_eq!((on.enabled_at, on.disabled_at), (Some(trial.now()), None));
    assert_eq!(trial.take().await.source.unwrap().spec.name, "off");
}

pub(super) async fn disabling_parks_and_enabling_resumes(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    trial.submit([owned_by(&source, page("https://b.example/1"))]).await;
    trial.disable("a").await;
    assert_eq!(trial.store.stats().await.unwrap().total.parked, 2);
    assert!(trial.idle().await);
    assert_eq!(trial.store.next_due(Lane::ALL).await.unwrap(), None);
    trial.pass(DAY);
    trial.enable("a").await;
    assert_eq!(trial.store.stats().await.unwrap().total.parked, 0);
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 2);
}

pub(super) async fn an_heir_takes_over(open: Open) {
    let trial = begin(open).await;
    let first = trial.source("first", &[FEED]).await;
    let second = trial.source("second", &[FEED]).await;
    assert_eq!(trial.task(FEED).await.source, Some(first.id));
    trial.disable("first").await;
    let task = trial.task(FEED).await;
    assert_eq!((task.status, task.source), (Status::Pending, Some(second.id)));
    let lease = trial.take().await;
    assert_eq!(lease.source.unwrap().spec.name, "second");
}

pub(super) async fn a_parked_task_goes_to_the_first_source_that_is_enabled(open: Open) {
    let trial = begin(open).await;
    trial.source("first", &[FEED]).await;
    let second = trial.source("second", &[FEED]).await;
    trial.disable("second").await;
    trial.disable("first").await;
    assert_eq!(trial.task(FEED).await.status, Status::Parked);
    trial.enable("second").await;
    let task = trial.task(FEED).await;
    assert_eq!((task.status, task.source), (Status::Pending, Some(second.id)));
    assert_eq!(trial.take().await.task.url, FEED);
}

pub(super) async fn a_parked_task_rises_with_a_new_source(open: Open) {
    let trial = begin(open).await;
    trial.source("old", &[FEED]).await;
    trial.disable("old").await;
    let new = trial.source("new", &[FEED]).await;
    let task = trial.task(FEED).await;
    assert_eq!((task.status, task.source), (Status::Pending, Some(new.id)));
    assert_eq!(trial.take().await.source.unwrap().spec.name, "new");
}

pub(super) async fn what_a_disabled_source_gives_is_parked(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    let lease = trial.take().await;
    trial.disable("a").await;
    // The poll was under way: what it found belongs to nobody who is followed.
    let outcome = Outcome {
        discovered: vec![owned_by(&source, page("https://b.example/1"))],
        ..then(Next::Again { at: trial.now() })
    };
    trial.commit(&lease, outcome).await;
    assert_eq!(trial.task("https://b.example/1").await.status, Status::Parked);
    trial.submit([owned_by(&source, page("https://b.example/1"))]).await;
    assert_eq!(trial.task("https://b.example/1").await.status, Status::Parked);
    trial.pass(PAUSE);
    assert!(trial.idle().await);
    trial.enable("a").await;
    assert_eq!(trial.claim(9, Lane::ALL).await.len(), 2);
}

pub(super) async fn a_task_under_way_is_parked_when_it_comes_back(open: Open) {
    for removed in [false, true] {
        let trial = begin(open).await;
        trial.source("a", &[FEED]).await;
        let lease = trial.take().await;
        if removed {
            trial.store.remove_source("a").await.unwrap();
        } else {
            trial.disable("a").await;
        }
        trial.end(&lease, Next::Again { at: trial.now() }).await;
        assert_eq!(trial.task(FEED).await.status, Status::Parked);
        trial.pass(DAY);
        assert!(trial.idle().await);
    }
}

pub(super) async fn robots_is_nobodys_task(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[]).await;
    trial.submit([owned_by(&source, page("https://a.example/1"))]).await;
    let robots = trial.store.claim(1, Lane::ALL).await.unwrap().pop().unwrap();
    assert_eq!(robots.task.kind, Kind::Robots);
    assert_eq!(robots.source.as_ref().unwrap().spec.name, "a", "its headers apply");
    trial.commit(&robots, allow_all(&robots)).await;
    trial.disable("a").await;
    trial.enable("a").await;
    let again = trial.store.claim(9, Lane::ALL).await.unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].task.kind, Kind::Article, "robots.txt is fresh: nobody asked for it");
    let of_source = TaskFilter { source: Some("a".into()), limit: 9, ..TaskFilter::default() };
    assert_eq!(trial.store.list(of_source).await.unwrap().len(), 1);
}

pub(super) async fn removing_a_source_keeps_its_articles(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    let url = "https://a.example/1";
    trial.submit([owned_by(&source, page(url))]).await;
    let lease = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
    let mut fact = article(lease.task.id, url, "what it says");
    fact.source = Some(source.id);
    let id = fact.id;
    trial.commit(&lease, Outcome { article: Some(fact), ..then(Next::Fetched) }).await;
    let by_source = |limit| ArticleFilter { source: Some("a".into()), limit, ..Default::default() };
    assert_eq!(trial.store.articles(by_source(9)).await.unwrap().len(), 1);

    trial.store.remove_source("a").await.unwrap();
    assert!(trial.store.sources().await.unwrap().is_empty());
    assert!(trial.store.articles(by_source(9)).await.unwrap().is_empty());
    let (row, text) = trial.store.article(id).await.unwrap().unwrap();
    assert_eq!((row.source, text.as_str()), (None, "what it says"));
    assert_eq!(trial.task(FEED).await.status, Status::Parked);
    trial.pass(PAUSE);
    assert!(trial.idle().await);
    trial.source("a", &[FEED]).await;
    assert_eq!(trial.take().await.task.url, FEED, "it can be followed again");
}

pub(super) async fn articles_are_taken_back_with_their_source(open: Open) {
    let trial = begin(open).await;
    let (source, other) = (trial.source("a", &[FEED]).await, trial.source("b", &[]).await);
    let shared = "https://b.example/shared";
    let mut ids = Vec::new();
    for (url, text) in [
        ("https://a.example/1", "what it says"),
        ("https://c.example/copy", "what it says"),
        (shared, "what both gave"),
    ] {
        let owner = if url.contains("c.example") { &other } else { &source };
        trial.submit([owned_by(owner, page(url))]).await;
        if url == shared {
            trial.submit([owned_by(&other, page(url))]).await;
        }
        let lease = trial.claim(1, &[Lane::Page]).await.pop().unwrap();
        let mut fact = article(lease.task.id, url, text);
        fact.source = Some(owner.id);
        ids.push(fact.id);
        trial.commit(&lease, Outcome { article: Some(fact), ..then(Next::Fetched) }).await;
    }
    let copy = trial.store.article(ids[1]).await.unwrap().unwrap().0;
    assert_eq!(copy.duplicate_of, Some(ids[0]));

    assert_eq!(trial.store.withdraw("a", 9).await.unwrap(), 1);
    assert_eq!(trial.store.withdraw("a", 9).await.unwrap(), 0);
    assert!(trial.store.article(ids[0]).await.unwrap().is_none());
    let copy = trial.store.article(ids[1]).await.unwrap().unwrap().0;
    assert_eq!((copy.duplicate_of, copy.near), (None, None), "it stands alone now");
    assert!(trial.store.article(ids[2]).await.unwrap().is_some(), "somebody else gave it too");
    let events = trial.store.events_after(0, 99).await.unwrap();
    let gone: Vec<_> =
        events.iter().filter(|event| event.kind == EventKind::ArticleWithdrawn).collect();
    assert_eq!(gone.len(), 1);
    assert_eq!(
        (&gone[0].subject, &gone[0].payload["url"]),
        (&ids[0].to_string(), &"https://a.example/1".into())
    );
    let nobody = trial.store.withdraw("nobody", 9).await;
    assert!(matches!(nobody, Err(SourceError::Unknown(_))));
}

pub(super) async fn what_is_set_at_run_time_is_kept_until_it_is_forgotten(open: Open) {
    let trial = begin(open).await;
    let store = &trial.store;
    assert_eq!(store.settings().await.unwrap(), []);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert!(!store.keep_setting("hosts.delay", Some("1s".into())).await.unwrap());
    assert!(store.keep_setting("hosts.delay", Some("2s".into())).await.unwrap());
    assert!(!store.keep_setting("fetch.workers", Some("7".into())).await.unwrap());
    let kept = store.settings().await.unwrap();
    assert_eq!(kept, [pair("fetch.workers", "7"), pair("hosts.delay", "2s")]);
    assert!(store.keep_setting("hosts.delay", None).await.unwrap());
    assert!(!store.keep_setting("hosts.delay", None).await.unwrap());
    assert_eq!(store.settings().await.unwrap(), [pair("fetch.workers", "7")]);
}

pub(super) async fn a_source_that_is_added_again_gets_its_pages_back(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED]).await;
    let lease = trial.take().await;
    let found =
        NewTask { parent: Some(lease.task.id), ..owned_by(&source, page("https://b.example/1")) };
    let outcome =
        Outcome { discovered: vec![found], ..then(Next::Again { at: trial.now().after(DAY) }) };
    trial.commit(&lease, outcome).await;
    trial.store.remove_source("a").await.unwrap();
    assert_eq!(trial.task("https://b.example/1").await.status, Status::Parked);
    trial.source("again", &[FEED]).await;
    let task = trial.task("https://b.example/1").await;
    assert_eq!(task.status, Status::Pending);
    assert_eq!(trial.task(FEED).await.status, Status::Pending);
}

pub(super) async fn a_channel_that_was_given_up_returns_on_the_operators_word(open: Open) {
    let trial = begin(open).await;
    trial.source("a", &[FEED]).await;
    trial.end(&trial.take().await, Next::Dead { code: Code::Gone }).await;
    trial.pass(DAY);
    assert!(trial.idle().await);
    trial.enable("a").await;
    assert_eq!(trial.kinds_of_events().await, ["source.enabled"]);
    trial.end(&trial.take().await, Next::Dead { code: Code::Gone }).await;
    trial.store.remove_source("a").await.unwrap();
    trial.source("b", &[FEED]).await;
    trial.pass(PAUSE);
    assert_eq!(trial.take().await.task.url, FEED);
}

pub(super) async fn a_channel_that_is_only_probed_is_asked_on_the_operators_word(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[FEED, "https://b.example/feed"]).await;
    for lease in trial.claim(2, Lane::ALL).await {
        let disabled = lease.task.url == FEED;
        let state = FeedState {
            failures: 3,
            health: Health::Failing,
            health_since: Some(trial.now()),
            disabled_since: disabled.then_some(trial.now()),
            ..FeedState::default()
        };
        let fact =
            FeedFact { based_on: 0, state, items: None, new_items: 0, figures: Default::default() };
        let next = Next::Retry { at: trial.now().after(2 * DAY), code: Code::NotFound };
        trial.commit(&lease, Outcome { feed: Some(fact), ..then(next) }).await;
    }
    let since = trial.now();
    let shown = |channels: Vec<ChannelState>| -> Vec<_> {
        channels.iter().map(|one| (one.source, one.failures, one.disabled_since)).collect()
    };
    let expected = vec![(source.id, 3, Some(since)), (source.id, 3, None)];
    assert_eq!(shown(trial.store.source("a").await.unwrap().1), expected);
    assert_eq!(shown(trial.store.channels().await.unwrap()), expected);
    trial.pass(PAUSE);
    assert!(trial.idle().await);

    trial.enable("a").await;
    let lease = trial.take().await;
    assert_eq!(lease.task.url, FEED);
    assert!(trial.idle().await, "the other one only waits as its failures say");
    let known = trial.store.lookup(Ask { feed: Some(lease.task.id), ..Ask::default() }).await;
    let feed = known.unwrap().feed;
    assert_eq!((feed.disabled_since, feed.failures, feed.version), (None, 0, 2));
    assert_eq!(trial.kinds_of_events().await, ["source.enabled"]);
    trial.enable("a").await;
    assert_eq!(trial.kinds_of_events().await, ["source.enabled"], "there was nothing to take back");
}

pub(super) async fn what_nobody_owned_belongs_to_the_first_source_that_gives_it(open: Open) {
    let trial = begin(open).await;
    let urls = ["https://b.example/1", "https://c.example/1"];
    trial.submit(urls.map(page)).await;
    let done = trial.take().await;
    trial.end(&done, Next::Fetched).await;
    let source = trial.source("a", &[FEED]).await;
    trial.submit(urls.map(|url| owned_by(&source, page(url)))).await;
    for url in urls {
        assert_eq!(trial.task(url).await.source, Some(source.id), "{url}");
    }
}
