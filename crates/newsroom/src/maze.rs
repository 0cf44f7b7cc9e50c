//! Pages of a site that make it hard to walk: a calendar without end, a list without end, labels,
//! links that carry a visit's number, and links that leave the site. They name no story that other
//! lists do not name.

use std::fmt::Write as _;

use crate::markup::month;
use crate::publisher::Publisher;

/// Labels that stories have in turn.
pub(crate) const LABELS: [&str; 7] =
    ["harbour", "budget", "weather", "schools", "football", "traffic", "theatre"];

/// A page of the maze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Corner {
    /// A month of a calendar without entries.
    Calendar { year: i32, month: i32 },
    /// A page of a list that never ends.
    Endless(u64),
}

/// What of the maze is at a path.
pub(crate) fn locate(path: &str, query: &str) -> Option<Corner> {
    if path == "/everything" {
        let page = query.split('&').find_map(|pair| pair.strip_prefix("page="));
        return Some(Corner::Endless(page.map_or(Some(1), |page| page.parse().ok())?));
    }
    let (year, month) = path.strip_prefix("/calendar/")?.split_once('/')?;
    Some(Corner::Calendar { year: year.parse().ok()?, month: month.parse().ok()? })
}

/// The links of a page of the maze.
pub(crate) fn content(corner: Corner) -> String {
    match corner {
        Corner::Calendar { year, month } => {
            let at = |months: i32| {
                let count = year * 12 + month - 1 + months;
                format!("/calendar/{}/{:02}", count.div_euclid(12), count.rem_euclid(12) + 1)
            };
            format!(r#"<p><a href="{}">‹</a> {year} <a href="{}">›</a></p>"#, at(-1), at(1))
        }
        Corner::Endless(page) => {
            format!(r#"<p>{page}</p><a rel="next" href="/everything?page={}">»</a>"#, page + 1)
        }
    }
}

/// The links that lead into the maze; `visit` is another number on every page.
pub(crate) fn doors(site: &Publisher, visit: u64) -> String {
    let today = month(site.rhythm.published_at(0)).replace('-', "/");
    let mut html = format!(
        r#"<footer><a href="/calendar/{today}">▦</a> <a href="/everything">≡</a>
        <a href="/latest?sid={visit:x}">↻</a> <a href="/login">→</a> <a href="/search?q=x">?</a>
        <a href="/latest?sort=title">a–z</a> <a href="/latest/../latest/latest/latest">=</a>
        <a href="https://partner.example/about-us">+</a> <a href="https://wa.me/?text=x">!</a>
        <a href="https://shop.example/" rel="nofollow">*</a>"#
    );
    for label in LABELS {
        // Writing to a string cannot fail.
        write!(html, r#" <a href="/tag/{label}">{label}</a>"#).ok();
    }
    html + "</footer>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_and_the_list_have_no_end() {
        assert_eq!(
            locate("/calendar/2026/12", ""),
            Some(Corner::Calendar { year: 2026, month: 12 })
        );
        let month = content(Corner::Calendar { year: 2026, month: 12 });
        assert!(
            month.contains("/calendar/2026/11") && month.contains("/calendar/2027/01"),
            "{month}"
        );
        assert_eq!(locate("/everything", "page=9"), Some(Corner::Endless(9)));
        assert!(content(Corner::Endless(9)).contains("page=10"));
        assert_eq!(locate("/world/", ""), None);
    }
}
