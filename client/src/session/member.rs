//! One database of a session: the pool that holds its tokens, the terms that
//! the server gave, what was applied and what was last said about it. Knows
//! nothing of other databases or of the stream's state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::message::{Allotment, DatabaseName, Demand, LossPolicy, Sequence, Terms};
use crate::clock::Time;
use crate::governed::{Governed, Levels, Recall};

/// The age of the oldest waiting task is said again at most once in this part
/// of the quantum. A stale age only overstates the need.
const AGE_REPORTS_PER_QUANTUM: u32 = 4;

/// A database and its pool.
pub(super) struct Member {
    governed: Arc<dyn Governed>,
    terms: Knowledge,
    /// The loss policy last told: it holds until the server tells another.
    on_loss: LossPolicy,
    /// Newest sequence applied on the current stream.
    applied: Sequence,
    /// The last demand on the current stream.
    sent: Option<Report>,
    /// The pool called for a report since then.
    changed: bool,
}

/// What the server last said about the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Nothing yet.
    Awaited,
    /// It is leased on these terms.
    Known(Terms),
    /// The server does not know it.
    Unknown,
}

#[derive(Clone, Copy)]
struct Report {
    acknowledged: Sequence,
    levels: Levels,
    at: Time,
}

impl Member {
    pub(super) fn new(governed: Arc<dyn Governed>) -> Self {
        Self {
            governed,
            terms: Knowledge::Awaited,
            on_loss: LossPolicy::Keep,
            applied: Sequence::default(),
            sent: None,
            changed: false,
        }
    }

    /// Another pool takes over; the former one holds nothing.
    pub(super) fn replace(&mut self, governed: Arc<dyn Governed>) {
        self.governed = governed;
        self.changed = true;
    }

    pub(super) fn knowledge(&self) -> Knowledge {
        self.terms
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.governed.levels().holding == 0
    }

    /// Whether the server was told so, too: what came back since the last
    /// report is still to be said.
    pub(super) fn said_to_hold_nothing(&self) -> bool {
        let said = match self.terms {
            Knowledge::Known(_) => self.sent.as_ref().is_some_and(|sent| sent.levels.holding == 0),
            Knowledge::Awaited | Knowledge::Unknown => true,
        };
        said && self.holds_nothing()
    }

    pub(super) fn changed(&mut self) {
        self.changed = true;
    }

    /// What a Hello says: the state now. From here on nothing of an older
    /// stream is known.
    pub(super) fn claim(&mut self, database: &DatabaseName, lapsed: bool) -> Demand {
        self.applied = Sequence::default();
        self.sent = None;
        self.changed = false;
        self.stream_ended();
        self.demand(database, lapsed)
    }

    /// Nothing more comes on the current stream: tasks wait for what the next one
    /// brings, however full the queue was.
    pub(super) fn stream_ended(&self) {
        self.governed.bound_queue(None);
    }

    /// The Welcome confirms at most what was claimed.
    pub(super) fn welcomed(&mut self, claimed: u32, terms: Option<Terms>) {
        match terms {
            Some(terms) => {
                self.applied = terms.sequence;
                self.on_loss = terms.on_loss;
                self.terms = Knowledge::Known(terms);
            }
            None => self.terms = Knowledge::Unknown,
        }
        if self.governed.levels().holding > claimed {
            self.governed.allot(claimed, Recall::NextReturn);
        }
    }

    /// Applies an allotment; past the deadline a raise is only acknowledged. A
    /// recall is followed even then: it is acknowledged, so the server waits for
    /// what it asked for and does not ask again.
    pub(super) fn allotted(&mut self, allotment: &Allotment, lapsed: bool) -> Result<(), Misplaced> {
        let Knowledge::Known(terms) = &mut self.terms else { return Err(Misplaced::NotLeased) };
        if allotment.sequence <= self.applied {
            return Err(Misplaced::NotNewer { applied: self.applied });
        }
        self.applied = allotment.sequence;
        terms.quantum = allotment.quantum.unwrap_or(terms.quantum);
        let most = if lapsed { self.governed.levels().holding } else { u32::MAX };
        self.governed.bound_queue(allotment.max_waiting);
        self.governed.allot(allotment.tokens.min(most), allotment.recall);
        Ok(())
    }

    /// The demand to send now, if there is anything to say.
    pub(super) fn report(&mut self, database: &DatabaseName, lapsed: bool, now: Time) -> Option<Demand> {
        let Knowledge::Known(terms) = self.terms else { return None };
        let Some(last) = self.sent.filter(|sent| sent.acknowledged == self.applied) else {
            return Some(self.reported(database, lapsed, now));
        };
        let age_due = last.age_due(terms.quantum).is_some_and(|due| now >= due);
        if !self.changed && !age_due {
            return None;
        }
        self.changed = false;
        let levels = self.levels(lapsed);
        let worth = differ_beyond_ages(&levels, &last.levels) || (age_due && levels != last.levels);
        if !worth {
            if let Some(sent) = self.sent.as_mut().filter(|_| age_due) {
                sent.at = now;
            }
            return None;
        }
        Some(self.reported(database, lapsed, now))
    }

    /// When the age of the oldest waiting task is due to be said again.
    pub(super) fn report_due(&self) -> Option<Time> {
        let Knowledge::Known(terms) = self.terms else { return None };
        self.sent.as_ref().and_then(|sent| sent.age_due(terms.quantum))
    }

    pub(super) fn lapse(&self) {
        self.governed.lapse(self.on_loss == LossPolicy::Fence);
    }

    pub(super) fn close(&self) {
        self.governed.close();
    }

    pub(super) fn revive(&self) {
        self.governed.revive();
    }

    pub(super) fn prolong(&self, deadline: Time) {
        self.governed.prolong(deadline);
    }

    /// Reads the levels *after* everything up to `applied` was applied, in the
    /// same step that acknowledges it: a demand that acknowledged a raise with
    /// the levels from before it would let the server forget the raise.
    fn demand(&self, database: &DatabaseName, lapsed: bool) -> Demand {
        Demand {
            database: database.clone(),
            acknowledged: self.applied,
            levels: self.levels(lapsed),
            traceparent: self.governed.traceparent(),
        }
    }

    /// The levels as they are said. Past the deadline no token can be taken, so
    /// none is asked for: the server would grant and be answered without an end.
    fn levels(&self, lapsed: bool) -> Levels {
        let levels = self.governed.levels();
        if !lapsed {
            return levels;
        }
        Levels { waiting: 0, oldest_wait: Duration::ZERO, wanted: levels.in_use, ..levels }
    }

    fn reported(&mut self, database: &DatabaseName, lapsed: bool, now: Time) -> Demand {
        let demand = self.demand(database, lapsed);
        self.changed = false;
        self.sent = Some(Report { acknowledged: demand.acknowledged, levels: demand.levels, at: now });
        demand
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Member")
            .field("terms", &self.terms)
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

impl Report {
    fn age_due(&self, quantum: Duration) -> Option<Time> {
        let worth = self.levels.waiting > 0 && !quantum.is_zero();
        worth.then(|| self.at + quantum / AGE_REPORTS_PER_QUANTUM)
    }
}

/// Why an allotment cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// The Welcome did not lease the database.
    NotLeased,
    /// Its sequence does not rise.
    NotNewer {
        /// The newest one applied.
        applied: Sequence,
    },
}

/// Whether anything but ages and mean times differs: those change with every
/// checkout and are said along with the rest.
fn differ_beyond_ages(left: &Levels, right: &Levels) -> bool {
    let without_times = |levels: &Levels| Levels {
        oldest_wait: Duration::ZERO,
        mean_hold: Duration::ZERO,
        mean_connect: Duration::ZERO,
        ..*levels
    };
    without_times(left) != without_times(right)
}
