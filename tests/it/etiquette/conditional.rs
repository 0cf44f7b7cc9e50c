//! Lines 1 to 9: conditional requests.

use feedmill::frontier::{Act, TaskFilter};
use feedmill::model::{Code, Kind};

use super::stage::{MINUTE, Stage, answer, at_least, feed, ok, page, sent, url, validators};

const MAP: &str = "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"></urlset>";
const MAYBE: &str = "Sun, 6 Nov 1994 8:49:37 gmt";

/// The channels that are polled: a feed and a sitemap, both with answers that differ in validators
/// alone.
async fn channels(stage: &Stage, answers: &[(u16, &[(&str, &str)])]) {
    for (path, kind, body) in
        [("/feed", Kind::Feed, feed(&["1"])), ("/map.xml", Kind::Sitemap, MAP.to_owned())]
    {
        let said = answers.iter().map(|(status, headers)| {
            answer(*status, headers, if *status == 304 { String::new() } else { body.clone() })
        });
        stage.says(path, &said.collect::<Vec<_>>());
        stage.world.submit(&url(path), kind).await;
    }
}

/// Runs until both were asked so often; what was asked of each.
async fn polls(stage: &Stage, times: usize) -> [Vec<feedmill_newsroom::Logged>; 2] {
    let paths = ["/feed", "/map.xml"];
    let done = || async { paths.iter().all(|path| stage.asked(path).len() >= times) };
    stage.world.play(done).await;
    paths.map(|path| stage.asked(path))
}

pub(super) async fn line_01_validators_are_echoed_byte_for_byte(stage: Stage) {
    let odd = "W/\"a  b,c=='d'\"";
    channels(&stage, &[(200, &[("ETag", odd), ("Last-Modified", MAYBE)]), (304, &[])]).await;
    for log in polls(&stage, 3).await {
        assert_eq!(validators(&log[0]), (None, None));
        assert_eq!(validators(&log[1]), (Some(odd), Some(MAYBE)));
        assert_eq!(validators(&log[2]), (Some(odd), Some(MAYBE)), "and a 304 changes nothing");
    }
}

pub(super) async fn line_02_both_validators_are_sent(stage: Stage) {
    let both = [("ETag", "\"1\""), ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")];
    channels(&stage, &[(200, &both), (304, &[])]).await;
    for log in polls(&stage, 2).await {
        assert!(sent(&log[1], "if-none-match").is_some(), "{:?}", log[1]);
        assert!(sent(&log[1], "if-modified-since").is_some(), "{:?}", log[1]);
    }
}

pub(super) async fn line_03_every_200_replaces_both_validators(stage: Stage) {
    let answers: [(u16, &[(&str, &str)]); 5] = [
        (200, &[("ETag", "\"1\""), ("Last-Modified", "one")]),
        // The same second, the same body, another tag.
        (200, &[("ETag", "\"2\""), ("Last-Modified", "one")]),
        (200, &[("ETag", "\"3\"")]),
        // Fresh for a while, or it would be asked hourly for want of validators.
        (200, &[("Cache-Control", "max-age=60")]),
        (200, &[("Last-Modified", "five")]),
    ];
    channels(&stage, &answers).await;
    for log in polls(&stage, 6).await {
        let sent: Vec<_> = log.iter().take(6).map(validators).collect();
        let expected = [
            (None, None),
            (Some("\"1\""), Some("one")),
            (Some("\"2\""), Some("one")),
            (Some("\"3\""), None),
            (None, None),
            (None, Some("five")),
        ];
        assert_eq!(sent, expected);
    }
}

pub(super) async fn line_04_a_304_brings_new_validators_and_freshness(stage: Stage) {
    let first = [("ETag", "\"1\""), ("Last-Modified", "one")];
    let same = [("ETag", "\"2\""), ("Cache-Control", "max-age=1800")];
    channels(&stage, &[(200, &first), (304, &same)]).await;
    for log in polls(&stage, 3).await {
        assert_eq!(validators(&log[2]), (Some("\"2\""), Some("one")));
        at_least(&log[1..], &[30 * MINUTE]);
    }
}

pub(super) async fn line_05_validators_belong_to_the_final_address(stage: Stage) {
    let leads = answer(302, &[("Location", "/new")], "");
    let own = ok(&[("ETag", "\"old\"")], feed(&["1"]));
    stage.says("/old", &[leads.clone(), leads.clone(), own.clone(), own, leads]);
    stage.says("/new", &[ok(&[("ETag", "\"new\"")], feed(&["1"]))]);
    stage.follow("Press", &url("/old")).await;
    let new = stage.until_asked("/new", 3).await;
    let old: Vec<_> =
        stage.asked("/old").iter().map(|it| sent(it, "if-none-match").map(str::to_owned)).collect();
    let old: Vec<_> = old.iter().map(Option::as_deref).collect();
    assert_eq!(old[..5], [None, None, None, Some("\"old\""), Some("\"old\"")]);
    let new: Vec<_> = new.iter().map(|it| sent(it, "if-none-match")).collect();
    assert_eq!(new[..3], [None, Some("\"new\""), None], "and the other's are not replayed there");
}

pub(super) async fn line_06_what_could_not_be_read_leaves_no_validators(stage: Stage) {
    let tag = |tag| [("ETag", tag), ("Content-Type", "text/html")];
    let wall = "<title>Just a moment...</title><script>window._cf_chl_opt={}</script>";
    let mut cut = ok(&tag("\"cut\""), feed(&["1", "2"]));
    cut.cut = true;
    stage.says(
        "/feed",
        &[
            ok(&tag("\"good\""), feed(&["1"])),
            ok(&tag("\"page\""), "<html><body>Back soon</body></html>"),
            cut,
            ok(&tag("\"wall\""), wall),
            ok(&[("ETag", "\"gzip\""), ("Content-Encoding", "gzip")], "no gzip"),
            answer(304, &[], ""),
        ],
    );
    stage.follow("Press", &url("/feed")).await;
    let log = stage.until_asked("/feed", 6).await;
    for request in &log[1..6] {
        assert_eq!(sent(request, "if-none-match"), Some("\"good\""));
    }
}

pub(super) async fn line_07_restart_import_and_manual_refresh_stay_conditional(stage: Stage) {
    let tag = [("ETag", "\"1\"")];
    stage.says("/feed", &[ok(&tag, feed(&["1"])), answer(304, &[], "")]);
    stage.says("/page", &[ok(&tag, page("A page", "")), answer(304, &[], "")]);
    stage.follow("Press", &url("/feed")).await;
    stage.submit("/page").await;
    stage
        .world
        .play(|| async { !stage.asked("/feed").is_empty() && stage.asked("/page").len() == 1 })
        .await;
    // A restart, somebody else who brings the same feed, and an operator who asks for everything
    // again.
    stage.follow("The same again", &url("/feed")).await;
    let polls = || stage.asked("/feed").len();
    let before = polls();
    let all = TaskFilter { limit: 100, ..TaskFilter::default() };
    stage.world.store.sweep(Act::Retry, all, false).await.unwrap();
    stage.world.play(|| async { polls() > before && stage.asked("/page").len() >= 2 }).await;
    for path in ["/feed", "/page"] {
        for request in &stage.asked(path)[1..] {
            assert_eq!(sent(request, "if-none-match"), Some("\"1\""), "{path}");
        }
    }
    at_least(&stage.asked("/page"), &[1_000]);
    let article = stage.world.store.totals().await.unwrap().articles;
    assert_eq!(article, 1, "and what was read stays");
}

pub(super) async fn line_08_adding_a_feed_is_one_request(stage: Stage) {
    stage.says("/", &[ok(&[("ETag", "\"1\"")], feed(&["1", "2"]))]);
    stage.follow("Press", &url("/feed")).await;
    stage.world.run_once().await;
    let log = stage.world.newsroom.log();
    let asked: Vec<_> = log.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(asked, ["/feed"], "and the first answer is the first poll");
    assert_eq!(stage.world.store.totals().await.unwrap().entries, 2);
}

pub(super) async fn line_09_differences_are_neither_asked_for_nor_taken(stage: Stage) {
    let first = ok(&[("ETag", "\"1\"")], feed(&["1"]));
    let delta = answer(226, &[("ETag", "\"2\""), ("IM", "feed")], feed(&["2"]));
    stage.says("/feed", &[first, delta]);
    stage.follow("Press", &url("/feed")).await;
    let log = stage.until_asked("/feed", 3).await;
    for request in &log {
        assert_eq!(sent(request, "a-im"), None);
    }
    assert_eq!(sent(&log[2], "if-none-match"), Some("\"1\""));
    let task = stage.world.task(&url("/feed")).await;
    assert_eq!(task.last_error, Some(Code::HttpStatus));
    assert_eq!(stage.world.store.totals().await.unwrap().entries, 1);
}
