//! A node's machine: its clock, its stops, and what they do to the process on it.
//! Knows nothing of what that process does.

mod process;
mod session;
mod trays;

use std::time::Duration;

use leasehold_client::{clock::Time, session::message::DatabaseName};

use super::{Event, World};
use crate::{
    dice::Dice,
    time::{Clock, Moment},
};

pub(crate) use process::{Process, TASKS};

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

/// What a node's clock shows.
pub(crate) fn local(node: &Node, now: Moment) -> Time {
    Time::from_nanos(node.clock.read(now))
}

impl World {
    /// The processes that live.
    pub(crate) fn all_processes(&self) -> Vec<usize> {
        self.nodes.iter().filter_map(|node| node.process).collect()
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
            Event::Timer { .. } => self.timer_is_due(number),
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
}
