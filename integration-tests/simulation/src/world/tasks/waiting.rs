//! A task on its way to a claim: it takes what is there, or waits, is woken,
//! tests what it got, or leaves. Every answer comes once. Knows nothing of
//! connects.

use std::time::Duration;

use leasehold_client::ledger::{Ahead, Asked, Claim, Ticket};

use super::{Place, TaskState, TaskStep};
use crate::{
    pool::{Connection, Ledger, LedgerEffects},
    violation::{Invariant, broken},
    world::World,
};

impl World {
    /// Takes what is there, or waits, or is refused.
    pub(super) fn ask(
        &mut self,
        place: Place,
        ticket: Ticket,
        ahead: Ahead,
        before: impl FnOnce(&mut Ledger, &mut LedgerEffects),
    ) {
        let asked = self.pool(place).change(|ledger, _, effects| {
            before(ledger, effects);
            ledger.ask(ticket, ahead, place.task, effects)
        });
        match asked {
            Asked::Claim(claim) => self.claimed(place, &claim, ticket),
            Asked::Refused { .. } => self.answer(place),
            Asked::Place(id) => {
                self.enter(place, TaskState::Waiting(id, ticket));
                let patience = if self.calm {
                    Duration::from_secs(600)
                } else {
                    self.dice.tail(Duration::from_millis(300), 4)
                };
                let step = if self.dice.chance(500) { TaskStep::TimesOut } else { TaskStep::Leaves };
                self.plan(place, patience, step);
            }
        }
    }

    /// The ledger wants a task woken.
    pub(crate) fn wake_task(&mut self, process: usize, database: usize, task: usize) {
        let place = Place { process, database, task };
        if !matches!(self.at(place).state, TaskState::Waiting(..)) {
            broken(Invariant::AnsweredOnce, format!("{place:?} is woken and does not wait"));
        }
        if std::mem::replace(&mut self.at(place).woken, true) {
            broken(Invariant::AnsweredOnce, format!("{place:?} is woken twice"));
        }
        let soon = self.dice.tail(Duration::from_micros(5), 5);
        self.plan(place, soon, TaskStep::Woken);
        if !self.calm && self.dice.chance(20) {
            // It is dropped before it runs.
            self.plan(place, soon / 2, TaskStep::Leaves);
        }
    }

    pub(super) fn task_polls(&mut self, place: Place) {
        let TaskState::Waiting(id, ticket) = self.at(place).state else { return };
        match self.pool(place).change(|ledger, _, _| ledger.poll(id, place.task)) {
            Ok(claim) => self.claimed(place, &claim, ticket),
            Err(_) => broken(Invariant::AnsweredOnce, format!("{place:?} was woken for nothing")),
        }
    }

    pub(super) fn claimed(&mut self, place: Place, claim: &Claim<Connection>, ticket: Ticket) {
        match *claim {
            Claim::Closed => self.answer(place),
            Claim::Token => self.begin_connect(place, ticket),
            Claim::Connection(connection) => {
                let held = self.tell_time(place.process);
                self.enter(place, TaskState::Testing(connection, held, ticket));
                if self.dice.chance(850) {
                    self.task_tested(place);
                } else {
                    let time = self.dice.millis(0, 3);
                    self.plan(place, time, TaskStep::Tested);
                    if self.dice.chance(100) {
                        self.plan(place, time / 2, TaskStep::Leaves);
                    }
                }
            }
        }
    }

    pub(super) fn task_tested(&mut self, place: Place) {
        let TaskState::Testing(connection, held, ticket) = self.at(place).state else { return };
        let fit = self.databases.works(connection.id) && !self.dice.chance(10);
        if fit {
            self.uses(place, connection, held);
            return;
        }
        self.ask(place, ticket, Ahead::AsBefore, |ledger, effects| ledger.begin_retire(true, effects));
        self.start_close(place.process, place.database, connection);
    }

    /// The task is dropped, wherever it is.
    pub(super) fn task_leaves(&mut self, place: Place) {
        let woken = self.at(place).woken;
        let pool = self.pool(place);
        match std::mem::take(&mut self.at(place).state) {
            TaskState::Waiting(id, _) => {
                let still_waited =
                    pool.change(|ledger, now, effects| ledger.leave(id, now, effects)).is_some();
                if still_waited == woken {
                    broken(
                        Invariant::AnsweredOnce,
                        format!("{place:?}: chosen {}, woken {woken}", !still_waited),
                    );
                }
            }
            TaskState::Testing(connection, _, _) => {
                pool.change(|ledger, _, effects| ledger.begin_retire(false, effects));
                self.start_close(place.process, place.database, connection);
            }
            TaskState::Connecting(connecting) => return self.abandon(place, connecting),
            TaskState::Resting | TaskState::Using(..) | TaskState::Detached(..) | TaskState::Resetting(_) => {
                broken(Invariant::Assertion, format!("{place:?} cannot leave"));
            }
        }
        self.answer(place);
    }
}
