//! One stable code for every outcome: what metrics, the API and `last_error` show.

use super::named;

named! {
    /// What came of a task. The name is public and never changes its meaning.
    pub enum Code {
        /// Served, read and kept.
        Ok = 0 "ok",
        /// The publisher said that nothing changed.
        NotModified = 1 "not_modified",
        /// The address leads elsewhere for good; its successor is another task.
        Redirect = 2 "redirect",
        /// The publisher asked for a slower pace.
        RateLimited = 10 "rate_limited",
        /// The publisher's server failed.
        Upstream = 11 "upstream_failure",
        /// No answer in time.
        Timeout = 12 "timeout",
        /// The connection failed or broke.
        Network = 13 "network",
        /// The name did not resolve.
        Dns = 14 "dns",
        /// The publisher refuses us.
        Forbidden = 15 "forbidden",
        /// There is nothing at the address.
        NotFound = 16 "not_found",
        /// It was there and is gone for good.
        Gone = 17 "gone",
        /// It needs credentials, or may not be shown for legal reasons.
        Unauthorized = 18 "unauthorized",
        /// A status that has no meaning here.
        HttpStatus = 19 "http_status",
        /// What was served is not what it should be.
        Parse = 20 "parse_error",
        /// The content type rules the kind out.
        BadContentType = 21 "bad_content_type",
        /// Nothing was served, or nothing readable was in it.
        Empty = 22 "empty",
        /// More was served than we take.
        TooLarge = 23 "too_large",
        /// The answer ended before it was whole.
        Truncated = 24 "truncated",
        /// The content coding is corrupt or unknown.
        BadEncoding = 25 "bad_encoding",
        /// Too little markup to be a page.
        BadHtml = 26 "bad_html",
        /// A page, but no article.
        NotArticle = 27 "not_article",
        /// More redirects than we follow, or a circle of them.
        RedirectLoop = 28 "redirect_loop",
        /// robots.txt rules it out.
        RobotsBlocked = 30 "robots_blocked",
        /// robots.txt cannot be had: the host waits.
        RobotsUnreachable = 31 "robots_unreachable",
        /// The guard refuses the address.
        Guarded = 32 "refused_address",
        /// The address cannot be fetched as written.
        BadUrl = 33 "bad_url",
        /// The task killed or lost its worker five times.
        Poison = 34 "poison",
        /// The next host of a redirect is busy: come back then.
        HostBusy = 35 "host_busy",
        /// A bot wall answered in the publisher's place.
        BlockedByWall = 36 "blocked_by_wall",
        /// An article that our own rules turn away.
        Rejected = 37 "rejected",
        /// It was taken down: nothing of it is kept, and nobody asks for it.
        Withdrawn = 38 "withdrawn",
        /// A page that only lists others.
        Listing = 40 "listing",
        /// A page that asks to sign in.
        SignIn = 41 "sign_in",
        /// A page that says it is not there, under a status that says it is.
        SoftNotFound = 42 "soft_404",
        /// Our own fault.
        Internal = 90 "internal",
    }
}

/// How an outcome is waited out: the rows of the scheduler's table of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing failed.
    Fine,
    /// Wait as told, or a minute, doubling.
    RateLimited,
    /// 5xx, timeouts, network and name failures.
    Upstream,
    /// 403 and walls.
    Forbidden,
    /// 404.
    NotFound,
    /// It is not what it should be.
    Content,
    /// Too large or cut off.
    Size,
    /// Gone, unauthorised, ruled out: waiting does not help.
    Final,
}

impl Code {
    /// The class whose waits apply.
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Self::Ok | Self::NotModified => Class::Fine,
            Self::RateLimited | Self::HostBusy => Class::RateLimited,
            Self::Upstream
            | Self::Timeout
            | Self::Network
            | Self::Dns
            | Self::HttpStatus
            | Self::RobotsUnreachable
            | Self::Internal => Class::Upstream,
            Self::Forbidden | Self::BlockedByWall => Class::Forbidden,
            Self::NotFound => Class::NotFound,
            Self::Parse
            | Self::BadContentType
            | Self::Empty
            | Self::BadEncoding
            | Self::BadHtml
            | Self::NotArticle
            | Self::Listing
            | Self::SignIn
            | Self::SoftNotFound => Class::Content,
            Self::TooLarge | Self::Truncated => Class::Size,
            Self::Redirect
            | Self::Gone
            | Self::Unauthorized
            | Self::RedirectLoop
            | Self::RobotsBlocked
            | Self::Guarded
            | Self::BadUrl
            | Self::Poison
            | Self::Rejected
            | Self::Withdrawn => Class::Final,
        }
    }

    /// Whether trying the same page again can bring something else.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        match self {
            Self::Truncated | Self::BadEncoding => true,
            // The same request will be just as wrong.
            Self::HttpStatus => false,
            _ => matches!(self.class(), Class::RateLimited | Class::Upstream),
        }
    }

    /// Whether failures of this kind in a row are counted without those of other kinds before them: what a
    /// server asked for, and what went wrong on our side, is not made worse by an outage.
    #[must_use]
    pub const fn is_counted_alone(self) -> bool {
        matches!(self, Self::RateLimited | Self::HostBusy | Self::Internal)
    }

    /// Whether a failure counts against us: our network, our limits or our program failed, and the
    /// publisher said nothing. What an operator promises is a small share of these.
    #[must_use]
    pub const fn is_on_us(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::Network
                | Self::Dns
                | Self::Truncated
                | Self::Poison
                | Self::Internal
        )
    }

    /// The failure in the five words of the canonical fetcher's stores; `None` where nothing was
    /// fetched that could have failed.
    #[must_use]
    pub const fn failure(self) -> Option<&'static str> {
        Some(match self {
            Self::Ok
            | Self::NotModified
            | Self::Redirect
            | Self::RobotsBlocked
            | Self::RobotsUnreachable
            | Self::Guarded
            | Self::BadUrl
            | Self::Poison
            | Self::HostBusy
            | Self::Rejected
            | Self::Withdrawn
            | Self::Internal => return None,
            Self::RateLimited
            | Self::Upstream
            | Self::Network
            | Self::Dns
            | Self::Forbidden
            | Self::NotFound
            | Self::Gone
            | Self::Unauthorized
            | Self::HttpStatus
            | Self::RedirectLoop
            | Self::BlockedByWall => "FAIL_HTTP",
            Self::Timeout => "FAIL_TIMEOUT",
            Self::Parse
            | Self::BadContentType
            | Self::TooLarge
            | Self::Truncated
            | Self::BadEncoding => "FAIL_PARSE",
            Self::BadHtml => "FAIL_BAD_HTML",
            Self::Empty | Self::NotArticle | Self::Listing | Self::SignIn | Self::SoftNotFound => {
                "FAIL_EMPTY"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_keeps_name_and_number() {
        for code in Code::ALL {
            assert_eq!(code.as_str().parse::<Code>().unwrap(), *code);
            assert_eq!(Code::from_number(code.number()), Some(*code));
        }
        let numbers: std::collections::BTreeSet<_> = Code::ALL.iter().map(|c| c.number()).collect();
        assert_eq!(numbers.len(), Code::ALL.len());
    }

    #[test]
    fn every_failure_of_a_fetch_has_one_of_the_five_words() {
        let words = ["FAIL_HTTP", "FAIL_TIMEOUT", "FAIL_PARSE", "FAIL_BAD_HTML", "FAIL_EMPTY"];
        for code in Code::ALL {
            let served = matches!(code.number(), 10..30 | 40..50) || *code == Code::BlockedByWall;
            assert_eq!(code.failure().is_some(), served, "{code}");
            assert!(code.failure().is_none_or(|word| words.contains(&word)), "{code}");
        }
    }

    #[test]
    fn what_is_final_is_never_transient() {
        for code in Code::ALL {
            assert!(!(code.class() == Class::Final && code.is_transient()), "{code}");
        }
    }
}
