//! Articles in Redis as the canonical fetcher keeps them (S4 sections 2 and 6), and events as a
//! stream.
//!
//! A TTL of a set is that of the whole set. So that members go when they are due, each set has a
//! sorted set beside it (`rss:times:…`) that knows when each came, and members are taken out by that. Times
//! are those of events: what is delivered again changes nothing.

pub mod canonical;
pub mod stream;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, Pipeline, RedisError, TlsCertificates, Value,
};

use super::SinkError;

/// Signs of an error that are shown.
const WORDS: usize = 300;

/// A server, and a connection to it as long as that works.
pub struct Server {
    url: String,
    /// The address without its password.
    shown: String,
    /// Who signs for it (PEM), where the system's list is not asked.
    roots: Option<Vec<u8>>,
    timeout: Duration,
    connected: Option<MultiplexedConnection>,
}

impl Server {
    /// The server at `redis://USER:PASSWORD@HOST:PORT/DB`, or `rediss://` with TLS; `shown` is how
    /// people may see it.
    #[must_use]
    pub const fn new(
        url: String,
        shown: String,
        roots: Option<Vec<u8>>,
        timeout: Duration,
    ) -> Self {
        Self { url, shown, roots, timeout, connected: None }
    }

    fn client(&self) -> Result<Client, RedisError> {
        match &self.roots {
            Some(roots) => {
                let root_cert = Some(roots.clone());
                Client::build_with_tls(
                    self.url.as_str(),
                    TlsCertificates { client_tls: None, root_cert },
                )
            }
            _ => Client::open(self.url.as_str()),
        }
    }

    fn away(&self, reason: impl std::fmt::Display) -> SinkError {
        SinkError::Away { target: self.shown.clone(), reason: reason.to_string(), after: None }
    }

    async fn connection(&mut self) -> Result<MultiplexedConnection, SinkError> {
        if let Some(connection) = &self.connected {
            return Ok(connection.clone());
        }
        let client = self.client().map_err(|error| self.away(told(&error)))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| self.away(told(&error)))?;
        Ok(self.connected.insert(connection).clone())
    }

    /// Runs commands; their answers, each for itself.
    async fn run(&mut self, commands: &Pipeline) -> Result<Vec<Value>, SinkError> {
        let mut connection = self.connection().await?;
        let answers: Result<Vec<Value>, RedisError> = commands.query_async(&mut connection).await;
        answers.map_err(|error| self.lost(&error))
    }

    /// Runs commands that may fail each for itself.
    async fn run_each(
        &mut self,
        commands: &Pipeline,
    ) -> Result<Vec<Result<Value, RedisError>>, SinkError> {
        let mut connection = self.connection().await?;
        let answers: Result<Vec<Result<Value, RedisError>>, RedisError> =
            commands.query_async(&mut connection).await;
        answers.map_err(|error| self.lost(&error))
    }

    /// A failure, after which a new connection is made.
    fn lost(&mut self, error: &RedisError) -> SinkError {
        self.connected = None;
        self.away(told(error))
    }

    /// All keys that begin like this, without holding the server up.
    async fn keys(&mut self, start: &str) -> Result<Vec<String>, SinkError> {
        // What begins them is ours, but it may hold signs that patterns know.
        let plain: String = start
            .chars()
            .flat_map(|sign| {
                let marked = matches!(sign, '*' | '?' | '[' | ']' | '\\' | '^');
                marked.then_some('\\').into_iter().chain(std::iter::once(sign))
            })
            .collect();
        let (mut keys, mut place) = (Vec::new(), "0".to_owned());
        loop {
            let mut scan = Pipeline::new();
            scan.cmd("SCAN")
                .arg(&place)
                .arg("MATCH")
                .arg(format!("{plain}*"))
                .arg("COUNT")
                .arg(1_000);
            let answer = self.run(&scan).await?.pop().unwrap_or(Value::Nil);
            let (next, found): (String, Vec<String>) =
                redis::from_redis_value(answer).map_err(|error| self.away(error))?;
            keys.extend(found);
            if next == "0" {
                keys.sort_unstable();
                keys.dedup();
                return Ok(keys);
            }
            place = next;
        }
    }

    async fn check(&mut self) -> Result<String, SinkError> {
        let mut ping = Pipeline::new();
        ping.cmd("PING");
        self.run(&ping).await?;
        Ok(format!("{} answers", self.shown))
    }
}

/// An error, and what to do about it where that is not plain.
fn told(error: &RedisError) -> String {
    let hint = match error.kind() {
        ErrorKind::AuthenticationFailed => "; see the password in the sink's url",
        _ => "",
    };
    // One that failed in every command of a batch tells of each.
    let words: String = error.to_string().chars().take(WORDS).collect();
    format!("{words}{hint}")
}

#[cfg(test)]
mod tests {
    use redis::{ParsingError, RedisError};

    use super::*;

    #[test]
    fn a_failure_is_told_in_a_sentence() {
        let long = RedisError::from(ParsingError::from("no ".repeat(10_000)));
        assert!(told(&long).chars().count() <= WORDS, "{}", told(&long).len());
        let password = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        assert!(told(&password).ends_with("the password in the sink's url"), "{}", told(&password));
    }
}
