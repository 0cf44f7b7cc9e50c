//! Whether a date is written as the rules for feeds and sitemaps say, so that the publisher of one
//! that is not can be told. It must never decide what a date means.

use super::parse::{Cursor, days_from_civil};

/// Whether the date is RFC 822 or W3C's profile of ISO 8601 to the letter, and is there in the
/// calendar: 31 February and a Monday that was a Tuesday are not.
#[must_use]
pub fn is_regular(text: &str) -> bool {
    let text = text.trim();
    rfc_822(text).or_else(|| w3c(text)).is_some()
}

/// `Thu, 09 Feb 2006 23:59:45 +0000`; the weekday and the seconds may be missing.
fn rfc_822(text: &str) -> Option<()> {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (weekday, rest) = match text.split_once(", ") {
        Some((weekday, rest)) => (Some((0..).zip(DAYS).find(|(_, day)| *day == weekday)?.0), rest),
        None => (None, text),
    };
    let mut words = rest.split_ascii_whitespace();
    let day = whole(words.next()?, 1, 2)?;
    let name = words.next()?;
    let (month, _) = (1..).zip(MONTHS).find(|(_, month)| *month == name)?;
    let year = words.next()?;
    let year = match year.len() {
        2 => whole(year, 2, 2)? + if year < "50" { 2_000 } else { 1_900 },
        _ => whole(year, 4, 4)?,
    };
    let mut time = Cursor(words.next()?);
    clock(&mut time, false)?;
    let zone = words.next()?;
    let is_over = time.0.is_empty() && words.next().is_none();
    let number = exists(year, month, day)?;
    // Unix time began on a Thursday.
    let fits = weekday.is_none_or(|weekday: i64| (number + 3).rem_euclid(7) == weekday);
    (is_over && fits && is_zone_of_822(zone)).then_some(())
}

fn is_zone_of_822(zone: &str) -> bool {
    const NAMES: [&str; 10] = ["UT", "GMT", "EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT"];
    let is_letter = || zone.len() == 1 && zone.bytes().all(|b| b.is_ascii_uppercase() && b != b'J');
    let is_offset = || {
        let mut at = Cursor(zone);
        let hours = at.eat(&['+', '-']).then(|| at.number(2, 2)).flatten();
        let minutes = at.number(2, 2);
        hours.is_some_and(|h| h < 24) && minutes.is_some_and(|m| m < 60) && at.0.is_empty()
    };
    is_offset() || NAMES.contains(&zone) || is_letter()
}

/// `2006`, `2006-02`, `2006-02-09` or `2006-02-09T23:59:45.5+01:00`; the seconds may be missing.
fn w3c(text: &str) -> Option<()> {
    let mut at = Cursor(text);
    let year = at.number(4, 4)?;
    let (mut month, mut day) = (1, 1);
    if at.eat(&['-']) {
        month = at.number(2, 2)?;
        if at.eat(&['-']) {
            day = at.number(2, 2)?;
            if at.eat(&['T']) {
                clock(&mut at, true)?;
                if !at.eat(&['Z']) {
                    at.eat(&['+', '-']).then_some(())?;
                    at.number(2, 2).filter(|hours| *hours < 24)?;
                    at.eat(&[':']).then_some(())?;
                    at.number(2, 2).filter(|minutes| *minutes < 60)?;
                }
            }
        }
    }
    exists(year, month, day)?;
    at.0.is_empty().then_some(())
}

/// A time of day, from 00:00 to 23:59:60.
fn clock(at: &mut Cursor<'_>, may_have_fraction: bool) -> Option<()> {
    at.number(2, 2).filter(|hour| *hour < 24)?;
    at.eat(&[':']).then_some(())?;
    at.number(2, 2).filter(|minute| *minute < 60)?;
    if at.eat(&[':']) {
        at.number(2, 2).filter(|second| *second <= 60)?;
        if may_have_fraction && at.eat(&['.']) {
            let digits = at.0.trim_start_matches(|c: char| c.is_ascii_digit());
            at.0 = Some(digits).filter(|rest| rest.len() < at.0.len())?;
        }
    }
    Some(())
}

/// The number of the day, if there is such a day.
fn exists(year: i64, month: i64, day: i64) -> Option<i64> {
    let number = days_from_civil(year, month, day)?;
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let is_there = month <= 12
        && day <= 31
        && days_from_civil(next.0, next.1, 1).is_none_or(|end| number < end);
    is_there.then_some(number)
}

/// A number of so many digits and nothing else.
fn whole(text: &str, min: usize, max: usize) -> Option<i64> {
    let mut at = Cursor(text);
    at.number(min, max).filter(|_| at.0.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::date::{self, Ts};

    #[test]
    fn what_the_rules_say_is_regular() {
        for text in [
            "Thu, 09 Feb 2006 23:59:45 +0000",
            "9 Feb 06 23:59 EST",
            " Sat, 31 Dec 2016 23:59:60 GMT\n",
            "31 Dec 99 23:59:59 Z",
            "2006",
            "2006-02",
            "2024-02-29",
            "2006-02-09T23:59Z",
            "2006-02-09T23:59:45.123+01:00",
            "9999-12-31T23:59:59Z",
        ] {
            assert!(is_regular(text), "{text}");
        }
    }

    #[test]
    fn what_is_read_by_leniency_is_not() {
        for text in [
            "31 Feb 2024 10:00:00 GMT",
            "Tue, 32 Jan 2024 10:00:00 GMT",
            "Wed, 09 Feb 2006 23:59:45 +0000",
            "Thu, 09 Feb 2006 25:01:45 +0000",
            "Thu, 09 Feb 2006 23:59:45 CEST",
            "Thu, 09 Feb 2006 23:59:45",
            "Thursday, 09 Feb 2006 23:59:45 GMT",
            "14 janv. 2024",
            "2023-02-29",
            "2006-02-09 23:59:45",
            "2006-02-09T23:59:45",
            "2006-02-09T24:00:00Z",
            "2006-02-09T23:59:45.Z",
            "1520932969",
        ] {
            assert!(date::parse(text).is_some() || text.ends_with(".Z"), "{text}");
            assert!(!is_regular(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_regular_can_be_read(text in "[0-9]{4}-[0-3][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]Z") {
            prop_assert!(!is_regular(&text) || date::parse(&text).is_some());
        }

        #[test]
        fn what_we_write_is_regular(ms in 0_i64..253_000_000_000_000) {
            prop_assert!(is_regular(&Ts::from_ms(ms).to_string()));
        }
    }
}
