//! A small world around the core: honest nodes, streams that deliver in order
//! when told to, a store that can fail, a clock that is moved by hand. Scripts
//! drive it a line at a time.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    unused_imports,
    reason = "support of tests"
)]

mod node;
mod script;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use leasehold_admission::{
    Admission, Claim, Core, DatabaseId, DatabaseSettings, Effect, Event, Hello, LossPolicy, Note,
    Observation, Queueing, SessionId, StreamId, Time, UnaryReply, Workloads,
    durable::{Change, State},
};
pub use node::{Node, ToNode};
pub use script::{check, run};

pub const DB: DatabaseId = DatabaseId(0);

#[derive(Debug)]
pub struct World {
    pub core: Core,
    pub now: Time,
    pub settings: Vec<DatabaseSettings>,
    pub durable: State,
    pub nodes: BTreeMap<String, Node>,
    pub store_fails: bool,
    pub kept_back: Vec<Change>,
    pub commits: u32,
    pub notes: Vec<Note>,
    pub replies: Vec<(u64, UnaryReply)>,
    next_stream: u64,
    next_id: u64,
}

pub fn settings(cap: u32) -> DatabaseSettings {
    DatabaseSettings {
        name: Arc::from("orders"),
        watched: false,
        cap: Some(cap),
        reserve: 0,
        admission: Admission::Fair { quantum: Duration::from_millis(100) },
        ttl: Duration::from_secs(10),
        on_loss: LossPolicy::Fence,
        fence_grace: Duration::from_secs(5),
        draining: false,
        shadow: false,
        workloads: Workloads::default(),
    }
}

impl World {
    pub fn new(settings: DatabaseSettings) -> World {
        let settings = vec![settings];
        World {
            core: Core::new(Time::ZERO, settings.clone(), &State::default()),
            now: Time::ZERO,
            settings,
            durable: State::default(),
            nodes: BTreeMap::new(),
            store_fails: false,
            kept_back: Vec::new(),
            commits: 0,
            notes: Vec::new(),
            replies: Vec::new(),
            next_stream: 1,
            next_id: 1,
        }
    }

    /// Applies an event as the driver does: commit before send.
    pub fn apply(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.core.apply(self.now, event, &mut effects);
        self.core.check();
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let changes: Vec<Change> = effects
            .iter()
            .filter_map(
                |effect| if let Effect::Commit(change) = effect { Some(change.clone()) } else { None },
            )
            .collect();
        let mut failed = false;
        if !changes.is_empty() {
            self.kept_back.extend(changes);
            failed = self.store_fails;
            if !failed {
                self.commit();
            }
        }
        for effect in effects {
            if !(failed && effect.needs_commit()) {
                self.send(effect);
            }
        }
        if failed {
            let mut effects = Vec::new();
            self.core.apply(self.now, Event::CommitFailed, &mut effects);
            self.core.check();
            self.carry_out_after_failure(effects);
        } else if self.kept_back.is_empty() {
            let mut effects = Vec::new();
            self.core.apply(self.now, Event::Committed, &mut effects);
            self.core.check();
            if !effects.is_empty() {
                self.carry_out(effects);
            }
        }
    }

    fn carry_out_after_failure(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Commit(change) = effect {
                self.kept_back.push(change);
            } else {
                self.send(effect);
            }
        }
    }

    fn commit(&mut self) {
        self.commits += 1;
        for change in std::mem::take(&mut self.kept_back) {
            self.durable.apply(change);
        }
    }

    /// The store works again.
    pub fn mend_store(&mut self) {
        self.store_fails = false;
        self.commit();
        self.apply(Event::Committed);
    }

    fn send(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(_) => {}
            Effect::Welcome { stream, welcome } => {
                let terms = welcome.terms.first();
                let sequence = terms.map_or(0, |terms| terms.sequence);
                let quantum = terms.map_or(Duration::ZERO, |terms| terms.quantum);
                self.post(stream, ToNode::Welcome(sequence, quantum));
            }
            Effect::Allotment { stream, allotment, .. } => self.post(stream, ToNode::Allotment(allotment)),
            Effect::KeepAlive { stream, id } => self.post(stream, ToNode::KeepAlive(id)),
            Effect::Close { stream, .. } => self.post(stream, ToNode::Closed),
            Effect::Reply { ticket, reply } => self.replies.push((ticket.0, reply)),
            Effect::Note(note) => self.notes.push(note),
        }
    }

    fn post(&mut self, stream: StreamId, message: ToNode) {
        if let Some(node) = self.nodes.values_mut().find(|node| node.stream == Some(stream)) {
            node.incoming.push_back(message);
        }
    }

    /// Delivers what prompt nodes have sent and are sent, until all is quiet.
    pub fn pump(&mut self) {
        for _ in 0..1_000 {
            let busy = |node: &Node| node.prompt && !(node.incoming.is_empty() && node.outgoing.is_empty());
            let Some(name) = self.nodes.iter().find(|(_, node)| busy(node)).map(|(name, _)| name.clone())
            else {
                return;
            };
            self.deliver_to_server(&name);
            self.deliver_to_node(&name);
        }
        panic!("messages go back and forth without an end: {}", self.show());
    }

    /// A node that has said Hello.
    pub fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.get_mut(name).expect("a node that has said hello")
    }

    /// The node says Hello on a new stream, for the same session if it has one.
    pub fn hello(&mut self, name: &str) {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        let fresh = u128::from(self.next_stream);
        let now = self.now;
        let node = self.nodes.entry(name.to_owned()).or_insert_with(|| Node {
            session: fresh,
            prompt: true,
            mean_hold: Duration::from_millis(5),
            ..Node::default()
        });
        node.stream = Some(stream);
        node.welcomed = false;
        // Nothing of the old stream is read any more.
        node.incoming.clear();
        node.outgoing.clear();
        node.acknowledged = 0;
        node.unanswered = VecDeque::from([(0, now)]);
        let hello = Hello {
            stream,
            session: SessionId(node.session),
            node: Arc::from(name),
            workload: Arc::from(if node.workload.is_empty() { name } else { &node.workload }),
            claims: vec![Claim { database: DB, demand: node.demand(now) }],
        };
        node.outgoing.push_back(Event::Hello(hello));
    }

    /// The node reports its levels.
    pub fn report(&mut self, name: &str) {
        let now = self.now;
        let node = self.node(name);
        let (Some(stream), true) = (node.stream, node.welcomed) else { return };
        let demand = node.demand(now);
        node.outgoing.push_back(Event::Demand { stream, database: DB, demand });
    }

    pub fn keep_alive(&mut self, name: &str) {
        let (now, id) = (self.now, self.next_id);
        self.next_id += 1;
        let node = self.node(name);
        let (Some(stream), true) = (node.stream, node.welcomed) else { return };
        node.unanswered.push_back((id, now));
        node.outgoing.push_back(Event::KeepAlive { stream, id });
    }

    /// Everything that the node has sent arrives.
    pub fn deliver_to_server(&mut self, name: &str) {
        while self.nodes.get(name).is_some_and(|node| !node.outgoing.is_empty()) {
            self.deliver_one_to_server(name);
        }
    }

    pub fn deliver_one_to_server(&mut self, name: &str) {
        if let Some(event) = self.nodes.get_mut(name).and_then(|node| node.outgoing.pop_front()) {
            self.apply(event);
        }
    }

    /// Everything that the server has sent to the node arrives.
    pub fn deliver_to_node(&mut self, name: &str) {
        while self.nodes.get(name).is_some_and(|node| !node.incoming.is_empty()) {
            self.deliver_one_to_node(name);
        }
    }

    pub fn deliver_one_to_node(&mut self, name: &str) {
        let now = self.now;
        let ttl = self.settings[0].ttl;
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(message) = node.incoming.pop_front() else { return };
        match message {
            ToNode::Welcome(sequence, quantum) => {
                node.queueing = Queueing { quantum, full: None };
                node.acknowledged = sequence;
                node.welcomed = true;
                node.target = node.holding();
                node.recall = None;
                node.answered(0, now, ttl);
                self.report(name);
            }
            ToNode::Allotment(allotment) => {
                node.apply(allotment, now);
                self.report(name);
            }
            ToNode::KeepAlive(id) => node.answered(id, now, ttl),
            ToNode::Closed => {
                node.stream = None;
                node.welcomed = false;
            }
        }
    }

    /// The node's stream breaks; both sides notice.
    pub fn disconnect(&mut self, name: &str) {
        let node = self.node(name);
        node.incoming.clear();
        node.outgoing.clear();
        node.welcomed = false;
        if let Some(stream) = node.stream.take() {
            self.apply(Event::StreamEnded { stream });
        }
    }

    /// The node dies with everything it holds.
    pub fn kill(&mut self, name: &str) {
        if let Some(stream) = self.nodes.remove(name).and_then(|node| node.stream) {
            self.apply(Event::StreamEnded { stream });
        }
    }

    /// The server dies and starts again from its store.
    pub fn restart(&mut self) {
        self.store_fails = false;
        self.kept_back.clear();
        self.core = Core::new(self.now, self.settings.clone(), &self.durable);
        self.core.check();
        for node in self.nodes.values_mut() {
            node.stream = None;
            node.welcomed = false;
            node.incoming.clear();
            node.outgoing.clear();
        }
    }

    /// Time passes in steps, as in a driver that is called when it asks for it.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let due = self.core.next_deadline().map_or(end, |due| due.min(end));
            self.now = due.max(self.now + Duration::from_micros(1));
            for node in self.nodes.values_mut() {
                node.mind_deadline(self.now);
            }
            self.apply(Event::Tick);
            self.pump();
        }
    }

    pub fn observe(&mut self, max_connections: u32, fleet: u32, others: u32) {
        self.apply(Event::ObservationStarts { database: DB });
        self.pass(Duration::from_millis(200));
        let (sent, uptime) = (self.now, self.now.since_start());
        let observation = Observation { sent, max_connections, uptime, fleet, others };
        self.apply(Event::Observed { database: DB, observation });
        self.pass(Duration::from_millis(300));
    }

    /// Tokens that nodes hold, as they themselves see it.
    pub fn truly_held(&self) -> u32 {
        self.nodes.values().map(Node::holding).sum()
    }

    pub fn show(&self) -> String {
        let nodes: Vec<String> =
            self.nodes.iter().map(|(name, node)| format!("{name}={}", node.holding())).collect();
        let view = &self.core.databases(self.now)[0];
        format!("{} held={} free={}", nodes.join(" "), view.held, view.free).trim().to_owned()
    }
}
