//! Any bytes at all, taken for what `targets.rs` says of `article`.
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::run("article", data));
