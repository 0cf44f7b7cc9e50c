//! Lines 31 to 34: robots.txt, and what is said about use.

use feedmill::model::{ArticleId, Code, Kind, NewTask, Origin, Status};
use feedmill_newsroom::Script;

use super::stage::{HOUR, MINUTE, PRESS, Stage, answer, at_least, ok, page, sent, url};

const NO: &str = "User-agent: *\nDisallow: /no/\n";

/// What was asked of a host, in order.
fn paths(stage: &Stage, host: &str) -> Vec<String> {
    let log = stage.world.newsroom.log();
    log.into_iter().filter(|it| it.host == host).map(|it| it.path).collect()
}

/// A host of its own with this robots.txt and a page at every other path; both addresses are asked
/// for.
async fn host(stage: &Stage, name: &str, robots: &[Script]) -> String {
    let host = format!("{name}.newsroom.test");
    stage.says_at(&host, "/", &[ok(&[], page("A page", ""))]);
    stage.says_at(&host, "/robots.txt", robots);
    for path in ["/yes/1", "/no/1"] {
        stage.world.submit(&format!("http://{host}{path}"), Kind::Article).await;
    }
    host
}

pub(super) async fn line_31_robots_are_had_by_the_rules(mut stage: Stage) {
    stage.set(|config| config.robots.ttl = "2h".parse().unwrap()).await;
    // Missing: everything is allowed.
    let mut free = Vec::new();
    for status in [404, 403, 410] {
        free.push(host(&stage, &format!("r{status}"), &[answer(status, &[], NO)]).await);
    }
    // Not to be had: the host waits, and no task dies of it.
    let mut waiting = Vec::new();
    for status in [500, 429] {
        let robots = [answer(status, &[], ""), answer(status, &[], ""), ok(&[], NO)];
        waiting.push(host(&stage, &format!("r{status}"), &robots).await);
    }
    // Five redirects are followed, and what is past 500 KiB is not read.
    let moved = host(&stage, "moved", &[answer(301, &[("Location", "/r/1")], "")]).await;
    for hop in 1..5 {
        let onward = format!("/r/{}", hop + 1);
        let leads = answer(302, &[("Location", onward.as_str())], "");
        stage.says_at(&moved, &format!("/r/{hop}"), &[leads]);
    }
    stage.says_at(&moved, "/r/5", &[ok(&[], NO)]);
    let filler = format!("# {}\n", "x".repeat(97)).repeat(5_121);
    let long =
        format!("User-agent: *\nDisallow: /never/\n{filler}Disallow: /yes/\nDisallow: /no/\n");
    let long = host(&stage, "long", &[ok(&[], long)]).await;

    let settled =
        || async { stage.pages().await.iter().all(|page| page.status != Status::Pending) };
    stage.world.play(settled).await;
    for host in free.iter().chain([&long]).chain(&waiting).chain([&moved]) {
        let ruled = waiting.contains(host) || *host == moved;
        let [yes, no] = ["/yes/1", "/no/1"].map(|path| format!("http://{host}{path}"));
        assert_eq!(stage.world.task(&yes).await.status, Status::Fetched, "{yes}");
        let no = stage.world.task(&no).await.last_error;
        assert_eq!(no, ruled.then_some(Code::RobotsBlocked), "{host}");
        assert_eq!(paths(&stage, host).contains(&"/no/1".to_owned()), !ruled, "{host}");
    }
    let hops = ["/robots.txt", "/r/1", "/r/2", "/r/3", "/r/4", "/r/5"];
    assert_eq!(paths(&stage, &moved)[..6], hops);
    for host in &waiting {
        let log = stage.world.newsroom.log();
        let log: Vec<_> = log.into_iter().filter(|it| it.host == *host).collect();
        assert!(log[..3].iter().all(|it| it.path == "/robots.txt"), "{host}: no page before");
        at_least(&log, &[15 * MINUTE, 30 * MINUTE]);
    }
    stale_copy(&stage).await;
}

/// A copy serves for a day more when there is no newer one to be had, and is asked for again after
/// its own time.
async fn stale_copy(stage: &Stage) {
    let host = host(stage, "stale", &[ok(&[], NO), answer(500, &[], "")]).await;
    stage.until(&format!("http://{host}/yes/1"), |task| task.status == Status::Fetched).await;
    let later = NewTask {
        url: format!("http://{host}/yes/2"),
        kind: Kind::Article,
        origin: Origin::Manual,
        source: None,
        base_priority: 5,
        depth: 0,
        redirects: 0,
        parent: None,
        not_before: Some(stage.world.clock.now().after(std::time::Duration::from_hours(3))),
        refetch: None,
    };
    stage.world.store.submit(vec![later]).await.unwrap();
    stage.until(&format!("http://{host}/yes/2"), |task| task.status == Status::Fetched).await;
    let asked = paths(stage, &host);
    assert_eq!(asked, ["/robots.txt", "/yes/1", "/robots.txt", "/yes/2"]);
}

pub(super) async fn line_31_a_hop_to_another_origin_is_under_its_own_rules(stage: Stage) {
    // The same host on another port is another origin; the newsroom answers for both alike.
    let port = stage.world.newsroom.addr().port();
    let there = |path: &str| format!("http://{PRESS}:{port}{path}");
    stage.says("/", &[ok(&[], page("A page", ""))]);
    let open = ok(&[], "User-agent: *\nAllow: /\n");
    stage.says("/robots.txt", &[open, ok(&[], NO)]);
    for (path, to) in [("/a", there("/yes/1")), ("/b", there("/no/1"))] {
        stage.says(path, &[answer(302, &[("Location", to.as_str())], "")]);
        stage.submit(path).await;
    }
    let settled =
        || async { stage.pages().await.iter().all(|page| page.status != Status::Pending) };
    stage.world.play(settled).await;
    let asked = paths(&stage, PRESS);
    let robots = asked.iter().filter(|path| *path == "/robots.txt").count();
    assert_eq!(robots, 2, "once per origin, though two pages led there: {asked:?}");
    assert!(asked.contains(&"/yes/1".to_owned()) && !asked.contains(&"/no/1".to_owned()));
    let kept = stage.world.task(&url("/a")).await;
    assert_eq!((kept.status, kept.last_error), (Status::Dead, Some(Code::Redirect)));
    assert!(kept.reason.unwrap().contains(&there("/yes/1")), "with a pointer to where it led");
    let ruled_out = stage.world.task(&url("/b")).await;
    assert_eq!(ruled_out.last_error, Some(Code::RobotsBlocked));
    let log = stage.world.newsroom.log();
    at_least(&log, &vec![1_000; log.len() - 1]);
}

pub(super) async fn line_32_a_long_crawl_delay_is_kept(stage: Stage) {
    stage.says("/", &[ok(&[], page("A page", ""))]);
    stage.says("/robots.txt", &[ok(&[], "User-agent: *\nCrawl-delay: 3600\n")]);
    for n in 0..3 {
        stage.submit(&format!("/{n}")).await;
    }
    stage
        .world
        .play(|| async { stage.pages().await.iter().all(|page| page.status == Status::Fetched) })
        .await;
    let log = stage.world.newsroom.log();
    assert_eq!(log.len(), 4);
    at_least(&log, &[HOUR, HOUR, HOUR]);
}

pub(super) async fn line_33_queued_pages_are_checked_against_todays_rules(mut stage: Stage) {
    stage.set(|config| config.robots.ttl = "1h".parse().unwrap()).await;
    let open = || ok(&[], "User-agent: *\nAllow: /\n");
    stage.says("/", &[ok(&[], page("A page", ""))]);
    stage.says("/robots.txt", &[open(), ok(&[], NO), open()]);
    // Known under the first rules, due under the second, and the last one under the third.
    let now = stage.world.clock.now();
    let mut batch = Vec::new();
    for (path, hours) in [("/yes/1", 0), ("/no/1", 2), ("/yes/2", 4)] {
        batch.push(NewTask {
            url: url(path),
            kind: Kind::Article,
            origin: Origin::Manual,
            source: None,
            base_priority: 5,
            depth: 0,
            redirects: 0,
            parent: None,
            not_before: Some(now.after(std::time::Duration::from_hours(hours))),
            refetch: None,
        });
    }
    stage.world.store.submit(batch).await.unwrap();
    let ruled_out = stage.until(&url("/no/1"), |task| task.status == Status::Dead).await;
    assert_eq!(ruled_out.last_error, Some(Code::RobotsBlocked));
    assert_eq!(stage.asked("/no/1").len(), 0);
    stage.until(&url("/no/1"), |task| task.status == Status::Fetched).await;
    let asked = paths(&stage, PRESS);
    let robots = asked.iter().filter(|path| *path == "/robots.txt").count();
    assert_eq!(robots, 3, "{asked:?}");
    let allowed_again = asked.iter().rposition(|path| path == "/robots.txt").unwrap();
    assert!(asked[allowed_again..].contains(&"/no/1".to_owned()), "{asked:?}");
}

pub(super) async fn line_34_signals_about_use_are_kept_with_the_article(stage: Stage) {
    let head = "<meta name=\"robots\" content=\"noarchive\">\
        <meta name=\"tdm-policy\" content=\"https://press.newsroom.test/tdm.json\">";
    let headers = [
        ("X-Robots-Tag", "noai"),
        ("X-Robots-Tag", "otherbot: noindex"),
        ("TDM-Reservation", "1"),
        ("Content-Signal", "ai-input=yes"),
    ];
    stage.says("/", &[ok(&headers, page("A page", head))]);
    let signals = "User-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /\n";
    stage.says("/robots.txt", &[ok(&[], signals)]);
    let page = stage.submit("/page").await;
    let task = stage.until(&page, |task| task.status == Status::Fetched).await;
    let id = ArticleId::of(&task.url_key);
    let (article, _) = stage.world.store.article(id).await.unwrap().unwrap();
    let rights = serde_json::to_value(&article).unwrap()["rights"].clone();
    let expected = serde_json::json!({
        "robots": ["noai", "noarchive"],
        "uses": {"ai-input": "yes", "ai-train": "no", "search": "yes"},
        "tdm_reservation": true,
        "tdm_policy": "https://press.newsroom.test/tdm.json",
    });
    assert_eq!(rights, expected);
    let asked = stage.asked("/page");
    assert_eq!((asked.len(), sent(&asked[0], "accept").is_some()), (1, true));
}
