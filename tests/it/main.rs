//! Integration tests: one binary, real sockets, real files.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod architecture;
mod backup;
mod cli;
mod contract;
mod kill;
mod pipeline;
mod postgres;
mod shared;
mod sinks;
mod support;
mod tls;
mod transfer;
