//! The binary: parse, dispatch, exit code. Everything else is in the library.

use std::process::ExitCode;

/// Many threads parse many small documents: the system's allocator, musl's above all, makes them
/// wait for each other, and after days of work it gives less memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    allocator_settings::apply();
    match feedmill::cli::parse(std::env::args_os()) {
        Ok(cli) => feedmill::cli::run(&cli),
        Err(exit) => exit,
    }
}

/// The allocator reads its settings from the environment before `main` begins.
#[cfg(target_os = "linux")]
mod allocator_settings {
    use std::env;
    use std::ffi::OsStr;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    /// By default memory that was freed stays resident for a second, which is long enough for several large
    /// documents, and it is backed by pages of 2 MB, of which each stays for one small value that is still
    /// needed. The peak of an engine that reads many large documents was two and a half times as high.
    const SETTINGS: [(&str, &str); 2] =
        [("MIMALLOC_PURGE_DELAY", "0"), ("MIMALLOC_ALLOW_THP", "0")];

    /// Replaces this process by the same program with those settings that the user did not choose. Where this
    /// is not possible, the program only needs more memory.
    pub(super) fn apply() {
        let unset = || SETTINGS.into_iter().filter(|(name, _)| env::var_os(name).is_none());
        let mut args = env::args_os();
        let (Some(name), Ok(program)) = (args.next(), env::current_exe()) else { return };
        // A loader or an emulator that was asked to run this program is another program.
        let is_this_program = Path::new(&name).file_name() == program.file_name();
        if unset().next().is_some() && is_this_program {
            drop(Command::new(program).arg0::<&OsStr>(&name).args(args).envs(unset()).exec());
        }
    }
}
