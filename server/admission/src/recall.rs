//! Tokens that are asked back: unused ones first, busy ones by age and share,
//! the excess after a cut of the cap. Rules 3 to 7 of `docs/admission.md`.

use alloc::{collections::BinaryHeap, vec::Vec};
use core::time::Duration;

use crate::{
    Recall, SessionId, Time,
    database::Database,
    donors::{Donor, Donors, Shares},
    lease::{Lease, Standing},
};

/// Bounds of the grace of an idle connection (rule 4).
const GRACE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(25));

/// Under unfair admission the grace is void for a waiter older than this.
const UNFAIR_PATIENCE: Duration = Duration::from_millis(100);

/// Busy tokens are looked at this often at most: the look compares everybody
/// with everybody's share, and nodes report the ages of their waiters much more
/// often.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A session that waits for tokens it will not get without a recall.
#[derive(Clone, Copy, Debug)]
struct Receiver {
    session: SessionId,
    /// Tokens it needs beyond those promised.
    missing: u32,
    age: Duration,
    /// It has no token, none is granted, none is promised.
    destitute: bool,
}

impl Database {
    /// Asks for tokens on behalf of those that free capacity did not serve.
    pub(crate) fn recall(&mut self, now: Time) {
        if self.needy.is_empty() && self.calls.waiting.is_empty() {
            return;
        }
        // No recall while capacity is free (rule 3), also while it cannot be
        // granted for want of certainty, unless it is kept for a call that
        // needs more of it.
        let room = self.cap.saturating_sub(self.totals.held.try_into().unwrap_or(u32::MAX));
        if room > 0 && !self.calls.waiting.values().any(|call| call.tokens > room) {
            return;
        }
        if let Some(next) = self.looked_at.map(|at| at + LOOK_AGAIN)
            && self.spare.is_empty()
            && now < next
        {
            self.wake(next);
            return;
        }
        let receivers = self.receivers(now, room);
        let missing = receivers.iter().map(|receiver| receiver.missing).fold(0, u32::saturating_add);
        let coming: u32 =
            self.leases.values().filter(|lease| lease.recall == Recall::Idle).map(Lease::giving).sum();
        let missing = missing.saturating_sub(coming);
        if missing == 0 {
            return;
        }
        let oldest = receivers.first().map_or(Duration::ZERO, |receiver| receiver.age);
        let missing = self.recall_idle(missing, oldest, now);
        if let (Some(quantum), true) = (self.quantum(), missing > 0) {
            self.looked_at = Some(now);
            self.recall_busy(&receivers, missing, quantum, now);
            self.wake(now + (quantum / 4).max(LOOK_AGAIN));
        }
    }

    /// Who waits, the oldest first.
    fn receivers(&self, now: Time, room: u32) -> Vec<Receiver> {
        let leases = self.needy.iter().filter_map(|session| {
            let lease = self.leases.get(session)?;
            let promised = self.moves.promised(*session);
            Some(Receiver {
                session: *session,
                missing: lease.need().saturating_sub(promised),
                age: lease.age(now),
                destitute: lease.held() + promised == 0,
            })
        });
        let calls = self.calls.waiting.iter().map(|(request, call)| {
            let promised = self.moves.promised(*request);
            Receiver {
                session: *request,
                missing: call.tokens.saturating_sub(room).saturating_sub(promised),
                age: now.since(call.since),
                destitute: promised == 0,
            }
        });
        let mut receivers: Vec<Receiver> = leases.chain(calls).collect();
        receivers.sort_by_key(|receiver| (core::cmp::Reverse(receiver.age), receiver.session));
        receivers
    }

    /// Asks for unused tokens, first where most are unused. Returns how many
    /// are still missing.
    fn recall_idle(&mut self, missing: u32, oldest: Duration, now: Time) -> u32 {
        let grace_void = oldest > self.quantum().unwrap_or(UNFAIR_PATIENCE);
        let mut donors: BinaryHeap<(u32, SessionId)> = BinaryHeap::new();
        let mut ripe_at: Option<Time> = None;
        for session in &self.spare {
            let Some(lease) = self.leases.get(session) else { continue };
            let ripe = lease.idle_rose + lease.demand.mean_connect.clamp(GRACE.0, GRACE.1);
            if grace_void || now >= ripe {
                donors.push((lease.spare(), *session));
            } else {
                ripe_at = Some(ripe_at.map_or(ripe, |earlier| earlier.min(ripe)));
            }
        }
        let mut missing = missing;
        while let (Some((spare, session)), true) = (donors.pop(), missing > 0) {
            let asked = spare.min(missing);
            missing -= asked;
            self.change(session, |lease| lease.lower(lease.tokens.saturating_sub(asked), Recall::Idle));
        }
        if let (Some(at), true) = (ripe_at, missing > 0) {
            self.wake(at);
        }
        missing
    }

    /// Asks for busy tokens: by the share gate, for those left far behind, and
    /// for those that have none.
    fn recall_busy(&mut self, receivers: &[Receiver], missing: u32, quantum: Duration, now: Time) {
        let shares = Shares::of(self);
        let mut donors = Donors::of(self, &shares, now);
        let mut missing = missing;
        for receiver in receivers {
            let mut wanted = receiver.missing.min(missing);
            let mut destitute = receiver.destitute;
            while wanted > 0 {
                if !self.budget_left() {
                    return;
                }
                let Some(donor) = self.donor(receiver, destitute, quantum, &shares, &donors) else { break };
                self.change(donor, |lease| {
                    lease.lower(lease.tokens.min(lease.demand.holding).saturating_sub(1), Recall::NextReturn);
                });
                self.moves.add(donor, receiver.session, now);
                donors = Donors::of(self, &shares, now);
                destitute = false;
                wanted -= 1;
                missing -= 1;
            }
        }
    }

    /// The session whose busy token moves to the receiver, if one may be asked:
    /// by its share, because the receiver is left far behind, or because it
    /// has nothing.
    fn donor(
        &self,
        receiver: &Receiver,
        destitute: bool,
        quantum: Duration,
        shares: &Shares,
        donors: &Donors,
    ) -> Option<SessionId> {
        let promised = self.moves.promised(receiver.session);
        let below_share = self
            .leases
            .get(&receiver.session)
            .is_some_and(|lease| shares.half_below(lease, lease.held() + promised));
        let lags = |donor: &Donor, by: Duration| receiver.age.saturating_sub(donor.age) > by;
        let by_share = donors.above_share.other_than(receiver.session);
        let by_escape = donors.any.other_than(receiver.session);
        let by_poverty = donors.with_two.other_than(receiver.session);
        by_share
            .filter(|donor| below_share && lags(donor, quantum))
            .or_else(|| by_escape.filter(|donor| promised == 0 && lags(donor, quantum * 2)))
            .or_else(|| by_poverty.filter(|_| destitute))
            .map(|donor| donor.session)
    }

    /// Whether one more token may be in motion (rule 7): recalled, granted on
    /// the wire, or connecting.
    fn budget_left(&self) -> bool {
        let budget = u64::from(self.cap.div_ceil(16).max(1));
        self.moves.len() as u64 + self.totals.in_flight < budget
    }

    /// After a cut of the cap: recalls the excess, busy or not, from those that
    /// have most.
    pub(crate) fn shed(&mut self) {
        let cap = u64::from(self.cap);
        if self.totals.target <= cap || self.unsettled || !self.watch.may_grant() {
            return;
        }
        let attached = |lease: &Lease| matches!(lease.standing, Standing::Attached(_));
        let mut poorest: Vec<(u32, SessionId)> = self
            .leases
            .iter()
            .filter(|(_, lease)| attached(lease) && lease.counts().target > 0)
            .map(|(session, lease)| (lease.counts().target, *session))
            .collect();
        poorest.sort_unstable();
        // What others hold cannot be recalled; these share what it leaves, the
        // poorest first, so that nobody has less than an even part but by want.
        let recallable: u64 = poorest.iter().map(|(target, _)| u64::from(*target)).sum();
        let mut left = cap.saturating_sub(self.totals.target - recallable);
        let mut sharing = poorest.len() as u64;
        for (target, session) in poorest {
            let part = u64::from(target).min(left / sharing) as u32;
            left -= u64::from(part);
            sharing -= 1;
            if part < target {
                self.change(session, |lease| lease.lower(part, Recall::NextReturn));
            }
        }
    }

    /// Recalls everything; connections in use run out.
    pub(crate) fn drain(&mut self) {
        let sessions: Vec<SessionId> = self
            .leases
            .iter()
            .filter(|(_, lease)| matches!(lease.standing, Standing::Attached(_)) && lease.tokens > 0)
            .map(|(session, _)| *session)
            .collect();
        for session in sessions {
            self.change(session, |lease| lease.lower(0, Recall::NextReturn));
        }
    }
}
