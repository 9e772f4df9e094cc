//! The world: everything that takes part, and the loop that lets it happen one
//! step at a time. What happens is in the files below; what must be true
//! afterwards in `check`. Knows nothing of why a history is played.

mod account;
mod books;
mod callers;
mod calm;
mod check;
mod crashes;
mod faults;
mod former;
mod last;
mod network;
mod node;
mod probe;
mod reports;
mod rights;
mod server;
mod sight;
mod tasks;

use std::time::Duration;

use crate::{
    database::Databases, dice::Dice, fault::Fault, plan::Plan, queue::Queue, store::FaultyStore, time::Moment,
};

use self::{
    account::Ledgers,
    callers::{Caller, CallerStep},
    crashes::CrashStep,
    network::{Side, Stream},
    node::{Node, Process},
    probe::{Probe, ProbeStep},
    server::Server,
    sight::Sight,
    tasks::TaskStep,
};

/// Something that is due.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The server's driver looks for something to do.
    ServerWake,
    /// A commit ends.
    CommitEnds { server: u32 },
    /// The probe takes its next step.
    Probe { server: u32, database: usize, step: ProbeStep },
    /// The first message in a stream's pipe arrives.
    Deliver { stream: usize, to: Side },
    /// The server's or the node's transport gives a stream up.
    KeepAliveFails { stream: usize, at: Side },
    /// A stream could be opened, or not.
    Connected { process: usize, stream: leasehold_client::session::StreamId },
    /// The transport has taken a session's message.
    Sent { process: usize, stream: leasehold_client::session::StreamId },
    /// A session's timer.
    Timer { process: usize },
    /// A pool has told its session that levels changed.
    Mail { process: usize },
    /// A pool looks after itself.
    Tidy { process: usize, database: usize },
    /// Something happens to a task.
    Task { process: usize, database: usize, task: usize, epoch: u32, step: TaskStep },
    /// A connection reaches its database.
    Arrives { connection: usize, database: usize, task: usize, epoch: u32 },
    /// The client's part of a close ends.
    CloseEnds { process: usize, database: usize, connection: usize },
    /// A connection's slot is freed.
    Frees { connection: usize },
    /// How much a node works changes.
    Load { process: usize },
    /// The server dies again, or starts.
    CrashLoop(CrashStep),
    /// Something happens to a unary caller.
    Caller { caller: usize, epoch: u32, step: CallerStep },
    /// The next fault.
    Fault { number: usize },
    /// A fault ends.
    Heal { number: usize },
}

/// Everything that takes part.
#[derive(Debug)]
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Moment,
    pub(crate) queue: Queue<Event>,
    pub(crate) dice: Dice,
    pub(crate) steps: u64,
    /// Messages put into pipes.
    pub(crate) messages: u64,
    pub(crate) server: Server,
    pub(crate) store: FaultyStore,
    pub(crate) probes: Vec<Probe>,
    pub(crate) databases: Databases,
    pub(crate) nodes: Vec<Node>,
    /// Every process that ever was, by its number.
    pub(crate) processes: Vec<Process>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) callers: Vec<Caller>,
    pub(crate) ledgers: Ledgers,
    pub(crate) sights: Vec<Sight>,
    /// Faults that are left out.
    without: Vec<usize>,
    /// Faults that were done, with their numbers and moments.
    pub(crate) done: Vec<(usize, Moment, Fault)>,
    /// Those of them that have not ended.
    pub(crate) active: Vec<usize>,
    /// No more faults.
    pub(crate) calm: bool,
    /// Prints what happens.
    pub(crate) trace: bool,
}

impl World {
    /// The world of a plan, at its start. Faults with the numbers `without` do
    /// not happen.
    pub fn new(plan: Plan, without: Vec<usize>, trace: bool) -> World {
        let seed = plan.seed;
        let databases = Databases::new(plan.databases.iter().map(|database| database.max_connections));
        let mut dice = Dice::new(seed, 3);
        let mut world = World {
            now: Moment(0),
            queue: Queue::default(),
            steps: 0,
            messages: 0,
            server: Server::new(&mut dice),
            store: FaultyStore::new(seed),
            probes: plan.databases.iter().map(|_| Probe::default()).collect(),
            databases,
            nodes: (0..plan.nodes).map(|_| Node::new(&mut dice)).collect(),
            processes: Vec::new(),
            streams: Vec::new(),
            callers: Caller::all(&mut dice),
            ledgers: Ledgers::new(&plan),
            sights: plan.databases.iter().map(|_| Sight::default()).collect(),
            without,
            done: Vec::new(),
            active: Vec::new(),
            calm: false,
            trace,
            dice,
            plan,
        };
        world.start_server();
        for node in 0..world.plan.nodes {
            world.start_process(node);
        }
        world.start_callers();
        world.plan_fault(0);
        world
    }

    /// Takes steps until `steps` were taken.
    pub fn run(&mut self, steps: u64) {
        while self.steps < steps && self.step() {}
    }

    /// Takes steps for so much true time.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.queue.next().is_some_and(|next| next <= end) && self.step() {}
        self.now = end;
    }

    /// Takes steps until `done`, at most for `bound`. False: it was not done.
    pub(crate) fn pass_until(&mut self, bound: Duration, done: impl Fn(&World) -> bool) -> bool {
        let end = self.now + bound;
        while !done(self) {
            if self.queue.next().is_none_or(|next| next > end) {
                return false;
            }
            self.step();
        }
        true
    }

    fn step(&mut self) -> bool {
        let Some((at, event)) = self.queue.take() else { return false };
        self.now = at.max(self.now);
        self.steps += 1;
        if self.trace {
            self.say(|_| format!("{event:?}"));
        }
        self.happen(event);
        self.check();
        true
    }

    pub(crate) fn after(&mut self, time: Duration, event: Event) {
        self.queue.put(self.now + time, event);
    }

    pub(crate) fn say(&self, what: impl FnOnce(&World) -> String) {
        if self.trace {
            eprintln!("{} {}", self.now, what(self));
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ServerWake => self.server_wakes(),
            Event::CommitEnds { server } => self.commit_ends(server),
            Event::Probe { server, database, step } => self.probe(server, database, step),
            Event::Deliver { stream, to } => self.deliver(stream, to),
            Event::KeepAliveFails { stream, at } => self.keep_alive_fails(stream, at),
            Event::Fault { number } => self.fault(number),
            Event::Heal { number } => self.heal(number),
            Event::Arrives { connection, database, task, epoch } => {
                self.arrives(connection, database, task, epoch);
            }
            Event::Frees { connection } => self.databases.free(connection),
            Event::CrashLoop(step) => self.crash_step(step),
            Event::Caller { caller, epoch, step } => self.caller(caller, epoch, step),
            Event::Connected { process, .. }
            | Event::Sent { process, .. }
            | Event::Timer { process }
            | Event::Mail { process }
            | Event::Tidy { process, .. }
            | Event::Task { process, .. }
            | Event::CloseEnds { process, .. }
            | Event::Load { process } => self.happen_to(process, event),
        }
    }
}
