//! The account at one end of a connection, from the kernel (`NETLINK_SOCK_DIAG`): some microseconds, however many
//! connections there are.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, sendto, socket_with};

use super::{Account, canonical};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// The message's head, and what it asks: family, protocol, states and one connection.
const LENGTH: u32 = 72;

/// Whose this end of a connection is. An error where the kernel does not answer such questions.
pub(super) fn account(end: SocketAddr, other: SocketAddr) -> io::Result<Account> {
    match ask(end, other) {
        // A connection that is closed belongs to no program: the kernel says 0, which is root's number.
        Ok(found) if found.inode != 0 && found.is(end, other) => Ok(Account::Of(found.uid)),
        Ok(_) => Ok(Account::None),
        // So it also answers when it lacks the module that could tell; then it does not know our listener either.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let any = SocketAddr::new(unspecified(other.ip()), 0);
            ask(other, any).map(|_| Account::None)
        }
        Err(error) => Err(error),
    }
}

fn unspecified(ip: IpAddr) -> IpAddr {
    let ip = canonical(ip);
    if ip.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) }
}

/// Asks the kernel for the socket of this end.
fn ask(end: SocketAddr, other: SocketAddr) -> io::Result<Found> {
    let kind = (AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = socket_with(kind.0, kind.1, kind.2, Some(SOCK_DIAG))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &question(end, other), SendFlags::empty(), &kernel)?;
    let mut reply = [0; 1_024];
    // The answer is there when the question was sent.
    let (length, _) = recv(&socket, &mut reply[..], RecvFlags::DONTWAIT)?;
    Found::read(reply.get(..length).unwrap_or_default())
}

fn question(end: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let family =
        if canonical(end.ip()).is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut question = Vec::with_capacity(LENGTH as usize);
    question.extend(LENGTH.to_ne_bytes());
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend(REQUEST.to_ne_bytes());
    question.extend([0; 8]);
    question.extend([family.as_raw().to_le_bytes()[0], TCP, 0, 0]);
    // In any state.
    question.extend(u32::MAX.to_ne_bytes());
    question.extend(end.port().to_be_bytes());
    question.extend(other.port().to_be_bytes());
    question.extend(padded(end.ip()));
    question.extend(padded(other.ip()));
    // On any interface, and without a number that the kernel gave the socket.
    question.extend(0_u32.to_ne_bytes());
    question.extend([u8::MAX; 8]);
    question
}

/// An address in the 16 bytes that both families have.
fn padded(ip: IpAddr) -> [u8; 16] {
    match canonical(ip) {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// What the kernel knows of a socket.
struct Found {
    ports: [u16; 2],
    /// As the kernel wrote them: of a socket of the IPv6 family they may be IPv4 addresses all the same.
    addresses: [[u8; 16]; 2],
    is_ipv6: bool,
    uid: u32,
    inode: u32,
}

impl Found {
    fn read(reply: &[u8]) -> io::Result<Self> {
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let number = |at| bytes(reply, at).map(u32::from_ne_bytes).ok_or_else(short);
        let port = |at| bytes(reply, at).map(u16::from_be_bytes).ok_or_else(short);
        let address = |at| bytes::<16>(reply, at).ok_or_else(short);
        match bytes(reply, 4).map(u16::from_ne_bytes).ok_or_else(short)? {
            BY_FAMILY => {}
            ERROR => {
                let code = number(16)?.cast_signed();
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            _ => return Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
        Ok(Self {
            is_ipv6: bytes(reply, 16).map(u8::from_ne_bytes).map(u16::from)
                == Some(AddressFamily::INET6.as_raw()),
            ports: [port(20)?, port(22)?],
            addresses: [address(24)?, address(40)?],
            uid: number(80)?,
            inode: number(84)?,
        })
    }

    /// Whether it is the socket that was asked for: the kernel may also name one that listens.
    fn is(&self, end: SocketAddr, other: SocketAddr) -> bool {
        let address = |written: [u8; 16]| {
            let [a, b, c, d, ..] = written;
            if self.is_ipv6 { canonical(IpAddr::from(written)) } else { IpAddr::from([a, b, c, d]) }
        };
        self.ports == [end.port(), other.port()]
            && self.addresses.map(address) == [canonical(end.ip()), canonical(other.ip())]
    }
}

fn bytes<const N: usize>(reply: &[u8], at: usize) -> Option<[u8; N]> {
    reply.get(at..at + N)?.try_into().ok()
}
