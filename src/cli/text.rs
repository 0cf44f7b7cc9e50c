//! Numbers, times and foreign text as people read them. Pure.

use std::path::Path;

use feedmill_formats::terminal;

use crate::model::{Reference, Ts};

/// Text that cannot move the cursor, change the terminal or show itself in another order than it has;
/// line ends and tabs stay.
pub(super) fn plain(text: &str) -> String {
    terminal::escaped(text).into_owned()
}

/// The same on one line.
pub(super) fn one_line(text: &str) -> String {
    plain(&text.split(['\n', '\r', '\t']).collect::<Vec<_>>().join(" "))
}

/// A path on one line.
pub(super) fn path(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

/// The beginning of a text that may be long.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// `1 source`, `2 sources`, `1,234 sources`.
pub(super) fn count(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number(n))
}

/// Digits in groups of three.
pub(super) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A size with three digits or so: `512 B`, `1.5 MB`, `23 GB`.
pub(super) fn bytes(n: u64) -> String {
    let mut unit = "B";
    let mut divisor = 1_u64;
    for (name, factor) in
        [("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000)]
    {
        if n >= factor {
            (unit, divisor) = (name, factor);
        }
    }
    let (whole, tenths) = (n / divisor, n % divisor * 10 / divisor);
    if whole < 10 && tenths > 0 {
        format!("{whole}.{tenths} {unit}")
    } else {
        format!("{whole} {unit}")
    }
}

/// A time seen from now: `now`, `5m ago`, `in 3h`.
pub(super) fn when(at: Ts, now: Ts) -> String {
    let (ahead, behind) = (at.since(now).as_secs(), now.since(at).as_secs());
    match (ahead, behind) {
        (0, 0) => "now".to_owned(),
        (0, past) => format!("{} ago", span(past)),
        (future, _) => format!("in {}", span(future)),
    }
}

/// The same for a time that may not have come yet.
pub(super) fn ever(at: Option<Ts>, now: Ts) -> String {
    at.map_or_else(|| "never".to_owned(), |at| when(at, now))
}

fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Who told of an address, and when first.
pub(super) fn told_by(one: &Reference, now: Ts) -> String {
    let channel = one.channel.as_deref().map_or_else(String::new, |url| format!(" at {url}"));
    let source = match (&one.source, &one.category) {
        (Some(name), Some(category)) => format!(" of {name} ({category})"),
        (Some(name), None) => format!(" of {name}"),
        (None, _) => String::new(),
    };
    let told = format!("{}{channel}{source}, {}", one.origin, when(one.first_seen, now));
    format!("told by     {}", one_line(&told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_told_of_an_address_is_told_on_a_line() {
        let now = Ts::from_ms(10_000_000_000);
        let mut one = Reference {
            source: Some("alder\nnews".into()),
            source_id: None,
            category: Some("world".into()),
            channel: Some("https://a.example/feed".into()),
            origin: crate::model::Origin::Feed,
            first_seen: now,
        };
        let told = told_by(&one, now);
        let words = "told by     feed at https://a.example/feed of alder news (world), ";
        assert!(told.starts_with(words) && !told.contains('\n'), "{told}");
        (one.source, one.channel) = (None, None);
        one.origin = crate::model::Origin::Manual;
        assert!(told_by(&one, now).starts_with("told by     manual, "));
    }

    #[test]
    fn numbers_read_well() {
        for (n, expected) in
            [(0, "0"), (7, "7"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(number(n), expected);
        }
        assert_eq!(count(1, "source"), "1 source");
        assert_eq!(count(0, "source"), "0 sources");
        for (n, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1 KB"),
            (1_540_000, "1.5 MB"),
            (23_900_000_000, "23 GB"),
            (4_000_000_000_000_000, "4000 TB"),
        ] {
            assert_eq!(bytes(n), expected);
        }
    }

    #[test]
    fn times_are_told_from_now() {
        let now = Ts::from_ms(1_000_000_000_000);
        for (ms, expected) in [
            (0, "now"),
            (-900, "now"),
            (-59_000, "59s ago"),
            (-60_000, "1m ago"),
            (-7_200_000, "2h ago"),
            (-3 * 86_400_000, "3d ago"),
            (30 * 60_000, "in 30m"),
            (25 * 3_600_000, "in 25h"),
        ] {
            assert_eq!(when(Ts::from_ms(now.ms() + ms), now), expected);
        }
        assert_eq!(ever(None, now), "never");
    }

    proptest! {
        #[test]
        fn foreign_text_cannot_control_the_terminal(text: String) {
            prop_assert!(plain(&text).chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
            let shown = one_line(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() || terminal::is_format(c)));
        }
    }
}
