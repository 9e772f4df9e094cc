//! Busy tokens on their way from one session to another: each is a promise to
//! its receiver and a part of the motion budget. Rule 7 of `docs/admission.md`.

use alloc::{collections::BTreeMap, vec::Vec};
use core::time::Duration;

use crate::{SessionId, Time, lease::Lease};

/// A recall that is unanswered for a quantum stops counting, but not before
/// this, so that strict order is bounded too.
const SHORTEST_PROMISE: Duration = Duration::from_millis(20);

/// One token asked back from its donor on behalf of its receiver.
#[derive(Clone, Copy, Debug)]
struct Move {
    donor: SessionId,
    receiver: SessionId,
    since: Time,
}

/// All moves of one database, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Moves(Vec<Move>);

impl Moves {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Tokens promised to a session.
    pub(crate) fn promised(&self, receiver: SessionId) -> u32 {
        self.0.iter().filter(|step| step.receiver == receiver).count() as u32
    }

    /// Fresh recalls that a session has not answered.
    pub(crate) fn asked(&self, donor: SessionId) -> u32 {
        self.0.iter().filter(|step| step.donor == donor).count() as u32
    }

    pub(crate) fn add(&mut self, donor: SessionId, receiver: SessionId, now: Time) {
        self.0.push(Move { donor, receiver, since: now });
    }

    /// A session is gone.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.0.retain(|step| step.donor != session && step.receiver != session);
    }

    /// Drops what donors have answered, and what they have not answered for a
    /// quantum.
    pub(crate) fn settle(&mut self, now: Time, quantum: Duration, leases: &BTreeMap<SessionId, Lease>) {
        if self.0.is_empty() {
            return;
        }
        let patience = quantum.max(SHORTEST_PROMISE);
        self.0.retain(|step| now.since(step.since) <= patience);
        let mut unanswered: BTreeMap<SessionId, u32> = BTreeMap::new();
        for step in &self.0 {
            unanswered.entry(step.donor).or_insert_with(|| leases.get(&step.donor).map_or(0, Lease::giving));
        }
        // Newest first: what a donor has answered is its oldest recall.
        self.0.reverse();
        self.0.retain(|step| match unanswered.get_mut(&step.donor) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        });
        self.0.reverse();
    }
}
