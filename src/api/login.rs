//! The login link of one run: a token that lives in memory, is shown on the operator's terminal and
//! nowhere else, and ends with the process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What such a token begins with, so that it is never taken for a stored one.
const PREFIX: &str = "fml_";

/// The token, as its hash. There is none until somebody asks for the link.
#[derive(Debug, Default)]
pub(super) struct Login(OnceLock<[u8; 32]>);

impl Login {
    /// Makes the token; nothing when there is one already, or the system has no random numbers.
    pub(super) fn token(&self) -> Option<String> {
        let mut secret = [0; 32];
        let read = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
        if read != Ok(secret.len()) {
            return None;
        }
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("{PREFIX}{hex}");
        self.0.set(Sha256::digest(&token).into()).ok().map(|()| token)
    }

    /// Whether it is the token.
    pub(super) fn is(&self, given: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        self.0.get().is_some_and(|own| bool::from(own.ct_eq(&given)))
    }
}

/// The link. What follows the `#` stays in the browser: no server, proxy or log sees it.
pub(super) fn link(address: SocketAddr, token: &str) -> String {
    let reachable = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}/#token={token}", SocketAddr::new(reachable, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_made_once_and_nothing_else_opens() {
        let login = Login::default();
        assert!(!login.is("") && !login.is(PREFIX), "there is none yet");
        let token = login.token().unwrap();
        assert!(token.len() == 68 && login.is(&token), "{token}");
        assert_eq!(login.token(), None);
        assert!(!login.is(&format!("{token}0")) && !login.is(&token.replace("fml_", "fm_")));
        assert!(!Login::default().is(&token), "another run has another");
    }

    #[test]
    fn a_link_leads_to_where_a_browser_can_go() {
        for (listen, link_to) in [
            ("127.0.0.1:7171", "http://127.0.0.1:7171/#token=t"),
            ("0.0.0.0:80", "http://127.0.0.1:80/#token=t"),
            ("[::]:7171", "http://[::1]:7171/#token=t"),
        ] {
            assert_eq!(link(listen.parse().unwrap(), "t"), link_to);
        }
    }
}
