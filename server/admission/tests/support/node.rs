//! A node that keeps the rules, without connections that take time. Knows nothing
//! of streams.

use std::{collections::VecDeque, time::Duration};

use leasehold_admission::{Allotment, Demand, Event, Queueing, Recall, StreamId, Time};

/// A node that keeps the rules: rules 4, 5, 9, 10, 12 and 14 of
/// `docs/protocol.md`, without connections that take time.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub session: u128,
    /// Empty: of its own name.
    pub workload: String,
    pub stream: Option<StreamId>,
    pub welcomed: bool,
    /// Tokens kept: in use, idle, or (past the deadline) nothing else.
    pub in_use: u32,
    pub idle: u32,
    pub waiting: u32,
    pub waiting_since: Time,
    /// When each task began to wait, where that is followed.
    pub queue: VecDeque<Time>,
    pub warm: u32,
    /// Of its pool, if that is bounded.
    pub maximum: Option<u32>,
    pub mean_hold: Duration,
    pub acknowledged: u64,
    pub target: u32,
    pub recall: Option<Recall>,
    /// What it was told of how its tasks queue.
    pub queueing: Queueing,
    /// Sent by the server, not yet received.
    pub incoming: VecDeque<ToNode>,
    /// Sent to the server, not yet received.
    pub outgoing: VecDeque<Event>,
    /// Deliver at once.
    pub prompt: bool,
    pub deadline: Option<Time>,
    /// When Hello or keep-alives were sent that are not answered yet.
    pub unanswered: VecDeque<(u64, Time)>,
}

#[derive(Clone, Debug)]
pub enum ToNode {
    Welcome(u64, Duration),
    Allotment(Allotment),
    KeepAlive(u64),
    Closed,
}

impl Node {
    pub fn holding(&self) -> u32 {
        self.in_use + self.idle
    }

    pub fn demand(&self, now: Time) -> Demand {
        // Past its deadline it cannot take tokens, so it asks for none: the
        // server would grant and be given back without an end.
        let lapsed = self.is_lapsed(now);
        let waiting = if lapsed { 0 } else { self.waiting };
        let warm = if lapsed { 0 } else { self.warm };
        let waiting_for = if waiting > 0 { now.since(self.waiting_since) } else { Duration::ZERO };
        Demand {
            acknowledged: self.acknowledged,
            holding: self.holding(),
            established: self.holding(),
            in_use: self.in_use,
            idle: self.idle,
            waiting,
            wanted: (self.in_use + waiting).max(warm).min(self.maximum.unwrap_or(u32::MAX)),
            oldest_wait: waiting_for,
            mean_hold: self.mean_hold,
            ..Demand::default()
        }
    }

    /// Past its deadline, or never given one.
    pub fn is_lapsed(&self, now: Time) -> bool {
        self.deadline.is_none_or(|deadline| now >= deadline)
    }

    pub fn apply(&mut self, allotment: Allotment, now: Time) {
        self.acknowledged = allotment.sequence;
        self.queueing = allotment.queueing;
        if self.is_lapsed(now) {
            return;
        }
        self.target = allotment.tokens;
        self.recall = None;
        while self.holding() < self.target {
            self.idle += 1;
        }
        if self.holding() > self.target {
            let idle = self.idle.min(self.holding() - self.target);
            self.idle -= idle;
            self.recall = (allotment.recall == Recall::NextReturn).then_some(Recall::NextReturn);
        }
        self.serve();
    }

    pub fn serve(&mut self) {
        let served = self.idle.min(self.waiting);
        self.idle -= served;
        self.in_use += served;
        self.waiting -= served;
    }

    /// One task gives its connection back.
    pub fn give_back(&mut self) {
        if self.in_use == 0 {
            return;
        }
        self.in_use -= 1;
        let leaves = self.recall == Some(Recall::NextReturn) && self.in_use + self.idle >= self.target;
        if !leaves {
            self.idle += 1;
            self.serve();
        }
    }
}

impl Node {
    pub fn answered(&mut self, id: u64, now: Time, ttl: Duration) {
        let Some(at) = self.unanswered.iter().position(|(other, _)| *other == id) else { return };
        let (_, sent) = self.unanswered[at];
        self.unanswered.drain(..=at);
        if sent + ttl > now {
            self.deadline = Some(self.deadline.map_or(sent + ttl, |deadline| deadline.max(sent + ttl)));
        }
    }

    /// Past its deadline a fenced node closes everything.
    pub fn mind_deadline(&mut self, now: Time) {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.in_use = 0;
            self.idle = 0;
        }
    }
}
