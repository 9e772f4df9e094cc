//! Free capacity: who gets it. Rules 1, 2 and 11 of `docs/admission.md`, and 9 and
//! 10 as to what is free for whom.

use crate::{
    SessionId, Time,
    between::Precedence,
    calls::Call,
    database::{CONNECTS_IN_FLIGHT, Database},
    lease::Lease,
    queue::{EffectiveAge, Part, Turn, effective_age},
    workload::{Workload, WorkloadId},
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
    /// Gives free capacity to those that wait, then to those that would like to
    /// be warm.
    pub(crate) fn grant(&mut self, now: Time) {
        while let Some(next) = self.next(now) {
            let served = match next {
                Next::Lease(session) => self.grant_one(session),
                Next::Call(request) => self.serve_call(request, now),
            };
            if !served {
                break;
            }
        }
        if !self.workloads.iter().any(Workload::someone_waits) {
            self.grant_to_cool();
        }
    }

    /// Of the workloads that something is free for, the one that lacks most; of
    /// it, whoever has the greatest effective age.
    pub(crate) fn next(&self, now: Time) -> Option<Next> {
        let (room, reserved) = (u64::from(self.room()), self.reserved());
        if room == 0 {
            return None;
        }
        let heads = self.workloads.iter().filter_map(|workload| {
            let (age, next) = self.head(workload, free_for(workload, room, reserved), now)?;
            // Nothing that others give back helps a call that waits for its own
            // workload to come down from its limit. So nothing is kept for it.
            let may_be = tokens_for(workload, next) <= workload.below_limit();
            may_be.then(|| (Precedence::of(workload), age, next))
        });
        heads.max_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1))).map(|(_, _, next)| next)
    }

    /// Whoever of a workload has the greatest effective age, if so much is free
    /// for it. While as many connect as may, no lease is next. In fair order a
    /// call's turn comes although too little is free for it, which is then kept
    /// for it; unfair lets smaller ones pass.
    pub(crate) fn head(&self, workload: &Workload, free: u64, now: Time) -> Option<(EffectiveAge, Next)> {
        let fits = u32::try_from(free).unwrap_or(u32::MAX);
        if fits == 0 || !workload.someone_waits() {
            return None;
        }
        let lease = if self.may_connect() { workload.orders.queue.first(now) } else { None };
        let call = match self.quantum() {
            Some(_) => workload.calls.first(),
            None => workload.calls.first_within(fits),
        };
        let lease = lease.map(|(age, session)| (age, Next::Lease(session)));
        let call = call.map(|(request, call)| (age_of_call(request, call, now), Next::Call(request)));
        lease.into_iter().chain(call).max_by_key(|(age, _)| *age)
    }

    /// Tokens that are held free for the floors of workloads.
    pub(crate) fn reserved(&self) -> u64 {
        self.workloads.iter().map(Workload::reserved).sum()
    }

    fn grant_to_cool(&mut self) {
        while let Some(session) = self.next_to_warm() {
            if !self.grant_one(session) {
                return;
            }
        }
    }

    /// Somebody who would like to be warm.
    fn next_to_warm(&self) -> Option<SessionId> {
        if !self.may_connect() {
            return None;
        }
        let (room, reserved) = (u64::from(self.room()), self.reserved());
        let mut growing = self.workloads.iter().filter(|workload| free_for(workload, room, reserved) > 0);
        growing.find_map(|workload| workload.orders.cool.first().copied())
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
        if let Some(lease) = self.leases.get(&session) {
            self.is_within_its_limit(lease.workload);
        }
        true
    }

    /// A grant has just been made to somebody of this workload.
    fn is_within_its_limit(&self, workload: WorkloadId) {
        let Workload { settings, totals, .. } = &self.workloads[workload.index()];
        let within = settings.limit.is_none_or(|limit| totals.held <= u64::from(limit));
        assert!(within, "{} of workload {} held, above its limit", totals.held, settings.name);
    }

    /// Leases all tokens of a call, or none.
    fn serve_call(&mut self, request: SessionId, now: Time) -> bool {
        let (room, reserved) = (u64::from(self.room()), self.reserved());
        let fits =
            |workload: &Workload, call: &Call| u64::from(call.tokens) <= free_for(workload, room, reserved);
        let mut workloads = self.workloads.iter();
        let at =
            workloads.find(|workload| workload.calls.get(request).is_some_and(|call| fits(workload, call)));
        let Some(at) = at.map(|workload| workload.id) else { return false };
        self.lease_call(request, at, now);
        assert!(self.totals.held <= u64::from(self.cap), "over-admitted by a unary lease");
        self.is_within_its_limit(at);
        true
    }

    /// Turns a call into a lease of all its tokens.
    pub(crate) fn lease_call(&mut self, request: SessionId, workload: WorkloadId, now: Time) {
        let Some(call) = self.take_call(request) else { return };
        let lease = Lease::unary(&call, self.settings.on_loss, now).of(workload);
        self.granted.push((request, call));
        self.insert(request, lease);
    }
}

/// What is free for one workload, of so much room, of which so much is held free
/// for floors: what is held free for its own is free for it.
pub(crate) fn free_for(workload: &Workload, room: u64, reserved: u64) -> u64 {
    let for_others = reserved - workload.reserved();
    room.saturating_sub(for_others).min(workload.below_limit())
}

/// How many tokens whoever is next in a workload would get.
fn tokens_for(workload: &Workload, next: Next) -> u64 {
    match next {
        Next::Lease(_) => 1,
        Next::Call(request) => workload.calls.get(request).map_or(0, |call| u64::from(call.tokens)),
    }
}

/// Nothing is on its way to a call before all of it is.
pub(crate) fn age_of_call(request: SessionId, call: &Call, now: Time) -> EffectiveAge {
    effective_age(&Turn { since: call.since, tokens: 0, session: request }, Part::WHOLE, now)
}
