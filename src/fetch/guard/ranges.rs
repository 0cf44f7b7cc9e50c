//! Which addresses and ports a publisher can have. Pure: nothing here resolves or connects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a cloud tells its machines their secrets, on an address that looks public.
const AZURE_METADATA: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Ports of well-known services that are not the web, above 1023. Below, all but the web's own few
/// are somebody else's.
const OTHER_SERVICES: &[u16] = &[
    1433, 1521, 1719, 1720, 1723, 2049, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5672, 5900,
    6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 10080, 11211, 27017,
];

/// Ports below 1024 at which web servers are found.
const LOW_WEB_PORTS: &[u16] = &[80, 81, 82, 88, 280, 443, 591, 593, 777, 800, 808, 880, 888];

/// Whether a web server may be behind a port.
pub(super) fn is_web_port(port: u16) -> bool {
    if port < 1024 { LOW_WEB_PORTS.contains(&port) } else { !OTHER_SERVICES.contains(&port) }
}

/// Whether an address is one that a publisher can have.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
        || ip == AZURE_METADATA)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    if let Some(v4) = embedded_v4(ip) {
        return is_public_v4(v4);
    }
    let [first, second, ..] = ip.segments();
    // Only 2000::/3 is handed out; within it, the ranges for documents and for tunnels (Teredo,
    // 6to4) are not.
    (first & 0xe000) == 0x2000
        && !(first == 0x2001 && (second == 0x0db8 || second < 0x0200))
        && first != 0x2002
        && first != 0x3fff
}

/// The IPv4 address that an IPv6 one stands for: mapped, by the well-known prefix of NAT64, or by the interface
/// identifier of ISATAP (RFC 5214), with any prefix.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    match ip.segments() {
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [.., 0x0000 | 0x0200, 0x5efe, high, low] if !is_public_v4(v4(high, low)) => {
            Some(v4(high, low))
        }
        _ => ip.to_ipv4_mapped(),
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}
