//! Every order that a decision needs, kept up to date at each change of a lease:
//! who is next for free capacity, who is to receive a token that another one has,
//! who is to give one, who would like to be warm. Decides nothing.

use alloc::collections::BTreeSet;
use core::{cmp::Reverse, time::Duration};

use crate::{
    Recall, SessionId, Time,
    idle::{Idle, Spare, ripe_at},
    lease::{Lease, Standing},
    queue::{Part, Queue, Turn},
    ranked::{Best, Ranked},
    shares::{Stake, Sums, Supply, Weight},
};

/// The orders.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) queue: Queue,
    pub(crate) receivers: Ranked<Oldest, Lack>,
    pub(crate) donors: Ranked<Youngest, Plenty>,
    pub(crate) idle: Idle,
    /// Leases that would like warm connections.
    pub(crate) cool: BTreeSet<SessionId>,
    /// Leases of which the next observation of the database says something.
    pub(crate) unobserved: BTreeSet<SessionId>,
    pub(crate) shares: Sums,
    /// Tokens that leases need beyond those promised to them.
    pub(crate) missing: u64,
    /// Unused tokens that are asked for and not yet given up.
    pub(crate) coming: u64,
    /// Held by whoever no stream speaks for: nothing that could be shared.
    pub(crate) fixed: u64,
}

/// A place among the receivers: the one whose oldest task is oldest comes first.
pub(crate) type Oldest = (Time, SessionId);

/// What a receiver lacks, or the poorest of many in each respect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lack {
    /// Tokens held and promised, beside its share; none for a call.
    pub(crate) supply: Option<Supply>,
    /// The same with one token more.
    pub(crate) supply_after: Option<Supply>,
    /// Tokens promised.
    pub(crate) promised: u32,
    /// Tokens held and promised.
    pub(crate) tokens: u32,
}

impl Best for Lack {
    fn best(self, other: Lack) -> Lack {
        let fewer = |one: Option<Supply>, other: Option<Supply>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let supply = fewer(self.supply, other.supply);
        let supply_after = fewer(self.supply_after, other.supply_after);
        Lack {
            supply,
            supply_after,
            promised: self.promised.min(other.promised),
            tokens: self.tokens.min(other.tokens),
        }
    }
}

/// A place among the donors: the one whose oldest task is youngest comes first,
/// then the one with most tokens.
pub(crate) type Youngest = (Reverse<Time>, Reverse<u32>, SessionId);

/// What a donor keeps beyond what it was asked for, or the richest of many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plenty {
    /// Tokens but one, the one to be given, beside its share.
    pub(crate) supply: Supply,
    /// The same with one token less.
    pub(crate) supply_after: Supply,
    /// Tokens, at least one.
    pub(crate) left: u32,
}

impl Best for Plenty {
    fn best(self, other: Plenty) -> Plenty {
        Plenty {
            supply: self.supply.max(other.supply),
            supply_after: self.supply_after.max(other.supply_after),
            left: self.left.max(other.left),
        }
    }
}

/// Where one lease is in all orders.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Places {
    pub(crate) queue: Option<(Part, Turn)>,
    pub(crate) receiver: Option<(Oldest, Lack)>,
    pub(crate) donor: Option<(Youngest, Plenty)>,
    pub(crate) spare: Option<Spare>,
    pub(crate) cool: bool,
    pub(crate) unobserved: bool,
    pub(crate) stake: Stake,
    /// As the session measured it; zero if it did not.
    pub(crate) hold: Duration,
    pub(crate) missing: u32,
    pub(crate) coming: u32,
    pub(crate) fixed: u32,
}

impl Places {
    pub(crate) fn of(session: SessionId, lease: &Lease) -> Places {
        if !matches!(lease.standing, Standing::Attached(_)) {
            let unobserved = lease.is_unobserved();
            return Places { fixed: lease.held(), unobserved, ..Places::default() };
        }
        let (need, stake) = (lease.need(), lease.stake());
        let since = lease.oldest_since.unwrap_or(NOBODY);
        let missing = need.saturating_sub(lease.promised);
        let turn = Turn { since, tokens: lease.tokens, session };
        let part = Part::of(lease.granting().saturating_add(lease.promised), lease.demand.waiting);
        Places {
            queue: (need > 0).then_some((part, turn)),
            receiver: (missing > 0).then(|| ((since, session), lack(lease, stake.weight))),
            donor: donor_of(session, lease),
            spare: spare_of(lease),
            cool: lease.warm() > 0,
            unobserved: false,
            stake,
            hold: lease.measured_hold(),
            missing,
            coming: if lease.recall == Recall::Idle { lease.giving() } else { 0 },
            fixed: 0,
        }
    }
}

/// Since when nobody waits: those without a waiter are the youngest.
pub(crate) const NOBODY: Time = Time::MAX;

fn lack(lease: &Lease, weight: Weight) -> Lack {
    let tokens = lease.held().saturating_add(lease.promised);
    let supply = Supply::new(tokens, weight);
    Lack { supply: Some(supply), supply_after: Some(supply.with(1)), promised: lease.promised, tokens }
}

/// The unused tokens of a lease, if they may be asked for.
pub(crate) fn spare_of(lease: &Lease) -> Option<Spare> {
    let tokens = lease.spare();
    let ripe_at = ripe_at(lease.idle_rose, lease.demand.mean_connect);
    (tokens > 0).then_some(Spare { tokens, ripe_at })
}

/// What a lease could give, if it may be asked for a busy token. A recall that is
/// unanswered for a quantum stops counting, but its donor is then asked for more
/// only out of plenty (rule 7).
pub(crate) fn donor_of(session: SessionId, lease: &Lease) -> Option<(Youngest, Plenty)> {
    let pending = lease.giving();
    let stale = pending > lease.asked;
    let asked = u64::from(pending) * if stale { 2 } else { 1 };
    let attached = matches!(lease.standing, Standing::Attached(_));
    if !attached || u64::from(lease.demand.in_use) <= asked {
        return None;
    }
    let left = lease.demand.holding.saturating_sub(pending);
    let since = lease.oldest_since.unwrap_or(NOBODY);
    let supply = Supply::new(left, lease.stake().weight);
    let plenty = Plenty { supply: supply.without(1), supply_after: supply.without(2), left };
    Some(((Reverse(since), Reverse(left), session), plenty))
}

impl Orders {
    /// A lease has moved from one place to another.
    pub(crate) fn replace(&mut self, session: SessionId, before: &Places, after: &Places) {
        if before == after {
            return;
        }
        if before.queue != after.queue {
            if let Some((part, turn)) = &before.queue {
                self.queue.remove(*part, turn);
            }
            if let Some((part, turn)) = after.queue {
                self.queue.insert(part, turn);
            }
        }
        if before.receiver != after.receiver {
            if let Some((key, _)) = &before.receiver {
                self.receivers.remove(key);
            }
            if let Some((key, lack)) = after.receiver {
                self.receivers.insert(key, lack);
            }
        }
        if before.donor != after.donor {
            if let Some((key, _)) = &before.donor {
                self.donors.remove(key);
            }
            if let Some((key, plenty)) = after.donor {
                self.donors.insert(key, plenty);
            }
        }
        if before.spare != after.spare {
            if let Some(spare) = before.spare {
                self.idle.remove(session, spare);
            }
            if let Some(spare) = after.spare {
                self.idle.insert(session, spare);
            }
        }
        if before.cool != after.cool {
            mark(&mut self.cool, session, after.cool);
        }
        if before.unobserved != after.unobserved {
            mark(&mut self.unobserved, session, after.unobserved);
        }
        self.add_up(before, after);
    }

    fn add_up(&mut self, before: &Places, after: &Places) {
        if (before.stake, before.hold) != (after.stake, after.hold) {
            self.shares.subtract(before.stake, before.hold);
            self.shares.add(after.stake, after.hold);
        }
        let swap = |sum: &mut u64, before: u32, after: u32| {
            *sum = *sum + u64::from(after) - u64::from(before);
        };
        swap(&mut self.missing, before.missing, after.missing);
        swap(&mut self.coming, before.coming, after.coming);
        swap(&mut self.fixed, before.fixed, after.fixed);
    }
}

fn mark(index: &mut BTreeSet<SessionId>, session: SessionId, member: bool) {
    if member {
        index.insert(session)
    } else {
        index.remove(&session)
    };
}
