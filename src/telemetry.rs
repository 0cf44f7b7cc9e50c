//! What leaves the process about its own work: log lines, and spans where a collector wants them.
//!
//! Log lines go to a writer that the caller names, as text or JSON. Spans are made only when an OTLP
//! endpoint is configured; without one they cost nothing. A collector that is away holds nothing up: spans
//! wait in a queue that is bounded, and it is told once. Nothing here knows what is fetched or why, and
//! no secret may get here.

mod export;
mod traces;

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use feedmill_formats::terminal;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing::field::Field;
use tracing_subscriber::Layer;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{Writer as FieldWriter, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Format, Level, Log, Trace};

pub use export::TraceError;
pub use traces::Traces;

/// What spans are called among log lines: they are for collectors only.
pub const SPANS: &str = "feedmill::span";
/// The last spans get this long to reach the collector when the process ends.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// What has to be ended with the process.
#[derive(Debug, Default)]
pub struct Telemetry(Option<SdkTracerProvider>);

impl Telemetry {
    /// Starts logging and tracing. A second start changes nothing.
    pub fn start<W: Write + 'static>(
        log: &Log,
        level: Level,
        color: bool,
        writer: impl Fn() -> W + Send + Sync + 'static,
        trace: &Trace,
    ) -> Result<Self, TraceError> {
        let provider = export::provider(trace)?;
        let spans = provider.as_ref().map(|provider| {
            let layer = tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("feedmill"))
                .with_location(false)
                .with_threads(false)
                .with_tracked_inactivity(false);
            layer.with_filter(Targets::new().with_target(SPANS, LevelFilter::INFO))
        });
        let registry = tracing_subscriber::registry().with(spans);
        let started = registry.with(lines(log.format, level, color, writer)).try_init();
        Ok(Self(provider.filter(|_| started.is_ok())))
    }

    /// Hands over the last spans. Blocks for a few seconds at the most.
    pub fn end(self) {
        // What did not get there in time was told of already.
        drop(self.0.map(|provider| provider.shutdown_with_timeout(LAST_SPANS)));
    }
}

/// The layer that writes log lines.
fn lines<S, W>(
    format: Format,
    level: Level,
    color: bool,
    writer: impl Fn() -> W + Send + Sync + 'static,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + 'static,
{
    let writer = move || Escaping { to: writer(), color };
    let lines = tracing_subscriber::fmt::layer().with_ansi(color).with_writer(writer);
    match format {
        Format::Text => {
            let lines = lines.fmt_fields(debug_fn(write_field).delimited(" ")).with_target(false);
            lines.with_filter(filter(level)).boxed()
        }
        // One object per line, the fields beside the message: what collectors of logs expect.
        Format::Json => {
            let json = lines.json().flatten_event(true).with_current_span(false);
            json.with_span_list(false).with_filter(filter(level)).boxed()
        }
    }
}

/// Writes a field in one line, and nothing in it that changes how a terminal shows the line: what publishers
/// and targets say must not look like a line or a colour of ours.
fn write_field(writer: &mut FieldWriter<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let value = format!("{value:?}");
    let value = terminal::escaped_line(&value);
    match field.name() {
        "message" => write!(writer, "{value}"),
        name if writer.has_ansi_escapes() => {
            write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value}")
        }
        name => write!(writer, "{name}={value}"),
    }
}

/// Writes lines in which nothing of a publisher's changes how a terminal shows them.
struct Escaping<W> {
    to: W,
    /// Lines have colours of ours; what is in their fields is escaped before it gets here.
    color: bool,
}

impl<W: Write> Write for Escaping<W> {
    /// A line comes as a whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        let shown = match self.color {
            true => terminal::escaped_but_colors(&line).into(),
            false => terminal::escaped(&line),
        };
        self.to.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// What the libraries below say is of interest only when something is wrong.
fn filter(level: Level) -> Targets {
    let (ours, below) = match level {
        Level::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        Level::Warn => (LevelFilter::WARN, LevelFilter::WARN),
        Level::Info => (LevelFilter::INFO, LevelFilter::WARN),
        Level::Debug => (LevelFilter::DEBUG, LevelFilter::WARN),
        Level::Trace => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    // A lost connection is ours to tell of, and once: the pool has a line for each.
    let pool = if level == Level::Trace { below } else { LevelFilter::ERROR };
    Targets::new()
        .with_default(below)
        .with_target("deadpool", pool)
        // Where spans go must not be told of by spans, nor a collector that is away by each batch.
        .with_target("opentelemetry", LevelFilter::OFF)
        // These tell whom they connect to with the password; what a sink meets is told by the sink.
        .with_target("async_nats", LevelFilter::OFF)
        .with_target("hyper_util", LevelFilter::OFF)
        .with_target("feedmill", ours)
        .with_target(SPANS, LevelFilter::OFF)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, level: Level, say: impl FnOnce()) -> String {
        let page = Page::default();
        let to = page.clone();
        let layer = lines(format, level, false, move || to.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), say);
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_json_line_has_its_fields_beside_the_message() {
        let text = logged(Format::Json, Level::Info, || {
            tracing::warn!(url = "https://a.example/", failures = 3, "a channel failed again");
        });
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "a channel failed again");
        assert_eq!((&line["url"], &line["failures"]), (&"https://a.example/".into(), &3.into()));
        assert!(line["timestamp"].is_string());
    }

    #[test]
    fn a_line_shows_what_would_change_how_it_is_shown() {
        let title = "\u{202e}exe.cod\u{1b}[2J\u{9b}\u{2028}\u{200b}\u{e0041}";
        let text = logged(Format::Json, Level::Info, || tracing::warn!(title, "read"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["title"], title, "a program reads what was meant");
        let lines = [text, logged(Format::Text, Level::Info, || tracing::warn!(title, "read"))];
        for line in lines {
            assert!(!line.contains(terminal::is_unsafe) && line.contains("202e"), "{line:?}");
        }
    }

    #[test]
    fn no_field_makes_a_line_or_a_colour_of_its_own() {
        let error = "no\n2026-01-01T00:00:00Z ERROR forged\u{1b}[31m";
        for color in [false, true] {
            let page = Page::default();
            let to = page.clone();
            let layer = lines(Format::Text, Level::Info, color, move || to.clone());
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                tracing::warn!(%error, place = ?error, error, "a sink is held up: {error}");
            });
            let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.contains("forged\\u001b[31m"), "{text}");
            assert!(!text.contains("\u{1b}[31m"), "{text:?}");
        }
    }

    #[test]
    fn spans_are_no_log_lines_and_others_are_quiet() {
        let text = logged(Format::Text, Level::Debug, || {
            let span = tracing::info_span!(target: SPANS, "request", host = "a.example");
            assert!(span.is_disabled(), "without a collector there are no spans");
            tracing::info!(target: "hyper", "a connection");
            tracing::error!(target: "opentelemetry_sdk", "no collector");
            tracing::error!(target: "async_nats::connector", "nats://ann:hunter2@a.example");
            tracing::debug!("served");
        });
        assert!(text.contains("served") && text.lines().count() == 1, "{text}");
    }
}
