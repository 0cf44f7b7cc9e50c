//! Serves a newsroom in a process of its own, until it is interrupted. Says where on one line of
//! JSON.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use feedmill_newsroom::{NewsClock, Newsroom, Publisher, Setup};

/// Serve a simulated web of publishers on loopback.
#[derive(Parser)]
struct Flags {
    /// How many publishers there are.
    #[arg(long, default_value_t = 10)]
    publishers: usize,
    /// What everything is drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stories per hour and publisher.
    #[arg(long, default_value_t = 2.0)]
    rate: f64,
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let newsroom = Newsroom::start(Setup {
        publishers: flags.publishers,
        seed: flags.seed,
        rate_per_hour: flags.rate,
        addr: SocketAddr::from((Ipv4Addr::LOCALHOST, flags.port)),
        ..Setup::new(real_time()?)
    })
    .await?;
    let line =
        serde_json::json!({ "addr": newsroom.addr(), "publishers": hosts(newsroom.publishers()) });
    writeln!(std::io::stdout(), "{line}")?;
    tokio::signal::ctrl_c().await?;
    newsroom.stop().await;
    Ok(())
}

fn hosts(publishers: &[Publisher]) -> Vec<serde_json::Value> {
    let entry = |it: &Publisher| {
        serde_json::json!({
            "host": it.host,
            "feed": it.feed_url(),
            "sitemaps": it.sitemap_urls(),
            "listing": it.listing_url(),
        })
    };
    publishers.iter().map(entry).collect()
}

#[expect(clippy::disallowed_methods, reason = "a process of its own is given no clock")]
fn real_time() -> anyhow::Result<NewsClock> {
    let at_start = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let start = Instant::now();
    Ok(Arc::new(move || at_start + start.elapsed().as_millis() as i64))
}
