//! Lines 25 to 30: what a request is like, and how much is taken.

use feedmill::frontier::TaskFilter;
use feedmill::model::{Code, Kind};
use feedmill_newsroom::{Fault, Logged, Span};

use super::stage::{PRESS, Stage, answer, feed, ok, page, sent, url};

/// Follows the two ordinary publishers until all of their stories are there; what they were asked.
async fn crawl(stage: &Stage) -> Vec<Logged> {
    let published = stage.world.newsroom.published_count(i64::MAX) as u64;
    stage.world.follow().await;
    let done = || async { stage.world.store.totals().await.unwrap().articles >= published };
    stage.world.play(done).await;
    stage.world.newsroom.log()
}

pub(super) async fn line_25_the_agent_is_honest_and_always_the_same(stage: Stage) {
    let log = crawl(&stage).await;
    let name = sent(&log[0], "user-agent").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("Feedmill/{version} (+https://newsroom.test/about-this-robot)");
    assert_eq!(name, expected);
    assert!(log.iter().all(|it| sent(it, "user-agent") == Some(name)), "{log:#?}");
}

pub(super) async fn line_26_no_cookies_no_referer_no_added_query(stage: Stage) {
    let cookie = ("Set-Cookie", "visitor=1; Path=/");
    let item = format!("<item><guid>1</guid><link>{}</link></item>", url("/a?b=2&a=1"));
    let rss = format!("<rss version=\"2.0\"><channel><title>P</title>{item}</channel></rss>");
    stage.says("/", &[answer(404, &[cookie], "")]);
    stage.says("/feed", &[answer(302, &[cookie, ("Location", "/feed2")], "")]);
    stage.says("/feed2", &[ok(&[cookie, ("ETag", "\"1\"")], rss)]);
    stage.says("/a", &[answer(302, &[cookie, ("Location", "/end?z=1&y=2")], "")]);
    stage.says("/end", &[ok(&[cookie], page("A page", ""))]);
    stage.follow("Press", &url("/feed")).await;
    stage.until_asked("/end?z=1&y=2", 1).await;
    stage.until_asked("/feed2", 2).await;
    let log = stage.world.newsroom.log();
    for request in &log {
        for name in ["cookie", "referer", "origin", "from", "dnt"] {
            assert_eq!(sent(request, name), None, "{request:?}");
        }
    }
    let mut paths: Vec<_> = log.iter().map(|it| it.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let written = ["/a?b=2&a=1", "/end?z=1&y=2", "/feed", "/feed2", "/robots.txt"];
    assert_eq!(paths, written, "addresses go out as they are written");
}

/// A brotli stream that holds the bytes as they are.
fn brotli(bytes: &[u8]) -> Vec<u8> {
    let header = u32::try_from(bytes.len() - 1).unwrap() << 4 | 1 << 20;
    let mut stream = header.to_le_bytes()[..3].to_vec();
    stream.extend_from_slice(bytes);
    stream.push(3);
    stream
}

pub(super) async fn line_27_codings_are_asked_for_and_decoded_over_one_connection(stage: Stage) {
    let zstd = zstd::bulk::compress(feed(&["3", "4", "5"]).as_bytes(), 1).unwrap();
    stage.says("/br", &[ok(&[("Content-Encoding", "br")], brotli(feed(&["1", "2"]).as_bytes()))]);
    stage.says("/zstd", &[ok(&[("Content-Encoding", "zstd")], zstd)]);
    for path in ["/br", "/zstd"] {
        stage.follow(path, &url(path)).await;
    }
    let read = || async { stage.world.store.totals().await.unwrap().entries == 5 };
    stage.world.play(read).await;
    // The ordinary publishers pack with gzip whatever they are asked to.
    let log = crawl(&stage).await;
    for request in &log {
        let codings = sent(request, "accept-encoding").unwrap();
        assert!(["gzip", "br"].iter().all(|coding| codings.contains(coding)), "{codings}");
    }
    let asked = stage.asked("/br");
    let accept = sent(&asked[0], "accept").unwrap();
    assert!(accept.contains("application/rss+xml") && accept.contains("application/atom+xml"));
    let of = |host: &str| -> Vec<u64> {
        log.iter().filter(|it| it.host == host).map(|it| it.connection).collect()
    };
    let host = &stage.world.newsroom.publishers()[0].host;
    let mut connections = of(host);
    let requests = connections.len();
    connections.dedup();
    assert!(requests > 3 && connections.len() == 1, "{requests} over {connections:?}");
}

pub(super) async fn line_28_head_is_never_used(stage: Stage) {
    let log = crawl(&stage).await;
    assert!(log.iter().all(|it| it.method == "GET"), "{log:#?}");
}

pub(super) async fn line_29_only_what_is_needed_is_asked_for(stage: Stage) {
    let log = crawl(&stage).await;
    let newsroom = &stage.world.newsroom;
    let channels: Vec<String> = newsroom
        .publishers()
        .iter()
        .flat_map(|it| it.feed_url().into_iter().chain(it.sitemap_urls()))
        .collect();
    for request in &log {
        let address = format!("http://{}{}", request.host, request.path);
        let plain = address.split(['?', '&']).next().unwrap_or_default();
        let needed = request.path == "/robots.txt"
            || channels.contains(&address)
            || newsroom.story(&address).or_else(|| newsroom.story(plain)).is_some();
        assert!(needed, "nobody needs {address}");
    }
    for host in newsroom.publishers().iter().map(|it| &it.host) {
        let robots = log.iter().filter(|it| it.host == *host && it.path == "/robots.txt").count();
        assert_eq!(robots, 1, "{host}");
    }
    assert_eq!(stage.world.served_twice(), Vec::<String>::new());
}

pub(super) async fn line_30_size_headers_depth_and_entities_have_limits(mut stage: Stage) {
    stage
        .set(|config| {
            config.fetch.max_body = "64KB".parse().unwrap();
            config.fetch.max_decoded = "1MB".parse().unwrap();
            config.fetch.request_timeout = "300ms".parse().unwrap();
        })
        .await;
    let bomb = zstd::bulk::compress(&vec![b' '; 20_000_000], 19).unwrap();
    let many: Vec<(String, String)> = (0..500).map(|n| (format!("X-{n}"), "1".into())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let outside = url("/secret");
    let entities = format!(
        "<!DOCTYPE rss [<!ENTITY out SYSTEM \"{outside}\"><!ENTITY a \"ha\">\
         <!ENTITY b \"&a;&a;&a;&a;\">]><rss version=\"2.0\"><channel><title>&out;&b;</title>\
         <item><guid>1</guid><title>&out;&b;</title></item></channel></rss>"
    );
    let hostile = [
        ("/long", ok(&[], vec![b' '; 1_000_000])),
        ("/bomb", ok(&[("Content-Encoding", "zstd")], bomb)),
        ("/headers", ok(&many, feed(&["1"]))),
        ("/deep", ok(&[], format!("<rss><channel>{}", "<a>".repeat(10_000)))),
        ("/entities", ok(&[("ETag", "\"1\"")], entities)),
    ];
    for (path, said) in &hostile {
        stage.says(path, std::slice::from_ref(said));
        stage.world.submit(&url(path), Kind::Feed).await;
    }
    stage.world.newsroom.misbehave(PRESS, "/slow", Fault::Hang, Span::Always);
    stage.world.submit(&url("/slow"), Kind::Feed).await;
    let feeds = || async {
        stage.world.tasks(TaskFilter { kind: Some(Kind::Feed), ..TaskFilter::default() }).await
    };
    stage.world.play(|| async { feeds().await.iter().all(|task| task.fetch_count > 0) }).await;
    for (path, codes) in [
        ("/long", &[Code::TooLarge][..]),
        ("/bomb", &[Code::TooLarge]),
        ("/headers", &[Code::Network]),
        ("/deep", &[Code::TooLarge, Code::Parse]),
        ("/slow", &[Code::Timeout]),
    ] {
        let task = stage.world.task(&url(path)).await;
        assert!(task.last_error.is_some_and(|code| codes.contains(&code)), "{path}: {task:?}");
        let fetch = stage.world.store.fetches(task.id, 1).await.unwrap().remove(0);
        assert!(fetch.bytes <= 64_000, "{path}: {} bytes", fetch.bytes);
    }
    assert_eq!(stage.asked("/secret").len(), 0, "nothing outside of a document is looked up");
}
