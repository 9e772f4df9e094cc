//! Free capacity: who gets it. Rules 1, 2 and 11 of `docs/admission.md`.

use crate::{
    SessionId, Time,
    calls::Call,
    database::{CONNECTS_IN_FLIGHT, Database},
    lease::Lease,
    queue::{EffectiveAge, Part, Turn, effective_age},
};

/// Who is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A lease, by one token.
    Lease(SessionId),
    /// A unary call: all of its tokens or none.
    Call(SessionId),
}

impl Database {
    /// Gives free capacity to the greatest effective age, then to those that
    /// would like to be warm.
    pub(crate) fn grant(&mut self, now: Time) {
        while self.room() > 0 {
            let Some(next) = self.next(now) else { break };
            let served = match next {
                Next::Lease(session) => self.grant_one(session),
                Next::Call(request) => self.serve_call(request, now),
            };
            if !served {
                break;
            }
        }
        if !self.someone_waits() {
            self.grant_to_cool();
        }
    }

    /// Whether anybody has a need that is not met.
    pub(crate) fn someone_waits(&self) -> bool {
        !self.orders.queue.is_empty() || !self.calls.is_empty()
    }

    /// Who has the greatest effective age. While as many connect as may, no
    /// lease does. In fair order a call's turn comes although there is too
    /// little for it, and what is free is kept for it; unfair lets smaller ones
    /// pass.
    pub(crate) fn next(&self, now: Time) -> Option<Next> {
        let lease = if self.may_connect() { self.orders.queue.first(now) } else { None };
        let call = match self.quantum() {
            Some(_) => self.calls.first(),
            None => self.calls.first_within(self.room()),
        };
        let lease = lease.map(|(age, session)| (age, Next::Lease(session)));
        let call = call.map(|(request, call)| (age_of_call(request, call, now), Next::Call(request)));
        lease.into_iter().chain(call).max_by_key(|(age, _)| *age).map(|(_, next)| next)
    }

    fn grant_to_cool(&mut self) {
        while self.may_connect() {
            let Some(&session) = self.orders.cool.first() else { return };
            if !self.grant_one(session) {
                return;
            }
        }
    }

    /// Pacing: whether one more connection may be opened now (rule 11).
    pub(crate) fn may_connect(&self) -> bool {
        self.totals.in_flight < u64::from(CONNECTS_IN_FLIGHT)
    }

    /// Raises one target by one token, if the cap admits it (rule 3 of
    /// `docs/protocol.md`).
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
        if self.calls.get(request).is_none_or(|call| call.tokens > self.room()) {
            return false;
        }
        let Some(call) = self.take_call(request) else { return false };
        let lease = Lease::unary(&call, self.settings.on_loss, now);
        self.calls.granted.push((request, call));
        self.insert(request, lease);
        assert!(self.totals.held <= u64::from(self.cap), "over-admitted by a unary lease");
        true
    }
}

/// Nothing is on its way to a call before all of it is.
pub(crate) fn age_of_call(request: SessionId, call: &Call, now: Time) -> EffectiveAge {
    effective_age(&Turn { since: call.since, tokens: 0, session: request }, Part::WHOLE, now)
}
