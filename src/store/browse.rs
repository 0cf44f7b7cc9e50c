//! Looking at what is kept, a page at a time: lists in an order that never changes, from a place on.
//!
//! Both databases read the same statements. A page whose filter no index knows is looked for in windows,
//! for a moment only: it may come back short, with the place where the search goes on.

pub mod articles;
pub mod damaged;
pub mod entries;
pub mod events;
pub mod fetches;
pub mod figures;
pub mod places;
pub mod sources;
pub mod tasks;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::time::Instant;

use super::damage::checked;
use crate::db::DbError;
use crate::db::statement::Cells;
use crate::frontier::BadCursor;

/// Rows that are looked at together when not all of them are wanted.
const WINDOW: usize = 1_000;
/// A search that finds little ends after so long; whoever asks may go on.
const PATIENCE: Duration = Duration::from_millis(10);

/// A place in a list: behind one row. It stays a place when that row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the list is sorted by.
    pub key: i64,
    /// The row, among equals.
    pub row: i64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.key, self.row)
    }
}

impl FromStr for Place {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (key, row) = text.split_once('.').ok_or(BadCursor)?;
        let number = |text: &str| text.parse().map_err(|_| BadCursor);
        Ok(Self { key: number(key)?, row: number(row)? })
    }
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<T> {
    /// What was found, in the order of the list.
    pub items: Vec<T>,
    /// Where the next part begins; nothing at the end of the list.
    pub next: Option<Place>,
}

/// A row with its place in a list that is sorted by the time in column `time`; without the row when that
/// is damaged.
fn whole<T>(
    row: &Cells,
    time: usize,
    read: impl FnOnce(&Cells) -> Result<(Place, T), DbError>,
) -> Result<(Place, Option<T>), DbError> {
    match checked(read(row), || None)? {
        Ok((place, item)) => Ok((place, Some(item))),
        // A time that is none comes after all others in the order of the embedded database.
        Err(_) => {
            let key = row.int(time).unwrap_or(i64::MAX);
            Ok((Place { key, row: row.int(0)? }, None))
        }
    }
}

/// The search for a page.
#[derive(Debug)]
struct Hunt<T> {
    items: Vec<T>,
    from: Option<Place>,
    limit: usize,
    window: usize,
    until: Instant,
    state: Going,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Going {
    On,
    Enough,
    AtTheEnd,
}

impl<T> Hunt<T> {
    /// For so many; `picky` when not every row is wanted.
    fn new(limit: usize, from: Option<Place>, picky: bool) -> Self {
        let window = if picky { WINDOW } else { limit.saturating_add(1) };
        let until = Instant::now() + PATIENCE;
        Self { items: Vec::new(), from, limit, window, until, state: Going::On }
    }

    fn goes_on(&self) -> bool {
        self.state == Going::On
    }

    /// Takes a window in: rows with their places, and whether they are wanted.
    fn take(&mut self, seen: impl IntoIterator<Item = (Place, Option<T>)>) {
        let mut count = 0;
        for (place, item) in seen {
            count += 1;
            if item.is_some() && self.items.len() == self.limit {
                self.state = Going::Enough;
                return;
            }
            self.items.extend(item);
            self.from = Some(place);
        }
        self.state = match count < self.window {
            true => Going::AtTheEnd,
            false if self.items.len() == self.limit || Instant::now() >= self.until => {
                Going::Enough
            }
            false => Going::On,
        };
    }

    fn found(self) -> Found<T> {
        let next = self.from.filter(|_| self.state != Going::AtTheEnd);
        Found { items: self.items, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is wanted, and however large pages are, all that is wanted comes once.
        #[test]
        fn pages_are_the_whole_list(wanted in prop::collection::vec(any::<bool>(), 0..60),
                                    limit in 1usize..7, window in 1usize..9) {
            let rows: Vec<(Place, Option<usize>)> = wanted.iter().enumerate()
                .map(|(at, wanted)| (Place { key: 0, row: at as i64 }, wanted.then_some(at)))
                .collect();
            let (mut all, mut from) = (Vec::new(), None::<Place>);
            loop {
                let mut hunt = Hunt::new(limit, from, true);
                hunt.window = window;
                while hunt.goes_on() {
                    let begin = hunt.from.map_or(0, |place| place.row as usize + 1);
                    hunt.take(rows.iter().skip(begin).take(window).copied());
                }
                let found = hunt.found();
                prop_assert!(found.items.len() <= limit);
                all.extend(found.items);
                match found.next {
                    Some(next) => from = Some(next),
                    None => break,
                }
            }
            let expected: Vec<usize> =
                wanted.iter().enumerate().filter(|(_, is)| **is).map(|(at, _)| at).collect();
            prop_assert_eq!(all, expected);
        }
    }
}
