//! A table at which tasks play with a ledger's state by hand: no runtime, no
//! clock, every interleaving at will. The scripts and the random sequences are
//! both played here.

mod random;
mod scripts;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use crate::clock::Time;
use crate::governed::Recall;

use super::{Ahead, Asked, Claim, Effects, Limits, MayUse, Opened, State, Ticket, Use, WaiterId};

/// Names a task.
type Name = char;

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Move {
    /// A task asks for a connection.
    Get(Name),
    /// A waiting task looks whether it was chosen.
    Poll(Name),
    /// A connecting task succeeds.
    Opened(Name),
    /// A connecting task fails.
    Failed(Name),
    /// A connecting task was refused for now, and tries again.
    Retry(Name),
    /// A task gives its connection back.
    Return(Name),
    /// A task's connection fails its test.
    Unfit(Name),
    /// A task is dropped, wherever it is.
    Leave(Name),
    /// The close that began first ends.
    Ended,
    Allot(u32, Recall),
    Bound(Option<u32>),
    Lapse,
    Fence,
    Revive,
    /// The deadline moves to so many seconds from now.
    Prolong(u64),
    Close,
    /// The pool opens a connection for its warm minimum.
    Warm,
    Reap,
    /// So many seconds pass.
    Pass(u64),
    /// The session reads the levels.
    Report,
    Settle,
}

#[derive(Debug)]
enum Task {
    Waiting(WaiterId, Time),
    Connecting(Time),
    /// Since when it is in use, and since when its task asks.
    Using(u32, Time, Time),
}

struct Table {
    uses: Use,
    state: State<u32, Name>,
    now: Time,
    tasks: BTreeMap<Name, Task>,
    closing: VecDeque<u32>,
    connections: u32,
    woken: Vec<Name>,
    reports: u32,
}

impl Table {
    const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

    fn new(limits: Limits, uses: Use) -> Self {
        Self {
            uses,
            state: State::new(limits, uses),
            now: Time::START,
            tasks: BTreeMap::new(),
            closing: VecDeque::new(),
            connections: 0,
            woken: Vec::new(),
            reports: 0,
        }
    }

    /// Makes a move; one that is impossible now is passed over.
    fn play(&mut self, play: Move) {
        let mut effects = Effects::default();
        match play {
            Move::Get(name) => self.get(name, &mut effects),
            Move::Poll(name) => self.poll(name, &mut effects),
            Move::Opened(name) => self.opened(name, &mut effects),
            Move::Failed(name) => self.failed(name, &mut effects),
            Move::Retry(name) => self.retry(name, &mut effects),
            Move::Return(name) => self.give_back(name, &mut effects),
            Move::Unfit(name) => self.unfit(name, &mut effects),
            Move::Leave(name) => self.leave(name, &mut effects),
            Move::Ended => {
                if self.closing.pop_front().is_some() {
                    self.state.close_ended(&mut effects);
                }
            }
            Move::Allot(tokens, recall) => self.state.allot(tokens, recall, self.now, &mut effects),
            Move::Bound(full) => self.state.bound_queue(full),
            Move::Lapse => self.state.lapse(false, &mut effects),
            Move::Fence => self.state.lapse(true, &mut effects),
            Move::Revive => self.state.revive(&mut effects),
            Move::Prolong(seconds) => {
                self.state.prolong(self.now + Duration::from_secs(seconds), &mut effects);
            }
            Move::Close => self.state.close(&mut effects),
            Move::Warm => {
                if self.state.begin_warm(self.now, &mut effects) {
                    let connection = self.connection();
                    self.state.opened_idle(connection, Duration::ZERO, self.now, &mut effects);
                }
            }
            Move::Reap => self.state.reap(Some(Self::IDLE_TIMEOUT), |_| false, self.now, &mut effects),
            Move::Pass(seconds) => self.now = self.now + Duration::from_secs(seconds),
            Move::Report => drop(self.state.report(self.now)),
            Move::Settle => self.state.settle(&mut effects),
        }
        self.woken.extend(effects.wake);
        self.closing.extend(effects.close);
        self.reports += u32::from(effects.report);
    }

    fn get(&mut self, name: Name, effects: &mut Effects<u32, Name>) {
        if !self.tasks.contains_key(&name) {
            self.ask(name, self.now, Ahead::OfTheYounger, effects);
        }
    }

    /// Takes what is there, or waits since `since`, or is refused.
    fn ask(&mut self, name: Name, since: Time, ahead: Ahead, effects: &mut Effects<u32, Name>) {
        let ticket = Ticket { since, trace: None };
        match self.state.ask(ticket, ahead, name, effects) {
            Asked::Claim(claim) => self.claim(name, since, &claim, effects),
            Asked::Place(id) => drop(self.tasks.insert(name, Task::Waiting(id, since))),
            Asked::Refused { .. } => {}
        }
    }

    fn claim(&mut self, name: Name, since: Time, claim: &Claim<u32>, effects: &mut Effects<u32, Name>) {
        match *claim {
            Claim::Connection(connection) => {
                self.tasks.insert(name, Task::Using(connection, self.now, since));
            }
            Claim::Token => match self.state.may_use(self.now, effects) {
                MayUse::Yes => {
                    let task = match self.uses {
                        Use::Connections => Task::Connecting(since),
                        Use::Tokens => Task::Using(0, self.now, since),
                    };
                    self.tasks.insert(name, task);
                }
                MayUse::Lapsed => self.ask(name, since, Ahead::AsBefore, effects),
                MayUse::Closed => {}
            },
            Claim::Closed => {}
        }
    }

    fn poll(&mut self, name: Name, effects: &mut Effects<u32, Name>) {
        if let Some(Task::Waiting(id, since)) = self.tasks.get(&name) {
            let (id, since) = (*id, *since);
            if let Ok(claim) = self.state.poll(id, name) {
                self.woken.retain(|woken| *woken != name);
                self.tasks.remove(&name);
                self.claim(name, since, &claim, effects);
            }
        }
    }

    fn opened(&mut self, name: Name, effects: &mut Effects<u32, Name>) {
        let Some(Task::Connecting(since)) = self.tasks.get(&name) else { return };
        let since = *since;
        self.tasks.remove(&name);
        let connection = self.connection();
        match self.state.opened(Duration::from_secs(1), self.now, effects) {
            Opened::InUse => self.claim(name, since, &Claim::Connection(connection), effects),
            Opened::Lapsed => {
                self.closing.push_back(connection);
                self.ask(name, since, Ahead::AsBefore, effects);
            }
            Opened::Closed => self.closing.push_back(connection),
        }
    }

    fn failed(&mut self, name: Name, effects: &mut Effects<u32, Name>) {
        if let Some(Task::Connecting(_)) = self.tasks.get(&name) {
            self.tasks.remove(&name);
            self.state.open_failed(false, effects);
        }
    }

    fn retry(&mut self, name: Name, effects: &mut Effects<u32, Name>) {
        if let Some(Task::Connecting(since)) = self.tasks.get(&name) {
            let since = *since;
            self.tasks.remove(&name);
            self.claim(name, since, &Claim::Token, effects);
        }
    }

    fn give_back(&mut self, name: Name, effects: &mut Effects<u32, Name>) {
        if let Some(Task::Using(connection, held, _)) = self.tasks.get(&name) {
            let (connection, held) = (*connection, self.now.since(*held));
            self.tasks.remove(&name);
            match self.uses {
                Use::Connections => self.state.give_back(connection, Some(held), self.now, effects),
                Use::Tokens => self.state.give_back_token(held, self.now, effects),
            }
        }
    }

    fn unfit(&mut self, name: Name, effects: &mut Effects<u32, Name>) {
        if self.uses == Use::Tokens {
            return;
        }
        if let Some(Task::Using(connection, _, since)) = self.tasks.get(&name) {
            let (connection, since) = (*connection, *since);
            self.tasks.remove(&name);
            self.state.begin_retire(true, effects);
            self.closing.push_back(connection);
            self.ask(name, since, Ahead::AsBefore, effects);
        }
    }

    fn leave(&mut self, name: Name, effects: &mut Effects<u32, Name>) {
        match self.tasks.remove(&name) {
            None => {}
            Some(Task::Waiting(id, _)) => {
                self.woken.retain(|woken| *woken != name);
                self.state.leave(id, self.now, effects);
            }
            Some(Task::Connecting(_)) => {
                let connection = self.connection();
                self.state.opened_idle(connection, Duration::ZERO, self.now, effects);
            }
            Some(Task::Using(_, held, _)) if self.uses == Use::Tokens => {
                self.state.give_back_token(self.now.since(held), self.now, effects);
            }
            Some(Task::Using(connection, held, _)) => {
                self.state.begin_close(self.now.since(held), self.now, effects);
                self.closing.push_back(connection);
            }
        }
    }

    fn connection(&mut self) -> u32 {
        self.connections += 1;
        self.connections
    }

    /// The state in words; what is zero is left out.
    fn show(&self) -> String {
        let levels = self.state.levels(self.now);
        let unopened = levels.holding - levels.established - levels.opening - levels.closing;
        let mut text = format!("tokens {}", levels.holding);
        for (count, word) in [
            (unopened, "free"),
            (levels.opening, "opening"),
            (levels.in_use, "used"),
            (levels.idle, "idle"),
            (levels.closing, "closing"),
            (levels.waiting, "waiting"),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {word}");
            }
        }
        if !self.woken.is_empty() {
            let woken: String = self.woken.iter().collect();
            let _ = write!(text, "; woken {woken}");
        }
        text
    }
}
