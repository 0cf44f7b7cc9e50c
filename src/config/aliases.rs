//! Environment variables of other tools that mean one of our keys, so that a deployment can move
//! over without being rewritten. Our own `FEEDMILL_…` names win over them.

/// How a variable's text becomes the text of our key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Convert {
    AsIs,
    /// A number of milliseconds.
    Millis,
    /// Requests per second; ours is the time between two of them.
    PerSecond,
    /// In lower case.
    Lower,
    /// A database URL, or the bare path of a database file.
    Dsn,
}

/// Variable, key, and how to convert. Of several for one key, the first that is set counts.
pub const ALIASES: [(&str, &str, Convert); 22] = [
    ("WORKER_COUNT", "fetch.workers", Convert::AsIs),
    ("NEWSFED_CONCURRENCY", "fetch.workers", Convert::AsIs),
    ("FEED_POLLER_MAX_CONCURRENCY", "fetch.workers", Convert::AsIs),
    ("USER_AGENT", "fetch.agent", Convert::AsIs),
    ("REQUEST_TIMEOUT", "fetch.request_timeout", Convert::AsIs),
    ("FETCH_TIMEOUT_MS", "fetch.request_timeout", Convert::Millis),
    ("NEWSFED_FETCH_TIMEOUT", "fetch.task_timeout", Convert::AsIs),
    ("MAX_BODY_BYTES", "fetch.max_body", Convert::AsIs),
    ("MAX_RETRIES", "retry.max", Convert::AsIs),
    ("NEWSFED_POLL_INTERVAL", "schedule.default_interval", Convert::AsIs),
    ("NEWSFED_DISABLE_THRESHOLD", "schedule.failure_threshold", Convert::AsIs),
    ("SCHED_MIN_INTERVAL_SEC", "schedule.min_interval", Convert::AsIs),
    ("SCHED_MAX_INTERVAL_SEC", "schedule.max_interval", Convert::AsIs),
    ("SCHED_JITTER_RATIO", "schedule.jitter", Convert::AsIs),
    ("HOST_RPS", "hosts.delay", Convert::PerSecond),
    ("HOST_MAX_CONCURRENCY", "hosts.concurrency", Convert::AsIs),
    ("LOG_LEVEL", "log.level", Convert::Lower),
    ("LOG_FORMAT", "log.format", Convert::Lower),
    ("FRONTIER_DB_URL", "database.url", Convert::Dsn),
    ("NEWSFED_METADATA_DSN", "database.url", Convert::Dsn),
    ("SOURCE_MANAGER_URL", "sources.manager.url", Convert::AsIs),
    ("FETCHER_SOURCE_MANAGER_URL", "sources.manager.url", Convert::AsIs),
];

impl Convert {
    /// The text for our key, or what the variable must be.
    pub(super) fn apply(self, raw: &str) -> Result<String, &'static str> {
        let raw = raw.trim();
        match self {
            Self::AsIs => Ok(raw.to_owned()),
            Self::Lower => Ok(raw.to_ascii_lowercase()),
            Self::Millis if raw.parse::<u64>().is_ok() => Ok(format!("{raw}ms")),
            Self::Millis => Err("a number of milliseconds"),
            Self::PerSecond => match raw.parse::<f64>() {
                Ok(rate) if rate > 0.0 => Ok(format!("{}ms", (1000.0 / rate).ceil())),
                _ => Err("a number of requests per second above 0"),
            },
            // A scheme of one letter is a drive, so a colon early on does not make a URL.
            Self::Dsn => match raw.find(':') {
                Some(2..) => Ok(raw.to_owned()),
                _ => Ok(format!("file:{raw}")),
            },
        }
    }

    /// What the reference says beside the variable's name.
    pub(super) fn note(self) -> &'static str {
        match self {
            Self::Millis => " (milliseconds)",
            Self::PerSecond => " (requests per second)",
            Self::AsIs | Self::Lower | Self::Dsn => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_converted() {
        for (convert, raw, expected) in [
            (Convert::AsIs, " 20 ", Ok("20")),
            (Convert::Lower, "INFO", Ok("info")),
            (Convert::Millis, "2500", Ok("2500ms")),
            (Convert::Millis, "2s", Err("a number of milliseconds")),
            (Convert::PerSecond, "2", Ok("500ms")),
            (Convert::PerSecond, "0.2", Ok("5000ms")),
            (Convert::PerSecond, "3", Ok("334ms")),
            (Convert::PerSecond, "0", Err("a number of requests per second above 0")),
            (Convert::PerSecond, "NaN", Err("a number of requests per second above 0")),
            (Convert::Dsn, "feeds.db", Ok("file:feeds.db")),
            (Convert::Dsn, "file:feeds.db", Ok("file:feeds.db")),
            (Convert::Dsn, "postgres://db.example/news", Ok("postgres://db.example/news")),
        ] {
            assert_eq!(convert.apply(raw), expected.map(str::to_owned), "{raw}");
        }
    }
}
