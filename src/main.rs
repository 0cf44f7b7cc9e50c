//! The binary: parse, dispatch, exit code. Everything else is in the library.

use std::process::ExitCode;

/// Many threads parse many small documents: the system's allocator, musl's above all, makes them
/// wait for each other, and after days of work it gives less memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match feedmill::cli::parse(std::env::args_os()) {
        Ok(cli) => feedmill::cli::run(&cli),
        Err(exit) => exit,
    }
}
