//! Free capacity: who gets it. Rules 1, 2 and 11 of `docs/admission.md`.
//!
//! Workloads (weights, floors, limits) will choose between the candidates'
//! queues here, before ages do.

use alloc::collections::BinaryHeap;
use core::time::Duration;

use crate::{
    SessionId, Time,
    database::{CONNECTS_IN_FLIGHT, Database},
    lease::Lease,
};

/// Someone with a need. The greatest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// `oldest wait × (1 − covered / waiting)`: a crowd whose oldest tasks are
    /// about to be served is as old as those behind them.
    effective_age: Duration,
    /// Among equals, the one with fewest tokens.
    poverty: u32,
    who: Who,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Lease(SessionId),
    /// A unary call: all of its tokens or none.
    Call(SessionId),
}

impl Database {
    /// Gives free capacity to the greatest effective age, then to those that
    /// would like to be warm.
    pub(crate) fn grant(&mut self, now: Time) {
        if self.needy.is_empty() && self.cool.is_empty() && self.calls.waiting.is_empty() {
            return;
        }
        let everyone_served = self.grant_to_waiting(now);
        if everyone_served {
            self.grant_to_cool();
        }
    }

    /// True when nobody with a need is left.
    fn grant_to_waiting(&mut self, now: Time) -> bool {
        if self.room() == 0 {
            return self.needy.is_empty() && self.calls.waiting.is_empty();
        }
        let mut queue = self.candidates(now);
        while let Some(candidate) = queue.pop() {
            match candidate.who {
                Who::Lease(session) => {
                    if !self.may_connect() {
                        continue;
                    }
                    if !self.grant_one(session) {
                        break;
                    }
                    queue.extend(self.candidate(session, now));
                }
                Who::Call(request) => {
                    let served = self.serve_call(request, now);
                    // In fair order the call's turn has come: what is free is
                    // kept for it. Unfair lets smaller ones pass.
                    if !served && self.quantum().is_some() {
                        break;
                    }
                }
            }
        }
        self.needy.is_empty() && self.calls.waiting.is_empty()
    }

    fn candidates(&self, now: Time) -> BinaryHeap<Candidate> {
        let leases = self.needy.iter().filter_map(|session| self.candidate(*session, now));
        let calls = self.calls.waiting.iter().map(|(request, call)| Candidate {
            effective_age: now.since(call.since),
            poverty: u32::MAX,
            who: Who::Call(*request),
        });
        leases.chain(calls).collect()
    }

    fn candidate(&self, session: SessionId, now: Time) -> Option<Candidate> {
        let lease = self.leases.get(&session)?;
        (lease.need() > 0).then(|| {
            let covered = lease.granting() + self.moves.promised(session);
            Candidate {
                effective_age: effective_age(lease.age(now), covered, lease.demand.waiting),
                poverty: u32::MAX - lease.tokens,
                who: Who::Lease(session),
            }
        })
    }

    fn grant_to_cool(&mut self) {
        while self.may_connect() {
            let Some(&session) = self.cool.first() else { return };
            if !self.grant_one(session) {
                return;
            }
        }
    }

    fn may_connect(&self) -> bool {
        self.totals.in_flight < u64::from(CONNECTS_IN_FLIGHT)
    }

    /// Raises one target by one token, if the cap admits it (rule 3).
    fn grant_one(&mut self, session: SessionId) -> bool {
        // Also a target below what is held rises only while there is room: its
        // token was recalled for somebody else.
        let cap = u64::from(self.cap);
        if self.room() == 0 || self.totals.target >= cap {
            return false;
        }
        self.change(session, Lease::grant);
        assert!(self.totals.held <= cap, "over-admitted: {} held of {cap}", self.totals.held);
        true
    }

    /// Leases all tokens of a call, or none.
    fn serve_call(&mut self, request: SessionId, now: Time) -> bool {
        let Some(call) = self.calls.waiting.get(&request) else { return false };
        if call.tokens > self.room() {
            return false;
        }
        let lease = Lease::unary(call.tokens, self.settings.on_loss, now);
        self.calls.granted.extend(self.calls.waiting.remove_entry(&request));
        self.insert(request, lease);
        assert!(self.totals.held <= u64::from(self.cap), "over-admitted by a unary lease");
        true
    }
}

/// The age of the oldest waiting task, less the part of the crowd that is about
/// to be served. Never zero, so that a task that has just come counts.
fn effective_age(oldest: Duration, covered: u32, waiting: u32) -> Duration {
    let uncovered = waiting.saturating_sub(covered).max(1);
    let nanos = oldest.as_nanos().max(1) * u128::from(uncovered) / u128::from(waiting.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
