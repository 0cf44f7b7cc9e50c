//! Connections of those who do not read what they asked for: they are put out after a while, so that they
//! hold neither a place nor memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::connections::Connection;

/// A connection on which every write has to make progress within a time.
#[derive(Debug)]
pub(super) struct Impatient<S> {
    stream: S,
    /// Hears of what was written.
    connection: Arc<Connection>,
    patience: Duration,
    limit: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> Impatient<S> {
    pub(super) fn new(stream: S, patience: Duration, connection: Arc<Connection>) -> Self {
        let limit = Box::pin(tokio::time::sleep(patience));
        Self { stream, connection, patience, limit, waiting: false }
    }

    /// Tells the connection that something was written.
    fn note(&self, step: &Poll<io::Result<usize>>) {
        if matches!(step, Poll::Ready(Ok(1..))) {
            self.connection.progress();
        }
    }

    /// What came of a step, unless nothing came of it for too long.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        step: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if step.is_ready() {
            self.waiting = false;
            return step;
        }
        if !self.waiting {
            self.waiting = true;
            self.limit.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.limit.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(&step);
        self.judge(context, step)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let step = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, step)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let step = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, step)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let step = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note(&step);
        self.judge(context, step)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::Connections;
    use super::super::limits::Client;
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_put_out_and_who_reads_slowly_is_not() {
        let patience = Duration::from_secs(60);
        let (ours, mut theirs) = tokio::io::duplex(10);
        let admitted = Connections::new(1).admit(Client::at([127, 0, 0, 1].into())).unwrap();
        let mut ours = Impatient::new(ours, patience, Arc::clone(&admitted.connection));
        let slow = async {
            let mut byte = [0];
            for _ in 0..40 {
                tokio::time::sleep(patience / 2).await;
                theirs.read_exact(&mut byte).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[7; 50]), slow);
        written.unwrap();
        let began = Instant::now();
        let error = ours.write_all(&[7; 50]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, patience));
    }
}
