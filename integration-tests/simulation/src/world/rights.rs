//! The right of a node to open connections: how far it reaches, when it ends, and
//! what has to come of it then. Rule 14 of `docs/protocol.md`, looked at from
//! outside. Knows nothing of tokens.

use std::time::Duration;

use leasehold_admission::LossPolicy;
use leasehold_client::session::message;

use super::{World, node::local};
use crate::{
    time::Moment,
    violation::{Invariant, broken},
};

/// What the checks know of a process's right.
#[derive(Debug, Default)]
pub(crate) struct Right {
    /// When the server last took something of it.
    pub(crate) heard_at: Moment,
    /// The right has been at an end since then.
    ended_at: Option<Moment>,
    /// The policy of each database, as the server told it.
    told: Vec<Option<LossPolicy>>,
    told_at: Moment,
}

impl World {
    /// How much of its right to open is left to a process, on its own clock.
    pub(crate) fn right_left(&self, number: usize) -> Duration {
        let process = &self.processes[number];
        let now = local(&self.nodes[process.node], self.now);
        process.session.deadline().map_or(Duration::ZERO, |deadline| deadline - now)
    }

    /// **When the server gives a session up, its node's right to open has
    /// ended**, but for what the clocks differ by in a TTL, and for the tenth of a
    /// TTL that a leap of the server's clock may cost.
    pub(crate) fn the_deadline_comes_first(&self, process: usize) {
        let left = self.right_left(process);
        if self.processes[process].is_alive() && left > self.clocks_differ(self.plan.shortest_ttl()) {
            broken(Invariant::DeadlineFirst, format!("process {process} is given up with {left:?} left"));
        }
    }

    pub(crate) fn clocks_differ(&self, ttl: Duration) -> Duration {
        let leapt = self.now < self.server.last_leap + self.plan.longest_ttl() * 2;
        ttl / 40 + if leapt { ttl / 10 } else { Duration::ZERO }
    }

    /// **A right reaches no further than a TTL from when the server last heard the
    /// process**, whatever became of the answer. This is the same promise, before
    /// the server has had to rely on it.
    pub(crate) fn the_right_is_fresh(&self, number: usize) {
        let ttl = self.plan.shortest_ttl();
        let heard_at = self.processes[number].right.heard_at;
        let most = ((heard_at + ttl) - self.now) + ttl / 40;
        let left = self.right_left(number);
        if left > most {
            let details = format!(
                "process {number} has {left:?} left, and was last heard {:?} ago",
                self.now - heard_at
            );
            broken(Invariant::DeadlineFirst, details);
        }
    }

    /// **What was begun under a right that has ended is not used.** A connect that
    /// ends past the deadline is closed again.
    pub(crate) fn used_by_right(&self, number: usize) {
        if self.right_left(number).is_zero() {
            let details = format!("process {number} uses what it opened, and may open nothing");
            broken(Invariant::DeadlineFirst, details);
        }
    }

    /// A Welcome has told a process the policies.
    pub(crate) fn policies_told(&mut self, number: usize, welcome: &message::Welcome) {
        let policy = |terms: &message::DatabaseTerms| {
            terms.terms.map(|terms| match terms.on_loss {
                message::LossPolicy::Keep => LossPolicy::Keep,
                message::LossPolicy::Fence => LossPolicy::Fence,
            })
        };
        let right = &mut self.processes[number].right;
        right.told = welcome.databases.iter().map(policy).collect();
        right.told_at = self.now;
    }

    /// Notes since when each right has been at an end.
    pub(crate) fn rights_end(&mut self) {
        for at in 0..self.ledgers.relevant.len() {
            let number = self.ledgers.relevant[at];
            let over = self.right_left(number).is_zero();
            let right = &mut self.processes[number].right;
            right.ended_at = if over { right.ended_at.or(Some(self.now)) } else { None };
        }
    }

    /// **A fence is kept.** Whoever was told to fence has nothing open any more when
    /// its right has been at an end for the grace, unless it was stopped meanwhile.
    pub(crate) fn the_fence_is_kept(&self, number: usize, database: usize, open: u32) {
        let right = &self.processes[number].right;
        let told = right.told.get(database).copied().flatten();
        let grace = self.plan.databases[database].settings.fence_grace;
        let over = right.ended_at.is_some_and(|ended_at| self.now > ended_at.max(right.told_at) + grace);
        let fenced = self.processes[number].is_alive() && over && told == Some(LossPolicy::Fence);
        if open > 0 && fenced && !self.is_excused(number, database) {
            let details =
                format!("process {number} has {open} connections to database {database} behind its fence");
            broken(Invariant::FenceKept, details);
        }
    }
}
