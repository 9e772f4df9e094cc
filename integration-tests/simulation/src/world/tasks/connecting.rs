//! A task that has a token and opens a connection, and the one that keeps a pool
//! warm. Knows nothing of how the token came.

use std::time::Duration;

use leasehold_client::{
    clock::Time,
    ledger::{Ahead, MayUse, Opened, Ticket},
};

use super::{Place, TaskState, TaskStep, WARM};
use crate::{
    database::Arrival,
    plan::LONGEST_LINGER,
    pool::{Connection, Ledger},
    world::{Event, World},
};

/// Longest time for one connect, repeated tries included.
const CREATE_TIMEOUT: Duration = Duration::from_millis(2_500);

/// Longest time that a connect takes once it has reached its database.
const LONGEST_LOGIN: Duration = Duration::from_millis(300);

/// Pauses between two tries at a full database.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Pause after a failed connect for the warm minimum.
const REST: Duration = Duration::from_secs(1);

/// A connect, repeated tries included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connecting {
    ticket: Ticket,
    begun: Time,
    since: Time,
    pause: Duration,
    connection: Option<usize>,
    /// Its task was answered without it.
    abandoned: bool,
}

impl World {
    /// A task has got a token.
    pub(super) fn begin_connect(&mut self, place: Place, ticket: Ticket) {
        let begun = self.tell_time(place.process);
        let pause = SHORTEST_PAUSE;
        let connecting =
            Connecting { ticket, begun, since: begun, pause, connection: None, abandoned: false };
        self.enter(place, TaskState::Connecting(connecting));
        self.task_connects(place);
    }

    /// Asks whether its token may still be used, and connects.
    pub(super) fn task_connects(&mut self, place: Place) {
        let TaskState::Connecting(mut connecting) = self.at(place).state else { return };
        let now = self.tell_time(place.process);
        let pool = self.pool(place);
        match pool.change(Ledger::may_use) {
            MayUse::Yes => {}
            MayUse::Lapsed => return self.lapsed(place, connecting),
            MayUse::Closed => return self.came_to_nothing(place, connecting.abandoned),
        }
        if now.since(connecting.begun) >= CREATE_TIMEOUT {
            pool.change(|ledger, _, effects| ledger.open_failed(true, effects));
            return self.came_to_nothing(place, connecting.abandoned);
        }
        let connection = self.databases.begin(place.database, place.process);
        (connecting.connection, connecting.since) = (Some(connection), now);
        self.enter(place, TaskState::Connecting(connecting));
        let Place { process: _, database, task } = place;
        let epoch = self.at(place).epoch;
        let way = self.dice.tail(Duration::from_micros(100), 6);
        self.after(way, Event::Arrives { connection, database, task, epoch });
        if place.task != WARM && !self.calm && !connecting.abandoned && self.dice.chance(30) {
            let soon = self.dice.millis(0, 10);
            self.plan(place, soon, TaskStep::Leaves);
        }
    }

    /// The task is dropped; its connect goes on.
    pub(super) fn abandon(&mut self, place: Place, connecting: Connecting) {
        let task = self.at(place);
        task.answered += 1;
        // What was planned for the connect still happens.
        task.state = TaskState::Connecting(Connecting { abandoned: true, ..connecting });
    }

    /// A connect has no token any more; another may come.
    fn lapsed(&mut self, place: Place, Connecting { ticket, abandoned, .. }: Connecting) {
        if place.task == WARM || abandoned {
            self.came_to_nothing(place, abandoned);
        } else {
            self.ask(place, ticket, Ahead::AsBefore, |_, _| {});
        }
    }

    /// A connect came to nothing.
    fn came_to_nothing(&mut self, place: Place, abandoned: bool) {
        if place.task == WARM {
            self.enter(place, TaskState::Resting);
            self.plan(place, REST, TaskStep::Begins);
            self.processes[place.process].warming[place.database] = false;
        } else if abandoned {
            self.rest(place);
        } else {
            self.answer(place);
        }
    }

    /// A connection reaches its database, whatever its client does meanwhile.
    pub(crate) fn arrives(&mut self, connection: usize, database: usize, task: usize, epoch: u32) {
        let arrival = self.databases.arrive(connection);
        let seen = self.databases.connections[connection];
        if !self.processes[seen.process].is_alive() {
            if self.databases.let_go(connection) {
                self.free_later(connection);
            }
            return;
        }
        let slow = if self.dice.chance(30) {
            self.dice.micros(0, LONGEST_LOGIN.as_micros() as u64)
        } else {
            Duration::ZERO
        };
        let way = self.dice.tail(Duration::from_micros(200), 5) + slow;
        let step = TaskStep::Answered(arrival);
        self.after(way, Event::Task { process: seen.process, database, task, epoch, step });
    }

    pub(super) fn task_connected(&mut self, place: Place, arrival: Arrival) {
        let TaskState::Connecting(mut connecting) = self.at(place).state else { return };
        let pool = self.pool(place);
        let now = self.tell_time(place.process);
        match arrival {
            Arrival::Open => {}
            Arrival::Full => {
                connecting.connection = None;
                self.enter(place, TaskState::Connecting(connecting));
                let pause = connecting.pause.mul_f64(0.5)
                    + self.dice.micros(0, connecting.pause.as_micros() as u64 / 2);
                connecting.pause = (connecting.pause * 2).min(LONGEST_PAUSE);
                self.at(place).state = TaskState::Connecting(connecting);
                return self.plan(place, pause, TaskStep::Retries);
            }
            Arrival::Down => {
                pool.change(|ledger, _, effects| ledger.open_failed(false, effects));
                return self.came_to_nothing(place, connecting.abandoned);
            }
        }
        let Some(id) = connecting.connection else { return };
        let connection = Connection { id, fences: pool.fences() };
        let took = now.since(connecting.since);
        if connecting.abandoned || place.task == WARM {
            pool.change(|ledger, now, effects| ledger.opened_idle(connection, took, now, effects));
            if connecting.abandoned {
                return self.rest(place);
            }
            self.enter(place, TaskState::Resting);
            self.processes[place.process].warming[place.database] = false;
            return self.warm_up(place.process, place.database);
        }
        match pool.change(|ledger, now, effects| ledger.opened(took, now, effects)) {
            Opened::InUse => {
                self.used_by_right(place.process);
                self.uses(place, connection, now);
            }
            Opened::Lapsed => {
                self.start_close(place.process, place.database, connection);
                self.ask(place, connecting.ticket, Ahead::AsBefore, |_, _| {});
            }
            Opened::Closed => {
                self.start_close(place.process, place.database, connection);
                self.answer(place);
            }
        }
    }

    pub(super) fn free_later(&mut self, connection: usize) {
        let linger = if self.dice.chance(500) {
            self.dice.micros(0, 500)
        } else {
            self.dice.micros(0, LONGEST_LINGER.as_micros() as u64)
        };
        self.after(linger, Event::Frees { connection });
    }

    /// Opens a connection for the warm minimum.
    pub(crate) fn warm_up(&mut self, process: usize, database: usize) {
        let place = Place { process, database, task: WARM };
        let pool = self.pool(place);
        let rests = !matches!(self.at(place).state, TaskState::Resting);
        if rests || self.processes[process].warming[database] {
            return;
        }
        if pool.change(Ledger::begin_warm) {
            self.processes[process].warming[database] = true;
            let since = self.tell_time(process);
            self.begin_connect(place, Ticket { since, trace: None });
        }
    }
}
