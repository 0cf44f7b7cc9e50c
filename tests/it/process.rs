//! Programs that tests start: none of them outlives its test, however the test ends.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};

/// A child process that is killed and reaped when it goes out of scope, also when a test panics.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let program = command.get_program().to_owned();
        let child = command.spawn();
        Self(child.unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display())))
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail when it has ended already, which is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_process_ends_with_its_owner() {
    let process = Process::spawn(Command::new("sleep").arg("600"));
    let pid = rustix::process::Pid::from_child(&process);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _owner = process;
        panic!("as a test that fails does");
    }));
    assert!(panicked.is_err());
    assert!(rustix::process::test_kill_process(pid).is_err(), "it is still running");
}
