//! What tasks do with a pool: they ask, wait, give up, connect, use, return,
//! panic, detach. The shell around the ledger is that of `LeasedPool`, without
//! futures. Knows nothing of sessions.

use std::time::Duration;

use leasehold_client::{
    clock::Time,
    ledger::{Ahead, Claim, MayUse, Opened, State, Ticket, WaiterId},
};

use super::{Event, World, node::TASKS};
use crate::{
    database::Arrival,
    plan::{LONGEST_HOLD, LONGEST_LINGER, LONGEST_STATEMENT},
    pool::{Connection, Pool},
    violation::{Invariant, broken},
};

/// Longest time for one connect, repeated tries included.
const CREATE_TIMEOUT: Duration = Duration::from_millis(2_500);

/// Longest time that a connect takes once it has reached its database.
const LONGEST_LOGIN: Duration = Duration::from_millis(300);

/// The index of the task that opens connections for the warm minimum.
const WARM: usize = TASKS;

/// Pause of that task after a failure.
const REST: Duration = Duration::from_secs(1);

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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Connecting {
    ticket: Ticket,
    begun: Time,
    since: Time,
    pause: Duration,
    connection: Option<usize>,
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
        self.ask(place, ticket, |_, _| {});
    }

    /// Takes what is there, or waits.
    fn ask(
        &mut self,
        place: Place,
        ticket: Ticket,
        before: impl FnOnce(&mut crate::pool::Ledger, &mut crate::pool::LedgerEffects),
    ) {
        let asked = self.pool(place).change(|ledger, _, effects| {
            before(ledger, effects);
            match ledger.take(effects) {
                Some(claim) => Ok(claim),
                None => Err(ledger.enter(ticket, Ahead::OfTheYounger, place.task, effects)),
            }
        });
        match asked {
            Ok(claim) => self.claimed(place, &claim, ticket),
            Err(id) => {
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
    }

    fn task_polls(&mut self, place: Place) {
        let TaskState::Waiting(id, ticket) = self.at(place).state else { return };
        match self.pool(place).change(|ledger, _, _| ledger.poll(id, place.task)) {
            Ok(claim) => self.claimed(place, &claim, ticket),
            Err(_) => broken(Invariant::AnsweredOnce, format!("{place:?} was woken for nothing")),
        }
    }

    fn claimed(&mut self, place: Place, claim: &Claim<Connection>, ticket: Ticket) {
        match *claim {
            Claim::Closed => self.answer(place),
            Claim::Token => {
                let begun = self.tell_time(place.process);
                let pause = Duration::from_millis(10);
                let connecting = Connecting { ticket, begun, since: begun, pause, connection: None };
                self.enter(place, TaskState::Connecting(connecting));
                self.task_connects(place);
            }
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

    fn task_tested(&mut self, place: Place) {
        let TaskState::Testing(connection, held, ticket) = self.at(place).state else { return };
        let fit = self.databases.works(connection.id) && !self.dice.chance(10);
        if fit {
            self.uses(place, connection, held);
            return;
        }
        self.ask(place, ticket, |ledger, effects| ledger.begin_retire(true, effects));
        self.start_close(place.process, place.database, connection);
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

    /// The task is dropped, wherever it is.
    fn task_leaves(&mut self, place: Place) {
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
            TaskState::Connecting(connecting) => {
                pool.change(|ledger, _, effects| ledger.open_failed(false, effects));
                self.give_up(connecting.connection);
            }
            TaskState::Resting | TaskState::Using(..) | TaskState::Detached(..) | TaskState::Resetting(_) => {
                broken(Invariant::Assertion, format!("{place:?} cannot leave"));
            }
        }
        self.answer(place);
    }

    /// A connect is given up, wherever it is.
    fn give_up(&mut self, connection: Option<usize>) {
        if let Some(connection) = connection.filter(|connection| self.databases.let_go(*connection)) {
            self.free_later(connection);
        }
    }

    fn free_later(&mut self, connection: usize) {
        let linger = if self.dice.chance(500) {
            self.dice.micros(0, 500)
        } else {
            self.dice.micros(0, LONGEST_LINGER.as_micros() as u64)
        };
        self.after(linger, Event::Frees { connection });
    }

    /// Asks whether its token may still be used, and connects.
    fn task_connects(&mut self, place: Place) {
        let TaskState::Connecting(mut connecting) = self.at(place).state else { return };
        let now = self.tell_time(place.process);
        let pool = self.pool(place);
        match pool.change(State::may_use) {
            MayUse::Yes => {}
            MayUse::Lapsed => return self.lapsed(place, connecting.ticket),
            MayUse::Closed => return self.not_warm(place),
        }
        if now.since(connecting.begun) >= CREATE_TIMEOUT {
            pool.change(|ledger, _, effects| ledger.open_failed(true, effects));
            return self.not_warm(place);
        }
        let connection = self.databases.begin(place.database, place.process);
        (connecting.connection, connecting.since) = (Some(connection), now);
        self.enter(place, TaskState::Connecting(connecting));
        let Place { process: _, database, task } = place;
        let epoch = self.at(place).epoch;
        let way = self.dice.tail(Duration::from_micros(100), 6);
        self.after(way, Event::Arrives { connection, database, task, epoch });
        if place.task != WARM && !self.calm && self.dice.chance(30) {
            let soon = self.dice.millis(0, 10);
            self.plan(place, soon, TaskStep::Leaves);
        }
    }

    /// A connect has no token any more; another may come.
    fn lapsed(&mut self, place: Place, ticket: Ticket) {
        if place.task == WARM { self.not_warm(place) } else { self.ask(place, ticket, |_, _| {}) }
    }

    /// A connect came to nothing.
    fn not_warm(&mut self, place: Place) {
        if place.task == WARM {
            self.enter(place, TaskState::Resting);
            self.plan(place, REST, TaskStep::Begins);
            self.processes[place.process].warming[place.database] = false;
        } else {
            self.answer(place);
        }
    }

    /// A connection reaches its database, whatever its client does meanwhile.
    pub(crate) fn arrives(&mut self, connection: usize, database: usize, task: usize, epoch: u32) {
        let arrival = self.databases.arrive(connection);
        let seen = self.databases.connections[connection];
        let dead = !self.processes[seen.process].is_alive();
        if seen.given_up || dead {
            self.give_up(Some(connection));
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

    fn task_connected(&mut self, place: Place, arrival: Arrival) {
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
                connecting.pause = (connecting.pause * 2).min(Duration::from_millis(250));
                self.at(place).state = TaskState::Connecting(connecting);
                return self.plan(place, pause, TaskStep::Retries);
            }
            Arrival::Down => {
                pool.change(|ledger, _, effects| ledger.open_failed(false, effects));
                return self.not_warm(place);
            }
        }
        let Some(id) = connecting.connection else { return };
        let connection = Connection { id, fences: pool.fences() };
        let took = now.since(connecting.since);
        if place.task == WARM {
            pool.change(|ledger, now, effects| ledger.warmed(connection, took, now, effects));
            self.enter(place, TaskState::Resting);
            self.processes[place.process].warming[place.database] = false;
            return self.warm_up(place.process, place.database);
        }
        match pool.change(|ledger, now, effects| ledger.opened(took, now, effects)) {
            Opened::InUse => self.uses(place, connection, now),
            Opened::Lapsed => {
                self.start_close(place.process, place.database, connection);
                self.ask(place, connecting.ticket, |_, _| {});
            }
            Opened::Closed => {
                self.start_close(place.process, place.database, connection);
                self.answer(place);
            }
        }
    }

    fn task_returns(&mut self, place: Place) {
        let pool = self.pool(place);
        match std::mem::take(&mut self.at(place).state) {
            TaskState::Using(connection, held) => {
                let broken_off = connection.fences != pool.fences() || !self.databases.works(connection.id);
                if broken_off || self.dice.chance(15) {
                    // A panic, an error, or a fence since the checkout.
                    pool.change(|ledger, now, effects| ledger.begin_close(Some(now.since(held)), effects));
                    self.start_close(place.process, place.database, connection);
                } else if self.dice.chance(15) {
                    self.enter(place, TaskState::Detached(connection));
                    let time = self.dice.millis(1, LONGEST_HOLD.as_millis() as u64 / 2);
                    return self.plan(place, time, TaskStep::Returns);
                } else if self.dice.chance(30) {
                    pool.change(|ledger, now, _| ledger.checked_in(now.since(held)));
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
                    pool.change(|ledger, _, effects| ledger.begin_close(None, effects));
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

    /// Opens a connection for the warm minimum.
    pub(crate) fn warm_up(&mut self, process: usize, database: usize) {
        let place = Place { process, database, task: WARM };
        let pool = self.pool(place);
        let rests = !matches!(self.at(place).state, TaskState::Resting);
        if rests || self.processes[process].warming[database] {
            return;
        }
        if pool.change(crate::pool::Ledger::begin_warm) {
            self.processes[process].warming[database] = true;
            let now = self.tell_time(process);
            let ticket = Ticket { since: now, trace: None };
            let pause = Duration::from_millis(10);
            let connecting = Connecting { ticket, begun: now, since: now, pause, connection: None };
            self.enter(place, TaskState::Connecting(connecting));
            self.task_connects(place);
        }
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
