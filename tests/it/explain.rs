//! Why things are where they are: one call explains every state that a task can be left in.

use feedmill::app::explain::{Explanation, Handed, TaskTold, explain, meaning};
use feedmill::frontier::TaskFilter;
use feedmill::model::{Code, Kind, Lane, Next, Outcome, State};
use feedmill::store::{Commit, Committed};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_addresses_of_a_run_are_explained_each_by_one_call() {
    let world = World::new(30, 42).await;
    world.follow().await;
    world.run_once().await;
    let tasks = world.tasks(TaskFilter::default()).await;
    assert!(tasks.len() >= 1_000, "{}", tasks.len());
    let (mut articles, mut delivered) = (0, 0);
    for task in tasks.iter().take(1_000) {
        let told = of(&world, &task.url).await;
        let told = told.iter().find(|told| told.task.id == task.id).expect("the task itself");
        assert!(!told.verdict.is_empty(), "{task:?}");
        assert!(told.trail.iter().any(|step| step.step == "discovered"), "{told:?}");
        let steps: Vec<_> = told.trail.iter().filter(|step| step.step != "waiting").collect();
        assert!(steps.windows(2).all(|two| two[0].at <= two[1].at), "in order: {:?}", told.trail);
        match task.state() {
            State::Fetched if task.kind == Kind::Article => {
                let article = told.article.as_ref().expect("it was read");
                assert!(!article.method.is_empty() && article.confidence > 0.0, "{article:?}");
                assert!(told.trail.iter().any(|step| step.step == "fetched"), "{told:?}");
                let event = told.deliveries.first().expect("the log tells of it");
                let sink = event.sinks.first().expect("there is a sink");
                assert_eq!(sink.state, Handed::Delivered, "{event:?}");
                (articles, delivered) = (articles + 1, delivered + event.sinks.len());
            }
            State::Dead | State::Failed => {
                let code = task.last_error.expect("a failure has a code");
                assert!(told.verdict.contains(meaning(code)), "{}", told.verdict);
            }
            _ => {}
        }
    }
    assert!(articles > 500 && delivered >= articles, "{articles} articles, {delivered} deliveries");
}
