//! What monitors see of an engine: every figure that it counts, in one place.
//!
//! The doc comment of a field is its help text and its documentation (docs/METRICS.md is written from
//! it). Labels have few values, whatever is followed: nothing here is told apart by address, host, feed
//! or source. Those figures are the API's. Counting never waits and never fails.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// The media type of [`Metrics::render`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels with values that we choose ourselves.
pub type Labels<const N: usize> = [(&'static str, &'static str); N];
/// A counter for each value of the labels.
pub type Counters<const N: usize> = Family<Labels<N>, Counter>;
/// A gauge for each value of the labels.
pub type Gauges<const N: usize> = Family<Labels<N>, Gauge>;
/// A histogram for each value of the labels.
pub type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;
/// A gauge for each sink, by the name that the operator gave it.
pub type SinkGauges = Family<Vec<(&'static str, String)>, Gauge>;
/// A counter for each sink.
pub type SinkCounters = Family<Vec<(&'static str, String)>, Counter>;
/// A gauge of something that is not counted in whole steps.
pub type Measure = Gauge<f64, std::sync::atomic::AtomicU64>;

/// Sinks told apart at the most: on a shared store each machine may have its own.
const MAX_SINKS: usize = 200;

/// A figure as it is documented.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Described {
    /// The name that monitors know it by.
    pub name: String,
    /// counter, gauge or histogram.
    pub kind: &'static str,
    /// What its series are told apart by.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: String,
}

macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $kind:ident $field:ident: $type:ty = $name:literal $labels:expr, $made:expr;)+) => {
        /// Everything that is counted.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            described: Vec<Described>,
            $($(#[doc = $help])+ pub $field: $type,)+
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("feedmill");
                let mut described = Vec::new();
                $(
                    let $field: $type = $made;
                    let help = concat!($($help),+).trim();
                    described.push(Described::of(stringify!($kind), $name, &$labels, help));
                    register(&mut registry, $name, help, &$field);
                )+
                Self { registry, described, $($field),+ }
            }
        }
    };
}

/// Registers a figure. What is printed ends the help text with a full stop by itself.
fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: &M) {
    registry.register(name, help.trim_end_matches('.'), metric.clone());
}

impl Described {
    fn of(kind: &'static str, name: &str, labels: &'static [&'static str], help: &str) -> Self {
        let total = if kind == "counter" { "_total" } else { "" };
        Self { name: format!("feedmill_{name}{total}"), kind, labels, help: help.to_owned() }
    }
}

/// Seconds of a request: from a local answer to the longest that anybody waits.
fn request_seconds() -> Histogram {
    Histogram::new([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0])
}

/// Seconds of something that is usually done at once.
fn quick_seconds() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0])
}

/// Seconds that something waits: from one to a day.
fn waiting_seconds() -> Histogram {
    Histogram::new([1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0])
}

/// Seconds between polls, and from publication to discovery: from a minute to a month.
fn interval_seconds() -> Histogram {
    Histogram::new([
        60.0,
        120.0,
        300.0,
        600.0,
        900.0,
        1800.0,
        3600.0,
        7200.0,
        21_600.0,
        43_200.0,
        86_400.0,
        604_800.0,
        2_592_000.0,
    ])
}

fn shares() -> Histogram {
    Histogram::new([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
}

fn sizes() -> Histogram {
    Histogram::new([0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 256.0, 1000.0])
}

metrics! {
    /// Requests made, by the class of the answer: 2xx, 304, 3xx, 4xx, 5xx, or none when nothing was answered.
    counter requests: Counters<1> = "requests" ["answer"], Family::default();
    /// Time from the beginning of a request to its last byte, by the kind of task.
    histogram fetch_duration: Histograms<1> = "fetch_duration_seconds" ["kind"], Family::new_with_constructor(request_seconds);
    /// Bytes of body received, as transferred.
    counter bytes_in: Counter = "bytes_in" [], Counter::default();
    /// Bytes of bodies that were read, as transferred and after decompression: their quotient is the compression ratio.
    counter body_bytes: Counters<1> = "body_bytes" ["form"], Family::default();
    /// Bytes that conditional requests saved: what a channel served last, each time that it says that nothing changed.
    counter bytes_saved: Counter = "bytes_saved" [], Counter::default();
    /// Tasks served, by kind and by the code of the outcome (docs/OUTCOMES.md).
    counter outcomes: Counters<2> = "outcomes" ["kind", "code"], Family::default();
    /// Tasks that failed and will be tried again, by code.
    counter retries: Counters<1> = "retries" ["code"], Family::default();
    /// Tasks given up, by code.
    counter given_up: Counters<1> = "given_up" ["code"], Family::default();
    /// Polls of sources' channels that went well, also those that brought nothing new.
    counter sources_fetched: Counter = "sources_fetched" [], Counter::default();
    /// Polls of sources' channels that failed.
    counter sources_failed: Counter = "sources_failed" [], Counter::default();
    /// New items that polls brought.
    counter items_discovered: Counter = "items_discovered" [], Counter::default();
    /// New items that each poll brought that went well.
    histogram poll_new_items: Histogram = "poll_new_items" [], sizes();
    /// Entries that were new or changed.
    counter entries: Counter = "entries" [], Counter::default();
    /// Time from publication, as the feed has it, to discovery, of items that were published since the poll before.
    histogram freshness: Histogram = "freshness_seconds" [], interval_seconds();
    /// The interval to the next poll, each time that one is chosen.
    histogram interval: Histogram = "scheduler_interval_chosen_seconds" [], interval_seconds();
    /// The smoothed time between two items of a channel, each time that a poll of it went well.
    histogram ewma_interval: Histogram = "ewma_interval_seconds" [], interval_seconds();
    /// Articles kept, by how their text was found: the rule that matched, or which of ours.
    counter articles: Counters<1> = "articles" ["method"], Family::default();
    /// How sure the extraction of each article was, 0 to 1.
    histogram confidence: Histogram = "extraction_confidence" [], shares();
    /// Tasks under way in this process, each on another host.
    gauge in_flight: Gauge = "hosts_in_flight" [], Gauge::default();
    /// Those of them that wait for a host's turn, for redirects and robots.txt.
    gauge awaited: Gauge = "turns_awaited" [], Gauge::default();
    /// Time from when a task was due to when it was handed out: its host's pauses, and workers that were busy.
    histogram task_wait: Histograms<1> = "task_wait_seconds" ["lane"], Family::new_with_constructor(waiting_seconds);
    /// Time that a worker waited for a host's turn in the middle of a task, for redirects and robots.txt.
    histogram politeness_wait: Histogram = "politeness_wait_seconds" [], waiting_seconds();
    /// Time that it takes to claim work.
    histogram claim_duration: Histogram = "claim_duration_seconds" [], quick_seconds();
    /// Work such as parsing that took longer than 10 s.
    counter cpu_seats_late: Counter = "cpu_seats_late" [], Counter::default();
    /// CPU seats whose work takes longer than 10 s now.
    gauge cpu_seats_late_now: Gauge = "cpu_seats_late_now" [], Gauge::default();
    /// Outcomes that each commit made true.
    histogram commit_size: Histogram = "commit_size" [], sizes();
    /// Time that each commit took, with the sync of the archive before it.
    histogram commit_duration: Histogram = "commit_duration_seconds" [], quick_seconds();
    /// Outcomes that were turned away because their lease had run out.
    counter stale_leases: Counter = "stale_leases" [], Counter::default();
    /// Bytes written to the archive.
    counter archive_bytes: Counter = "archive_written_bytes" [], Counter::default();
    /// Bytes of the archive's segments on this machine's disk.
    gauge archive_size: Gauge = "archive_bytes" [], Gauge::default();
    /// Events handed to each sink.
    counter delivered: SinkCounters = "sink_delivered" ["sink"], Family::default();
    /// Events that each sink's target would not have, when it refused them.
    counter refused: SinkCounters = "sink_refused" ["sink"], Family::default();
    /// Times that each sink was held up: its target was away or failed.
    counter held_up: SinkCounters = "sink_held_up" ["sink"], Family::default();
    /// Events in the log that each sink has not had yet.
    gauge sink_lag: SinkGauges = "sink_lag_events" ["sink"], Family::default();
    /// Age of the first event that each sink has not had yet; 0 when it has all.
    gauge sink_lag_seconds: SinkGauges = "sink_lag_seconds" ["sink"], Family::default();
    /// Events that each sink's target would not have and that wait for an operator.
    gauge dead_letters: SinkGauges = "sink_dead_letters" ["sink"], Family::default();
    /// Tasks by kind and by where they stand: pending, fetching, fetched, failed, dead or parked.
    gauge tasks: Gauges<2> = "tasks" ["kind", "state"], Family::default();
    /// Tasks whose time has come and that wait for their host or for a worker.
    gauge queue_depth: Gauge = "queue_depth" [], Gauge::default();
    /// Hosts that are known.
    gauge hosts: Gauge = "hosts" [], Gauge::default();
    /// Hosts that are being asked, by all engines on the store.
    gauge hosts_busy: Gauge = "hosts_busy" [], Gauge::default();
    /// Hosts that are blocked for more than an hour from now.
    gauge hosts_blocked: Gauge = "hosts_blocked" [], Gauge::default();
    /// Sources that are followed.
    gauge sources: Gauge = "sources" [], Gauge::default();
    /// Sources that are not followed.
    gauge sources_disabled: Gauge = "sources_disabled" [], Gauge::default();
    /// Channels that are polled, by their health.
    gauge channels: Gauges<1> = "channels" ["health"], Family::default();
    /// Channels that were not polled within twice their interval.
    gauge channels_overdue: Gauge = "channels_overdue" [], Gauge::default();
    /// Requests a day that channels may cost (schedule.budget); 0 for any number.
    gauge budget: Measure = "budget_requests_per_day" [], Measure::default();
    /// Requests that channels cost in the last day.
    gauge spent: Gauge = "budget_requests_spent" [], Gauge::default();
    /// The price of a request in item-seconds, which intervals follow.
    gauge price: Measure = "request_price_item_seconds" [], Measure::default();
    /// Requests of the HTTP server that were refused because as much was going on as may be, by what there was too much of: requests, bodies, streams, uploads, memory, responses or connections.
    counter api_limited: Counters<1> = "api_limited" ["limit"], Family::default();
    /// Logins to the HTTP server that were refused: `no_token` (none was sent), `unknown_token`, or throttled (too many wrong ones from that address).
    counter api_refused_logins: Counters<1> = "api_refused_logins" ["reason"], Family::default();
    /// Bytes of the database.
    gauge database_size: Gauge = "database_bytes" [], Gauge::default();
    /// Bytes of the embedded database's write-ahead log; 0 on a shared one.
    gauge wal_size: Gauge = "database_wal_bytes" [], Gauge::default();
    /// Bytes free on the fullest disk that is written to.
    gauge disk_free: Gauge = "disk_free_bytes" [], Gauge::default();
    /// Whether something holds work up: 1 while the database is away or a disk is full.
    gauge paused: Gauge = "paused" [], Gauge::default();
    /// Time that the last look at the database took, from which the gauges above come.
    gauge sample_duration: Measure = "sample_duration_seconds" [], Measure::default();
}

impl Metrics {
    /// All figures, as Prometheus and others read them (`OpenMetrics`).
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        // A string takes whatever is written to it.
        encode(&mut text, &self.registry).map_or_else(|_| String::new(), |()| text)
    }

    /// All figures as they are documented.
    #[must_use]
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// The page that documents them.
    #[must_use]
    pub fn document(&self) -> String {
        let mut page = String::from(PREFACE);
        for Described { name, kind, labels, help } in &self.described {
            let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
            page.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
        }
        page.push_str(SEEDS);
        page
    }

    /// Forgets what was told of sinks, so that one that is gone does not stay.
    pub fn forget_sinks(&self) {
        for gauge in [&self.sink_lag, &self.sink_lag_seconds, &self.dead_letters] {
            gauge.clear();
        }
    }
}

/// The label of a sink. There are as many as the operator configured, and never very many.
#[must_use]
pub fn sink(name: &str) -> Vec<(&'static str, String)> {
    vec![("sink", name.to_owned())]
}

/// Those of the sinks that are told apart.
pub fn told_apart<T>(sinks: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    sinks.into_iter().take(MAX_SINKS)
}

/// The class of an answer, or that there was none.
#[must_use]
pub const fn answer(status: Option<u16>) -> Labels<1> {
    let class = match status {
        Some(304) => "304",
        Some(100..300) => "2xx",
        Some(300..400) => "3xx",
        Some(400..500) => "4xx",
        Some(_) => "5xx",
        None => "none",
    };
    [("answer", class)]
}

const PREFACE: &str = "\
# Metrics

`/metrics` tells these figures in the OpenMetrics format. Counters begin at 0 when a process starts;
gauges that come from the database are looked at every 15 seconds, or less often where a look takes
long. On a shared store every engine tells its own counters, and all tell the same gauges of the store.

No label has a value for each address, host, feed or source: what each of those does is in the API
(`/api/v1/feeds`, `/api/v1/hosts`) and in `feedmill source show`. `deploy/` has alert rules and a Grafana
dashboard over these figures.

This page is written by `feedmill config metrics`.

| Name | Type | Labels | What it tells |
| --- | --- | --- | --- |
";

/// The names of the designs behind Feedmill, and what stands for them.
const SEEDS: &str = "
## Names from the designs behind Feedmill

| There | Here |
| --- | --- |
| `fetch_count` | `sum(feedmill_outcomes_total)`; requests: `sum(feedmill_requests_total)` |
| `success_rate` | `sum(rate(feedmill_outcomes_total{code=~\"ok|not_modified|redirect\"}[1h])) / sum(rate(feedmill_outcomes_total[1h]))` |
| `304_rate` | `sum(rate(feedmill_requests_total{answer=\"304\"}[1h])) / sum(rate(feedmill_requests_total[1h]))` |
| `error_code_counts` | `sum by (code) (feedmill_outcomes_total)` |
| `bytes_in` | `feedmill_bytes_in_total` |
| `compression_ratio` | `sum(feedmill_body_bytes_total{form=\"decoded\"}) / sum(feedmill_body_bytes_total{form=\"transferred\"})` |
| `average_latency` | `sum(rate(feedmill_fetch_duration_seconds_sum[1h])) / sum(rate(feedmill_fetch_duration_seconds_count[1h]))` |
| `scheduler_interval_chosen` | `feedmill_scheduler_interval_chosen_seconds` |
| `ewma_interval` | `feedmill_ewma_interval_seconds` |
| `retry_counts` | `feedmill_retries_total` |
| `new_entries_count` | `feedmill_poll_new_items`, `feedmill_items_discovered_total` |
| `sources_total` | `feedmill_sources` |
| `sources_fetched_total` | `feedmill_sources_fetched_total` |
| `sources_failed_total` | `feedmill_sources_failed_total` |
| `items_discovered_total` | `feedmill_items_discovered_total` |
| `fetch_duration_seconds` | `feedmill_fetch_duration_seconds` |
| counts of pending to dead | `sum by (state) (feedmill_tasks)`; by source: `feedmill frontier stats` |
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_named_once_and_says_what_it_is() {
        let metrics = Metrics::default();
        let mut names = std::collections::BTreeSet::new();
        for one in metrics.described() {
            assert!(names.insert(one.name.clone()), "{} twice", one.name);
            assert!(one.help.len() > 15 && one.help.ends_with('.'), "{}: {}", one.name, one.help);
            let snake = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(one.name.chars().all(snake), "{}", one.name);
            assert!(["counter", "gauge", "histogram"].contains(&one.kind), "{}", one.kind);
        }
    }

    #[test]
    fn what_is_rendered_has_the_documented_types_and_ends() {
        let metrics = Metrics::default();
        metrics.outcomes.get_or_create(&[("kind", "feed"), ("code", "ok")]).inc();
        metrics.delivered.get_or_create(&sink("out")).inc_by(3);
        let text = metrics.render();
        assert!(text.contains("feedmill_outcomes_total{kind=\"feed\",code=\"ok\"} 1\n"), "{text}");
        assert!(text.contains("feedmill_sink_delivered_total{sink=\"out\"} 3\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        for one in metrics.described() {
            let family = one.name.trim_end_matches("_total");
            let typed = text.lines().find(|line| line.starts_with(&format!("# TYPE {family} ")));
            let kind = typed.map(|line| line.rsplit(' ').next().unwrap());
            assert!(kind.is_none_or(|kind| kind == one.kind), "{family}: {kind:?}");
        }
    }

    #[test]
    fn answers_fall_into_few_classes() {
        let class = |status| answer(status)[0].1;
        assert_eq!(
            [None, Some(200), Some(304), Some(301)].map(class),
            ["none", "2xx", "304", "3xx"]
        );
        assert_eq!([Some(404), Some(503), Some(999)].map(class), ["4xx", "5xx", "5xx"]);
    }

    /// Every figure that REQUIREMENTS names (OBS-01, OBS-02, OBS-10) and the issue after it.
    #[test]
    fn everything_that_was_asked_for_is_there() {
        let asked = [
            ("fetch_count", "feedmill_outcomes_total"),
            ("success_rate", "feedmill_outcomes_total"),
            ("304_rate", "feedmill_requests_total"),
            ("error_code_counts", "feedmill_outcomes_total"),
            ("bytes_in", "feedmill_bytes_in_total"),
            ("compression_ratio", "feedmill_body_bytes_total"),
            ("average_latency", "feedmill_fetch_duration_seconds"),
            ("scheduler_interval_chosen", "feedmill_scheduler_interval_chosen_seconds"),
            ("ewma_interval", "feedmill_ewma_interval_seconds"),
            ("retry_counts", "feedmill_retries_total"),
            ("new_entries_count", "feedmill_poll_new_items"),
            ("sources_total", "feedmill_sources"),
            ("sources_fetched_total", "feedmill_sources_fetched_total"),
            ("sources_failed_total", "feedmill_sources_failed_total"),
            ("items_discovered_total", "feedmill_items_discovered_total"),
            ("fetch_duration_seconds", "feedmill_fetch_duration_seconds"),
            ("counts of pending to dead", "feedmill_tasks"),
        ];
        let more = [
            "feedmill_queue_depth",
            "feedmill_claim_duration_seconds",
            "feedmill_hosts_in_flight",
            "feedmill_politeness_wait_seconds",
            "feedmill_task_wait_seconds",
            "feedmill_freshness_seconds",
            "feedmill_sink_lag_events",
            "feedmill_sink_lag_seconds",
            "feedmill_archive_bytes",
            "feedmill_bytes_saved_total",
            "feedmill_articles_total",
            "feedmill_extraction_confidence",
            "feedmill_budget_requests_per_day",
            "feedmill_request_price_item_seconds",
            "feedmill_commit_size",
            "feedmill_commit_duration_seconds",
            "feedmill_database_wal_bytes",
        ];
        let metrics = Metrics::default();
        let page = metrics.document();
        for (name, figure) in asked.into_iter().chain(more.map(|name| ("", name))) {
            assert!(metrics.described().iter().any(|one| one.name == figure), "{figure}");
            let told = name.is_empty()
                || page.lines().any(|line| {
                    line.starts_with(&format!("| {name} |"))
                        || line.starts_with(&format!("| `{name}` |")) && line.contains(figure)
                });
            assert!(told, "{name} is not told of");
        }
    }
}
