//! The server: the real core in the driver's rounds. A commit takes a while; what
//! comes meanwhile waits for the next round. Knows nothing of tasks.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use leasehold_admission::{
    Admission, Claim, Core, DatabaseId, DatabaseSettings, Demand, Effect, Event as CoreEvent, Hello,
    LossPolicy, SessionId, StreamId, Time, Workloads, durable::State,
};
use leasehold_client::{
    governed::Levels,
    session::message::{
        self, DatabaseName, DatabaseTerms, FromServer, Generation, KeepAliveId, Sequence, ToServer,
    },
};

use super::{
    cell::{Cell, Knowledge, Mode},
    fleet::{Event, Fleet},
};
use crate::{
    driver::{Begun, Driver},
    time::Moment,
    translate,
};

/// How long the driver takes from the first message to the round.
const WAKING: Duration = Duration::from_micros(20);

/// How long a commit takes.
const COMMIT: Duration = Duration::from_micros(200);

const TTL: Duration = Duration::from_secs(30);

/// A node sends a keep-alive this often in a TTL.
const KEEP_ALIVES_A_TTL: u32 = 4;

const DATABASE: DatabaseId = DatabaseId(0);

/// The server.
#[derive(Debug)]
pub(super) struct Server {
    driver: Driver,
    name: DatabaseName,
    inputs: VecDeque<CoreEvent>,
    committing: bool,
    wakes_at: Option<Moment>,
}

/// The core's name of a node's session.
pub(super) fn session_id(node: usize) -> SessionId {
    SessionId(node as u128 + 1)
}

impl Server {
    pub(super) fn new(cell: &Cell) -> Server {
        let admission = match cell.mode {
            Mode::Admission(admission) => admission,
            Mode::Split => Admission::Unfair,
        };
        let settings = DatabaseSettings {
            name: Arc::from("orders"),
            watched: false,
            cap: Some(cell.cap),
            reserve: 0,
            admission,
            ttl: TTL,
            on_loss: LossPolicy::Keep,
            fence_grace: TTL,
            draining: false,
            shadow: false,
            workloads: Workloads::default(),
        };
        let core = Core::new(Time::ZERO, vec![settings], &State::default());
        Server {
            driver: Driver::new(core),
            name: DatabaseName::new("orders").expect("a short name"),
            inputs: VecDeque::new(),
            committing: false,
            wakes_at: None,
        }
    }

    /// Checks every invariant of the core from scratch.
    pub(super) fn check(&self) {
        self.driver.core.check();
    }
}

fn at_server(now: Moment) -> Time {
    Time::from_start(Duration::from_nanos(now.0))
}

impl Fleet {
    pub(super) fn server_receives(&mut self, node: usize) {
        let Some(message) = self.nodes[node].up.pop_front() else { return };
        let stream = StreamId(node as u64);
        let event = match message {
            ToServer::Hello(hello) => CoreEvent::Hello(self.hello(node, &hello)),
            ToServer::Demand(demand) => CoreEvent::Demand {
                stream,
                database: DATABASE,
                demand: self.levels(node, demand.acknowledged, demand.levels),
            },
            ToServer::KeepAlive(KeepAliveId(id)) => CoreEvent::KeepAlive { stream, id },
            ToServer::Goodbye => CoreEvent::Goodbye { stream },
        };
        self.server.inputs.push_back(event);
        self.wake_server(self.now + WAKING);
    }

    fn hello(&self, node: usize, hello: &message::Hello) -> Hello {
        let claim = |claim: &message::Demand| Claim {
            database: DATABASE,
            demand: self.levels(node, claim.acknowledged, claim.levels),
        };
        Hello {
            stream: StreamId(node as u64),
            session: session_id(node),
            node: Arc::from(hello.node.as_str()),
            workload: Arc::from(hello.workload.as_str()),
            claims: hello.claims.iter().map(claim).collect(),
        }
    }

    /// What a node says, or what is true of its holds.
    fn levels(&self, node: usize, acknowledged: Sequence, levels: Levels) -> Demand {
        let said = translate::to_core(acknowledged, levels);
        match self.cell.knowledge {
            Knowledge::Estimated => said,
            Knowledge::True => Demand { mean_hold: self.cell.hold.mean_at(node), ..said },
        }
    }

    fn wake_server(&mut self, at: Moment) {
        if self.server.wakes_at.is_none_or(|planned| at < planned) {
            self.server.wakes_at = Some(at);
            self.at(at, Event::ServerWake);
        }
    }

    pub(super) fn server_wakes(&mut self) {
        if self.server.wakes_at.is_some_and(|planned| planned > self.now) {
            return;
        }
        self.server.wakes_at = None;
        if self.server.committing {
            return;
        }
        let now = at_server(self.now);
        let Server { driver, inputs, .. } = &mut self.server;
        inputs.drain(..).for_each(|event| driver.apply(now, event));
        if driver.core.next_deadline().is_some_and(|due| due <= now) {
            driver.apply(now, CoreEvent::Tick);
        }
        match driver.begin(now) {
            Begun::Ended(effects) => self.round_ends(effects),
            Begun::Commit(_) => {
                self.server.committing = true;
                self.after(COMMIT, Event::CommitEnds);
            }
        }
    }

    pub(super) fn commit_ends(&mut self) {
        self.server.committing = false;
        let effects = self.server.driver.end(at_server(self.now), None);
        self.round_ends(effects);
    }

    fn round_ends(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.carry_out(effect);
        }
        let due = self.server.driver.due().map(|due| Moment(due.since_start().as_nanos() as u64));
        let inputs = (!self.server.inputs.is_empty()).then_some(self.now);
        if let Some(at) = [due, inputs].into_iter().flatten().min() {
            self.wake_server(at.max(self.now));
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(_) | Effect::Note(_) => {}
            Effect::Welcome { stream, welcome } => {
                let databases = welcome.terms.iter().map(|terms| DatabaseTerms {
                    database: self.server.name.clone(),
                    terms: Some(translate::terms(terms)),
                });
                let message = message::Welcome {
                    generation: Generation(1),
                    ttl: welcome.ttl,
                    keep_alive: welcome.ttl / KEEP_ALIVES_A_TTL,
                    databases: databases.collect(),
                };
                self.say(stream, FromServer::Welcome(message));
            }
            Effect::Allotment { stream, allotment, .. } => {
                let name = self.server.name.clone();
                self.say(stream, FromServer::Allotment(translate::from_core(name, allotment)));
            }
            Effect::KeepAlive { stream, id } => {
                self.say(stream, FromServer::KeepAliveReply(KeepAliveId(id)));
            }
            Effect::Close { .. } | Effect::Reply { .. } => {
                unreachable!("nobody ends or calls here: {effect:?}")
            }
        }
    }

    fn say(&mut self, stream: StreamId, message: FromServer) {
        let node = stream.0 as usize;
        self.nodes[node].down.push_back(message);
        self.after(self.cell.delay, Event::ToNode(node));
    }
}
