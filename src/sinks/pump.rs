//! Hands the log to a sink: reads on from its cursor, joins, filters, redacts, delivers, and notes
//! what became of it. Only this place knows about batches, failures and operators' wishes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::item::Subject;
use super::{Filter, Item, Redact, Sink, SinkError, Taken};
use crate::db::DbError;
use crate::metrics::sink;
use crate::model::Event;
use crate::progress::Progress;
use crate::store::damage::{DamagedEvent, ROW_DAMAGED};
use crate::store::outbox::{Delivery, Refusal, SinkCursor, Start};
use crate::store::{EventFilter, Store};

/// The log may have grown by another process, and operators have wishes: look at least this often.
const GLANCE: Duration = Duration::from_secs(1);
/// The first wait after a failure; it doubles.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const LONGEST: Duration = Duration::from_mins(1);
/// The longest wait that a target may ask for.
const LONGEST_ASKED: Duration = Duration::from_hours(1);
/// While another process delivers, look this often whether it still does.
const STAND_BY: Duration = Duration::from_secs(5);

/// What a sink gets, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Which events.
    pub filter: Filter,
    /// What is not handed on as it is.
    pub redact: Redact,
    /// Events of a batch at the most.
    pub batch: usize,
    /// Where it begins when it never ran.
    pub start: Start,
}

impl Default for Terms {
    fn default() -> Self {
        let (filter, redact) = (Filter::default(), Redact::default());
        Self { filter, redact, batch: 500, start: Start::Beginning }
    }
}

/// A sink at work.
pub struct Pump {
    /// What its cursor is called.
    pub name: String,
    /// Who delivers, among processes that share a store.
    pub who: String,
    /// For how long the right to deliver is taken, on the store's clock…
    pub hold: Duration,
    /// …and how often it is renewed, on the wall's.
    pub renew: Duration,
    /// The target.
    pub sink: Box<dyn Sink>,
    /// What it gets.
    pub terms: Terms,
    /// Where the log is.
    pub store: Arc<dyn Store>,
    /// Counts what was delivered.
    pub progress: Arc<Progress>,
    /// Ends it once the log is empty.
    pub stop: CancellationToken,
}

/// An event as the log has it.
type Read = Result<Event, DamagedEvent>;

fn seq(read: &Read) -> i64 {
    match read {
        Ok(event) => event.seq,
        Err(damaged) => damaged.seq,
    }
}

/// Of what an entry or an article is told by, the payload of its event says nothing more.
fn readable(read: Read) -> Read {
    match read {
        Err(DamagedEvent { left: Some(event), .. })
            if Subject::of(event.kind) != Subject::Other =>
        {
            Ok(*event)
        }
        read => read,
    }
}

/// What a look at the log came to.
enum Step {
    /// There may be more.
    Onward,
    /// Nothing is left.
    Idle,
    /// An operator wants something else.
    Elsewhere,
}

/// What holds a sink up.
#[derive(Default)]
struct Trouble {
    /// Since it began, nothing was delivered: one event at a time is tried.
    held_up: bool,
    wait: Duration,
}

impl Pump {
    /// Delivers until it is told to stop and the log is empty.
    pub async fn run(mut self) {
        let mut trouble = Trouble::default();
        loop {
            match self.work(&mut trouble).await {
                Ok(()) => break,
                // The engine tells of its database; it is waited for as the engine does.
                Err(SinkError::Db(error)) if error.is_transient() => trouble.wait = FIRST,
                Err(error) => self.suffer(&mut trouble, &error).await,
            }
            tokio::select! {
                // What was not delivered stays in the log for the next start.
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(trouble.wait) => {}
            }
        }
        if let Err(error) = self.store.release_sink(&self.name, &self.who).await {
            tracing::debug!(sink = self.name, %error, "the right to deliver runs out by itself");
        }
    }

    async fn suffer(&self, trouble: &mut Trouble, error: &SinkError) {
        if trouble.held_up {
            trouble.wait = (trouble.wait * 2).min(LONGEST);
        } else {
            tracing::error!(sink = self.name, %error, code = error.code(), "a sink is held up; it goes on by itself");
            *trouble = Trouble { held_up: true, wait: FIRST };
            self.progress.metrics.held_up.get_or_create(&sink(&self.name)).inc();
        }
        if let SinkError::Away { after: Some(after), .. } = error {
            trouble.wait = trouble.wait.max((*after).min(LONGEST_ASKED));
        }
        if let Err(error) = self.hold_up(error).await {
            tracing::debug!(sink = self.name, %error, "the failure could not be noted");
        }
    }

    async fn hold_up(&self, error: &SinkError) -> Result<(), DbError> {
        let cursor = self.store.open_sink(&self.name, self.terms.start).await?.cursor;
        let error = Some(error.to_string());
        self.store
            .note_delivery(&self.name, Delivery { cursor, error, ..Delivery::default() })
            .await?;
        Ok(())
    }

    /// Delivers; ends when the log is empty at the end, or with what went wrong.
    async fn work(&mut self, trouble: &mut Trouble) -> Result<(), SinkError> {
        loop {
            let row = self.store.open_sink(&self.name, self.terms.start).await?;
            if row.paused_at.is_some() || !self.hold().await? {
                if self.stop.is_cancelled() {
                    return Ok(());
                }
                self.idle(if row.paused_at.is_some() { GLANCE } else { STAND_BY }).await;
                continue;
            }
            self.sink.resume(&row.cursor.state).await?;
            if self.deliver_from(row.cursor, trouble).await? {
                return Ok(());
            }
        }
    }

    /// Delivers from there on; false when an operator wants something else.
    async fn deliver_from(
        &mut self,
        mut cursor: SinkCursor,
        trouble: &mut Trouble,
    ) -> Result<bool, SinkError> {
        let mut renewed = Instant::now();
        loop {
            let last_look = self.stop.is_cancelled();
            if renewed.elapsed() >= self.renew {
                if !self.hold().await? {
                    return Ok(false);
                }
                renewed = Instant::now();
            }
            match self.step(&mut cursor, trouble).await? {
                Step::Onward => {}
                Step::Idle if last_look => return Ok(true),
                Step::Idle => self.idle(GLANCE).await,
                Step::Elsewhere => return Ok(false),
            }
        }
    }

    async fn step(
        &mut self,
        cursor: &mut SinkCursor,
        trouble: &mut Trouble,
    ) -> Result<Step, SinkError> {
        let row = self.store.open_sink(&self.name, self.terms.start).await?;
        if row.paused_at.is_some() || row.cursor.turn != cursor.turn {
            return Ok(Step::Elsewhere);
        }
        if row.dead_letters > 0 && !self.send_again(cursor, trouble).await? {
            return Ok(Step::Elsewhere);
        }
        // Whoever failed just now is asked with a single event first.
        let limit = if trouble.held_up { 1 } else { self.terms.batch };
        let filter = EventFilter { after: cursor.seq, limit, ..EventFilter::default() };
        let batch = self.store.read_events(filter).await?;
        let Some(last) = batch.last().map(seq) else { return Ok(Step::Idle) };
        let read = batch.len();
        let delivery = self.deliver(cursor, batch, last).await?;
        if !self.note(cursor, delivery, trouble).await? {
            return Ok(Step::Elsewhere);
        }
        let at_end = read < self.terms.batch && !trouble.held_up;
        Ok(if at_end { Step::Idle } else { Step::Onward })
    }

    /// Sends dead letters again that an operator wants sent again.
    async fn send_again(
        &mut self,
        cursor: &mut SinkCursor,
        trouble: &mut Trouble,
    ) -> Result<bool, SinkError> {
        let letters = self.store.dead_letters(&self.name, 0, true, self.terms.batch).await?;
        if letters.is_empty() {
            return Ok(true);
        }
        let mut batch = Vec::new();
        for letter in &letters {
            let filter = EventFilter { after: letter.seq - 1, limit: 1, ..EventFilter::default() };
            let found = self.store.read_events(filter).await?;
            batch.extend(found.into_iter().filter(|event| seq(event) == letter.seq));
        }
        let mut delivery = self.deliver(cursor, batch, cursor.seq).await?;
        let refused: Vec<i64> = delivery.refused.iter().map(|letter| letter.seq).collect();
        let gone = letters.iter().map(|letter| letter.seq);
        delivery.settled = gone.filter(|seq| !refused.contains(seq)).collect();
        self.note(cursor, delivery, trouble).await
    }

    /// Notes what became of a batch; false when the sink was put elsewhere meanwhile.
    async fn note(
        &self,
        cursor: &mut SinkCursor,
        delivery: Delivery,
        trouble: &mut Trouble,
    ) -> Result<bool, SinkError> {
        let (next, delivered) = (delivery.cursor.clone(), delivery.delivered);
        let refused = delivery.refused.len() as u64;
        self.progress.metrics.refused.get_or_create(&sink(&self.name)).inc_by(refused);
        for letter in &delivery.refused {
            let Refusal { seq, code, reason } = letter;
            if *code == ROW_DAMAGED {
                tracing::error!(sink = self.name, seq, code, reason, "sink skipped damaged row");
            } else {
                tracing::warn!(
                    sink = self.name,
                    seq,
                    code,
                    reason,
                    "a sink's target will not have an event"
                );
            }
        }
        if !self.store.note_delivery(&self.name, delivery).await? {
            return Ok(false);
        }
        *cursor = next;
        self.progress.deliver(&self.name, delivered);
        if std::mem::take(trouble).held_up {
            tracing::info!(sink = self.name, "a sink goes on");
        }
        Ok(true)
    }

    /// Hands a batch over; what became of it, with the cursor at `place` then.
    async fn deliver(
        &mut self,
        cursor: &SinkCursor,
        events: Vec<Read>,
        place: i64,
    ) -> Result<Delivery, SinkError> {
        let mut next = SinkCursor { seq: place, ..cursor.clone() };
        let (items, damaged) = self.items(events).await?;
        if items.is_empty() {
            return Ok(Delivery { cursor: next, refused: damaged, ..Delivery::default() });
        }
        if let Some(state) = self.sink.prepare(&items)? {
            let cursor = SinkCursor { state, ..cursor.clone() };
            next.state = cursor.state.clone();
            let before = Delivery { cursor, ..Delivery::default() };
            self.store.note_delivery(&self.name, before).await?;
        }
        let subjects = items.iter().map(|item| item.event.subject.as_str());
        // Each is open as long as the target takes.
        let _spans = self.progress.traces.deliver(&self.name, subjects);
        let Taken { state, mut refused } = self.hand_over(&items).await?;
        next.state = state;
        let delivered = items.len().saturating_sub(refused.len()) as u64;
        refused.extend(damaged);
        Ok(Delivery { cursor: next, delivered, error: None, refused, settled: Vec::new() })
    }

    /// The same, while the right to deliver is renewed.
    async fn hand_over(&mut self, items: &[Item]) -> Result<Taken, SinkError> {
        let (store, name, who, hold) = (&self.store, &self.name, &self.who, self.hold);
        let mut renewal = tokio::time::interval(self.renew);
        renewal.reset();
        let handing = self.sink.deliver(items);
        tokio::pin!(handing);
        loop {
            tokio::select! {
                taken = &mut handing => return taken,
                _ = renewal.tick() => drop(store.hold_sink(name, who, hold).await),
            }
        }
    }

    /// What the sink is given of these events, and what cannot be read of them.
    async fn items(&self, read: Vec<Read>) -> Result<(Vec<Item>, Vec<Refusal>), SinkError> {
        let Terms { filter, redact, .. } = &self.terms;
        let (mut events, mut damaged) = (Vec::with_capacity(read.len()), Vec::new());
        for event in read {
            match readable(event) {
                Ok(event) if filter.wants(&event) => match Item::is_named(&event) {
                    true => events.push(event),
                    false => {
                        let seq = event.seq;
                        let reason = format!("event {seq} is damaged: its subject is not an id");
                        damaged.push(Refusal { seq, code: ROW_DAMAGED, reason });
                    }
                },
                Err(DamagedEvent { left: Some(event), .. }) if !filter.wants(&event) => {}
                Err(DamagedEvent { seq, reason, .. }) => {
                    let reason = format!("event {seq} is damaged: {reason}");
                    damaged.push(Refusal { seq, code: ROW_DAMAGED, reason });
                }
                Ok(_) => {}
            }
        }
        let joined = self.store.join(Item::wanted(&events)).await?;
        let mut items = Vec::with_capacity(events.len());
        for event in events {
            if let Some(row) = Item::damage(&event, &joined) {
                let reason = format!("{row}; {}", row.table.remedy());
                damaged.push(Refusal { seq: event.seq, code: ROW_DAMAGED, reason });
                continue;
            }
            if let Some(reason) = Item::lost(&event, &joined) {
                damaged.push(Refusal { seq: event.seq, code: ROW_DAMAGED, reason });
                continue;
            }
            let Some(mut item) = Item::of(event, &joined) else { continue };
            if filter.passes(&item) {
                redact.apply(&mut item);
                items.push(item);
            }
        }
        Ok((items, damaged))
    }

    async fn hold(&self) -> Result<bool, DbError> {
        self.store.hold_sink(&self.name, &self.who, self.hold).await
    }

    async fn idle(&self, longest: Duration) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.store.logged() => {}
            () = tokio::time::sleep(longest) => {}
        }
    }
}
