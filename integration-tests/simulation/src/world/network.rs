//! Streams between nodes and the server: two pipes each, in order within a
//! pipe, in no order between streams. A partition holds everything back; a
//! broken stream loses what is under way, and its ends notice at different
//! times. Knows nothing of what messages mean.

use std::{collections::VecDeque, time::Duration};

use leasehold_admission as core;
use leasehold_client::session::{
    self,
    message::{FromServer, ToServer},
};

use super::{Event, World};
use crate::time::Moment;

/// How long a transport waits for a dead peer.
const KEEP_ALIVE: Duration = Duration::from_secs(6);

/// One side of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The server's.
    Server,
    /// The node's.
    Node,
}

/// What travels in a pipe.
#[derive(Clone, Debug)]
pub(crate) enum Parcel<M> {
    Message(M),
    End(&'static str),
}

/// One direction of a stream.
#[derive(Debug)]
pub(crate) struct Pipe<M> {
    queue: VecDeque<(Moment, Parcel<M>)>,
    armed: bool,
    /// What is put in is lost.
    cut: bool,
}

impl<M> Default for Pipe<M> {
    fn default() -> Self {
        Pipe { queue: VecDeque::new(), armed: false, cut: false }
    }
}

impl<M> Pipe<M> {
    /// Puts something in; it arrives no sooner than what is before it. True
    /// when its arrival is to be planned.
    fn put(&mut self, at: Moment, parcel: Parcel<M>) -> Option<Moment> {
        if self.cut {
            return None;
        }
        let at = self.queue.back().map_or(at, |(before, _)| at.max(*before));
        self.queue.push_back((at, parcel));
        self.arm()
    }

    fn arm(&mut self) -> Option<Moment> {
        if self.armed {
            return None;
        }
        let next = self.queue.front().map(|(at, _)| *at);
        self.armed = next.is_some();
        next
    }
}

/// A stream of a session.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) process: usize,
    pub(crate) id: session::StreamId,
    pub(crate) up: Pipe<ToServer>,
    pub(crate) down: Pipe<FromServer>,
    /// What was claimed on it, by database.
    pub(crate) claims: Vec<u32>,
    /// The server process that has it open.
    pub(crate) server: Option<u32>,
    /// A former server has it open.
    pub(crate) former: bool,
    /// The node reads it.
    pub(crate) node_open: bool,
}

impl World {
    /// The core's name of a stream.
    pub(crate) fn core_stream(stream: usize) -> core::StreamId {
        core::StreamId(stream as u64 + 1)
    }

    /// The stream of a core's name.
    pub(crate) fn stream_of(stream: core::StreamId) -> usize {
        stream.0 as usize - 1
    }

    /// Time for one message between a node and the server.
    pub(crate) fn delay(&mut self, node: usize) -> Duration {
        let base = self.plan.delay;
        let usual = self.dice.tail(base, 3);
        if self.nodes[node].slow == 0 { usual } else { usual + self.dice.millis(1, 400) }
    }

    pub(crate) fn send_up(&mut self, stream: usize, parcel: Parcel<ToServer>) {
        let at = self.now + self.delay_of(stream);
        self.messages += 1;
        if let Some(at) = self.streams[stream].up.put(at, parcel) {
            self.queue.put(at, Event::Deliver { stream, to: Side::Server });
        }
    }

    pub(crate) fn send_down(&mut self, stream: usize, parcel: Parcel<FromServer>) {
        let at = self.now + self.delay_of(stream);
        self.messages += 1;
        if let Some(at) = self.streams[stream].down.put(at, parcel) {
            self.queue.put(at, Event::Deliver { stream, to: Side::Node });
        }
    }

    fn delay_of(&mut self, stream: usize) -> Duration {
        let node = self.processes[self.streams[stream].process].node;
        self.delay(node)
    }

    /// The first message of a pipe arrives, if anybody can take it. Whoever is
    /// partitioned or stopped gets it later.
    pub(crate) fn deliver(&mut self, stream: usize, to: Side) {
        let process = self.streams[stream].process;
        let node = &self.nodes[self.processes[process].node];
        let waits = node.partitions > 0
            || match to {
                Side::Server => self.server.frozen > 0,
                Side::Node => node.frozen > 0 && node.process == Some(process),
            };
        match to {
            Side::Server => self.streams[stream].up.armed = false,
            Side::Node => self.streams[stream].down.armed = false,
        }
        if waits {
            return;
        }
        match to {
            Side::Server => {
                match self.streams[stream].up.queue.pop_front() {
                    Some((_, parcel)) if self.streams[stream].former => self.former_receives(stream, parcel),
                    Some((_, parcel)) => self.server_receives(stream, parcel),
                    None => {}
                }
                if let Some(at) = self.streams[stream].up.arm() {
                    self.queue.put(at, Event::Deliver { stream, to });
                }
            }
            Side::Node => {
                if let Some((_, parcel)) = self.streams[stream].down.queue.pop_front() {
                    self.node_receives(stream, parcel);
                }
                if let Some(at) = self.streams[stream].down.arm() {
                    self.queue.put(at, Event::Deliver { stream, to });
                }
            }
        }
    }

    /// What was held back flows again.
    pub(crate) fn flush(&mut self) {
        for stream in 0..self.streams.len() {
            if let Some(at) = self.streams[stream].up.arm() {
                self.queue.put(at, Event::Deliver { stream, to: Side::Server });
            }
            if let Some(at) = self.streams[stream].down.arm() {
                self.queue.put(at, Event::Deliver { stream, to: Side::Node });
            }
        }
    }

    /// Begins to open a stream. What comes of it depends on what is there when
    /// the server answers.
    pub(crate) fn open_stream(&mut self, process: usize, id: session::StreamId) {
        let node = self.processes[process].node;
        let time = self.delay(node) + self.delay(node);
        self.after(time, Event::Connected { process, stream: id });
    }

    /// The node gives a stream up. The server hears of it behind what is under
    /// way, or what is under way is lost.
    pub(crate) fn drop_stream(&mut self, stream: usize) {
        if !std::mem::replace(&mut self.streams[stream].node_open, false) {
            return;
        }
        if self.dice.chance(300) {
            self.streams[stream].up.queue.clear();
        }
        self.send_up(stream, Parcel::End("the node ended the stream"));
        self.streams[stream].up.cut = true;
    }

    /// The server ends a stream.
    pub(crate) fn end_stream(&mut self, stream: usize, reason: &'static str) {
        self.streams[stream].server = None;
        self.send_down(stream, Parcel::End(reason));
        self.streams[stream].down.cut = true;
    }

    /// A stream breaks: what is under way is lost, one side notices soon, the
    /// other one after `later`.
    pub(crate) fn break_stream(&mut self, stream: usize, server_last: bool, later: Duration) {
        let open = &mut self.streams[stream];
        (open.up.queue, open.down.queue) = (VecDeque::new(), VecDeque::new());
        (open.up.cut, open.down.cut) = (true, true);
        let soon = self.dice.millis(0, 20);
        let (server, node) = if server_last { (later, soon) } else { (soon, later) };
        self.after(server, Event::KeepAliveFails { stream, at: Side::Server });
        self.after(node, Event::KeepAliveFails { stream, at: Side::Node });
    }

    /// A node reaches the true server again: the former one is gone.
    pub(crate) fn no_former(&mut self, node: usize) {
        self.nodes[node].former -= 1;
        if self.nodes[node].former > 0 {
            return;
        }
        for stream in 0..self.streams.len() {
            let open = &self.streams[stream];
            if open.former && open.node_open && self.processes[open.process].node == node {
                self.end_stream(stream, "the former server is gone");
            }
        }
    }

    /// The newest stream of a node breaks, if it has one.
    pub(crate) fn break_newest_stream(&mut self, node: usize, server_last: bool, later: Duration) {
        let process = self.nodes[node].process;
        let open = |stream: &Stream| Some(stream.process) == process && stream.node_open;
        if let Some(stream) = self.streams.iter().rposition(open) {
            self.break_stream(stream, server_last, later);
        }
    }

    /// Nothing passes between a node and the server from now on: the transports
    /// find out after a while.
    pub(crate) fn cut_off(&mut self, node: usize) {
        self.nodes[node].partitions += 1;
        for stream in 0..self.streams.len() {
            let open = &self.streams[stream];
            if self.processes[open.process].node == node && (open.server.is_some() || open.node_open) {
                let (server, node) = (self.dice.millis(0, 500), self.dice.millis(0, 500));
                self.after(KEEP_ALIVE + server, Event::KeepAliveFails { stream, at: Side::Server });
                self.after(KEEP_ALIVE + node, Event::KeepAliveFails { stream, at: Side::Node });
            }
        }
    }

    /// One partition of a node is over.
    pub(crate) fn no_longer_cut_off(&mut self, node: usize) {
        self.nodes[node].partitions -= 1;
        if self.nodes[node].partitions == 0 {
            self.flush();
        }
    }

    /// A transport gives a stream up, if it has reason to.
    pub(crate) fn keep_alive_fails(&mut self, stream: usize, at: Side) {
        let broken = &self.streams[stream];
        let parted = self.nodes[self.processes[broken.process].node].partitions > 0;
        let cut = broken.up.cut && broken.down.cut;
        if !parted && !cut {
            return;
        }
        let stopped = match at {
            Side::Server => self.server.frozen > 0,
            Side::Node => self.nodes[self.processes[self.streams[stream].process].node].frozen > 0,
        };
        if stopped {
            // It finds out later.
            self.after(Duration::from_millis(100), Event::KeepAliveFails { stream, at });
            return;
        }
        match at {
            Side::Server => {
                self.streams[stream].up.queue.clear();
                self.streams[stream].up.cut = true;
                self.server_receives(stream, Parcel::End("broken"));
            }
            Side::Node => {
                self.streams[stream].down.queue.clear();
                self.streams[stream].down.cut = true;
                self.node_receives(stream, Parcel::End("broken"));
            }
        }
    }
}
