//! Tokens that are taken back whether or not somebody waits for them: the excess
//! after a cut of the cap, and everything in a drain.

use alloc::vec::Vec;

use crate::{
    Recall, SessionId,
    database::Database,
    lease::{Lease, Standing},
};

impl Database {
    /// After a cut of the cap: recalls the excess, busy or not, from those that
    /// have most.
    pub(crate) fn shed(&mut self) {
        let cap = u64::from(self.cap);
        let nothing_to_take = self.totals.target <= cap || self.totals.recallable == 0;
        if nothing_to_take || self.unsettled || !self.watch.may_grant() {
            return;
        }
        let mut poorest: Vec<(u32, SessionId)> =
            self.recallable().map(|(session, lease)| (lease.counts().target, session)).collect();
        poorest.sort_unstable();
        // What others hold cannot be recalled; these share what it leaves, the
        // poorest first, so that nobody has less than an even part but by want.
        let mut left = cap.saturating_sub(self.totals.target - self.totals.recallable);
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
            .filter(move |(_, lease)| attached(lease) && lease.counts().target > 0)
            .map(|(session, lease)| (*session, lease))
    }
}
