//! HTTP heads as they stand in WARC blocks: built from what was sent and served, and read back.
//!
//! The body is not touched here: a head must never claim a transfer coding that the stored body
//! no longer has, nor lose a header that was served.

/// The head of a request block, with its empty line.
#[must_use]
pub fn request_head<'a>(
    method: &str,
    target: &str,
    headers: impl IntoIterator<Item = (&'a str, impl AsRef<[u8]>)>,
) -> Vec<u8> {
    head(&format!("{method} {target} HTTP/1.1"), headers)
}

/// The head of a response block, with its empty line.
///
/// The body in the archive is what was served after the transfer coding, so `Transfer-Encoding`
/// is dropped; `Content-Length` stays only when the body is `complete`, because readers trust it.
#[must_use]
pub fn response_head<'a>(
    status: u16,
    reason: &str,
    headers: impl IntoIterator<Item = (&'a str, impl AsRef<[u8]>)>,
    complete: bool,
) -> Vec<u8> {
    let kept = headers.into_iter().filter(|(name, _)| {
        !name.eq_ignore_ascii_case("transfer-encoding")
            && (complete || !name.eq_ignore_ascii_case("content-length"))
    });
    head(&format!("HTTP/1.1 {status:03} {reason}"), kept)
}

fn head<'a>(
    start: &str,
    headers: impl IntoIterator<Item = (&'a str, impl AsRef<[u8]>)>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    push(&mut out, start.as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in headers {
        push(&mut out, name.as_bytes());
        out.extend_from_slice(b": ");
        push(&mut out, value.as_ref());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// A part of a line; a line break inside would end the head early and is dropped.
fn push(out: &mut Vec<u8>, part: &[u8]) {
    part.split(|byte| matches!(byte, b'\r' | b'\n')).for_each(|run| out.extend_from_slice(run));
}

/// The head of a stored HTTP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpHead {
    /// The request or status line.
    pub start: String,
    /// Names and values as written, each byte one `char` (Latin-1), in order.
    pub headers: Vec<(String, String)>,
}

impl HttpHead {
    /// Splits a message into head and body; `None` when no empty line ends the head.
    pub(super) fn split(block: &[u8]) -> Option<(Self, &[u8])> {
        let end = block.windows(4).position(|window| window == b"\r\n\r\n")?;
        let (head, rest) = block.split_at_checked(end)?;
        let text: String = head.iter().copied().map(char::from).collect();
        let mut lines = text.split("\r\n");
        let start = lines.next()?.to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect();
        Some((Self { start, headers }, rest.get(4..)?))
    }

    /// The status of a response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        let mut parts = self.start.split(' ');
        parts.next().filter(|version| version.starts_with("HTTP/"))?;
        parts.next()?.parse().ok()
    }

    /// The first value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_keeps_what_was_served_but_the_transfer() {
        let served: [(&str, &[u8]); 4] = [
            ("content-type", b"text/html"),
            ("Transfer-Encoding", b"chunked"),
            ("Content-Length", b"3"),
            ("content-encoding", b"gzip"),
        ];
        assert_eq!(
            response_head(200, "OK", served, true),
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nContent-Length: 3\r\n\
              content-encoding: gzip\r\n\r\n"
        );
        assert_eq!(
            response_head(200, "", served, false),
            b"HTTP/1.1 200 \r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\n\r\n"
        );
    }

    #[test]
    fn a_head_reads_back() {
        let sent: [(&str, &[u8]); 2] = [("host", b"example.com"), ("x", b"a\r\nb: c")];
        let mut block = request_head("GET", "/a?b", sent);
        block.extend_from_slice(b"body");
        let (head, body) = HttpHead::split(&block).unwrap();
        assert_eq!(head.start, "GET /a?b HTTP/1.1");
        assert_eq!(head.get("Host"), Some("example.com"));
        assert_eq!(head.get("x"), Some("ab: c"));
        assert_eq!(head.status(), None);
        assert_eq!(body, b"body");
        let response = response_head(404, "Not Found", [("x", b"")], true);
        assert_eq!(HttpHead::split(&response).unwrap().0.status(), Some(404));
        assert_eq!(HttpHead::split(b"no empty line\r\n"), None);
    }
}
