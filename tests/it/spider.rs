//! Sites without feeds, and one story that comes by four ways.

use std::time::Duration;

use feedmill::clock::Clock;
use feedmill::frontier::TaskFilter;
use feedmill::model::{IngestionMode, Kind, NewSource, Origin, Status, Website};
use feedmill_newsroom::{Channel, Setup};

use crate::support::World;

/// A walk over a site with traps, and then a day and a half of news.
#[tokio::test(flavor = "multi_thread")]
async fn a_site_without_feeds_is_walked_once_and_then_followed_by_yield() {
    let clock = Clock::manual("2026-03-02T06:00:00Z".parse().unwrap());
    let world = World::timed(clock, "", 1, |setup| Setup {
        maze: true,
        history: 120,
        deep_history: true,
        rate_per_hour: 10.0,
        day_profile: false,
        publish_until: Some(setup.starts_at + 36 * 3_600_000),
        ..setup
    })
    .await;
    let publisher = &world.newsroom.publishers()[0];
    let spider = NewSource {
        ingestion_mode: IngestionMode::Spider,
        max_depth: Some(-1),
        ..NewSource::new("maze", publisher.url("/"))
    };
    let source = world.store.add_source(spider).await.unwrap();
    let articles = || async { world.store.totals().await.unwrap().articles };
    let published = || world.newsroom.published_count(world.clock.now().ms()) as u64;
    // The first crawl: everything that was found was asked for.
    world
        .play(|| async {
            let all = world.tasks(TaskFilter::default()).await;
            let unasked = |task: &&feedmill::model::Task| {
                task.fetch_count == 0 && task.status == Status::Pending && task.kind != Kind::Robots
            };
            articles().await > 100 && all.iter().filter(unasked).count() == 0
        })
        .await;
    let (first_requests, first_articles) = (world.newsroom.log().len(), articles().await);
    assert!(first_articles + 3 >= published(), "{first_articles} of {}", published());
    let walked = || async {
        world.tasks(TaskFilter { kind: Some(Kind::Listing), ..TaskFilter::default() }).await
    };
    assert!(walked().await.len() < 70, "the traps have ends: {}", walked().await.len());

    let all = world.newsroom.published_count(i64::MAX) as u64;
    world.play(|| async { articles().await >= all }).await;
    let requests = world.newsroom.log().len() - first_requests;
    let news = articles().await - first_articles;
    let rate = requests as f64 / news as f64;
    assert!(news > 150, "{news}");
    assert!(rate < 1.2, "{requests} requests for {news} articles are {rate:.2} each");

    let report = world.report().await;
    let faults = (report.missing, report.doubled, report.unknown, report.impolite_requests);
    assert_eq!(faults, (0, 0, 0, 0), "{report:#?}");
    assert!(report.text_differs * 100 < report.articles, "{report:#?}");
    assert_eq!((report.articles, world.served_twice()), (report.published, vec![]));
    let asked: Vec<String> = world.newsroom.log().into_iter().map(|one| one.path).collect();
    for never in ["sid=", "/login", "/search", "sort=", "latest/latest", "/private"] {
        assert!(!asked.iter().any(|path| path.contains(never)), "{never}");
    }
    let times = |prefix: &str| asked.iter().filter(|path| path.starts_with(prefix)).count();
    assert!(times("/calendar/") <= 4, "{}", times("/calendar/"));
    assert!(times("/everything") <= 8, "{}", times("/everything"));
    let home = asked.iter().filter(|path| *path == "/").count();
    let later = asked.iter().filter(|path| path.contains("?page=")).count();
    let pages = walked().await.iter().filter(|task| task.url.contains("?page=")).count();
    assert!(home >= 20 && later <= pages + 5, "{home} {later} {pages}");
    let outside = world.store.outside(source.id).await.unwrap();
    assert_eq!(outside.len(), 1, "{outside:?}");
    assert_eq!(outside[0].host, "partner.example");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_story_that_comes_by_feed_sitemap_list_and_spider_is_one_article_with_four_channels() {
    let world = World::new(40, 4).await;
    let stories = world.newsroom.published(i64::MAX);
    let publisher = world
        .newsroom
        .publishers()
        .iter()
        .find(|site| {
            let all = [Channel::Feed, Channel::NewsSitemap, Channel::Listing];
            let named = stories
                .iter()
                .any(|story| story.publisher == site.index && !story.url.contains("story.php"));
            named && all.iter().all(|channel| site.has(*channel))
        })
        .unwrap();
    let home = publisher.url("/");
    let named = |name: &str, category: &str, url: String| NewSource {
        category: Some(category.into()),
        ..NewSource::new(name, url)
    };
    let news = publisher.url("/news-sitemap.xml");
    for source in [
        NewSource {
            feed_urls: publisher.feed_url().into_iter().collect(),
            sitemap_urls: vec![news.clone()],
            ..named("channels", "world", home.clone())
        },
        NewSource {
            website: Some(Website::List {
                article_selector: ".teaser h2 a".into(),
                pagination_selector: Some("a[rel=next]".into()),
                max_pages: 3,
            }),
            ..named("list", "business", publisher.url("/latest"))
        },
        NewSource {
            ingestion_mode: IngestionMode::Spider,
            max_depth: Some(1),
            ..named("walk", "world", home.clone())
        },
    ] {
        world.store.add_source(source).await.unwrap();
    }
    let own: Vec<_> = stories.iter().filter(|story| story.publisher == publisher.index).collect();
    world
        .run_until(|| async {
            let listings = TaskFilter { kind: Some(Kind::Listing), ..TaskFilter::default() };
            let listings = world.tasks(listings).await;
            let asked =
                listings.iter().all(|task| task.fetch_count > 0 || task.status != Status::Pending);
            asked && world.store.totals().await.unwrap().articles >= own.len() as u64
        })
        .await;
    assert_eq!(world.store.totals().await.unwrap().articles, own.len() as u64);
    let story = own.last().unwrap();
    let task = world.task(&story.url).await;
    let told = world.store.references(vec![task.id]).await.unwrap();
    let mut ways: Vec<_> =
        told.iter().map(|one| (one.source.as_deref().unwrap_or(""), one.origin)).collect();
    ways.sort_by_key(|(source, origin)| (source.to_string(), origin.number()));
    assert_eq!(
        ways,
        [
            ("channels", Origin::Feed),
            ("channels", Origin::Sitemap),
            ("list", Origin::Spider),
            ("walk", Origin::Spider)
        ],
        "{told:#?}"
    );
    let (start, now) = (world.start, world.clock.now());
    assert!(told.iter().all(|one| start <= one.first_seen && one.first_seen <= now));
    assert!(told.iter().all(|one| one.channel.is_some()), "{told:#?}");
    assert!(told.windows(2).all(|two| two[0].first_seen <= two[1].first_seen));
    let later = Duration::from_hours(1);
    assert!(told[0].first_seen.after(later) > task.discovered_at);
    assert_eq!(world.newsroom.impolite(1_000), []);
}
