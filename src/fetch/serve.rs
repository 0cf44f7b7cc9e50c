//! Serving one lease: ask, archive, read, look up, decide, commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use feedmill_formats::url as web;
use sha2::{Digest, Sha256};
use url::Url;

use super::hold::{Hold, PAUSE, Step};
use super::{Client, Committer, Guard, RobotsCache};
use crate::archive::Archive;
use crate::clock::Clock;
use crate::frontier::Extension;
use crate::handle::{self, House, Reply};
use crate::model::{
    Code, Exchange, FetchRecord, Lease, Outcome, RawRef, Redirected, Response, Ts, UrlHash,
    Validators,
};
use crate::progress::Progress;
use crate::store::{Commit, Committed, Store};

/// Looks and decisions that are made again at the most when a feed changed in between.
const CONFLICTS: usize = 5;

/// Limits on a task as a whole.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// From claim to the last byte.
    pub task_timeout: Duration,
    /// Redirects followed.
    pub max_redirects: usize,
    /// How long a lease lasts, in the clock's time; it is renewed at a third.
    pub lease: Duration,
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
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What asking brought: the reply, the requests made for it, and where a redirect leads when its
/// target is a task of its own.
struct Asked {
    reply: Reply,
    fetches: Vec<FetchRecord>,
    leads_to: Option<Url>,
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
        let started = Instant::now();
        // Without an answer the lease went to somebody else: whatever we found is theirs to find.
        let Some(asked) = self.ask(&lease).await else { return };
        let at = lease.now.after(self.clock.stretch(started.elapsed()));
        self.conclude(lease, asked, at).await;
    }

    /// Reads, looks up, decides and commits; again when the feed changed in between.
    async fn conclude(&self, lease: Arc<Lease>, asked: Asked, at: Ts) {
        let reply = Arc::new(asked.reply);
        for _ in 0..CONFLICTS {
            let outcome = match asked.leads_to.as_ref() {
                Some(target) => Ok(handle::leads_on(&lease, target, at, &self.house)),
                None => self.judge(&lease, &reply, at).await,
            };
            let mut outcome = match outcome {
                Ok(outcome) => outcome,
                Err(message) => {
                    tracing::error!(url = %lease.task.url, error = message, "serving a task failed");
                    handle::our_fault(&lease, &message, at)
                }
            };
            outcome.fetches.clone_from(&asked.fetches);
            if let Some(last) = outcome.fetches.last_mut() {
                last.code = outcome.code;
            }
            let summary = (outcome.code, outcome.reason.clone(), outcome.entries.len());
            let kept = outcome.article.is_some();
            let commit = Commit { lease: Lease::clone(&lease), outcome };
            match self.committer.commit(commit).await {
                Ok(Committed::Done) => {
                    let (code, reason, entries) = summary;
                    self.count(code, entries, kept);
                    tracing::debug!(url = %lease.task.url, kind = %lease.task.kind, %code, reason, "served");
                    return;
                }
                Ok(Committed::Stale) => {
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
        tracing::error!(url = %lease.task.url, error = message, "an outcome was not committed");
        let outcome = handle::our_fault(&lease, message, at);
        let commit = Commit { lease: Lease::clone(&lease), outcome };
        if let Err(error) = self.committer.commit(commit).await {
            tracing::error!(url = %lease.task.url, %error, "the task waits for its lease to end");
        }
    }

    /// The two pure steps with the look-up between them. Reading is work: it is done off the
    /// threads that talk to the network.
    async fn judge(
        &self,
        lease: &Arc<Lease>,
        reply: &Arc<Reply>,
        at: Ts,
    ) -> Result<Outcome, String> {
        let (task, answer, house) = (Arc::clone(lease), Arc::clone(reply), Arc::clone(&self.house));
        let (parsed, ask) =
            tokio::task::spawn_blocking(move || handle::parse(&task, &answer, &house))
                .await
                .map_err(|error| format!("reading failed: {error}"))?;
        let known = self.hold.until_done(Step::Ask, || self.store.lookup(ask.clone())).await;
        let known = known.map_err(|error| error.to_string())?;
        let (task, house) = (Arc::clone(lease), Arc::clone(&self.house));
        tokio::task::spawn_blocking(move || handle::decide(&task, parsed, &known, at, &house))
            .await
            .map_err(|error| format!("deciding failed: {error}"))
    }

    fn count(&self, code: Code, entries: usize, article: bool) {
        let progress = &self.progress;
        progress.entries.fetch_add(entries as u64, Ordering::Relaxed);
        progress.articles.fetch_add(u64::from(article), Ordering::Relaxed);
        let failed = !matches!(code, Code::Ok | Code::NotModified | Code::Redirect);
        progress.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    /// Asks, and follows redirects where that is ours to do. `None` when the lease is lost.
    async fn ask(&self, lease: &Arc<Lease>) -> Option<Asked> {
        let mut asked = Asked {
            reply: refused(Code::BadUrl, "the address cannot be read"),
            fetches: Vec::new(),
            leads_to: None,
        };
        let Ok(mut url) = web::parse(&lease.task.url) else { return Some(asked) };
        let mut redirects: Vec<Redirected> = Vec::new();
        // The pauses between hops are the host's own wish and do not count.
        let mut left = self.settings.task_timeout;
        loop {
            if let Some(reply) = self.forbidden(lease, &url, redirects.is_empty()).await {
                asked.reply = reply;
                return Some(asked);
            }
            let validators = match &lease.validators_for {
                Some(of) if *of == url.as_str() => lease.validators.clone(),
                _ => Validators::default(),
            };
            let began = Instant::now();
            let answer = self
                .client
                .get(&url, lease.task.kind, &validators, lease.source.as_deref(), left)
                .await;
            left = left.saturating_sub(began.elapsed());
            let exchange = match answer {
                Ok(exchange) => exchange,
                Err(error) => {
                    asked.fetches.push(unanswered(lease, &url, &error, self.clock.now()));
                    self.progress.requests.fetch_add(1, Ordering::Relaxed);
                    asked.reply = failed(error.code(), error.to_string(), None);
                    return Some(asked);
                }
            };
            match self.keep(lease, exchange).await {
                Ok((exchange, record)) => {
                    asked.fetches.push(record);
                    let target = redirect_target(&exchange, &url);
                    let Some(target) =
                        target.filter(|_| redirects.len() < self.settings.max_redirects)
                    else {
                        asked.reply = Reply::Answer(Box::new(Response { exchange, redirects }));
                        return Some(asked);
                    };
                    redirects.push(Redirected { status: exchange.status, from: url.to_string() });
                    match self.follow(lease, &url, &target).await {
                        Follow::Yes => url = target,
                        Follow::OwnTask => {
                            asked.leads_to = Some(target);
                            return Some(asked);
                        }
                        Follow::Busy(at) => {
                            let host = web::host(&target);
                            asked.reply =
                                failed(Code::HostBusy, format!("{host} is busy"), Some(at));
                            return Some(asked);
                        }
                        Follow::Lost => return None,
                    }
                }
                Err(message) => {
                    asked.reply = failed(Code::Internal, message, None);
                    return Some(asked);
                }
            }
        }
    }

    /// Our own rules: the guard's on every hop, robots.txt's where the kind asks.
    async fn forbidden(&self, lease: &Lease, url: &Url, first: bool) -> Option<Reply> {
        if let Err(refusal) = self.guard.check_url(url) {
            let message = refusal.to_string();
            return Some(if first {
                refused(Code::Guarded, message)
            } else {
                failed(Code::Guarded, message, None)
            });
        }
        let copy = lease.robots.as_ref()?;
        let rules = || self.robots.rules(&*self.store, copy);
        match self.hold.until_done(Step::Ask, rules).await {
            Ok(rules) => {
                let allowed = rules.allows(&self.house.robots_agent, &web::path_and_query(url));
                (!allowed).then(|| refused(Code::RobotsBlocked, "robots.txt disallows it"))
            }
            Err(error) => Some(failed(Code::Internal, error.to_string(), None)),
        }
    }

    /// Archives an exchange before anybody reads it. What came back is not asked for twice because a
    /// disk is full: it waits.
    async fn keep(
        &self,
        lease: &Arc<Lease>,
        exchange: Exchange,
    ) -> Result<(Exchange, FetchRecord), String> {
        self.progress.requests.fetch_add(1, Ordering::Relaxed);
        self.progress.bytes.fetch_add(exchange.body.len() as u64, Ordering::Relaxed);
        self.progress.not_modified.fetch_add(u64::from(exchange.status == 304), Ordering::Relaxed);
        let mut unkept = exchange;
        let mut waiter = self.hold.waiter(Step::Keep);
        loop {
            let (archive, lease) = (Arc::clone(&self.archive), Arc::clone(lease));
            let append = move || {
                let kept = archive.append(&unkept).map(|raw| record(&lease, &unkept, raw));
                (unkept, kept)
            };
            let (exchange, kept) =
                tokio::task::spawn_blocking(append).await.map_err(|error| error.to_string())?;
            match kept {
                Ok(record) => return Ok((exchange, record)),
                Err(error) => {
                    let message = format!("{error}; work goes on by itself once it can be written");
                    waiter.meets(error.code(), message);
                    tokio::time::sleep(PAUSE).await;
                    unkept = exchange;
                }
            }
        }
    }

    /// Whether a redirect is followed under this lease. Within the host it is, after the host's
    /// pause. Feeds and robots.txt also lead to other hosts, under those hosts' slots; everything
    /// that robots.txt rules becomes a task of its own there.
    async fn follow(&self, lease: &Lease, from: &Url, to: &Url) -> Follow {
        let host = web::host(to);
        if host == web::host(from) {
            self.clock.sleep_until(self.clock.now().after(lease.delay)).await;
            return Follow::Yes;
        }
        if lease.robots.is_some() {
            return Follow::OwnTask;
        }
        let extend = || self.store.extend(lease.id, &host);
        match self.hold.until_done(Step::Ask, extend).await {
            Ok(Extension::Granted) => Follow::Yes,
            Ok(Extension::Busy(at)) => Follow::Busy(at),
            Ok(Extension::Stale) => Follow::Lost,
            Err(error) => {
                tracing::warn!(%error, "a redirect could not be followed");
                Follow::Busy(self.clock.now().after(lease.delay))
            }
        }
    }
}

enum Follow {
    Yes,
    OwnTask,
    Busy(Ts),
    Lost,
}

fn refused(code: Code, detail: impl Into<String>) -> Reply {
    Reply::Refused { code, detail: detail.into() }
}

fn failed(code: Code, detail: impl Into<String>, not_before: Option<Ts>) -> Reply {
    Reply::Failed { code, detail: detail.into(), not_before }
}

fn redirect_target(exchange: &Exchange, from: &Url) -> Option<Url> {
    if !matches!(exchange.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    web::join(from, &exchange.headers.text("location")?).ok()
}

fn record(lease: &Lease, exchange: &Exchange, raw: RawRef) -> FetchRecord {
    let hash: [u8; 32] = Sha256::digest(&exchange.body).into();
    FetchRecord {
        id: exchange.id,
        task: lease.task.id,
        at: exchange.began,
        url: exchange.url.clone(),
        status: Some(exchange.status),
        code: if exchange.status == 304 { Code::NotModified } else { Code::Ok },
        bytes: exchange.body.len() as u64,
        elapsed_ms: u64::try_from(exchange.elapsed.as_millis()).unwrap_or(u64::MAX),
        content_type: exchange.headers.get("content-type").map(str::to_owned),
        body_sha256: Some(UrlHash::from_bytes(hash).to_string()),
        raw: Some(raw),
    }
}

fn unanswered(lease: &Lease, url: &Url, error: &super::FetchError, at: Ts) -> FetchRecord {
    FetchRecord {
        id: crate::model::new_uuid(at),
        task: lease.task.id,
        at,
        url: url.to_string(),
        status: None,
        code: error.code(),
        bytes: 0,
        elapsed_ms: 0,
        content_type: None,
        body_sha256: None,
        raw: None,
    }
}
