//! Time spans and sizes as people write them: `15s`, `1h30m`, `10MB`.
//!
//! Both keep whole milliseconds and whole bytes, so that what is printed reads back as the same
//! value. Both have an upper limit, so that adding one to a moment or a length cannot overflow.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A value that cannot be read; the message says how to write one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not {wanted}")]
pub struct BadValue {
    pub(super) given: String,
    pub(super) wanted: &'static str,
}

/// A length of time, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, JsonSchema)]
#[schemars(title = "a time span such as \"250ms\", \"15s\", \"5m\", \"6h\" or \"7d\"")]
pub struct Span(#[schemars(with = "String")] u64);

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, JsonSchema)]
#[schemars(title = "a size such as \"500KB\", \"10MB\" or \"1GiB\"")]
pub struct Size(#[schemars(with = "String")] u64);

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const SPAN_UNITS: [(&str, u64); 6] =
    [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1), ("", SECOND)];

/// Those to print with come first: decimal before binary, large before small.
const SIZE_UNITS: [(&str, u64); 14] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1000),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("", 1),
    ("B", 1),
    ("K", 1000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// A hundred years.
const MAX_SPAN: u64 = 36_500 * DAY;
/// A petabyte.
const MAX_SIZE: u64 = 1_000_000_000_000_000;

impl Span {
    pub const fn millis(count: u64) -> Self {
        Self(if count < MAX_SPAN { count } else { MAX_SPAN })
    }

    pub const fn seconds(count: u64) -> Self {
        Self::millis(count.saturating_mul(SECOND))
    }

    pub const fn minutes(count: u64) -> Self {
        Self::millis(count.saturating_mul(MINUTE))
    }

    pub const fn hours(count: u64) -> Self {
        Self::millis(count.saturating_mul(HOUR))
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Size {
    pub const fn bytes(count: u64) -> Self {
        Self(if count < MAX_SIZE { count } else { MAX_SIZE })
    }

    pub const fn megabytes(count: u64) -> Self {
        Self::bytes(count.saturating_mul(1_000_000))
    }

    pub const fn mebibytes(count: u64) -> Self {
        Self::bytes(count.saturating_mul(1 << 20))
    }

    pub const fn as_bytes(self) -> u64 {
        self.0
    }

    /// For comparing with lengths in memory.
    pub fn as_len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl FromStr for Span {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match sum(text, &SPAN_UNITS) {
            Some(millis) if millis <= MAX_SPAN => Ok(Self(millis)),
            _ => Err(BadValue {
                given: text.to_owned(),
                wanted: "a time span such as \"15s\", \"5m\" or \"6h\"",
            }),
        }
    }
}

impl FromStr for Size {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match sum(text, &SIZE_UNITS) {
            Some(bytes) if bytes <= MAX_SIZE => Ok(Self(bytes)),
            _ => Err(BadValue {
                given: text.to_owned(),
                wanted: "a size such as \"500KB\" or \"10MB\"",
            }),
        }
    }
}

/// Adds up numbers with units, as in `1h30m`. A number without a unit must stand alone: in `1h30`
/// nobody knows what the 30 is.
fn sum(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let in_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut total = 0_u64;
    let mut rest = text.trim();
    let mut alone = true;
    loop {
        let (number, tail) = rest.split_at(rest.find(|c| !in_number(c)).unwrap_or(rest.len()));
        let (unit, tail) = tail.split_at(tail.find(in_number).unwrap_or(tail.len()));
        let unit = unit.trim();
        if unit.is_empty() && !(alone && tail.is_empty()) {
            return None;
        }
        let (_, factor) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
        total = total.checked_add(times(number, *factor)?)?;
        if tail.is_empty() {
            return Some(total);
        }
        (rest, alone) = (tail, false);
    }
}

/// A decimal number times a factor, exact for whole numbers, rounded otherwise.
fn times(number: &str, factor: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let product = (number.parse::<f64>().ok()? * factor as f64).round();
    // Below this limit every whole number has its own f64, so the cast is exact.
    (product < 9e15).then_some(product as u64)
}

/// Written with the first unit that divides it.
fn write(f: &mut fmt::Formatter<'_>, count: u64, units: &[(&str, u64)]) -> fmt::Result {
    match units.iter().find(|(_, factor)| count.is_multiple_of(*factor)) {
        Some((unit, factor)) => write!(f, "{}{unit}", count / factor),
        None => write!(f, "{count}"),
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A day or two read better in hours: limits of 24h and 48h are familiar.
        match self.0 {
            0 => f.write_str("0s"),
            HOUR..=172_800_000 if self.0.is_multiple_of(HOUR) => write!(f, "{}h", self.0 / HOUR),
            millis => write(f, millis, &SPAN_UNITS),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            bytes => write(f, bytes, &SIZE_UNITS),
        }
    }
}

/// A file may hold `"15s"` or, without quotes, 15.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Text(String),
}

fn read<'de, D: Deserializer<'de>, T: FromStr<Err = BadValue>>(from: D) -> Result<T, D::Error> {
    let text = match Written::deserialize(from)? {
        Written::Number(number) => number.to_string(),
        Written::Text(text) => text,
    };
    text.parse().map_err(de::Error::custom)
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_are_read_and_printed() {
        for (written, millis, printed) in [
            ("15s", 15_000, "15s"),
            ("5m", 300_000, "5m"),
            ("6h", 6 * HOUR, "6h"),
            ("1d", DAY, "24h"),
            ("48h", 2 * DAY, "48h"),
            ("36h", 36 * HOUR, "36h"),
            ("72h", 3 * DAY, "3d"),
            ("250ms", 250, "250ms"),
            ("15", 15_000, "15s"),
            ("0.5", 500, "500ms"),
            ("1.5h", 90 * MINUTE, "90m"),
            ("1h30m", 90 * MINUTE, "90m"),
            ("1h0m0s", HOUR, "1h"),
            (" 2 S ", 2000, "2s"),
            ("0", 0, "0s"),
        ] {
            let span: Span = written.parse().unwrap();
            assert_eq!(
                (span.as_millis(), span.to_string().as_str()),
                (millis, printed),
                "{written}"
            );
        }
    }

    #[test]
    fn sizes_are_read_and_printed() {
        for (written, bytes, printed) in [
            ("10MB", 10_000_000, "10MB"),
            ("500KB", 500_000, "500KB"),
            ("1GB", 1_000_000_000, "1GB"),
            ("1000GB", 1_000_000_000_000, "1TB"),
            ("4097", 4097, "4097"),
            ("4096B", 4096, "4KiB"),
            ("10MiB", 10 << 20, "10MiB"),
            ("1.5 gb", 1_500_000_000, "1500MB"),
            ("2M", 2_000_000, "2MB"),
            ("0", 0, "0"),
        ] {
            let size: Size = written.parse().unwrap();
            assert_eq!((size.as_bytes(), size.to_string().as_str()), (bytes, printed), "{written}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for bad in ["", "s", "-5s", "15x", "1h30", "1..5s", ".", "1e3s", "inf", "99999999d", "15s!"]
        {
            let error = bad.parse::<Span>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{bad:?} is not a time span such as")), "{error}");
        }
        for bad in ["", "MB", "-1", "10XB", "10MB5", "1000000TB", "18446744073709551616"] {
            let error = bad.parse::<Size>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{bad:?} is not a size such as")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_span_reads_back(millis in 0..=MAX_SPAN) {
            prop_assert_eq!(Span(millis).to_string().parse(), Ok(Span(millis)));
        }

        #[test]
        fn a_printed_span_of_whole_units_reads_back(count in 0_u64..1000, unit in 0_usize..5) {
            let span = Span(count * SPAN_UNITS[unit].1);
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }

        #[test]
        fn a_printed_size_reads_back(count in 0_u64..=1000, unit in 0_usize..SIZE_UNITS.len()) {
            let size = Size(count.min(999) * SIZE_UNITS[unit].1 % MAX_SIZE);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.a-zA-Z€ -]{0,12}") {
            if let Ok(span) = text.parse::<Span>() {
                prop_assert!(span.0 <= MAX_SPAN);
            }
            if let Ok(size) = text.parse::<Size>() {
                prop_assert!(size.0 <= MAX_SIZE);
            }
        }
    }
}
