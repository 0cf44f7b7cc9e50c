//! Integration tests: one binary, real sockets, real files.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod api;
mod architecture;
mod archive;
mod articles;
mod backup;
mod blocked;
mod browser;
mod bucket;
mod chaos;
mod cli;
mod client;
mod contract;
mod damage;
mod deploy;
mod disk;
mod engines;
mod etiquette;
mod examples;
mod explain;
mod export;
mod fairness;
mod forget;
mod groups;
mod hostile;
mod invariants;
mod kill;
mod lists;
mod lost;
mod metrics;
mod onboard;
mod outage;
mod overload;
mod pipeline;
mod pool;
mod postgres;
mod process;
mod readiness;
mod readme;
mod rebuild;
mod reload;
mod settings;
mod shared;
mod sinks;
mod spider;
mod support;
mod telemetry;
mod tls;
mod transfer;
