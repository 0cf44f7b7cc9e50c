//! Integration tests: one binary, real sockets, real files.

mod pipeline;
mod support;
