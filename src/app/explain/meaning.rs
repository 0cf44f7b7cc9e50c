//! What each code means, and what can be done about it, in a sentence for people.

use crate::model::Code;

/// What an outcome means. Every code has its sentence.
#[must_use]
pub const fn meaning(code: Code) -> &'static str {
    match code {
        Code::Ok => "it was served, read and kept",
        Code::NotModified => "the publisher said that nothing changed since the last answer",
        Code::Redirect => "it leads to another address, which is followed instead",
        Code::RateLimited => "the publisher asked for a slower pace, which is kept",
        Code::Upstream => "the publisher's server failed; that mostly passes",
        Code::Timeout => "no answer came in time (fetch.request_timeout)",
        Code::Network => "the connection failed or broke",
        Code::Dns => "the host's name did not resolve",
        Code::Forbidden => "the publisher refuses us; writing to them helps more than trying on",
        Code::NotFound => "there is nothing at the address",
        Code::Gone => "it was there and is gone for good",
        Code::Unauthorized => {
            "it needs credentials (`source set --auth`), or may not be shown for legal reasons"
        }
        Code::HttpStatus => "it was answered with a status that has no meaning here",
        Code::Parse => "what was served cannot be read as what it should be",
        Code::BadContentType => "what was served is of another type than it should be",
        Code::Empty => "nothing was served, or nothing readable was in it",
        Code::TooLarge => {
            "it is larger than allowed (fetch.max_body, fetch.max_decoded), or too costly to read"
        }
        Code::Truncated => "the answer ended before it was whole",
        Code::BadEncoding => "the compression of the answer is corrupt or unknown",
        Code::BadHtml => "there is too little markup to be a page (extract.min_html_chars)",
        Code::NotArticle => "it is a page, but no article (`feedmill extract --explain` tells why)",
        Code::RedirectLoop => "it leads in a circle, or through too many redirects",
        Code::RobotsBlocked => "robots.txt rules it out; it is looked at again when that changes",
        Code::RobotsUnreachable => "robots.txt cannot be fetched, so the pages of its origin wait",
        Code::Guarded => {
            "the guard refuses the address (fetch.allow_networks, fetch.allow_hosts and \
             fetch.allow_ports say which may be asked)"
        }
        Code::BadUrl => "the address cannot be fetched as it is written",
        Code::Poison => "it killed or lost its worker five times in a row",
        Code::HostBusy => "a redirect led to a host that could not be asked just then",
        Code::BlockedByWall => "a bot wall answered in the publisher's place",
        Code::Rejected => "it was read, and our own rules ([validation]) turn it away",
        Code::Listing => "it is a page that only lists others",
        Code::SignIn => "it is a page that asks to sign in",
        Code::SoftNotFound => "it says that it is not there, under a status that says it is",
        Code::Withdrawn => "it was taken down (`feedmill forget --list` tells by whom and why)",
        Code::Internal => "we failed ourselves; the log has a line about it",
    }
}
