//! As much of Redis as reading sets takes: a connection, SCAN and SSCAN. It never writes, and it never
//! asks for all keys at once, which would hold the server up.

use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::config::RedisSet;

/// Asked for at a time; the server may give more or less.
const COUNT: &str = "1000";
/// The longest text that is taken: no address is longer.
const MAX_TEXT: usize = 1 << 20;
/// The most items of one answer.
const MAX_ITEMS: usize = 1 << 20;

/// A connection to a server.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    /// The longest silence.
    limit: Duration,
}

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

/// What a server answers.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Text(String),
    List(Vec<Self>),
    Nothing,
}

impl Connection {
    /// Connects, says who we are, and chooses the database.
    pub(super) async fn open(set: &RedisSet, limit: Duration) -> Result<Self> {
        let stream = within(limit, TcpStream::connect(set.address())).await?;
        let mut server = Self { stream: BufReader::new(stream), limit };
        if let Some((user, password)) = set.credentials() {
            let words = [user.as_str(), password.expose()];
            let words = if user.is_empty() { &words[1..] } else { &words[..] };
            server.ask(&[&["AUTH"], words].concat()).await?;
        }
        server.ask(&["SELECT", &set.database().to_string()]).await?;
        Ok(server)
    }

    /// The keys of all sets that match the pattern, in order.
    pub(super) async fn sets(&mut self, pattern: &str) -> Result<Vec<String>> {
        let (mut cursor, mut keys) = (Cursor::default(), Vec::new());
        while let Some(at) = cursor.next() {
            let words = ["SCAN", at, "MATCH", pattern, "COUNT", COUNT, "TYPE", "set"];
            let (next, found) = page(self.ask(&words).await?)?;
            keys.extend(found);
            cursor = next;
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Some more members of a set, until there are none.
    pub(super) async fn members(
        &mut self,
        key: &str,
        cursor: &mut Cursor,
    ) -> Result<Option<Vec<String>>> {
        let Some(at) = cursor.next() else { return Ok(None) };
        let (next, found) = page(self.ask(&["SSCAN", key, at, "COUNT", COUNT]).await?)?;
        *cursor = next;
        Ok(Some(found))
    }

    async fn ask(&mut self, words: &[&str]) -> Result<Reply> {
        let mut line = format!("*{}\r\n", words.len());
        for word in words {
            line.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        within(self.limit, self.stream.write_all(line.as_bytes())).await?;
        self.reply(0).await
    }

    async fn reply(&mut self, depth: usize) -> Result<Reply> {
        let line = self.line().await?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| bad("an empty line"))?;
        let count = || rest.parse::<i64>().map_err(|_| bad("no number where one should be"));
        match kind {
            "+" | ":" => Ok(Reply::Text(rest.to_owned())),
            "-" => Err(Error::other(rest.to_owned())),
            "$" => match usize::try_from(count()?) {
                Err(_) => Ok(Reply::Nothing),
                Ok(length) if length > MAX_TEXT => Err(bad("a text that is too long")),
                Ok(length) => self.text(length).await.map(Reply::Text),
            },
            "*" if depth < 3 => {
                let count = usize::try_from(count()?).unwrap_or(0);
                if count > MAX_ITEMS {
                    return Err(bad("a list that is too long"));
                }
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(Box::pin(self.reply(depth + 1)).await?);
                }
                Ok(Reply::List(items))
            }
            _ => Err(bad("something that is not Redis")),
        }
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let mut capped = (&mut self.stream).take(MAX_TEXT as u64);
        within(self.limit, capped.read_until(b'\n', &mut line)).await?;
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended"));
        };
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    async fn text(&mut self, length: usize) -> Result<String> {
        let mut text = vec![0; length + 2];
        within(self.limit, self.stream.read_exact(&mut text)).await?;
        text.truncate(length);
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::new(ErrorKind::TimedOut, "no answer in time");
    tokio::time::timeout(limit, work).await.map_err(late)?
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the server sent {what}"))
}

/// What a SCAN gives: where to go on, and what was found.
fn page(reply: Reply) -> Result<(Cursor, Vec<String>)> {
    let Reply::List(parts) = reply else { return Err(bad("no list")) };
    let mut parts = parts.into_iter();
    let (Some(Reply::Text(cursor)), Some(Reply::List(found))) = (parts.next(), parts.next()) else {
        return Err(bad("no cursor"));
    };
    let texts = found.into_iter().filter_map(|item| match item {
        Reply::Text(text) => Some(text),
        Reply::List(_) | Reply::Nothing => None,
    });
    Ok((Cursor(Some(cursor)), texts.collect()))
}
