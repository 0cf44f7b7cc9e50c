//! From home pages to channels: what is found, at what price, and across kills.

use std::collections::BTreeMap;
use std::time::Instant;

use feedmill::model::{Kind, NewSource};
use feedmill::store::Store;
use feedmill_newsroom::{Channel, Front, Setup};

use crate::kill::{binary, engine, moments, terminate};
use crate::support::{LIMIT, World};

const FRONTS: [Front; 6] =
    [Front::Alternate, Front::Header, Front::Anchor, Front::Plain, Front::WordPress, Front::Silent];

/// A newsroom with all kinds of home pages, imported as a spreadsheet that names nothing else.
async fn home_pages(publishers: usize) -> World {
    let world = World::with(publishers, |setup| Setup {
        history: 6,
        fronts: FRONTS.to_vec(),
        sitemap_only_share: 0.2,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await;
    let rows = world.newsroom.publishers().iter();
    let rows = rows.map(|publisher| format!("{},{}\n", publisher.host, publisher.url("/")));
    let list = world.dir().join("publishers.csv");
    std::fs::write(&list, format!("Name,URL\n{}", rows.collect::<String>())).unwrap();
    let mut import = binary();
    import.args(["source", "import"]).arg(&list).arg("--data-dir").arg(&world.config.data_dir);
    import.env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string());
    let output = tokio::task::spawn_blocking(move || import.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world
}

/// How many searches are over.
async fn over(store: &dyn Store) -> usize {
    let searches = store.discoveries().await.unwrap();
    searches.iter().filter(|(_, search)| search.ended.is_some()).count()
}

/// Feeds and news sitemaps that the newsroom has, and how many of them are followed.
async fn judge(world: &World) -> (usize, usize) {
    let sources = world.store.sources().await.unwrap();
    let specs: BTreeMap<_, _> =
        sources.into_iter().map(|source| (source.spec.name.clone(), source.spec)).collect();
    let (mut there, mut found) = (0, 0);
    for publisher in world.newsroom.publishers() {
        let spec = &specs[&publisher.host];
        if let Some(feed) = publisher.feed_url() {
            there += 1;
            found += usize::from(spec.feed_urls == [feed]);
        }
        if publisher.has(Channel::NewsSitemap) {
            there += 1;
            found += usize::from(spec.sitemap_urls.iter().any(|url| url.contains("news")));
        }
        if publisher.channels.is_empty() {
            assert!(spec.feed_urls.is_empty() && spec.sitemap_urls.is_empty(), "{spec:?}");
        } else {
            let any = !spec.feed_urls.is_empty() || !spec.sitemap_urls.is_empty();
            assert!(any, "nothing of {publisher:?}");
        }
    }
    (there, found)
}

#[tokio::test(flavor = "multi_thread")]
async fn home_pages_become_channels_and_the_answer_that_shows_a_feed_is_its_first_poll() {
    let world = home_pages(18).await;
    world.run_once().await;
    assert_eq!(over(&*world.store).await, 18);
    let (there, found) = judge(&world).await;
    assert_eq!(there, found);
    let log = world.newsroom.log();
    for publisher in world.newsroom.publishers() {
        let Some(feed) = publisher.feed_url() else { continue };
        let asked = |url: &str| {
            let of_it = log.iter().filter(|it| format!("http://{}{}", it.host, it.path) == url);
            of_it.map(|it| it.began).collect::<Vec<_>>()
        };
        assert_eq!(asked(&publisher.url("/")).len(), 1, "the home page of {}", publisher.host);
        let polls = asked(&feed);
        let first = polls.windows(2).next().map_or(i64::MAX, |two| two[1] - two[0]);
        assert!(first >= 5 * 60_000, "{feed} was asked for again after {first} ms");
        assert_eq!(world.task(&feed).await.kind, Kind::Feed);
    }
    let published = world.newsroom.published(i64::MAX).into_iter();
    let published = published.filter(|story| !story.reachable_by.is_empty()).count() as u64;
    let report = world.report().await;
    assert_eq!((report.articles, report.impolite_requests), (published, 0), "{report:#?}");
    let (source, _) = world.store.source(&world.newsroom.publishers()[5].host).await.unwrap();
    let searches = world.store.discoveries().await.unwrap();
    let (_, search) = searches.iter().find(|(id, _)| *id == source.id).unwrap();
    assert!(search.found.is_empty() && search.tried.len() >= 10, "{search:#?}");
    assert!(search.tried.iter().all(|tried| !tried.why.is_empty()), "{search:#?}");
    let home = world.task(&source.spec.url).await;
    let wait = home.next_fetch_at.since(world.clock.now()).as_secs() / 3_600;
    assert!((160..=168).contains(&wait), "nothing was found, so it is tried again in a week");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_survives_kills_and_disturbs_nobody() {
    let world = home_pages(60).await;
    for moment in moments().take(4) {
        let mut child = engine(&world);
        tokio::time::sleep(moment / 2).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut child = engine(&world);
    let began = Instant::now();
    while over(&*world.store).await < 60 {
        assert!(began.elapsed() < LIMIT, "the searches do not come to their end");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(terminate(&mut child));
    let (there, found) = judge(&world).await;
    assert!(found * 100 >= there * 95, "{found} of {there}");
    let log = world.newsroom.log();
    assert!(log.iter().all(|request| request.status != 429));
    let delay = i64::try_from(world.config.hosts.delay.as_millis()).unwrap();
    assert_eq!(world.newsroom.impolite(delay), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_is_followed_already_is_found_without_a_request() {
    let world = World::with(1, |setup| Setup {
        history: 3,
        sitemap_only_share: 0.0,
        publish_until: Some(setup.starts_at),
        ..setup
    })
    .await;
    world.follow().await;
    world.run_once().await;
    let publisher = &world.newsroom.publishers()[0];
    let before = world.newsroom.counters().requests;
    world.store.add_source(NewSource::new("again", publisher.url("/"))).await.unwrap();
    world.run_once().await;
    let (source, _) = world.store.source("again").await.unwrap();
    assert_eq!(source.spec.feed_urls, [publisher.feed_url().unwrap()]);
    let news = u64::from(publisher.has(Channel::NewsSitemap));
    assert_eq!(world.newsroom.counters().requests, before + 1 + news, "the home page alone");
    world.store.remove_source("again").await.unwrap();
    world.store.add_source(NewSource::new("anew", publisher.url("/"))).await.unwrap();
    world.run_once().await;
    let (source, _) = world.store.source("anew").await.unwrap();
    assert_eq!(source.spec.feed_urls.len(), 1, "on the operator's word it is looked at again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_in_while_nobody_looked_is_looked_at_by_the_next_engine() {
    let mut world = World::new(1, 2).await;
    world.config.discovery.enabled = false;
    world.reopen().await;
    let home = world.newsroom.publishers()[0].url("/");
    world.store.add_source(NewSource::new("later", home)).await.unwrap();
    world.run_once().await;
    assert_eq!(world.newsroom.counters().requests, 0, "nobody looks");
    world.config.discovery.enabled = true;
    world.run_once().await;
    let (source, _) = world.store.source("later").await.unwrap();
    assert_eq!(source.spec.feed_urls.len(), 1);
}
