//! A process of a node, from its start to its end. Knows nothing of what its
//! session and its tasks do.

use std::{sync::Arc, time::Duration};

use leasehold_client::session::{Event as SessionEvent, Identity, Session, StreamId, message::SessionId};

use super::local;
use crate::{
    pool::Pool,
    time::Moment,
    world::{Event, World, rights::Right, server::session_id, tasks::Task},
};

/// Most tasks of a pool that ask for connections.
pub(crate) const TASKS: usize = 10;

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
    pub(super) stream: Option<usize>,
    pub(super) timer_at: Option<Moment>,
    pub(super) changed: Vec<bool>,
    pub(super) mail_planned: bool,
    /// A message that the transport does not take.
    pub(super) unsent: Option<StreamId>,
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

    /// A process has ended in good order: the next one starts.
    pub(super) fn finished(&mut self, number: usize) {
        self.empty_trays(number);
        self.nobody_is_left_waiting(number);
        let node = self.processes[number].node;
        self.kill_process(node, None);
        self.start_process(node);
    }
}
