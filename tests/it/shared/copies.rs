//! The same words, committed by several processes at once.

use feedmill::frontier::Frontier;
use feedmill::model::{EventKind, Lane, Next, Outcome};
use feedmill::store::{Commit, Committed, Store};
use tokio::task::JoinSet;

use super::{done, feed, process, rules};
use crate::contract::ready::article;
use crate::postgres::database;

const PUBLISHERS: usize = 30;

/// What a publisher has: every third the agency's very words, the others with a head of their own.
fn text(publisher: usize) -> String {
    let wire: String = (0..200).map(|n| format!("wire{n} ")).collect();
    let head: String = (0..20).map(|n| format!("p{publisher}x{n} ")).collect();
    if publisher.is_multiple_of(3) { wire } else { format!("{head}{wire}") }
}

fn address(publisher: usize) -> String {
    format!("https://p{publisher}.example/story")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_come_at_once_have_one_first_article() {
    let Some(database) = database().await else { return };
    let mut crowd = JoinSet::new();
    let judge = process(&database, rules()).await;
    judge.submit((0..PUBLISHERS).map(|at| feed(address(at))).collect()).await.unwrap();
    for _ in 0..3 {
        let store = process(&database, rules()).await;
        for _ in 0..4 {
            let store = store.clone();
            crowd.spawn(async move {
                loop {
                    let leases = store.claim(2, Lane::ALL).await.unwrap();
                    if leases.is_empty() {
                        break;
                    }
                    let commits = leases.into_iter().map(|lease| {
                        let at = (0..PUBLISHERS).find(|at| address(*at) == lease.task.url).unwrap();
                        let fact = article(lease.task.id, &lease.task.url, &text(at));
                        let outcome = Outcome { article: Some(fact), ..done(Next::Fetched) };
                        Commit { lease, outcome }
                    });
                    for answer in store.commit(commits.collect()).await {
                        assert_eq!(answer.unwrap(), Committed::Done);
                    }
                }
            });
        }
    }
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
    let events = judge.events_after(0, 1_000).await.unwrap();
    assert_eq!(events.len(), PUBLISHERS, "one for each");
    let copies = judge.copies(events[0].subject.parse().unwrap()).await.unwrap();
    assert_eq!(copies.len(), PUBLISHERS, "all of them are one cluster");
    let first = &copies[0];
    assert!(first.near.is_none() && first.duplicate_of.is_none());
    assert!(copies[1..].iter().all(|row| row.near.as_ref().unwrap().cluster == first.id));
    // Of those with the very same text one had it first, and all others point to that one.
    let wire = copies
        .iter()
        .filter(|row| row.content_hash == *feedmill::model::UrlHash::of(&text(0)).as_bytes());
    let (firsts, others): (Vec<_>, Vec<_>) = wire.partition(|row| row.duplicate_of.is_none());
    assert_eq!((firsts.len(), others.len()), (1, PUBLISHERS / 3 - 1));
    assert!(others.iter().all(|row| row.duplicate_of == Some(firsts[0].id)));
    let told = events.iter().filter(|event| event.kind == EventKind::ArticleDuplicate).count();
    assert_eq!(told, others.len());
}
