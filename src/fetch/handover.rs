//! Answers that another process of ours had a moment ago, laid out in files for the engine: who looked
//! at a channel before it was followed hands over what it saw, and nobody is asked for it again.
//!
//! Each answer is good for one request, and only for a few minutes. A file that cannot be read is as
//! good as none: then the engine asks. What is laid out is closed to others, as the archive is.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::clock::Clock;
use crate::db::private;
use crate::model::{Exchange, Headers, Ts};

/// An older answer may no longer be true.
const FRESH: Duration = Duration::from_mins(5);

/// Where answers are laid out.
#[derive(Clone, Debug)]
pub struct Handover(PathBuf);

/// The first line of a file; the body follows it.
#[derive(Serialize, Deserialize)]
struct Head {
    id: String,
    url: String,
    request: Vec<(String, String)>,
    status: u16,
    reason: String,
    headers: Vec<(String, String)>,
    remote: Option<IpAddr>,
    began: i64,
    ended: i64,
    elapsed: Duration,
}

impl Handover {
    /// The place in a data directory.
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        Self(data_dir.join("handover"))
    }

    fn path(&self, url: &str) -> PathBuf {
        let name: String =
            Sha256::digest(url.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.join(name)
    }

    /// Lays an answer out, whole or not at all. One that was cut off is nothing to hand over.
    pub fn lay(&self, answer: &Exchange) -> io::Result<()> {
        if answer.truncated.is_some() {
            return Ok(());
        }
        private::make_dir(&self.0)?;
        let head = Head {
            id: answer.id.to_string(),
            url: answer.url.clone(),
            request: answer.request.0.clone(),
            status: answer.status,
            reason: answer.reason.clone(),
            headers: answer.headers.0.clone(),
            remote: answer.remote,
            began: answer.began.ms(),
            ended: answer.ended.ms(),
            elapsed: answer.elapsed,
        };
        let path = self.path(&answer.url);
        let partial = path.with_extension("part");
        let mut file = private::create_regular(&partial)?;
        serde_json::to_writer(&mut file, &head)?;
        file.write_all(b"\n")?;
        file.write_all(&answer.body)?;
        fs::rename(&partial, &path)
    }

    /// The answer to a request for this address, when there is one and it is fresh. It is gone then.
    #[must_use]
    pub fn take(&self, url: &str, clock: &Clock) -> Option<Exchange> {
        let path = self.path(url);
        let mut file = Vec::new();
        private::read_regular(&path).ok()?.read_to_end(&mut file).ok()?;
        fs::remove_file(&path).ok()?;
        let end = file.iter().position(|byte| *byte == b'\n')?;
        let head: Head = serde_json::from_slice(file.get(..end)?).ok()?;
        let (began, ended) = (Ts::from_ms(head.began), Ts::from_ms(head.ended));
        let (now, fresh) = (clock.now(), clock.stretch(FRESH));
        if head.url != url || now.since(ended) > fresh || ended.since(now) > fresh {
            return None;
        }
        Some(Exchange {
            id: head.id.parse().ok()?,
            url: head.url,
            request: Headers(head.request),
            status: head.status,
            reason: head.reason,
            headers: Headers(head.headers),
            body: Bytes::from(file).slice(end + 1..),
            truncated: None,
            remote: head.remote,
            began,
            ended,
            elapsed: head.elapsed,
        })
    }

    /// Takes an answer back that nobody took.
    pub fn take_back(&self, url: &str) {
        drop(fs::remove_file(self.path(url)));
    }

    /// Takes back all that an earlier process left.
    pub fn clear(&self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Truncation, new_uuid};

    const URL: &str = "https://a.example/feed";

    fn answer(at: Ts) -> Exchange {
        let mut headers = Headers::default();
        headers.push("content-type", b"application/rss+xml");
        headers.push("x-name", b"caf\xe9");
        Exchange {
            id: new_uuid(at),
            url: URL.into(),
            request: Headers(vec![("accept".into(), "*/*".into())]),
            status: 200,
            reason: "OK".into(),
            headers,
            body: Bytes::from_static(b"\n<rss>\xff\n</rss>"),
            truncated: None,
            remote: "127.0.0.1".parse().ok(),
            began: at,
            ended: at,
            elapsed: Duration::from_millis(7),
        }
    }

    #[test]
    fn an_answer_is_handed_over_once_and_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let at = Ts::from_ms(1_000_000);
        let (handover, clock) = (Handover::of(dir.path()), Clock::manual(at));
        assert!(handover.take(URL, &clock).is_none());
        let laid = answer(at);
        handover.lay(&laid).unwrap();
        assert!(handover.take("https://a.example/other", &clock).is_none());
        clock.advance(Duration::from_mins(1));
        let taken = handover.take(URL, &clock).unwrap();
        assert_eq!(format!("{taken:?}"), format!("{laid:?}"));
        assert!(handover.take(URL, &clock).is_none(), "once");
    }

    #[test]
    fn what_is_old_cut_off_broken_or_taken_back_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let at = Ts::from_ms(1_000_000);
        let (handover, clock) = (Handover::of(dir.path()), Clock::manual(at));
        handover.lay(&Exchange { truncated: Some(Truncation::Time), ..answer(at) }).unwrap();
        assert!(handover.take(URL, &clock).is_none());
        handover.lay(&answer(at)).unwrap();
        fs::write(handover.path(URL), "{\"id\": 1").unwrap();
        assert!(handover.take(URL, &clock).is_none());
        handover.lay(&answer(at)).unwrap();
        handover.take_back(URL);
        assert!(handover.take(URL, &clock).is_none());
        handover.lay(&answer(at)).unwrap();
        clock.advance(Duration::from_mins(6));
        assert!(handover.take(URL, &clock).is_none());
    }
}
