//! Unary callers: clients without a stream that acquire, renew and release, and
//! repeat what was not answered. Know nothing of nodes.

use std::{sync::Arc, time::Duration};

use leasehold_admission::{
    Acquire, DatabaseId, Event as CoreEvent, ReleaseTarget, SessionId, Ticket, UnaryReply,
};

use super::{Event, World, server::Input};
use crate::{
    dice::Dice,
    time::{Clock, Moment},
};

/// How many there are.
const CALLERS: usize = 2;

/// The database that they use.
const DATABASE: usize = 1;

/// A caller, and the call that it has under way.
#[derive(Debug)]
pub(crate) struct Caller {
    clock: Clock,
    epoch: u32,
    request: u64,
    pub(crate) tokens: u32,
    /// It prolongs the lease that it asks for, or has.
    renews: bool,
    state: State,
    calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Asking,
    /// Until then, on the caller's clock.
    Leased {
        until: u64,
    },
    Releasing,
}

/// A call as the server's handler has it.
#[derive(Clone, Copy, Debug)]
struct Call {
    ticket: Ticket,
    /// What it is about.
    request: SessionId,
    tokens: u32,
    /// When it was sent, on the caller's clock.
    sent: u64,
    /// It has reached the server.
    arrived: bool,
}

/// What happens to a caller.
#[derive(Clone, Debug)]
pub(crate) enum CallerStep {
    /// It begins, or goes on with what it does.
    Acts,
    /// A message of its reaches the server.
    Arrives(CallerMessage),
    /// The handler has the core's answer.
    Handled { ticket: Ticket, reply: UnaryReply },
    /// The answer reaches it; the call was sent at that time on its clock.
    Answered { request: SessionId, reply: UnaryReply, sent: u64 },
    /// A call came to nothing.
    Failed,
}

/// What a caller sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallerMessage {
    Acquire(Ticket),
    Renew(Ticket),
    Release(Ticket),
    /// It hung up.
    HangsUp(Ticket),
}

impl Caller {
    pub(crate) fn all(dice: &mut Dice) -> Vec<Caller> {
        let caller = |number: usize| {
            let clock = Clock::skewed(dice, 0);
            let request = (number as u64) << 32;
            let (state, calls) = (State::Idle, Vec::new());
            Caller { clock, epoch: 0, request, tokens: 0, renews: false, state, calls }
        };
        (0..CALLERS).map(caller).collect()
    }

    /// The id of its request and lease.
    pub(crate) fn session(&self) -> SessionId {
        SessionId(1 << 64 | u128::from(self.request))
    }

    /// Tokens that it believes to have.
    pub(crate) fn holding(&self, now: Moment) -> u32 {
        match self.state {
            State::Leased { until } if self.clock.read(now) < until => self.tokens,
            State::Idle | State::Asking | State::Leased { .. } | State::Releasing => 0,
        }
    }

    /// How long it goes on to believe so, on its own clock.
    pub(crate) fn right_left(&self, now: Moment) -> Duration {
        match self.state {
            State::Leased { until } => Duration::from_nanos(until.saturating_sub(self.clock.read(now))),
            State::Idle | State::Asking | State::Releasing => Duration::ZERO,
        }
    }

    fn name(&self) -> Arc<str> {
        Arc::from(if self.request >> 32 == 0 { "first caller" } else { "second caller" })
    }
}

impl World {
    pub(crate) fn start_callers(&mut self) {
        if self.plan.databases[DATABASE].unary {
            for caller in 0..CALLERS {
                self.plan_caller(caller, Duration::from_millis(300), CallerStep::Acts);
            }
        }
    }

    /// Plans what happens next to a caller, instead of what was planned.
    fn plan_caller(&mut self, caller: usize, time: Duration, step: CallerStep) {
        self.callers[caller].epoch += 1;
        let epoch = self.callers[caller].epoch;
        let late = self.dice.tail(time / 2, 2);
        self.after(late, Event::Caller { caller, epoch, step });
    }

    fn send_to_server(&mut self, caller: usize, message: CallerMessage) {
        self.messages += 1;
        let way = self.dice.tail(self.plan.delay, 4);
        let step = CallerStep::Arrives(message);
        self.after(way, Event::Caller { caller, epoch: 0, step });
    }

    /// `epoch` is zero where it does not matter what the caller did meanwhile.
    pub(crate) fn caller(&mut self, caller: usize, epoch: u32, step: CallerStep) {
        if epoch != 0 && epoch != self.callers[caller].epoch {
            return;
        }
        match step {
            CallerStep::Acts => self.caller_acts(caller),
            CallerStep::Arrives(message) => self.call_arrives(caller, message),
            CallerStep::Handled { ticket, reply } => self.call_handled(caller, ticket, reply),
            CallerStep::Answered { request, reply, sent } => {
                if request == self.callers[caller].session() {
                    self.caller_answered(caller, &reply, sent);
                }
            }
            CallerStep::Failed => {
                if self.callers[caller].state != State::Idle {
                    self.plan_caller(caller, Duration::from_millis(50), CallerStep::Acts);
                }
            }
        }
    }

    fn new_ticket(&mut self, caller: usize) -> Ticket {
        let ticket = Ticket(self.dice.any());
        let asking = &mut self.callers[caller];
        let sent = asking.clock.read(self.now);
        let (request, tokens) = (asking.session(), asking.tokens);
        asking.calls.push(Call { ticket, request, tokens, sent, arrived: false });
        ticket
    }

    fn caller_acts(&mut self, caller: usize) {
        let ttl = self.plan.databases[DATABASE].settings.ttl;
        let patience = self.dice.tail(ttl / 4, 2);
        match self.callers[caller].state {
            State::Idle if self.calm => {}
            State::Idle => {
                let (tokens, renews) = (self.dice.number(1, 3), self.dice.chance(700));
                let acting = &mut self.callers[caller];
                (acting.tokens, acting.renews, acting.state) = (tokens, renews, State::Asking);
                acting.request += 1;
                let ticket = self.new_ticket(caller);
                self.send_to_server(caller, CallerMessage::Acquire(ticket));
                self.plan_caller(caller, patience, CallerStep::Acts);
            }
            State::Asking => {
                // No answer: it hangs up, and asks again, or never mind.
                if let (Some(call), true) =
                    (self.callers[caller].calls.last().copied(), self.dice.chance(600))
                {
                    self.send_to_server(caller, CallerMessage::HangsUp(call.ticket));
                }
                if self.calm || self.dice.chance(200) {
                    let ticket = self.new_ticket(caller);
                    self.send_to_server(caller, CallerMessage::Release(ticket));
                    self.callers[caller].state = State::Releasing;
                } else {
                    let ticket = self.new_ticket(caller);
                    self.send_to_server(caller, CallerMessage::Acquire(ticket));
                }
                self.plan_caller(caller, patience, CallerStep::Acts);
            }
            State::Leased { until } => {
                let lapsed = self.callers[caller].clock.read(self.now) >= until;
                let renews = self.callers[caller].renews;
                if lapsed || self.calm || (renews && self.dice.chance(400)) {
                    self.callers[caller].state = State::Releasing;
                    let ticket = self.new_ticket(caller);
                    self.send_to_server(caller, CallerMessage::Release(ticket));
                } else if renews && self.dice.chance(900) {
                    let ticket = self.new_ticket(caller);
                    self.send_to_server(caller, CallerMessage::Renew(ticket));
                }
                self.plan_caller(caller, patience, CallerStep::Acts);
            }
            State::Releasing => {
                let ticket = self.new_ticket(caller);
                self.send_to_server(caller, CallerMessage::Release(ticket));
                self.plan_caller(caller, patience, CallerStep::Acts);
            }
        }
    }

    fn call_arrives(&mut self, caller: usize, message: CallerMessage) {
        let (CallerMessage::Acquire(ticket)
        | CallerMessage::Renew(ticket)
        | CallerMessage::Release(ticket)
        | CallerMessage::HangsUp(ticket)) = message;
        if !self.server.is_up() {
            self.callers[caller].calls.retain(|call| call.ticket != ticket);
            let way = self.dice.tail(self.plan.delay, 4);
            let epoch = self.callers[caller].epoch;
            return self.after(way, Event::Caller { caller, epoch, step: CallerStep::Failed });
        }
        let asking = &mut self.callers[caller];
        let node = asking.name();
        let Some(call) = asking.calls.iter_mut().find(|call| call.ticket == ticket) else { return };
        let (request, tokens) = (call.request, call.tokens);
        let event = match message {
            CallerMessage::Acquire(ticket) => {
                call.arrived = true;
                let database = DatabaseId(DATABASE as u32);
                let workload = Arc::from(crate::plan::WORKLOADS[caller % 2 + 1]);
                CoreEvent::Acquire(Acquire { ticket, request, node, workload, database, tokens })
            }
            CallerMessage::Renew(ticket) => {
                call.arrived = true;
                CoreEvent::Renew { ticket, lease: request, node }
            }
            CallerMessage::Release(ticket) => {
                call.arrived = true;
                CoreEvent::Release { ticket, target: ReleaseTarget::Request(request), node }
            }
            CallerMessage::HangsUp(ticket) => {
                // Only a call that the handler still has can be taken back.
                asking.calls.retain(|call| call.ticket != ticket);
                CoreEvent::AcquireEnded { ticket, timed_out: false }
            }
        };
        self.put_input(Input::Core(event));
    }

    /// The core answers a call: its handler, if it is still there, has it soon.
    pub(crate) fn reply(&mut self, ticket: Ticket, reply: UnaryReply) {
        let has = |caller: &Caller| caller.calls.iter().any(|call| call.ticket == ticket);
        let Some(caller) = self.callers.iter().position(has) else { return };
        let soon = self.dice.micros(0, 200);
        self.after(soon, Event::Caller { caller, epoch: 0, step: CallerStep::Handled { ticket, reply } });
    }

    /// The handler passes the answer to the transport: it cannot be taken back.
    fn call_handled(&mut self, caller: usize, ticket: Ticket, reply: UnaryReply) {
        let calls = &mut self.callers[caller].calls;
        let Some(at) = calls.iter().position(|call| call.ticket == ticket) else { return };
        let call = calls.remove(at);
        self.messages += 1;
        if self.dice.chance(50) {
            return;
        }
        let way = self.dice.tail(self.plan.delay, 4);
        let step = CallerStep::Answered { request: call.request, reply, sent: call.sent };
        let epoch = self.callers[caller].epoch;
        // What comes after the caller did something else is not read.
        self.after(way, Event::Caller { caller, epoch, step });
    }

    fn caller_answered(&mut self, caller: usize, reply: &UnaryReply, sent: u64) {
        let until = |lasts: Duration| sent + lasts.as_nanos() as u64;
        let asked = self.callers[caller].state;
        let next = match (asked, reply) {
            (State::Asking, UnaryReply::Leased { waited, ttl, .. }) => {
                State::Leased { until: until(*waited + *ttl) }
            }
            (State::Leased { until: before }, UnaryReply::Renewed { ttl }) => {
                // Some fall silent, and go by what they were told.
                self.callers[caller].renews = self.dice.chance(600);
                State::Leased { until: before.max(until(*ttl)) }
            }
            (State::Leased { .. }, _) => State::Releasing,
            // Nothing is known: it asks again.
            (State::Asking | State::Releasing, UnaryReply::StoreUnavailable) => asked,
            (State::Asking | State::Releasing, _) => State::Idle,
            (State::Idle, _) => return,
        };
        self.callers[caller].state = next;
        let think = if next == State::Idle { Duration::from_millis(300) } else { Duration::from_millis(100) };
        self.plan_caller(caller, think, CallerStep::Acts);
    }

    /// The server is gone, and every call with it.
    pub(crate) fn calls_die(&mut self) {
        for caller in 0..CALLERS {
            self.callers[caller].calls.retain(|call| !call.arrived);
            let epoch = self.callers[caller].epoch;
            let way = self.dice.tail(self.plan.delay, 4);
            self.after(way, Event::Caller { caller, epoch, step: CallerStep::Failed });
        }
    }
}
