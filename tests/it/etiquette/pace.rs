//! Lines 10 to 14: the pace of polls.

use std::time::Duration;

use feedmill::config::{Policy, Span};
use feedmill_newsroom::Logged;

use super::stage::{
    HOUR, MINUTE, Stage, answer, apart, dated, feed, ok, paced, source, spacing, url,
};

const DAY: i64 = 24 * HOUR;
const TAG: (&str, &str) = ("ETag", "\"1\"");

pub(super) async fn line_10_nobody_is_asked_more_often_than_is_polite(mut stage: Stage) {
    // The policy wants to ask as often as it may.
    stage
        .set(|config| {
            config.schedule.policy = Policy::Fixed;
            config.schedule.default_interval = Span::minutes(1);
        })
        .await;
    let busy = dated(50, MINUTE, stage.world.clock.now());
    let minutes = |minutes| Some(Duration::from_mins(minutes));
    let fresh = ("Cache-Control", "max-age=600");
    for (path, headers, interval) in [
        ("/tagged", &[TAG][..], None),
        ("/blind", &[], None),
        ("/fresh", &[fresh], None),
        ("/ordered", &[], minutes(20)),
        ("/rushed", &[], minutes(1)),
    ] {
        stage.says(path, &[ok(headers, busy.clone())]);
        stage
            .add(feedmill::model::NewSource { poll_interval: interval, ..source(path, &url(path)) })
            .await;
    }
    stage.until_asked("/blind", 3).await;
    for (path, apart_by) in [
        ("/tagged", 5 * MINUTE),
        ("/blind", HOUR),
        ("/fresh", 10 * MINUTE),
        ("/ordered", 20 * MINUTE),
        ("/rushed", 5 * MINUTE),
    ] {
        let log = stage.asked(path);
        assert!(log.len() > 2, "{path}");
        apart(&log, &vec![apart_by; log.len() - 1]);
    }
}

pub(super) async fn line_11_what_is_fresh_is_not_asked_for(stage: Stage) {
    let age = |seconds| ("Cache-Control", seconds);
    let until = ("Expires", "Mon, 16 Nov 2026 11:00:00 GMT");
    stage.says(
        "/fresh",
        &[
            ok(&[TAG, age("public, max-age=1800")], feed(&["1"])),
            answer(304, &[age("max-age=3600")], ""),
            answer(304, &[until], ""),
            // Absurd in both directions.
            answer(304, &[age("max-age=1")], ""),
            answer(304, &[age("max-age=99999999999999999999999")], ""),
            answer(304, &[("Expires", "Fri, 31 Dec 9999 23:59:59 GMT")], ""),
        ],
    );
    let welcome = "<!doctype html><html><body><h1>Welcome</h1></body></html>";
    let errors = [
        ("/lost", answer(404, &[age("max-age=7200")], ""), 2 * HOUR),
        ("/broken", answer(500, &[age("max-age=3600")], ""), HOUR),
        ("/page", ok(&[age("max-age=7200")], welcome), 2 * HOUR),
        ("/empty", ok(&[age("max-age=7200")], ""), 2 * HOUR),
    ];
    for (path, error, _) in &errors {
        stage.says(path, &[error.clone(), ok(&[TAG, age("max-age=86400")], feed(&["1"]))]);
        stage.follow(path, &url(path)).await;
    }
    stage.follow("/fresh", &url("/fresh")).await;
    let log = stage.until_asked("/fresh", 7).await;
    apart(&log, &[30 * MINUTE, HOUR]);
    let eleven: feedmill::model::Ts = "2026-11-16T11:00:00Z".parse().unwrap();
    assert!(log[3].began >= eleven.ms(), "it expired at eleven");
    apart(&log[3..], &[5 * MINUTE, DAY, DAY]);
    for (path, _, wait) in errors {
        let waited = spacing(&stage.asked(path))[0];
        assert!((wait..wait + wait / 10 + MINUTE).contains(&waited), "{path}: {waited}");
    }
}

/// The hour of the week at which a request was made, from Monday.
fn hour(request: &Logged) -> i64 {
    // The first of January 1970 was a Thursday.
    (request.began / HOUR + 3 * 24) % (7 * 24)
}

pub(super) async fn line_12_wishes_of_a_document_are_kept(stage: Stage) {
    let often = |period: &str, times: &str| {
        format!(
            "<sy:updatePeriod>{period}</sy:updatePeriod>\
             <sy:updateFrequency>{times}</sy:updateFrequency>"
        )
    };
    let says = |wishes: &str| ok(&[TAG], paced(wishes));
    let unchanged = answer(304, &[], "");
    let ttl = says("<ttl>40</ttl>");
    let half_hourly = says(&often("hourly", "2"));
    stage.says("/kept", &[ttl, unchanged.clone(), half_hourly, unchanged, says("<ttl>1440</ttl>")]);
    stage.says(
        "/wrong",
        &[
            says("<ttl>0</ttl>"),
            says("<ttl>0.1</ttl>"),
            says(&often("hourly", "300")),
            says(&often("dayly", "1")),
            says(&often("yearly", "0.1")),
            says("<ttl>99999999999</ttl>"),
        ],
    );
    let hours = |hours: std::ops::RangeInclusive<u8>| {
        let hours: String = hours.map(|hour| format!("<hour>{hour}</hour>")).collect();
        says(&format!("<skipHours>{hours}</skipHours>"))
    };
    let monday = says("<skipDays><day>Monday</day></skipDays>");
    stage.says("/quiet", &[hours(8..=11), monday, hours(0..=23), says("<ttl>1440</ttl>")]);
    for path in ["/kept", "/wrong", "/quiet"] {
        stage.follow(path, &url(path)).await;
    }
    let wrong = stage.until_asked("/wrong", 7).await;
    apart(&wrong, &[5 * MINUTE, 5 * MINUTE, 5 * MINUTE, DAY, DAY, DAY]);
    apart(&stage.asked("/kept"), &[40 * MINUTE, 40 * MINUTE, 30 * MINUTE, 30 * MINUTE]);
    let quiet = stage.asked("/quiet");
    let when: Vec<_> = quiet.iter().take(3).map(hour).collect();
    assert_eq!(when, [8, 12, 24], "on Monday at eight nobody knew yet");
    apart(&quiet[2..], &[5 * MINUTE, DAY]);
}

pub(super) async fn line_13_spacing_outlasts_restarts_and_clock_steps(mut stage: Stage) {
    stage.set(|config| config.schedule.default_interval = "1h".parse().unwrap()).await;
    stage.says("/feed", &[ok(&[TAG], feed(&["1"])), answer(304, &[], "")]);
    stage.follow("Press", &url("/feed")).await;
    let pass = |minutes| Duration::from_mins(minutes);
    // Each time the engine is another one. It was away for some of the hour, or for a moment.
    stage.until_asked("/feed", 1).await;
    stage.world.pass(pass(44));
    stage.until_asked("/feed", 2).await;
    stage.until_asked("/feed", 3).await;
    stage.world.pass(pass(59));
    stage.until_asked("/feed", 4).await;
    // The clock is set back while the engine is away: what it left ahead is planned again, and the
    // spacing stays.
    let back = stage.world.clock.now().before(pass(30));
    stage.world.set_clock(back).await;
    // Time leaps to what is due: an engine has to look at the stored times before that.
    stage.world.run_once().await;
    stage.until_asked("/feed", 6).await;
    let log = stage.asked("/feed");
    apart(&log, &[HOUR, HOUR, HOUR, HOUR, HOUR]);
}

pub(super) async fn line_13_a_clock_years_ahead_does_not_stop_polls(mut stage: Stage) {
    stage.set(|config| config.schedule.default_interval = "1h".parse().unwrap()).await;
    let (whole, same) = (ok(&[TAG], feed(&["1"])), answer(304, &[], ""));
    // What was read by the wrong clock is read again.
    stage.says("/feed", &[whole.clone(), same.clone(), whole, same]);
    stage.follow("Press", &url("/feed")).await;
    stage.until_asked("/feed", 1).await;
    let right = stage.world.clock.now();
    let wrong = right.after(Duration::from_hours(10 * 365 * 24));
    stage.world.set_clock(wrong).await;
    stage.until_asked("/feed", 2).await;
    let passed = stage.world.clock.now().since(wrong);
    stage.world.set_clock(right.after(passed)).await;
    stage.world.run_once().await;
    stage.until_asked("/feed", 4).await;
    let asked = stage.asked("/feed");
    // The poll by the wrong clock came out of a backlog: the one after it is spread by half an interval.
    let first = asked[2].began - asked[1].began;
    assert!((HOUR - MINUTE..=HOUR * 8 / 5).contains(&first), "{first}");
    apart(&asked[2..], &[HOUR]);
}

/// When the polls of a round began, without what came before.
fn round(stage: &Stage, feeds: &[String], nth: usize) -> Vec<i64> {
    let mut began: Vec<i64> = feeds.iter().map(|path| stage.asked(path)[nth].began).collect();
    began.sort_unstable();
    began
}

/// From the first to the last.
fn span(began: &[i64]) -> i64 {
    began[began.len() - 1] - began[0]
}

pub(super) async fn line_14_polls_do_not_align_and_a_backlog_is_spread(mut stage: Stage) {
    stage.set(|config| config.schedule.default_interval = "1h".parse().unwrap()).await;
    let feeds: Vec<String> = (0..24).map(|n| format!("/feeds/{n}")).collect();
    stage.says("/feeds/", &[ok(&[TAG], feed(&["1"]))]);
    for path in &feeds {
        stage.follow(path, &url(path)).await;
    }
    let asked = |times| {
        let (stage, feeds) = (&stage, &feeds);
        move || async move { feeds.iter().all(|path| stage.asked(path).len() >= times) }
    };
    stage.world.play(asked(6)).await;
    let later = round(&stage, &feeds, 2);
    assert!(span(&later) >= 2 * MINUTE, "they were all added in one moment: {later:?}");
    // As many fall into the first tenth of a minute as into any other. Those of one round stand in heaps, as the
    // host's own pace puts them behind each other: several rounds even them out.
    let polls: Vec<_> = (2..6).flat_map(|times| round(&stage, &feeds, times)).collect();
    let full = polls.iter().filter(|began| **began % MINUTE < 6_000).count();
    assert!(full <= polls.len() / 3, "{polls:?}");

    stage.world.pass(Duration::from_hours(6));
    stage.world.play(asked(8)).await;
    let backlog = round(&stage, &feeds, 6);
    let pauses: Vec<_> = backlog.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| *pause >= 1_000), "at the host's own pace: {pauses:?}");
    let after = round(&stage, &feeds, 7);
    assert!(span(&after) >= 20 * MINUTE, "and not as one heap again: {after:?}");
}
