//! Tokens that are asked back for those who wait: unused ones first, then busy
//! ones. Rules 3 to 7 of `docs/admission.md`.

use core::{cmp::Reverse, time::Duration};

use crate::{
    Recall, SessionId, Time,
    calls::{Call, as_receiver},
    database::Database,
    lease::Lease,
    moves::Move,
    orders::{Lack, NOBODY, Oldest, Youngest, spare_of},
    shares::Shares,
};

/// Under unfair admission the grace is void for a waiter older than this.
const UNFAIR_PATIENCE: Duration = Duration::from_millis(100);

/// A moment, the shortest there is.
const MOMENT: Duration = Duration::from_nanos(1);

/// Why a busy token moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The receiver is below its share, the donor is not, and the lag is more
    /// than a quantum (rule 5).
    Share,
    /// The lag is more than two quanta (rule 6).
    Escape,
    /// The receiver has nothing (rule 6).
    Poverty,
}

/// A busy token that may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextMove {
    pub(crate) receiver: Oldest,
    pub(crate) donor: Youngest,
    pub(crate) rule: Rule,
}

impl Database {
    /// Asks for tokens on behalf of those that free capacity did not serve.
    pub(crate) fn recall(&mut self, now: Time) {
        let missing = self.missing();
        if missing == 0 {
            return;
        }
        let missing = self.recall_idle(missing, now);
        if let (Some(quantum), true) = (self.quantum(), missing > 0) {
            self.recall_busy(missing, quantum, now);
        }
    }

    /// Tokens that are needed, beyond those that are promised or on their way.
    /// None while capacity is free (rule 3), also while it cannot be granted for
    /// want of certainty or for pacing; unless it is kept for a call that needs
    /// more of it.
    pub(crate) fn missing(&self) -> u64 {
        let room = self.unheld();
        let needed = match self.kept_for() {
            Some((_, call)) => u64::from((call.tokens - room).saturating_sub(call.promised)),
            None if room > 0 => 0,
            None => self.orders.missing + self.calls.missing(),
        };
        needed.saturating_sub(self.orders.coming)
    }

    /// The call that free capacity is kept for, since there is too little of it.
    pub(crate) fn kept_for(&self) -> Option<(SessionId, &Call)> {
        let room = self.unheld();
        self.calls.first().filter(|(_, call)| room > 0 && call.tokens > room)
    }

    /// Asks for unused tokens, first where most are unused, and each after its
    /// grace, which is void when somebody has waited for a quantum (rule 4).
    /// Returns how many are still missing.
    fn recall_idle(&mut self, missing: u64, now: Time) -> u64 {
        let leases = &self.leases;
        self.orders.idle.ripen(now, |session| spare_of(leases.get(&session)?));
        let void = now.since(self.oldest_task().unwrap_or(now)) > self.quantum().unwrap_or(UNFAIR_PATIENCE);
        let mut missing = missing;
        while let Some((spare, session)) = self.orders.idle.most(void).filter(|_| missing > 0) {
            let asked = u64::from(spare).min(missing) as u32;
            missing -= u64::from(asked);
            self.change(session, |lease| lease.lower(lease.tokens.saturating_sub(asked), Recall::Idle));
        }
        if let Some(at) = self.orders.idle.ripens_at().filter(|_| missing > 0) {
            self.wake(at);
        }
        missing
    }

    /// When the oldest task of all began to wait.
    fn oldest_task(&self) -> Option<Time> {
        let call = self.calls.first().map(|(_, call)| call.since);
        self.orders.queue.oldest().into_iter().chain(call).min()
    }

    /// Asks for busy tokens, one for each that is missing, as long as one may
    /// move.
    fn recall_busy(&mut self, missing: u64, quantum: Duration, now: Time) {
        for _ in 0..missing {
            if !self.budget_left() {
                break;
            }
            let Some(next) = self.next_move(quantum, now) else {
                self.wake_for_lag(quantum, now);
                break;
            };
            self.start_move(next, now);
        }
        if let Some(at) = self.moves.lapses_at(quantum) {
            self.wake(at);
        }
    }

    fn start_move(&mut self, next: NextMove, now: Time) {
        let NextMove { receiver: (_, receiver), donor: (_, _, donor), rule: _ } = next;
        self.change(donor, |lease| {
            lease.lower(lease.tokens.min(lease.demand.holding).saturating_sub(1), Recall::NextReturn);
            lease.asked += 1;
        });
        self.promise(receiver, |promised| promised + 1);
        self.moves.add(Move { donor, receiver, since: now });
    }

    /// The busy token that moves next, if one may: that for the oldest of those
    /// it may move to.
    pub(crate) fn next_move(&self, quantum: Duration, now: Time) -> Option<NextMove> {
        let rules = [Rule::Share, Rule::Escape, Rule::Poverty];
        let moves = rules.into_iter().filter_map(|rule| {
            let next = self.pair(rule)?;
            needed_lag(rule, quantum).is_none_or(|needed| lag(&next, now) > needed).then_some(next)
        });
        moves.min_by_key(|next| next.receiver)
    }

    /// The first receiver and the first donor by a rule, however little the one
    /// lags behind the other: no other two lag more.
    fn pair(&self, rule: Rule) -> Option<NextMove> {
        let (receivers, donors) = (&self.orders.receivers, &self.orders.donors);
        let shares = self.shares();
        let receiver = match self.kept_for() {
            Some(call) => as_receiver(call).filter(|(_, lack)| may_receive(rule, &shares, lack))?.0,
            None => receivers.first(|lack| may_receive(rule, &shares, lack))?,
        };
        // It is not the receiver itself: whoever has no more than a half token below
        // its share is no receiver, nobody lags behind itself, and who has nothing
        // has nothing to give.
        let donor = donors.first(|plenty| match rule {
            Rule::Share => shares.not_half_below(&plenty.supply),
            Rule::Escape => true,
            Rule::Poverty => plenty.left > 1,
        })?;
        Some(NextMove { receiver, donor, rule })
    }

    /// Time alone makes a lag grow where the donor has no waiters.
    fn wake_for_lag(&mut self, quantum: Duration, now: Time) {
        for rule in [Rule::Share, Rule::Escape] {
            let Some(NextMove { receiver, donor, .. }) = self.pair(rule) else { continue };
            let due = needed_lag(rule, quantum).map(|lag| receiver.0 + lag + MOMENT);
            if let Some(due) = due.filter(|due| donor.0 == Reverse(NOBODY) && *due > now) {
                self.wake(due);
            }
        }
    }

    /// The shares in everything that a stream speaks for.
    pub(crate) fn shares(&self) -> Shares {
        let shared = u64::from(self.cap).saturating_sub(self.orders.fixed);
        self.orders.shares.shares(shared as u32)
    }

    /// Whether one more token may be in motion (rule 7): recalled, granted on
    /// the wire, or connecting.
    pub(crate) fn budget_left(&self) -> bool {
        let budget = u64::from(self.cap.div_ceil(16).max(1));
        self.moves.len() as u64 + self.totals.in_flight < budget
    }

    /// Ends moves that donors have answered, and those they have not answered
    /// for a quantum (rule 7).
    pub(crate) fn settle_moves(&mut self, now: Time) {
        let quantum = self.quantum().unwrap_or_default();
        while let Some(lapsed) = self.moves.take_lapsed(now, quantum) {
            self.end_move(lapsed);
        }
        while let Some(donor) = self.answered.pop() {
            while self.leases.get(&donor).is_some_and(Lease::has_answered) {
                let Some(answered) = self.moves.take_answered(donor) else { break };
                self.end_move(answered);
            }
        }
    }

    /// A session is gone, and with it what it was asked for or promised.
    pub(crate) fn forget_moves(&mut self, session: SessionId) {
        while let Some(step) = self.moves.take_of(session) {
            self.end_move(step);
        }
    }

    fn end_move(&mut self, step: Move) {
        self.change(step.donor, |lease| lease.asked -= 1);
        self.promise(step.receiver, |promised| promised - 1);
    }

    fn promise(&mut self, receiver: SessionId, change: impl Fn(u32) -> u32) {
        if self.change(receiver, |lease| lease.promised = change(lease.promised)).is_none() {
            self.promise_call(receiver, change);
        }
    }
}

/// Whether a token may move to one who lacks so much, by a rule.
pub(crate) fn may_receive(rule: Rule, shares: &Shares, lack: &Lack) -> bool {
    match rule {
        Rule::Share => lack.supply.is_some_and(|supply| shares.half_below(&supply)),
        Rule::Escape => lack.promised == 0,
        Rule::Poverty => lack.tokens == 0,
    }
}

/// How far the receiver must lag behind the donor; none: it need not at all.
fn needed_lag(rule: Rule, quantum: Duration) -> Option<Duration> {
    match rule {
        Rule::Share => Some(quantum),
        Rule::Escape => Some(quantum * 2),
        Rule::Poverty => None,
    }
}

/// By how much the receiver's oldest task is older than the donor's.
fn lag(next: &NextMove, now: Time) -> Duration {
    let age = |since: Time| now.since(since);
    age(next.receiver.0).saturating_sub(age(next.donor.0.0))
}
