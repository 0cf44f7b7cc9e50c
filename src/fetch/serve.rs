//! Serving one lease: ask, archive, read, look up, decide, commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedmill_formats::url as web;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;
use url::Url;

use super::desk::Unfinished;
use super::hold::{Hold, PAUSE, Step};
use super::hops::{Follow, Trail, redirect_target};
use super::tally::Tally;
use super::tell::{self, Said};
use super::usage::{UsageMeter, document_bytes, stored_bytes};
use super::{Client, Committer, Desk, Guard, RobotsCache, spans};
use crate::archive::Archive;
use crate::clock::Clock;
use crate::config::Messages;
use crate::handle::{self, House, Reply};
use crate::model::{
    Ask, Code, Exchange, FetchRecord, Kind, Lease, Outcome, RawRef, Redirected, Response, TaskId,
    Ts, UrlHash, Validators,
};
use crate::progress::Progress;
use crate::store::{Commit, Committed, Store};

/// Looks and decisions that are made again at the most when a feed changed in between.
const CONFLICTS: usize = 5;

/// Reading has this long at least, however long the answer took.
const MIN_READING: Duration = Duration::from_secs(5);

/// Limits on a task as a whole.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// The requests of a task, and reading what they bring.
    pub task_timeout: Duration,
    /// Redirects followed.
    pub max_redirects: usize,
    /// Whether pages are asked for with the validators of their last answer.
    pub conditional_pages: bool,
    /// How long a lease lasts, in the clock's time; it is renewed at a third.
    pub lease: Duration,
    /// Whose words log lines are in.
    pub messages: Messages,
}

/// Everything that serving a lease needs.
#[derive(Clone)]
pub struct Server {
    /// The HTTP client.
    pub client: Client,
    /// What may be connected to.
    pub guard: Guard,
    /// What we know.
    pub store: Arc<dyn Store>,
    /// Where bytes are kept.
    pub archive: Arc<Archive>,
    /// Who commits.
    pub committer: Committer,
    /// What holds work up.
    pub hold: Hold,
    /// Where the work is done.
    pub desk: Desk,
    /// Room for documents that take much memory to read: one at a time.
    pub large_documents: Arc<Semaphore>,
    /// The rules of the house.
    pub house: Arc<House>,
    /// Limits.
    pub settings: ServeSettings,
    /// Time.
    pub clock: Clock,
    /// For those who watch.
    pub progress: Arc<Progress>,
    /// Rules by origin.
    pub robots: Arc<RobotsCache>,
    /// Counts what is stored for each source.
    pub usage: UsageMeter,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What asking brought.
struct Asked {
    answer: Answer,
    trail: Trail,
}

/// How asking ended.
pub(super) enum Answer {
    /// With a reply.
    Reply(Arc<Reply>),
    /// With a redirect whose target is a task of its own, the last of so many.
    LeadsTo(Url, usize),
    /// Without the lease, which went to somebody else.
    Lost,
}

impl Answer {
    fn of(reply: Reply) -> Self {
        Self::Reply(Arc::new(reply))
    }
}

impl Server {
    /// Serves a lease to its end, renewing it as long as that takes.
    pub async fn serve(&self, lease: Lease) {
        let id = lease.id;
        let third = self.settings.lease / 3;
        let mut renew_at = lease.now.after(third);
        let work = self.work(Arc::new(lease));
        tokio::pin!(work);
        loop {
            tokio::select! {
                () = &mut work => return,
                () = self.clock.sleep_until(renew_at) => {
                    match self.store.renew(id).await {
                        Ok(true) => {}
                        // Somebody else has it: to go on would be to ask the host twice.
                        Ok(false) => return,
                        // Told once, by whoever needs the store to go on.
                        Err(error) if error.is_transient() => {}
                        Err(error) => tracing::warn!(%error, "a lease could not be renewed"),
                    }
                    renew_at = self.clock.now().after(third);
                }
            }
        }
    }

    async fn work(&self, lease: Arc<Lease>) {
        let _writer = self.archive.writer();
        let started = Instant::now();
        tell::begin(&lease, self.settings.messages);
        let asked = self.ask(&lease).await;
        let at = lease.now.after(self.clock.stretch(started.elapsed()));
        self.conclude(lease, asked, at).await;
    }

    /// Reads, looks up, decides and commits; again when the feed changed in between.
    async fn conclude(&self, lease: Arc<Lease>, asked: Asked, at: Ts) {
        let Asked { answer, trail } = asked;
        let mut reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::LeadsTo(target, hops) => Arc::new(Reply::Elsewhere { target, hops }),
            // Whatever we found is theirs to find.
            Answer::Lost => return,
        };
        let limit = trail.left.max(MIN_READING);
        // A large document keeps its room until what was read of it is committed.
        let mut room = None;
        for _ in 0..CONFLICTS {
            let judging = self.judge(&lease, &reply, limit, at, &mut room);
            let mut read = judging.instrument(spans::handle()).await;
            if let Err(Unread::OutOfTime(detail)) = read {
                reply = Arc::new(failed(Code::TooLarge, detail, None));
                read = self.judge(&lease, &reply, limit, at, &mut room).await;
            }
            let (mut outcome, documents) = match read {
                Ok(judged) => judged,
                Err(Unread::OutOfTime(message) | Unread::Failed(message)) => {
                    tell::serving_failed(self.settings.messages, &lease, &message);
                    (handle::our_fault(&lease, &message, at), 0)
                }
            };
            outcome.fetches.clone_from(&trail.fetches);
            outcome.robots = outcome.robots.or_else(|| trail.robots.clone());
            outcome.host = trail.advice.unwrap_or(outcome.host);
            if let Some(last) = outcome.fetches.last_mut() {
                last.code = outcome.code;
            }
            let tally = Tally::of(&lease, &outcome);
            let said = Said::of(&outcome, self.settings.messages);
            let (span, subjects) = (spans::commit(&outcome), spans::subjects(&outcome));
            // A sink may be handed the events before this goes on.
            self.progress.traces.remember(subjects);
            let stored = documents + stored_bytes(&outcome);
            let commit = Commit { lease: Lease::clone(&lease), outcome };
            match self.committer.commit(commit).instrument(span).await {
                Ok(Committed::Done) => {
                    tally.count(&self.progress);
                    if let Some(source) = &lease.source {
                        self.usage.add(source.id.0, stored);
                    }
                    let queued = said.queued(&*self.store, &lease).await;
                    said.tell(&lease, &queued);
                    return;
                }
                Ok(Committed::Stale) => {
                    self.progress.metrics.stale_leases.inc();
                    tracing::info!(url = %lease.task.url, "the lease had run out: nothing was changed");
                    return;
                }
                Ok(Committed::Conflict) => {}
                Err(error) => return self.give_back(lease, &error.to_string(), at).await,
            }
        }
        self.give_back(lease, "the feed kept changing while it was read", at).await;
    }

    /// Ends a lease whose outcome could not be made true, with the reason why.
    async fn give_back(&self, lease: Arc<Lease>, message: &str, at: Ts) {
        tell::not_committed(self.settings.messages, &lease, message);
        let outcome = handle::our_fault(&lease, message, at);
        let commit = Commit { lease: Lease::clone(&lease), outcome };
        if let Err(error) = self.committer.commit(commit).await {
            tracing::error!(url = %lease.task.url, %error, "the task waits for its lease to end");
        }
    }

    /// The two pure steps with the look-up between them. Reading is work: it is done off the
    /// threads that talk to the network, and given up when it takes too long.
    async fn judge(
        &self,
        lease: &Arc<Lease>,
        reply: &Arc<Reply>,
        limit: Duration,
        at: Ts,
        room: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<(Outcome, u64), Unread> {
        let began = Instant::now();
        let (task, answer, house) = (Arc::clone(lease), Arc::clone(reply), Arc::clone(&self.house));
        let small = move || handle::parse_small(&task, &answer, &house);
        let parsed = self.desk.work_within("parsing", limit, small).await;
        let parsed = match parsed.map_err(|error| Unread::of("parsing", error))? {
            Some(parsed) => Ok(parsed),
            None => self.parse_large(lease, reply, limit, room).await,
        };
        let (parsed, ask) = parsed.map_err(|error| Unread::of("parsing", error))?;
        let limit = limit.saturating_sub(began.elapsed()).max(MIN_READING);
        self.count_body(reply, parsed.decoded());
        let known = self.hold.until_done(Step::Ask, || self.store.lookup(ask.clone())).await;
        let known = known.map_err(|error| Unread::Failed(error.to_string()))?;
        let (task, house) = (Arc::clone(lease), Arc::clone(&self.house));
        let decide = move || {
            let outcome = handle::decide(&task, parsed, &known, at, &house);
            let documents = document_bytes(&outcome);
            (outcome, documents)
        };
        let decided = self.desk.work_within("extracting", limit, decide).await;
        decided.map_err(|error| Unread::of("extracting", error))
    }

    /// Reads a large document when there is room for it.
    async fn parse_large(
        &self,
        lease: &Arc<Lease>,
        reply: &Arc<Reply>,
        limit: Duration,
        room: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<(handle::Parsed, Ask), Unfinished> {
        if room.is_none() {
            // Nobody closes it.
            *room = Arc::clone(&self.large_documents).acquire_owned().await.ok();
        }
        let (task, answer, house) = (Arc::clone(lease), Arc::clone(reply), Arc::clone(&self.house));
        let parse = move || handle::parse(&task, &answer, &house);
        self.desk.work_within("parsing", limit, parse).await
    }

    /// Counts a body that was read, as it was transferred and as it was read.
    fn count_body(&self, reply: &Reply, decoded: usize) {
        if let (Reply::Answer(response), 1..) = (reply, decoded) {
            let bytes = &self.progress.metrics.body_bytes;
            let transferred = response.exchange.body.len() as u64;
            bytes.get_or_create(&[("form", "transferred")]).inc_by(transferred);
            bytes.get_or_create(&[("form", "decoded")]).inc_by(decoded as u64);
        }
    }

    async fn ask(&self, lease: &Arc<Lease>) -> Asked {
        let mut trail = self.set_out(lease);
        let answer = match web::parse(&lease.task.url) {
            Ok(url) => self.walk(lease, url, lease.task.kind, &mut trail).await,
            Err(_) => Answer::of(refused(Code::BadUrl, "the address cannot be read")),
        };
        Asked { answer, trail }
    }

    /// Asks for an address, and follows redirects where that is ours to do; those on the way to the
    /// task count as well.
    pub(super) async fn walk(
        &self,
        lease: &Arc<Lease>,
        mut url: Url,
        kind: Kind,
        trail: &mut Trail,
    ) -> Answer {
        let before = if kind == Kind::Robots { 0 } else { usize::from(lease.task.redirects) };
        let mut redirects: Vec<Redirected> = Vec::new();
        loop {
            let first = redirects.is_empty();
            if let Some(reply) = self.forbidden(lease, &url, kind, first, trail).await {
                return Answer::of(reply);
            }
            let exchange = match self.request(lease, &url, kind, trail).await {
                Ok(exchange) => exchange,
                // Nobody was asked: the guard did not let the first of them through.
                Err(Reply::Failed { code: Code::Guarded, detail, .. }) if first => {
                    return Answer::of(refused(Code::Guarded, detail));
                }
                Err(reply) => return Answer::of(reply),
            };
            let room = before + redirects.len() < self.settings.max_redirects;
            let Some(target) = redirect_target(&exchange, &url).filter(|_| room) else {
                return Answer::of(Reply::Answer(Box::new(Response { exchange, redirects })));
            };
            redirects.push(Redirected { status: exchange.status, from: url.to_string() });
            let permanent = redirects.iter().all(|hop| matches!(hop.status, 301 | 308));
            match self.follow(lease, kind, &url, (&target, permanent), trail).await {
                Follow::Yes => url = target,
                Follow::OwnTask => return Answer::LeadsTo(target, redirects.len()),
                Follow::Busy(until) => {
                    let detail = format!("{} is busy", web::host(&target));
                    return Answer::of(failed(Code::HostBusy, detail, until));
                }
                Follow::Lost => return Answer::Lost,
            }
        }
    }

    /// One request in its host's turn, archived; or the reply that there is none.
    async fn request(
        &self,
        lease: &Arc<Lease>,
        url: &Url,
        kind: Kind,
        trail: &mut Trail,
    ) -> Result<Exchange, Reply> {
        let wanted = lease.source.as_ref().is_none_or(|source| !source.spec.access.unconditional);
        let is_page = matches!(kind, Kind::Article | Kind::Listing);
        let conditional = !is_page || (wanted && self.settings.conditional_pages);
        let validators = match &lease.validators_for {
            Some(of) if conditional && *of == url.as_str() => lease.validators.clone(),
            _ => Validators::default(),
        };
        // robots.txt belongs to no source: nobody's secrets go there.
        let source = lease.source.as_deref().filter(|_| kind != Kind::Robots);
        let queue = self.queue_of(url);
        let waited = trail.turn_of(&queue, &self.clock, &self.progress).await;
        if !trail.fetches.is_empty() {
            self.progress.metrics.politeness_wait.observe(waited.as_secs_f64());
        }
        let (at, began) = (self.clock.now(), Instant::now());
        let span = spans::request(kind, &queue);
        let asking = self.client.get(url, kind, &validators, source, trail.left);
        let answer = asking.instrument(span.clone()).await;
        let took = began.elapsed();
        trail.left = trail.left.saturating_sub(took);
        let duration = &self.progress.metrics.fetch_duration;
        duration.get_or_create(&[("kind", kind.as_str())]).observe(took.as_secs_f64());
        trail.asked(&queue, &self.clock);
        // On the way to something else it is no document of the task's.
        let task = Some(lease.task.id).filter(|_| kind == lease.task.kind);
        match answer {
            Ok(exchange) => {
                span.record("status", exchange.status).record("bytes", exchange.body.len());
                drop(span);
                let served_at = handle::served_at(&exchange.headers);
                self.progress.clock_trust.record(&queue, served_at, self.clock.now());
                let kept = self.keep((task, kind), exchange).instrument(spans::archive()).await;
                let (exchange, record) =
                    kept.map_err(|message| failed(Code::Internal, message, None))?;
                trail.retained.push(self.archive.retain(&exchange, Some(kind)));
                trail.fetches.push(record);
                Ok(exchange)
            }
            Err(error) => {
                span.record("error", error.code().as_str());
                trail.fetches.push(unanswered(task, url, &error, at, took));
                self.progress.request(None, 0);
                Err(failed(error.code(), error.to_string(), None))
            }
        }
    }

    /// Our own rules: the guard's on every hop, and where the kind asks those of the robots.txt of
    /// the hop's own origin.
    async fn forbidden(
        &self,
        lease: &Arc<Lease>,
        url: &Url,
        kind: Kind,
        first: bool,
        trail: &mut Trail,
    ) -> Option<Reply> {
        let said = |code, detail: String| match first {
            true => refused(code, detail),
            // The host before this one was asked.
            false => failed(code, detail, None),
        };
        if let Err(refusal) = self.guard.check_url(url) {
            return Some(said(Code::Guarded, refusal.to_string()));
        }
        // A task of what was taken down is gone. A redirect may lead there from elsewhere.
        if !first {
            let is_refused = || self.store.is_refused(url.as_str());
            match self.hold.until_done(Step::Ask, is_refused).await {
                Ok(false) => {}
                Ok(true) => return Some(said(Code::Withdrawn, format!("{url} was taken down"))),
                Err(error) => return Some(failed(Code::Internal, error.to_string(), None)),
            }
        }
        let copy = lease.robots.as_ref().filter(|_| kind != Kind::Robots)?;
        match self.rules(lease, copy, url, trail).await {
            Ok(rules) => match self.allows(rules, url).await {
                Ok(true) => None,
                Ok(false) => Some(said(Code::RobotsBlocked, format!("robots.txt disallows {url}"))),
                Err(reply) => Some(reply),
            },
            Err(reply) => Some(reply),
        }
    }

    /// Archives an exchange before anybody reads it. What came back is not asked for twice because a
    /// disk is full: it waits.
    async fn keep(
        &self,
        (task, kind): (Option<TaskId>, Kind),
        exchange: Exchange,
    ) -> Result<(Exchange, FetchRecord), String> {
        self.progress.request(Some(exchange.status), exchange.body.len());
        let mut unkept = exchange;
        let mut waiter = self.hold.waiter(Step::Keep);
        loop {
            let archive = Arc::clone(&self.archive);
            let append = move || {
                let kept = archive
                    .append_as(&unkept, Some(kind))
                    .map(|raw| fetch_record(task, &unkept, raw));
                (unkept, kept)
            };
            let (exchange, kept) =
                self.desk.work("archiving", append).await.map_err(|error| error.to_string())?;
            match kept {
                Ok(record) => {
                    let length = record.raw.as_ref().map_or(0, |raw| raw.length);
                    self.progress.metrics.archive_bytes.inc_by(length);
                    return Ok((exchange, record));
                }
                Err(error) => {
                    let message = format!("{error}; work goes on by itself once it can be written");
                    waiter.meets(error.code(), message);
                    tokio::time::sleep(PAUSE).await;
                    unkept = exchange;
                }
            }
        }
    }
}

/// Why an answer could not be read, for people.
enum Unread {
    /// It would have taken too long.
    OutOfTime(String),
    /// Our own fault.
    Failed(String),
}

impl Unread {
    fn of(step: &str, error: Unfinished) -> Self {
        match error {
            Unfinished::OutOfTime(limit) => {
                let seconds = limit.as_secs();
                Self::OutOfTime(format!("{step} took longer than {seconds} s and was given up"))
            }
            Unfinished::Failed(error) => Self::Failed(format!("{step} failed: {error}")),
        }
    }
}

fn refused(code: Code, detail: impl Into<String>) -> Reply {
    Reply::Refused { code, detail: detail.into() }
}

pub(super) fn failed(code: Code, detail: impl Into<String>, not_before: Option<Ts>) -> Reply {
    Reply::Failed { code, detail: detail.into(), not_before }
}

/// The line about an answer that the store keeps.
#[must_use]
pub fn fetch_record(task: Option<TaskId>, exchange: &Exchange, raw: RawRef) -> FetchRecord {
    let hash: [u8; 32] = Sha256::digest(&exchange.body).into();
    FetchRecord {
        id: exchange.id,
        task,
        at: exchange.began,
        url: exchange.url.clone(),
        status: Some(exchange.status),
        // Of the last one the outcome says what it was.
        code: match exchange.status {
            304 => Code::NotModified,
            301 | 302 | 303 | 307 | 308 => Code::Redirect,
            _ => Code::Ok,
        },
        bytes: exchange.body.len() as u64,
        elapsed_ms: u64::try_from(exchange.elapsed.as_millis()).unwrap_or(u64::MAX),
        content_type: exchange.headers.get("content-type").map(str::to_owned),
        body_sha256: Some(UrlHash::from_bytes(hash).to_string()),
        raw: Some(raw),
    }
}

/// A request that nobody answered took its time as well.
fn unanswered(
    task: Option<TaskId>,
    url: &Url,
    error: &super::FetchError,
    at: Ts,
    took: Duration,
) -> FetchRecord {
    FetchRecord {
        id: crate::model::new_uuid(at),
        task,
        at,
        url: url.to_string(),
        status: None,
        code: error.code(),
        bytes: 0,
        elapsed_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        content_type: None,
        body_sha256: None,
        raw: None,
    }
}
