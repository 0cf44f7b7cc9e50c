//! Why things are where they are: one call explains every state that a task can be left in.

use std::collections::BTreeMap;

use feedmill::app::explain::{Explanation, Handed, Step, TaskTold, explain, meaning};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Code, Kind, Lane, Next, Outcome, State, Task};
use feedmill::store::{Commit, Committed};
use feedmill_newsroom::{Fault, RetryAfter, Span};

use crate::api::Server;
use crate::kill::binary;
use crate::support::World;

async fn of(world: &World, url: &str) -> Vec<TaskTold> {
    let now = world.clock.now();
    match explain(url, &world.config, &*world.store, now).await.unwrap() {
        Explanation::Address(told) => told.tasks,
        other => panic!("{url} is an address: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_code_is_explained_wherever_it_left_a_task() {
    let world = World::new(1, 0).await;
    let at = |n: usize, state: &str| format!("https://{state}{n}.example/feed");
    for (n, _) in Code::ALL.iter().enumerate() {
        for state in ["dead", "failed"] {
            world.submit(&at(n, state), Kind::Feed).await;
        }
    }
    let leases = world.store.claim(1_000, Lane::ALL).await.unwrap();
    assert_eq!(leases.len(), Code::ALL.len() * 2);
    for lease in leases {
        let number: String = lease.task.host.chars().filter(char::is_ascii_digit).collect();
        let code = Code::ALL[number.parse::<usize>().unwrap()];
        let next = match lease.task.host.starts_with("dead") {
            true => Next::Dead { code },
            false => Next::Retry { at: lease.now.after(std::time::Duration::from_hours(9)), code },
        };
        let outcome = Outcome::new(code, next, "as a test said");
        let done = world.store.commit(vec![Commit { lease, outcome }]).await;
        assert_eq!(done[0].as_ref().unwrap(), &Committed::Done);
    }
    for (n, code) in Code::ALL.iter().enumerate() {
        for (state, words) in [("dead", "it was given up"), ("failed", "it is tried again at")] {
            let told = of(&world, &at(n, state)).await;
            let [told] = told.as_slice() else { panic!("{code}: {told:?}") };
            let verdict = &told.verdict;
            assert!(verdict.contains(words) && verdict.contains(meaning(*code)), "{verdict}");
            assert!(verdict.contains(code.as_str()), "{verdict}");
            assert!(verdict.contains("as a test said"), "{verdict}");
            let waits = told.trail.iter().any(|step| step.step == "waiting");
            assert_eq!(waits, state == "failed", "{told:?}");
        }
    }
}

/// Lets some of the stories fail in the ways that pages do.
fn trouble(world: &World) {
    let faults = [
        Fault::Status(404),
        Fault::Status(410),
        Fault::Status(500),
        Fault::Status(403),
        Fault::RedirectLoop,
        Fault::Truncate,
        Fault::Empty,
        Fault::RedirectChain(2),
    ];
    // Some hosts do not want to be asked for a while, and everything of them waits.
    let slow_down = Fault::TooManyRequests { retry_after: RetryAfter::Seconds(864_000) };
    let faults = std::iter::repeat_n(&slow_down, 3).chain(faults.iter().cycle());
    let stories = world.newsroom.published(i64::MAX);
    for (story, fault) in stories.iter().step_by(11).zip(faults) {
        let rest = story.url.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        world.newsroom.misbehave(host, &format!("/{path}"), fault.clone(), Span::Always);
    }
}

/// Numbers that look random and are the same in every run.
fn shuffled(mut tasks: Vec<Task>) -> Vec<Task> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for at in (1..tasks.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        tasks.swap(at, (state % (at as u64 + 1)) as usize);
    }
    tasks
}

/// What is told of each step of this name.
fn steps<'t>(told: &'t TaskTold, name: &str) -> Vec<&'t Step> {
    told.trail.iter().filter(|step| step.step == name).collect()
}

fn tells(steps: &[&Step], words: &str) -> bool {
    steps.iter().any(|step| step.told.contains(words))
}

/// Discovered by which channel: the truth is the newsroom's.
fn hold_discovered(world: &World, told: &TaskTold) {
    let found = steps(told, "discovered");
    assert!(found.iter().all(|step| step.at.is_some()), "{found:?}");
    let Some(story) = world.newsroom.story(&told.task.url) else {
        assert!(!found.is_empty(), "{told:?}");
        return;
    };
    let publisher = &world.newsroom.publishers()[story.publisher];
    let channels = publisher.feed_url().into_iter().chain(publisher.sitemap_urls());
    let from = channels.into_iter().find(|channel| tells(&found, channel));
    let by_index = tells(&found, &format!("by sitemap http://{}", publisher.host));
    // Or by an address that led there.
    let led = found.iter().flat_map(|step| step.told.split(' '));
    let led = led.into_iter().any(|word| world.newsroom.story(word).is_some());
    assert!(from.is_some() || by_index || led, "no channel of {}: {found:?}", publisher.host);
    assert!(tells(&found, &format!(" of {}", publisher.host)), "no source: {found:?}");
}

/// Fetched when with which answer: as the store has it.
async fn hold_fetched(world: &World, told: &TaskTold) {
    let (fetched, known) = (steps(told, "fetched"), world.store.fetches(told.task.id, 5).await);
    let known = known.unwrap();
    assert_eq!(fetched.len(), known.len(), "{told:?}");
    for fetch in known {
        let status = fetch.status.map_or_else(|| "no answer".to_owned(), |it| it.to_string());
        let is = |step: &&&Step| step.at == Some(fetch.at) && step.told.starts_with(&status);
        let step = fetched.iter().find(is).unwrap_or_else(|| panic!("{fetch:?}: {fetched:?}"));
        assert!(step.told.contains(fetch.code.as_str()), "{step:?}");
        assert!(step.told.contains(meaning(fetch.code)), "{step:?}");
    }
}

/// Extracted how, deduplicated into what, delivered where; whether it was a copy.
async fn hold_read(world: &World, told: &TaskTold) -> bool {
    let article = told.article.as_ref().expect("it was read");
    let (row, _) = world.store.article(article.id).await.unwrap().expect("it is kept");
    let extracted = steps(told, "extracted");
    let how =
        format!("article {}: {} words by {}", row.id, row.article.word_count, row.article.method);
    assert!(tells(&extracted, &how), "{how}: {extracted:?}");
    let deduplicated = steps(told, "deduplicated");
    if let Some(of) = row.duplicate_of {
        assert!(tells(&deduplicated, &format!("the very text of article {of}")), "{told:?}");
    }
    if let Some(near) = &row.near {
        assert!(tells(&deduplicated, &format!("article {}", near.cluster)), "{told:?}");
    }
    let kind = if row.duplicate_of.is_some() { "article.duplicate" } else { "article.new" };
    let delivered = steps(told, "delivered");
    assert!(tells(&delivered, &format!("{kind} (event ")), "{kind}: {delivered:?}");
    assert!(tells(&delivered, "delivered to ndjson"), "{delivered:?}");
    let event = told.deliveries.first().expect("the log tells of it");
    assert!(event.sinks.iter().all(|sink| sink.state == Handed::Delivered), "{event:?}");
    row.duplicate_of.is_some() || row.near.is_some()
}

/// Waiting for what: until when, and why.
fn hold_waiting(told: &TaskTold) {
    let waiting = steps(told, "waiting");
    let due = waiting.iter().find(|step| step.at == Some(told.task.next_fetch_at));
    let due = due.unwrap_or_else(|| panic!("nothing says until when: {told:?}"));
    let reason = told.task.reason.as_deref().unwrap_or_default();
    assert!(due.told.contains(reason), "{due:?} does not say {reason}");
    assert!(told.verdict.contains(&told.task.next_fetch_at.to_string()), "{}", told.verdict);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_addresses_of_a_run_are_explained_each_by_one_call() {
    let mut world = World::new(30, 36).await;
    // A machine that is busy would never have done all that is due.
    world.config.schedule.default_interval = feedmill::config::Span::minutes(7 * 24 * 60);
    world.config.schedule.sitemap_interval = feedmill::config::Span::minutes(7 * 24 * 60);
    world.follow().await;
    trouble(&world);
    world.run_once().await;
    let tasks = world.tasks(TaskFilter::default()).await;
    assert!(tasks.len() >= 1_000, "{}", tasks.len());
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for task in shuffled(tasks).into_iter().take(1_000) {
        let told = of(&world, &task.url).await;
        let told = told.iter().find(|told| told.task.id == task.id).expect("the task itself");
        let steps: Vec<_> = told.trail.iter().filter(|step| step.step != "waiting").collect();
        assert!(steps.windows(2).all(|two| two[0].at <= two[1].at), "in order: {:?}", told.trail);
        hold_discovered(&world, told);
        hold_fetched(&world, told).await;
        let what = match task.state() {
            State::Fetched if task.kind == Kind::Article => {
                if hold_read(&world, told).await { "copy" } else { "article" }.to_owned()
            }
            State::Fetched => "fetched".to_owned(),
            State::Dead => {
                let code = task.last_error.expect("what was given up has a code");
                let said = format!("it was given up: {} ({code})", meaning(code));
                assert!(told.verdict.starts_with(&said), "{said}: {}", told.verdict);
                assert!(
                    told.verdict.contains(task.reason.as_deref().expect("a reason")),
                    "{told:?}"
                );
                format!("dead: {code}")
            }
            state @ (State::Pending | State::Failed) => {
                hold_waiting(told);
                format!("{state:?}: {:?}", task.last_error)
            }
            state => panic!("nothing is left {state:?} when all is done: {told:?}"),
        };
        *seen.entry(what).or_default() += 1;
    }
    // The run was one that had all of it.
    assert!(seen["article"] > 500 && seen["copy"] > 4, "{seen:?}");
    for what in ["dead: not_found", "dead: gone", "dead: forbidden", "dead: redirect_loop"] {
        assert!(seen.contains_key(what), "{what}: {seen:?}");
    }
    for what in ["Failed: ", "Pending: "] {
        assert!(seen.keys().any(|seen| seen.starts_with(what)), "{what}: {seen:?}");
    }
}

/// The command line, the API and the program itself tell the same.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_is_told_the_same() {
    let world = World::new(2, 3).await;
    world.follow().await;
    world.run_once().await;
    let server = Server::start(&world, |_| {}).await;
    let publisher = &world.newsroom.publishers()[0];
    let story = world.newsroom.published(i64::MAX).first().unwrap().url.clone();
    let spelled = format!("{story}?utm_source=a-test");
    for what in [story.as_str(), &spelled, &publisher.host, &publisher.feed_url().unwrap()] {
        let path = format!("/api/v1/explain?q={}", what.replace('?', "%3F").replace('=', "%3D"));
        let mut answered = server.json(&path).await;
        let mut command = binary();
        command.args(["explain", what, "--json", "--data-dir"]).arg(&world.config.data_dir);
        command.env("FEEDMILL_CLOCK", world.clock.scale().unwrap().to_string());
        let said = command.output().unwrap();
        let mut said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        // What waits now may be over a moment later.
        for told in [&mut answered, &mut said] {
            told.as_object_mut().unwrap().remove("waits");
        }
        assert_eq!(answered, said, "{what}");
    }
    let told = of(&world, &spelled).await;
    assert!(tells(&steps(&told[0], "deduplicated"), &format!("the same address as {story}")));
    server.stop().await;
}
