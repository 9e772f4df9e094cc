//! What keeps somebody from what it needs: the first thing that does, in the order in
//! which admission looks. Decides nothing.

use core::{cmp::Reverse, time::Duration};

use crate::{
    SessionId, Time,
    database::Database,
    explain::Asking,
    grant::{Next, free_for},
    lease::{Lease, Standing},
    orders::Lack,
    reason::{Reason, Rule},
    recall::{may_give, may_receive, needed_lag},
    workload::Workload,
};

impl Database {
    /// What somebody waits for.
    pub(crate) fn reason(
        &self,
        session: SessionId,
        asking: Asking<'_>,
        store_fails: bool,
        now: Time,
    ) -> Reason {
        if let Asking::Lease(lease) = asking
            && lease.need() == 0
        {
            return reason_without_need(lease);
        }
        self.no_grants(store_fails)
            .or_else(|| self.nothing_free(session, asking, now))
            .unwrap_or_else(|| self.no_recall(session, asking, now))
    }

    /// Why nobody is granted anything.
    fn no_grants(&self, store_fails: bool) -> Option<Reason> {
        match () {
            () if self.settings.draining => Some(Reason::Draining),
            () if store_fails => Some(Reason::StoreFails),
            () if !self.watch.may_grant() => Some(Reason::NotObserved),
            () if !self.grants_allowed() => Some(Reason::RecordsLost),
            () => None,
        }
    }

    /// Why it is not granted what is free; none: nothing is.
    fn nothing_free(&self, session: SessionId, asking: Asking<'_>, now: Time) -> Option<Reason> {
        let workload = asking.workload(self);
        if workload.below_limit() < u64::from(asking.least()) {
            return Some(Reason::Limit(workload.settings.limit.unwrap_or(u32::MAX)));
        }
        let (unheld, reserved) = (u64::from(self.unheld()), self.reserved());
        let free = free_for(workload, unheld, reserved);
        match free {
            0 if unheld > 0 => Some(Reason::Floors),
            0 => None,
            _ if free_for(workload, u64::from(self.room()), reserved) == 0 => Some(Reason::Doubt),
            _ if !self.may_connect() => Some(Reason::Pacing),
            // What is free is kept for it, and is not enough.
            _ if free < u64::from(asking.least()) && !self.other_is_next(session, now) => None,
            _ => Some(Reason::Turn),
        }
    }

    fn other_is_next(&self, session: SessionId, now: Time) -> bool {
        self.next(now).is_some_and(|next| {
            let (Next::Lease(next) | Next::Call(next)) = next;
            next != session
        })
    }

    /// Why nothing, or no more, is asked for on its behalf.
    fn no_recall(&self, session: SessionId, asking: Asking<'_>, now: Time) -> Reason {
        let workload = asking.workload(self);
        if self.is_covered(asking) {
            let step = self.moves.iter().find(|step| step.receiver == session);
            return step.map_or(Reason::Turn, |step| Reason::Promised(step.rule));
        }
        let Some(lack) = asking.lack(session) else { return Reason::Turn };
        let coming: u64 = self.workloads.iter().map(|workload| workload.orders.coming).sum();
        match self.quantum() {
            _ if coming > 0 => Reason::Idle,
            _ if self.most_idle_for(workload.id, true).is_some() => Reason::Grace,
            _ if !self.budget_left() => Reason::Budget,
            None => Reason::Unfair,
            Some(quantum) => self.no_busy_recall(workload, asking.since(), &lack, quantum, now),
        }
    }

    /// Whether all that somebody needs is promised to it, beside what is kept for it.
    fn is_covered(&self, asking: Asking<'_>) -> bool {
        let kept = match asking {
            Asking::Lease(_) => 0,
            Asking::Call(_) => free_for(asking.workload(self), u64::from(self.unheld()), self.reserved()),
        };
        u64::from(asking.need()) <= u64::from(asking.promised()) + kept
    }

    fn no_busy_recall(
        &self,
        workload: &Workload,
        since: Option<Time>,
        lack: &Lack,
        quantum: Duration,
        now: Time,
    ) -> Reason {
        let shares = self.shares(workload);
        let age = |since: Time| now.since(since);
        // Whether it lags enough behind whoever would give by a rule, if anybody does.
        let lags = |rule| {
            let donor = workload.orders.donors.first(|plenty| may_give(rule, &shares, plenty));
            let (Reverse(youngest), _, _) = donor?;
            let lag = since.map_or(Duration::ZERO, age).saturating_sub(age(youngest));
            Some(needed_lag(rule, quantum).is_none_or(|needed| lag > needed))
        };
        let by_share = lags(Rule::Share).filter(|_| may_receive(Rule::Share, &shares, lack));
        match (by_share, lags(Rule::Escape), lags(Rule::Rescue)) {
            (_, _, None) => Reason::NoDonor,
            (Some(true), _, _) => Reason::Turn,
            (_, Some(true), _) | (_, _, Some(true)) if lack.promised > 0 => Reason::OneAtATime,
            (_, Some(true), _) | (_, _, Some(true)) => Reason::Turn,
            (Some(false), _, _) => Reason::Lag,
            (None, Some(false), _) => Reason::Share,
            (None, None, Some(false)) => Reason::Level,
        }
    }
}

/// Nothing more is to be had for its tasks: they have enough, or it is on its way,
/// or their own pool may not grow.
fn reason_without_need(lease: &Lease) -> Reason {
    let demand = &lease.demand;
    match lease.standing {
        Standing::Quarantined { .. } => Reason::Expired,
        Standing::Unattached => Reason::NoStream,
        Standing::Attached(_) if !lease.is_welcomed() => Reason::NoStream,
        Standing::Unary { .. } | Standing::Attached(_) if demand.waiting == 0 => Reason::Content,
        Standing::Unary { .. } | Standing::Attached(_)
            if demand.wanted <= lease.tokens && lease.granting() == 0 && demand.idle == 0 =>
        {
            Reason::OwnPool
        }
        Standing::Unary { .. } | Standing::Attached(_) => Reason::Granted,
    }
}
