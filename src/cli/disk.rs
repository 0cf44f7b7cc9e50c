//! `feedmill disk`: what takes room, and how much is left.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::places::{self, Taken};
use super::{Context, Failure, text};
use crate::config::Config;

/// Shows what takes room on the disk
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

struct Part {
    name: String,
    path: PathBuf,
    taken: Taken,
}

pub(super) fn run(context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    let unreadable = |path: &Path, error: std::io::Error| {
        Failure::failed("unreadable", format!("cannot look at {}: {error}", path.display()))
    };
    let mut parts = Vec::new();
    for (name, path) in places_of(&config) {
        let taken = places::taken(&path).map_err(|error| unreadable(&path, error))?;
        parts.push(Part { name, path, taken });
    }
    let free =
        places::free(&config.data_dir).map_err(|error| unreadable(&config.data_dir, error))?;
    let limit = config.retention.min_free.as_bytes();
    let total: u64 = parts.iter().map(|part| part.taken.bytes).sum();
    let listed = parts.iter().map(|part| {
        let Taken { files, bytes } = part.taken;
        json!({ "name": part.name, "path": part.path, "files": files, "bytes": bytes })
    });
    let value = json!({
        "parts": listed.collect::<Vec<_>>(),
        "total": total,
        "free": free,
        "min_free": limit,
        "paused": free < limit,
    });
    context.out.emit(&value, |out| {
        let rows = parts.iter().map(|part| {
            let (files, bytes) = (text::number(part.taken.files), text::bytes(part.taken.bytes));
            [part.name.clone(), bytes, files, part.path.display().to_string()]
        });
        let table = out.table(["what", "size", "files", "where"], rows.collect());
        format!(
            "{table}\n\n{} in all, {} free; {}",
            text::bytes(total),
            text::bytes(free),
            verdict(free, limit)
        )
    })
}

fn verdict(free: u64, limit: u64) -> String {
    let shown = text::bytes(limit);
    if free < limit {
        format!("work is paused until {shown} are free (retention.min_free)")
    } else {
        format!("work pauses below {shown} (retention.min_free)")
    }
}

/// What takes room, each with its name.
fn places_of(config: &Config) -> Vec<(String, PathBuf)> {
    let mut places = vec![("archive".to_owned(), config.archive_dir())];
    // A server's database takes room elsewhere.
    if config.postgres_url().is_none() {
        let database = config.database_path();
        let mut wal = database.clone().into_os_string();
        wal.push("-wal");
        places.push(("database".to_owned(), database));
        places.push(("write-ahead log".to_owned(), wal.into()));
    }
    let sinks = config.sinks.keys();
    places.extend(sinks.filter_map(|name| Some((format!("sink {name}"), config.sink_dir(name)?))));
    places
}
