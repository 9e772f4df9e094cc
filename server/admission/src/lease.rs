//! The account of one session at one database: what it may hold, what it says
//! it holds, and what must be counted. Rules 4 to 10 of `docs/protocol.md`. What is
//! heard and what is told is in the files below. Knows nothing of other sessions.

mod heard;
mod told;

use alloc::{boxed::Box, collections::VecDeque};
use core::time::Duration;

use crate::{
    Demand, LossPolicy, Queueing, Recall, StreamId, Time,
    calls::Call,
    durable,
    shadow::Shadowed,
    shares::{Stake, Weight},
    workload::WorkloadId,
};

/// Observations of the database that end a quarantine (rule 16).
pub(crate) const OBSERVATIONS: u8 = 2;

/// A hold that is longer counts as this long.
const LONGEST_HOLD: Duration = Duration::from_secs(60 * 60);

/// Who speaks for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A stream.
    Attached(StreamId),
    /// Nobody at the moment.
    Unattached,
    /// Nobody any more.
    Quarantined {
        /// When the session expired.
        since: Time,
        /// Observations sent after that which are still to be judged.
        observations: u8,
    },
    /// Unary calls.
    Unary {
        /// When it was granted.
        granted: Time,
        /// An observation sent after the grant has been judged.
        observed: bool,
    },
}

/// What a lease adds to the totals of its database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// What counts against the cap.
    pub(crate) held: u32,
    /// What `held` comes down to when all recalls are answered.
    pub(crate) target: u32,
    /// The same, if it can be recalled.
    pub(crate) recallable: u32,
    /// Durable upper bound of `held`.
    pub(crate) ceiling: u32,
    /// Fewest connections that the database has open for it.
    pub(crate) lowest: u32,
    /// Most connections that the database has open for it.
    pub(crate) highest: u32,
    /// Waiting tasks.
    pub(crate) waiting: u32,
    /// Connects under way or about to start.
    pub(crate) in_flight: u32,
    /// `held`, if in quarantine.
    pub(crate) quarantined: u32,
    /// 1, if live.
    pub(crate) live: u32,
    /// Tokens that it has use for.
    pub(crate) using: u32,
    /// Tokens that it was asked for and has not given up.
    pub(crate) giving: u32,
    /// Tokens of others that are promised to it.
    pub(crate) promised: u32,
}

/// An allotment that was sent and not yet acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    sequence: u64,
    tokens: u32,
}

/// The account of one session at one database.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) standing: Standing,
    /// The levels last accepted on the current stream.
    pub(crate) demand: Demand,
    /// When the oldest waiting task began to wait.
    pub(crate) oldest_since: Option<Time>,
    /// The server's target.
    pub(crate) tokens: u32,
    pub(crate) recall: Recall,
    /// Durable, or part of the commit under way.
    pub(crate) ceiling: u32,
    /// What the session was told, where that differs the one that keeps longer.
    pub(crate) on_loss: LossPolicy,
    /// Where it counts.
    pub(crate) workload: WorkloadId,
    /// What shadow mode has granted it, that it would have waited for.
    pub(crate) shadowed: Option<Shadowed>,
    /// The idle level last rose then.
    pub(crate) idle_rose: Time,
    /// Tokens of others that were asked for on its behalf and count as promised.
    pub(crate) promised: u32,
    /// Tokens it was asked for on behalf of others, as far as they count.
    pub(crate) asked: u32,
    /// How long it holds a connection, measured or assumed.
    hold: Duration,
    /// Counted whatever the node says, until it acknowledges the Welcome.
    floor: u32,
    /// Sequence of the Welcome, until it is acknowledged.
    welcome: Option<u64>,
    /// The policy in the store, or in the commit under way.
    on_loss_written: LossPolicy,
    /// The loss policy that the Welcome tells, until it is acknowledged.
    on_loss_next: Option<LossPolicy>,
    /// Unacknowledged allotments, sequences rising, tokens falling: one that a
    /// later and higher one covers is not kept.
    sent: VecDeque<Sent>,
    /// Newest sequence sent.
    sequence: u64,
    /// Target and recall as last sent, or as agreed by an acknowledgement.
    told: (u32, Recall),
    /// How the node's tasks are to queue, and what it was told of that.
    pub(crate) queueing: Queueing,
    told_queueing: Queueing,
    /// Spare tokens that an idle recall could not get.
    refused: u32,
    /// The last idle recall was answered with tokens left over that are unused.
    left_unused: bool,
    /// The database restarted after the node's last report.
    sockets_dead: bool,
    /// The account before the first raise since the last commit.
    before: Option<Box<Before>>,
    /// It is among those that may have something to be sent or written.
    pub(crate) touched: bool,
}

/// What a failed commit takes back.
#[derive(Debug)]
struct Before {
    tokens: u32,
    sent: VecDeque<Sent>,
    sequence: u64,
    told: (u32, Recall),
    told_queueing: Queueing,
}

impl Lease {
    /// The same, of a workload.
    pub(crate) fn of(self, workload: WorkloadId) -> Lease {
        Lease { workload, ..self }
    }

    /// An account that counts `held` although no stream speaks for it.
    pub(crate) fn recovered(held: u32, on_loss: LossPolicy, standing: Standing) -> Lease {
        Lease {
            standing,
            demand: Demand::default(),
            oldest_since: None,
            tokens: held,
            recall: Recall::None,
            ceiling: held,
            on_loss,
            workload: WorkloadId::default(),
            shadowed: None,
            idle_rose: Time::ZERO,
            promised: 0,
            asked: 0,
            hold: Duration::ZERO,
            floor: held,
            welcome: None,
            on_loss_written: on_loss,
            on_loss_next: None,
            sent: VecDeque::new(),
            sequence: 0,
            told: (held, Recall::None),
            queueing: Queueing::default(),
            told_queueing: Queueing::default(),
            refused: 0,
            left_unused: false,
            sockets_dead: false,
            before: None,
            touched: false,
        }
    }

    /// A unary lease for a call, granted at `now`. Nothing of it is durable yet.
    pub(crate) fn unary(call: &Call, on_loss: LossPolicy, now: Time) -> Lease {
        let standing = Standing::Unary { granted: now, observed: false };
        let promised = call.promised;
        Lease { ceiling: 0, promised, ..Lease::recovered(call.tokens, on_loss, standing) }
    }

    /// What counts against the cap (rules 7 and 10); a target that is yet to be
    /// sent counts as if it were.
    pub(crate) fn held(&self) -> u32 {
        let sent = self.sent.front().map_or(0, |sent| sent.tokens);
        self.demand.holding.max(self.floor).max(sent).max(self.tokens)
    }

    /// Whether what the store has would not do after a crash: it covers less
    /// than what is held, or another policy than the session was told.
    pub(crate) fn is_uncovered(&self) -> bool {
        self.held() > self.ceiling || self.on_loss != self.on_loss_written
    }

    /// Whether there is something to be sent or written.
    pub(crate) fn has_news(&self) -> bool {
        self.is_uncovered() || self.is_to_be_told()
    }

    /// Whether what was sent is not what is meant.
    fn is_to_be_told(&self) -> bool {
        self.told != (self.tokens, self.recall) || self.told_queueing != self.queueing
    }

    /// The record that covers what is held.
    pub(crate) fn cover(&mut self) -> durable::Lease {
        self.ceiling = self.held();
        self.on_loss_written = self.on_loss;
        durable::Lease { ceiling: self.ceiling, on_loss: self.on_loss }
    }

    /// What this lease adds to the totals of its database.
    pub(crate) fn counts(&self) -> Counts {
        let held = self.held();
        let (ceiling, promised) = (self.ceiling, self.promised);
        let common = Counts { held, target: held, ceiling, using: held, promised, ..Counts::default() };
        match self.standing {
            Standing::Attached(_) => Counts {
                target: self.tokens,
                recallable: self.tokens,
                lowest: if self.sockets_dead { 0 } else { self.demand.established },
                highest: self.demand.possible(),
                waiting: self.demand.waiting,
                in_flight: self.demand.opening + self.granting(),
                live: 1,
                using: self.using(),
                giving: self.giving(),
                ..common
            },
            Standing::Unattached => Counts { highest: held.max(self.ceiling), live: 1, ..common },
            Standing::Quarantined { .. } => {
                Counts { highest: held.max(self.ceiling), quarantined: held, using: 0, ..common }
            }
            Standing::Unary { observed, .. } => {
                Counts { lowest: if observed { held } else { 0 }, highest: held, live: 1, ..common }
            }
        }
    }

    /// Tokens granted but not yet acknowledged.
    pub(crate) fn granting(&self) -> u32 {
        self.tokens.saturating_sub(self.demand.holding)
    }

    /// Tokens recalled but not yet given up.
    pub(crate) fn giving(&self) -> u32 {
        self.demand.holding.saturating_sub(self.tokens)
    }

    /// Whether it has given up what it was asked for on behalf of others.
    pub(crate) fn has_answered(&self) -> bool {
        self.asked > self.giving()
    }

    /// Tokens its waiting tasks need beyond what is on its way to them.
    /// `waiting` excludes tasks that are connecting (rule 12), so connects
    /// under way are not subtracted again.
    pub(crate) fn need(&self) -> u32 {
        if !matches!(self.standing, Standing::Attached(_)) || !self.is_welcomed() {
            return 0;
        }
        let served = self.demand.idle + self.demand.unopened() + self.granting();
        let wanted = self.demand.wanted.saturating_sub(self.tokens);
        self.demand.waiting.saturating_sub(served).min(wanted)
    }

    /// Tokens it would keep warm although nobody waits.
    pub(crate) fn warm(&self) -> u32 {
        let attached = matches!(self.standing, Standing::Attached(_)) && self.is_welcomed();
        if attached && self.demand.waiting == 0 { self.demand.wanted.saturating_sub(self.tokens) } else { 0 }
    }

    /// Unused tokens that an idle recall may ask for (rule 9).
    pub(crate) fn spare(&self) -> u32 {
        let free_to_ask = matches!(self.standing, Standing::Attached(_))
            && self.recall == Recall::None
            && self.is_welcomed()
            && self.demand.waiting == 0
            && self.giving() == 0;
        let unused = self.demand.idle + self.demand.unopened();
        if free_to_ask && unused > self.refused { unused } else { 0 }
    }

    /// Tokens that it has use for: for tasks that work, connect, or wait, as far
    /// as its pool may grow for them.
    pub(crate) fn using(&self) -> u32 {
        let Demand { in_use, opening, waiting, wanted, .. } = self.demand;
        let at_work = in_use.saturating_add(opening);
        at_work.saturating_add(waiting.min(wanted.saturating_sub(at_work)))
    }

    /// How much of the cap it is due, beside others: by all its tasks, also those that
    /// its pool has no room for.
    pub(crate) fn stake(&self) -> Stake {
        let Demand { in_use, opening, waiting, .. } = self.demand;
        let tasks = in_use.saturating_add(opening).saturating_add(waiting);
        Stake { weight: Weight::of(tasks, self.hold), most: self.using() }
    }

    /// How long it holds a connection as it measured it; zero if it did not.
    pub(crate) fn measured_hold(&self) -> Duration {
        self.demand.mean_hold.min(LONGEST_HOLD)
    }

    /// What is assumed of its hold until it has measured it.
    pub(crate) fn assume_hold(&mut self, usual: Duration) {
        self.hold = usual;
    }

    /// Age of the oldest waiting task.
    pub(crate) fn age(&self, now: Time) -> Duration {
        self.oldest_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether the node has acknowledged the Welcome of its stream.
    pub(crate) fn is_welcomed(&self) -> bool {
        self.welcome.is_none()
    }
}
