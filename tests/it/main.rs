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
mod cli;
mod client;
mod contract;
mod deploy;
mod disk;
mod etiquette;
mod examples;
mod explain;
mod export;
mod forget;
mod groups;
mod hostile;
mod invariants;
mod kill;
mod lists;
mod metrics;
mod onboard;
mod outage;
mod pipeline;
mod postgres;
mod readme;
mod reload;
mod settings;
mod shared;
mod sinks;
mod spider;
mod support;
mod telemetry;
mod tls;
mod transfer;
