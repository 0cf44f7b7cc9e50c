//! Integration tests: one binary, real sockets, real files.

mod kill;
mod pipeline;
mod sinks;
mod support;
