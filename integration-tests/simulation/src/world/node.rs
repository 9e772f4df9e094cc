//! A node: its machine, the process on it, and the process's session, whose
//! effects are carried out here. Knows nothing of what its tasks do.

use std::{sync::Arc, time::Duration};

use leasehold_client::{
    clock::Time,
    session::{
        Effect, Event as SessionEvent, Identity, Session,
        message::{DatabaseName, FromServer, Generation, SessionId},
    },
};

use super::{
    Event, World,
    network::{Parcel, Pipe, Stream},
    rights::Right,
    server::session_id,
    tasks::Task,
};
use crate::{
    dice::Dice,
    pool::Pool,
    time::{Clock, Moment},
};

/// Longest sleep of the task that drives a session.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// How often a pool looks after itself.
const SETTLING_PERIOD: Duration = Duration::from_millis(250);

/// Most tasks of a pool that ask for connections.
pub(crate) const TASKS: usize = 10;

/// A node's machine.
#[derive(Debug)]
pub(crate) struct Node {
    /// The process on it.
    pub(crate) process: Option<usize>,
    pub(crate) clock: Clock,
    /// How often it was stopped and not continued.
    pub(crate) frozen: u32,
    pub(crate) frozen_at: Moment,
    /// When it last went on after a stop.
    pub(crate) thawed_at: Moment,
    /// What its process should have noticed meanwhile.
    missed: Vec<(Moment, Event)>,
    /// Partitions between it and the server.
    pub(crate) partitions: u32,
    pub(crate) slow: u32,
    /// Whoever it reaches is a former server.
    pub(crate) former: u32,
    /// The transport takes nothing.
    pub(crate) stalled: u32,
    /// Names of the databases.
    pub(crate) names: Vec<DatabaseName>,
}

impl Node {
    pub(crate) fn new(dice: &mut Dice) -> Node {
        let booted = dice.any() >> 20;
        let name = |name| DatabaseName::new(name).expect("a short name");
        Node {
            process: None,
            clock: Clock::skewed(dice, booted),
            frozen: 0,
            frozen_at: Moment(0),
            thawed_at: Moment(0),
            missed: Vec::new(),
            partitions: 0,
            slow: 0,
            former: 0,
            stalled: 0,
            names: ["orders", "stock"].map(name).to_vec(),
        }
    }
}

/// A process of a node, dead or alive.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) node: usize,
    pub(crate) died_at: Option<Moment>,
    pub(crate) session: Session,
    pub(crate) pools: Vec<Pool>,
    pub(crate) tasks: Vec<Vec<Task>>,
    /// So many tasks of each pool go on asking for connections.
    pub(crate) load: Vec<usize>,
    /// Pools whose warm minimum is being opened, or whose last try failed.
    pub(crate) warming: Vec<bool>,
    stream: Option<usize>,
    timer_at: Option<Moment>,
    changed: Vec<bool>,
    mail_planned: bool,
    /// A message that the transport does not take.
    unsent: Option<leasehold_client::session::StreamId>,
    pub(crate) retiring: bool,
    /// The core has given its session up.
    pub(crate) given_up: bool,
    /// Its right to open, for the checks.
    pub(crate) right: Right,
    /// The stream that speaks for it at the server, for the checks.
    pub(crate) attached: Option<usize>,
}

impl Process {
    pub(crate) fn is_alive(&self) -> bool {
        self.died_at.is_none()
    }
}

impl World {
    /// A new process takes its place on a node.
    pub(crate) fn start_process(&mut self, node: usize) {
        if self.nodes[node].process.is_some() {
            return;
        }
        let number = self.processes.len();
        let identity = Identity {
            session: SessionId::from_bytes(session_id(number).0.to_be_bytes()),
            node: format!("node {node}"),
            workload: crate::plan::WORKLOADS[node].to_owned(),
            client: "simulation".to_owned(),
        };
        let databases = self.plan.databases.len();
        let pools = self.plan.databases.iter().map(|plan| Pool::new(plan.limits[node])).collect();
        let tasks = || (0..=TASKS).map(|_| Task::default()).collect();
        self.processes.push(Process {
            node,
            died_at: None,
            session: Session::new(identity, 1, self.dice.any()),
            pools,
            tasks: (0..databases).map(|_| tasks()).collect(),
            load: vec![0; databases],
            warming: vec![false; databases],
            stream: None,
            timer_at: None,
            changed: vec![false; databases],
            mail_planned: false,
            unsent: None,
            retiring: false,
            given_up: false,
            right: Right::default(),
            attached: None,
        });
        self.nodes[node].process = Some(number);
        // Of the machine's sleep, a process misses what comes after its start.
        self.nodes[node].frozen_at = self.nodes[node].frozen_at.max(self.now);
        self.databases.meet(number);
        self.met(number);
        let mut effects = Vec::new();
        for database in 0..databases {
            let name = self.nodes[node].names[database].clone();
            self.tell_time(number);
            let process = &mut self.processes[number];
            let pool = Arc::new(process.pools[database].clone());
            process.session.register(local(&self.nodes[node], self.now), name, pool, &mut effects);
            let first = self.dice.millis(0, 250);
            self.after(first, Event::Tidy { process: number, database });
        }
        self.perform(number, effects);
        self.after(Duration::ZERO, Event::Load { process: number });
    }

    /// The processes that live.
    pub(crate) fn all_processes(&self) -> Vec<usize> {
        self.nodes.iter().filter_map(|node| node.process).collect()
    }

    /// A process dies. Its connections last for `lasting`, if that is given, or
    /// until the database has noticed.
    pub(crate) fn kill_process(&mut self, node: usize, lasting: Option<Duration>) {
        let Some(number) = self.nodes[node].process.take() else { return };
        let process = &mut self.processes[number];
        process.died_at = Some(self.now);
        let stream = process.stream.take();
        self.nodes[node].missed.clear();
        self.nodes[node].stalled = 0;
        for connection in self.databases.of_process(number) {
            let watched =
                self.plan.databases[self.databases.connections[connection].database].settings.watched;
            let noticed = self.dice.tail(Duration::from_millis(10), 4).min(crate::plan::LONGEST_STATEMENT);
            let time = lasting.filter(|_| watched).unwrap_or(noticed);
            if self.databases.works(connection) {
                self.after(time, Event::Frees { connection });
            } else {
                self.databases.let_go(connection);
            }
        }
        if let Some(stream) = stream {
            if lasting.is_some() {
                // Nobody says a word.
                let late = self.dice.millis(100, 6_000);
                self.break_stream(stream, true, late);
                self.streams[stream].node_open = false;
            } else {
                self.drop_stream(stream);
            }
        }
    }

    /// A process ends when it has given everything back.
    pub(crate) fn retire_process(&mut self, node: usize) {
        if let Some(number) = self.nodes[node].process {
            self.processes[number].retiring = true;
            self.apply(number, SessionEvent::Shutdown);
        }
    }

    /// What happens to a process that is stopped waits for it; what happens to
    /// a dead one is lost.
    pub(crate) fn happen_to(&mut self, number: usize, event: Event) {
        let node = self.processes[number].node;
        if !self.processes[number].is_alive() {
            return;
        }
        if self.nodes[node].frozen > 0 {
            let now = self.now;
            self.nodes[node].missed.push((now, event));
            return;
        }
        self.tell_time(number);
        match event {
            Event::Connected { stream, .. } => self.connected(number, stream),
            Event::Sent { stream, .. } => self.sent(number, stream),
            Event::Timer { .. } => {
                if self.processes[number].timer_at.is_some_and(|at| at <= self.now) {
                    self.processes[number].timer_at = None;
                    self.apply(number, SessionEvent::Timer);
                }
            }
            Event::Mail { .. } => self.read_mail(number),
            Event::Tidy { database, .. } => self.tidy(number, database),
            Event::Task { database, task, epoch, step, .. } => self.task(number, database, task, epoch, step),
            Event::CloseEnds { database, connection, .. } => self.close_ends(number, database, connection),
            Event::Load { .. } => self.change_load(number),
            Event::ServerWake
            | Event::CommitEnds { .. }
            | Event::Probe { .. }
            | Event::Deliver { .. }
            | Event::KeepAliveFails { .. }
            | Event::Arrives { .. }
            | Event::Frees { .. }
            | Event::Caller { .. }
            | Event::CrashLoop(_)
            | Event::Fault { .. }
            | Event::Heal { .. } => {}
        }
    }

    /// A node goes on after a stop. What it missed happens now, in any order;
    /// where the machine slept, its timers have slept as well.
    pub(crate) fn thaw_node(&mut self, node: usize, slept: bool) {
        let frozen_at = self.nodes[node].frozen_at;
        self.nodes[node].thawed_at = self.now;
        for (due, event) in std::mem::take(&mut self.nodes[node].missed) {
            let timer = matches!(event, Event::Timer { .. } | Event::Tidy { .. } | Event::Task { .. });
            let soon = self.dice.micros(0, 400);
            let left = if slept && timer { due - frozen_at } else { Duration::ZERO };
            if let (Event::Timer { process }, true) = (&event, slept) {
                self.processes[*process].timer_at = Some(self.now + left + soon);
            }
            self.after(left + soon, event);
        }
        self.flush();
    }

    /// What the process's clock shows, told to its pools.
    pub(crate) fn tell_time(&self, number: usize) -> Time {
        let process = &self.processes[number];
        let now = local(&self.nodes[process.node], self.now);
        process.pools.iter().for_each(|pool| pool.tell(now));
        now
    }

    fn apply(&mut self, number: usize, event: SessionEvent) {
        let now = self.tell_time(number);
        let mut effects = Vec::new();
        self.processes[number].session.apply(now, event, &mut effects);
        self.perform(number, effects);
    }

    fn perform(&mut self, number: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Open { stream, .. } => {
                    self.streams.push(Stream {
                        process: number,
                        id: stream,
                        up: Pipe::default(),
                        down: Pipe::default(),
                        claims: Vec::new(),
                        server: None,
                        former: false,
                        node_open: true,
                    });
                    self.processes[number].stream = Some(self.streams.len() - 1);
                    self.open_stream(number, stream);
                }
                Effect::Send(stream, message) => {
                    self.looks_true(number, &message);
                    self.say(|_| format!("    process {number} {message:?}"));
                    let Some(open) = self.current(number, stream) else { continue };
                    self.send_up(open, Parcel::Message(message));
                    if self.nodes[self.processes[number].node].stalled > 0 {
                        self.processes[number].unsent = Some(stream);
                    } else {
                        let soon = self.dice.tail(Duration::from_micros(5), 4);
                        self.after(soon, Event::Sent { process: number, stream });
                    }
                }
                Effect::Drop(stream) => {
                    if let Some(open) = self.current(number, stream) {
                        self.processes[number].stream = None;
                        self.drop_stream(open);
                    }
                }
                Effect::Finished => self.finished(number),
            }
        }
        self.plan_timer(number);
        self.empty_trays(number);
    }

    /// A process has ended in good order: the next one starts.
    fn finished(&mut self, number: usize) {
        self.empty_trays(number);
        self.nobody_is_left_waiting(number);
        let node = self.processes[number].node;
        self.kill_process(node, None);
        self.start_process(node);
    }

    fn current(&self, number: usize, id: leasehold_client::session::StreamId) -> Option<usize> {
        self.processes[number].stream.filter(|stream| self.streams[*stream].id == id)
    }

    fn plan_timer(&mut self, number: usize) {
        let process = &self.processes[number];
        if !process.is_alive() {
            return;
        }
        let node = &self.nodes[process.node];
        let due = process.session.next_timer().map(|due| node.clock.when(self.now, due.as_nanos()));
        let longest = self.now + LONGEST_SLEEP;
        let at = due.map_or(longest, |due| due.min(longest));
        if process.timer_at.is_none_or(|planned| at < planned) {
            let late = self.dice.tail(Duration::from_micros(50), 5);
            let at = at + late;
            if self.processes[number].timer_at.is_none_or(|planned| at < planned) {
                self.processes[number].timer_at = Some(at);
                self.queue.put(at, Event::Timer { process: number });
            }
        }
    }

    /// Carries out what pools want done.
    pub(crate) fn empty_trays(&mut self, number: usize) {
        for database in 0..self.plan.databases.len() {
            let tray = self.processes[number].pools[database].take_tray();
            if tray.is_empty() {
                continue;
            }
            for task in tray.wake {
                self.wake_task(number, database, task);
            }
            for connection in tray.close {
                self.start_close(number, database, connection);
            }
            if tray.report {
                self.processes[number].changed[database] = true;
                if !std::mem::replace(&mut self.processes[number].mail_planned, true) {
                    let soon = self.dice.tail(Duration::from_micros(5), 4);
                    self.after(soon, Event::Mail { process: number });
                }
            }
            if tray.upkeep {
                self.warm_up(number, database);
            }
            if tray.sever {
                self.sever_all(number, database);
            }
        }
    }

    fn read_mail(&mut self, number: usize) {
        self.processes[number].mail_planned = false;
        for database in 0..self.plan.databases.len() {
            if std::mem::replace(&mut self.processes[number].changed[database], false) {
                let name = self.nodes[self.processes[number].node].names[database].clone();
                self.apply(number, SessionEvent::Changed(name));
                if !self.processes[number].is_alive() {
                    return;
                }
            }
        }
    }

    fn connected(&mut self, number: usize, stream: leasehold_client::session::StreamId) {
        let node = &self.nodes[self.processes[number].node];
        if node.partitions > 0 {
            return;
        }
        // A process that no server has welcomed cannot tell.
        let knows = self.processes[number].session.status().generation > Generation(0);
        let former = node.former > 0;
        let answered = if former { knows } else { self.server.is_up() };
        if let Some(open) = self.current(number, stream) {
            self.streams[open].former = former;
        }
        if answered {
            self.apply(number, SessionEvent::Connected(stream));
        } else {
            self.apply(number, SessionEvent::Ended(stream, "refused".to_owned()));
        }
    }

    fn sent(&mut self, number: usize, stream: leasehold_client::session::StreamId) {
        if self.nodes[self.processes[number].node].stalled > 0 {
            self.processes[number].unsent = Some(stream);
        } else {
            self.apply(number, SessionEvent::Sent(stream));
        }
    }

    /// The transport takes messages again.
    pub(crate) fn unstall(&mut self, node: usize) {
        let Some(number) = self.nodes[node].process else { return };
        if let Some(stream) = self.processes[number].unsent.take() {
            self.after(Duration::ZERO, Event::Sent { process: number, stream });
        }
    }

    /// A message, or the end, of a stream reaches a node's process.
    pub(crate) fn node_receives(&mut self, stream: usize, parcel: Parcel<FromServer>) {
        let number = self.streams[stream].process;
        let id = self.streams[stream].id;
        if !self.processes[number].is_alive() {
            return;
        }
        match parcel {
            Parcel::Message(message) => {
                self.say(|_| format!("    to process {number} {message:?}"));
                if let FromServer::Welcome(welcome) = &message
                    && self.processes[number].stream == Some(stream)
                {
                    self.policies_told(number, welcome);
                }
                self.apply(number, SessionEvent::Received(id, message));
                self.the_right_is_fresh(number);
            }
            Parcel::End(reason) => {
                if self.streams[stream].node_open {
                    if self.processes[number].stream == Some(stream) {
                        self.processes[number].stream = None;
                    }
                    self.drop_stream(stream);
                    self.apply(number, SessionEvent::Ended(id, reason.to_owned()));
                }
            }
        }
    }

    fn tidy(&mut self, number: usize, database: usize) {
        let idle_timeout = (database == 0).then_some(Duration::from_millis(1_500));
        let pool = self.processes[number].pools[database].clone();
        pool.change(|ledger, now, effects| {
            ledger.reap(idle_timeout, |_| false, now, effects);
            ledger.settle(effects);
        });
        if !pool.read(|ledger, _| ledger.is_closed()) {
            self.after(SETTLING_PERIOD, Event::Tidy { process: number, database });
        }
        self.empty_trays(number);
    }
}

/// What a node's clock shows.
pub(crate) fn local(node: &Node, now: Moment) -> Time {
    Time::from_nanos(node.clock.read(now))
}
