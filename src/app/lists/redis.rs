//! Sets in Redis, read a part at a time. It never writes, and it never asks for all keys at once, which
//! would hold the server up.

use std::string::FromUtf8Error;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};

use crate::config::RedisSet;

/// Asked for at a time; the server may give more or less.
const COUNT: u32 = 1_000;

/// A connection to a server.
pub(super) struct Connection(MultiplexedConnection);

/// How far a set was read.
#[derive(Debug, Default)]
pub(super) struct Cursor(Option<String>);

impl Cursor {
    /// Where to go on; nothing at the end.
    fn next(&self) -> Option<&str> {
        match self.0.as_deref() {
            None => Some("0"),
            Some("0") => None,
            Some(cursor) => Some(cursor),
        }
    }
}

impl Connection {
    /// Connects, says who we are, and chooses the database; `limit` is the longest silence.
    pub(super) async fn open(set: &RedisSet, limit: Duration) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(Some(limit));
        let client = Client::open(set.url())?;
        Ok(Self(client.get_multiplexed_async_connection_with_config(&config).await?))
    }

    /// The keys of all sets that match the pattern, in order.
    pub(super) async fn sets(&mut self, pattern: &str) -> RedisResult<Vec<String>> {
        let (mut cursor, mut keys) = (Cursor::default(), Vec::<String>::new());
        while let Some(at) = cursor.next() {
            let mut scan = redis::cmd("SCAN");
            scan.arg(at).arg("MATCH").arg(pattern).arg("COUNT").arg(COUNT).arg("TYPE").arg("set");
            let (next, found): (String, Vec<String>) = scan.query_async(&mut self.0).await?;
            keys.extend(found);
            cursor = Cursor(Some(next));
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Some more members of a set, until there are none; not all of them need be text.
    pub(super) async fn members(
        &mut self,
        key: &str,
        cursor: &mut Cursor,
    ) -> RedisResult<Option<Vec<Result<String, FromUtf8Error>>>> {
        let Some(at) = cursor.next() else { return Ok(None) };
        let mut scan = redis::cmd("SSCAN");
        scan.arg(key).arg(at).arg("COUNT").arg(COUNT);
        let (next, found): (String, Vec<Vec<u8>>) = scan.query_async(&mut self.0).await?;
        *cursor = Cursor(Some(next));
        Ok(Some(found.into_iter().map(String::from_utf8).collect()))
    }
}
