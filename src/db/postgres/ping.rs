//! Whether the server answers, asked on a connection of its own: the pool may be busy with work.

use std::time::Duration;

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Socket};

use super::tls::Connector;
use super::{PgDb, conn};
use crate::db::DbError;
use crate::db::transfer::names_every_table;

/// A connection that is only read while it is asked something.
pub(super) struct Line {
    client: Client,
    connection: Connection<Socket, <Connector as MakeTlsConnect<Socket>>::Stream>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Line {
    async fn ask(&mut self, question: &str) -> Result<(), DbError> {
        tokio::select! {
            answer = self.client.batch_execute(question) => Ok(answer?),
            ended = &mut self.connection => {
                ended?;
                Err(DbError::Lost("the connection was closed".to_owned()))
            }
        }
    }
}

impl PgDb {
    /// Waits for an answer of the server; fails also when a table of ours is gone.
    pub async fn ping(&self, within: Duration) -> Result<(), DbError> {
        if self.0.closed.is_cancelled() {
            return Err(DbError::Closed);
        }
        let question = names_every_table()?;
        let asked = async {
            let mut kept = self.0.pinged.lock().await;
            // Taken out: a connection that does not answer in time is closed with this future.
            if let Some(mut line) = kept.take()
                && line.ask(question).await.is_ok()
            {
                *kept = Some(line);
                return Ok(());
            }
            let (client, connection) = self.0.config.connect(self.0.tls.clone()).await?;
            let mut line = Line { client, connection };
            line.ask(question).await?;
            *kept = Some(line);
            Ok(())
        };
        tokio::time::timeout(within, asked).await.unwrap_or_else(|_| Err(conn::no_answer(within)))
    }
}
