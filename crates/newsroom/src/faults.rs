//! Misbehaviour on command: which fault strikes which request, and for how long. Only the wire
//! acts on it; a fault never changes the truth.

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The body trickles: so many bytes, then a pause in real time.
    SlowBytes {
        /// Bytes at a time.
        chunk: usize,
        /// Real milliseconds between chunks.
        pause_ms: u64,
    },
    /// The connection is reset in the middle of the body.
    Reset,
    /// The connection closes in the middle of the body.
    Truncate,
    /// Content-Length says half of what is sent.
    WrongContentLength,
    /// Content-Encoding says gzip, the data is broken.
    BadGzip,
    /// 302 to this URL.
    RedirectTo(String),
    /// 301 to this URL.
    MovedTo(String),
    /// So many 302 hops on the same host, then the answer.
    RedirectChain(u32),
    /// 302 in a circle of two.
    RedirectLoop,
    /// This status and a short page.
    Status(u16),
    /// 429 with Retry-After.
    TooManyRequests {
        /// When to come back.
        retry_after: RetryAfter,
    },
    /// A 5xx status, with Retry-After or without.
    ServerError {
        /// The status.
        status: u16,
        /// When to come back.
        retry_after: Option<RetryAfter>,
    },
    /// Content-Type names a character set that the body does not have.
    WrongEncoding(Mislabel),
    /// 304 to whoever sends a validator, whatever has changed.
    FrozenValidators,
    /// Feed items have other ids at every request.
    ChangedGuids,
    /// The request is read and never answered.
    Hang,
    /// 200 without a body.
    Empty,
    /// 200 with a maintenance page.
    HtmlInsteadOfFeed,
    /// Just this answer, whatever was asked.
    Scripted(Script),
    /// The same to whoever sends no validator; 304 to all others.
    ScriptedFrozen(Script),
}

/// An answer, word for word. Content-Length and Date are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The status.
    pub status: u16,
    /// Header lines.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Closes the connection in the middle of the body.
    pub cut: bool,
}

/// The two forms of Retry-After; both count from the answer, in seconds of simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// `Retry-After: 120`
    Seconds(u32),
    /// `Retry-After: Sun, 06 Nov 1994 08:49:37 GMT`, so many seconds ahead.
    Date(u32),
}

/// Which way the character set is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mislabel {
    /// UTF-8 that is said to be ISO-8859-1.
    Utf8AsLatin1,
    /// ISO-8859-1 that is said to be UTF-8.
    Latin1AsUtf8,
}

/// How long a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// For so many requests.
    Times(u32),
    /// Before this simulated millisecond.
    Until(i64),
    /// Until [`crate::Newsroom::behave`].
    Always,
}

/// The faults in force; the newest that fits wins.
#[derive(Default)]
pub(crate) struct Faults(Vec<Rule>);

struct Rule {
    host: String,
    path_prefix: String,
    fault: Fault,
    span: Span,
}

impl Rule {
    fn is_in_force(&self, now: i64) -> bool {
        match self.span {
            Span::Times(left) => left > 0,
            Span::Until(end) => now < end,
            Span::Always => true,
        }
    }
}

impl Faults {
    pub(crate) fn add(&mut self, host: &str, path_prefix: &str, fault: Fault, span: Span) {
        let host = host.to_ascii_lowercase();
        self.0.push(Rule { host, path_prefix: path_prefix.to_owned(), fault, span });
    }

    /// Lifts what was commanded with just this host and prefix.
    pub(crate) fn lift(&mut self, host: &str, path_prefix: &str) {
        self.0.retain(|rule| rule.host != host || rule.path_prefix != path_prefix);
    }

    /// How many faults can still strike at this time.
    pub(crate) fn unspent(&self, now: i64) -> usize {
        self.0.iter().filter(|rule| rule.is_in_force(now)).count()
    }

    /// The fault for this request, counted as used.
    pub(crate) fn strike(&mut self, host: &str, path: &str, now: i64) -> Option<Fault> {
        self.0.retain(|rule| rule.is_in_force(now));
        let rule = self.0.iter_mut().rev().find(|rule| {
            (rule.host == "*" || rule.host == host) && path.starts_with(&rule.path_prefix)
        })?;
        if let Span::Times(left) = &mut rule.span {
            *left -= 1;
        }
        Some(rule.fault.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_fitting_fault_strikes_as_often_as_told() {
        let mut faults = Faults::default();
        faults.add("*", "/", Fault::Status(503), Span::Until(100));
        faults.add("a.test", "/feed", Fault::Status(404), Span::Times(1));
        assert_eq!(faults.strike("a.test", "/feed.xml", 0), Some(Fault::Status(404)));
        assert_eq!(faults.strike("a.test", "/feed.xml", 0), Some(Fault::Status(503)));
        assert_eq!(faults.strike("b.test", "/x", 99), Some(Fault::Status(503)));
        assert_eq!(faults.strike("b.test", "/x", 100), None);
    }

    #[test]
    fn lifting_leaves_other_faults_alone() {
        let mut faults = Faults::default();
        faults.add("a.test", "/", Fault::Hang, Span::Always);
        faults.add("b.test", "/", Fault::Empty, Span::Always);
        faults.lift("a.test", "/");
        assert_eq!(faults.strike("a.test", "/", 0), None);
        assert_eq!(faults.strike("b.test", "/", 0), Some(Fault::Empty));
    }
}
