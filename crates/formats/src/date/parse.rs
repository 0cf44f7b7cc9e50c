//! Dates as publishers write them, read into instants.
//!
//! Lenient about form, strict about sense: a text with two readings is no date. A part that is one
//! beyond its range is counted on, as the software that wrote it did: 31 June is 1 July. It must
//! never panic and never look at more than a short text.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;

use super::Ts;
use super::names::{half_day_word, month, named_zone};

/// The longest text that is looked at: no date is longer, whatever its comments.
const MAX_LEN: usize = 128;

/// Reads a date as publishers write it; without a zone it is UTC, with one nobody knows it is `None`.
///
/// ISO 8601 and its profiles, RFC 822 and its descendants, asctime, the usual ways of writing a
/// date out, and Unix seconds or milliseconds. `3/4/2020` is `None`: it has two readings.
#[must_use]
pub fn parse(text: &str) -> Option<Ts> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_LEN {
        return None;
    }
    if let Some(at) = rfc_822(text) {
        return Some(at);
    }
    let text = plain_digits(text);
    epoch(&text).or_else(|| iso(&text)).or_else(|| written(&text))
}

/// The last instant that a written date can mean: a day, a month or a year without a time of day is
/// not over before it ends.
#[must_use]
pub fn latest(text: &str) -> Option<Ts> {
    const DAY: Duration = Duration::from_hours(24);
    let at = parse(text)?;
    let text = text.trim();
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_iso = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'/'));
    let whole = match digits {
        4 if is_iso => 366 * DAY,
        5 | 6 if is_iso && digits < text.len() => 31 * DAY,
        _ if text.contains(':') || digits > 8 => return Some(at),
        _ => DAY,
    };
    Some(at.after(whole).before(Duration::from_millis(1)))
}

/// Japanese, Chinese and Korean mark the parts of a date by signs, and put the half of the day
/// before the time: `2020\u{5e74}1\u{6708}10\u{65e5} \u{5348}\u{5f8c}2:33`.
fn plain_digits(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut half) = (text.to_owned(), "");
    for (word, meaning) in half_day_word() {
        if plain.contains(word) {
            (plain, half) = (plain.replace(word, " "), meaning);
        }
    }
    let mut done = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '\u{5e74}' | '\u{b144}' | '\u{6708}' | '\u{c6d4}' => {
                done.truncate(done.trim_end().len());
                done.push('-');
            }
            '\u{65e5}' | '\u{c77c}' | '\u{79d2}' | '\u{cd08}' => done.push(' '),
            '\u{6642}' | '\u{65f6}' | '\u{70b9}' | '\u{c2dc}' | '\u{5206}' | '\u{bd84}' => {
                done.truncate(done.trim_end().len());
                done.push(':');
            }
            '\u{a0}' | '\u{3000}' | '\u{202f}' => done.push(' '),
            c => done.push(c),
        }
    }
    if half.is_empty() {
        return Cow::Owned(done.trim_end_matches([':', ' ']).replace("- ", "-"));
    }
    Cow::Owned(format!("{} {half}", done.trim_end_matches([':', ' ']).replace("- ", "-")))
}

/// Reads the date of an HTTP header; a bare number, as `Expires: 0`, is none.
#[must_use]
pub fn http_date(text: &str) -> Option<Ts> {
    let text = text.trim();
    if text.len() > MAX_LEN || !text.contains(':') {
        return None;
    }
    written(text).or_else(|| iso(text))
}

/// `Thu, 09 Feb 2006 23:59:45 +0000` or with `GMT`, to the letter: most dates in feeds are so.
fn rfc_822(text: &str) -> Option<Ts> {
    let (weekday, rest) = text.split_at_checked(5)?;
    if !weekday.ends_with(", ") {
        return None;
    }
    let mut at = Cursor(rest);
    let day = at.number(1, 2).filter(|_| at.eat(&[' ']))?;
    let (name, rest) = at.0.split_at_checked(3)?;
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (month, _) = (1..).zip(MONTHS).find(|(_, month)| *month == name)?;
    at.0 = rest.strip_prefix(' ')?;
    let year = at.number(4, 4).filter(|_| at.eat(&[' ']))?;
    let hour = at.number(2, 2).filter(|_| at.eat(&[':']))?;
    let minute = at.number(2, 2).filter(|_| at.eat(&[':']))?;
    let second = at.number(2, 2).filter(|_| at.eat(&[' ']))?;
    let offset = match *at.0.as_bytes() {
        [b'G', b'M', b'T'] => 0,
        [sign @ (b'+' | b'-'), a, b, c, d] => {
            let digit = |b: u8| b.is_ascii_digit().then(|| i32::from(b - b'0'));
            let seconds = (digit(a)? * 10 + digit(b)?) * 3_600 + (digit(c)? * 10 + digit(d)?) * 60;
            if sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    instant(date(year, month, day)?, Clock { hour, minute, second, ms: 0 }, offset)
}

fn epoch(text: &str) -> Option<Ts> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match text.len() {
        10 => text.parse::<i64>().ok().map(|seconds| Ts::from_ms(seconds * 1_000)),
        13 => text.parse().ok().map(Ts::from_ms),
        _ => None,
    }
}

/// The year comes first: `2020-01-10T14:33:00Z`, `2020/1/10`, `20200110T143300`, `2020-010`.
fn iso(text: &str) -> Option<Ts> {
    if let Some(short) = short_iso(text) {
        return instant(short, Clock::default(), 0);
    }
    let mut at = Cursor(text);
    let date = iso_date(&mut at)?;
    at.spaces();
    let has_mark = at.eat(&['T', 't']);
    at.spaces();
    if at.0.is_empty() && !has_mark {
        return instant(date, Clock::default(), 0);
    }
    // A day may have a zone, which does not move it.
    if !has_mark && at.0.starts_with(['+', '-', 'Z', 'z']) {
        zone(at.0.trim())?;
        return instant(date, Clock::default(), 0);
    }
    let mut clock = Clock::read(&mut at)?;
    at.spaces();
    clock.half_day(&mut at);
    instant(date, clock, zone(at.0.trim())?)
}

/// The forms of ISO 8601 of 1988 without a century that have one reading: `-03-12`, `-0312` (year
/// and month), `03335` (year and day of the year).
fn short_iso(text: &str) -> Option<Date> {
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if text.len() == 5 && is_digits(text) {
        let (year, day) = text.split_at_checked(2)?;
        return day_of_year(full_year(year.parse().ok()?, 2), day.parse().ok()?);
    }
    let (year, month) = text.strip_prefix('-')?.split_at_checked(2)?;
    let month = month.strip_prefix('-').unwrap_or(month);
    let is_short = month.len() == 2 && is_digits(year) && is_digits(month);
    is_short.then(|| date(full_year(year.parse().ok()?, 2), month.parse().ok()?, 1)).flatten()
}

fn iso_date(at: &mut Cursor<'_>) -> Option<Date> {
    const SEPARATORS: &[char] = &['-', '/', '.'];
    let year = at.number(4, 4)?;
    if at.0.is_empty() {
        return date(year, 1, 1);
    }
    if !at.eat(SEPARATORS) {
        let (month, day) = (at.number(2, 2)?, at.number(2, 2)?);
        return date(year, month, day);
    }
    if let Some(number) = at.number(3, 3) {
        // A month with one zero too many is followed by a day.
        if number <= 12 && at.eat(SEPARATORS) {
            return date(year, number, at.number(1, 2)?);
        }
        return day_of_year(year, number);
    }
    let month = at.number(1, 2)?;
    let day = if at.eat(SEPARATORS) { at.number(1, 2)? } else { 1 };
    date(year, month, day)
}

/// A day, counted from 1 January 1970.
#[derive(Clone, Copy)]
struct Date(i64);

fn day_of_year(year: i64, number: i64) -> Option<Date> {
    let length = if is_leap(year) { 366 } else { 365 };
    let first = date(year, 1, 1)?;
    (1..=length).contains(&number).then_some(Date(first.0 + number - 1))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The day with this date; month 13 and day 32 are one beyond, and counted on.
fn date(year: i64, month: i64, day: i64) -> Option<Date> {
    if !(0..=9_999).contains(&year) || !(1..=13).contains(&month) || !(1..=32).contains(&day) {
        return None;
    }
    let (year, month) = if month == 13 { (year + 1, 1) } else { (year, month) };
    // The year is counted from March, so that the day that comes and goes is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before = (153 * month + 2) / 5 + day - 1;
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(Date(year * 365 + leaps + days_before - 719_468))
}

/// The number of the day with this date, counted from 1 January 1970.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    date(year, month, day).map(|date| date.0)
}

/// The year that is meant by one with this many digits.
fn full_year(year: i64, digits: usize) -> i64 {
    match (digits, year) {
        (..=2, 0..50) => year + 2_000,
        // Some software counts years from 1900, and writes 120 for 2020.
        (..=3, _) => year + 1_900,
        _ => year,
    }
}

/// 24:00 is the next midnight, and so is the second after 23:59:59 that is put in at times.
fn instant(date: Date, clock: Clock, offset_seconds: i32) -> Option<Ts> {
    let in_range = clock.hour <= 25 && clock.minute <= 61 && clock.second <= 61;
    let offset = i64::from(offset_seconds);
    if !in_range || offset.abs() >= 26 * 3_600 {
        return None;
    }
    let seconds = date.0 * 86_400 + clock.hour * 3_600 + clock.minute * 60 + clock.second - offset;
    // The end of the year 9999, a common way to say never, is more than can be written down.
    let ms = (seconds * 1_000 + i64::from(clock.ms)).min(Timestamp::MAX.as_second() * 1_000);
    Timestamp::from_millisecond(ms).is_ok().then_some(Ts::from_ms(ms))
}

/// A time of day, not yet checked.
#[derive(Clone, Copy, Default)]
struct Clock {
    hour: i64,
    minute: i64,
    second: i64,
    ms: i32,
}

impl Clock {
    /// `14:33:00.25`, `14:33`, `143300` or `14`.
    fn read(at: &mut Cursor<'_>) -> Option<Self> {
        let mut clock = Self { hour: at.number(1, 2)?, ..Self::default() };
        if at.eat(&[':']) {
            clock.minute = at.number(1, 2)?;
            if at.eat(&[':']) {
                clock.second = at.number(1, 2)?;
            }
        } else if let Some(minute) = at.number(2, 2) {
            clock.minute = minute;
            clock.second = at.number(2, 2).unwrap_or(0);
        }
        if at.eat(&['.', ',']) {
            let digits = at.0.len() - at.0.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (fraction, rest) = at.0.split_at_checked(digits)?;
            at.0 = rest;
            clock.ms = fraction
                .bytes()
                .chain(*b"000")
                .take(3)
                .fold(0, |ms, digit| ms * 10 + i32::from(digit - b'0'));
        }
        Some(clock)
    }

    /// Takes an `am` or `p.m.` that follows.
    fn half_day(&mut self, at: &mut Cursor<'_>) {
        let rest = at.0.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '.');
        let word = at.0.get(..at.0.len() - rest.len()).unwrap_or_default();
        // The whole word: America and AMT are zones.
        let pm = match word.replace('.', "").to_ascii_lowercase().as_str() {
            "am" if !rest.starts_with('/') => false,
            "pm" if !rest.starts_with('/') => true,
            _ => return,
        };
        at.0 = rest.trim_start();
        self.hour = match (self.hour, pm) {
            (12, false) => 0,
            (hour @ 1..12, true) => hour + 12,
            (hour, _) => hour,
        };
    }
}

/// What is left to read.
pub(super) struct Cursor<'a>(pub(super) &'a str);

impl Cursor<'_> {
    /// A number of at least `min` and at most `max` digits; a longer run of digits is cut there.
    pub(super) fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        let digits = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.0.split_at_checked(digits).filter(|_| digits >= min)?;
        let number = number.parse().ok()?;
        self.0 = rest;
        Some(number)
    }

    pub(super) fn eat(&mut self, any: &[char]) -> bool {
        let rest = self.0.strip_prefix(any);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn spaces(&mut self) {
        self.0 = self.0.trim_start();
    }
}

/// A zone, as seconds east of Greenwich; `None` when nobody knows it.
fn zone(text: &str) -> Option<i32> {
    let (name, offset) = text.split_at_checked(text.find(['+', '-']).unwrap_or(text.len()))?;
    let known = named_zone(name.trim());
    if offset.is_empty() || known.is_some_and(|seconds| seconds != 0) {
        return known;
    }
    let mut at = Cursor(offset);
    let sign = if at.eat(&['-']) { -1 } else { i64::from(at.eat(&['+'])) };
    let hours = at.number(1, 2)?;
    let minutes = if at.eat(&[':']) { at.number(1, 2)? } else { at.number(2, 2).unwrap_or(0) };
    i32::try_from(sign * (hours * 3_600 + minutes * 60)).ok()
}

/// Whether a word after the time can only be the name of a zone: `XYZ`, `America/New_York`.
fn is_like_a_zone(word: &str) -> bool {
    const WEEKDAYS: [&str; 7] = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
    let is_short = (3..=5).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_uppercase());
    (is_short && !WEEKDAYS.iter().any(|day| word.starts_with(day)))
        || word.split_once('/').is_some_and(|(area, place)| !area.is_empty() && !place.is_empty())
}

fn is_zone(word: &str) -> bool {
    named_zone(word.split(['+', '-']).next().unwrap_or(word)).is_some()
}

/// The parts of a date written in words, in whatever order they come.
#[derive(Default)]
struct Written {
    day: Option<i64>,
    month: Option<i64>,
    year: Option<i64>,
    clock: Option<Clock>,
    zone: Option<i32>,
}

/// `Thu, 09 Feb 2006 23:59:45 +0000`, `Sun Nov  6 08:49:37 1994`, `June 22, 2023 at 1:11 PM EDT`.
fn written(text: &str) -> Option<Ts> {
    let text = without_comments(text);
    let mut parts = Written::default();
    for word in text.split([' ', '\t', '\n', '\r', ',']).filter(|word| !word.is_empty()) {
        parts.take(word)?;
    }
    let date = date(parts.year?, parts.month?, parts.day?)?;
    instant(date, parts.clock.unwrap_or_default(), parts.zone.unwrap_or(0))
}

/// RFC 822 lets comments stand anywhere, nested and with escapes.
fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains('(') {
        return Cow::Borrowed(text);
    }
    let (mut depth, mut escaped) = (0_usize, false);
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if depth > 0 => escaped = true,
            '(' => {
                depth += 1;
                kept.push(' ');
            }
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    Cow::Owned(kept)
}

impl Written {
    /// Takes one word in; `None` when the text cannot be a date.
    fn take(&mut self, word: &str) -> Option<()> {
        match word.chars().next()? {
            '0'..='9' if word.contains(':') => self.take_clock(word),
            '0'..='9' => self.take_number(word),
            '+' | '-' if self.clock.is_some() && word.len() > 1 => {
                self.zone = Some(zone(word)?);
                Some(())
            }
            '-' | '+' => Some(()),
            // Words have no digits in them, but for zones.
            _ if word.contains('\\') => None,
            _ => self.take_name(word),
        }
    }

    fn take_clock(&mut self, word: &str) -> Option<()> {
        let mut at = Cursor(word);
        let mut clock = Clock::read(&mut at)?;
        clock.half_day(&mut at);
        if self.clock.replace(clock).is_some() || at.0.starts_with(':') {
            return None;
        }
        if at.0.is_empty() { Some(()) } else { self.take(at.0) }
    }

    fn take_number(&mut self, word: &str) -> Option<()> {
        let mut at = Cursor(word);
        let number = at.number(1, 4)?;
        let digits = word.len() - at.0.len();
        match at.0.to_ascii_lowercase().as_str() {
            "" | "." | "st" | "nd" | "rd" | "th" => self.place(number, digits),
            rest => {
                let mut parts = rest.split(['-', '/', '.']).skip(1);
                let (Some(second), Some(third), None) = (parts.next(), parts.next(), parts.next())
                else {
                    return None;
                };
                let dotted = rest.starts_with('.');
                self.take_triple((number, digits), second, third, dotted)
            }
        }
    }

    /// A number standing alone: the year has four digits, or comes after the day.
    fn place(&mut self, number: i64, digits: usize) -> Option<()> {
        if digits < 3 && self.day.is_none() {
            self.day = Some(number);
            return Some(());
        }
        self.year.replace(full_year(number, digits)).is_none().then_some(())
    }

    /// Three parts in one word: `06-Nov-94`, `2006/09/15`, `30.10.2023`, `10/30/23`.
    fn take_triple(
        &mut self,
        first: (i64, usize),
        second: &str,
        third: &str,
        dotted: bool,
    ) -> Option<()> {
        let (first, first_digits) = first;
        let last = third.parse::<i64>().ok()?;
        let year = |year| full_year(year, if first_digits == 4 { 4 } else { third.len() });
        let (day, month, year) = match second.parse::<i64>() {
            Err(_) => (first, month(second)?, year(last)),
            Ok(middle) if first_digits == 4 => (last, middle, year(first)),
            Ok(middle) if dotted || first > 12 => (first, middle, year(last)),
            Ok(middle) if middle > 12 => (middle, first, year(last)),
            Ok(_) => return None,
        };
        let fresh = self.day.is_none() && self.month.is_none() && self.year.is_none();
        (self.day, self.month, self.year) = (Some(day), Some(month), Some(year));
        fresh.then_some(())
    }

    fn take_name(&mut self, word: &str) -> Option<()> {
        if let Some(clock) = &mut self.clock {
            let mut at = Cursor(word);
            clock.half_day(&mut at);
            if at.0.len() < word.len() {
                return Some(());
            }
        }
        // A weekday may look like a month (`mar.` is a French Tuesday): the later name counts.
        if let Some(number) = month(word) {
            self.month = Some(number);
        } else if self.clock.is_some() && self.zone.is_none() {
            if is_zone(word) {
                self.zone = zone(word);
            } else if is_like_a_zone(word) {
                // Whose time it is cannot be told: an hour too many is no fact.
                return None;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
