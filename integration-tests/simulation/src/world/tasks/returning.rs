//! The end of a use: a connection is given back, reset, detached, closed or cut.
//! Knows nothing of who waits for it.

use std::time::Duration;

use super::{Place, TaskState, TaskStep};
use crate::{
    plan::{LONGEST_HOLD, LONGEST_STATEMENT},
    pool::Connection,
    violation::{Invariant, broken},
    world::{Event, World, node::TASKS},
};

impl World {
    pub(super) fn task_returns(&mut self, place: Place) {
        let pool = self.pool(place);
        match std::mem::take(&mut self.at(place).state) {
            TaskState::Using(connection, held) => {
                let broken_off = connection.fences != pool.fences() || !self.databases.works(connection.id);
                if broken_off || self.dice.chance(15) {
                    // A panic, an error, or a fence since the checkout.
                    pool.change(|ledger, now, effects| ledger.begin_close(now.since(held), now, effects));
                    self.start_close(place.process, place.database, connection);
                } else if self.dice.chance(15) {
                    self.enter(place, TaskState::Detached(connection));
                    let time = self.dice.millis(1, LONGEST_HOLD.as_millis() as u64 / 2);
                    return self.plan(place, time, TaskStep::Returns);
                } else if self.dice.chance(30) {
                    pool.change(|ledger, now, _| ledger.checked_in(now.since(held), now));
                    self.enter(place, TaskState::Resetting(connection));
                    let time = self.dice.millis(0, 5);
                    return self.plan(place, time, TaskStep::Returns);
                } else {
                    pool.change(|ledger, now, effects| {
                        ledger.give_back(connection, Some(now.since(held)), now, effects);
                    });
                }
            }
            TaskState::Detached(connection) => {
                pool.change(|ledger, _, effects| ledger.begin_retire(false, effects));
                self.start_close(place.process, place.database, connection);
            }
            TaskState::Resetting(connection) => {
                if connection.fences == pool.fences() && self.databases.works(connection.id) {
                    pool.change(|ledger, now, effects| ledger.give_back(connection, None, now, effects));
                } else {
                    pool.change(|ledger, _, effects| ledger.begin_retire(false, effects));
                    self.start_close(place.process, place.database, connection);
                }
            }
            TaskState::Resting
            | TaskState::Waiting(..)
            | TaskState::Testing(..)
            | TaskState::Connecting(_) => {
                broken(Invariant::Assertion, format!("{place:?} returns what it does not have"));
            }
        }
        self.rest(place);
    }

    /// A connection that the ledger counts as closing is closed.
    pub(crate) fn start_close(&mut self, process: usize, database: usize, connection: Connection) {
        let cancelled = self.dice.chance(20);
        let time = if cancelled {
            self.dice.micros(0, LONGEST_STATEMENT.as_micros() as u64)
        } else {
            self.dice.tail(Duration::from_micros(200), 6)
        };
        self.after(time, Event::CloseEnds { process, database, connection: connection.id });
    }

    pub(crate) fn close_ends(&mut self, process: usize, database: usize, connection: usize) {
        if self.databases.let_go(connection) {
            self.free_later(connection);
        }
        self.processes[process].pools[database].change(|ledger, _, effects| ledger.close_ended(effects));
        self.empty_trays(process);
    }

    /// The session is lost: what is in use is cut, where the pool can do that.
    pub(crate) fn sever_all(&mut self, process: usize, database: usize) {
        if !self.plan.databases[database].severs {
            return;
        }
        for task in 0..TASKS {
            let place = Place { process, database, task };
            let (TaskState::Using(connection, _) | TaskState::Detached(connection)) = self.at(place).state
            else {
                continue;
            };
            if self.databases.let_go(connection.id) {
                self.free_later(connection.id);
            }
            // Whoever uses it gets an error.
            self.at(place).epoch += 1;
            let soon = self.dice.millis(0, 40);
            self.plan(place, soon, TaskStep::Returns);
        }
    }
}
