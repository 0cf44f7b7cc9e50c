//! Sharing workers out: a source or a domain with very many hosts leaves some to the others.

use std::collections::HashMap;
use std::sync::Arc;

use feedmill::frontier::WorkerShares;
use feedmill::frontier::fairness::{Flow, FlowKey, Speed, site_number};
use feedmill::model::{EventKind, Kind, Lane, Lease, Next, Source};
use feedmill::store::usage::{SourceUsage, add_usage, day_of, limit_source, usage};

use super::Open;
use super::trial::{
    DAY, PAUSE, TICK, Trial, allow_all, at_priority, begin, feed, owned_by, page, then,
};

const WORKERS: usize = 10;

/// What an engine that holds nothing claims by.
fn idle() -> WorkerShares {
    WorkerShares::new(WORKERS, HashMap::new(), HashMap::new(), 0)
}

async fn claim(trial: &Trial, n: usize, shares: WorkerShares) -> Vec<Lease> {
    trial.store.claim_shared(n, Lane::ALL, shares).await.unwrap()
}

fn of<'a>(source: &Source, leases: &'a [Lease]) -> Vec<&'a Lease> {
    let is_its = |lease: &&Lease| lease.source.as_ref().is_some_and(|of| of.id == source.id);
    leases.iter().filter(is_its).collect()
}

/// A source with important pages on so many hosts, all of them due first.
async fn flood(trial: &Trial, hosts: impl Fn(usize) -> String) -> Source {
    let source = trial.source("flood", &[]).await;
    for at in 0..40 {
        let url = format!("https://{}/", hosts(at));
        trial.submit([owned_by(&source, at_priority(9, page(&url)))]).await;
    }
    trial.pass(TICK);
    source
}

/// Three sources whose feeds are due later and matter less.
async fn papers(trial: &Trial) {
    for at in 0..3 {
        let source = trial.source(&format!("paper{at}"), &[]).await;
        let url = format!("https://paper{at}.example/feed");
        trial.submit([owned_by(&source, at_priority(3, feed(&url)))]).await;
    }
}

pub(super) async fn a_wildcard_domain_leaves_workers_to_others(open: Open) {
    let trial = begin(open).await;
    let flood = flood(&trial, |at| format!("h{at}.wild.example")).await;
    papers(&trial).await;
    let leases = claim(&trial, WORKERS, idle()).await;
    assert_eq!(of(&flood, &leases).len(), WORKERS / 2, "half, and not all");
    assert_eq!(leases.len(), WORKERS / 2 + 3, "whoever else waits is served");
}

pub(super) async fn a_source_with_hosts_everywhere_leaves_workers_to_others(open: Open) {
    let trial = begin(open).await;
    let flood = flood(&trial, |at| format!("site{at}.example")).await;
    papers(&trial).await;
    let leases = claim(&trial, WORKERS, idle()).await;
    assert_eq!(of(&flood, &leases).len(), WORKERS / 2);
    assert_eq!(leases.len(), WORKERS / 2 + 3);
    // It is known by now whose hosts these are: nothing more is handed out while they are held.
    let held = |n| Flow { held: n, speed: Speed::Unknown };
    let sources = HashMap::from([(flood.id.0, held(WORKERS / 2))]);
    let shares = WorkerShares::new(WORKERS, sources, HashMap::new(), 0);
    assert!(claim(&trial, 5, shares).await.is_empty());
    assert_eq!(claim(&trial, 5, WorkerShares::unlimited()).await.len(), 5, "they do wait");
}

pub(super) async fn who_is_fast_gets_what_nobody_else_wants(open: Open) {
    let trial = begin(open).await;
    let flood = flood(&trial, |at| format!("h{at}.wild.example")).await;
    let fast = Flow { held: 1, speed: Speed::Fast };
    let sources = HashMap::from([(flood.id.0, fast)]);
    let sites = HashMap::from([(site_number("wild.example"), fast)]);
    let shares = WorkerShares::new(WORKERS, sources, sites, 0);
    assert_eq!(claim(&trial, WORKERS - 1, shares.clone()).await.len(), WORKERS - 1);
    papers(&trial).await;
    let leases = claim(&trial, WORKERS - 1, shares).await;
    assert_eq!(leases.len(), WORKERS - 1);
    assert_eq!(of(&flood, &leases).len(), WORKERS - 4, "the others come first");
}

pub(super) async fn slow_sites_hold_half_of_the_workers_together(open: Open) {
    let trial = begin(open).await;
    for at in 0..20 {
        trial.submit([at_priority(9, page(&format!("https://a.slow{at}.example/")))]).await;
    }
    papers(&trial).await;
    let slow = |at: usize| {
        let held = usize::from(at < WORKERS / 2);
        (site_number(&format!("slow{at}.example")), Flow { held, speed: Speed::Slow })
    };
    let sites: HashMap<i64, Flow> = (0..20).map(slow).collect();
    let under_way = sites
        .iter()
        .filter(|(_, flow)| flow.held > 0)
        .map(|(site, _)| (FlowKey { source: 1, site: *site }, 4_000));
    let shares =
        WorkerShares::new(WORKERS, HashMap::new(), sites.clone(), 0).holding(under_way, 500);
    let leases = claim(&trial, WORKERS / 2, shares).await;
    assert_eq!(leases.len(), 3, "only who is not slow");
    assert!(leases.iter().all(|lease| lease.task.host.starts_with("paper")));
}

pub(super) async fn pages_leave_workers_to_polls(open: Open) {
    let trial = begin(open).await;
    for at in 0..40 {
        let source = trial.source(&format!("source{at}"), &[]).await;
        let url = format!("https://source{at}.example/");
        trial.submit([owned_by(&source, at_priority(9, page(&url)))]).await;
    }
    trial.pass(TICK);
    papers(&trial).await;
    let leases = claim(&trial, WORKERS, idle()).await;
    let polls = leases.iter().filter(|lease| lease.task.host.starts_with("paper")).count();
    // Nothing is known of anybody: the last quarter of the workers is for those that are fast.
    assert_eq!((leases.len(), polls), (WORKERS - WORKERS / 4, 2), "a quarter of the workers");
}

pub(super) async fn a_quarter_of_the_workers_is_kept_for_fast_sites(open: Open) {
    let trial = begin(open).await;
    papers(&trial).await;
    trial.pass(TICK);
    for lease in claim(&trial, 3, idle()).await {
        let outcome =
            if lease.task.kind == Kind::Robots { allow_all(&lease) } else { then(Next::Fetched) };
        trial.commit(&lease, outcome).await;
        let source = lease.source.as_ref().unwrap();
        let url = format!("https://{}/story", lease.task.host);
        trial.submit([owned_by(source, at_priority(1, page(&url)))]).await;
    }
    for at in 0..40 {
        let source = trial.source(&format!("source{at}"), &[]).await;
        let url = format!("https://source{at}.example/");
        trial.submit([owned_by(&source, at_priority(9, page(&url)))]).await;
    }
    trial.pass(PAUSE);
    let others = WORKERS - WORKERS / 4;
    let unknown = |at: usize| FlowKey { source: -2, site: i64::try_from(at).unwrap() };
    let under_way = (0..others).map(|at| (unknown(at), 0));
    let fast = (0..3).map(|at| site_number(&format!("paper{at}.example")));
    let shares = idle().holding(under_way, 500).with_fast_sites(fast);
    let leases = claim(&trial, WORKERS / 4, shares).await;
    assert_eq!(leases.len(), WORKERS / 4);
    assert!(leases.iter().all(|lease| lease.task.host.starts_with("paper")), "{leases:?}");
}

pub(super) async fn a_source_over_its_quota_gets_nothing_until_the_next_day(open: Open) {
    let trial = begin(open).await;
    let flood = flood(&trial, |at| format!("site{at}.example")).await;
    papers(&trial).await;
    let (store, now) = (&*trial.store, trial.now());
    let (day, added) = (day_of(now), HashMap::from([(flood.id.0, 600), (999, 5)]));
    add_usage(store, day, &added).await.unwrap();
    add_usage(store, day, &added).await.unwrap();
    assert!(limit_source(store, &flood, 1_200, "too much", now).await.unwrap());
    assert!(!limit_source(store, &flood, 1_200, "too much", now).await.unwrap(), "once a day");
    let today = usage(store, day).await.unwrap();
    let known: Vec<_> = today.iter().map(|of| (of.source.0, of.bytes, of.limited_at)).collect();
    assert_eq!(known, [(flood.id.0, 1_200, Some(now)), (999, 10, None)]);
    let event = trial.events().await.pop().unwrap();
    assert_eq!((event.kind, event.source), (EventKind::SourceQuota, Some(flood.id)));
    assert_eq!(event.payload["bytes"], 1_200);

    let stopped = |of: &[SourceUsage]| {
        let limited = of.iter().filter(|of| of.limited_at.is_some()).map(|of| of.source.0);
        idle().without(Arc::new(limited.collect()))
    };
    let leases = claim(&trial, WORKERS, stopped(&today)).await;
    assert_eq!((leases.len(), of(&flood, &leases).len()), (3, 0));
    trial.pass(DAY);
    let tomorrow = usage(store, day_of(trial.now())).await.unwrap();
    assert_eq!(tomorrow, []);
    let leases = claim(&trial, WORKERS, stopped(&tomorrow)).await;
    assert!(!of(&flood, &leases).is_empty(), "it goes on by itself");
}

pub(super) async fn a_host_that_changes_hands_is_not_forgotten(open: Open) {
    let trial = begin(open).await;
    let flood = flood(&trial, |at| format!("site{at}.example")).await;
    let lease = trial.take().await;
    let host = lease.task.host.clone();
    trial.end(&lease, Next::Fetched).await;
    // The same host has a page of somebody else now, and the flood has its share.
    let other = trial.source("other", &[]).await;
    let url = format!("https://{host}/other");
    trial.submit([owned_by(&other, at_priority(10, page(&url)))]).await;
    trial.pass(PAUSE);
    let full = Flow { held: WORKERS / 2, speed: Speed::Unknown };
    let shares = |held: Flow| {
        WorkerShares::new(WORKERS, HashMap::from([(flood.id.0, held)]), HashMap::new(), 0)
    };
    claim(&trial, 5, shares(full)).await;
    // As soon as one of the flood ends, its turn comes.
    let mut found = false;
    for _ in 0..45 {
        let held = Flow { held: WORKERS / 2 - 1, ..full };
        let leases = claim(&trial, 1, shares(held)).await;
        found |= leases.iter().any(|lease| lease.task.host == host);
    }
    assert!(found, "{url} waits for ever");
}
