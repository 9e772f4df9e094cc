//! What tasks do with a pool: they ask, wait, give up, connect, use, return,
//! panic, detach. The shell around the ledger is that of `LeasedPool`, without
//! futures. The ways to a connection and back are in the files below. Knows
//! nothing of sessions.

mod connecting;
mod returning;
mod waiting;

use std::time::Duration;

use leasehold_client::{
    clock::Time,
    ledger::{Ahead, Ticket, WaiterId},
};

use self::connecting::Connecting;
use super::{Event, World, node::TASKS};
use crate::{
    database::Arrival,
    plan::LONGEST_HOLD,
    pool::{Connection, Pool},
};

/// The index of the task that opens connections for the warm minimum.
const WARM: usize = TASKS;

/// A task of an application, or the one that keeps a pool warm.
#[derive(Debug, Default)]
pub(crate) struct Task {
    /// Rises with each change of its state: what was planned for an earlier
    /// one does not happen.
    epoch: u32,
    state: TaskState,
    /// It was woken since it began to wait.
    woken: bool,
    /// Checkouts that were asked for, and answers that came.
    pub(crate) asked: u64,
    pub(crate) answered: u64,
}

/// Where a task stands.
#[derive(Debug, Default)]
pub(crate) enum TaskState {
    /// It wants nothing, or thinks of the next thing.
    #[default]
    Resting,
    /// It waits for a connection or a token.
    Waiting(WaiterId, Ticket),
    /// It tests a connection.
    Testing(Connection, Time, Ticket),
    /// It connects.
    Connecting(Connecting),
    /// It uses a connection.
    Using(Connection, Time),
    /// It keeps a connection for good.
    Detached(Connection),
    /// Its connection is being reset.
    Resetting(Connection),
}

/// What happens to a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskStep {
    /// It asks for a connection.
    Begins,
    /// It was woken.
    Woken,
    /// It has waited for long enough.
    TimesOut,
    /// It is dropped.
    Leaves,
    /// The test of its connection ends.
    Tested,
    /// The database answers its connect.
    Answered(Arrival),
    /// It tries again to connect.
    Retries,
    /// It is done with its connection.
    Returns,
}

/// A task by its place.
#[derive(Clone, Copy, Debug)]
struct Place {
    process: usize,
    database: usize,
    task: usize,
}

impl World {
    fn at(&mut self, place: Place) -> &mut Task {
        &mut self.processes[place.process].tasks[place.database][place.task]
    }

    fn pool(&self, place: Place) -> Pool {
        self.processes[place.process].pools[place.database].clone()
    }

    /// The task is in another state from now on.
    fn enter(&mut self, place: Place, state: TaskState) {
        let task = self.at(place);
        task.epoch += 1;
        task.woken = false;
        task.state = state;
    }

    fn plan(&mut self, place: Place, time: Duration, step: TaskStep) {
        let Place { process, database, task } = place;
        let epoch = self.at(place).epoch;
        self.after(time, Event::Task { process, database, task, epoch, step });
    }

    pub(crate) fn task(&mut self, process: usize, database: usize, task: usize, epoch: u32, step: TaskStep) {
        let place = Place { process, database, task };
        if self.at(place).epoch != epoch {
            return;
        }
        match step {
            TaskStep::Begins if task == WARM => self.warm_up(process, database),
            TaskStep::Begins => self.task_begins(place),
            TaskStep::Woken => self.task_polls(place),
            TaskStep::TimesOut | TaskStep::Leaves => self.task_leaves(place),
            TaskStep::Tested => self.task_tested(place),
            TaskStep::Answered(arrival) => self.task_connected(place, arrival),
            TaskStep::Retries => self.task_connects(place),
            TaskStep::Returns => self.task_returns(place),
        }
        self.empty_trays(process);
    }

    /// How many tasks of a process are at work changes.
    pub(crate) fn change_load(&mut self, process: usize) {
        if self.processes[process].retiring {
            return;
        }
        for database in 0..self.plan.databases.len() {
            let calm = self.calm;
            let load = match self.dice.number(0, 9) {
                _ if calm => self.processes[process].load[database],
                0..=2 => 0,
                3..=6 => 1 + self.dice.index(3),
                7 | 8 => 1 + self.dice.index(6),
                _ => TASKS,
            };
            self.set_load(process, database, load);
        }
        let next = self.dice.tail(Duration::from_millis(400), 3);
        self.after(next, Event::Load { process });
    }

    /// So many tasks of a pool go on asking from now on.
    pub(crate) fn set_load(&mut self, process: usize, database: usize, load: usize) {
        self.processes[process].load[database] = load;
        for task in 0..load {
            let place = Place { process, database, task };
            if matches!(self.at(place).state, TaskState::Resting) {
                self.at(place).epoch += 1;
                let think = self.dice.tail(self.plan.think / 4, 3);
                self.plan(place, think, TaskStep::Begins);
            }
        }
    }

    fn task_begins(&mut self, place: Place) {
        if place.task >= self.processes[place.process].load[place.database] {
            return;
        }
        self.at(place).asked += 1;
        let since = self.tell_time(place.process);
        let ticket = Ticket { since, trace: None };
        self.ask(place, ticket, Ahead::OfTheYounger, |_, _| {});
    }

    /// The checkout is answered with a connection.
    fn uses(&mut self, place: Place, connection: Connection, since: Time) {
        let task = self.at(place);
        task.answered += 1;
        self.enter(place, TaskState::Using(connection, since));
        let lasts = if self.dice.chance(20) {
            self.dice.millis(1, LONGEST_HOLD.as_millis() as u64 / 2)
        } else {
            self.dice.tail(Duration::from_millis(8), 4)
        };
        self.plan(place, lasts, TaskStep::Returns);
    }

    /// The checkout is answered without one, or what it gave is given back.
    fn answer(&mut self, place: Place) {
        self.at(place).answered += 1;
        self.rest(place);
    }

    fn rest(&mut self, place: Place) {
        self.enter(place, TaskState::Resting);
        let think = self.dice.tail(self.plan.think, 3);
        if place.task < self.processes[place.process].load[place.database] {
            self.plan(place, think, TaskStep::Begins);
        }
    }

    /// Tasks of a pool that wait and were not chosen, and all that do not rest.
    pub(crate) fn needs(&self, process: usize, database: usize) -> (u32, u32) {
        let tasks = &self.processes[process].tasks[database];
        let waits = |task: &&Task| matches!(task.state, TaskState::Waiting(..)) && !task.woken;
        let rests = |task: &&Task| matches!(task.state, TaskState::Resting);
        let waiting = tasks.iter().filter(waits).count();
        let busy = tasks.len() - tasks.iter().filter(rests).count();
        (waiting as u32, busy as u32)
    }

    /// Tasks that were not answered yet.
    pub(crate) fn unanswered(&self, process: usize) -> u64 {
        self.processes[process].tasks.iter().flatten().map(|task| task.asked - task.answered).sum()
    }

    /// Checkouts of a pool that were answered.
    pub(crate) fn answers(&self, process: usize, database: usize) -> u64 {
        self.processes[process].tasks[database].iter().map(|task| task.answered).sum()
    }

    /// Whether every task of a process rests.
    pub(crate) fn at_rest(&self, process: usize) -> bool {
        let mut tasks = self.processes[process].tasks.iter().flatten();
        tasks.all(|task| matches!(task.state, TaskState::Resting))
    }

    /// Tasks of a pool that use a connection.
    pub(crate) fn using(&self, process: usize, database: usize) -> usize {
        let tasks = self.processes[process].tasks[database].iter();
        tasks.filter(|task| matches!(task.state, TaskState::Using(..) | TaskState::Detached(..))).count()
    }

    /// Every task that uses a connection keeps it until this is called again.
    pub(crate) fn hold_on(&mut self, process: usize, database: usize) {
        for task in 0..TASKS {
            let place = Place { process, database, task };
            if matches!(self.at(place).state, TaskState::Using(..)) {
                self.at(place).epoch += 1;
            }
        }
    }

    /// Tasks that kept their connections return them.
    pub(crate) fn let_all_go(&mut self, process: usize, database: usize) {
        for task in 0..TASKS {
            let place = Place { process, database, task };
            if matches!(self.at(place).state, TaskState::Using(..) | TaskState::Detached(..)) {
                self.at(place).epoch += 1;
                self.plan(place, Duration::ZERO, TaskStep::Returns);
            }
        }
    }
}
