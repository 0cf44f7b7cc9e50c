//! Who is connected, and who has to go when there is no room.
//!
//! A new connection is always taken. When there are as many as there may be, the client that has the most
//! loses the one that has made no progress for the longest time; one on which a request is worked on or a
//! stream runs stays. So connections that send nothing never keep others out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::limits::Client;

/// Files that everything but the server's connections needs.
const OTHER_FILES: u64 = 512;

/// Lets this process open as many files as the system allows, and returns how many connections that
/// leaves room for.
pub(super) fn raise_open_files() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let before = limit.current;
        limit.current = limit.maximum;
        match setrlimit(Resource::Nofile, limit) {
            Ok(()) => tracing::debug!(?before, now = ?limit.current, "raised limit of open files"),
            Err(error) => {
                tracing::debug!(%error, "cannot raise limit of open files");
                limit.current = before;
            }
        }
    }
    let room =
        limit.current.map_or(u64::MAX, |files| files.saturating_sub(OTHER_FILES).max(files / 4));
    usize::try_from(room).unwrap_or(usize::MAX)
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    began: Instant,
    /// Requests that are worked on and streams that run.
    busy: AtomicUsize,
    /// The last progress, in milliseconds after the beginning.
    progress_ms: AtomicU64,
    closed: CancellationToken,
}

impl Connection {
    fn new(client: Client) -> Arc<Self> {
        Arc::new(Self {
            client,
            began: Instant::now(),
            busy: AtomicUsize::new(0),
            progress_ms: AtomicU64::new(0),
            closed: CancellationToken::new(),
        })
    }

    /// Notes that something was asked, or that something of an answer was read.
    pub(super) fn progress(&self) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress_ms.store(ms, Ordering::Relaxed);
    }

    /// Keeps it open until the guard is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.progress();
        Busy(Arc::clone(self))
    }

    /// How long there was no progress, in milliseconds; nothing while it may not be closed.
    fn idle_ms(&self) -> Option<u64> {
        let since = self.progress_ms.load(Ordering::Relaxed);
        let age = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        (self.busy.load(Ordering::Relaxed) == 0).then(|| age.saturating_sub(since))
    }

    /// Ends when there is no room for it any more.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// Something under way on a connection.
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.progress();
    }
}

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
    clients: HashMap<Client, usize>,
}

impl Open {
    fn remove(&mut self, id: u64) -> Option<Arc<Connection>> {
        let connection = self.all.remove(&id)?;
        if let Some(count) = self.clients.get_mut(&connection.client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&connection.client);
            }
        }
        Some(connection)
    }

    /// The one that has to go.
    fn victim(&self) -> Option<u64> {
        let count = |client: &Client| self.clients.get(client).copied().unwrap_or_default();
        let idle = self.all.iter().filter_map(|(id, it)| Some((id, it, it.idle_ms()?)));
        let worst = idle.max_by_key(|(id, it, idle)| (count(&it.client), *idle, u64::MAX - **id));
        worst.map(|(id, ..)| *id)
    }
}

impl Connections {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), open: Mutex::default() })
    }

    /// Takes a connection, and closes another one if need be. Nothing when none may be closed.
    pub(super) fn admit(self: &Arc<Self>, client: Client) -> Option<Admitted> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.all.len() >= self.most {
            let victim = open.victim()?;
            if let Some(victim) = open.remove(victim) {
                victim.closed.cancel();
            }
        }
        let (id, connection) = (open.next, Connection::new(client.clone()));
        open.next += 1;
        open.all.insert(id, Arc::clone(&connection));
        *open.clients.entry(client).or_default() += 1;
        Some(Admitted { id, connection, all: Arc::clone(self) })
    }
}

/// A connection that is forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    id: u64,
    pub(super) connection: Arc<Connection>,
    all: Arc<Connections>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.all.open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(open.remove(self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;

    fn client(last: u8) -> Client {
        Client::at(IpAddr::from([192, 0, 2, last]))
    }

    fn is_closed(admitted: &Admitted) -> bool {
        admitted.connection.closed.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn the_idlest_of_whoever_has_the_most_goes_first() {
        let all = Connections::new(4);
        let mut open = Vec::new();
        for last in [2, 1, 1, 1] {
            open.push(all.admit(client(last)).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        open[1].connection.progress();
        let fifth = all.admit(client(3)).unwrap();
        let closed: Vec<bool> = open.iter().map(is_closed).collect();
        assert_eq!(closed, [false, false, true, false], "not the oldest of all");
        assert!(!is_closed(&fifth));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_stays_and_what_left_is_forgotten() {
        let all = Connections::new(2);
        let (first, second) = (all.admit(client(1)).unwrap(), all.admit(client(1)).unwrap());
        let busy = (first.connection.busy(), second.connection.busy());
        assert!(all.admit(client(2)).is_none(), "both are under way");
        drop(busy);
        let third = all.admit(client(2)).unwrap();
        assert!(is_closed(&first) && !is_closed(&second));
        drop((first, second, third));
        let open = all.open.lock().unwrap();
        assert_eq!((open.all.len(), open.clients.len()), (0, 0));
    }
}
