//! The values that travel through the pipeline: plain data, named as people in the field name it.
//!
//! Nothing here does I/O, reads a clock or decides anything; a type lives here when two rooms of
//! the house hand it to each other.

mod access;
mod article;
mod code;
mod discovery;
mod entry;
mod event;
mod fetch;
mod names;
mod outcome;
mod secret;
mod source;
mod takedown;
mod task;

pub use access::{Access, Auth};
pub use article::{
    Article, ArticleFact, ArticleId, ArticleRow, Change, Near, PastForm, Reference, Revision,
    canonical_uid,
};
pub use code::{Class, Code};
pub use discovery::{Discovery, DiscoveryFact, FoundChannel, LeadState, Tried};
pub use entry::{Enclosure, Entry, EntryFact, EntryId, EntryRow, Person};
pub use event::{Event, EventKind, KindPattern, NewEvent};
pub use feedmill_formats::date::Ts;
pub use feedmill_formats::url::UrlHash;
pub use fetch::{
    Exchange, FetchId, FetchRecord, Headers, RawRef, Redirected, Response, Truncation, new_uuid,
};
pub use names::UnknownName;
pub(crate) use names::named;
pub use outcome::{
    Ask, AskedEntry, Evidence, FeedFact, FeedState, HostAdvice, Known, KnownEntry, LinkedEntry,
    Moved, Moving, Next, Outcome, Outside, PollFigures, RobotsFact, RobotsState, Verdict, Warned,
};
pub use secret::{Secret, SecretUrl};
pub use source::{
    Admission, Health, IngestionMode, Managed, NewSource, PollPolicy, Polling, RefetchPolicy,
    Source, SourceChange, SourceId, Website,
};
pub use takedown::{NewTakedown, Scope, Takedown};
pub use task::{
    Kind, Lane, Lease, LeaseId, NewTask, Origin, Refetch, RobotsRef, State, Status, Task, TaskId,
    Validators,
};
