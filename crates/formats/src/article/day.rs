//! Calendar days in running text, as pages show them.
//!
//! A page that says `3 May` means its own third of May, so no zone is looked at. Whole timestamps
//! are for `crate::date`.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use jiff::civil::Date;

/// No more of a text is looked at.
const MAX_TEXT: usize = 600;
/// Years that pages can be of; the end is far enough to need no clock here.
const YEARS: std::ops::RangeInclusive<i16> = 1995..=2099;

/// The names of months, by month; the first three letters of the English ones come with them.
const MONTHS: [&str; 12] = [
    "january jan januar jänner janvier enero gennaio janeiro januari ocak styczeń stycznia ene gen \
     janv января ledna",
    "february feb februar februari février febrero febbraio fevereiro fev febr şubat lutego \
     февраля févr února",
    "march mar märz maerz mars marzo março maart mart marca марта mär mrz března",
    "april apr avril abril aprile nisan kwietnia апреля avr abr dubna",
    "may mai mayo maggio maio mei mayıs maja мая mag května",
    "june jun juni juin junio giugno junho haziran czerwca июня giu června",
    "july jul juli juillet julio luglio julho temmuz lipca июля lug července",
    "august aug août agosto ağustos sierpnia августа augustus ago srpna",
    "september sep sept septembre septiembre settembre setembro eylül września сентября set září",
    "october oct oktober okt octobre octubre ottobre outubro ekim października октября ott out \
     října",
    "november nov novembre noviembre novembro kasım listopada ноября listopadu",
    "december dec dezember dez décembre diciembre dicembre dezembro aralık grudnia декабря dic déc \
     prosince",
];

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day(Date);

impl Day {
    fn new(year: u32, month: u32, day: u32) -> Option<Self> {
        let year = if year < 100 { year + 2000 } else { year };
        let date = Date::new(
            i16::try_from(year).ok().filter(|year| YEARS.contains(year))?,
            i8::try_from(month).ok()?,
            i8::try_from(day).ok()?,
        );
        date.ok().map(Self)
    }

    /// The day with its day and month exchanged.
    pub(super) fn swapped(self) -> Option<Self> {
        Date::new(self.0.year(), self.0.day(), self.0.month()).ok().map(Self)
    }

    /// Whether two days follow each other.
    pub(super) fn is_next_to(self, other: Self) -> bool {
        self.0.tomorrow().is_ok_and(|next| next == other.0)
            || self.0.yesterday().is_ok_and(|last| last == other.0)
    }

    /// The first day in a text; `month_first` says how to read `3/4/2020`.
    pub(super) fn find(text: &str, month_first: bool) -> Option<Self> {
        let text = text.trim();
        let tokens = tokens(text);
        iso(&tokens)
            .or_else(|| compact(text))
            .or_else(|| epoch(text))
            .or_else(|| (0..tokens.len()).find_map(|at| written(&tokens, at, month_first)))
    }

    /// The day in an address, as `/2026/05/03/`.
    pub(super) fn in_address(address: &str) -> Option<Self> {
        let path = address.split_once("://").map_or(address, |(_, rest)| rest);
        let tokens = tokens(path);
        let start = |at: &usize| {
            at.checked_sub(1).is_some_and(|at| tokens.get(at) == Some(&Token::Sign('/')))
        };
        (0..tokens.len()).filter(start).find_map(|at| match tokens.get(at..)? {
            [
                Token::Number(year, 4),
                Token::Sign('/' | '-' | '_'),
                Token::Number(month, 1 | 2),
                Token::Sign('/' | '-' | '_'),
                Token::Number(day, 1 | 2),
                rest @ ..,
            ] if !matches!(rest, [Token::Word(_) | Token::Month(_), ..]) => {
                Self::new(*year, *month, *day)
            }
            [Token::Number(all, 8), ..] => Self::new(all / 10_000, all / 100 % 100, all % 100),
            [
                Token::Number(year, 4),
                Token::Sign('/' | '-'),
                Token::Month(month),
                Token::Sign('/' | '-'),
                Token::Number(day, 1 | 2),
                rest @ ..,
            ] if !matches!(rest, [Token::Word(_) | Token::Month(_), ..]) => {
                Self::new(*year, *month, *day)
            }
            [
                Token::Number(one, 1 | 2),
                Token::Sign('-'),
                Token::Number(other, 1 | 2),
                Token::Sign('-'),
                Token::Number(year, 4),
                ..,
            ] => Self::unmistakable(*year, *one, *other),
            _ => None,
        })
    }

    /// The day of two numbers of which only one can be a month.
    fn unmistakable(year: u32, one: u32, other: u32) -> Option<Self> {
        let (day_first, month_first) = (Self::new(year, other, one), Self::new(year, one, other));
        if day_first == month_first { day_first } else { day_first.xor(month_first) }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// A number and how many digits it has.
    Number(u32, usize),
    Month(u32),
    /// Another word: whether one may stand inside a date.
    Word(bool),
    Sign(char),
}

static MONTH_OF: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let named = (1_u32..).zip(MONTHS);
    named
        .flat_map(|(month, list)| list.split_ascii_whitespace().map(move |name| (name, month)))
        .collect()
});

/// Whether a text may hold a day: most texts have no year and no two numbers with a sign between.
pub(super) fn may_hold(text: &str) -> bool {
    text.as_bytes().windows(4).any(|four| match four {
        [b'1', b'9', a, b] | [b'2', b'0', a, b] => a.is_ascii_digit() && b.is_ascii_digit(),
        [a, b'.' | b'/', b, c] => {
            a.is_ascii_digit()
                && (b.is_ascii_digit() || *b == b' ')
                && (c.is_ascii_digit() || *c == b'.')
        }
        _ => false,
    })
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text.char_indices().take_while(|(at, _)| *at < MAX_TEXT).peekable();
    let mut word = String::new();
    while let Some((_, c)) = rest.next() {
        if let Some(digit) = c.to_digit(10) {
            let (mut value, mut length) = (digit, 1);
            while let Some((_, next)) = rest.next_if(|(_, c)| c.is_ascii_digit()) {
                let digit = next.to_digit(10).unwrap_or_default();
                value = value.saturating_mul(10).saturating_add(digit);
                length += 1;
            }
            out.push(Token::Number(value, length));
        } else if c.is_alphabetic() && !crate::simhash::is_unspaced(c) && !is_hangul(c) {
            word.clear();
            word.extend(c.to_lowercase());
            // Two elements side by side have no blank between: `Jane DoeDec 5, 2026`.
            let mut small = c.is_lowercase();
            while let Some((_, next)) =
                rest.next_if(|(_, c)| c.is_alphabetic() && !(small && c.is_uppercase()))
            {
                small = next.is_lowercase();
                word.extend(next.to_lowercase());
            }
            let inside = matches!(word.as_str(), "st" | "nd" | "rd" | "th" | "de" | "of" | "er");
            out.push(
                MONTH_OF
                    .get(word.as_str())
                    .map_or(Token::Word(inside), |month| Token::Month(*month)),
            );
        } else {
            out.push(Token::Sign(c));
        }
    }
    out
}

const fn is_hangul(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}')
}

/// The year comes first: `2026-5-3`, `2026/05/03`, `2026年5月3日`.
fn iso(tokens: &[Token]) -> Option<Day> {
    let spaceless: Vec<Token> =
        tokens.iter().copied().filter(|token| *token != Token::Sign(' ')).collect();
    spaceless.windows(5).find_map(|five| match five {
        [
            Token::Number(year, 4),
            Token::Sign('-' | '/' | '.' | '年' | '년'),
            Token::Number(month, 1 | 2),
            Token::Sign('-' | '/' | '.' | '月' | '월'),
            Token::Number(day, 1 | 2),
        ] => Day::new(*year, *month, *day),
        _ => None,
    })
}

/// `20260503` at the start.
fn compact(text: &str) -> Option<Day> {
    match tokens(text.get(..text.len().min(24)).unwrap_or_default()).first()? {
        Token::Number(all, 8) => Day::new(all / 10_000, all / 100 % 100, all % 100),
        _ => None,
    }
}

/// Seconds or milliseconds since 1970, and nothing else.
fn epoch(text: &str) -> Option<Day> {
    let at = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| crate::date::parse(text))??;
    let day = at.day();
    let mut parts = day.split('-').map(str::parse);
    match (parts.next()?, parts.next()?, parts.next()?) {
        (Ok(year), Ok(month), Ok(day)) => Day::new(year, month, day),
        _ => None,
    }
}

/// The year behind a day and a month's name; another element's number may follow it without a blank.
fn year(token: Token) -> Option<u32> {
    match token {
        Token::Number(year, 4) => Some(year),
        Token::Number(more, length @ 5..=9) => {
            let year = more / 10_u32.pow(u32::try_from(length - 4).ok()?);
            i16::try_from(year).is_ok_and(|year| YEARS.contains(&year)).then_some(year)
        }
        _ => None,
    }
}

/// A date that starts at a token: `3 May 2026`, `May 3, 2026`, `3.5.26`, `3/5/2026`.
fn written(tokens: &[Token], at: usize, month_first: bool) -> Option<Day> {
    let bare = at
        .checked_sub(1)
        .and_then(|at| tokens.get(at))
        .is_none_or(|before| !matches!(before, Token::Number(..) | Token::Sign('/' | '.' | '-')));
    let mut rest = tokens.get(at..)?.iter().copied();
    let first = rest.next()?;
    let filler = |token: &Token| {
        matches!(token, Token::Sign(' ' | '.' | ',' | '-' | 'º' | '\u{a0}') | Token::Word(true))
    };
    match first {
        Token::Month(month) => {
            let mut told = rest.skip_while(filler);
            let Token::Number(day, 1 | 2) = told.next()? else { return None };
            Day::new(year(told.find(|token| !filler(token))?)?, month, day)
        }
        Token::Number(one, 1 | 2) if bare => {
            let parts: Vec<Token> =
                rest.clone().filter(|token| *token != Token::Sign(' ')).take(5).collect();
            match parts.as_slice() {
                [
                    Token::Sign('.'),
                    Token::Number(month, 1 | 2),
                    Token::Sign('.'),
                    Token::Number(year, 2 | 4),
                    ..,
                ] => Day::new(*year, *month, one),
                [
                    Token::Sign('|'),
                    Token::Number(month, 1 | 2),
                    Token::Sign('|'),
                    Token::Number(year, 4),
                    ..,
                ] => Day::new(*year, *month, one),
                [
                    Token::Sign('/'),
                    Token::Number(other, 1 | 2),
                    Token::Sign('/'),
                    Token::Number(year, 4),
                    ..,
                ] => {
                    let (day, month) = if month_first { (*other, one) } else { (one, *other) };
                    Day::new(*year, month, day).or_else(|| Day::new(*year, day, month))
                }
                _ => {
                    let mut told = rest.skip_while(filler);
                    let Token::Month(month) = told.next()? else { return None };
                    Day::new(year(told.find(|token| !filler(token))?)?, month, one)
                }
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_as_pages_show_them() {
        for text in [
            "2026-05-03T23:30:00-05:00",
            "Published 3 May 2026",
            "3rd of May, 2026",
            "May 3, 2026 10:00",
            "Stand: 3. Mai 2026",
            "03.05.2026, 10:30 Uhr",
            "3.5.26",
            "3 de mayo de 2026",
            "3 мая 2026",
            "2026年5月3日",
            "2026년 5월 3일",
            "20260503",
            "1777800000",
            "3/5/2026",
            "03 | 05 | 2026",
            "By Jane DoeMay 3, 2026",
            "May 3, 2026116.4K shares",
        ] {
            assert_eq!(Day::find(text, false).unwrap().to_string(), "2026-05-03", "{text}");
            assert!(may_hold(text) || text == "1777800000", "{text}");
        }
        assert_eq!(Day::find("5/3/2026", true).unwrap().to_string(), "2026-05-03");
        for text in ["", "May", "in May 300 people", "31.02.2026", "1.2.3", "version 4.5.6.2026"] {
            assert_eq!(Day::find(text, false), None, "{text}");
        }
    }

    #[test]
    fn days_in_addresses() {
        let day = |address| Day::in_address(address).map(|day| day.to_string());
        assert_eq!(day("https://a.example/2026/05/03/storm").as_deref(), Some("2026-05-03"));
        assert_eq!(day("https://a.example/news/2026-05-03-storm").as_deref(), Some("2026-05-03"));
        assert_eq!(day("https://a.example/20260503/x").as_deref(), Some("2026-05-03"));
        assert_eq!(day("https://a.example/2026/may/03/storm").as_deref(), Some("2026-05-03"));
        assert_eq!(day("https://a.example/news/29-10-2026").as_deref(), Some("2026-10-29"));
        assert_eq!(day("https://a.example/news/10-29-2026/x").as_deref(), Some("2026-10-29"));
        assert_eq!(day("https://a.example/news/03-05-2026"), None, "May or March");
        assert_eq!(day("https://a.example/2026/05/storm"), None);
    }

    #[test]
    fn neighbours() {
        let day = |text| Day::find(text, false).unwrap();
        assert!(day("2026-05-31").is_next_to(day("2026-06-01")));
        assert!(!day("2026-05-31").is_next_to(day("2026-05-31")));
        assert_eq!(day("2026-05-03").swapped(), Some(day("2026-03-05")));
        assert_eq!(day("2026-05-13").swapped(), None);
    }
}
