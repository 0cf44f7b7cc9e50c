//! Handling one archived response as if it had just come.

use std::sync::Arc;
use std::time::Duration;

use feedmill_formats::url as web;
use url::Url;

use super::{Rebuild, RebuildError, Watch};
use crate::app::replay::response;
use crate::db::DbError;
use crate::fetch::{fetch_record, redirect_target};
use crate::frontier::{Act, HostFilter, HostPatch, TaskFilter, queue_key};
use crate::handle::{self, Reply};
use crate::model::{
    Code, Exchange, FetchRecord, HostAdvice, Kind, Lease, NewSource, NewTask, Next, Outcome,
    PollPolicy, Redirected, Response, RobotsFact, RobotsState, Source, Status, Task, Ts, UrlHash,
    Verdict,
};
use crate::store::{Commit, Committed, FetchFilter, MAX_DISCOVERED};

/// How often a task is asked for before its response is left out: it may have to be made due, and its
/// robots.txt comes first, twice where that failed.
const CLAIMS: u32 = 6;
/// Decisions that are made again at the most.
const CONFLICTS: u32 = 5;
/// A redirect is followed within this time, or not at all: its host may have a pause of ten minutes.
const HOP: Duration = Duration::from_mins(15);

impl Rebuild<'_> {
    /// Handles all responses that were not handled yet.
    pub(super) async fn handle_all(
        &mut self,
        finds_sources: bool,
        watch: Watch<'_>,
    ) -> Result<(), RebuildError> {
        let total = self.index.len();
        for at in 0..total {
            watch(at as u64, total as u64);
            if self.used.contains(&at) {
                continue;
            }
            let Some((place, _)) = self.index.get(at) else { continue };
            let known = FetchFilter { ids: vec![place.id], limit: 1, ..FetchFilter::default() };
            if !self.store.find_fetches(known).await?.is_empty() {
                continue;
            }
            let Some((exchange, record)) = self.read(at).await? else { continue };
            self.move_clock(place.when);
            let Ok(url) = web::parse(&exchange.url) else { continue };
            if place.kind == Some(Kind::Robots) || url.path() == "/robots.txt" {
                self.robots.insert(url.to_string(), at);
                continue;
            }
            match self.task_of(&url, &exchange, place.kind, finds_sources).await? {
                Some(task) if task.source.is_some_and(|source| self.down.contains(&source)) => {}
                Some(task) if exchange.body.len() > self.max_body(task.kind) => {
                    let place = record.raw.as_ref().map(|raw| (raw.segment.as_str(), raw.offset));
                    let (segment, offset) = place.unwrap_or_default();
                    let bytes = exchange.body.len();
                    self.done.unreadable.push(format!(
                        "archive {segment} at {offset}: body of {bytes} bytes is over fetch.max_body"
                    ));
                }
                Some(task) => self.handle(at, &task, (url, exchange, record)).await?,
                None => self.done.unplaced += 1,
            }
        }
        Ok(())
    }

    /// The largest body that is fetched for a task.
    fn max_body(&self, kind: Kind) -> usize {
        let fetch = &self.config.fetch;
        if kind == Kind::Sitemap { fetch.max_sitemap.as_len() } else { fetch.max_body.as_len() }
    }

    /// A response as it came; what cannot be read is told, and left out.
    async fn read(&mut self, at: usize) -> Result<Option<(Exchange, FetchRecord)>, RebuildError> {
        let Some((place, raw)) = self.index.get(at) else { return Ok(None) };
        let stored = match self.reader.stored(&raw).await {
            Ok(stored) => stored,
            Err(error) => {
                self.done.unreadable.push(error.to_string());
                return Ok(None);
            }
        };
        let url = stored.fields.target_uri().unwrap_or_default().to_owned();
        let about = FetchRecord {
            id: place.id,
            task: None,
            at: place.at,
            url,
            status: None,
            code: Code::Ok,
            bytes: 0,
            elapsed_ms: 0,
            content_type: None,
            body_sha256: None,
            raw: None,
        };
        let exchange = response(&about, stored, place.at).exchange;
        let record = fetch_record(None, &exchange, raw);
        Ok(Some((exchange, record)))
    }

    /// The task that a response belongs to, taken in where that is known to be right.
    async fn task_of(
        &mut self,
        url: &Url,
        exchange: &Exchange,
        kind: Option<Kind>,
        finds_sources: bool,
    ) -> Result<Option<Task>, RebuildError> {
        if let Some(task) = self.known_task(url, exchange, kind).await? {
            return Ok(Some(task));
        }
        let is_feed = || kind == Some(Kind::Feed) || kind.is_none() && looks_like_feed(exchange);
        if finds_sources && exchange.status == 200 && is_feed() {
            self.find_source(url).await?;
        } else if kind == Some(Kind::Article) {
            let priority = Source::DEFAULT_PRIORITY;
            let new = NewTask::manual(url.to_string(), Kind::Article, None, priority);
            self.store.submit(vec![new]).await?;
        } else {
            return Ok(None);
        }
        self.known_task(url, exchange, kind).await
    }

    async fn known_task(
        &self,
        url: &Url,
        exchange: &Exchange,
        kind: Option<Kind>,
    ) -> Result<Option<Task>, RebuildError> {
        let key = self.key(url.as_str());
        let hash = Some(UrlHash::of(&key).head());
        let filter = TaskFilter { hash, limit: 16, ..TaskFilter::default() };
        let mut found = self.store.list(filter).await?;
        found.retain(|task| task.url_key == key && task.kind != Kind::Robots);
        if found.is_empty()
            && let Some(id) = self.moved.get(&key)
        {
            let filter = TaskFilter { ids: vec![*id], limit: 1, ..TaskFilter::default() };
            found = self.store.list(filter).await?;
        }
        // An address can be a channel and a page.
        let is_page = exchange.headers.get("content-type").is_some_and(|it| it.contains("html"));
        let lane = kind.map(Kind::lane);
        found.sort_by_key(|task| {
            let page = task.kind == Kind::Article;
            (lane.is_some_and(|lane| lane != task.kind.lane()), page != is_page)
        });
        Ok(found.into_iter().next())
    }

    /// A feed that no catalog knows is a source of its own.
    async fn find_source(&mut self, url: &Url) -> Result<(), RebuildError> {
        let host = web::host(url);
        let taken = self.store.sources().await?;
        let is_free = |name: &String| taken.iter().all(|source| source.spec.name != *name);
        let names = (1..).map(|n| if n == 1 { host.clone() } else { format!("{host} {n}") });
        let Some(name) = names.into_iter().find(is_free) else { return Ok(()) };
        let spec = NewSource {
            feed_urls: vec![url.to_string()],
            ..NewSource::new(name, web::origin(url) + "/")
        };
        self.store.add_source(spec).await?;
        self.done.sources += 1;
        Ok(())
    }

    async fn handle(
        &mut self,
        at: usize,
        task: &Task,
        first: (Url, Exchange, FetchRecord),
    ) -> Result<(), RebuildError> {
        let Some(lease) = self.lease(task).await? else {
            self.done.unplaced += 1;
            return Ok(());
        };
        let lease = Arc::new(lease);
        let when = self.clock.now();
        let is_last = self.index.after(at, &first.1.url).next().is_none();
        let (reply, fetches) = self.answer(at, &lease, first).await?;
        let reply = Arc::new(reply);
        for _ in 0..CONFLICTS {
            let mut outcome = self.decide(&lease, &reply, when).await?;
            outcome.fetches.clone_from(&fetches);
            if let Some(last) = outcome.fetches.last_mut() {
                last.code = outcome.code;
            }
            if outcome.code == Code::NotModified && lease.validators_for.is_none() {
                // The document itself is not in the archive: the next request must bring it.
                outcome.validators = None;
            }
            if is_last {
                self.put_off(&lease, &reply, when, &mut outcome).await?;
            }
            if self.commit(&lease, outcome).await? {
                return Ok(());
            }
        }
        Err(DbError::Engine(format!("{} could not be committed", lease.task.url)).into())
    }

    /// The lease of a task, whatever its time: first its robots.txt, as it was then.
    async fn lease(&mut self, task: &Task) -> Result<Option<Lease>, RebuildError> {
        self.end_lifted_pause(&task.host).await?;
        // One that waits keeps its failures; one that was over begins anew.
        let mut acts = [Act::Hasten, Act::Retry].into_iter();
        for _ in 0..CLAIMS {
            match self.store.claim_task(task.id).await? {
                Some(lease) if lease.task.id == task.id => return Ok(Some(lease)),
                Some(robots) => self.serve_robots(robots).await?,
                None => {
                    let Some(act) = acts.next() else { break };
                    let filter =
                        TaskFilter { ids: vec![task.id], limit: 1, ..TaskFilter::default() };
                    self.store.sweep(act, filter, false).await?;
                }
            }
        }
        Ok(None)
    }

    /// Ends the pause of a host that is about to answer again: somebody must have lifted it. A request that
    /// was under way when the pause began shows nothing.
    async fn end_lifted_pause(&mut self, host: &str) -> Result<(), RebuildError> {
        if !self.paused.contains(host) {
            return Ok(());
        }
        let filter = HostFilter { name: Some(host.to_owned()), limit: 1, ..HostFilter::default() };
        let found = self.store.hosts(filter).await?.pop();
        let blocked = found.filter(|host| host.blocked_until.is_some());
        let now = self.clock.now();
        let longest_request = self.config.fetch.task_timeout.duration();
        let asked_at = blocked.as_ref().and_then(|host| host.last_fetch_at);
        if asked_at.is_some_and(|asked_at| now.since(asked_at) <= longest_request) {
            return Ok(());
        }
        if blocked.is_some() {
            let patch = HostPatch { blocked_until: Some(now), ..HostPatch::default() };
            self.store.set_host(host, patch).await?;
        }
        self.paused.remove(host);
        Ok(())
    }

    /// What robots.txt said, or that it is not known: then it is asked for when work begins.
    async fn serve_robots(&mut self, lease: Lease) -> Result<(), RebuildError> {
        let now = self.clock.now();
        let lease = Arc::new(lease);
        let outcome = match self.robots_answer(&lease).await? {
            Some((reply, fetches)) => {
                let mut outcome = self.decide(&lease, &Arc::new(reply), now).await?;
                outcome.fetches = fetches;
                if let Some(last) = outcome.fetches.last_mut() {
                    last.code = outcome.code;
                }
                outcome
            }
            None => {
                let url = lease.task.url.clone();
                let origin = web::parse(&url).map_or(url, |url| web::origin(&url));
                let until = now.after(Duration::from_millis(1));
                let reason = "not in the archive: it is asked for when it is needed";
                let mut outcome = Outcome::new(Code::Ok, Next::Again { at: until }, reason);
                outcome.host = HostAdvice::NotAsked;
                outcome.robots = Some(RobotsFact {
                    origin,
                    state: RobotsState {
                        verdict: Verdict::AllowAll,
                        fetched_at: now,
                        expires_at: until,
                        failures: 0,
                    },
                    crawl_delay_ms: None,
                    rechecked_as: None,
                });
                outcome
            }
        };
        self.commit(&lease, outcome).await?;
        Ok(())
    }

    /// The last answer for a robots.txt, with the requests that led to it.
    async fn robots_answer(
        &mut self,
        lease: &Lease,
    ) -> Result<Option<(Reply, Vec<FetchRecord>)>, RebuildError> {
        let Some(at) = self.robots.remove(&lease.task.url) else { return Ok(None) };
        let Some((exchange, record)) = self.read(at).await? else { return Ok(None) };
        let Ok(url) = web::parse(&exchange.url) else { return Ok(None) };
        let (reply, fetches) = self.answer(at, lease, (url, exchange, record)).await?;
        Ok(matches!(reply, Reply::Answer(_)).then_some((reply, fetches)))
    }

    /// The end of a chain of redirects, as far as it was followed then, and all requests on the way.
    async fn answer(
        &mut self,
        at: usize,
        lease: &Lease,
        (mut url, mut exchange, record): (Url, Exchange, FetchRecord),
    ) -> Result<(Reply, Vec<FetchRecord>), RebuildError> {
        let of_task = |record| FetchRecord { task: Some(lease.task.id), ..record };
        let (mut fetches, mut redirects) = (vec![of_task(record)], Vec::new());
        let before = match lease.task.kind {
            Kind::Robots => 0,
            _ => usize::from(lease.task.redirects),
        };
        loop {
            let has_room = before + redirects.len() < self.house.max_redirects;
            let target = redirect_target(&exchange, &url).filter(|_| has_room);
            let Some(target) = target else {
                return Ok((Reply::Answer(Box::new(Response { exchange, redirects })), fetches));
            };
            redirects.push(Redirected { status: exchange.status, from: url.to_string() });
            if !self.is_followed(lease, &url, &target, &redirects) {
                let hops = redirects.len();
                return Ok((Reply::Elsewhere { target, hops }, fetches));
            }
            let next = self.next_of(at, &target, exchange.began.after(HOP));
            let read = match next {
                Some(next) => self.read(next).await?.map(|read| (next, read)),
                None => None,
            };
            let Some((next, (answer, record))) = read else {
                let detail = format!("{target} has no archived response");
                let code = Code::HostBusy;
                return Ok((Reply::Failed { code, detail, not_before: None }, fetches));
            };
            if web::host(&target) != web::host(&url) {
                // What that host says about its pace is for its own queue.
                self.store.extend(lease.id, &web::host(&target)).await?;
            }
            self.used.insert(next);
            fetches.push(of_task(record));
            (url, exchange) = (target, answer);
        }
    }

    /// Whether a redirect is followed under the same lease, as the engine decides it.
    fn is_followed(&self, lease: &Lease, from: &Url, to: &Url, hops: &[Redirected]) -> bool {
        let (kind, redirects) = (lease.task.kind, self.house.redirects);
        let permanent = hops.iter().all(|hop| matches!(hop.status, 301 | 308));
        let is_page = kind == Kind::Article;
        if is_page && redirects.ends(permanent) && self.key(to.as_str()) != lease.task.url_key {
            return false;
        }
        let stays = is_page && redirects.stays(permanent);
        web::host(to) == web::host(from) || lease.robots.is_none() || stays
    }

    fn next_of(&self, at: usize, target: &Url, until: Ts) -> Option<usize> {
        let mut next = self.index.after(at, target.as_str());
        next.find(|next| {
            !self.used.contains(next)
                && self.index.get(*next).is_some_and(|(place, _)| place.at <= until)
        })
    }

    /// The two pure steps with the look-up between them.
    async fn decide(
        &self,
        lease: &Arc<Lease>,
        reply: &Arc<Reply>,
        at: Ts,
    ) -> Result<Outcome, RebuildError> {
        let failed = |error: tokio::task::JoinError| DbError::Engine(error.to_string());
        let (given, answer, house) =
            (Arc::clone(lease), Arc::clone(reply), Arc::clone(&self.house));
        let parse = move || handle::parse(&given, &answer, &house);
        let (parsed, ask) = tokio::task::spawn_blocking(parse).await.map_err(failed)?;
        let known = self.store.lookup(ask).await?;
        let (given, house) = (Arc::clone(lease), Arc::clone(&self.house));
        let decide = move || handle::decide(&given, parsed, &known, at, &house);
        Ok(tokio::task::spawn_blocking(decide).await.map_err(failed)?)
    }

    /// Lets a recurring task come back after the rebuild, and not all of them at once.
    ///
    /// One that went well comes back after its default interval at the latest. A longer one would rely on
    /// what is not archived, such as the price of a request. Wishes of its publisher are kept.
    async fn put_off(
        &self,
        lease: &Arc<Lease>,
        reply: &Arc<Reply>,
        when: Ts,
        outcome: &mut Outcome,
    ) -> Result<(), RebuildError> {
        let task = &lease.task;
        if !task.kind.recurs() || task.status == Status::Parked {
            return Ok(());
        }
        if let Next::Again { at } = &mut outcome.next {
            let mut usual = Lease::clone(lease);
            // Nobody is late here: all are spread below.
            usual.task.next_fetch_at = when;
            if let Some(source) = &mut usual.source {
                Arc::make_mut(source).spec.poll_policy = Some(PollPolicy::Fixed);
            }
            let usual = self.decide(&Arc::new(usual), reply, when).await?;
            if let Next::Again { at: usual } = usual.next {
                *at = usual.min(*at);
            }
        }
        if let Next::Again { at } | Next::Retry { at, .. } | Next::Postpone { at, .. } =
            &mut outcome.next
        {
            // A clock that was ahead, as in a demonstration, planned from where it was.
            let planned = at.before(when.since(self.now));
            *at = self.next_poll(task.id.0).max(planned);
        }
        Ok(())
    }

    /// Makes an outcome true; false when it has to be decided again.
    async fn commit(&mut self, lease: &Lease, mut outcome: Outcome) -> Result<bool, RebuildError> {
        if let HostAdvice::SlowDown { .. } | HostAdvice::Pause { .. } = outcome.host {
            let answered_by = outcome.fetches.last().and_then(|it| web::parse(&it.url).ok());
            let answered_by = answered_by.map(|url| web::host(&url));
            let groups = &self.store.rules().groups;
            let answered_by = answered_by.map(|host| queue_key(&host, groups).to_owned());
            self.paused.extend(answered_by.into_iter().chain([lease.task.host.clone()]));
        }
        let found = &mut outcome.discovered;
        while found.len() > MAX_DISCOVERED {
            let chunk = found.split_off(found.len() - MAX_DISCOVERED);
            self.store.submit(chunk).await?;
        }
        let commit = Commit { lease: lease.clone(), outcome };
        match self.store.commit(vec![commit]).await.pop() {
            Some(Ok(Committed::Done)) => Ok(true),
            Some(Ok(Committed::Conflict)) => Ok(false),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(Committed::Stale)) | None => {
                Err(DbError::Engine("somebody else works on the database".to_owned()).into())
            }
        }
    }
}

/// Whether an answer is labelled as a feed, or begins as one.
fn looks_like_feed(exchange: &Exchange) -> bool {
    let label = exchange.headers.get("content-type").unwrap_or_default();
    ["rss", "atom", "feed+json"].iter().any(|word| label.contains(word))
}
