//! The newsroom over its wire: what it serves is the truth, on time, and its faults are faults.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail as loudly as tests"
)]

mod client;
mod faults;
mod truth;
mod wire;
