//! Whose busy token moves, when one must: the shares of the cap that sessions
//! are due, and who is asked first. Rule 5 of fair admission.

use core::{cmp::Reverse, time::Duration};

use crate::{
    SessionId, Time,
    database::Database,
    lease::{Lease, Standing},
};

/// A session that may be asked for a busy token. The least comes first: the one
/// whose oldest task is youngest, then the one that has most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Donor {
    /// Age of its oldest task.
    pub(crate) age: Duration,
    /// Tokens that it keeps beyond what it was asked for.
    left: Reverse<u32>,
    pub(crate) session: SessionId,
}

/// Who is asked first, by why.
#[derive(Debug, Default)]
pub(crate) struct Donors {
    /// Among all that may be asked.
    pub(crate) any: FirstTwo,
    /// Among those above their share.
    pub(crate) above_share: FirstTwo,
    /// Among those that keep a token when they give one.
    pub(crate) with_two: FirstTwo,
}

/// The first two, so that one is left when the receiver is the other.
#[derive(Debug, Default)]
pub(crate) struct FirstTwo([Option<Donor>; 2]);

impl FirstTwo {
    fn offer(&mut self, donor: Donor) {
        let [first, second] = &mut self.0;
        if first.is_none_or(|first| donor < first) {
            (*first, *second) = (Some(donor), *first);
        } else if second.is_none_or(|second| donor < second) {
            *second = Some(donor);
        }
    }

    /// The first that is not `session`.
    pub(crate) fn other_than(&self, session: SessionId) -> Option<&Donor> {
        self.0.iter().flatten().find(|donor| donor.session != session)
    }
}

impl Donors {
    pub(crate) fn of(database: &Database, shares: &Shares, now: Time) -> Donors {
        let mut donors = Donors::default();
        for (session, lease) in &database.leases {
            let pending = lease.giving();
            // A recall that is unanswered for a quantum stops counting, but this
            // donor is then asked for more only out of plenty.
            let stale = pending > database.moves.asked(*session);
            let enough =
                if stale { lease.demand.in_use > 2 * pending } else { lease.demand.in_use > pending };
            if !enough || !matches!(lease.standing, Standing::Attached(_)) {
                continue;
            }
            let left = lease.demand.holding.saturating_sub(pending);
            let donor = Donor { age: lease.age(now), left: Reverse(left), session: *session };
            donors.any.offer(donor);
            if shares.not_half_below(lease, left) {
                donors.above_share.offer(donor);
            }
            if left > 1 {
                donors.with_two.offer(donor);
            }
        }
        donors
    }
}

/// The parts of the cap that sessions are due: by their tasks in work and
/// waiting, times how long they hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    cap: u128,
    total: u128,
    /// Hold of sessions that have not measured theirs, in microseconds.
    usual_hold: u128,
}

impl Shares {
    pub(crate) fn of(database: &Database) -> Shares {
        let holds = || {
            database.leases.values().map(|lease| lease.demand.mean_hold.as_micros()).filter(|hold| *hold > 0)
        };
        let usual_hold = holds().sum::<u128>().checked_div(holds().count() as u128).unwrap_or(1).max(1);
        let mut shares = Shares { cap: u128::from(database.cap), total: 0, usual_hold };
        shares.total = database.leases.values().map(|lease| shares.weight(lease)).sum::<u128>().max(1);
        shares
    }

    fn weight(&self, lease: &Lease) -> u128 {
        let hold = match lease.demand.mean_hold.as_micros() {
            0 => self.usual_hold,
            measured => measured,
        };
        u128::from(lease.demand.in_use + lease.demand.waiting) * hold
    }

    /// Twice the share, times the total weight.
    fn doubled(&self, lease: &Lease) -> u128 {
        2 * self.cap * self.weight(lease)
    }

    /// `tokens < share − 0.5`
    pub(crate) fn half_below(&self, lease: &Lease, tokens: u32) -> bool {
        (2 * u128::from(tokens) + 1) * self.total < self.doubled(lease)
    }

    /// `tokens > share − 0.5`
    fn not_half_below(&self, lease: &Lease, tokens: u32) -> bool {
        (2 * u128::from(tokens) + 1) * self.total > self.doubled(lease)
    }
}
