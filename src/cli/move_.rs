//! `feedmill move`: from one database to another.

use std::time::Instant;

use serde_json::json;

use super::meter::meter;
use super::{Context, Failure, text};
use crate::app::carry::{Move, Moved, Place, move_store};
use crate::config::{Config, Level};

/// Moves everything to another database, and compares both row by row
///
/// Engines on either side have to be stopped first. A move that was interrupted goes on where it
/// was when it is run again. The source stays as it is; the archive and the output stay where they
/// are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill move --to postgres://feedmill:password@db.example:5432/feedmill
  feedmill move --from postgres://feedmill@db.example/feedmill --to /var/lib/feedmill/feedmill.db")]
pub(super) struct Args {
    /// The new database: the address of a PostgreSQL server, or a path
    #[arg(long, value_name = "URL", env = "FEEDMILL_MOVE_TO", hide_env_values = true)]
    to: String,
    /// The old database [default: the configured one]
    #[arg(long, value_name = "URL", env = "FEEDMILL_MOVE_FROM", hide_env_values = true)]
    from: Option<String>,
    /// Throws away what an unfinished move left in the new database, and begins again
    #[arg(long)]
    restart: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let loaded = context.load()?;
    context.log(&loaded, Level::Warn, None);
    let config = &loaded.config;
    let from = match &args.from {
        Some(from) => place("--from", from)?,
        None => Place::configured(config),
    };
    let what = Move { from, to: place("--to", &args.to)?, restart: args.restart };
    let began = Instant::now();
    let moved = move_store(config, &context.clock, &what, meter(context)).await?;
    let seconds = began.elapsed().as_secs_f64();
    let value = json!({
        "from": what.from.to_string(), "to": what.to.to_string(), "moved": moved,
        "seconds": seconds, "database_url": what.to.setting(config),
    });
    context.out.emit(&value, |_| told(&moved, &what.to, seconds, config))
}

/// What cannot be read is not repeated: it may hold a password.
fn place(flag: &str, text: &str) -> Result<Place, Failure> {
    text.parse().map_err(|error| Failure::usage("bad_place", format!("{flag} {error}")))
}

fn told(moved: &Moved, to: &Place, seconds: f64, config: &Config) -> String {
    let tables = moved.carried.tables.iter().filter(|(_, rows)| **rows > 0);
    let tables: Vec<_> =
        tables.map(|(name, rows)| format!("{name} {}", text::number(*rows))).collect();
    let resumed = match moved.carried.resumed {
        0 => String::new(),
        rows => format!(", {} of them by an earlier run", text::number(rows)),
    };
    let freed = match moved.freed {
        0 => String::new(),
        leases => format!("; {} ended", text::count(leases, "lease")),
    };
    let rows = text::count(moved.carried.rows, "row");
    let next = match to.setting(config).as_str() {
        "" => "leave database.url in your configuration empty".to_owned(),
        url => format!("set in your configuration: database.url = \"{url}\""),
    };
    format!(
        "moved {rows} to {to} in {seconds:.1} s{resumed}, and compared them all{freed}\n{}\n\nNext:\n  \
         {next}\n  feedmill run",
        tables.join(", ")
    )
}
