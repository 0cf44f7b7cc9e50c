//! HTTP/1.1 on the wire, as well or as badly as commanded: keep-alive, one request at a time.
//!
//! `began` is read right after the request head, `ended` right before the last piece is handed to
//! the network: a client can only have the last byte after `ended`, so a slow turn of this task
//! never makes a polite client look impolite, however fast simulated time runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Desk;
use crate::log::Logged;
use crate::reply::{Delivery, Reply, Request, reason, reply};

const HEAD_LIMIT: usize = 64 * 1024;
const PIECE: usize = 16 * 1024;

/// Serves one connection until it ends.
pub(crate) async fn serve(mut stream: TcpStream, desk: Arc<Desk>) {
    let mut unread = Vec::new();
    let connection = desk.visitors.fetch_add(1, Ordering::Relaxed);
    loop {
        let head = tokio::select! {
            head = read_head(&mut stream, &mut unread) => head,
            () = desk.stopping.cancelled() => return,
        };
        let Ok(Some(head)) = head else { return };
        let began = (desk.clock)();
        let Some(request) = parse_head(&head) else {
            // Whatever it was, it was not a request, so nobody can be judged by it.
            stream
                .write_all(
                    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                )
                .await
                .ok();
            return;
        };
        desk.open.fetch_add(1, Ordering::SeqCst);
        let goes_on = exchange(&mut stream, &desk, request, (began, connection)).await;
        desk.open.fetch_sub(1, Ordering::SeqCst);
        if !goes_on {
            return;
        }
    }
}

/// Answers one request and logs it; says whether the connection can go on.
async fn exchange(
    stream: &mut TcpStream,
    desk: &Desk,
    request: Request,
    (began, connection): (i64, u64),
) -> bool {
    let (fault, serial) = desk.strike(&request, began);
    let reply = reply(&desk.world, &request, fault, began, serial);
    let status = if reply.delivery == Delivery::Hang { 0 } else { reply.status };
    let retry_until = reply.retry_until;
    let keep_alive = request.keep_alive
        && reply.delivery != Delivery::Truncate
        && reply.declared_length.is_none_or(|length| length >= reply.body.len());
    let mut sending = Sending { stream, desk, ended: began, bytes: 0 };
    let stopping = desk.stopping.cancelled();
    let delivered = tokio::select! {
        delivered = sending.deliver(&reply, keep_alive) => delivered,
        () = stopping => Err(io::ErrorKind::Interrupted.into()),
    };
    if delivered.is_err() {
        sending.ended = (desk.clock)();
    }
    let (ended, bytes) = (sending.ended, sending.bytes);
    desk.enter(Logged {
        host: request.host,
        connection,
        method: request.method,
        path: request.target,
        headers: request.headers,
        began,
        ended,
        status,
        bytes,
        retry_until,
    });
    delivered.is_ok() && keep_alive
}

/// The next request head, without its empty line; `None` when the client is done.
async fn read_head(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = unread.split_off(end + 4);
            let mut head = std::mem::replace(unread, rest);
            head.truncate(end);
            return Ok(Some(head));
        }
        if unread.len() > HEAD_LIMIT || stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
}

fn parse_head(head: &[u8]) -> Option<Request> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let named = |name: &str| headers.iter().find(|(header, _)| header == name);
    // The absolute form lets a client use the newsroom as its proxy.
    let (host, target) = match target.strip_prefix("http://") {
        Some(rest) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            (host, format!("/{path}"))
        }
        None => (named("host")?.1.as_str(), target.to_owned()),
    };
    let closing = named("connection").is_some_and(|(_, value)| value.eq_ignore_ascii_case("close"));
    Some(Request {
        method: method.to_owned(),
        host: host.split(':').next()?.to_ascii_lowercase(),
        // A request body is never read, so it must not be taken for the next request.
        keep_alive: version == "HTTP/1.1" && !closing && matches!(method, "GET" | "HEAD"),
        target,
        headers,
    })
}

/// A reply on its way.
struct Sending<'a> {
    stream: &'a mut TcpStream,
    desk: &'a Desk,
    ended: i64,
    bytes: u64,
}

impl Sending<'_> {
    async fn deliver(&mut self, reply: &Reply, keep_alive: bool) -> io::Result<()> {
        let mut message = head_of(reply, keep_alive);
        match reply.delivery {
            Delivery::Whole => {
                message.extend(&reply.body);
                self.send(&message).await
            }
            Delivery::Slow { chunk, pause_ms } => {
                self.send(&message).await?;
                for piece in reply.body.chunks(chunk.max(1)) {
                    self.pause(Some(Duration::from_millis(pause_ms))).await?;
                    self.send(piece).await?;
                }
                Ok(())
            }
            Delivery::Truncate => {
                message.extend(reply.body.iter().take(reply.body.len() / 2));
                self.send(&message).await
            }
            Delivery::Reset => {
                message.extend(reply.body.iter().take(reply.body.len() / 2));
                self.send(&message).await?;
                // With nothing to linger for, closing sends a reset instead of an end.
                self.stream.set_zero_linger()?;
                Err(io::ErrorKind::ConnectionReset.into())
            }
            Delivery::Hang => self.pause(None).await,
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            self.ended = (self.desk.clock)();
            self.stream.write_all(piece).await?;
            self.bytes += piece.len() as u64;
        }
        self.stream.flush().await
    }

    /// Waits in real time, for ever without a limit, and fails as soon as the client is gone.
    async fn pause(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let mut ignored = [0; 1024];
        let until = limit.map(|limit| tokio::time::Instant::now() + limit);
        loop {
            let elapsed = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = elapsed => return Ok(()),
                read = self.stream.read(&mut ignored) => if read? == 0 {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                },
            }
        }
    }
}

fn head_of(reply: &Reply, keep_alive: bool) -> Vec<u8> {
    let mut head =
        format!("HTTP/1.1 {} {}\r\nServer: newsroom\r\n", reply.status, reason(reply.status));
    for (name, value) in &reply.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    if let Some(length) = reply.declared_length {
        head.extend(["Content-Length: ", &length.to_string(), "\r\n"]);
    }
    head.push_str(if keep_alive {
        "Connection: keep-alive\r\n\r\n"
    } else {
        "Connection: close\r\n\r\n"
    });
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_host_in_the_header_or_in_the_target() {
        for head in [
            "GET /a?b=c HTTP/1.1\r\nHost: Paper.Newsroom.test:80",
            "GET http://paper.newsroom.test:8080/a?b=c HTTP/1.1\r\nAccept: */*",
        ] {
            let request = parse_head(head.as_bytes()).unwrap();
            assert_eq!(request.host, "paper.newsroom.test");
            assert_eq!(request.target, "/a?b=c");
            assert!(request.keep_alive);
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for head in ["", "GET /", "GET / HTTP/1.1\r\nAccept: */*"] {
            assert!(parse_head(head.as_bytes()).is_none(), "{head}");
        }
    }

    #[test]
    fn connections_end_when_the_client_says_so() {
        for head in [
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Close",
            "GET / HTTP/1.0\r\nHost: a",
            "POST / HTTP/1.1\r\nHost: a",
        ] {
            assert!(!parse_head(head.as_bytes()).unwrap().keep_alive, "{head}");
        }
    }
}
