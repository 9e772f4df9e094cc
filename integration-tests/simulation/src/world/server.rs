//! The server's process: its driver, the streams it has open, its death and its
//! return. Knows nothing of what the core decides.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use leasehold_admission::{
    self as core, Claim, Close, Core, DatabaseId, DatabaseSettings, Effect, Event as CoreEvent, Hello, Note,
    SessionId, Time, Welcome, durable::Change,
};
use leasehold_client::session::message::{
    self, DatabaseName, DatabaseTerms, FromServer, Generation, KeepAliveId, ToServer,
};

use super::{Event, World, crashes::CrashLoop, network::Parcel};
use crate::{
    dice::Dice,
    driver::{Begun, Driver},
    store::Attempt,
    time::{Clock, Moment},
    translate,
};

/// A node sends a keep-alive this often in a TTL.
const KEEP_ALIVES_A_TTL: u32 = 4;

/// The core checks itself from scratch once in so many passes.
const PASSES_A_CHECK: u64 = 32;

/// The server, dead or alive.
#[derive(Debug)]
pub(crate) struct Server {
    /// Number of its process.
    pub(crate) number: u32,
    pub(crate) driver: Option<Driver>,
    pub(crate) clock: Clock,
    /// What its clock showed at its start.
    started: u64,
    pub(crate) generation: u64,
    /// What has come and waits for the driver.
    pub(crate) inputs: VecDeque<Input>,
    committing: Option<Attempt>,
    /// How often it was stopped and not continued.
    pub(crate) frozen: u32,
    /// What it should have noticed meanwhile.
    pub(crate) missed: Vec<Event>,
    wakes_at: Option<Moment>,
    passes: u64,
    pub(crate) settings: Vec<DatabaseSettings>,
    pub(crate) last_leap: Moment,
    pub(crate) crash_loop: Option<CrashLoop>,
}

/// One thing for the driver to take.
#[derive(Debug)]
pub(crate) enum Input {
    Core(CoreEvent),
    OnStream(usize, CoreEvent),
}

impl Server {
    pub(crate) fn new(dice: &mut Dice) -> Server {
        Server {
            number: 0,
            driver: None,
            clock: Clock::skewed(dice, 0),
            started: 0,
            generation: 0,
            inputs: VecDeque::new(),
            committing: None,
            frozen: 0,
            missed: Vec::new(),
            wakes_at: None,
            passes: 0,
            settings: Vec::new(),
            last_leap: Moment(0),
            crash_loop: None,
        }
    }

    /// Time since its start, as its driver knows it.
    pub(crate) fn now(&self, now: Moment) -> Time {
        Time::from_start(Duration::from_nanos(self.clock.read(now) - self.started))
    }

    pub(crate) fn is_up(&self) -> bool {
        self.driver.is_some()
    }

    fn when(&self, now: Moment, due: Time) -> Moment {
        self.clock.when(now, self.started + due.since_start().as_nanos() as u64)
    }
}

/// The core's name of a process's session.
pub(crate) fn session_id(process: usize) -> SessionId {
    SessionId(process as u128 + 1)
}

/// The process of a session, if it is a node's.
pub(crate) fn process_of(session: SessionId) -> Option<usize> {
    (session.0 < 1 << 64).then(|| session.0 as usize - 1)
}

impl World {
    /// The server starts from what its store has kept.
    pub(crate) fn start_server(&mut self) {
        if self.server.is_up() {
            return;
        }
        let recovered = self.store.load();
        if self.server.settings.is_empty() {
            self.server.settings = self.plan.databases.iter().map(|plan| plan.settings.clone()).collect();
        }
        let server = &mut self.server;
        server.number += 1;
        server.started = server.clock.read(self.now);
        server.generation = recovered.generation + 1;
        let core = Core::new(Time::ZERO, server.settings.clone(), &recovered);
        server.driver = Some(Driver::new(core));
        for (ledger, settings) in self.ledgers.all.iter_mut().zip(&server.settings) {
            ledger.cap = u64::from(settings.cap.unwrap_or(u32::MAX));
        }
        // It does not serve before its generation is durable.
        let mut attempt = self.store.attempt(vec![Change::Generation(server.generation)]);
        (attempt.takes, attempt.succeeds) = (Duration::ZERO, true);
        drop(self.store.end(attempt));
        self.start_probes();
        self.server_looks();
    }

    /// It dies, with everything that is not durable.
    pub(crate) fn kill_server(&mut self) {
        let Some(dead) = self.server.driver.take() else { return };
        if let Some(attempt) = self.server.committing.take() {
            self.store.torn(attempt);
            self.store_changed();
            self.last_given_up(&dead.core);
        }
        self.server.inputs.clear();
        self.server.missed.clear();
        self.server.wakes_at = None;
        for stream in 0..self.streams.len() {
            if self.streams[stream].server.is_some() {
                self.end_stream(stream, "the server is gone");
            }
        }
        self.calls_die();
        self.nobody_is_attached();
        self.nothing_was_asked();
    }

    pub(crate) fn put_input(&mut self, input: Input) {
        if self.server.is_up() {
            self.server.inputs.push_back(input);
            let soon = self.dice.micros(1, 60);
            self.wake_server(self.now + soon);
        }
    }

    fn wake_server(&mut self, at: Moment) {
        if self.server.wakes_at.is_none_or(|planned| at < planned) {
            self.server.wakes_at = Some(at);
            self.queue.put(at, Event::ServerWake);
        }
    }

    /// Plans the next look.
    fn server_looks(&mut self) {
        let Some(driver) = &self.server.driver else { return };
        let due = driver.due().map(|due| self.server.when(self.now, due));
        let at_once = (!self.server.inputs.is_empty()).then_some(self.now);
        if let Some(at) = [due, at_once].into_iter().flatten().min() {
            let late = self.dice.micros(1, 200);
            self.wake_server(at + late);
        }
    }

    pub(crate) fn server_wakes(&mut self) {
        if self.server.frozen > 0 {
            self.server.missed.push(Event::ServerWake);
            return;
        }
        if self.server.wakes_at.is_some_and(|planned| planned > self.now) {
            return;
        }
        self.server.wakes_at = None;
        if self.server.committing.is_some() || !self.server.is_up() {
            return;
        }
        let now = self.server.now(self.now);
        while let Some(input) = self.server.inputs.pop_front() {
            self.take(now, input);
        }
        let Some(driver) = &mut self.server.driver else { return };
        if driver.core.next_deadline().is_some_and(|due| due <= now) {
            driver.apply(now, CoreEvent::Tick);
            self.ticked(now);
        }
        let Some(driver) = &mut self.server.driver else { return };
        match driver.begin(now) {
            Begun::Ended(effects) => self.pass_ends(effects),
            Begun::Commit(changes) => {
                let attempt = self.store.attempt(changes);
                self.after(attempt.takes, Event::CommitEnds { server: self.server.number });
                self.server.committing = Some(attempt);
            }
        }
    }

    pub(crate) fn commit_ends(&mut self, server: u32) {
        if server != self.server.number {
            return;
        }
        if self.server.frozen > 0 {
            self.server.missed.push(Event::CommitEnds { server });
            return;
        }
        let Some(attempt) = self.server.committing.take() else { return };
        let left = self.store.end(attempt);
        self.store_changed();
        let now = self.server.now(self.now);
        let Some(driver) = &mut self.server.driver else { return };
        let effects = driver.end(now, left);
        self.pass_ends(effects);
    }

    fn pass_ends(&mut self, effects: Vec<Effect>) {
        self.server.passes += 1;
        if let Some(driver) =
            self.server.driver.as_ref().filter(|_| self.server.passes.is_multiple_of(PASSES_A_CHECK))
        {
            driver.core.check();
        }
        for effect in effects {
            self.carry_out(effect);
        }
        self.core_changed();
        self.server_looks();
    }

    fn take(&mut self, now: Time, input: Input) {
        let event = match input {
            Input::Core(event) => event,
            Input::OnStream(stream, event) => {
                // The driver knows of no stream that it has closed.
                if self.streams[stream].server != Some(self.server.number) {
                    return;
                }
                let process = self.streams[stream].process;
                self.processes[process].right.heard_at = self.now;
                event
            }
        };
        self.heard(now, &event);
        if let Some(driver) = &mut self.server.driver {
            driver.apply(now, event);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        self.say(|_| format!("    {effect:?}"));
        match effect {
            Effect::Note(Note::OverClaimed { database, .. }) => {
                self.sights[database.0 as usize].overclaimed();
            }
            Effect::Commit(_) | Effect::Note(_) => {}
            Effect::Welcome { stream, welcome } => self.say_welcome(World::stream_of(stream), &welcome),
            Effect::Allotment { stream, database, allotment, .. } => {
                let message = FromServer::Allotment(translate::from_core(self.name(database), allotment));
                self.say_down(World::stream_of(stream), message);
            }
            Effect::KeepAlive { stream, id } => {
                self.say_down(World::stream_of(stream), FromServer::KeepAliveReply(KeepAliveId(id)));
            }
            Effect::Close { stream, reason } => {
                let stream = World::stream_of(stream);
                self.detached(stream);
                match reason {
                    Close::Expired | Close::Evicted | Close::Unknown => {
                        self.say_down(stream, FromServer::Gone(format!("{reason:?}")));
                    }
                    Close::Superseded | Close::Ended | Close::StoreUnavailable => {}
                }
                if self.streams[stream].server.is_some() {
                    self.end_stream(stream, "the server ended the stream");
                }
            }
            Effect::Reply { ticket, reply } => self.reply(ticket, reply),
        }
    }

    fn say_down(&mut self, stream: usize, message: FromServer) {
        if self.streams[stream].server.is_some() {
            self.send_down(stream, Parcel::Message(message));
        }
    }

    fn say_welcome(&mut self, stream: usize, welcome: &Welcome) {
        let open = &self.streams[stream];
        // Another one may have taken its place before the commit ended.
        if open.server.is_some() && self.processes[open.process].attached == Some(stream) {
            self.the_claim_is_counted(open.process, &open.claims);
        }
        let databases = welcome.terms.iter().map(|terms| DatabaseTerms {
            database: self.name(terms.database),
            terms: Some(translate::terms(terms)),
        });
        let message = message::Welcome {
            generation: Generation(self.server.generation),
            ttl: welcome.ttl,
            keep_alive: welcome.ttl / KEEP_ALIVES_A_TTL,
            databases: databases.collect(),
        };
        self.say_down(stream, FromServer::Welcome(message));
    }

    /// A message, or the end, of a stream reaches the server's process.
    pub(crate) fn server_receives(&mut self, stream: usize, parcel: Parcel<ToServer>) {
        let id = World::core_stream(stream);
        if !self.server.is_up() {
            return;
        }
        let message = match parcel {
            Parcel::Message(message) => message,
            Parcel::End(_) => {
                if self.streams[stream].server == Some(self.server.number) {
                    self.put_input(Input::OnStream(stream, CoreEvent::StreamEnded { stream: id }));
                }
                return;
            }
        };
        if let ToServer::Hello(hello) = &message {
            self.streams[stream].server = Some(self.server.number);
            self.streams[stream].claims = hello.claims.iter().map(|claim| claim.levels.holding).collect();
            let event = CoreEvent::Hello(self.hello_to_core(id, hello));
            self.put_input(Input::OnStream(stream, event));
            return;
        }
        // A stream that another process of the server had open.
        if self.streams[stream].server != Some(self.server.number) {
            return;
        }
        let event = match message {
            ToServer::Hello(_) => return,
            ToServer::Demand(demand) => CoreEvent::Demand {
                stream: id,
                database: self.database(&demand.database),
                demand: translate::to_core(demand.acknowledged, demand.levels),
            },
            ToServer::KeepAlive(KeepAliveId(keep_alive)) => {
                CoreEvent::KeepAlive { stream: id, id: keep_alive }
            }
            ToServer::Goodbye => CoreEvent::Goodbye { stream: id },
        };
        self.put_input(Input::OnStream(stream, event));
    }

    fn hello_to_core(&self, stream: core::StreamId, hello: &message::Hello) -> Hello {
        let claims = hello.claims.iter().map(|claim| Claim {
            database: self.database(&claim.database),
            demand: translate::to_core(claim.acknowledged, claim.levels),
        });
        Hello {
            stream,
            session: SessionId(u128::from_be_bytes(*hello.session.as_bytes())),
            node: Arc::from(hello.node.as_str()),
            workload: Arc::from(hello.workload.as_str()),
            claims: claims.collect(),
        }
    }

    pub(crate) fn database(&self, name: &DatabaseName) -> DatabaseId {
        let found = self.plan.databases.iter().position(|plan| &*plan.settings.name == name.as_str());
        DatabaseId(found.unwrap_or_default() as u32)
    }

    fn name(&self, database: DatabaseId) -> DatabaseName {
        self.nodes[0].names[database.0 as usize].clone()
    }

    /// An operator changes settings.
    pub(crate) fn configure(&mut self, database: usize, change: impl FnOnce(&mut DatabaseSettings)) {
        change(&mut self.server.settings[database]);
        let settings = self.server.settings[database].clone();
        let database = DatabaseId(database as u32);
        self.put_input(Input::Core(CoreEvent::Configure { database, settings }));
    }

    /// It goes on after a stop: what it missed happens now, in any order.
    pub(crate) fn thaw_server(&mut self) {
        for event in std::mem::take(&mut self.server.missed) {
            let soon = self.dice.micros(0, 300);
            self.after(soon, event);
        }
        self.flush();
    }
}
