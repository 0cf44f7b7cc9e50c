//! Line 23 on the way over several hosts: each is asked in its turn, and the way has an end.

use feedmill::model::{Code, Kind, Status};
use feedmill_newsroom::{Politeness, Script, Why, judge};

use super::stage::{HOUR, PRESS, Stage, answer, at_least, feed, ok, page, pauses, url};

const OTHER: &str = "other.newsroom.test";

fn to(address: &str) -> [Script; 1] {
    [answer(302, &[("Location", address)], "")]
}

fn polite(stage: &Stage, default_delay_ms: i64) {
    let rules = Politeness { default_delay_ms, tolerance_ms: 1, ..Politeness::default() };
    let wrongs = judge(&stage.world.newsroom.log(), &rules).into_iter();
    let wrongs: Vec<_> = wrongs.filter(|it| it.why != Why::RobotsNotAsked).collect();
    assert_eq!(wrongs, []);
}

pub(super) async fn line_23_who_leads_to_a_busy_host_is_not_asked_again_and_again(
    mut stage: Stage,
) {
    stage.set(|config| config.hosts.delay = "10s".parse().unwrap()).await;
    stage.says_at(OTHER, "/", &[ok(&[], page("A page", ""))]);
    stage.says_at(OTHER, "/robots.txt", &[answer(404, &[], "")]);
    stage.says_at(OTHER, "/feed", &[ok(&[], feed(&["1"]))]);
    stage.says("/away", &to(&format!("http://{OTHER}/feed")));
    for n in 0..20 {
        stage.world.submit(&format!("http://{OTHER}/{n}"), Kind::Article).await;
    }
    stage.world.submit(&url("/away"), Kind::Feed).await;
    stage.until(&url("/away"), |task| task.fetch_count > 0 && task.last_error.is_none()).await;
    let asked = stage.asked("/away").len();
    assert!(asked <= 2, "asked {asked} times");
    polite(&stage, 10_000);
}

pub(super) async fn line_23_every_queue_keeps_its_pause_whoever_was_asked_in_between(
    mut stage: Stage,
) {
    stage
        .set(|config| {
            config.hosts.delay = "10s".parse().unwrap();
            config.hosts.groups = vec!["shared=*.shared.newsroom.test".parse().unwrap()];
        })
        .await;
    stage.says("/1", &to(&format!("http://{OTHER}/2")));
    stage.says_at(OTHER, "/2", &to(&url("/3")));
    stage.says("/3", &[ok(&[], feed(&["1"]))]);
    let [a, b] = ["a.shared.newsroom.test", "b.shared.newsroom.test"];
    stage.says_at(a, "/1", &to(&format!("http://{b}/2")));
    stage.says_at(b, "/2", &[ok(&[], feed(&["2"]))]);
    let first = [url("/1"), format!("http://{a}/1")];
    for url in &first {
        stage.world.submit(url, Kind::Feed).await;
    }
    for url in &first {
        stage.until(url, |task| task.fetch_count > 0).await;
    }
    polite(&stage, 10_000);
    let log = stage.world.newsroom.log();
    let shared: Vec<_> = log.into_iter().filter(|it| it.host == a || it.host == b).collect();
    assert_eq!(shared.iter().map(|it| it.host.as_str()).collect::<Vec<_>>()[..2], [a, b]);
    assert!(shared[1].began - shared[0].ended >= 10_000);
}

pub(super) async fn line_23_no_redirect_leads_to_a_host_that_was_taken_down(mut stage: Stage) {
    use feedmill::app::forget;

    stage.set(|config| config.hosts.delay = "1s".parse().unwrap()).await;
    stage.says_at(OTHER, "/feed", &[ok(&[], feed(&["1"]))]);
    stage.says_at(OTHER, "/robots.txt", &[answer(404, &[], "")]);
    stage.says("/away", &to(&format!("http://{OTHER}/feed")));
    stage.says("/robots.txt", &to(&format!("http://{OTHER}/robots.txt")));
    let store = &stage.world.store;
    let meant = forget::resolve(&**store, OTHER, None).await.unwrap();
    forget::forget(&**store, &meant, ("ann", "she asked"), &mut |_| {}).await.unwrap();
    for (path, kind) in [("/away", Kind::Feed), ("/page", Kind::Article)] {
        stage.world.submit(&url(path), kind).await;
    }
    stage.until(&url("/away"), |task| task.last_error == Some(Code::Withdrawn)).await;
    stage.until(&url("/page"), |task| task.reason.is_some()).await;
    let log = stage.world.newsroom.log();
    assert!(log.iter().all(|request| request.host != OTHER), "{log:?}");
}

pub(super) async fn line_23_redirects_are_counted_over_all_hosts(stage: Stage) {
    let host = |n: usize| format!("h{n}.newsroom.test");
    for n in 0..6 {
        stage.says_at(&host(n), "/robots.txt", &[answer(404, &[], "")]);
        stage.says_at(&host(n), "/a", &to("/b"));
        stage.says_at(&host(n), "/b", &to(&format!("http://{}/a#top", host(n + 1))));
    }
    stage.world.submit(&format!("http://{}/a", host(0)), Kind::Article).await;
    let settled =
        || async { stage.pages().await.iter().all(|page| page.status != Status::Pending) };
    stage.world.play(settled).await;
    let log = stage.world.newsroom.log();
    let hops = log.iter().filter(|it| it.path != "/robots.txt").count();
    assert_eq!(hops, 6, "the page and five redirects");
    let pages = stage.pages().await;
    assert!(pages.iter().all(|page| !page.url.contains('#')), "{pages:?}");
    let last = stage.world.task(&format!("http://{}/a", host(2))).await;
    assert_eq!(last.last_error, Some(Code::RedirectLoop));
    let first = stage.world.task(&format!("http://{}/a", host(0))).await;
    let fetches = stage.world.store.fetches(first.id, usize::MAX).await.unwrap();
    let codes: Vec<_> = fetches.iter().map(|fetch| fetch.code).collect();
    assert_eq!(codes, [Code::Redirect; 2], "each hop says what it was");
}

pub(super) async fn line_23_a_sitemap_in_a_sitemap_has_all_its_redirects(stage: Stage) {
    let names = |path: &str| {
        let loc = format!("<sitemap><loc>{}</loc></sitemap>", url(path));
        [ok(&[], format!("<sitemapindex>{loc}</sitemapindex>"))]
    };
    stage.says("/robots.txt", &[answer(404, &[], "")]);
    for (from, to) in [("/0.xml", "/1.xml"), ("/1.xml", "/2.xml"), ("/2.xml", "/a.xml")] {
        stage.says(from, &names(to));
    }
    // Three indexes deep, and then five redirects, the last one to another host.
    for pair in ["/a.xml", "/b.xml", "/c.xml", "/d.xml", "/e.xml"].windows(2) {
        stage.says(pair[0], &to(&url(pair[1])));
    }
    stage.says("/e.xml", &to(&format!("http://{OTHER}/f.xml")));
    stage.says_at(OTHER, "/robots.txt", &[answer(404, &[], "")]);
    let page_of = format!("<url><loc>http://{OTHER}/page</loc></url>");
    stage.says_at(OTHER, "/f.xml", &[ok(&[], format!("<urlset>{page_of}</urlset>"))]);
    stage.says_at(OTHER, "/page", &[ok(&[], page("A page", ""))]);
    stage.world.submit(&url("/0.xml"), Kind::Sitemap).await;
    let found = || async { stage.pages().await.iter().any(|page| page.status == Status::Fetched) };
    stage.world.play(found).await;
    let last = stage.world.task(&format!("http://{OTHER}/f.xml")).await;
    assert_eq!((last.depth, last.redirects), (3, 5));
}

pub(super) async fn line_31_waits_for_robots_of_a_hop_grow_also_over_restarts(stage: Stage) {
    let port = stage.world.newsroom.addr().port();
    stage.says("/robots.txt", &[ok(&[], "User-agent: *\nAllow: /\n"), answer(503, &[], "")]);
    stage.says("/a", &to(&format!("http://{PRESS}:{port}/yes/1")));
    stage.submit("/a").await;
    // Every look is another engine's.
    for times in 2..=5 {
        stage.until_asked("/robots.txt", times).await;
    }
    let waits = pauses(&stage.asked("/robots.txt"));
    assert!(waits[1..].is_sorted_by(|a, b| 4 * b > 5 * a), "{waits:?}");
}

pub(super) async fn line_31_robots_of_a_hop_that_cannot_be_had_make_the_host_wait(stage: Stage) {
    // The same host on another port is another origin; the newsroom answers for both alike.
    let port = stage.world.newsroom.addr().port();
    stage.says("/", &[ok(&[], page("A page", ""))]);
    let open = || ok(&[], "User-agent: *\nAllow: /\n");
    let peace = answer(429, &[("Retry-After", "3600")], "");
    stage.says("/robots.txt", &[open(), peace, open()]);
    stage.says("/a", &to(&format!("http://{PRESS}:{port}/yes/1")));
    let page = stage.submit("/a").await;
    stage.submit("/b").await;
    let settled =
        || async { stage.pages().await.iter().all(|page| page.status != Status::Pending) };
    stage.world.play(settled).await;
    let log = stage.world.newsroom.log();
    let refused = log.iter().position(|it| it.status == 429).unwrap();
    at_least(&log[refused..], &[HOUR]);

    // What was asked on the way is no document of the page.
    let task = stage.world.task(&page).await;
    let fetches = stage.world.store.fetches(task.id, usize::MAX).await.unwrap();
    assert!(!fetches.is_empty());
    assert!(fetches.iter().all(|fetch| !fetch.url.ends_with("/robots.txt")), "{fetches:?}");
}
