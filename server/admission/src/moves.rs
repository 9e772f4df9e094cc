//! Busy tokens on their way from one session to another: each is a promise to
//! its receiver and a part of the motion budget. Rule 7 of `docs/admission.md`.
//! Knows nothing of leases.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use crate::{SessionId, Time, reason::Rule};

/// A recall that is unanswered for a quantum stops counting, but not before
/// this, so that strict order is bounded too.
const SHORTEST_PROMISE: Duration = Duration::from_millis(20);

/// One token asked back from its donor on behalf of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) donor: SessionId,
    pub(crate) receiver: SessionId,
    pub(crate) rule: Rule,
    pub(crate) since: Time,
}

/// All moves of one database.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// By number, the oldest first.
    all: BTreeMap<u64, Move>,
    of_donors: BTreeSet<(SessionId, u64)>,
    of_receivers: BTreeSet<(SessionId, u64)>,
    /// How many balance shares.
    balancing: usize,
    next: u64,
}

impl Moves {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one that balances shares is on its way.
    pub(crate) fn balances(&self) -> bool {
        self.balancing > 0
    }

    pub(crate) fn add(&mut self, step: Move) {
        self.balancing += usize::from(step.rule == Rule::Balance);
        self.all.insert(self.next, step);
        self.of_donors.insert((step.donor, self.next));
        self.of_receivers.insert((step.receiver, self.next));
        self.next += 1;
    }

    /// When the oldest one stops counting.
    pub(crate) fn lapses_at(&self, quantum: Duration) -> Option<Time> {
        let (_, oldest) = self.all.first_key_value()?;
        // A moment later: the donor has its whole quantum.
        Some(oldest.since + quantum.max(SHORTEST_PROMISE) + Duration::from_nanos(1))
    }

    /// Takes out the oldest one, if it has stopped counting.
    pub(crate) fn take_lapsed(&mut self, now: Time, quantum: Duration) -> Option<Move> {
        let lapsed = self.lapses_at(quantum).is_some_and(|at| at <= now);
        let (number, _) = self.all.first_key_value().filter(|_| lapsed)?;
        self.take(*number)
    }

    /// Takes out the oldest one of a donor: that is the one it has answered.
    pub(crate) fn take_answered(&mut self, donor: SessionId) -> Option<Move> {
        let number = first_of(&self.of_donors, donor)?;
        self.take(number)
    }

    /// Takes out one that a session that is gone was part of.
    pub(crate) fn take_of(&mut self, session: SessionId) -> Option<Move> {
        let number = first_of(&self.of_donors, session).or_else(|| first_of(&self.of_receivers, session))?;
        self.take(number)
    }

    /// All moves, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Move> {
        self.all.values()
    }

    fn take(&mut self, number: u64) -> Option<Move> {
        let step = self.all.remove(&number)?;
        self.balancing -= usize::from(step.rule == Rule::Balance);
        self.of_donors.remove(&(step.donor, number));
        self.of_receivers.remove(&(step.receiver, number));
        Some(step)
    }
}

fn first_of(moves: &BTreeSet<(SessionId, u64)>, session: SessionId) -> Option<u64> {
    moves.range((session, 0)..=(session, u64::MAX)).next().map(|(_, number)| *number)
}
