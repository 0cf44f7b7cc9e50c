//! A task: one address to ask for, its place in the queue, and the lease under which it is served.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Code, Source, SourceId, Ts, UrlHash, named};

named! {
    /// What is behind an address, and so which handler reads it.
    pub enum Kind {
        /// `/robots.txt` of an origin.
        Robots = 0 "robots",
        /// A page looked at to find feeds.
        Probe = 1 "probe",
        /// RSS, Atom or JSON Feed.
        Feed = 2 "feed",
        /// A sitemap or an index of them.
        Sitemap = 3 "sitemap",
        /// A list page, or a page that the spider walks.
        Listing = 4 "listing",
        /// A page of a feed's archive (RFC 5005).
        Archive = 5 "archive",
        /// An article page.
        Article = 6 "article",
        /// A media file.
        Enclosure = 7 "enclosure",
    }
}

named! {
    /// The three queues of a host; an address can be one task in each.
    pub enum Lane {
        /// What tells of new addresses.
        Poll = 0 "poll",
        /// Article pages.
        Page = 1 "page",
        /// Media files.
        Media = 2 "media",
    }
}

impl Kind {
    /// The lane that serves this kind.
    #[must_use]
    pub const fn lane(self) -> Lane {
        match self {
            Self::Robots
            | Self::Probe
            | Self::Feed
            | Self::Sitemap
            | Self::Listing
            | Self::Archive => Lane::Poll,
            Self::Article => Lane::Page,
            Self::Enclosure => Lane::Media,
        }
    }

    /// Whether a task of this kind comes back for ever.
    #[must_use]
    pub const fn recurs(self) -> bool {
        matches!(self, Self::Robots | Self::Feed | Self::Sitemap | Self::Listing)
    }

    /// Whether robots.txt has a say. Feeds that the operator declared are fetched on the
    /// operator's word unless `robots.apply_to_feeds` is set.
    #[must_use]
    pub const fn asks_robots(self, apply_to_feeds: bool) -> bool {
        match self {
            Self::Robots => false,
            Self::Feed | Self::Archive => apply_to_feeds,
            Self::Probe | Self::Sitemap | Self::Listing | Self::Article | Self::Enclosure => true,
        }
    }
}

named! {
    /// How an address came to us; it decides the bonus in its priority.
    pub enum Origin {
        /// An entry of a feed.
        Feed = 0 "feed",
        /// A line of a sitemap.
        Sitemap = 1 "sitemap",
        /// A link that the spider saw.
        Spider = 2 "spider",
        /// An operator's submission.
        Manual = 3 "manual",
    }
}

named! {
    /// Where a task stands.
    pub enum Status {
        /// Waiting for its time or its turn.
        Pending = 0 "pending",
        /// Done; it does not come back.
        Fetched = 1 "fetched",
        /// Given up, with a reason.
        Dead = 2 "dead",
        /// Set aside while none of its sources is enabled.
        Parked = 3 "parked",
    }
}

named! {
    /// Where a task stands as people see it: its status, told apart by what happens to it now.
    pub enum State {
        /// Waiting for its time or its turn.
        Pending = 0 "pending",
        /// Under way now.
        Fetching = 1 "fetching",
        /// Done.
        Fetched = 2 "fetched",
        /// Waiting after a failure.
        Failed = 3 "failed",
        /// Given up.
        Dead = 4 "dead",
        /// Set aside with its sources.
        Parked = 5 "parked",
    }
}

impl State {
    /// What a status, failures in a row and a lease amount to.
    #[must_use]
    pub const fn of(status: Status, failed: bool, leased: bool) -> Self {
        match (status, leased) {
            (_, true) => Self::Fetching,
            (Status::Fetched, _) => Self::Fetched,
            (Status::Dead, _) => Self::Dead,
            (Status::Parked, _) => Self::Parked,
            (Status::Pending, _) if failed => Self::Failed,
            (Status::Pending, _) => Self::Pending,
        }
    }
}

/// A task's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub i64);

/// One handing-out of a task; a later one makes it stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LeaseId(pub i64);

impl TaskId {
    /// The public form: a version 8 UUID that carries the row.
    #[must_use]
    pub fn uuid(self) -> uuid::Uuid {
        let mut bytes = *b"feedtask\0\0\0\0\0\0\0\0";
        for (to, from) in bytes.iter_mut().skip(8).zip(self.0.to_be_bytes()) {
            *to = from;
        }
        // Version and variant take six bits of bytes 6 and 8; a row id never needs those of 8.
        uuid::Uuid::new_v8(bytes)
    }

    /// The row behind a public id of ours.
    #[must_use]
    pub fn from_uuid(id: uuid::Uuid) -> Option<Self> {
        let (head, tail) = id.as_bytes().split_at(8);
        let mut row: [u8; 8] = tail.try_into().ok()?;
        row[0] &= 0x3f;
        let found = Self(i64::from_be_bytes(row));
        (head == found.uuid().as_bytes().split_at(8).0).then_some(found)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uuid().fmt(f)
    }
}

impl Serialize for TaskId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What the publisher gave us to ask "has it changed?", byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validators {
    /// `ETag`, quotes and `W/` included.
    pub etag: Option<String>,
    /// `Last-Modified`, as served.
    pub last_modified: Option<String>,
}

impl Validators {
    /// Whether there is nothing to ask with.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// When a page that was fetched already is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refetch {
    /// It changed then: a later fetch has seen it.
    pub changed: Ts,
    /// Not sooner than this after the last fetch.
    pub after: Duration,
    /// Only after so many requests at the most.
    pub most: u32,
}

/// An address on its way into the frontier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// The address as given: it is fetched like this.
    pub url: String,
    /// What is behind it.
    pub kind: Kind,
    /// How it came to us.
    pub origin: Origin,
    /// The source that gave it; the first enabled one owns the task.
    pub source: Option<SourceId>,
    /// The source's own priority, 1 to 10, before bonus and penalty.
    pub base_priority: u8,
    /// Steps from where it began: links of a spider, indexes around a sitemap.
    pub depth: u16,
    /// Redirects that led to it, over hosts.
    pub redirects: u16,
    /// The task that told of it.
    pub parent: Option<TaskId>,
    /// Not before this time; at once when absent.
    pub not_before: Option<Ts>,
    /// Whether it is asked for again when it was fetched.
    pub refetch: Option<Refetch>,
}

impl NewTask {
    /// An address on its way, as an operator hands it in.
    #[must_use]
    pub const fn manual(
        url: String,
        kind: Kind,
        source: Option<SourceId>,
        base_priority: u8,
    ) -> Self {
        let (origin, parent, not_before, refetch) = (Origin::Manual, None, None, None);
        let (depth, redirects) = (0, 0);
        Self {
            url,
            kind,
            origin,
            source,
            base_priority,
            depth,
            redirects,
            parent,
            not_before,
            refetch,
        }
    }
}

/// An address in the frontier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    /// Its row, shown as a UUID.
    pub id: TaskId,
    /// As given, as fetched.
    pub url: String,
    /// The normalised form that makes it unique.
    pub url_key: String,
    /// SHA-256 of `url_key`.
    pub url_hash: UrlHash,
    /// The queue it waits in: its host, or the host's group.
    pub host: String,
    /// What is behind it.
    pub kind: Kind,
    /// How it came to us.
    pub origin: Origin,
    /// Its owner.
    #[serde(skip)]
    pub source: Option<SourceId>,
    /// The owner's public id.
    pub source_id: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// Whether it is being fetched just now.
    pub leased: bool,
    /// 1 to 10, 10 first.
    pub priority: u8,
    /// Steps from where it began.
    pub depth: u16,
    /// Redirects that led to it.
    pub redirects: u16,
    /// When it is due.
    pub next_fetch_at: Ts,
    /// When it was last asked for.
    pub last_fetched_at: Option<Ts>,
    /// How often it was asked for.
    pub fetch_count: u32,
    /// Failures in a row. It begins anew with the first one that is counted alone
    /// ([`Code::is_counted_alone`]).
    pub retry_count: u16,
    /// The code of the last outcome that was not fine.
    pub last_error: Option<Code>,
    /// Why it is where it is, in one line.
    pub reason: Option<String>,
    /// When we first heard of it.
    pub discovered_at: Ts,
}

impl Task {
    /// Where it stands as people see it.
    #[must_use]
    pub const fn state(&self) -> State {
        State::of(self.status, self.retry_count > 0, self.leased)
    }

    /// How often in a row it just failed with a code that is counted alone.
    #[must_use]
    pub fn failures_of(&self, code: Code) -> u16 {
        if self.last_error == Some(code) { self.retry_count } else { 0 }
    }
}

/// Which copy of an origin's robots.txt rules a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RobotsRef {
    /// `scheme://host[:port]`.
    pub origin: String,
    /// When that copy was fetched: with the origin it names the copy.
    pub fetched_at: Ts,
}

/// The right and duty to serve one task now.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Names this handing-out.
    pub id: LeaseId,
    /// What to serve.
    pub task: Task,
    /// The owner, when there is one: its headers, selectors and priority apply.
    pub source: Option<Arc<Source>>,
    /// What to ask "has it changed?" with.
    pub validators: Validators,
    /// The address that answered last time and that the validators belong to.
    pub validators_for: Option<String>,
    /// The robots.txt that rules it, when its kind asks.
    pub robots: Option<RobotsRef>,
    /// The store's time when it was handed out.
    pub now: Ts,
    /// When it is handed out again unless renewed.
    pub until: Ts,
    /// The pause that this host wants between two requests.
    pub delay: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_public_id_leads_back_to_its_row(row in 0i64..=(1 << 61)) {
            prop_assert_eq!(TaskId::from_uuid(TaskId(row).uuid()), Some(TaskId(row)));
        }

        #[test]
        fn a_foreign_uuid_is_no_task(bits: u128) {
            let id = uuid::Uuid::from_u128(bits);
            if let Some(task) = TaskId::from_uuid(id) {
                prop_assert_eq!(task.uuid(), id);
            }
        }
    }
}
