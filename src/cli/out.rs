//! Everything that a command prints goes through here: results to standard output as text or JSON,
//! the rest to standard error.
//!
//! Text from the web never reaches the terminal with its control characters, nor with those that change
//! how other text is shown: what a command did not make harmless is made so here. A format for programs
//! is written byte for byte to pipes and files. A reader that closes the pipe has what it wanted: that is
//! no failure.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use comfy_table::{Attribute, Cell, Color, Table, presets};
use feedmill_formats::terminal;
use serde::Serialize;
use serde_json::json;

use super::failure::Failure;
use super::text;

/// How to print.
#[derive(Clone, Debug)]
pub(super) struct Out {
    json: bool,
    quiet: bool,
    colors: Colors,
    stream: Stream,
}

/// Where text for people goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Where colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colors {
    Never,
    OnTerminals,
    Always,
}

impl Colors {
    /// As the flag says, then as the environment does: `NO_COLOR`, `CLICOLOR_FORCE`.
    fn wanted(no_color: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match (no_color || is_set("NO_COLOR"), is_set("CLICOLOR_FORCE")) {
            (true, _) => Self::Never,
            (false, true) => Self::Always,
            (false, false) => Self::OnTerminals,
        }
    }

    fn on(self, stream: &impl IsTerminal) -> bool {
        self == Self::Always || (self == Self::OnTerminals && stream.is_terminal())
    }
}

/// What a word stands for, told by its colour where there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Careful,
    Bad,
}

impl Tone {
    /// The colour in text, and in a table.
    const fn color(self) -> (u8, Color) {
        match self {
            Self::Good => (32, Color::Green),
            Self::Careful => (33, Color::Yellow),
            Self::Bad => (31, Color::Red),
        }
    }
}

/// A cell of a table: text that is made harmless, and its colour. The colour is put around it last, so
/// that nothing in the text can pass for one.
pub(super) struct Shown {
    text: String,
    tone: Option<Tone>,
}

impl Shown {
    pub(super) fn painted(tone: Tone, word: &str) -> Self {
        Self { text: text::one_line(word), tone: Some(tone) }
    }
}

impl<T: AsRef<str>> From<T> for Shown {
    fn from(text: T) -> Self {
        Self { text: text::one_line(text.as_ref()), tone: None }
    }
}

impl From<Shown> for Cell {
    fn from(shown: Shown) -> Self {
        let cell = Self::new(shown.text);
        match shown.tone {
            Some(tone) => cell.fg(tone.color().1),
            None => cell,
        }
    }
}

impl Out {
    pub(super) fn new(json: bool, quiet: bool, no_color: bool) -> Self {
        Self { json, quiet, colors: Colors::wanted(no_color), stream: Stream::Stdout }
    }

    /// Whether tables and words have colours on their way to its stream.
    fn color(&self) -> bool {
        match self.stream {
            Stream::Stdout => self.colors.on(&io::stdout()),
            Stream::Stderr => self.colors.on(&io::stderr()),
        }
    }

    /// The same for text that goes to standard error.
    fn beside(&self) -> Self {
        Self { stream: Stream::Stderr, ..self.clone() }
    }

    /// Whether log lines may have colours.
    pub(super) fn log_color(&self) -> bool {
        self.colors.on(&io::stderr())
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
            return print(&self.shown(&human(self)));
        }
        let text = serde_json::to_string_pretty(value);
        let text = text.map_err(|error| Failure::failed("json", error.to_string()))?;
        print(&for_programs(&text, &io::stdout()))
    }

    /// Prints a result whose text is a format for programs: a terminal gets no control characters, and
    /// pipes and files get the very bytes.
    pub(super) fn document(&self, value: &impl Serialize, text: &str) -> Result<(), Failure> {
        if self.json { self.emit(value, |_| String::new()) } else { self.bytes(text.as_bytes()) }
    }

    /// Writes bytes as they are; a terminal gets no control characters.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        if io::stdout().is_terminal() {
            return print(&terminal::escaped(&String::from_utf8_lossy(bytes)));
        }
        let mut stdout = io::stdout().lock();
        written(stdout.write_all(bytes).and_then(|()| stdout.flush())).map(drop)
    }

    /// Prints a line of JSON for each; false when nobody reads on.
    pub(super) fn lines(&self, values: &[impl Serialize]) -> Result<bool, Failure> {
        let mut text = String::new();
        for value in values {
            let line = serde_json::to_string(value);
            let line = line.map_err(|error| Failure::failed("json", error.to_string()))?;
            text.push_str(&for_programs(&line, &io::stdout()));
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

    /// Shows what a question is about, on standard error: the only way for a table to get there.
    pub(super) fn preview(&self, human: impl FnOnce(&Self) -> String) {
        if !self.quiet && !self.json {
            let out = self.beside();
            say_as_is(&out.shown(&human(&out)));
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
            let line = json!({ "error": { "code": code, "message": message } }).to_string();
            say_as_is(&for_programs(&line, &io::stderr()));
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
        write!(stderr, "{} ", terminal::escaped(question)).and_then(|()| stderr.flush()).ok()?;
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
    pub(super) fn table<const N: usize>(
        &self,
        head: [&str; N],
        rows: Vec<[impl Into<Shown>; N]>,
    ) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.color() {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(head.map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
        table.add_rows(rows.into_iter().map(|row| row.map(|cell| Cell::from(cell.into()))));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table.trim_fmt()
    }

    /// What a command made of a result, without what only the web can have put there.
    fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.color() {
            true => terminal::escaped_but_colors(text).into(),
            false => terminal::escaped(text),
        }
    }

    /// A word in the colour of its meaning; for a cell of a table there is [`Shown::painted`].
    pub(super) fn paint(&self, tone: Tone, word: &str) -> String {
        let (color, word) = (tone.color().0, text::plain(word));
        if self.color() { format!("\x1b[{color}m{word}\x1b[0m") } else { word }
    }
}

/// A text in a format for programs: exact, unless a terminal shows it.
fn for_programs<'a>(text: &'a str, stream: &impl IsTerminal) -> Cow<'a, str> {
    if stream.is_terminal() { terminal::escaped(text) } else { text.into() }
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
    say_as_is(&terminal::escaped(message));
}

/// Writes a message that is harmless already.
fn say_as_is(message: &str) {
    // There is nowhere left to tell that standard error is gone.
    drop(writeln!(io::stderr().lock(), "{message}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_plain_without_a_terminal() {
        let out = Out::new(false, false, true);
        let rows = vec![["a", "1"], ["long name", "two\nlines\x1b[2J\u{202e}"]];
        let table = out.table(["name", "value"], rows);
        assert_eq!(table, "name       value\na          1\nlong name  two lines\\u001b[2J\\u202e");
        assert_eq!(out.paint(Tone::Bad, "fail"), "fail");
    }

    #[test]
    fn a_table_colours_our_words_and_no_others() {
        let out = Out { colors: Colors::Always, ..Out::new(false, false, true) };
        let hostile = "\x1b[32mok\x1b[0m";
        let rows = vec![[Shown::painted(Tone::Bad, "held\x1b[2J up"), hostile.into()]];
        let table = out.shown(&out.table(["state", "error"], rows)).into_owned();
        let (head, row) = table.split_once('\n').unwrap();
        assert!(head.starts_with("\x1b[1mstate ") && head.ends_with("\x1b[0m"), "{head:?}");
        let state = "\x1b[38;5;9mheld\\u001b[2J up  \x1b[39m";
        assert_eq!(row, format!("{state}\\u001b[32mok\\u001b[0m"));
        let word = out.paint(Tone::Good, "o\x1b[2Jk");
        assert_eq!(out.shown(&word), "\x1b[32mo\\u001b[2Jk\x1b[0m");
    }

    #[test]
    fn a_table_has_colours_where_the_stream_that_it_goes_to_has_them() {
        let out = Out { colors: Colors::Always, ..Out::new(false, false, true) };
        let beside = out.beside();
        let table = |out: &Out| out.shown(&out.table(["name"], vec![["a\x1b[1m"]])).into_owned();
        assert_eq!(table(&beside), "\x1b[1mname        \x1b[0m\na\\u001b[1m");
        assert_eq!(table(&beside), table(&out));
        let plain = Out::new(false, false, true).beside();
        assert_eq!(table(&plain), "name\na\\u001b[1m");
    }

    #[test]
    fn what_cannot_be_undone_is_not_done_unasked() {
        let out = Out::new(true, false, true);
        assert!(out.confirm(true, "remove it").is_ok());
        assert_eq!(out.confirm(false, "remove it").unwrap_err().exit, 2);
    }
}
