//! The driver's passes: what has come is applied, what the core has changed is
//! committed, and only then the rest is sent. The rules are those of
//! `Event::Committed`, `Event::CommitFailed` and `Effect::needs_commit`. Knows
//! nothing of streams, stores or clocks.

use std::time::Duration;

use leasehold_admission::{Core, Effect, Event, Time, durable::Change};

/// While the store fails it is asked again this often.
const RETRY: Duration = Duration::from_millis(500);

/// A core and what its passes leave behind.
#[derive(Debug)]
pub struct Driver {
    /// The core.
    pub core: Core,
    effects: Vec<Effect>,
    /// To be sent when the commit under way has ended.
    sending: Vec<Effect>,
    /// Changes whose commit has not succeeded yet, oldest first.
    changes: Vec<Change>,
    retry_at: Option<Time>,
}

/// How a pass goes on.
#[derive(Debug)]
pub enum Begun {
    /// These are to be committed first; then the pass is to be ended.
    Commit(Vec<Change>),
    /// The pass has ended; these are to be carried out.
    Ended(Vec<Effect>),
}

impl Driver {
    /// A driver that has done nothing.
    pub fn new(core: Core) -> Driver {
        Driver { core, effects: Vec::new(), sending: Vec::new(), changes: Vec::new(), retry_at: None }
    }

    /// The core takes an event.
    pub fn apply(&mut self, now: Time, event: Event) {
        self.core.apply(now, event, &mut self.effects);
    }

    /// Everything that came is applied: goes on to the commit.
    pub fn begin(&mut self, now: Time) -> Begun {
        for effect in std::mem::take(&mut self.effects) {
            if let Effect::Commit(change) = effect {
                self.changes.push(change);
            } else {
                self.sending.push(effect);
            }
        }
        if self.retry_at.is_some_and(|due| now < due) {
            return Begun::Ended(self.end(now, false));
        }
        if self.changes.is_empty() {
            return Begun::Ended(self.end(now, true));
        }
        Begun::Commit(self.changes.clone())
    }

    /// The commit has ended. Returns what is to be carried out.
    pub fn end(&mut self, now: Time, committed: bool) -> Vec<Effect> {
        if committed {
            self.changes.clear();
            self.retry_at = None;
            self.apply(now, Event::Committed);
        } else {
            // Asked again only when due, also where this pass asked for nothing.
            self.retry_at = Some(self.retry_at.filter(|due| now < *due).unwrap_or(now + RETRY));
            self.apply(now, Event::CommitFailed);
            self.sending.retain(|effect| !effect.needs_commit());
        }
        std::mem::take(&mut self.sending)
    }

    /// When there is something to do although nothing comes.
    pub fn due(&self) -> Option<Time> {
        let at_once = (!self.effects.is_empty()).then_some(Time::ZERO);
        [self.core.next_deadline(), self.retry_at, at_once].into_iter().flatten().min()
    }
}
