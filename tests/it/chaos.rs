//! Everything at once: three engines on PostgreSQL and one on the embedded database, a tenth of all
//! publishers hostile, while engines are killed, the database's server crashes, connections are cut, the
//! disk fills up and clocks go wrong. At the end every honest story is in every sink exactly once, no
//! publisher was asked impolitely, no engine needed more memory than it may, and readiness told the truth.
//!
//! `FEEDMILL_TEST_CHAOS_SECONDS` says how long there is trouble, `FEEDMILL_TEST_CHAOS_HOSTS` how many
//! publishers there are; `scripts/chaos` sets both.

mod attacks;
mod installation;

use std::time::{Duration, Instant};

use crate::kill::moments;
use crate::outage::Server;
use crate::postgres::server;
use installation::Installation;

/// An engine with ten workers may need so much memory, in kilobytes.
const MAX_RESIDENT_KB: u64 = 400_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread")]
async fn honest_stories_arrive_exactly_once_whatever_else_happens() {
    if server().is_none() {
        return;
    }
    let seconds = setting("FEEDMILL_TEST_CHAOS_SECONDS", 60);
    let hosts = usize::try_from(setting("FEEDMILL_TEST_CHAOS_HOSTS", 60)).unwrap();
    let trouble = Duration::from_secs(seconds);
    let postgres = Server::start().await;
    let mut shared = Installation::start(Some(&postgres), 3, hosts * 3 / 5, trouble).await;
    let mut embedded = Installation::start(None, 1, hosts * 2 / 5, trouble).await;
    shared.all_ready().await;
    embedded.all_ready().await;

    let began = Instant::now();
    for (round, moment) in moments().enumerate() {
        tokio::time::sleep(moment).await;
        if began.elapsed() >= trouble {
            break;
        }
        match round % 9 {
            0 => shared.kill(round / 9),
            1 => embedded.kill(0),
            2 => {
                postgres.crash();
                shared.nobody_ready().await;
                postgres.again();
            }
            3 => shared.cut_sinks(700).await,
            4 => drop(postgres.cut_connections().await),
            5 => embedded.fill_disk().await,
            6 => embedded.cut_sinks(9_000).await,
            7 => embedded.run_years_ahead(0).await,
            _ => {
                shared.plan_far_ahead().await;
                embedded.plan_far_ahead().await;
            }
        }
    }
    for installation in [&mut shared, &mut embedded] {
        installation.all_ready().await;
        installation.everything_arrived().await;
        installation.print_figures();
        let peak = installation.peak_resident_kb();
        assert!(peak < MAX_RESIDENT_KB, "an engine needed {peak} kB");
        installation.stop();
        installation.every_event_once().await;
        installation.nobody_disturbed();
    }
}
