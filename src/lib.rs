//! Feedmill turns a list of publishers into a clean, deduplicated, replayable stream of articles.
//!
//! Everything that needs a request is a task in one frontier, and one loop serves it:
//!
//! 1. [`sources`] says what to follow; each channel of a source is a recurring task.
//! 2. [`frontier`] says what next: one queue, one politeness budget per host, leases.
//! 3. [`schedule`] says when to come back. Pure.
//! 4. [`fetch`] asks for it, behind a guard and under limits.
//! 5. [`archive`] keeps what came back, byte for byte, before anybody reads it.
//! 6. [`handle`] says what it means: parse, look up, decide. Pure.
//! 7. [`store`] makes the outcome true in one transaction and writes the log of events.
//! 8. [`sinks`] hand the log on, each at its own pace.
//!
//! [`app`] puts the parts together, [`cli`] is how people reach them, [`api`] how programs do.

pub mod model;

pub mod sources;

pub mod frontier;
pub mod schedule;

pub mod fetch;

pub mod archive;
pub mod handle;
pub mod store;

pub mod sinks;

pub mod api;
pub mod app;
pub mod cli;
pub mod demo;

pub mod clock;
pub mod config;
pub mod db;
pub mod metrics;
pub mod progress;
pub mod telemetry;
