//! What a status and its headers say, before anybody looks at the body. Pure.

use std::time::Duration;

use feedmill_formats::{date, url as web, wall};

use crate::model::{Code, Headers, Response, Ts};
use crate::schedule::human;

/// The first look at an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// There is a body to read.
    Body,
    /// Nothing changed.
    NotModified,
    /// It failed.
    Failed {
        /// How.
        code: Code,
        /// How, for people.
        detail: String,
        /// When the server wants us back.
        told: Option<Ts>,
        /// Whether it asked for a longer pause than any gets.
        capped: bool,
    },
}

/// Values of one `Retry-After` that are looked at.
const MOST_PAUSES: usize = 100;
/// The longest `max-age` that we believe.
const LONGEST_MAX_AGE: Duration = Duration::from_hours(24);

/// A first look at a response; no pause that it asks for is longer than `max_pause`.
pub(super) fn judge(response: &Response, max_pause: Duration) -> Judged {
    let status = response.status();
    let asked = retry_after(&response.exchange.headers, response.exchange.ended, max_pause);
    let told = asked.map(|asked| asked.until);
    let code = match status {
        // Parts and differences that nobody asked for are no document.
        206 => Code::Truncated,
        226 => Code::HttpStatus,
        200..=299 => match response.exchange.truncated {
            None => return Judged::Body,
            Some(crate::model::Truncation::Length) => Code::TooLarge,
            Some(_) => Code::Truncated,
        },
        304 if asked_whether_changed(response) => return Judged::NotModified,
        301 | 302 | 303 | 307 | 308 => Code::RedirectLoop,
        401 | 407 | 451 => Code::Unauthorized,
        403 => Code::Forbidden,
        404 => Code::NotFound,
        408 | 425 => Code::Upstream,
        410 => Code::Gone,
        429 => Code::RateLimited,
        503 if told.is_some() => Code::RateLimited,
        500..=599 => Code::Upstream,
        _ => Code::HttpStatus,
    };
    let detail = match code {
        Code::TooLarge | Code::Truncated if status != 206 => {
            format!(
                "status {status}, but the body was cut off after {} bytes",
                response.exchange.body.len()
            )
        }
        Code::RedirectLoop => leads_nowhere(response),
        Code::RateLimited => {
            format!("status {status}{}", asked.map_or_else(String::new, shortened))
        }
        _ => format!("status {status}"),
    };
    let told = told.filter(|_| code == Code::RateLimited);
    let capped = told.is_some() && asked.is_some_and(|asked| asked.asked.is_some());
    Judged::Failed { code, detail, told, capped }
}

/// Why a redirect was not followed.
fn leads_nowhere(response: &Response) -> String {
    let status = response.status();
    let location = response.exchange.headers.text("location");
    let base = web::parse(response.final_url()).ok();
    match location.zip(base).map(|(location, base)| web::join(&base, &location)) {
        None => format!("status {status} without a Location"),
        Some(Err(error)) => format!("status {status} leads to where nobody can go: {error}"),
        Some(Ok(target)) => format!("status {status} leads to {target}, one redirect too many"),
    }
}

/// The bot wall that answered in the publisher's place; `body` is decoded.
pub(super) fn walled(response: &Response, body: &[u8]) -> Option<(Code, String)> {
    let name = wall::name(response.status(), |name| response.header(name).is_some(), body)?;
    let status = response.status();
    Some((Code::BlockedByWall, format!("status {status} from a bot wall of {name}")))
}

/// A 304 that nobody asked for says nothing.
fn asked_whether_changed(response: &Response) -> bool {
    let sent = &response.exchange.request;
    sent.get("if-none-match").is_some() || sent.get("if-modified-since").is_some()
}

/// The time by the server's clock.
#[must_use]
pub fn served_at(headers: &Headers) -> Option<Ts> {
    date::http_date(headers.get("date")?.trim())
}

/// A pause that a server asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter {
    /// Nothing before this time.
    pub until: Ts,
    /// What it asked for, when that was longer than any pause may be.
    pub asked: Option<Duration>,
}

/// The pause that `Retry-After` asks for, of `longest` at the most. Of several values the longest counts.
///
/// It is given in seconds, or as a date by the clock that the response's own date shows, because one of
/// the two clocks may be wrong. No pause is no wish.
pub fn retry_after(headers: &Headers, at: Ts, longest: Duration) -> Option<RetryAfter> {
    let now = served_at(headers).unwrap_or(at);
    let lines = headers.all("retry-after");
    let asked = lines.filter_map(|line| longest_pause(line, now)).max()?;
    let until = at.after(asked.min(longest));
    (!asked.is_zero())
        .then_some(RetryAfter { until, asked: Some(asked).filter(|it| *it > longest) })
}

/// The longest pause in one line of `Retry-After`. What is between two commas may be a half of a date.
fn longest_pause(line: &str, now: Ts) -> Option<Duration> {
    let parts: Vec<&str> = line.split(',').take(MOST_PAUSES).collect();
    let seconds = parts.iter().filter_map(|part| rounded_up(part.trim()));
    let pauses = seconds.map(Duration::from_secs);
    let halves = parts.windows(2).filter_map(|pair| date::http_date(pair.join(",").trim()));
    let dates = parts.iter().filter_map(|part| date::http_date(part.trim())).chain(halves);
    pauses.chain(dates.map(|date| date.since(now))).max()
}

/// Seconds of a pause, rounded up. Plain numbers are wanted there; some servers send fractions or a sign.
fn rounded_up(text: &str) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_more = whole(fraction)? > 0;
    Some(whole(seconds)?.saturating_add(u64::from(is_more)))
}

/// That a pause is shorter than it was asked for, for people.
fn shortened(pause: RetryAfter) -> String {
    let asked = pause.asked.map(human);
    let said = |asked| format!(", Retry-After of {asked} cut to hosts.max_retry_after");
    asked.map_or_else(String::new, said)
}

/// Whole seconds. Who writes more than fits means for ever, not nothing.
fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// The time for which the answer says it still stays fresh.
pub(super) fn fresh(headers: &Headers, at: Ts) -> Option<Duration> {
    let directives = headers.list("cache-control").unwrap_or_default().to_ascii_lowercase();
    let stale = |directive: &str| matches!(directive.trim(), "no-store" | "no-cache");
    if directives.split(',').any(stale) {
        return None;
    }
    let seconds = |text: &str| whole(text.trim().trim_matches('"'));
    let max_age = directives.split(',').find_map(|d| seconds(d.trim().strip_prefix("max-age=")?));
    let fresh = match max_age {
        Some(age) => {
            let spent = headers.get("age").and_then(seconds).unwrap_or(0);
            Duration::from_secs(age.saturating_sub(spent))
        }
        None => {
            let served = served_at(headers).unwrap_or(at);
            date::http_date(headers.get("expires")?.trim())?.since(served)
        }
    };
    Some(fresh.min(LONGEST_MAX_AGE)).filter(|fresh| !fresh.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        Headers(pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect())
    }

    const WEEK: Duration = Duration::from_hours(7 * 24);

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let at = Ts::from_ms(784_111_777_000);
        let read = |value| retry_after(&headers(&[("Retry-After", value)]), at, WEEK);
        let until = |until| Some(RetryAfter { until, asked: None });
        assert_eq!(read("120"), until(at.after(Duration::from_secs(120))));
        assert_eq!(read("604800"), until(at.after(WEEK)));
        assert_eq!(read("Sun, 06 Nov 1994 08:59:37 GMT"), until(Ts::from_ms(784_112_377_000)));
        for nothing in
            ["soon", "0", "-5", "1.", ".5", "1.5s", "++1", "Sun, 06 Nov 1994 08:49:37 GMT", "", ","]
        {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn of_several_pauses_the_longest_is_kept_and_fractions_are_rounded_up() {
        let at = Ts::from_ms(784_111_777_000);
        let date = "Sun, 06 Nov 1994 08:59:37 GMT";
        let with_date = format!("20, {date}");
        let cases: [(&[&str], u64); 14] = [
            (&["20", "60"], 60),
            (&["60", "20"], 60),
            (&["soon", "20"], 20),
            (&["20, 40"], 40),
            (&["40,20", "30"], 40),
            (&["1.5"], 2),
            (&["0.001"], 1),
            (&["2.0"], 2),
            (&["+25"], 25),
            (&["+25.5"], 26),
            (&["20", date], 600),
            (&[date, "900"], 900),
            (&[&with_date], 600),
            (&[date], 600),
        ];
        for (lines, seconds) in cases {
            let fields: Vec<_> = lines.iter().map(|line| ("Retry-After", *line)).collect();
            let read = retry_after(&headers(&fields), at, WEEK).unwrap();
            assert_eq!(read.until, at.after(Duration::from_secs(seconds)), "{lines:?}");
        }
    }

    #[test]
    fn a_pause_has_an_upper_bound() {
        let at = Ts::from_ms(784_111_777_000);
        for (value, days) in [
            ("31536000", 365),
            ("604801", 7),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 2_923_820),
            ("99999999999999999999999", 213_503_982_334_601),
        ] {
            let read = retry_after(&headers(&[("Retry-After", value)]), at, WEEK).unwrap();
            assert_eq!(read.until, at.after(WEEK), "{value}");
            assert_eq!(read.asked.unwrap().as_secs() / 86_400, days, "{value}");
        }
    }

    /// A clock that is a month off, ours or the server's, makes no pause of a month out of two minutes.
    #[test]
    fn a_date_counts_from_the_date_of_the_response() {
        let fields = [
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Retry-After", "Sun, 06 Nov 1994 08:51:37 GMT"),
        ];
        let month = Duration::from_hours(30 * 24);
        let told = Ts::from_ms(784_111_777_000);
        for at in [told, told.after(month), told.before(month)] {
            let read = retry_after(&headers(&fields), at, WEEK).unwrap();
            assert_eq!(read.until, at.after(Duration::from_secs(120)));
        }
    }

    #[test]
    fn freshness_is_read_and_bounded() {
        let at = Ts::from_ms(784_111_777_000);
        let read = |pairs: &[(&str, &str)]| fresh(&headers(pairs), at);
        let minutes = |n| Some(Duration::from_mins(n));
        assert_eq!(read(&[("cache-control", "public, max-age=600")]), minutes(10));
        assert_eq!(read(&[("cache-control", "max-age=600"), ("age", "240")]), minutes(6));
        for absurd in ["max-age=99999999", "max-age=99999999999999999999999"] {
            assert_eq!(read(&[("cache-control", absurd)]), Some(LONGEST_MAX_AGE));
        }
        let lines = [("cache-control", "public"), ("Cache-Control", "max-age=600")];
        assert_eq!(read(&lines), minutes(10));
        assert_eq!(read(&[("expires", "Fri, 31 Dec 9999 23:59:59 GMT")]), Some(LONGEST_MAX_AGE));
        let expires = ("expires", "Sun, 06 Nov 1994 08:59:37 GMT");
        assert_eq!(read(&[expires]), minutes(10));
        assert_eq!(read(&[expires, ("date", "Sun, 06 Nov 1994 08:29:37 GMT")]), minutes(30));
        assert_eq!(read(&[expires, ("cache-control", "max-age=60")]), minutes(1));
        for none in [
            &[("cache-control", "no-store")][..],
            &[("cache-control", "no-cache, max-age=600")],
            &[("cache-control", "max-age=600"), ("Cache-Control", "no-store")],
            &[("cache-control", "max-age=0")],
            &[("expires", "0")],
            &[],
        ] {
            assert_eq!(read(none), None, "{none:?}");
        }
    }
}
