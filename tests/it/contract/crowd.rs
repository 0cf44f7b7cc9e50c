//! Many workers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use feedmill::clock::Clock;
use feedmill::frontier::Rules;
use feedmill::model::{Lane, Next};
use feedmill::store::{Commit, Committed, Store};
use tokio::task::JoinSet;

use super::Open;
use super::trial::{feed, rules, then};

const WORKERS: usize = 20;
const HOSTS: usize = 50;
const ADDRESSES: usize = 500;

#[derive(Default)]
struct Board {
    busy: BTreeSet<String>,
    done: BTreeMap<String, usize>,
}

pub(super) async fn twenty_workers_do_every_address_once(open: Open) {
    let trial = open(Clock::system(), Rules { delay: Duration::ZERO.into(), ..rules() }).await;
    let batch: Vec<_> =
        (0..ADDRESSES).map(|at| feed(&format!("https://h{}.example/{at}", at % HOSTS))).collect();
    assert_eq!(trial.store.submit(batch).await.unwrap().new, ADDRESSES as u64);
    let board = Arc::new(Mutex::new(Board::default()));
    let mut crowd = JoinSet::new();
    for worker in 0..WORKERS {
        crowd.spawn(work(worker, Arc::clone(&trial.store), Arc::clone(&board)));
    }
    crowd.join_all().await;
    assert_eq!(trial.store.stats().await.unwrap().total.fetched, ADDRESSES as u64);
    let board = board.lock().unwrap();
    assert_eq!(board.done.len(), ADDRESSES);
    assert!(board.done.values().all(|times| *times == 1));
    assert!(board.busy.is_empty());
}

/// Claims and completes, a few at a time, until everything is done.
async fn work(worker: usize, store: Arc<dyn Store>, board: Arc<Mutex<Board>>) {
    loop {
        let leases = store.claim(1 + worker % 4, Lane::ALL).await.unwrap();
        for lease in &leases {
            let free = board.lock().unwrap().busy.insert(lease.task.host.clone());
            assert!(free, "{} has two live leases", lease.task.host);
        }
        if leases.is_empty() {
            if board.lock().unwrap().done.len() == ADDRESSES {
                return;
            }
            tokio::task::yield_now().await;
        }
        for lease in leases {
            {
                // The next worker may have the host as soon as the commit is in.
                let mut board = board.lock().unwrap();
                board.busy.remove(&lease.task.host);
                *board.done.entry(lease.task.url.clone()).or_default() += 1;
            }
            let commit = Commit { lease, outcome: then(Next::Fetched) };
            let answer = store.commit(vec![commit]).await.pop().unwrap();
            assert_eq!(answer.unwrap(), Committed::Done);
        }
    }
}
