//! What handlers ask the store, what it tells them, and what they conclude.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{
    ArticleFact, Code, Discovery, DiscoveryFact, Entry, EntryFact, EntryId, FetchRecord, Health,
    LeadState, NewEvent, NewTask, SourceId, TaskId, Ts, UrlHash, Validators,
};

/// What a handler needs to know before it can decide; one look-up answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// State of this feed or sitemap.
    pub feed: Option<TaskId>,
    /// What other channels of this source brought since that one had news.
    pub siblings: Option<SourceId>,
    /// Which of these entries are known, or else which of the feed have the page or the date.
    pub entries: Vec<AskedEntry>,
    /// The kept copy of this origin's robots.txt.
    pub robots: Option<String>,
    /// What feeds said about the page with this identity.
    pub evidence: Option<UrlHash>,
    /// Which blocks of text stand on many pages of this host.
    pub frame_of: Option<String>,
    /// How far the search for this source's channels has come.
    pub discovery: Option<SourceId>,
    /// What these addresses, and those that the search has left, are known as.
    pub leads: Vec<String>,
    /// Which of these pages are known: the host and the identity of each.
    pub pages: Vec<(String, UrlHash)>,
    /// How many pages of this source the spider walks.
    pub walked_by: Option<SourceId>,
    /// How many articles the pages of this source's list have that come before one at this depth.
    pub listed_before: Option<(SourceId, u16)>,
}

/// An entry that may be known, and what it may be known by otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedEntry {
    /// By its id.
    pub id: EntryId,
    /// By its page.
    pub page: Option<UrlHash>,
    /// By its date.
    pub date: Option<Ts>,
}

/// What the store knows of what was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// State of the feed; default when it was never polled.
    pub feed: FeedState,
    /// Pages that sitemaps of the source told of since the feed last had news or was probed.
    pub news_elsewhere: u32,
    /// What a request costs, in item-seconds; `None` before it was worked out.
    pub price: Option<f64>,
    /// Entries that are known by their ids.
    pub entries: HashMap<EntryId, KnownEntry>,
    /// Entries of the feed that have the page or the date of one that is not known.
    pub kin: Vec<LinkedEntry>,
    /// The kept copy of robots.txt.
    pub robots: Option<RobotsState>,
    /// What a feed said about the page.
    pub evidence: Option<Evidence>,
    /// Fingerprints of blocks that stand on many pages of the host.
    pub repeated: HashSet<u64>,
    /// The search for the source's channels.
    pub discovery: Option<Discovery>,
    /// Addresses that the poll lane knows already.
    pub leads: HashMap<String, LeadState>,
    /// Pages that are known, of those that were asked for.
    pub pages: HashSet<UrlHash>,
    /// Pages of the source that the spider walks.
    pub walked: u32,
    /// Articles on earlier pages of the list.
    pub listed: u32,
}

/// What is known of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownEntry {
    /// Its content when last seen.
    pub content_hash: [u8; 32],
    /// When it says it was published.
    pub published: Option<Ts>,
    /// When it says it was changed.
    pub updated: Option<Ts>,
}

/// An entry that another item may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedEntry {
    /// Which one.
    pub id: EntryId,
    /// What it is known by.
    pub uid: String,
    /// Its page.
    pub link_hash: Option<UrlHash>,
    /// The address of its page.
    pub link: Option<String>,
    /// Its title when last seen.
    pub title: Option<String>,
    /// The date it has.
    pub published: Option<Ts>,
    /// Its content when last seen.
    pub content_hash: [u8; 32],
}

impl LinkedEntry {
    /// What tells whether an item with the page or date of this entry is this entry.
    pub(crate) fn of(
        id: EntryId,
        content_hash: [u8; 32],
        link_hash: Option<UrlHash>,
        entry: Entry,
    ) -> Self {
        let Entry { uid, title, published, canonical_link: link, .. } = entry;
        Self { id, uid, link_hash, link, title, published, content_hash }
    }
}

/// What a feed's entry says about the page that it links to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Headline.
    pub title: Option<String>,
    /// Summary, as served.
    pub summary: Option<String>,
    /// The text, as served.
    pub content: Option<String>,
    /// Who wrote it.
    pub authors: Vec<String>,
    /// When it was published.
    pub published: Option<Ts>,
}

impl From<Entry> for Evidence {
    fn from(entry: Entry) -> Self {
        Self {
            title: entry.title,
            summary: entry.summary,
            content: entry.content,
            authors: entry.authors.into_iter().filter_map(|person| person.name).collect(),
            published: entry.published,
        }
    }
}

/// What is remembered of a feed or sitemap between polls.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedState {
    /// Counts commits: a decision made on an older one is made again.
    pub version: i64,
    /// The feed's own title.
    pub title: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// When a poll last succeeded.
    pub last_success: Option<Ts>,
    /// SHA-256 of the last body that was read.
    pub body_hash: Option<[u8; 32]>,
    /// Its length in bytes, as it was served; 0 before the first.
    pub body_bytes: u64,
    /// The interval chosen last.
    pub interval_ms: Option<i64>,
    /// What the scheduler remembers, as it wrote it down.
    pub schedule: Option<Vec<u8>>,
    /// The bucket of its rate, when its polls follow the price.
    pub bucket: Option<u8>,
    /// How it does.
    pub health: Health,
    /// Since when it does like that.
    pub health_since: Option<Ts>,
    /// Since when it has only been probed, or was given up; `None` while it is polled, and from the
    /// operator's word on that it is.
    pub disabled_since: Option<Ts>,
    /// What was wrong with the last document that was read.
    pub warnings: Vec<Warned>,
    /// When its validators were last set aside to see whether they can be trusted.
    pub probed_at: Option<Ts>,
    /// Tasks that it told of first and that the scheduler has not yet heard of. The store adds what
    /// the commit brings.
    pub yielded: u32,
    /// What sitemaps of its source had told of in all when it last had news or was probed.
    pub heard: i64,
    /// Where permanent redirects have been sending its polls.
    pub moving: Option<Moving>,
    /// Whether its ids did not last, so that entries are known by their pages.
    pub by_pages: bool,
    /// Items of its document that were left out when it was first read, by the beginnings of their ids.
    pub left_out: Vec<[u8; 8]>,
}

/// Something that was wrong with a document and did not prevent reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warned {
    /// The stable name of what was wrong.
    pub code: String,
    /// The first case, in short.
    pub detail: String,
    /// How often.
    pub count: u32,
}

impl Warned {
    /// Kinds of faults that are kept of a document.
    const MOST: usize = 20;

    /// What is kept of what a reader noted: one for each kind, as the first case had it.
    pub fn gather<'a>(noted: impl IntoIterator<Item = (&'a str, &'a str, u32)>) -> Vec<Self> {
        let mut kept: Vec<Self> = Vec::new();
        for (code, detail, count) in noted {
            if let Some(known) = kept.iter_mut().find(|known| known.code == code) {
                known.count = known.count.saturating_add(count);
            } else if kept.len() < Self::MOST {
                kept.push(Self { code: code.to_owned(), detail: detail.to_owned(), count });
            }
        }
        kept
    }
}

/// A new address that a feed has had for some polls in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The address.
    pub to: String,
    /// When a poll was first sent there.
    pub since: Ts,
    /// Polls that were sent there, one after the other; 0 when what is there is another feed.
    pub polls: u32,
}

impl Default for FeedState {
    fn default() -> Self {
        Self {
            version: 0,
            title: None,
            failures: 0,
            last_success: None,
            body_hash: None,
            body_bytes: 0,
            interval_ms: None,
            schedule: None,
            bucket: None,
            health: Health::Usual,
            health_since: None,
            disabled_since: None,
            warnings: Vec::new(),
            probed_at: None,
            yielded: 0,
            heard: 0,
            moving: None,
            by_pages: false,
            left_out: Vec::new(),
        }
    }
}

/// What a poll changes about a feed or sitemap.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedFact {
    /// The state that the decision was made on.
    pub based_on: i64,
    /// The state from now on (its version is the store's to count).
    pub state: FeedState,
    /// Items in the document, when there was one.
    pub items: Option<u32>,
    /// Entries that were new.
    pub new_items: u32,
    /// What monitors and logs are told of it beside.
    pub figures: PollFigures,
}

/// What a poll tells those who watch; nothing of it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollFigures {
    /// Seconds from publication to discovery of items that were published since the last poll.
    pub delays: Vec<u32>,
    /// The interval that was chosen before.
    pub interval_before_ms: Option<i64>,
}

/// What robots.txt says for an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These rules.
    Rules(String),
    /// Everything is allowed: there is no such file.
    AllowAll,
}

/// The kept copy of an origin's robots.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsState {
    /// What it says.
    pub verdict: Verdict,
    /// When it was fetched.
    pub fetched_at: Ts,
    /// When it has to be asked for again.
    pub expires_at: Ts,
    /// How often in a row it could not be had since.
    pub failures: u32,
}

impl RobotsState {
    /// What is kept of a file that was never had.
    #[must_use]
    pub const fn never() -> Self {
        let never = Ts::from_ms(0);
        Self { verdict: Verdict::AllowAll, fetched_at: never, expires_at: never, failures: 0 }
    }
}

/// A robots.txt to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsFact {
    /// `scheme://host[:port]`.
    pub origin: String,
    /// The copy.
    pub state: RobotsState,
    /// The pause that it asks for.
    pub crawl_delay_ms: Option<i64>,
    /// Whether its rules are others than those of the copy before: what they ruled out is looked at
    /// again, under this name of ours.
    pub rechecked_as: Option<String>,
}

/// A feed that has another address for good.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The address.
    pub to: NewTask,
    /// What the log says when the feed could take it.
    pub event: NewEvent,
}

/// What the answer means for the pace at which its host is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostAdvice {
    /// Nothing was asked of the host: it may be asked at once.
    NotAsked,
    /// An answer without complaint: a learned pause shrinks a little.
    #[default]
    Fine,
    /// An answer that says nothing about pace.
    Neutral,
    /// Too fast: double the pause, and not before that time.
    SlowDown {
        /// What the server asked for.
        until: Option<Ts>,
    },
    /// The host that answered is not to be asked before that time; its pace stays as it is.
    Pause {
        /// What the server asked for.
        until: Ts,
    },
}

/// Where a task goes from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Done.
    Fetched,
    /// It comes back then.
    Again {
        /// When.
        at: Ts,
    },
    /// It failed and comes back then.
    Retry {
        /// When.
        at: Ts,
        /// What failed.
        code: Code,
    },
    /// The attempt does not count; it comes back then.
    Postpone {
        /// When.
        at: Ts,
        /// What stood in the way.
        code: Code,
    },
    /// Given up.
    Dead {
        /// Why.
        code: Code,
    },
}

/// All that follows from serving one task: it happens as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What came of it, as one word.
    pub code: Code,
    /// Where the task goes.
    pub next: Next,
    /// Why, in one line for people.
    pub reason: String,
    /// Validators to keep from now on, with the address that they belong to; `None` keeps the old.
    pub validators: Option<(Validators, String)>,
    /// What it means for the host's pace.
    pub host: HostAdvice,
    /// Addresses found.
    pub discovered: Vec<NewTask>,
    /// The address that answered in the task's place after a redirect: it is done as well.
    pub settled: Option<NewTask>,
    /// Entries that are new or changed.
    pub entries: Vec<EntryFact>,
    /// Known entries that were seen again, unchanged.
    pub seen: Vec<EntryId>,
    /// Entries that the feed says are gone, each with what the log says when it was known and there.
    pub deleted: Vec<(EntryId, NewEvent)>,
    /// The article read.
    pub article: Option<ArticleFact>,
    /// The robots.txt read.
    pub robots: Option<RobotsFact>,
    /// What changes about the feed.
    pub feed: Option<FeedFact>,
    /// The address that the feed has from now on, unless it is another task's.
    pub moved: Option<Moved>,
    /// What changes about the search for the source's channels.
    pub discovery: Option<DiscoveryFact>,
    /// The requests made, the last one first asked for by the outcome.
    pub fetches: Vec<FetchRecord>,
    /// Hosts that pages of the source link to and that are not its own.
    pub outside: Vec<Outside>,
    /// Facts for the log that no row stands for.
    pub events: Vec<NewEvent>,
}

/// A host that a page links to and that may be worth following.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The host.
    pub host: String,
    /// The first link to it.
    pub url: String,
    /// Links to it on the page.
    pub links: u32,
}

impl Outcome {
    /// An outcome that changes nothing but the task's place.
    #[must_use]
    pub fn new(code: Code, next: Next, reason: impl Into<String>) -> Self {
        Self {
            code,
            next,
            reason: reason.into(),
            validators: None,
            host: HostAdvice::default(),
            discovered: Vec::new(),
            settled: None,
            entries: Vec::new(),
            seen: Vec::new(),
            deleted: Vec::new(),
            article: None,
            robots: None,
            feed: None,
            moved: None,
            discovery: None,
            fetches: Vec::new(),
            outside: Vec::new(),
            events: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_kind_of_fault_the_first_case_is_kept_and_of_many_kinds_twenty() {
        let kept = Warned::gather([("a", "one", 2), ("b", "x", 1), ("a", "two", 3)]);
        assert_eq!(
            (kept[0].code.as_str(), kept[0].detail.as_str(), kept[0].count),
            ("a", "one", 5)
        );
        assert_eq!(kept.len(), 2);
        let many: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        assert_eq!(Warned::gather(many.iter().map(|code| (code.as_str(), "", 1))).len(), 20);
    }
}
