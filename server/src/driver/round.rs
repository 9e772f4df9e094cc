//! One round of the driver, between the core and the store: what has to be
//! committed, and what may be sent when that has ended, well or not. Durable
//! before visible. Knows nothing of stores, tasks or clocks, so that a
//! simulation runs it as it is.

use std::time::Duration;

use leasehold_admission::{Effect, Event, Time, durable::Change};

use super::pending::Pending;

/// While the store fails it is asked again this often, and not more often.
const RETRY: Duration = Duration::from_millis(500);

/// What a round leaves to the next ones.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Changes of failed commits, oldest first.
    pending: Pending,
    /// When they are due again.
    retry_at: Option<Time>,
    /// What waits for the commit under way.
    waiting: Vec<Effect>,
}

/// How a round goes on.
#[derive(Debug)]
pub(super) enum Begun {
    /// These are committed first; then the round is ended.
    Commit(Vec<Change>),
    /// The round has ended.
    Ended(Ended),
}

/// How a round ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// What the core is to be told, before anything is sent.
    pub(super) event: Option<Event>,
    /// What is to be sent.
    pub(super) send: Vec<Effect>,
    /// Everything that this round has changed is durable.
    pub(super) durable: bool,
}

impl Rounds {
    /// When changes that were left behind are due again.
    pub(super) fn retry_at(&self) -> Option<Time> {
        self.retry_at
    }

    /// Takes what the core wants done after everything that has come.
    pub(super) fn begin(&mut self, now: Time, effects: Vec<Effect>) -> Begun {
        let (changes, effects) = split(effects);
        if !self.must_commit(now, &changes, &effects) {
            // What is sent now may not be taken back by a later failure.
            let event = self.retry_at.is_none().then_some(Event::Committed);
            return Begun::Ended(Ended { event, send: effects, durable: true });
        }
        self.waiting = effects;
        self.pending.extend(changes);
        if self.retry_at.is_some_and(|due| now < due) {
            // It has failed so lately that it is not asked.
            return Begun::Ended(self.failed());
        }
        Begun::Commit(self.pending.take())
    }

    /// The commit under way has ended. `left` are its changes, if it failed or
    /// may have.
    pub(super) fn end(&mut self, now: Time, left: Option<Vec<Change>>) -> Ended {
        let Some(changes) = left else {
            self.retry_at = None;
            let send = std::mem::take(&mut self.waiting);
            return Ended { event: Some(Event::Committed), send, durable: true };
        };
        self.pending.extend(changes);
        self.retry_at = Some(now + RETRY);
        self.failed()
    }

    /// Nothing that rests on a commit is sent; the rest is.
    fn failed(&mut self) -> Ended {
        let mut send = std::mem::take(&mut self.waiting);
        send.retain(|effect| !effect.needs_commit());
        Ended { event: Some(Event::CommitFailed), send, durable: false }
    }

    /// Changes must be committed; and what rests on earlier ones that failed
    /// must wait for them.
    fn must_commit(&self, now: Time, changes: &[Change], effects: &[Effect]) -> bool {
        let due = self.retry_at.is_some_and(|due| due <= now);
        let rests = self.retry_at.is_some() && effects.iter().any(Effect::needs_commit);
        !changes.is_empty() || due || rests
    }
}

/// Tells what is to be made durable from what is to be done.
fn split(effects: Vec<Effect>) -> (Vec<Change>, Vec<Effect>) {
    let mut changes = Vec::new();
    let mut others = Vec::with_capacity(effects.len());
    for effect in effects {
        match effect {
            Effect::Commit(change) => changes.push(change),
            Effect::Welcome { .. }
            | Effect::Allotment { .. }
            | Effect::KeepAlive { .. }
            | Effect::Close { .. }
            | Effect::Reply { .. }
            | Effect::Note(_) => others.push(effect),
        }
    }
    (changes, others)
}
