//! Tokens that are asked back for those who wait: unused ones first, then busy
//! ones. Rules 3 to 7 of `docs/admission.md`; between workloads, `between.rs`.

use core::{cell::LazyCell, cmp::Reverse, time::Duration};

use crate::{
    Recall, SessionId, Time,
    between::those_in_want,
    calls::as_receiver,
    database::Database,
    grant::{Next, free_for},
    lease::Lease,
    moves::Move,
    orders::{Lack, NOBODY, Oldest, Plenty, Youngest},
    reason::Rule,
    shares::Shares,
    targets::TOKEN,
    workload::{Workload, WorkloadId},
};

/// What a quantum is elsewhere, where admission is unfair.
pub(crate) const UNFAIR_PATIENCE: Duration = Duration::from_millis(100);

/// The rules by which busy tokens move within a workload.
pub(crate) const WITHIN: [Rule; 5] = [Rule::Share, Rule::Balance, Rule::Escape, Rule::Rescue, Rule::Poverty];

/// A moment, the shortest there is.
const MOMENT: Duration = Duration::from_nanos(1);

/// A busy token that may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextMove {
    pub(crate) receiver: Oldest,
    pub(crate) donor: Youngest,
    pub(crate) rule: Rule,
    /// The receiver's.
    pub(crate) workload: WorkloadId,
}

impl Database {
    /// Asks for tokens on behalf of those that free capacity did not serve.
    pub(crate) fn recall(&mut self, now: Time) {
        for index in 0..self.workloads.len() {
            self.workloads[index].kept_for = self.call_that_is_kept_for(&self.workloads[index], now);
        }
        self.find_missing();
        let mut coming: u64 = self.workloads.iter().map(|workload| workload.orders.coming).sum();
        let mut missing = 0;
        for id in those_in_want(&self.workloads) {
            let needed = self.workloads[id.index()].missing;
            let covered = needed.min(coming);
            coming -= covered;
            let left = self.recall_idle(id, needed - covered, now);
            self.workloads[id.index()].missing = left;
            missing += left;
        }
        if missing > 0 {
            self.recall_busy(now);
        }
    }

    /// Finds what each workload needs, beyond what is promised or on its way. Nothing
    /// while something is free for it (rule 3), also while that cannot be granted for
    /// want of certainty or for pacing; unless it is kept for a call that needs more
    /// of it.
    fn find_missing(&mut self) {
        let (unheld, reserved) = (u64::from(self.unheld()), self.reserved());
        for workload in &mut self.workloads {
            workload.missing = missing(workload, free_for(workload, unheld, reserved));
        }
    }

    /// The call of a workload that something is kept for, since too little is free
    /// for it: of all that is free, or, when its workload must come down from its
    /// limit first, of that workload alone.
    fn call_that_is_kept_for(&self, workload: &Workload, now: Time) -> Option<SessionId> {
        if workload.calls.is_empty() {
            return None;
        }
        let free = free_for(workload, u64::from(self.unheld()), self.reserved());
        let (request, call) = match self.quantum() {
            None => workload.calls.first()?,
            Some(_) => match self.head(workload, free, now)?.1 {
                Next::Call(request) => (request, workload.calls.get(request)?),
                Next::Lease(_) => return None,
            },
        };
        let beyond_limit = u64::from(call.tokens) > workload.below_limit();
        let is_next = || self.next(now) == Some(Next::Call(request)) || self.quantum().is_none();
        (free > 0 && (beyond_limit || is_next())).then_some(request)
    }

    /// Asks for unused tokens, first where most are unused, and each after its
    /// grace, which is void when somebody has waited for a quantum (rule 4).
    /// Returns how many are still missing.
    fn recall_idle(&mut self, receiver: WorkloadId, missing: u64, now: Time) -> u64 {
        let mut missing = missing;
        let nobody_has = || self.workloads.iter().all(|workload| workload.orders.idle.is_empty());
        if missing == 0 || nobody_has() {
            return missing;
        }
        let oldest = oldest_task(&self.workloads[receiver.index()]).unwrap_or(now);
        let void = now.since(oldest) > self.patience();
        while let Some((spare, session)) = self.most_idle_for(receiver, void).filter(|_| missing > 0) {
            let asked = u64::from(spare).min(missing) as u32;
            missing -= u64::from(asked);
            self.change(session, |lease| lease.lower(lease.tokens.saturating_sub(asked), Recall::Idle));
        }
        let ripens = self.workloads.iter().filter_map(|workload| workload.orders.idle.ripens_at()).min();
        if let Some(at) = ripens.filter(|_| missing > 0) {
            self.wake(at);
        }
        missing
    }

    /// Whoever has most unused tokens that one workload may have: those of its own,
    /// and, unless it has come to its limit, those of others that are not
    /// protected by their floor.
    pub(crate) fn most_idle_for(&self, receiver: WorkloadId, void: bool) -> Option<(u32, SessionId)> {
        let may_grow = self.workloads[receiver.index()].may_grow();
        let of = |workload: &Workload| {
            let (spare, session) = workload.orders.idle.most(void)?;
            let own = workload.id == receiver;
            let lendable = u32::try_from(workload.lendable()).unwrap_or(u32::MAX);
            let spare = if own { spare } else { spare.min(lendable) };
            (own || (may_grow && spare > 0)).then_some((spare, session))
        };
        self.workloads.iter().filter_map(of).max_by_key(|(spare, session)| (*spare, Reverse(*session)))
    }

    /// Asks for busy tokens, one for each that is missing, as long as one may
    /// move.
    fn recall_busy(&mut self, now: Time) {
        loop {
            if !self.budget_left() {
                break;
            }
            let Some(next) = self.next_move(now) else {
                self.wake_for_lag(now);
                break;
            };
            self.start_move(next, now);
        }
        if let Some(at) = self.moves.lapses_at(self.quantum().unwrap_or_default()) {
            self.wake(at);
        }
    }

    fn start_move(&mut self, next: NextMove, now: Time) {
        let NextMove { receiver: (_, receiver), donor: (_, _, donor), rule, workload } = next;
        self.change(donor, |lease| {
            lease.lower(lease.tokens.min(lease.demand.holding).saturating_sub(1), Recall::NextReturn);
            lease.asked += 1;
        });
        self.promise(receiver, |promised| promised + 1);
        self.moves.add(Move { donor, receiver, rule, since: now });
        self.workloads[workload.index()].missing -= 1;
    }

    /// The busy token that moves next, if one may: one between workloads, or else
    /// that for the oldest of those it may move to.
    pub(crate) fn next_move(&self, now: Time) -> Option<NextMove> {
        let between = if self.workloads.len() > 1 { self.next_move_between(now) } else { None };
        between.or_else(|| self.next_move_within(now))
    }

    /// The busy token that moves next within a workload.
    pub(crate) fn next_move_within(&self, now: Time) -> Option<NextMove> {
        let quantum = self.quantum()?;
        let missing = self.workloads.iter().filter(|workload| workload.missing > 0);
        let moves = missing.filter_map(|workload| self.next_move_of(workload, quantum, now));
        moves.min_by_key(|next| next.receiver)
    }

    /// Shares are balanced one token at a time: nobody is in need of that.
    pub(crate) fn is_open(&self, rule: Rule) -> bool {
        rule != Rule::Balance || !self.moves.balances()
    }

    fn next_move_of(&self, workload: &Workload, quantum: Duration, now: Time) -> Option<NextMove> {
        let enough = |rule, lag: Duration| needed_lag(rule, quantum).is_none_or(|needed| lag > needed);
        // Nobody lags more than these two, which are soon found: most rules need no search.
        let longest = lag(Self::first_receiver(workload)?, workload.orders.donors.first(|_| true)?, now);
        let shares = LazyCell::new(|| self.shares(workload));
        let rules = WITHIN.into_iter().filter(|rule| self.is_open(*rule) && enough(*rule, longest));
        let moves = rules.filter_map(|rule| {
            let next = pair(workload, &shares, rule)?;
            enough(rule, lag(next.receiver, next.donor, now)).then_some(next)
        });
        moves.min_by_key(|next| next.receiver)
    }

    /// Whoever of a workload waits longest and lacks something.
    pub(crate) fn first_receiver(workload: &Workload) -> Option<Oldest> {
        match workload.kept_call() {
            Some(call) => as_receiver(call).map(|(key, _)| key),
            None => workload.orders.receivers.first(|_| true),
        }
    }

    /// Time alone makes a lag grow where the donor has no waiters, and a workload
    /// starve.
    fn wake_for_lag(&mut self, now: Time) {
        let quantum = self.quantum();
        let mut due = None;
        for workload in self.workloads.iter().filter(|workload| workload.missing > 0) {
            let starves = self.starves_at(workload).filter(|_| self.workloads.len() > 1);
            let lags = quantum.into_iter().flat_map(|quantum| self.lags_at(workload, quantum));
            due = lags.chain(starves).filter(|at| *at > now).chain(due).min();
        }
        if let Some(due) = due {
            self.wake(due);
        }
    }

    /// When somebody will lag enough behind a donor without waiters, by each rule.
    fn lags_at(&self, workload: &Workload, quantum: Duration) -> impl Iterator<Item = Time> {
        let shares = LazyCell::new(|| self.shares(workload));
        // Those without waiters come first among the donors.
        let youngest = workload.orders.donors.first(|_| true);
        let rules = youngest.filter(is_without_waiters).into_iter().flat_map(|_| WITHIN);
        let rules = rules.filter(|rule| self.is_open(*rule));
        rules.filter_map(move |rule| {
            let needed = needed_lag(rule, quantum)?;
            let NextMove { receiver: (since, _), donor, .. } = pair(workload, &shares, rule)?;
            is_without_waiters(&donor).then_some(since + needed + MOMENT)
        })
    }

    /// The shares of a workload's sessions in everything it is to have that a
    /// stream speaks for.
    pub(crate) fn shares(&self, workload: &Workload) -> Shares {
        let quarantined = workload.totals.quarantined;
        let all = if self.workloads.len() == 1 {
            u64::from(self.cap).saturating_sub(quarantined)
        } else {
            workload.target / TOKEN
        };
        let limit = workload.settings.limit.map_or(u64::MAX, u64::from).saturating_sub(quarantined);
        let fixed = workload.orders.fixed - quarantined;
        workload.orders.shares.shares(all.min(limit).saturating_sub(fixed) as u32)
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

/// The first receiver and the first donor of a workload by a rule, however
/// little the one lags behind the other: no other two lag more. They are never
/// the same: nobody has half a token less than its share and half a token more,
/// nobody lags behind itself, and who has nothing gives nothing.
fn pair(workload: &Workload, shares: &Shares, rule: Rule) -> Option<NextMove> {
    let receiver = match workload.kept_call() {
        Some(call) => as_receiver(call).filter(|(_, lack)| may_receive(rule, shares, lack))?.0,
        None => workload.orders.receivers.first(|lack| may_receive(rule, shares, lack))?,
    };
    let donor = workload.orders.donors.first(|plenty| may_give(rule, shares, plenty))?;
    Some(NextMove { receiver, donor, rule, workload: workload.id })
}

fn missing(workload: &Workload, free: u64) -> u64 {
    match workload.kept_call() {
        Some((_, call)) => {
            u64::from(call.tokens).saturating_sub(free).saturating_sub(u64::from(call.promised))
        }
        None if free > 0 => 0,
        None => workload.orders.missing + workload.calls.missing(),
    }
}

/// When the oldest task of a workload began to wait.
fn oldest_task(workload: &Workload) -> Option<Time> {
    let call = workload.calls.first().map(|(_, call)| call.since);
    workload.orders.queue.oldest().into_iter().chain(call).min()
}

/// Whether a token may move to one who lacks so much, by a rule.
pub(crate) fn may_receive(rule: Rule, shares: &Shares, lack: &Lack) -> bool {
    match rule {
        Rule::Share => lack.supply.is_some_and(|supply| shares.half_below(&supply)),
        Rule::Balance => lack.supply_after.is_some_and(|supply| shares.half_below(&supply)),
        Rule::Escape | Rule::Rescue => lack.promised == 0,
        Rule::Poverty => lack.tokens == 0,
        Rule::Target | Rule::Starving => true,
    }
}

/// Whether one who has so much may be asked for a token, by a rule.
pub(crate) fn may_give(rule: Rule, shares: &Shares, plenty: &Plenty) -> bool {
    match rule {
        Rule::Share | Rule::Escape => shares.not_half_below(&plenty.supply),
        Rule::Balance => shares.not_half_below(&plenty.supply_after),
        Rule::Poverty => plenty.left > 1,
        Rule::Rescue | Rule::Target | Rule::Starving => true,
    }
}

/// How far the receiver must lag behind the donor; none: it need not at all.
pub(crate) fn needed_lag(rule: Rule, quantum: Duration) -> Option<Duration> {
    match rule {
        Rule::Share => Some(quantum),
        Rule::Balance => Some(quantum / 2),
        Rule::Escape => Some(quantum * 2),
        Rule::Rescue => Some(quantum * 3),
        Rule::Poverty | Rule::Target | Rule::Starving => None,
    }
}

/// By how much the receiver's oldest task is older than the donor's.
fn lag((receiver, _): Oldest, (Reverse(donor), _, _): Youngest, now: Time) -> Duration {
    now.since(receiver).saturating_sub(now.since(donor))
}

fn is_without_waiters((Reverse(since), _, _): &Youngest) -> bool {
    *since == NOBODY
}
