//! One workload of a database: what its sessions hold together, need, and are to
//! have. Rules 9 and 10 of `docs/admission.md`. Knows nothing of other workloads.

use alloc::sync::Arc;
use core::{mem::replace, time::Duration};

use crate::{
    SessionId, Time, WorkloadSettings, Workloads,
    calls::{Call, Calls},
    database::Totals,
    orders::Orders,
    shadow::Shadow,
    targets::{Claim, TOKEN},
};

/// A floor that was not used for so long is lent.
const IDLENESS: Duration = Duration::from_secs(1);

/// The place of a workload among those of its database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkloadId(u16);

impl WorkloadId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One workload.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) id: WorkloadId,
    pub(crate) settings: WorkloadSettings,
    /// The floor in force: less than was set while it is above the limit, or all
    /// floors are more than the cap.
    pub(crate) floor: u32,
    pub(crate) totals: Totals,
    /// Who of it is next, by every rule.
    pub(crate) orders: Orders,
    pub(crate) calls: Calls,
    /// Its call that something is kept for, as of the last decision.
    pub(crate) kept_for: Option<SessionId>,
    recent: Recent,
    /// Calls that were refused since it has too many waiters.
    pub(crate) refused: u64,
    /// As many wait as may, as its nodes are to know.
    full: bool,
    /// What would have happened without shadow mode.
    pub(crate) shadow: Shadow,
    /// What it is to have, in parts of a token, as of the last look.
    pub(crate) target: u64,
    /// Tokens that it still misses in the decision under way.
    pub(crate) missing: u64,
}

impl Workload {
    pub(crate) fn new(id: WorkloadId, settings: WorkloadSettings) -> Workload {
        Workload {
            id,
            floor: settings.floor_within_limit(),
            settings,
            totals: Totals::default(),
            orders: Orders::default(),
            calls: Calls::default(),
            kept_for: None,
            recent: Recent::default(),
            refused: 0,
            full: false,
            shadow: Shadow::default(),
            target: 0,
            missing: 0,
        }
    }

    /// One for each of the settings. What was learned by those of the same name
    /// before is kept.
    pub(crate) fn all(settings: &Workloads, before: &[Workload]) -> alloc::vec::Vec<Workload> {
        let workload = |(index, settings): (usize, &WorkloadSettings)| {
            let new = Workload::new(WorkloadId(index as u16), settings.clone());
            match before.iter().find(|workload| workload.settings.name == settings.name) {
                Some(known) => {
                    Workload { recent: known.recent, refused: known.refused, shadow: known.shadow, ..new }
                }
                None => new,
            }
        };
        settings.iter().enumerate().map(workload).collect()
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.settings.name
    }

    /// Whether anybody has a need that is not met.
    pub(crate) fn someone_waits(&self) -> bool {
        !self.orders.queue.is_empty() || !self.calls.is_empty()
    }

    /// Waiting tasks in all nodes, and waiting calls.
    pub(crate) fn waiting(&self) -> u64 {
        self.totals.waiting + self.calls.len() as u64
    }

    /// The most that may wait, while as many do.
    pub(crate) fn full(&self) -> Option<u32> {
        self.settings.max_waiting.filter(|_| self.full)
    }

    /// Looks whether as many wait as may. It is full until a quarter fewer wait, so
    /// that nodes are not told of every task. True when it changed.
    pub(crate) fn look_at_queue(&mut self, shadow: bool) -> bool {
        let full = self.settings.max_waiting.is_some_and(|most| {
            let most = most.max(1);
            let enough = if self.full { most - most.div_ceil(4) + 1 } else { most };
            !shadow && self.waiting() >= u64::from(enough)
        });
        replace(&mut self.full, full) != full
    }

    /// Held by live sessions.
    pub(crate) fn held(&self) -> u64 {
        self.totals.held - self.totals.quarantined
    }

    /// What it holds when everything that is asked for, of it and for it, has
    /// moved.
    pub(crate) fn settled(&self) -> u64 {
        let promised = self.totals.promised + self.calls.promised();
        (self.held() + promised).saturating_sub(self.totals.giving)
    }

    /// Tokens that it has use for: in use, connecting, waited for, or idle and
    /// still in their grace.
    pub(crate) fn demand(&self) -> u64 {
        self.totals.using + self.calls.tokens() + self.orders.idle.in_grace()
    }

    /// Tokens that it may hold more than it does; what is in quarantine counts.
    pub(crate) fn below_limit(&self) -> u64 {
        self.settings.limit.map_or(u64::MAX, |limit| u64::from(limit).saturating_sub(self.totals.held))
    }

    /// The call that something is kept for.
    pub(crate) fn kept_call(&self) -> Option<(SessionId, &Call)> {
        let request = self.kept_for?;
        Some((request, self.calls.get(request)?))
    }

    /// Whether tokens of other workloads help it: not if it is at its limit, nor
    /// if it must come down from it for a call.
    pub(crate) fn may_grow(&self) -> bool {
        let needed = self.kept_call().map_or(1, |(_, call)| u64::from(call.tokens));
        needed <= self.below_limit()
    }

    /// The part of its floor that is not lent: all of it if it is kept, or what
    /// was used within the last second.
    pub(crate) fn protected(&self) -> u64 {
        let floor = u64::from(self.floor);
        if self.settings.keep { floor } else { floor.min(self.recent.level) }
    }

    /// The part of its floor that is held free for it.
    pub(crate) fn reserved(&self) -> u64 {
        self.protected().saturating_sub(self.held()).min(self.below_limit())
    }

    /// Tokens beyond the part of its floor that is not lent, as far as they are
    /// not asked for already.
    pub(crate) fn lendable(&self) -> u64 {
        self.settled().saturating_sub(self.protected())
    }

    /// What it asks for beside others.
    pub(crate) fn claim(&self) -> Claim {
        let (kept, quarantined) = (self.settings.keep, self.totals.quarantined);
        let use_for = self.demand().max(if kept { u64::from(self.floor) } else { 0 });
        let limit = self.settings.limit.map_or(u64::MAX, u64::from).saturating_sub(quarantined);
        let most = use_for.min(limit).try_into().unwrap_or(u32::MAX);
        Claim { weight: self.settings.weight, least: self.floor.min(most), most }
    }

    /// It has less than its floor, and use for it.
    pub(crate) fn is_under_floor(&self) -> bool {
        self.settled() < u64::from(self.claim().least)
    }

    /// It is a token or more under what it is to have, promises counted.
    pub(crate) fn is_under_target(&self) -> bool {
        (self.settled() + 1) * TOKEN <= self.target
    }

    /// It has more than half a token more than it is to have.
    pub(crate) fn is_over_target(&self) -> bool {
        self.settled() * TOKEN > self.target + TOKEN / 2
    }

    /// Brings up to date what it used within the last second. Returns when that
    /// may be less without anything else happening.
    pub(crate) fn look_at_use(&mut self, now: Time) -> Option<Time> {
        let lent = self.floor > 0 && !self.settings.keep;
        lent.then(|| self.recent.look(self.demand(), now)).flatten()
    }
}

/// The most that was used within the last second or two.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    level: u64,
    /// Since when less is used.
    below_since: Option<Time>,
    /// The most that was used since then.
    since: u64,
}

impl Recent {
    fn look(&mut self, used: u64, now: Time) -> Option<Time> {
        match self.below_since {
            _ if used >= self.level => {
                *self = Recent { level: used, below_since: None, since: 0 };
            }
            None => (self.below_since, self.since) = (Some(now), used),
            Some(since) if now.since(since) >= IDLENESS => {
                let level = self.since.max(used);
                *self = Recent { level, below_since: (used < level).then_some(now), since: used };
            }
            Some(_) => self.since = self.since.max(used),
        }
        self.below_since.map(|since| since + IDLENESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_counts_for_a_second() {
        let mut recent = Recent::default();
        let mut look = |millis, used| {
            recent.look(used, Time::from_start(Duration::from_millis(millis)));
            recent.level
        };
        assert_eq!(look(0, 20), 20);
        assert_eq!(look(5_000, 4), 20, "it was used until now");
        assert_eq!(look(5_600, 9), 20);
        assert_eq!(look(5_999, 4), 20);
        assert_eq!(look(6_000, 4), 9, "the most of the last second");
        assert_eq!(look(7_000, 4), 4);
        assert_eq!(look(7_100, 30), 30);
    }
}
