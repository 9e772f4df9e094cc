//! A process's session: what happens to it, and its effects, carried out. Knows
//! nothing of how it decides.

use std::time::Duration;

use leasehold_client::session::{
    Effect, Event as SessionEvent, StreamId,
    message::{FromServer, Generation},
};

use crate::world::{
    Event, World,
    network::{Parcel, Pipe, Stream},
};

/// Longest sleep of the task that drives a session.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

impl World {
    pub(super) fn connected(&mut self, number: usize, stream: StreamId) {
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

    pub(super) fn sent(&mut self, number: usize, stream: StreamId) {
        if self.nodes[self.processes[number].node].stalled > 0 {
            self.processes[number].unsent = Some(stream);
        } else {
            self.apply(number, SessionEvent::Sent(stream));
        }
    }

    pub(super) fn timer_is_due(&mut self, number: usize) {
        if self.processes[number].timer_at.is_some_and(|at| at <= self.now) {
            self.processes[number].timer_at = None;
            self.apply(number, SessionEvent::Timer);
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

    pub(super) fn apply(&mut self, number: usize, event: SessionEvent) {
        let now = self.tell_time(number);
        let mut effects = Vec::new();
        self.processes[number].session.apply(now, event, &mut effects);
        self.perform(number, effects);
    }

    pub(super) fn perform(&mut self, number: usize, effects: Vec<Effect>) {
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

    fn current(&self, number: usize, id: StreamId) -> Option<usize> {
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
}
