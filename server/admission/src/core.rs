//! The core: one owner of all sessions and databases.

use alloc::{collections::BTreeMap, vec::Vec};
use core::time::Duration;

use crate::{
    Close, DatabaseId, DatabaseSettings, Effect, Event, Note, SessionId, StreamId, Ticket, Time, UnaryReply,
    calls::Call,
    database::Database,
    durable::State,
    lease::Lease,
    session::{Running, Session},
    silence::Looks,
};

/// How often what may be written lazily is written.
const LAZY: Duration = Duration::from_secs(1);

/// One pass of the driver adds at most this part of the shortest time to live
/// to the age of sessions (rule 15).
const PASSES_A_TTL: u32 = 10;

/// Decides who holds how many tokens of which database.
#[derive(Debug)]
pub struct Core {
    pub(crate) databases: Vec<Database>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    /// The streams that speak for sessions.
    pub(crate) streams: BTreeMap<StreamId, SessionId>,
    /// Calls that wait.
    pub(crate) tickets: BTreeMap<Ticket, Attempt>,
    pub(crate) batch: Batch,
    pub(crate) now: Time,
    running: Running,
    /// The longest time that a pass adds to the age of sessions.
    longest_step: Duration,
    pub(crate) looks: Looks,
    lazy_at: Time,
    store_failed: bool,
}

/// One attempt at a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) database: DatabaseId,
    pub(crate) request: SessionId,
    pub(crate) arrived: Running,
}

/// What a failed commit would have to take back, beside allotments.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) welcomes: Vec<StreamId>,
    pub(crate) calls: Vec<(DatabaseId, SessionId, Call)>,
    /// Answered with what rests on the commit, and not among those.
    pub(crate) answered: Vec<Ticket>,
    /// Served, and over since: whether for having waited long enough.
    pub(crate) over: Vec<(Ticket, bool)>,
}

impl Core {
    /// A core that starts at `now` from what a store has kept. The databases get
    /// the ids 0, 1, 2, … in their order; names are unique. What is kept of
    /// databases that are not among them stays as it is.
    pub fn new(now: Time, databases: Vec<DatabaseSettings>, recovered: &State) -> Core {
        let longest = recovered.sessions.values().map(|session| session.silent_ms).max().unwrap_or(0);
        let mut core = Core {
            databases: Vec::new(),
            sessions: BTreeMap::new(),
            streams: BTreeMap::new(),
            tickets: BTreeMap::new(),
            batch: Batch::default(),
            now,
            // Far enough from zero that every session's silence fits before it.
            running: Running(Duration::from_millis(longest)),
            longest_step: Duration::ZERO,
            looks: Looks::default(),
            lazy_at: now + LAZY,
            store_failed: false,
        };
        for (index, settings) in databases.into_iter().enumerate() {
            let last_cap = recovered.caps.get(&settings.name).copied();
            core.databases.push(Database::new(DatabaseId(index as u32), settings, last_cap));
        }
        core.longest_step = core.longest_step_now();
        core.recover(recovered);
        core
    }

    /// Every ceiling counts as held until its session says otherwise (rule 17).
    fn recover(&mut self, recovered: &State) {
        for (id, kept) in &recovered.sessions {
            let heard = self.running.0.saturating_sub(Duration::from_millis(kept.silent_ms));
            let session = Session {
                node: kept.node.clone(),
                workload: kept.workload.clone(),
                kind: kept.kind.clone(),
                stream: None,
                heard: Running(heard),
                ttl: Duration::from_millis(kept.ttl_ms),
                ttl_next: None,
                databases: Vec::new(),
                unclaimed: Vec::new(),
                handed: Vec::new(),
                look_at: None,
                written: Some(kept.clone()),
            };
            self.sessions.insert(*id, session);
        }
        for ((id, name), kept) in &recovered.leases {
            let (Some(database), Some(session)) = (self.database(name), self.sessions.get_mut(id)) else {
                continue;
            };
            let standing = session.standing(self.now);
            session.add(database);
            let at = &mut self.databases[database.0 as usize];
            let workload = at.workload_named(&session.workload);
            at.insert(*id, Lease::recovered(kept.ceiling, kept.on_loss, standing).of(workload));
        }
        self.recover_lost();
        for id in recovered.sessions.keys() {
            self.look_later(*id);
            self.write_later(*id);
        }
    }

    /// Records may be missing: until whoever was on them has lapsed, each database
    /// has an empty lease that only keeps grants back.
    fn recover_lost(&mut self) {
        let longest = self.databases.iter().map(|database| database.settings.ttl).max();
        let Some(lost) = self.sessions.get_mut(&SessionId::LOST) else { return };
        lost.ttl = lost.ttl.max(longest.unwrap_or_default());
        let standing = lost.standing(self.now);
        for database in &mut self.databases {
            lost.add(database.id);
            if !database.leases.contains_key(&SessionId::LOST) {
                let on_loss = database.settings.on_loss;
                database.insert(SessionId::LOST, Lease::recovered(0, on_loss, standing));
            }
        }
    }

    /// Takes one event and appends what follows from it. `now` never goes back.
    pub fn apply(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.advance(now);
        match event {
            Event::Hello(hello) => self.hello(now, hello, effects),
            Event::Demand { stream, database, demand } => self.demand(now, stream, database, demand, effects),
            Event::KeepAlive { stream, id } => self.keep_alive(now, stream, id, effects),
            Event::Goodbye { stream } => self.goodbye(now, stream, effects),
            Event::StreamEnded { stream } => self.stream_ended(now, stream, effects),
            Event::Acquire(acquire) => self.acquire(now, acquire, effects),
            Event::AcquireEnded { ticket, timed_out } => self.acquire_ended(now, ticket, timed_out, effects),
            Event::Renew { ticket, lease, node } => self.renew(ticket, lease, &node, effects),
            Event::Release { ticket, target, node } => self.release(now, ticket, target, &node, effects),
            Event::ObservationStarts { database } => self.observation_starts(now, database, effects),
            Event::Observed { database, observation } => {
                let at = &mut self.databases[database.0 as usize];
                let news = at.watch.observed(now, observation);
                if news.up {
                    effects.push(Effect::Note(Note::ProbeUp { database }));
                }
                if news.restarted {
                    effects.push(Effect::Note(Note::DatabaseRestarted { database }));
                    let sessions: Vec<SessionId> = at.leases.keys().copied().collect();
                    for session in sessions {
                        at.change(session, Lease::sockets_died);
                    }
                }
                at.recap(effects);
                self.decide(now, database, effects);
            }
            Event::ProbeDown { database, error, watched_elsewhere } => {
                let at = &mut self.databases[database.0 as usize];
                if at.watch.down(error.clone(), watched_elsewhere) {
                    effects.push(Effect::Note(Note::ProbeLost { database, error }));
                }
                at.recap(effects);
                self.decide(now, database, effects);
            }
            Event::Configure { database, settings } => {
                let at = &mut self.databases[database.0 as usize];
                let sessions = &self.sessions;
                at.configure(settings, |id| Some(&sessions.get(&id)?.workload), effects);
                self.longest_step = self.longest_step_now();
                self.look_at_absent(database);
                self.refuse_above_limits(database, effects);
                self.decide(now, database, effects);
            }
            Event::Evict { session } => self.evict(now, session, effects),
            Event::Committed => self.committed(now, effects),
            Event::CommitFailed => self.commit_failed(now, effects),
            Event::Tick => self.tick(now, effects),
        }
    }

    fn observation_starts(&mut self, now: Time, database: DatabaseId, effects: &mut Vec<Effect>) {
        let unjudged = self.databases[database.0 as usize].watch.starts();
        if let Some(observation) = unjudged {
            self.judged(now, database, observation.sent, effects);
        }
    }

    /// Time passes; ages grow by at most a part of a time to live a pass.
    fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went back");
        let step = now.since(self.now).min(self.longest_step);
        self.running = Running(self.running.0 + step);
        self.now = now;
    }

    fn longest_step_now(&self) -> Duration {
        let ttls = self.databases.iter().map(|database| database.settings.ttl);
        ttls.min().unwrap_or(LAZY * PASSES_A_TTL) / PASSES_A_TTL
    }

    /// Whether grants wait for the store.
    pub(crate) fn store_fails(&self) -> bool {
        self.store_failed
    }

    pub(crate) fn running(&self) -> Running {
        self.running
    }

    /// Decides at one database, and answers the calls that it serves.
    pub(crate) fn decide(&mut self, now: Time, database: DatabaseId, effects: &mut Vec<Effect>) {
        let at = &mut self.databases[database.0 as usize];
        at.decide(now, self.store_failed, effects);
        if !at.granted.is_empty() {
            self.answer_granted(database, effects);
        }
    }

    fn tick(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.expire(now, effects);
        for index in 0..self.databases.len() {
            let at = &mut self.databases[index];
            let id = at.id;
            if at.watch.judge_at().is_some_and(|due| now >= due) {
                let judged = at.watch.judge();
                if let Some(observation) = judged {
                    self.judged(now, id, observation.sent, effects);
                }
            } else if at.wake_at.is_some_and(|due| now >= due) {
                self.decide(now, id, effects);
            }
        }
        if now >= self.lazy_at {
            self.lazy_at = now + LAZY;
            self.write_lazily(effects);
        }
    }

    fn write_lazily(&mut self, effects: &mut Vec<Effect>) {
        if self.store_failed {
            return;
        }
        for database in &mut self.databases {
            database.write_lazily(effects);
        }
        self.write_records(effects);
    }

    fn committed(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.batch = Batch::default();
        for database in &mut self.databases {
            database.committed();
        }
        if core::mem::take(&mut self.store_failed) {
            for index in 0..self.databases.len() {
                self.decide(now, DatabaseId(index as u32), effects);
            }
        }
    }

    /// Grants of the batch are withdrawn, returns stay; nobody was welcomed.
    fn commit_failed(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.store_failed = true;
        let batch = core::mem::take(&mut self.batch);
        for index in 0..self.databases.len() {
            for session in self.databases[index].commit_failed() {
                // What expired meanwhile may hold nothing now.
                self.look_soon(session);
            }
        }
        for (database, request, call) in batch.calls {
            self.requeue(database, request, call, effects);
            // A limit may have fallen since it was served.
            self.refuse_above_limits(database, effects);
        }
        for (ticket, timed_out) in batch.over {
            self.acquire_ended(now, ticket, timed_out, effects);
        }
        for ticket in batch.answered {
            effects.push(Effect::Reply { ticket, reply: UnaryReply::StoreUnavailable });
        }
        for stream in batch.welcomes {
            if self.streams.contains_key(&stream) {
                effects.push(Effect::Close { stream, reason: Close::StoreUnavailable });
                self.stream_ended(now, stream, effects);
            }
        }
        for index in 0..self.databases.len() {
            self.decide(now, DatabaseId(index as u32), effects);
        }
    }

    /// When [`Event::Tick`] is due; none: not before another event.
    pub fn next_deadline(&self) -> Option<Time> {
        let looks = self.databases.iter().filter_map(|database| database.watch.judge_at());
        let wakes = self.databases.iter().filter_map(|database| database.wake_at);
        let ages = (!self.sessions.is_empty()).then(|| self.now + self.longest_step);
        looks.chain(wakes).chain(ages).chain([self.lazy_at]).min()
    }

    /// The id of a database by its name.
    pub fn database(&self, name: &str) -> Option<DatabaseId> {
        self.databases.iter().find(|database| &*database.settings.name == name).map(|database| database.id)
    }

    /// The settings of a database, overrides included.
    pub fn settings(&self, database: DatabaseId) -> Option<&DatabaseSettings> {
        self.databases.get(database.0 as usize).map(|database| &database.settings)
    }
}
