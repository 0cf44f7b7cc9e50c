//! Lines of JSON on standard output, for pipes.
//!
//! Whoever reads them gets each event at least once: after a crash the last batch comes again.

use std::io::IsTerminal;

use async_trait::async_trait;
use feedmill_formats::terminal;
use tokio::io::AsyncWriteExt;

use super::{Item, Sink, SinkError, Taken};

/// Writes lines to standard output.
#[derive(Debug, Default)]
pub struct Stdout;

#[async_trait]
impl Sink for Stdout {
    async fn deliver(&mut self, batch: &[Item]) -> Result<Taken, SinkError> {
        let mut lines = Vec::new();
        for item in batch {
            item.write(&mut lines)?;
            lines.push(b'\n');
        }
        // A terminal shows what would change how it shows the rest; for a program it is the same JSON.
        if std::io::stdout().is_terminal() {
            lines = terminal::escaped(&String::from_utf8_lossy(&lines)).into_owned().into_bytes();
        }
        let mut out = tokio::io::stdout();
        let written = async {
            out.write_all(&lines).await?;
            out.flush().await
        };
        written.await.map_err(|source| SinkError::Io { target: "stdout".into(), source })?;
        Ok(Taken::default())
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        Ok("standard output".to_owned())
    }
}
