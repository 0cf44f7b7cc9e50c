//! What holds work up: a database that is away, a disk that is full.
//!
//! One place knows it, so that it is told once and not by every worker, and so that nothing is begun
//! that cannot be finished. Whoever meets the trouble waits, holding its lease, and tries again;
//! nothing here gives a task up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::db::DbError;
use crate::progress::Progress;

/// How long to wait before trying a database or a disk again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The step that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Beginning anything, as the disk is nearly full.
    Begin,
    /// Getting any answer from the database.
    Answer,
    /// Handing out work.
    Claim,
    /// Asking the store in the middle of a task.
    Ask,
    /// Keeping what came back.
    Keep,
    /// Making an outcome true.
    Commit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    code: &'static str,
    message: String,
}

#[derive(Debug, Default)]
struct State {
    troubles: BTreeMap<Step, Trouble>,
    /// How many wait for a step that several take at once.
    waiting: BTreeMap<Step, usize>,
    /// What was told last: the same is not told again, whichever step meets it.
    told: Option<&'static str>,
}

/// What holds work up now; clones share it.
#[derive(Clone, Debug)]
pub struct Hold {
    state: watch::Sender<State>,
    progress: Arc<Progress>,
}

impl Hold {
    /// Nothing holds work up yet; `progress` shows what does.
    #[must_use]
    pub fn new(progress: Arc<Progress>) -> Self {
        Self { state: watch::Sender::default(), progress }
    }

    /// A step cannot be taken for now.
    pub(super) fn begin(&self, step: Step, code: &'static str, message: impl Into<String>) {
        let trouble = Trouble { code, message: message.into() };
        self.state.send_if_modified(|state| self.meet(state, step, trouble));
    }

    /// A step can be taken again.
    pub(super) fn end(&self, step: Step) {
        self.state.send_if_modified(|state| self.clear(state, step));
    }

    fn meet(&self, state: &mut State, step: Step, trouble: Trouble) -> bool {
        let before = state.troubles.insert(step, trouble);
        self.tell(state);
        before.as_ref() != state.troubles.get(&step)
    }

    fn clear(&self, state: &mut State, step: Step) -> bool {
        let ended = state.troubles.remove(&step).is_some();
        if ended {
            self.tell(state);
        }
        ended
    }

    /// What holds up a step beside its own trouble.
    pub(super) fn reason(&self, step: Step) -> Option<String> {
        let state = self.state.borrow();
        let mut others = state.troubles.iter().filter(|(of, _)| **of != step);
        others.next().map(|(_, trouble)| trouble.message.clone())
    }

    /// Whether anything holds work up.
    pub(super) fn is_held(&self) -> bool {
        !self.state.borrow().troubles.is_empty()
    }

    /// Whether waiting does not help: the tables that work needs are gone.
    pub(super) fn is_hopeless(&self) -> bool {
        let schema = DbError::Schema(String::new()).code();
        self.state.borrow().troubles.values().any(|trouble| trouble.code == schema)
    }

    /// Waits until something else holds work up, or nothing any more.
    pub(super) async fn changed(&self) {
        // The sender is ours, so that this cannot end by its end.
        drop(self.state.subscribe().changed().await);
    }

    /// Takes a step as often as it takes: trouble that may pass is waited for.
    pub(super) async fn until_done<T, F>(
        &self,
        step: Step,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, DbError>
    where
        F: Future<Output = Result<T, DbError>>,
    {
        let mut waiter = self.waiter(step);
        loop {
            match attempt().await {
                Err(error) if error.is_transient() => {
                    waiter.meets(error.code(), error.to_string());
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// One of several who take a step.
    pub(super) const fn waiter(&self, step: Step) -> Waiter<'_> {
        Waiter { hold: self, step, waits: false }
    }

    fn tell(&self, state: &mut State) {
        let first = state.troubles.values().next();
        self.progress.pause(first.map(|trouble| trouble.message.clone()));
        let code = first.map(|trouble| trouble.code);
        if state.told == code {
            return;
        }
        state.told = code;
        match first {
            Some(trouble) => tracing::error!(code, "work is paused: {}", trouble.message),
            None => tracing::info!("work goes on"),
        }
    }
}

/// One of several who take a step. It can be taken again when the last of those who could not has
/// gone on: that a small record finds room does not mean that the disk has any.
#[derive(Debug)]
pub(super) struct Waiter<'h> {
    hold: &'h Hold,
    step: Step,
    waits: bool,
}

impl Waiter<'_> {
    /// The step cannot be taken for now.
    pub(super) fn meets(&mut self, code: &'static str, message: impl Into<String>) {
        let trouble = Trouble { code, message: message.into() };
        let first = !std::mem::replace(&mut self.waits, true);
        self.hold.state.send_if_modified(|state| {
            *state.waiting.entry(self.step).or_default() += usize::from(first);
            self.hold.meet(state, self.step, trouble)
        });
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        self.hold.state.send_if_modified(|state| {
            let waiting = state.waiting.entry(self.step).or_default();
            *waiting = waiting.saturating_sub(1);
            *waiting == 0 && self.hold.clear(state, self.step)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold() -> Hold {
        Hold::new(Arc::default())
    }

    #[test]
    fn whoever_meets_the_same_trouble_it_is_told_once() {
        let hold = hold();
        let told = |hold: &Hold| hold.state.borrow().told;
        hold.begin(Step::Commit, "database_lost", "it is away");
        hold.begin(Step::Claim, "database_lost", "it is away, says another");
        assert_eq!(hold.progress.snapshot().paused.as_deref(), Some("it is away, says another"));
        hold.end(Step::Claim);
        assert_eq!(told(&hold), Some("database_lost"));
        assert_eq!(hold.progress.snapshot().paused.as_deref(), Some("it is away"));
        hold.begin(Step::Keep, "archive_io", "the disk is full");
        assert_eq!(told(&hold), Some("archive_io"), "what comes first in a task's life");
        hold.end(Step::Keep);
        hold.end(Step::Commit);
        assert_eq!(told(&hold), None);
    }

    #[test]
    fn a_step_is_held_up_by_the_trouble_of_others() {
        let hold = hold();
        hold.begin(Step::Claim, "database_lost", "it is away");
        assert!(hold.is_held());
        assert_eq!(hold.reason(Step::Claim), None, "who claims tries again by itself");
        hold.begin(Step::Keep, "archive_io", "the disk is full");
        assert_eq!(hold.reason(Step::Claim).as_deref(), Some("the disk is full"));
        hold.end(Step::Keep);
        hold.end(Step::Claim);
        assert!(!hold.is_held());
        assert_eq!(hold.progress.snapshot().paused, None);
    }

    #[test]
    fn a_step_is_free_when_the_last_who_waited_has_gone_on() {
        let hold = hold();
        let (mut large, mut larger) = (hold.waiter(Step::Keep), hold.waiter(Step::Keep));
        large.meets("archive_io", "the disk is full");
        larger.meets("archive_io", "the disk is full");
        drop(hold.waiter(Step::Keep));
        assert!(hold.is_held(), "a small record says nothing of the others");
        larger.meets("archive_io", "the disk is full");
        drop(large);
        assert!(hold.is_held());
        drop(larger);
        assert!(!hold.is_held());
    }

    #[tokio::test]
    async fn trouble_that_passes_is_waited_for_and_other_trouble_is_not() {
        let hold = hold();
        let mut left = 2;
        let done = hold.until_done(Step::Ask, || {
            left -= 1;
            let done = if left > 0 { Err(DbError::Lost("gone".into())) } else { Ok("here") };
            std::future::ready(done)
        });
        assert_eq!(done.await.unwrap(), "here");
        assert!(!hold.is_held());
        let corrupt = || std::future::ready(Err::<(), _>(DbError::Engine("no".into())));
        assert_eq!(hold.until_done(Step::Ask, corrupt).await.unwrap_err().code(), "database_error");
    }
}
