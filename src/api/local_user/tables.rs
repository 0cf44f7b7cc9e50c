//! The account at one end of a connection, from the tables of the system's TCP connections: where the kernel
//! answers no questions about single connections. A table takes milliseconds to read, however few rows it has.

use std::net::{IpAddr, SocketAddr};

use super::Account;

/// The tables of the system's TCP connections.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Whose this end of a connection is; unknown where the system has no such tables.
pub(super) fn account(end: SocketAddr, other: SocketAddr) -> Account {
    let tables: Vec<String> =
        TABLES.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    match tables.iter().find_map(|table| uid_of(table, end, other)) {
        Some(uid) => Account::Of(uid),
        None if tables.is_empty() => Account::Unknown,
        None => Account::None,
    }
}

/// The account that has this end of a connection open. One that no program has open any more belongs to no
/// account, although the table says that it is root's.
fn uid_of(table: &str, end: SocketAddr, other: SocketAddr) -> Option<u32> {
    let is_it = |written: &str, address: SocketAddr| {
        written.split_once(':').is_some_and(|(ip, port)| {
            u16::from_str_radix(port, 16) == Ok(address.port())
                && ip_of(ip) == Some(canonical(address.ip()))
        })
    };
    table.lines().skip(1).find_map(|line| {
        // Number, this end, the other end, state, queues, timer, retransmissions, account, timeout, inode.
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, _, _, _, _, uid, _, inode, ..] = columns.as_slice() else {
            return None;
        };
        let found = *inode != "0" && is_it(local, end) && is_it(remote, other);
        found.then(|| uid.parse().ok()).flatten()
    })
}

/// An address as the tables write it: words of four bytes, each in the order of this machine.
fn ip_of(written: &str) -> Option<IpAddr> {
    let words = (0..written.len() / 8).map(|word| {
        let word = written.get(word * 8..word * 8 + 8)?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    });
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.concat();
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(canonical(address))
}

/// IPv4 addresses in IPv6 form as what they are.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn row(local: &str, remote: &str, state: &str, uid: u32, inode: u32) -> String {
        format!(
            "   1: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid:5} 0 {inode} 1 0\n"
        )
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_account_is_that_of_the_other_end() {
        let (peer, own) = ("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:7171".parse().unwrap());
        let (near, far) = ("0100007F:1C03", "0100007F:9C40");
        let table = [
            HEAD,
            &row(near, far, "01", 1000, 11),
            &row(far, "0100007F:1C04", "01", 7, 12),
            &row(far, near, "01", 33, 13),
        ];
        assert_eq!(uid_of(&table.concat(), peer, own), Some(33));
        for (state, inode, expected) in
            [("01", 13, Some(33)), ("05", 13, Some(33)), ("06", 0, None)]
        {
            let table = [HEAD, &row(far, near, state, 33, inode)].concat();
            assert_eq!(uid_of(&table, peer, own), expected, "{state} {inode}");
        }
        assert_eq!(uid_of(HEAD, peer, own), None);
        assert_eq!(uid_of("garbage\n  1: x y\n", peer, own), None);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn addresses_of_both_families_are_read() {
        let mapped = "0000000000000000FFFF00000100007F";
        for (written, expected) in [
            ("0100007F", "127.0.0.1"),
            (mapped, "127.0.0.1"),
            ("00000000000000000000000001000000", "::1"),
            ("B80D01200000000000000000EFBEADDE", "2001:db8::dead:beef"),
        ] {
            let read = ip_of(written).map(|ip| ip.to_string());
            assert_eq!(read.as_deref(), Some(expected), "{written}");
        }
        assert_eq!(ip_of("01"), None);
        assert_eq!(ip_of("zz00007F"), None);
    }
}
