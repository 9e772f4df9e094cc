//! What is heard of a lease: claims, reports, silence, observations. Rules 8 to 10
//! and 16 of `docs/protocol.md`. Knows nothing of what is to be said.

use core::mem::replace;

use super::{LONGEST_HOLD, Lease, OBSERVATIONS, Standing};
use crate::{Demand, LossPolicy, Queueing, Recall, StreamId, Time};

impl Lease {
    /// A stream claims the lease: the claim raises what is counted and lowers
    /// nothing (rule 10). Returns the sequence of the Welcome.
    pub(crate) fn attach(
        &mut self,
        stream: StreamId,
        claim: Demand,
        on_loss: LossPolicy,
        queueing: Queueing,
        now: Time,
    ) -> u64 {
        self.floor = self.held().max(claim.holding);
        self.sent.clear();
        self.before = None;
        self.sequence += 1;
        self.welcome = Some(self.sequence);
        // What an older Welcome told and nobody acknowledged is void.
        self.on_loss_next = match on_loss {
            LossPolicy::Keep => {
                self.on_loss = LossPolicy::Keep;
                None
            }
            LossPolicy::Fence => Some(on_loss),
        };
        self.standing = Standing::Attached(stream);
        self.tokens = claim.holding;
        self.recall = Recall::None;
        self.told = (self.tokens, self.recall);
        // The Welcome tells the quantum, and nobody that a queue is full.
        (self.queueing, self.told_queueing) = (queueing, Queueing { full: None, ..queueing });
        (self.refused, self.left_unused) = (0, false);
        self.accept(claim, now);
        self.sequence
    }

    /// The stream is gone; everything stays counted.
    pub(crate) fn detach(&mut self) {
        self.standing = Standing::Unattached;
        self.oldest_since = None;
        self.demand.waiting = 0;
    }

    /// The session expired.
    pub(crate) fn quarantine(&mut self, now: Time) {
        self.detach();
        self.standing = Standing::Quarantined { since: now, observations: OBSERVATIONS };
    }

    /// Whether an observation of the database says something of it.
    pub(crate) fn is_unobserved(&self) -> bool {
        match self.standing {
            Standing::Quarantined { observations, .. } => observations > 0,
            Standing::Unary { observed, .. } => !observed,
            Standing::Attached(_) | Standing::Unattached => false,
        }
    }

    /// Counts an observation that was sent at `sent` and is now judged. True
    /// when it ends the quarantine.
    pub(crate) fn judged(&mut self, sent: Time) -> bool {
        match &mut self.standing {
            Standing::Quarantined { since, observations } if sent > *since => {
                *observations = observations.saturating_sub(1);
                *observations == 0
            }
            Standing::Unary { granted, observed } if sent > *granted => {
                *observed = true;
                false
            }
            Standing::Attached(_)
            | Standing::Unattached
            | Standing::Quarantined { .. }
            | Standing::Unary { .. } => false,
        }
    }

    /// The database restarted: the sockets of the last report are dead.
    pub(crate) fn sockets_died(&mut self) {
        self.sockets_dead = true;
    }

    /// Whether something is held against its last report: that it is from before
    /// the database restarted, or that what it shows as unused is not to be had.
    pub(crate) fn is_doubted(&self) -> bool {
        self.sockets_dead || self.refused > 0
    }

    /// The node says that its last report is still true.
    pub(crate) fn stands_by_its_report(&mut self) {
        self.sockets_dead = false;
        self.refused = 0;
    }

    /// Takes a report. Returns what it reports beyond everything that was ever
    /// counted; zero from a node that keeps the rules.
    pub(crate) fn report(&mut self, demand: Demand, now: Time) -> u32 {
        let excess = demand.holding.saturating_sub(self.held());
        let acknowledged = demand.acknowledged.min(self.sequence);
        while self.sent.front().is_some_and(|sent| sent.sequence <= acknowledged) {
            self.sent.pop_front();
        }
        if self.welcome.is_some_and(|welcome| welcome <= acknowledged) {
            self.welcome = None;
            self.floor = 0;
            self.on_loss = self.on_loss_next.take().unwrap_or(self.on_loss);
        }
        self.accept(demand, now);
        if acknowledged == self.sequence && self.told == (self.tokens, self.recall) {
            self.agree();
        }
        excess
    }

    /// The node has applied everything that was sent: what it did not take is
    /// a gift (rule 8), what an idle recall did not get is taken back (rule 9).
    fn agree(&mut self) {
        let holding = self.demand.holding;
        // What is closing was given up already, and only has not ended yet.
        let given_up = holding.saturating_sub(self.demand.closing) <= self.tokens;
        if holding > self.tokens && (given_up || self.recall == Recall::NextReturn) {
            return;
        }
        if self.recall == Recall::Idle {
            self.judge_answer(holding > self.tokens);
        }
        self.tokens = holding;
        self.recall = Recall::None;
        self.told = (self.tokens, self.recall);
    }

    /// An idle recall was answered, with tokens kept or not. Whoever follows it
    /// leaves nothing unused: what is unused in the answer has come back between
    /// the two, and can be asked for. Twice in a row it is rather that the node
    /// does not follow.
    fn judge_answer(&mut self, kept: bool) {
        let unused = self.demand.idle + self.demand.unopened();
        let again = replace(&mut self.left_unused, kept && unused > 0);
        self.refused = if again && kept { unused } else { 0 };
    }

    fn accept(&mut self, demand: Demand, now: Time) {
        let unused = demand.idle + demand.unopened();
        if unused > self.demand.idle + self.demand.unopened() {
            self.idle_rose = now;
        }
        self.refused = self.refused.min(unused);
        self.oldest_since = (demand.waiting > 0).then(|| now.back(demand.oldest_wait));
        self.sockets_dead = false;
        if !demand.mean_hold.is_zero() {
            self.hold = demand.mean_hold.min(LONGEST_HOLD);
        }
        self.demand = demand;
    }
}
