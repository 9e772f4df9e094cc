//! A fleet in one cell, and the loop that lets it happen. What the nodes do is in
//! `node`, what the server does in `server`. Knows nothing of figures but that a
//! meter looks on.

use std::time::Duration;

use super::{
    cell::{Cell, Change, Source},
    demand::{PHASE, Parts},
    meter::{Figures, Meter},
    node::Node,
    server::Server,
};
use crate::{dice::Dice, queue::Queue, time::Moment};

/// Time for all to get what they are due before anything counts.
const WARM_UP: Duration = Duration::from_secs(2);

/// How often the meter looks at what nodes hold.
const LOOK: Duration = Duration::from_millis(2);

/// Something that is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The server's driver looks for something to do.
    ServerWake,
    /// A commit ends.
    CommitEnds,
    /// The first message under way to the server arrives from a node.
    ToServer(usize),
    /// The first message under way to a node arrives.
    ToNode(usize),
    /// A node's stream is open.
    Connected(usize),
    /// A node's transport has taken its message.
    Sent(usize),
    /// A session's timer.
    Timer(usize),
    /// A pool looks after itself.
    Tidy(usize),
    /// A node's close ends.
    Closed(usize),
    /// A task's connect ends.
    Opened { node: usize, task: usize },
    /// A task is done with its connection.
    Returns { node: usize, task: usize },
    /// A task comes by chance, unless the demand has changed since.
    Comes { node: usize, epoch: u32 },
    /// The parts of the demand move on.
    Shift,
    /// A node's burst begins or ends.
    Turn(usize),
    /// The meter looks at what nodes hold.
    Look,
}

/// Everything that takes part.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) cell: Cell,
    pub(super) now: Moment,
    pub(super) dice: Dice,
    pub(super) server: Server,
    pub(super) nodes: Vec<Node>,
    pub(super) meter: Meter,
    pub(super) parts: Parts,
    queue: Queue<Event>,
}

/// Lets a cell happen and returns what was measured. The same seed gives the same
/// figures.
pub fn measure(cell: &Cell, seed: u64) -> Figures {
    let mut fleet = Fleet::new(*cell, seed);
    let end = Moment(0) + WARM_UP + cell.lasts;
    fleet.start();
    while let Some((at, event)) = fleet.queue.take().filter(|(at, _)| *at < end) {
        fleet.now = at;
        fleet.happen(event);
    }
    fleet.server.check();
    // Where some hold for longer than others, a part of the tasks is no part of the work.
    let due = fleet.parts.steady().filter(|_| cell.hold.long.is_none());
    fleet.meter.figures(end, due)
}

impl Fleet {
    fn new(cell: Cell, seed: u64) -> Fleet {
        let mut dice = Dice::new(seed, 5);
        Fleet {
            cell,
            now: Moment(0),
            server: Server::new(&cell),
            nodes: (0..cell.nodes).map(|node| Node::new(&cell, node, &mut dice)).collect(),
            meter: Meter::new(cell.nodes, cell.cap, Moment(0) + WARM_UP),
            parts: Parts::new(&cell.demand, cell.nodes),
            queue: Queue::default(),
            dice,
        }
    }

    pub(super) fn after(&mut self, time: Duration, event: Event) {
        self.queue.put(self.now + time, event);
    }

    pub(super) fn at(&mut self, at: Moment, event: Event) {
        self.queue.put(at.max(self.now), event);
    }

    fn start(&mut self) {
        for node in 0..self.cell.nodes {
            self.start_node(node);
        }
        match self.cell.demand.change {
            Change::Steady => {}
            Change::Moving => self.after(PHASE, Event::Shift),
            Change::Bursty => {
                for node in 0..self.cell.nodes {
                    self.turn(node);
                }
            }
        }
        for node in 0..self.cell.nodes {
            self.demand_changed(node);
        }
        self.after(LOOK, Event::Look);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ServerWake => self.server_wakes(),
            Event::CommitEnds => self.commit_ends(),
            Event::ToServer(node) => self.server_receives(node),
            Event::ToNode(node) => self.node_receives(node),
            Event::Connected(node) => self.connected(node),
            Event::Sent(node) => self.sent(node),
            Event::Timer(node) => self.timer(node),
            Event::Tidy(node) => self.tidy(node),
            Event::Closed(node) => self.closed(node),
            Event::Opened { node, task } => self.opened(node, task),
            Event::Returns { node, task } => self.returns(node, task),
            Event::Comes { node, epoch } => self.comes(node, epoch),
            Event::Shift => {
                self.parts.shift();
                (0..self.cell.nodes).for_each(|node| self.demand_changed(node));
                self.after(PHASE, Event::Shift);
            }
            Event::Turn(node) => {
                self.turn(node);
                self.demand_changed(node);
            }
            Event::Look => {
                self.meter.look(self.now, self.nodes.iter().map(Node::looks));
                self.after(LOOK, Event::Look);
            }
        }
    }

    fn turn(&mut self, node: usize) {
        let lasts = self.parts.turn(node, &mut self.dice);
        self.after(lasts, Event::Turn(node));
    }

    /// Tasks begin, or are not followed by others, so that there are as many as
    /// there are to be now.
    fn demand_changed(&mut self, node: usize) {
        let part = self.parts.of(node);
        match self.cell.demand.source {
            Source::Closed(tasks) => {
                let tasks = tasks * f64::from(self.cell.cap) * part;
                // A node that asks for anything has a task.
                self.set_tasks(node, if part > 0.0 { tasks.round().max(1.0) as usize } else { 0 });
            }
            Source::Open(_) => {
                self.nodes[node].epoch += 1;
                self.plan_arrival(node);
            }
        }
    }

    /// The next task that comes by chance to a node.
    pub(super) fn plan_arrival(&mut self, node: usize) {
        let Source::Open(load) = self.cell.demand.source else { return };
        let tokens = load * f64::from(self.cell.cap) * self.parts.of(node);
        if tokens > 0.0 {
            let between = self.cell.hold.mean_at(node).div_f64(tokens);
            let time = self.dice.exponential(between);
            self.after(time, Event::Comes { node, epoch: self.nodes[node].epoch });
        }
    }
}
