//! What is served is what is true, from its time on and not before.

use std::collections::HashSet;

use feedmill_newsroom::{Channel, FeedFormat, Newsroom, Publisher, Story};

use crate::client::{HOUR, START, get, gunzip, open, unescape, visible_text};

/// The URLs in a document that are stories of this publisher.
fn stories_in(newsroom: &Newsroom, document: &str) -> HashSet<String> {
    let ends = ['"', '<', '>', ' '];
    let urls = document.split("http://").skip(1).map(|it| it.split(ends).next().unwrap());
    urls.filter_map(|it| newsroom.story(&format!("http://{}", unescape(it))))
        .map(|it| it.url)
        .collect()
}

/// The URLs of what this publisher has published, as the truth has it.
fn urls_of(stories: &[Story], site: &Publisher) -> HashSet<String> {
    stories.iter().filter(|it| it.publisher == site.index).map(|it| it.url.clone()).collect()
}

#[tokio::test]
async fn every_page_shows_the_text_of_its_story_in_order() {
    let (newsroom, hand) = open(|setup| setup.publishers = 20).await;
    hand.set(START + 2 * HOUR);
    for story in newsroom.published(START + 2 * HOUR) {
        let page = get(&newsroom, &story.url).await;
        assert_eq!(page.status, 200, "{}", story.url);
        let text = visible_text(&page.text());
        let mut rest = text.as_str();
        for paragraph in story.text.split("\n\n") {
            rest = rest
                .split_once(paragraph)
                .unwrap_or_else(|| panic!("{}: {paragraph}", story.url))
                .1;
        }
        assert!(text.contains(&story.title));
        assert!(story.authors.iter().all(|it| text.contains(it.as_str())));
        assert_eq!(newsroom.story(&story.url), Some(story));
    }
}

#[tokio::test]
async fn nothing_is_visible_before_its_time() {
    let (newsroom, hand) = open(|setup| setup.syndication = 0.3).await;
    let until = START + 3 * HOUR;
    let fresh: Vec<_> =
        newsroom.published(until).into_iter().filter(|it| it.published_at > START).collect();
    assert!(fresh.len() > 20);
    for story in fresh {
        let site = &newsroom.publishers()[story.publisher];
        let channels = [site.feed_url(), site.listing_url()].into_iter().flatten();
        let channels: Vec<String> =
            channels.chain(site.sitemap_urls().into_iter().take(1)).collect();
        for (at, visible) in [(story.published_at - 1, false), (story.published_at, true)] {
            hand.set(at);
            assert_eq!(get(&newsroom, &story.url).await.status, if visible { 200 } else { 404 });
            for channel in channels.iter().filter(|it| !it.ends_with("/sitemap.xml")) {
                let document = get(&newsroom, channel).await.text();
                assert_eq!(
                    stories_in(&newsroom, &document).contains(&story.url),
                    visible,
                    "{channel}"
                );
            }
        }
    }
}

#[tokio::test]
async fn feeds_show_the_window_and_their_links_work() {
    let (newsroom, hand) = open(|_| {}).await;
    hand.set(START + 48 * HOUR);
    let published = newsroom.published(START + 48 * HOUR);
    for site in newsroom.publishers().iter().filter(|it| it.has(Channel::Feed)) {
        let feed = get(&newsroom, &site.feed_url().unwrap()).await;
        let kind = match site.feed_format {
            FeedFormat::Rss => "application/rss+xml",
            FeedFormat::Atom => "application/atom+xml",
            FeedFormat::Json => "application/feed+json",
        };
        assert!(feed.header("Content-Type").unwrap().starts_with(kind));
        let shown = stories_in(&newsroom, &feed.text());
        let all = urls_of(&published, site);
        assert_eq!(shown.len(), site.window.min(all.len()));
        assert!(shown.is_subset(&all));
        assert_eq!(feed.text().contains("utm_source"), site.tracking);
        let mark = feed.text().find("/media/").is_some();
        assert_eq!(mark, site.enclosures);
        if site.tracking {
            let link = feed
                .text()
                .split("utm_campaign=newsroom")
                .next()
                .unwrap()
                .rsplit("http://")
                .next()
                .unwrap()
                .to_owned();
            assert_eq!(get(&newsroom, &format!("http://{}", unescape(&link))).await.status, 200);
        }
    }
}

#[tokio::test]
async fn sitemaps_and_list_pages_show_everything() {
    let (newsroom, hand) = open(|setup| {
        setup.publishers = 5;
        setup.history = 700;
        setup.deep_history = true;
        setup.rate_per_hour = 10.0;
        setup.sitemap_only_share = 0.2;
    })
    .await;
    let now = START + HOUR;
    hand.set(now);
    let published = newsroom.published(now);
    let mut seen = [0, 0];
    for site in newsroom.publishers() {
        let all = urls_of(&published, site);
        if site.has(Channel::Sitemap) {
            let index = get(&newsroom, &site.url("/sitemap.xml")).await.text();
            let mut listed = HashSet::new();
            for part in index.split("<loc>").skip(1) {
                let child = get(&newsroom, part.split_once("</loc>").unwrap().0).await;
                assert_eq!(child.status, 200);
                let gzipped = child.header("Content-Type") == Some("application/gzip");
                assert_eq!(gzipped, site.gzipped_sitemaps);
                let body = if gzipped { gunzip(&child.body).unwrap() } else { child.body };
                listed.extend(stories_in(&newsroom, &String::from_utf8(body).unwrap()));
            }
            assert_eq!(listed, all);
            seen[0] += 1;
        }
        let mut next = site.listing_url();
        let mut listed = HashSet::new();
        while let Some(url) = next.take() {
            let page = get(&newsroom, &url).await.text();
            listed.extend(stories_in(&newsroom, &page));
            let link =
                page.split_once("rel=\"next\" href=\"").map(|it| it.1.split_once('"').unwrap().0);
            next = link.map(|it| site.url(it));
        }
        if site.has(Channel::Listing) {
            assert_eq!(listed, all);
            seen[1] += 1;
        }
    }
    assert!(seen[0] > 1 && seen[1] > 1, "{seen:?}");
}

#[tokio::test]
async fn archives_lead_back_to_the_first_story() {
    let (newsroom, hand) = open(|setup| {
        setup.history = 200;
        setup.deep_history = true;
    })
    .await;
    let now = START + 30 * HOUR;
    hand.set(now);
    let published = newsroom.published(now);
    let archived = newsroom.publishers().iter().filter(|it| it.has(Channel::Archive));
    let archived: Vec<_> = archived.collect();
    assert!(!archived.is_empty());
    for site in archived {
        let mut listed = HashSet::new();
        let mut next = site.feed_url();
        while let Some(url) = next.take() {
            let page = get(&newsroom, &url).await.text();
            listed.extend(stories_in(&newsroom, &page));
            let link = page.split_once("rel=\"prev-archive\" href=\"");
            next = link.map(|it| it.1.split_once('"').unwrap().0.to_owned());
        }
        let all = urls_of(&published, site);
        // The feed links to the newest full page; pages and window overlap.
        assert_eq!(listed, all);
    }
}

#[tokio::test]
async fn the_news_sitemap_goes_back_two_days() {
    let (newsroom, hand) = open(|_| {}).await;
    let now = START + 100 * HOUR;
    hand.set(now);
    let published = newsroom.published(now);
    let recent: Vec<Story> =
        published.into_iter().filter(|it| it.published_at > now - 48 * HOUR).collect();
    let sites = newsroom.publishers().iter().filter(|it| it.has(Channel::NewsSitemap));
    for site in sites {
        let document = get(&newsroom, &site.url("/news-sitemap.xml")).await.text();
        assert_eq!(stories_in(&newsroom, &document), urls_of(&recent, site));
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_web() {
    let (one, _) = open(|_| {}).await;
    let (same, _) = open(|_| {}).await;
    let (other, _) = open(|setup| setup.seed = 2).await;
    assert_eq!(one.published(START + HOUR), same.published(START + HOUR));
    assert_ne!(one.published(START + HOUR), other.published(START + HOUR));
    for site in one.publishers() {
        for url in site.feed_url().into_iter().chain(site.sitemap_urls()) {
            assert_eq!(get(&one, &url).await.body, get(&same, &url).await.body);
        }
    }
    for story in one.published(START) {
        assert_eq!(get(&one, &story.url).await.body, get(&same, &story.url).await.body);
    }
}

#[tokio::test]
async fn wire_copies_have_the_text_of_an_earlier_original() {
    let (newsroom, _) = open(|setup| {
        setup.publishers = 40;
        setup.syndication = 0.1;
    })
    .await;
    let stories = newsroom.published(START + 24 * HOUR);
    let copies: Vec<_> = stories.iter().filter(|it| it.copy_of.is_some()).collect();
    assert!(copies.len() > stories.len() / 50 && copies.len() < stories.len() / 5);
    for copy in copies {
        let original = newsroom.story(copy.copy_of.as_deref().unwrap()).unwrap();
        assert_eq!((&original.text, original.copy_of), (&copy.text, None));
        assert!(original.published_at < copy.published_at);
        assert_ne!(original.publisher, copy.publisher);
    }
    let texts: HashSet<_> =
        stories.iter().filter(|it| it.copy_of.is_none()).map(|it| &it.text).collect();
    assert_eq!(texts.len(), stories.iter().filter(|it| it.copy_of.is_none()).count());
}

#[tokio::test]
async fn publishing_ends_when_told_and_history_fits_the_feed() {
    let until = START + 2 * HOUR;
    let (newsroom, _) = open(|setup| {
        setup.publish_until = Some(until);
        setup.history = 1_000;
    })
    .await;
    assert_eq!(newsroom.published(until), newsroom.published(until + 100 * HOUR));
    assert_eq!(newsroom.published_count(until), newsroom.published(until).len());
    for site in newsroom.publishers() {
        assert_eq!(newsroom.published_by(site.index, START), site.window);
    }
}

#[tokio::test]
async fn half_an_hour_never_fills_a_quarter_of_the_window() {
    let (newsroom, _) = open(|setup| setup.publishers = 50).await;
    for step in 0..96 {
        let at = START + step * HOUR / 2;
        for site in newsroom.publishers() {
            let count = |until| newsroom.published_by(site.index, until);
            assert!((count(at + HOUR / 2) - count(at)) * 4 <= site.window);
        }
    }
}

#[tokio::test]
async fn all_templates_formats_and_channels_occur() {
    let (newsroom, _) = open(|setup| setup.publishers = 20).await;
    let sites = newsroom.publishers();
    let distinct =
        |of: fn(&Publisher) -> String| sites.iter().map(of).collect::<HashSet<_>>().len();
    assert_eq!(distinct(|it| format!("{:?}", it.template)), 5);
    assert_eq!(distinct(|it| format!("{:?}", it.feed_format)), 3);
    assert_eq!(distinct(|it| format!("{:?}", it.json_ld)), 3);
    assert_eq!(distinct(|it| format!("{:?}", it.language)), 4);
    assert_eq!(distinct(|it| it.host.clone()), 20);
    let only_sitemaps = sites.iter().filter(|it| it.feed_url().is_none()).count();
    assert_eq!(only_sitemaps, 2);
    let (json_only, _) = open(|setup| setup.formats = vec![FeedFormat::Json]).await;
    assert!(json_only.publishers().iter().all(|it| it.feed_format == FeedFormat::Json));
}
