//! Shadow mode: everything is granted, whatever the cap, and what would have waited
//! or been refused is counted. Knows nothing of who looks at the counts.

use crate::{
    Time, UnaryReply,
    database::Database,
    explain::Asking,
    lease::Lease,
    reason::Reason,
    targets::TOKEN,
    workload::{Workload, WorkloadId},
};

/// What would have happened in a workload, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shadow {
    /// Tokens granted that would have been waited for.
    pub(crate) queued: u64,
    /// Calls let through that would have been refused.
    pub(crate) refused: u64,
}

/// What would have happened to one session, since it attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shadowed {
    /// Tokens granted that it would have waited for.
    pub(crate) tokens: u64,
    /// What for, the last time.
    pub(crate) reason: Reason,
    /// When that was.
    pub(crate) at: Time,
}

impl Database {
    /// Grants what the rules admit, and then all the rest. Nothing is asked back.
    pub(crate) fn grant_in_shadow(&mut self, now: Time) {
        for workload in &mut self.workloads {
            (workload.missing, workload.kept_for) = (0, None);
        }
        if self.grants_allowed() {
            self.grant(now);
        }
        for index in 0..self.workloads.len() {
            let workload = self.workloads[index].id;
            let mut would_wait = self.would_wait(&self.workloads[index]);
            self.grant_the_rest(workload, &mut would_wait, now);
            self.serve_the_rest(workload, &mut would_wait, now);
            while let Some(&session) = self.workloads[index].orders.cool.first() {
                self.change(session, |lease| lease.grant_all(lease.warm()));
            }
        }
    }

    fn grant_the_rest(&mut self, workload: WorkloadId, would_wait: &mut u64, now: Time) {
        while let Some((_, session)) = self.workloads[workload.index()].orders.queue.first(now) {
            let Some(lease) = self.leases.get(&session) else { return };
            let need = lease.need();
            let queued = u64::from(need).min(*would_wait);
            let reason = self.reason(session, Asking::Lease(lease), false, now);
            *would_wait -= queued;
            self.workloads[workload.index()].shadow.queued += queued;
            self.change(session, |lease| {
                lease.grant_all(need);
                lease.note_shadow(queued, reason, now);
            });
        }
    }

    fn serve_the_rest(&mut self, workload: WorkloadId, would_wait: &mut u64, now: Time) {
        while let Some((request, call)) = self.workloads[workload.index()].calls.first() {
            let queued = u64::from(call.tokens).min(*would_wait);
            let refused = self.refusal(&self.workloads[workload.index()], call.tokens).is_some();
            let reason = self.reason(request, Asking::Call(call), false, now);
            *would_wait -= queued;
            if !refused {
                self.workloads[workload.index()].shadow.queued += queued;
            }
            self.lease_call(request, workload, now);
            self.change(request, |lease| lease.note_shadow(queued, reason, now));
        }
    }

    /// Tasks that would be waiting now for tokens, were it not for shadow mode: what
    /// the workload has use for beyond what it would have.
    pub(crate) fn would_wait(&self, workload: &Workload) -> u64 {
        let quarantined = workload.totals.quarantined;
        let part = if self.workloads.len() > 1 {
            workload.target / TOKEN
        } else {
            u64::from(self.cap).saturating_sub(quarantined)
        };
        let limit = workload.settings.limit.map_or(u64::MAX, u64::from).saturating_sub(quarantined);
        (workload.totals.using + workload.calls.tokens()).saturating_sub(part.min(limit))
    }

    /// Why a call of so many tokens may not wait.
    pub(crate) fn refusal(&self, workload: &Workload, tokens: u32) -> Option<UnaryReply> {
        let name = || workload.name().clone();
        if tokens > self.cap {
            return Some(UnaryReply::TooMany { cap: self.cap });
        }
        if let Some(limit) = workload.settings.limit.filter(|limit| tokens > *limit) {
            return Some(UnaryReply::AboveLimit { workload: name(), limit });
        }
        let waiting = if self.settings.shadow { self.would_wait(workload) } else { workload.waiting() };
        let max_waiting = workload.settings.max_waiting.filter(|most| waiting >= u64::from(*most))?;
        Some(UnaryReply::TooManyWait { workload: name(), max_waiting })
    }
}

impl Lease {
    fn note_shadow(&mut self, tokens: u64, reason: Reason, at: Time) {
        if tokens > 0 {
            let before = self.shadowed.map_or(0, |shadowed| shadowed.tokens);
            self.shadowed = Some(Shadowed { tokens: before + tokens, reason, at });
        }
    }
}
