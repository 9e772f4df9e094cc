//! Tokens between workloads: which of them comes first, and whose busy tokens
//! move to another one, at once and whatever the quantum. Rules 9 and 10 of
//! `docs/admission.md`.

use alloc::vec::Vec;
use core::{
    cmp::{Ordering, Reverse},
    time::Duration,
};

use crate::{
    Time,
    database::Database,
    reason::Rule,
    recall::{NextMove, UNFAIR_PATIENCE},
    targets::{Claim, TOKEN, targets},
    workload::{Workload, WorkloadId},
};

/// How much a workload lacks. The greatest comes first: those under their floor,
/// then those that have the smallest part of what they are to have, one token more
/// counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precedence {
    under_floor: bool,
    /// At least 1, so that even nothing of nothing can be compared.
    has: u64,
    target: u64,
}

impl Precedence {
    pub(crate) fn of(workload: &Workload) -> Precedence {
        Precedence {
            under_floor: workload.is_under_floor(),
            has: workload.settled() + 1,
            target: workload.target,
        }
    }
}

impl Ord for Precedence {
    fn cmp(&self, other: &Precedence) -> Ordering {
        let product = |has: u64, target: u64| u128::from(has) * u128::from(target);
        let lack = product(other.has, self.target).cmp(&product(self.has, other.target));
        self.under_floor.cmp(&other.under_floor).then(lack)
    }
}

impl PartialOrd for Precedence {
    fn partial_cmp(&self, other: &Precedence) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Precedence {
    fn eq(&self, other: &Precedence) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Precedence {}

impl Database {
    /// Finds out again what each workload uses, and what it is to have.
    pub(crate) fn aim(&mut self, now: Time) {
        for index in 0..self.workloads.len() {
            self.workloads[index].orders.idle.ripen(now);
            if let Some(at) = self.workloads[index].look_at_use(now) {
                self.wake(at);
            }
        }
        if self.workloads.len() == 1 {
            return;
        }
        let tokens = u64::from(self.cap).saturating_sub(self.totals.quarantined);
        let claims = self.workloads.iter().map(Workload::claim);
        // Most reports change nothing of this.
        if self.aimed_for.0 == tokens && claims.clone().eq(self.aimed_for.1.iter().copied()) {
            return;
        }
        let claims: Vec<Claim> = claims.collect();
        for (workload, target) in self.workloads.iter_mut().zip(targets(&claims, tokens)) {
            workload.target = target;
        }
        self.aimed_for = (tokens, claims);
    }

    /// The busy token that moves next from one workload to another.
    pub(crate) fn next_move_between(&self, now: Time) -> Option<NextMove> {
        let receivers = self.workloads.iter().filter_map(|workload| {
            let receives = self.may_receive_from_others(workload, now);
            Some((workload, Database::first_receiver(workload).filter(|_| receives)?))
        });
        let (poorest, receiver) = receivers.max_by_key(|(workload, _)| Precedence::of(workload))?;
        let rule = if poorest.is_under_target() { Rule::Target } else { Rule::Starving };
        let donors = self.workloads.iter().filter_map(|workload| {
            let gives = may_give_to_others(workload, rule);
            Some((workload, workload.orders.donors.first(|_| true).filter(|_| gives)?))
        });
        let (_, donor) = donors.min_by_key(|(workload, _)| Precedence::of(workload))?;
        Some(NextMove { receiver, donor, rule, workload: poorest.id })
    }

    /// Whether tokens of others may move to a workload: it misses some, it could
    /// use them at once, and is under its target or has nothing at all.
    pub(crate) fn may_receive_from_others(&self, workload: &Workload, now: Time) -> bool {
        let promised = workload.totals.promised + workload.calls.promised();
        let could_use = self.may_connect() && workload.may_grow() && workload.below_limit() > promised;
        let poor = workload.is_under_target() || self.is_starving(workload, now);
        workload.missing > 0 && could_use && poor
    }

    /// A workload without a token, granted or promised, whose part is less than
    /// one token does not wait for ever.
    fn is_starving(&self, workload: &Workload, now: Time) -> bool {
        self.starves_at(workload).is_some_and(|at| now >= at)
    }

    /// When a workload is starving, if nothing happens before.
    pub(crate) fn starves_at(&self, workload: &Workload) -> Option<Time> {
        let patience = self.patience() * 2;
        let (oldest, _) = workload.orders.receivers.first(|_| true)?;
        (workload.settled() == 0 && workload.target > 0).then(|| oldest + patience)
    }

    /// How long anybody waits before more is done than usual.
    pub(crate) fn patience(&self) -> Duration {
        self.quantum().unwrap_or(UNFAIR_PATIENCE)
    }
}

/// Whether tokens of a workload may move to others.
pub(crate) fn may_give_to_others(workload: &Workload, rule: Rule) -> bool {
    match rule {
        Rule::Starving => workload.settled() * TOKEN > workload.target,
        Rule::Target => workload.is_over_target(),
        Rule::Share | Rule::Balance | Rule::Escape | Rule::Rescue | Rule::Poverty => false,
    }
}

/// The workloads that miss something, those that lack most first.
pub(crate) fn those_in_want(workloads: &[Workload]) -> Vec<WorkloadId> {
    let in_want = workloads.iter().filter(|workload| workload.missing > 0);
    let mut order: Vec<(Reverse<Precedence>, WorkloadId)> =
        in_want.map(|workload| (Reverse(Precedence::of(workload)), workload.id)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, id)| id).collect()
}

/// The floors in force: none is above its limit, and while the cap is less than all
/// of them, all are less alike. Returns what was set, and what is in force.
pub(crate) fn fit_floors(workloads: &mut [Workload], cap: u32) -> (u64, u64) {
    let set: u64 = workloads.iter().map(|workload| u64::from(workload.settings.floor)).sum();
    let within: u64 =
        workloads.iter().map(|workload| u64::from(workload.settings.floor_within_limit())).sum();
    for workload in &mut *workloads {
        let floor = u64::from(workload.settings.floor_within_limit());
        let fitting = if within > u64::from(cap) { floor * u64::from(cap) / within } else { floor };
        workload.floor = fitting as u32;
    }
    (set, workloads.iter().map(|workload| u64::from(workload.floor)).sum())
}
