//! Tokens that are taken back whether or not somebody waits for them: the excess
//! after a cut of the cap or of a limit, and everything in a drain.

use alloc::vec::Vec;

use crate::{
    Recall, SessionId,
    database::Database,
    lease::{Lease, Standing},
    targets::{Claim, TOKEN, targets},
    workload::{Workload, WorkloadId},
};

impl Database {
    /// After a cut: recalls the excess, busy or not, from the workloads that are
    /// to have less than they have, and there from those that have most.
    pub(crate) fn shed(&mut self) {
        let limited =
            self.workloads.iter().any(|workload| is_above_limit(workload) && has_recallable(workload));
        let cut = self.totals.target > u64::from(self.cap) && self.totals.recallable > 0;
        if !(limited || cut) || self.unsettled || !self.watch.may_grant() {
            return;
        }
        for (workload, part) in self.parts() {
            self.shed_to(workload, part);
        }
    }

    /// What each workload keeps: within its limit, and together within the cap.
    fn parts(&self) -> Vec<(WorkloadId, u64)> {
        let claims: Vec<Claim> = self.workloads.iter().map(claim_of_what_it_has).collect();
        let cap = u64::from(self.cap);
        let targets = targets(&claims, cap);
        let mut parts: Vec<u64> = targets.iter().map(|target| target / TOKEN).collect();
        // Of a token that is divided, all goes to one.
        let mut left = cap.saturating_sub(parts.iter().sum());
        for (part, claim) in parts.iter_mut().zip(&claims) {
            if left > 0 && *part < u64::from(claim.most) {
                *part += 1;
                left -= 1;
            }
        }
        self.workloads.iter().map(|workload| workload.id).zip(parts).collect()
    }

    /// Brings a workload down to so many tokens. Its nodes share what others of it
    /// leave that cannot be recalled, the poorest first, so that nobody has less
    /// than an even part but by want.
    fn shed_to(&mut self, workload: WorkloadId, tokens: u64) {
        let totals = &self.workloads[workload.index()].totals;
        if totals.target <= tokens || totals.recallable == 0 {
            return;
        }
        let mut left = tokens.saturating_sub(totals.target - totals.recallable);
        let mut poorest: Vec<(u32, SessionId)> = self
            .recallable()
            .filter(|(_, lease)| lease.workload == workload)
            .map(|(session, lease)| (lease.tokens, session))
            .collect();
        poorest.sort_unstable();
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
        if self.totals.recallable == 0 {
            return;
        }
        let sessions: Vec<SessionId> = self.recallable().map(|(session, _)| session).collect();
        for session in sessions {
            self.change(session, |lease| lease.lower(0, Recall::NextReturn));
        }
    }

    /// Leases that a stream speaks for and that are to hold something.
    fn recallable(&self) -> impl Iterator<Item = (SessionId, &Lease)> {
        let attached = |lease: &Lease| matches!(lease.standing, Standing::Attached(_));
        self.leases
            .iter()
            .filter(move |(_, lease)| attached(lease) && lease.tokens > 0)
            .map(|(session, lease)| (*session, lease))
    }
}

fn is_above_limit(workload: &Workload) -> bool {
    workload.settings.limit.is_some_and(|limit| workload.totals.target > u64::from(limit))
}

fn has_recallable(workload: &Workload) -> bool {
    workload.totals.recallable > 0
}

/// What a workload has and may keep, if there is enough for all. What cannot be
/// recalled it keeps in any case.
fn claim_of_what_it_has(workload: &Workload) -> Claim {
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let has = small(workload.totals.target);
    let fixed = small(workload.totals.target - workload.totals.recallable);
    let most = has.min(workload.settings.limit.unwrap_or(u32::MAX)).max(fixed);
    Claim { weight: workload.settings.weight, least: workload.floor.min(most).max(fixed), most }
}
