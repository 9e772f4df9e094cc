//! What the checks remember from step to step: what the core counts and the
//! store covers for each process, and how far a bound that fell has come down.
//! Knows nothing of what is promised about it.

use std::time::Duration;

use leasehold_admission::{Core, Event as CoreEvent, SessionState, SessionView, Time, durable};

use super::{
    World,
    server::{process_of, session_id},
};
use crate::plan::Plan;

/// What the checks remember.
#[derive(Debug)]
pub(crate) struct Ledgers {
    pub(crate) all: Vec<Ledger>,
    /// Processes that may hold something.
    pub(crate) relevant: Vec<usize>,
    pub(crate) second: u64,
    pub(crate) messages: u64,
}

/// What the checks remember of one database.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// What the core counts for each process; none: it does not know it here.
    pub(crate) counted: Vec<Option<u32>>,
    /// The ceiling in the core.
    ceilings: Vec<u32>,
    /// What the store covers for each process.
    pub(crate) covered: Vec<Option<u32>>,
    /// The core has given a process up here, and what it held on that moment's
    /// most.
    pub(crate) gone: Vec<Option<u32>>,
    /// All that the core counts.
    held: u64,
    /// As configured.
    pub(crate) cap: u64,
    /// Most tokens of counted processes.
    pub(crate) bound: u64,
    /// Most connections at a watched database.
    admitted: u64,
    pub(crate) bound_admitted: u64,
    /// The most that was left over since the newest answer of the probe, and
    /// between that and the one before.
    left: [u64; 2],
    /// The probe has seen it since the server's start.
    reached: bool,
    /// The probe has said since then what it saw, or that it sees nothing.
    pub(crate) asked: bool,
    /// Tools that count.
    pub(crate) tools: u64,
    pub(crate) uptime: Duration,
}

impl Ledgers {
    pub(crate) fn new(plan: &Plan) -> Ledgers {
        let all = plan.databases.iter().map(|database| Ledger {
            counted: Vec::new(),
            ceilings: Vec::new(),
            covered: Vec::new(),
            gone: Vec::new(),
            held: 0,
            cap: u64::from(database.settings.cap.unwrap_or(u32::MAX)),
            bound: 0,
            admitted: 0,
            bound_admitted: 0,
            left: [0; 2],
            reached: false,
            asked: false,
            tools: 0,
            uptime: Duration::ZERO,
        });
        Ledgers { all: all.collect(), relevant: Vec::new(), second: 0, messages: 0 }
    }
}

impl Ledger {
    /// The most that a process without a stream may have here.
    pub(crate) fn ceiling_of(&self, process: usize) -> u64 {
        let known = [self.counted[process], self.covered[process], Some(self.ceilings[process])];
        known.into_iter().flatten().max().unwrap_or_default().into()
    }
}

impl World {
    /// A process is there.
    pub(crate) fn met(&mut self, process: usize) {
        for ledger in &mut self.ledgers.all {
            ledger.counted.push(None);
            ledger.ceilings.push(0);
            ledger.covered.push(None);
            ledger.gone.push(None);
        }
        self.sights.iter_mut().for_each(super::sight::Sight::met);
        self.ledgers.relevant.push(process);
    }

    /// The core is about to take an event.
    pub(crate) fn heard(&mut self, now: Time, event: &CoreEvent) {
        self.reported(now, event);
        match event {
            CoreEvent::Observed { database, observation } => {
                let reserve = self.server.settings[database.0 as usize].reserve;
                let ledger = &mut self.ledgers.all[database.0 as usize];
                (ledger.reached, ledger.asked) = (true, true);
                ledger.left = [0, ledger.left[0]];
                let taken = u64::from(reserve) + u64::from(observation.others);
                ledger.admitted = u64::from(observation.max_connections).saturating_sub(taken);
                ledger.uptime = observation.uptime;
            }
            CoreEvent::ProbeDown { database, .. } => self.goes_by_its_last_cap(database.0 as usize),
            CoreEvent::Configure { database, settings } => {
                let ledger = &mut self.ledgers.all[database.0 as usize];
                ledger.cap = u64::from(settings.cap.unwrap_or(u32::MAX));
                // Another change may follow within the same pass.
                ledger.bound = ledger.bound.max(ledger.cap);
            }
            CoreEvent::Hello(_)
            | CoreEvent::Demand { .. }
            | CoreEvent::StreamEnded { .. }
            | CoreEvent::KeepAlive { .. }
            | CoreEvent::Goodbye { .. }
            | CoreEvent::Acquire(_)
            | CoreEvent::AcquireEnded { .. }
            | CoreEvent::Renew { .. }
            | CoreEvent::Release { .. }
            | CoreEvent::ObservationStarts { .. }
            | CoreEvent::Evict { .. }
            | CoreEvent::Committed
            | CoreEvent::CommitFailed
            | CoreEvent::Tick => {}
        }
    }

    /// A server that has not reached the database since its start goes by the
    /// last durable cap, and knows of no strays.
    fn goes_by_its_last_cap(&mut self, database: usize) {
        let name = &self.plan.databases[database].settings.name;
        let last = self.store.state.caps.get(name).copied().unwrap_or_default();
        let unknown = self.gone(database) + u64::from(self.databases.all[database].tools);
        let ledger = &mut self.ledgers.all[database];
        ledger.asked = true;
        if !ledger.reached {
            ledger.admitted = ledger.admitted.max(u64::from(last) + unknown);
        }
    }

    /// Another server knows nothing of the database yet.
    pub(crate) fn nothing_was_asked(&mut self) {
        for ledger in &mut self.ledgers.all {
            (ledger.uptime, ledger.reached, ledger.asked) = (Duration::ZERO, false, false);
        }
    }

    /// The driver has made a pass: notes what the core counts now.
    pub(crate) fn core_changed(&mut self) {
        let Some(driver) = &self.server.driver else { return };
        let now = self.server.now(self.now);
        let (sessions, views) = (driver.core.sessions(now), driver.core.databases(now));
        for ledger in &mut self.ledgers.all {
            ledger.held = 0;
            for process in &self.ledgers.relevant {
                (ledger.counted[*process], ledger.ceilings[*process]) = (None, 0);
            }
        }
        for session in &sessions {
            for lease in &session.leases {
                let ledger = &mut self.ledgers.all[lease.database.0 as usize];
                ledger.held += u64::from(lease.held);
                if let Some(process) = process_of(session.id) {
                    ledger.counted[process] = Some(lease.held);
                    ledger.ceilings[process] = lease.ceiling;
                }
            }
        }
        self.sessions_changed(&sessions);
        self.grants_were_allowed(&views);
        self.look_for_gone();
        self.bounds_follow();
    }

    fn sessions_changed(&mut self, sessions: &[SessionView]) {
        for session in sessions {
            let Some(process) = process_of(session.id) else { continue };
            let given_up = session.state == SessionState::Quarantined;
            if given_up && !self.processes[process].given_up {
                self.the_deadline_comes_first(process);
            }
            self.processes[process].given_up = given_up;
        }
        self.callers_are_counted(sessions);
    }

    /// The store has changed: notes what it covers.
    pub(crate) fn store_changed(&mut self) {
        for database in 0..self.plan.databases.len() {
            let name = &self.plan.databases[database].settings.name;
            for process in &self.ledgers.relevant {
                let key = (session_id(*process), name.clone());
                let covered = self.store.state.leases.get(&key).map(|lease: &durable::Lease| lease.ceiling);
                self.ledgers.all[database].covered[*process] = covered;
            }
        }
    }

    /// The server died in the middle of a commit that took effect. Whom its core
    /// had given up in it, nobody but the store knows.
    pub(crate) fn last_given_up(&mut self, dead: &Core) {
        let sessions = dead.sessions(self.server.now(self.now));
        let counts = |process: usize, database: usize| {
            let of = sessions.iter().filter(|session| session.id == session_id(process));
            of.flat_map(|session| &session.leases).any(|lease| lease.database.0 as usize == database)
        };
        for database in 0..self.plan.databases.len() {
            for process in self.ledgers.relevant.clone() {
                let forgotten =
                    self.ledgers.all[database].covered[process].is_none() && !counts(process, database);
                if forgotten {
                    self.is_gone(process, database);
                }
            }
        }
    }

    /// A process that the core does not count any more is gone: what it still
    /// has open are strays, and can only become fewer. It counts again when the
    /// core and the store have its claim.
    fn look_for_gone(&mut self) {
        for database in 0..self.plan.databases.len() {
            for at in 0..self.ledgers.relevant.len() {
                let process = self.ledgers.relevant[at];
                let holding = self.holding(process, database);
                let ledger = &mut self.ledgers.all[database];
                let counted = ledger.counted[process];
                if counted.is_none() {
                    self.is_gone(process, database);
                } else if ledger.gone[process].is_some()
                    && counted.is_some_and(|counted| counted >= holding)
                    && ledger.covered[process].is_some_and(|covered| covered >= holding)
                {
                    // A claim above everything that was granted is counted.
                    ledger.gone[process] = None;
                    ledger.bound = ledger.bound.max(ledger.held);
                }
            }
        }
    }

    fn is_gone(&mut self, process: usize, database: usize) {
        let holding = self.holding(process, database);
        if holding == 0 || self.ledgers.all[database].gone[process].is_some() {
            return;
        }
        self.ledgers.all[database].gone[process] = Some(holding);
        if !self.processes[process].given_up {
            self.the_deadline_comes_first(process);
        }
    }

    /// See [`World::the_cap_holds`].
    fn bounds_follow(&mut self) {
        for database in 0..self.plan.databases.len() {
            let gone: u64 = self.gone(database);
            let (hidden, tools) = (self.sights[database].hidden(), self.sights[database].tools());
            let ledger = &mut self.ledgers.all[database];
            ledger.bound = ledger.cap.max(ledger.bound.min(ledger.held));
            let come = tools.saturating_sub(ledger.tools);
            ledger.tools = tools;
            ledger.left[0] = ledger.left[0].max(ledger.held + gone + tools);
            let left = ledger.left[0].max(ledger.left[1]);
            ledger.bound_admitted = (ledger.admitted + hidden).max((ledger.bound_admitted + come).min(left));
        }
    }

    /// Connections of processes that the core has given up.
    pub(crate) fn gone(&self, database: usize) -> u64 {
        let ledger = &self.ledgers.all[database];
        let open = &self.databases.all[database].open;
        let gone = self.ledgers.relevant.iter().filter(|process| ledger.gone[**process].is_some());
        gone.map(|process| u64::from(open[*process])).sum()
    }

    /// Tokens that a process truly has: those it may use, and those whose
    /// connections are open. Of a dead one only the connections are left.
    pub(crate) fn holding(&self, process: usize, database: usize) -> u32 {
        self.tokens_and_dead(process, database).0
    }

    /// Of these, the tokens under which a connection is open, or may be opened
    /// right now: without those whose connection is dead and not closed.
    pub(crate) fn usable(&self, process: usize, database: usize) -> u32 {
        let (holding, dead) = self.tokens_and_dead(process, database);
        holding - dead
    }

    fn tokens_and_dead(&self, process: usize, database: usize) -> (u32, u32) {
        let open = self.databases.all[database].open[process];
        if !self.processes[process].is_alive() {
            return (open, 0);
        }
        let node = &self.nodes[self.processes[process].node];
        let now = super::node::local(node, self.now);
        self.processes[process].pools[database].read(|ledger, _| {
            let levels = ledger.levels(now);
            let once = levels.established + levels.closing;
            let dead = once.saturating_sub(open);
            (if ledger.is_lapsed(now) { once + levels.opening } else { levels.holding }, dead)
        })
    }

    /// Forgets processes that cannot matter any more.
    pub(crate) fn forget_the_dead(&mut self) {
        if !self.steps.is_multiple_of(64) {
            return;
        }
        let relevant = std::mem::take(&mut self.ledgers.relevant);
        let matters = |process: &usize| {
            self.processes[*process].is_alive()
                || self.databases.all.iter().any(|database| database.open[*process] > 0)
                || self.ledgers.all.iter().any(|ledger| ledger.counted[*process].is_some())
        };
        self.ledgers.relevant = relevant.into_iter().filter(matters).collect();
    }
}
