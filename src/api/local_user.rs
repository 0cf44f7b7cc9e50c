//! Whose program is at the other end of a connection over loopback.
//!
//! A reverse proxy that adds no header cannot be told from a local program by what it sends. It usually runs
//! under an account of its own, and Linux tells the account of both ends of a connection that stays on this
//! machine.

#[cfg(target_os = "linux")]
mod sock_diag;
mod tables;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::{OnceCell, Semaphore};

/// Tables are read one after the other, and never on the threads that answer requests.
static TABLE: Semaphore = Semaphore::const_new(1);

/// Whether a connection comes from our own account or root, found out when it is first needed.
#[derive(Clone, Debug)]
pub(super) struct LocalUser {
    /// The other end.
    peer: SocketAddr,
    /// Our end.
    own: SocketAddr,
    is_trusted: Arc<OnceCell<bool>>,
}

/// Who has one end of a connection open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Account {
    /// A program of this account.
    Of(u32),
    /// No program, or one that is not on this machine.
    None,
    /// The system does not tell.
    Unknown,
}

impl LocalUser {
    pub(super) fn new(peer: SocketAddr, own: SocketAddr) -> Self {
        Self { peer, own, is_trusted: Arc::default() }
    }

    /// Whether it is our own account or root. Where the system does not tell, other signs of a proxy have to do.
    pub(super) async fn is_trusted(&self) -> bool {
        let find = async || match account(self.peer, self.own).await {
            Account::Of(uid) => uid == rustix::process::geteuid().as_raw() || uid == 0,
            Account::None => false,
            Account::Unknown => true,
        };
        *self.is_trusted.get_or_init(find).await
    }
}

async fn account(peer: SocketAddr, own: SocketAddr) -> Account {
    #[cfg(target_os = "linux")]
    if let Ok(account) = sock_diag::account(peer, own) {
        return account;
    }
    let _turn = TABLE.acquire().await;
    tokio::task::spawn_blocking(move || tables::account(peer, own)).await.unwrap_or(Account::None)
}

/// IPv4 addresses in IPv6 form as what they are.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways to find it out, as far as this system has them.
    fn accounts(peer: SocketAddr, own: SocketAddr) -> Vec<Account> {
        let mut accounts = vec![tables::account(peer, own)];
        #[cfg(target_os = "linux")]
        accounts.extend(sock_diag::account(peer, own).ok());
        accounts
    }

    #[tokio::test]
    async fn our_own_connections_are_ours_in_both_families() {
        use tokio::net::{TcpListener, TcpSocket};
        let ours = rustix::process::geteuid().as_raw();
        for (listen, connect) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
            ("[::]:0", "::ffff:127.0.0.1"),
        ] {
            let Ok(listener) = TcpListener::bind(listen).await else { continue };
            let to =
                SocketAddr::new(connect.parse().unwrap(), listener.local_addr().unwrap().port());
            let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
            let client = socket.unwrap().connect(to).await.unwrap();
            let (stream, peer) = listener.accept().await.unwrap();
            let own = stream.local_addr().unwrap();
            assert!(LocalUser::new(peer, own).is_trusted().await, "{listen} {connect}");
            let found = accounts(peer, own);
            assert!(cfg!(not(target_os = "linux")) || found.contains(&Account::Of(ours)));
            assert!(found.windows(2).all(|two| two[0] == two[1]), "{listen} {connect}: {found:?}");
            drop(client);
            let found = accounts(peer, own);
            assert!(
                !found.contains(&Account::Of(ours)),
                "no program has it open any more: {found:?}"
            );
            let nothing = SocketAddr::new(peer.ip(), 1);
            assert!(accounts(nothing, own).iter().all(|it| *it != Account::Of(ours)));
        }
    }

    /// Where many connections come, each is asked about once.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn asking_for_an_account_takes_no_time_that_counts() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let _client = tokio::net::TcpStream::connect(own).await.unwrap();
        let (_stream, peer) = listener.accept().await.unwrap();
        if sock_diag::account(peer, own).is_err() {
            return;
        }
        let worked = || {
            let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            std::time::Duration::new(
                spent.tv_sec.unsigned_abs(),
                u32::try_from(spent.tv_nsec).unwrap(),
            )
        };
        let began = worked();
        for _ in 0..1_000 {
            assert!(LocalUser::new(peer, own).is_trusted().await);
        }
        // The tables took 10 ms each.
        assert!(worked() - began < std::time::Duration::from_millis(1_000));
    }
}
