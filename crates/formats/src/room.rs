//! How much the relative addresses of a document may grow together when they are made absolute.
//!
//! A base of 2,000 bytes makes each of 30,000 links of one byte 2,000 times as long. So the growth of a
//! whole document has a limit, far above what an honest one needs; addresses beyond are not joined.

use std::cell::Cell;

use ::url::Url;

use crate::url::MAX_LEN;

/// What any document may grow by.
const ALWAYS: usize = 4 << 20;
/// The growth of a document as a multiple of its size.
const TIMES: usize = 2;

/// The bytes by which the addresses of one document may still grow.
#[derive(Debug)]
pub(crate) struct Room {
    left: Cell<usize>,
    is_exhausted: Cell<bool>,
}

impl Room {
    /// The room of a document of so many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        let left = bytes.saturating_mul(TIMES).saturating_add(ALWAYS);
        Self { left: Cell::new(left), is_exhausted: Cell::new(false) }
    }

    /// The address made absolute, unless it is none or there is no room for it.
    pub(crate) fn join(&self, base: &Url, address: &str) -> Option<String> {
        if self.is_exhausted() {
            return None;
        }
        let joined = String::from(base.join(address).ok()?);
        self.grow(joined.len().saturating_sub(address.len())).then_some(joined)
    }

    /// Takes so many bytes, if they are left.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        match self.left.get().checked_sub(bytes) {
            Some(left) => self.left.set(left),
            None => self.is_exhausted.set(true),
        }
        !self.is_exhausted.get()
    }

    /// Whether an address was not joined for want of room.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }
}

/// The base, unless it is longer than any address may be.
pub(crate) fn sound_base(base: Url) -> Option<Url> {
    Some(base).filter(|base| base.as_str().len() <= MAX_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_joined_until_the_room_is_exhausted() {
        let base = Url::parse(&format!("https://a.example/{}/", "b".repeat(1_900))).unwrap();
        let room = Room::of(1_000);
        let joined = (0..10_000).filter_map(|_| room.join(&base, "c")).map(|url| url.len());
        let total: usize = joined.sum();
        assert!(room.is_exhausted() && total < 5 << 20 && total > 4 << 20, "{total}");
        assert!(!Room::of(0).is_exhausted());
    }

    #[test]
    fn a_base_has_the_length_of_an_address() {
        let base = |length: usize| {
            Url::parse(&format!("https://a.example/{}", "b".repeat(length))).unwrap()
        };
        assert!(sound_base(base(1_000)).is_some());
        assert!(sound_base(base(MAX_LEN)).is_none());
    }
}
