//! A node: its real session and ledger, and tasks that hold connections. Knows
//! nothing of the server but what it says.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use leasehold_client::{
    clock::Time,
    governed::Governed,
    ledger::{Ahead, Asked, Claim, Limits, MayUse, Opened, Ticket, WaiterId},
    session::{
        Effect, Event as SessionEvent, Identity, Session, StreamId,
        message::{DatabaseName, FromServer, SessionId, ToServer},
    },
};

use super::{
    cell::{Cell, Mode},
    fleet::{Event, Fleet},
    server::session_id,
};
use crate::{
    dice::Dice,
    pool::{Connection, Ledger, Pool, TaskId, Tray},
    time::Moment,
};

/// How long the transport takes for a message before it takes another.
const SENDING: Duration = Duration::from_micros(10);

/// How long a close takes.
const CLOSING: Duration = Duration::from_micros(200);

/// How often a pool looks after itself, as `LeasedPool` does.
const SETTLING_PERIOD: Duration = Duration::from_millis(250);

/// The default of `LeasedPool`.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// All connections are alike here.
const CONNECTION: Connection = Connection { id: 0, fences: 0 };

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    session: Session,
    pool: Pool,
    database: DatabaseName,
    stream: Option<StreamId>,
    /// Messages under way to the server, and from it. All take the same time.
    pub(super) up: VecDeque<ToServer>,
    pub(super) down: VecDeque<FromServer>,
    timer_at: Option<Moment>,
    tasks: Vec<Task>,
    resting: Vec<TaskId>,
    /// So many tasks are to go on asking.
    lasting: usize,
    /// Rises when the demand changes: what was to come before does not.
    pub(super) epoch: u32,
}

/// A task.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    asked: Moment,
    state: State,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Resting,
    Waiting(WaiterId),
    Connecting(Moment),
    Using(Moment),
}

impl Node {
    pub(super) fn new(cell: &Cell, node: usize, dice: &mut Dice) -> Node {
        let identity = Identity {
            session: SessionId::from_bytes(session_id(node).0.to_be_bytes()),
            node: format!("node {node}"),
            workload: String::new(),
            client: "simulation".to_owned(),
        };
        let maximum = match cell.mode {
            Mode::Admission(_) => cell.cap,
            Mode::Split => (cell.cap / cell.nodes as u32).max(1),
        };
        Node {
            session: Session::new(identity, 1, dice.any()),
            pool: Pool::new(Limits { maximum, minimum: 0 }),
            database: DatabaseName::new("orders").expect("a short name"),
            stream: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            timer_at: None,
            tasks: Vec::new(),
            resting: Vec::new(),
            lasting: 0,
            epoch: 0,
        }
    }

    /// What it holds, and whether its tasks wait.
    pub(super) fn looks(&self) -> (u32, bool) {
        self.pool.read(|ledger, now| {
            let levels = ledger.levels(now);
            (levels.holding, levels.waiting > 0)
        })
    }
}

fn local(now: Moment) -> Time {
    Time::from_nanos(now.0)
}

// The session.
impl Fleet {
    pub(super) fn start_node(&mut self, number: usize) {
        let now = local(self.now);
        let node = &mut self.nodes[number];
        let pool: Arc<dyn Governed> = Arc::new(node.pool.clone());
        let mut effects = Vec::new();
        node.session.register(now, node.database.clone(), pool, &mut effects);
        self.perform(number, effects);
        let first = self.dice.micros(0, SETTLING_PERIOD.as_micros() as u64);
        self.after(first, Event::Tidy(number));
    }

    pub(super) fn connected(&mut self, node: usize) {
        if let Some(stream) = self.nodes[node].stream {
            self.apply(node, SessionEvent::Connected(stream));
        }
    }

    pub(super) fn sent(&mut self, node: usize) {
        if let Some(stream) = self.nodes[node].stream {
            self.apply(node, SessionEvent::Sent(stream));
        }
    }

    pub(super) fn timer(&mut self, node: usize) {
        if self.nodes[node].timer_at.is_some_and(|at| at <= self.now) {
            self.nodes[node].timer_at = None;
            self.apply(node, SessionEvent::Timer);
        }
    }

    pub(super) fn node_receives(&mut self, node: usize) {
        let Some(message) = self.nodes[node].down.pop_front() else { return };
        if let Some(stream) = self.nodes[node].stream {
            self.apply(node, SessionEvent::Received(stream, message));
        }
    }

    fn apply(&mut self, node: usize, event: SessionEvent) {
        let now = local(self.now);
        self.nodes[node].pool.tell(now);
        let mut effects = Vec::new();
        self.nodes[node].session.apply(now, event, &mut effects);
        self.perform(node, effects);
        self.empty_tray(node);
    }

    fn perform(&mut self, node: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Open { stream, .. } => {
                    self.nodes[node].stream = Some(stream);
                    self.after(self.cell.delay * 2, Event::Connected(node));
                }
                Effect::Send(_, message) => {
                    self.nodes[node].up.push_back(message);
                    self.meter.says(self.now);
                    self.after(self.cell.delay, Event::ToServer(node));
                    self.after(SENDING, Event::Sent(node));
                }
                Effect::Drop(_) | Effect::Finished => unreachable!("nothing goes wrong here: {effect:?}"),
            }
        }
        let due = self.nodes[node].session.next_timer().map(|due| Moment(due.as_nanos()).max(self.now));
        if let Some(at) = due.filter(|at| self.nodes[node].timer_at.is_none_or(|planned| *at < planned)) {
            self.nodes[node].timer_at = Some(at);
            self.at(at, Event::Timer(node));
        }
    }

    pub(super) fn tidy(&mut self, node: usize) {
        self.change(node, |ledger, now, effects| {
            ledger.reap(Some(IDLE_TIMEOUT), |_| false, now, effects);
            ledger.settle(effects);
        });
        self.empty_tray(node);
        self.after(SETTLING_PERIOD, Event::Tidy(node));
    }
}

// The tasks. The shell around the ledger is that of `LeasedPool`, without futures.
impl Fleet {
    /// So many tasks of a node go on asking from now on.
    pub(super) fn set_tasks(&mut self, node: usize, tasks: usize) {
        self.nodes[node].lasting = tasks;
        while self.busy(node) < tasks {
            self.begin(node);
        }
    }

    /// A task comes by chance.
    pub(super) fn comes(&mut self, node: usize, epoch: u32) {
        if epoch == self.nodes[node].epoch {
            self.plan_arrival(node);
            self.meter.comes(self.now, self.cell.hold.mean_at(node));
            self.begin(node);
        }
    }

    fn busy(&self, node: usize) -> usize {
        self.nodes[node].tasks.len() - self.nodes[node].resting.len()
    }

    fn begin(&mut self, node: usize) {
        let at = &mut self.nodes[node];
        let task = at.resting.pop().unwrap_or_else(|| {
            at.tasks.push(Task::default());
            at.tasks.len() - 1
        });
        self.ask(node, task);
        self.empty_tray(node);
    }

    fn ask(&mut self, node: usize, task: TaskId) {
        self.nodes[node].tasks[task].asked = self.now;
        self.meter.asks(self.now, node, task);
        let ticket = Ticket { since: local(self.now), trace: None };
        let ahead = Ahead::OfTheYounger;
        match self.change(node, |ledger, _, effects| ledger.ask(ticket, ahead, task, effects)) {
            Asked::Claim(claim) => self.claimed(node, task, &claim),
            Asked::Place(id) => self.nodes[node].tasks[task].state = State::Waiting(id),
            Asked::Refused { .. } => unreachable!("no scenario bounds what may wait"),
        }
    }

    fn woken(&mut self, node: usize, task: TaskId) {
        let State::Waiting(id) = self.nodes[node].tasks[task].state else {
            unreachable!("a task is woken that does not wait")
        };
        match self.change(node, |ledger, _, _| ledger.poll(id, task)) {
            Ok(claim) => self.claimed(node, task, &claim),
            Err(_) => unreachable!("a task is woken for nothing"),
        }
    }

    fn claimed(&mut self, node: usize, task: TaskId, claim: &Claim<Connection>) {
        match claim {
            Claim::Connection(_) => self.uses(node, task),
            Claim::Token => {
                let may = self.change(node, Ledger::may_use);
                assert_eq!(may, MayUse::Yes, "no session is lost here");
                self.nodes[node].tasks[task].state = State::Connecting(self.now);
                self.meter.connects(self.now);
                let takes = self.dice.about(self.cell.connect);
                self.after(takes, Event::Opened { node, task });
            }
            Claim::Closed => unreachable!("no pool is closed here"),
        }
    }

    pub(super) fn opened(&mut self, node: usize, task: TaskId) {
        let State::Connecting(since) = self.nodes[node].tasks[task].state else { return };
        let took = self.now - since;
        let opened = self.change(node, |ledger, now, effects| ledger.opened(took, now, effects));
        assert_eq!(opened, Opened::InUse, "no session is lost here");
        self.uses(node, task);
        self.empty_tray(node);
    }

    fn uses(&mut self, node: usize, task: TaskId) {
        let asked = self.nodes[node].tasks[task].asked;
        self.meter.gets(self.now, asked, node, task);
        self.nodes[node].tasks[task].state = State::Using(self.now);
        let lasts = self.cell.hold.draw(node, &mut self.dice);
        self.after(lasts, Event::Returns { node, task });
    }

    pub(super) fn returns(&mut self, node: usize, task: TaskId) {
        let State::Using(since) = self.nodes[node].tasks[task].state else { return };
        let held = self.now - since;
        self.meter.returns(self.now, node, held);
        self.change(node, |ledger, now, effects| ledger.give_back(CONNECTION, Some(held), now, effects));
        self.nodes[node].tasks[task].state = State::Resting;
        if self.busy(node) <= self.nodes[node].lasting {
            self.ask(node, task);
        } else {
            self.nodes[node].resting.push(task);
        }
        self.empty_tray(node);
    }

    fn change<R>(
        &self,
        node: usize,
        step: impl FnOnce(&mut Ledger, Time, &mut crate::pool::LedgerEffects) -> R,
    ) -> R {
        let pool = &self.nodes[node].pool;
        pool.tell(local(self.now));
        pool.change(step)
    }

    /// Does what the ledger wants done, until it wants nothing more.
    fn empty_tray(&mut self, node: usize) {
        loop {
            let Tray { wake, close, report, upkeep: _, sever: _ } = self.nodes[node].pool.take_tray();
            if wake.is_empty() && close.is_empty() && !report {
                return;
            }
            for task in wake {
                self.woken(node, task);
            }
            for _ in close {
                self.after(CLOSING, Event::Closed(node));
            }
            if report {
                let database = self.nodes[node].database.clone();
                self.apply(node, SessionEvent::Changed(database));
            }
        }
    }

    pub(super) fn closed(&mut self, node: usize) {
        self.change(node, |ledger, _, effects| ledger.close_ended(effects));
        self.empty_tray(node);
    }
}
