//! North-cloud's words. Its dashboards count these very lines, so the messages, the fields and the words in
//! them are an interface: nothing here is put better than it is there.
//!
//! What is ours goes along under names of its own (`code`, `detail`, `failures`).

use super::{Poll, Said};
use crate::model::{Code, Kind, Lease, Next};

/// From so many failures in a row on, an operator is to be woken.
const FAILURES: u32 = 10;

impl Said {
    /// Addresses that the outcome found: those that are new were queued, the others were known.
    pub(super) fn submitted(&self, lease: &Lease, queued: &[bool]) {
        let source_id = lease.task.source_id.as_deref();
        for (found, queued) in self.found.iter().zip(queued) {
            let (url, origin) = (found.url.as_str(), found.origin.as_str());
            tracing::info!(url, source_id, origin, queued, "URL submitted to frontier");
        }
    }

    pub(super) fn feed_polled(&self, lease: &Lease, poll: &Poll) {
        let (url, source_id) = (lease.task.url.as_str(), lease.task.source_id.as_deref());
        let Poll { failures, .. } = *poll;
        match (failures, self.code) {
            (0, Code::NotModified) => {
                tracing::info!(url, source_id, "feed not modified, skipping");
            }
            (0, _) => {
                let items_submitted = self.found.len();
                tracing::info!(url, source_id, items_submitted, "feed polled successfully");
            }
            _ => self.poll_failed(lease, failures),
        }
    }

    /// A poll that failed. What is expected is a warning; what is not, and what does not end, is an error.
    fn poll_failed(&self, lease: &Lease, failures: u32) {
        let (url, source_id) = (lease.task.url.as_str(), lease.task.source_id.as_deref());
        let (error_type, status_code) = (error_type(self.code), self.status);
        let (code, detail) = (self.code.as_str(), self.reason.as_str());
        // The fields are the same at either level; a macro's level has to be a constant.
        macro_rules! say {
            ($level:ident) => {
                tracing::$level!(
                    url,
                    source_id,
                    error_type,
                    status_code,
                    code,
                    failures,
                    detail,
                    "feed poll failed"
                )
            };
        }
        match failures >= FAILURES || error_type == UNEXPECTED {
            true => say!(error),
            false => say!(warn),
        }
        if let Next::Again { at } | Next::Retry { at, .. } = self.next {
            tracing::info!(
                url, source_id, error_type, failures, next_poll_at = %at,
                "feed in backoff, skipping"
            );
        }
    }

    /// A channel was disabled.
    pub(super) fn auto_disabled(&self, lease: &Lease, detail: Option<&str>) {
        let (url, source_id) = (lease.task.url.as_str(), lease.task.source_id.as_deref());
        let reason = error_type(self.code);
        tracing::error!(url, source_id, reason, detail, "feed auto-disabled");
    }

    pub(super) fn url_fetched(&self, lease: &Lease) {
        let (url, source_id) = (lease.task.url.as_str(), lease.task.source_id.as_deref());
        let (code, detail) = (self.code.as_str(), self.reason.as_str());
        let (status_code, reason) = (self.status, reason(self.code));
        match (self.code, &self.next) {
            (Code::Ok | Code::NotModified | Code::Redirect, _) => {
                tracing::info!(url, source_id, status_code, "URL fetched successfully");
            }
            (_, Next::Dead { .. }) => {
                tracing::warn!(url, source_id, reason, status_code, code, detail, "URL marked dead")
            }
            _ => tracing::warn!(
                url,
                source_id,
                reason,
                status_code,
                code,
                detail,
                "URL fetch failed"
            ),
        }
    }
}

/// The pool begins, with all of its workers.
pub(super) fn pool_starts(workers: usize) {
    tracing::info!(worker_count = workers, "starting worker pool");
    workers_change(0, workers);
}

/// There are more or fewer workers than before.
pub(super) fn workers_change(before: usize, now: usize) {
    for worker_id in before + 1..=now {
        tracing::info!(worker_id, "worker started");
    }
    for worker_id in now + 1..=before {
        tracing::info!(worker_id, "worker stopping");
    }
}

/// Feeds whose time has come are handed out.
pub(super) fn due(leases: &[Lease]) {
    let count = leases.iter().filter(|lease| lease.task.kind == Kind::Feed).count();
    if count > 0 {
        tracing::info!(count, "polling due feeds");
    }
}

const UNEXPECTED: &str = "unexpected";

/// Why a poll failed, in the words that polls are counted by.
const fn error_type(code: Code) -> &'static str {
    match code {
        Code::RateLimited | Code::HostBusy => "rate_limited",
        Code::Forbidden | Code::Unauthorized | Code::BlockedByWall | Code::RobotsBlocked => {
            "forbidden"
        }
        Code::NotFound | Code::SoftNotFound => "not_found",
        Code::Gone => "gone",
        Code::Upstream | Code::RobotsUnreachable => "upstream_failure",
        Code::Timeout | Code::Network | Code::Dns | Code::Truncated => "network",
        Code::Parse
        | Code::BadContentType
        | Code::Empty
        | Code::TooLarge
        | Code::BadEncoding
        | Code::BadHtml
        | Code::NotArticle
        | Code::Listing
        | Code::SignIn => "parse_error",
        Code::Ok
        | Code::NotModified
        | Code::Redirect
        | Code::HttpStatus
        | Code::RedirectLoop
        | Code::Guarded
        | Code::BadUrl
        | Code::Poison
        | Code::Rejected
        | Code::Withdrawn
        | Code::Internal => UNEXPECTED,
    }
}

/// Why a page was not had, in the words that dead addresses are counted by.
const fn reason(code: Code) -> &'static str {
    match code {
        Code::RedirectLoop => "too_many_redirects",
        Code::BadContentType => "unsupported_content_type",
        Code::Parse
        | Code::Empty
        | Code::BadHtml
        | Code::NotArticle
        | Code::Listing
        | Code::SignIn
        | Code::SoftNotFound => "extract_failed",
        other => other.as_str(),
    }
}
