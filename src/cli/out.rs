//! Everything that a command prints goes through here: results to standard output as text or JSON,
//! the rest to standard error.
//!
//! Text from the web never reaches the terminal with its control characters. A reader that closes
//! the pipe has what it wanted: that is no failure.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use comfy_table::{Attribute, Cell, Table, presets};
use serde::Serialize;
use serde_json::json;

use super::failure::Failure;
use super::text;

/// How to print.
#[derive(Clone, Debug)]
pub(super) struct Out {
    json: bool,
    quiet: bool,
    colors: bool,
}

/// What a word stands for, told by its colour where there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Careful,
    Bad,
}

impl Out {
    pub(super) fn new(json: bool, quiet: bool, no_color: bool) -> Self {
        let wanted = !no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { json, quiet, colors: wanted }
    }

    fn color(&self) -> bool {
        self.colors && io::stdout().is_terminal()
    }

    /// Whether log lines may have colours.
    pub(super) fn log_color(&self) -> bool {
        self.colors && io::stderr().is_terminal()
    }

    /// Whether somebody is there to be asked or to watch.
    pub(super) fn interactive(&self) -> bool {
        !self.json && !self.quiet && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Whether somebody watches.
    pub(super) fn watched(&self) -> bool {
        !self.json && !self.quiet && io::stderr().is_terminal()
    }

    /// Prints a result.
    pub(super) fn emit(
        &self,
        value: &impl Serialize,
        human: impl FnOnce(&Self) -> String,
    ) -> Result<(), Failure> {
        if !self.json {
            return print(&human(self));
        }
        let text = serde_json::to_string_pretty(value);
        print(&text.map_err(|error| Failure::failed("json", error.to_string()))?)
    }

    /// Writes bytes as they are; a terminal gets no control characters.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        if stdout.is_terminal() {
            drop(stdout);
            return print(&text::plain(&String::from_utf8_lossy(bytes)));
        }
        written(stdout.write_all(bytes).and_then(|()| stdout.flush())).map(drop)
    }

    /// Prints a line of JSON for each; false when nobody reads on.
    pub(super) fn lines(&self, values: &[impl Serialize]) -> Result<bool, Failure> {
        let mut text = String::new();
        for value in values {
            let line = serde_json::to_string(value);
            text.push_str(&line.map_err(|error| Failure::failed("json", error.to_string()))?);
            text.push('\n');
        }
        if text.is_empty() { Ok(true) } else { put(&text) }
    }

    /// Prints what was done; not worth a line to those who asked for quiet.
    pub(super) fn done(&self, value: &impl Serialize, human: &str) -> Result<(), Failure> {
        if self.quiet && !self.json { Ok(()) } else { self.emit(value, |_| human.to_owned()) }
    }

    /// Tells how things go, on standard error.
    pub(super) fn note(&self, message: &str) {
        if !self.quiet && !self.json {
            say(message);
        }
    }

    /// Tells of something that may be wrong.
    pub(super) fn warn(&self, message: &str) {
        if !self.quiet {
            say(&format!("warning: {message}"));
        }
    }

    /// Tells why the command failed, and how the process ends.
    pub(super) fn failure(&self, failure: &Failure) -> ExitCode {
        let (code, message) = (failure.code, &failure.message);
        if self.json {
            say(&json!({ "error": { "code": code, "message": message } }).to_string());
        } else {
            for line in message.lines() {
                say(&format!("error: {}", text::plain(line)));
            }
        }
        ExitCode::from(failure.exit)
    }

    /// Asks for a line; `None` when nobody answers.
    pub(super) fn ask(&self, question: &str) -> Option<String> {
        if !self.interactive() {
            return None;
        }
        let mut stderr = io::stderr().lock();
        write!(stderr, "{question} ").and_then(|()| stderr.flush()).ok()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        Some(answer.trim().to_owned())
    }

    /// Asks before something that cannot be undone; `--yes` answers for those who are not there.
    pub(super) fn confirm(&self, yes: bool, what: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        match self.ask(&format!("{what}? [y/N]")) {
            Some(answer) if matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes") => Ok(()),
            Some(_) => Err(Failure::failed("not_confirmed", "nothing was changed")),
            None => {
                let message = "this needs a confirmation: say --yes to go ahead";
                Err(Failure::usage("not_confirmed", message))
            }
        }
    }

    /// Columns without borders, under a bold head; long cells are never cut.
    pub(super) fn table<const N: usize>(&self, head: [&str; N], rows: Vec<[String; N]>) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.color() {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(head.map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
        table.add_rows(rows.into_iter().map(|row| row.map(|cell| text::one_line(&cell))));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table.trim_fmt()
    }

    /// A word in the colour of its meaning.
    pub(super) fn paint(&self, tone: Tone, word: &str) -> String {
        let color = match tone {
            Tone::Good => 32,
            Tone::Careful => 33,
            Tone::Bad => 31,
        };
        if self.color() { format!("\x1b[{color}m{word}\x1b[0m") } else { word.to_owned() }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    put(text).map(drop)
}

/// Writes to standard output; false when nobody reads on.
fn put(text: &str) -> Result<bool, Failure> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let mut stdout = io::stdout().lock();
    written(write!(stdout, "{text}{end}").and_then(|()| stdout.flush()))
}

fn written(done: io::Result<()>) -> Result<bool, Failure> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed("output", format!("cannot write the result: {error}"))),
        Ok(()) => Ok(true),
    }
}

fn say(message: &str) {
    // There is nowhere left to tell that standard error is gone.
    drop(writeln!(io::stderr().lock(), "{message}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_plain_without_a_terminal() {
        let out = Out::new(false, false, true);
        let rows = vec![["a".into(), "1".into()], ["long name".into(), "two\nlines\x1b[2J".into()]];
        let table = out.table(["name", "value"], rows);
        assert_eq!(table, "name       value\na          1\nlong name  two lines\u{fffd}[2J");
        assert_eq!(out.paint(Tone::Bad, "fail"), "fail");
    }

    #[test]
    fn what_cannot_be_undone_is_not_done_unasked() {
        let out = Out::new(true, false, true);
        assert!(out.confirm(true, "remove it").is_ok());
        assert_eq!(out.confirm(false, "remove it").unwrap_err().exit, 2);
    }
}
