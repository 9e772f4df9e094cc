//! The only loop: takes what has come, lets the core decide, makes durable what
//! the core has changed, and only then sends what it wants sent. One task owns
//! the core and the store; everybody else holds a [`DriverHandle`].
//!
//! Knows nothing of gRPC, nor of why the core decides as it does.

mod commits;
mod handle;
mod input;
mod notes;
mod operators;
mod overrides;
mod pending;
mod round;
mod streams;
#[cfg(test)]
mod tests;
mod waits;

use std::{collections::HashMap, sync::Arc, time::Duration};

use leasehold_admission::{
    Core, DatabaseId, Effect, Event, Note, SessionView, Ticket, Time, UnaryReply, durable::Change,
};
use leasehold_storage::Store;
use tokio::{
    sync::{oneshot, watch},
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep_until, timeout},
};
use tracing::{info, warn};

use self::{
    commits::Commits,
    handle::Queues,
    input::{Call, Input, Look},
    operators::{Operators, Reconfigured},
    round::{Begun, Ended, Rounds},
    streams::Streams,
    waits::Waits,
};
pub use self::{
    handle::{
        ANSWER, AcquireCall, CALLS, DriverHandle, HelloMessage, INPUTS, LOOKS, OUTGOING, STREAMS,
        StreamGuard, Unanswered,
    },
    input::{
        AdminAction, AdminRefusal, AdminReply, DatabaseStatus, Health, Outgoing, Place, Snapshot, Subject,
    },
    operators::AUDIT_ENTRIES,
    overrides::{
        Contradiction, OverrideRequest, OverrideStatus, Setting, WorkloadOverride, WorkloadSetting,
        admission_named, on_or_off, spelled,
    },
};
use crate::{
    clock::{self, Clock},
    config::DatabaseConfig,
    telemetry::Traces,
};

/// Most inputs that are applied, and committed together, in one pass.
pub const BATCH: usize = 4_096;
/// While inputs keep coming faster than they are applied, a due tick waits for
/// so many passes at most.
const TICK_PASSES: u32 = 16;
/// A commit that takes longer than this is told of. Well below what health
/// checks wait for an answer.
const STALL: Duration = Duration::from_secs(1);
/// The clock on the wall may jump: the ends of overrides are looked at this often.
const EXPIRY_LOOK: Duration = Duration::from_secs(30);

/// Loads the state, begins a new generation and starts the driver. The
/// databases get their ids in their order.
///
/// The task ends after [`DriverHandle::stop`]. If it ends in a panic, an
/// invariant is broken: the process must stop then, since every handle is dead.
///
/// # Errors
///
/// The store cannot be read, or the new generation cannot be made durable.
///
/// # Panics
///
/// The store panics.
pub async fn start(
    mut store: Box<dyn Store>,
    databases: &[DatabaseConfig],
    traces: Traces,
) -> Result<(DriverHandle, JoinHandle<()>), leasehold_storage::Error> {
    let (store, state) = spawn_blocking(move || {
        let mut state = store.load()?;
        state.generation += 1;
        store.commit(&[Change::Generation(state.generation)])?;
        Ok::<_, leasehold_storage::Error>((store, state))
    })
    .await
    .expect("the store does not panic")?;

    let clock = Clock::start();
    let mut operators = Operators::recover(databases, &state);
    let expired = operators.expire(clock::unix_ms());
    let names: Vec<Arc<str>> = operators.settings().into_iter().map(|settings| settings.name).collect();
    let core = Core::new(clock.now(), operators.settings(), &state);
    let (health, watched) = watch::channel(Health { store: Ok(()) });
    let (handle, queues) = DriverHandle::new(names.clone(), state.generation, clock, watched);
    info!(generation = state.generation, sessions = state.sessions.len(), "state loaded");
    let driver = Driver {
        core,
        clock,
        queues,
        commits: Commits::new(store, health),
        rounds: Rounds::default(),
        streams: Streams::default(),
        calls: HashMap::new(),
        operators,
        operators_wait: Vec::new(),
        waits: Waits::new(traces),
        probe_warnings: vec![None; names.len()],
        names,
        generation: state.generation,
        effects: expired.into_iter().flat_map(|expired| expired.changes).map(Effect::Commit).collect(),
        ticks_put_off: 0,
        stopping: false,
    };
    Ok((handle, tokio::spawn(driver.run())))
}

struct Driver {
    core: Core,
    clock: Clock,
    queues: Queues,
    commits: Commits,
    rounds: Rounds,
    streams: Streams,
    /// Unary calls that wait for an answer.
    calls: HashMap<Ticket, oneshot::Sender<UnaryReply>>,
    operators: Operators,
    /// Operators who wait until their change is durable.
    operators_wait: Vec<(AdminWaiter, AdminReply)>,
    waits: Waits,
    names: Vec<Arc<str>>,
    /// Of each database, what its probe says that it cannot see.
    probe_warnings: Vec<Option<String>>,
    generation: u64,
    /// What the core wants done in this pass.
    effects: Vec<Effect>,
    ticks_put_off: u32,
    stopping: bool,
}

type AdminWaiter = oneshot::Sender<Result<AdminReply, AdminRefusal>>;

impl Driver {
    async fn run(mut self) {
        let mut batch = Vec::new();
        while !self.stopping {
            self.gather(&mut batch).await;
            self.decide(&mut batch);
            self.carry_out().await;
        }
        // Closing a store may block.
        drop(spawn_blocking(move || drop(self.commits)).await);
    }

    /// Waits for inputs, or until something is due.
    async fn gather(&mut self, batch: &mut Vec<Input>) {
        let due = self.due();
        tokio::select! {
            biased;
            // Inputs first: a tick comes after what was queued before it.
            received = self.queues.inputs.recv_many(batch, BATCH) => self.stopping |= received == 0,
            Some(look) = self.queues.looks.recv() => self.show(look),
            () = sleep_until(due) => {}
        }
    }

    /// When there is something to do without an input.
    fn due(&self) -> Instant {
        let now = self.clock.now();
        let retry = self.rounds.retry_at().map(|due| self.clock.instant(due));
        let tick = self.core.next_deadline().map(|deadline| self.clock.instant(deadline));
        let at_once = (!self.effects.is_empty()).then(|| self.clock.instant(now));
        let look = self.operators.next_expiry().map(|until| {
            let left = Duration::from_millis(until.saturating_sub(clock::unix_ms()));
            self.clock.instant(now + left.min(EXPIRY_LOOK))
        });
        let soonest = [retry, tick, at_once, look].into_iter().flatten().min();
        soonest.unwrap_or_else(|| self.clock.instant(now + EXPIRY_LOOK))
    }

    /// Lets the core take everything that has come.
    fn decide(&mut self, batch: &mut Vec<Input>) {
        let now = self.clock.now();
        for input in batch.drain(..) {
            self.take(now, input);
        }
        // After what was queued before them, and never starved by it.
        while let Ok(look) = self.queues.looks.try_recv() {
            self.show(look);
        }
        for expired in self.operators.expire(clock::unix_ms()) {
            self.reconfigure(now, expired);
        }
        if self.core.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.ticks_put_off += 1;
            // Whoever sent a sign of life that is still queued must not expire.
            if self.queues.inputs.is_empty() || self.ticks_put_off > TICK_PASSES {
                self.ticks_put_off = 0;
                self.apply(now, Event::Tick);
            }
        }
    }

    fn take(&mut self, now: Time, input: Input) {
        match input {
            Input::Open { hello, places, outgoing } => {
                self.streams.open(&hello, places, outgoing);
                self.apply(now, Event::Hello(hello));
            }
            Input::Demand { stream, database, demand, traceparent } => {
                let Some((session, node)) = self.streams.session(stream) else { return };
                let task = traceparent.filter(|_| demand.waiting > 0);
                self.waits.reported(session, database, task, node, clock::wall());
                self.apply(now, Event::Demand { stream, database, demand });
                self.waits.stands(session, database, || self.core.facts(now, session, database));
            }
            Input::OnStream { stream, event } => {
                if self.streams.session(stream).is_some() {
                    self.apply(now, event);
                }
            }
            Input::StreamEnded { stream } => {
                if let Some(session) = self.streams.ended(stream) {
                    self.waits.forget(session);
                    self.apply(now, Event::StreamEnded { stream });
                }
            }
            Input::Call { call, reply } => {
                let (ticket, event) = match call {
                    Call::Acquire(acquire) => (acquire.ticket, Event::Acquire(acquire)),
                    Call::Renew { ticket, lease, node } => (ticket, Event::Renew { ticket, lease, node }),
                    Call::Release { ticket, target, node } => {
                        (ticket, Event::Release { ticket, target, node })
                    }
                };
                self.calls.insert(ticket, reply);
                self.apply(now, event);
            }
            Input::CallEnded { ticket, timed_out } => {
                if !timed_out {
                    self.calls.remove(&ticket);
                }
                self.apply(now, Event::AcquireEnded { ticket, timed_out });
            }
            Input::Probe(event) => self.apply(now, event),
            Input::ProbeConnected { database, warning } => {
                self.probe_warnings[database.0 as usize] = warning;
            }
            Input::Admin { action, who, reply } => match self.administer(now, action, &who) {
                Ok(answer) => self.operators_wait.push((reply, answer)),
                Err(refusal) => drop(reply.send(Err(refusal))),
            },
            Input::Stop => self.stopping = true,
        }
    }

    fn apply(&mut self, now: Time, event: Event) {
        self.core.apply(now, event, &mut self.effects);
    }

    /// Makes durable what this pass has changed, and then sends. What the core
    /// makes of the outcome is carried out in the next pass.
    async fn carry_out(&mut self) {
        let effects = std::mem::take(&mut self.effects);
        let ended = match self.rounds.begin(self.clock.now(), effects) {
            // Durable before visible: nothing below this line is sent unless
            // what it rests on would survive a crash.
            Begun::Commit(changes) => {
                let left = self.commit(changes).await;
                self.rounds.end(self.clock.now(), left)
            }
            Begun::Ended(ended) => ended,
        };
        let Ended { event, send: effects, durable } = ended;
        if let Some(event) = event {
            self.apply(self.clock.now(), event);
        }
        for effect in effects {
            self.send(effect);
        }
        self.answer_operators(durable);
        for stream in self.streams.take_lost() {
            warn!(stream = stream.0, "stream closed: its node is gone or too slow");
            self.apply(self.clock.now(), Event::StreamEnded { stream });
        }
    }

    /// Commits; returns what is left when that fails. While the store stalls,
    /// whoever wants to look is answered: that is when people and supervisors do.
    async fn commit(&mut self, changes: Vec<Change>) -> Option<Vec<Change>> {
        let mut attempt = self.commits.begin(changes);
        if let Ok(done) = timeout(STALL, &mut attempt).await {
            return self.commits.end(done);
        }
        self.commits.stalled(STALL);
        loop {
            tokio::select! {
                biased;
                done = &mut attempt => return self.commits.end(done),
                Some(look) = self.queues.looks.recv() => self.show(look),
            }
        }
    }

    fn show(&self, look: Look) {
        let now = self.clock.now();
        // Whoever asked may be gone.
        match look {
            Look::Status(reply) => drop(reply.send(self.snapshot(now))),
            Look::Sessions(reply) => drop(reply.send(self.core.sessions(now))),
            Look::Why(subject, reply) => {
                let wanted = |database, session, node: &str| {
                    subject.database.is_none_or(|only| only == database) && subject.is(session, node)
                };
                drop(reply.send(self.core.explain(now, wanted)));
            }
        }
    }

    fn send(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(_) => unreachable!("changes were split off"),
            Effect::Welcome { stream, welcome } => self.streams.welcome(stream, self.generation, welcome),
            Effect::Allotment { stream, database, allotment, rests_on_commit: _ } => {
                self.streams.send(stream, Outgoing::Allotment(database, allotment));
            }
            Effect::KeepAlive { stream, id } => self.streams.send(stream, Outgoing::KeepAlive(id)),
            Effect::Close { stream, reason } => {
                if let Some(session) = self.streams.close(stream, reason) {
                    self.waits.forget(session);
                }
            }
            Effect::Reply { ticket, reply } => {
                if let Some(call) = self.calls.remove(&ticket) {
                    // If the caller is gone, its guard says so, and the core
                    // takes back what it was given.
                    drop(call.send(reply));
                }
            }
            Effect::Note(note) => self.note(&note),
        }
    }

    fn note(&mut self, note: &Note) {
        if let Note::Granted { session, database, tokens, waited: _ } = note {
            let name = &self.names[database.0 as usize];
            self.waits.granted(*session, *database, name, *tokens, clock::wall());
        }
        notes::log(note, &self.names);
    }

    fn administer(&mut self, now: Time, action: AdminAction, who: &str) -> Result<AdminReply, AdminRefusal> {
        if let Err(error) = &self.commits.health().store {
            return Err(AdminRefusal::StoreFails(error.clone()));
        }
        let wall = clock::unix_ms();
        let changed = match action {
            AdminAction::SetOverride { database, request } => {
                self.operators.set(database, &request, who, wall)?
            }
            AdminAction::SetDraining { database, draining } => {
                self.operators.set_draining(database, draining, who, wall)
            }
            AdminAction::Evict { prefix } => return self.evict(now, &prefix, who),
        };
        let database = changed.database;
        self.reconfigure(now, changed);
        Ok(AdminReply::Database(Box::new(self.database_status(now, database))))
    }

    fn evict(&mut self, now: Time, prefix: &str, who: &str) -> Result<AdminReply, AdminRefusal> {
        let matches = |session: &SessionView| session.id.to_string().starts_with(prefix);
        let mut found: Vec<SessionView> = self.core.sessions(now).into_iter().filter(matches).collect();
        let session = match (found.pop(), found.len()) {
            (None, _) => return Err(AdminRefusal::UnknownSession),
            (Some(session), 0) => session,
            (Some(_), more) => return Err(AdminRefusal::AmbiguousSession(more + 1)),
        };
        let what = format!("evict {} of {}", session.id, session.node);
        let changes = self.operators.audit(who, what, clock::unix_ms());
        self.effects.extend(changes.into_iter().map(Effect::Commit));
        self.apply(now, Event::Evict { session: session.id });
        Ok(AdminReply::Session(session))
    }

    fn reconfigure(&mut self, now: Time, Reconfigured { database, settings, changes }: Reconfigured) {
        self.effects.extend(changes.into_iter().map(Effect::Commit));
        self.apply(now, Event::Configure { database, settings });
    }

    fn answer_operators(&mut self, durable: bool) {
        for (waiter, answer) in self.operators_wait.drain(..) {
            let outcome = match &self.commits.health().store {
                Err(error) if !durable => Err(AdminRefusal::NotDurable(error.clone())),
                Ok(()) | Err(_) => Ok(answer),
            };
            // Whoever asked may be gone.
            drop(waiter.send(outcome));
        }
    }

    fn snapshot(&self, now: Time) -> Snapshot {
        let views = self.core.databases(now);
        let wall = clock::unix_ms();
        let databases = views.into_iter().map(|view| {
            let overrides = self.operators.overrides(view.id, wall);
            let probe_warning = self.probe_warnings[view.id.0 as usize].clone();
            DatabaseStatus { view, overrides, probe_warning }
        });
        Snapshot {
            generation: self.generation,
            uptime: now.since_start(),
            commits: self.commits.succeeded(),
            databases: databases.collect(),
        }
    }

    fn database_status(&self, now: Time, database: DatabaseId) -> DatabaseStatus {
        let mut databases = self.snapshot(now).databases;
        databases.swap_remove(database.0 as usize)
    }
}
