//! What must be true after each step. What is promised of the cap is written
//! at [`World::the_cap_holds`], word for word. Knows nothing of what happens
//! next.

use std::time::Duration;

use leasehold_admission::{Core, Event as CoreEvent, SessionId, SessionState, durable};

use super::{
    World,
    server::{process_of, session_id},
};
use crate::{
    plan::{LONGEST_STATEMENT, Plan},
    time::Moment,
    violation::{Invariant, broken},
};

/// Observations of which the extremes count.
const OBSERVATIONS: usize = 3;

/// Most messages that may be sent in one second of true time.
const MESSAGES_A_SECOND: u64 = 20_000;

/// What the checks remember from step to step.
#[derive(Debug)]
pub(crate) struct Ledgers {
    pub(crate) all: Vec<Ledger>,
    /// Processes that may hold something.
    pub(crate) relevant: Vec<usize>,
    second: u64,
    messages: u64,
}

/// What the checks remember of one database.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// What the core counts for each process; none: it does not know it here.
    counted: Vec<Option<u32>>,
    /// What the store covers for each process.
    covered: Vec<Option<u32>>,
    /// The core has given a process up here, and what it held on that moment's
    /// most.
    gone: Vec<Option<u32>>,
    /// All that the core counts.
    held: u64,
    /// As configured.
    pub(crate) cap: u64,
    /// Most tokens of counted processes.
    bound: u64,
    /// Most connections at a watched database.
    admitted: u64,
    bound_admitted: u64,
    /// The newest observations: what reports hid, and tools.
    seen: Vec<(u64, u64)>,
    /// The most that was left over since the newest answer of the probe, and
    /// between that and the one before.
    left: [u64; 2],
    /// The probe has seen it since the server's start.
    reached: bool,
    /// The probe has said since then what it saw, or that it sees nothing.
    asked: bool,
    /// Tools that all of these saw.
    tools: u64,
    uptime: Duration,
}

impl Ledgers {
    pub(crate) fn new(plan: &Plan) -> Ledgers {
        let all = plan.databases.iter().map(|database| Ledger {
            counted: Vec::new(),
            covered: Vec::new(),
            gone: Vec::new(),
            held: 0,
            cap: u64::from(database.settings.cap.unwrap_or(u32::MAX)),
            bound: 0,
            admitted: 0,
            bound_admitted: 0,
            seen: Vec::new(),
            left: [0; 2],
            reached: false,
            asked: false,
            tools: 0,
            uptime: Duration::ZERO,
        });
        Ledgers { all: all.collect(), relevant: Vec::new(), second: 0, messages: 0 }
    }
}

impl World {
    /// A process is there.
    pub(crate) fn met(&mut self, process: usize) {
        for ledger in &mut self.ledgers.all {
            ledger.counted.push(None);
            ledger.covered.push(None);
            ledger.gone.push(None);
        }
        self.ledgers.relevant.push(process);
    }

    /// The core is about to take an event.
    pub(crate) fn heard(&mut self, event: &CoreEvent) {
        match event {
            CoreEvent::Hello(hello) => {
                let Some(process) = process_of(hello.session) else { return };
                self.processes[process].attached = Some(World::stream_of(hello.stream));
                for claim in &hello.claims {
                    self.processes[process].reported[claim.database.0 as usize] = claim.demand.established;
                }
            }
            CoreEvent::Demand { stream, database, demand } => {
                let stream = World::stream_of(*stream);
                let process = &mut self.processes[self.streams[stream].process];
                if process.attached == Some(stream) {
                    process.reported[database.0 as usize] = demand.established;
                }
            }
            CoreEvent::StreamEnded { stream } => self.detached(World::stream_of(*stream)),
            CoreEvent::Observed { database, observation } => {
                let database = database.0 as usize;
                let ledger = &mut self.ledgers.all[database];
                (ledger.reached, ledger.asked) = (true, true);
                ledger.left = [0, ledger.left[0]];
                let reserve = self.server.settings[database].reserve;
                let taken = u64::from(reserve) + u64::from(observation.others);
                ledger.admitted = u64::from(observation.max_connections).saturating_sub(taken);
                if observation.uptime < ledger.uptime {
                    for process in &mut self.processes {
                        process.reported[database] = 0;
                    }
                }
                ledger.uptime = observation.uptime;
            }
            CoreEvent::ProbeDown { database, .. } => self.goes_by_its_last_cap(database.0 as usize),
            CoreEvent::Configure { database, settings } => {
                self.ledgers.all[database.0 as usize].cap = u64::from(settings.cap.unwrap_or(u32::MAX));
            }
            CoreEvent::KeepAlive { .. }
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

    /// A stream speaks for nobody any more.
    pub(crate) fn detached(&mut self, stream: usize) {
        let process = &mut self.processes[self.streams[stream].process];
        if process.attached == Some(stream) {
            process.attached = None;
            process.reported.iter_mut().for_each(|reported| *reported = 0);
        }
    }

    /// The server died.
    pub(crate) fn nobody_is_attached(&mut self) {
        for process in &mut self.processes {
            process.attached = None;
            process.reported.iter_mut().for_each(|reported| *reported = 0);
        }
        for ledger in &mut self.ledgers.all {
            (ledger.uptime, ledger.reached, ledger.asked) = (Duration::ZERO, false, false);
        }
    }

    /// The database counts for the probe: notes what reports hide from it.
    pub(crate) fn observed(&mut self, database: usize) {
        let open = &self.databases.all[database].open;
        let hidden = self.ledgers.relevant.iter().map(|process| {
            u64::from(self.processes[*process].reported[database].saturating_sub(open[*process]))
        });
        let seen = (hidden.sum(), u64::from(self.databases.all[database].tools));
        let ledger = &mut self.ledgers.all[database];
        ledger.seen.push(seen);
        if ledger.seen.len() > OBSERVATIONS {
            ledger.seen.remove(0);
        }
    }

    /// The driver has made a pass: notes what the core counts now.
    pub(crate) fn core_changed(&mut self) {
        let Some(driver) = &self.server.driver else { return };
        let sessions = driver.core.sessions(self.server.now(self.now));
        for ledger in &mut self.ledgers.all {
            ledger.held = 0;
            for process in &self.ledgers.relevant {
                ledger.counted[*process] = None;
            }
        }
        for view in driver.core.databases(self.server.now(self.now)) {
            let asked = self.ledgers.all[view.id.0 as usize].asked;
            if self.plan.databases[view.id.0 as usize].settings.watched && !asked && view.grants > 0 {
                broken(Invariant::CapHolds, format!("{} granted before the database was asked", view.grants));
            }
        }
        let mut unary: Vec<(SessionId, u32)> = Vec::new();
        for session in sessions {
            if let Some(process) = process_of(session.id) {
                let given_up = session.state == SessionState::Quarantined;
                if given_up && !self.processes[process].given_up {
                    self.the_deadline_comes_first(process, session.ttl);
                }
                self.processes[process].given_up = given_up;
            }
            for lease in session.leases {
                let ledger = &mut self.ledgers.all[lease.database.0 as usize];
                ledger.held += u64::from(lease.held);
                match process_of(session.id) {
                    Some(process) => ledger.counted[process] = Some(lease.held),
                    None => unary.push((session.id, lease.held)),
                }
            }
        }
        for caller in &self.callers {
            let holding = caller.holding(self.now);
            let counted = unary.iter().find(|(id, _)| *id == caller.session()).map_or(0, |(_, held)| *held);
            if holding > counted {
                let session = caller.session();
                broken(
                    Invariant::OneHolder,
                    format!("caller {session} has {holding} tokens, {counted} are counted"),
                );
            }
        }
        self.look_for_gone();
        self.bounds_follow();
    }

    /// **When the server gives a session up, its node's right to open has
    /// ended**, but for what the clocks differ by in a TTL, and for the tenth of a
    /// TTL that a leap of the server's clock may cost.
    fn the_deadline_comes_first(&self, process: usize, ttl: Duration) {
        let leapt = self.now < self.server.last_leap + self.plan.longest_ttl() * 2;
        let differ = ttl / 40 + if leapt { ttl / 10 } else { Duration::ZERO };
        if self.processes[process].is_alive() && self.right_left(process) > differ {
            let left = self.right_left(process);
            broken(Invariant::DeadlineFirst, format!("process {process} is given up with {left:?} left"));
        }
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
                let holding = self.holding(process, database);
                let ledger = &mut self.ledgers.all[database];
                let forgotten = ledger.covered[process].is_none() && !counts(process, database);
                if forgotten && holding > 0 && ledger.gone[process].is_none() {
                    ledger.gone[process] = Some(holding);
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
                if counted.is_none() && holding > 0 && ledger.gone[process].is_none() {
                    ledger.gone[process] = Some(holding);
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

    /// See [`World::the_cap_holds`].
    fn bounds_follow(&mut self) {
        for database in 0..self.plan.databases.len() {
            let gone: u64 = self.gone(database);
            let ledger = &mut self.ledgers.all[database];
            ledger.bound = ledger.cap.max(ledger.bound.min(ledger.held));
            let hidden = ledger.seen.iter().map(|(hidden, _)| *hidden).max().unwrap_or_default();
            let all = ledger.seen.iter().map(|(_, tools)| *tools).min().unwrap_or_default();
            let tools = if ledger.seen.len() < OBSERVATIONS { 0 } else { all };
            let come = tools.saturating_sub(ledger.tools);
            ledger.tools = tools;
            ledger.left[0] = ledger.left[0].max(ledger.held + gone + tools);
            let left = ledger.left[0].max(ledger.left[1]);
            ledger.bound_admitted = (ledger.admitted + hidden).max((ledger.bound_admitted + come).min(left));
        }
    }

    fn gone(&self, database: usize) -> u64 {
        let ledger = &self.ledgers.all[database];
        let open = &self.databases.all[database].open;
        let gone = self.ledgers.relevant.iter().filter(|process| ledger.gone[**process].is_some());
        gone.map(|process| u64::from(open[*process])).sum()
    }

    /// Tokens that a process truly has: those it may use, and those whose
    /// connections are open. Of a dead one only the connections are left.
    fn holding(&self, process: usize, database: usize) -> u32 {
        if !self.processes[process].is_alive() {
            return self.databases.all[database].open[process];
        }
        let node = &self.nodes[self.processes[process].node];
        let now = super::node::local(node, self.now);
        self.processes[process].pools[database].read(|ledger, _| {
            let levels = ledger.levels(now);
            let open = levels.established + levels.opening + levels.closing;
            if ledger.is_lapsed(now) { open } else { levels.holding }
        })
    }

    /// Whether a process may still have connections although its fence has
    /// come: it is stopped, or was until lately, or was killed lately.
    fn is_excused(&self, process: usize, database: usize) -> bool {
        let node = &self.nodes[self.processes[process].node];
        let grace = self.plan.databases[database].settings.fence_grace;
        match self.processes[process].died_at {
            Some(died_at) => self.now < died_at + LONGEST_STATEMENT,
            None => node.frozen > 0 || self.now < node.thawed_at + grace,
        }
    }

    /// Checks everything that is promised at each moment.
    pub(crate) fn check(&mut self) {
        self.nobody_babbles();
        self.forget_the_dead();
        for database in 0..self.plan.databases.len() {
            let mut tokens = 0;
            let mut strays = 0;
            for at in 0..self.ledgers.relevant.len() {
                let process = self.ledgers.relevant[at];
                let holding = self.holding(process, database);
                self.connections_have_tokens(process, database);
                if self.ledgers.all[database].gone[process].is_some() {
                    strays += u64::from(self.strays_of(process, database, holding));
                } else {
                    self.one_holder(process, database, holding);
                    tokens += u64::from(holding);
                }
            }
            if database == 1 {
                tokens += self.callers.iter().map(|caller| u64::from(caller.holding(self.now))).sum::<u64>();
            }
            self.the_cap_holds(database, tokens, strays);
        }
    }

    /// **Every connection that a process has open at the database has a token of
    /// its pool**, from before the connect to the end of the close.
    fn connections_have_tokens(&self, process: usize, database: usize) {
        let open = self.databases.all[database].open[process];
        let pool = &self.processes[process].pools[database];
        let tokens = pool.read(|ledger, now| ledger.levels(now).holding);
        if self.processes[process].is_alive() && open > tokens {
            let details = format!(
                "process {process} has {tokens} tokens and {open} connections to database {database}"
            );
            broken(Invariant::ConnectionsHaveTokens, details);
        }
    }

    /// **A token is never held by two nodes, and nothing is granted that the
    /// store has not covered.** What a process holds is at most what the core
    /// counts for it, and at most its ceiling in the store as it is at that
    /// moment, commits that were reported as failed included. A process that
    /// neither knows holds nothing.
    fn one_holder(&self, process: usize, database: usize, holding: u32) {
        let ledger = &self.ledgers.all[database];
        let counted = ledger.counted[process].unwrap_or_default();
        if holding > counted {
            let details =
                format!("process {process} holds {holding} of database {database}, {counted} are counted");
            broken(Invariant::OneHolder, details);
        }
        let covered = ledger.covered[process].unwrap_or_default();
        if holding > covered {
            let details =
                format!("process {process} holds {holding} of database {database}, {covered} are covered");
            broken(Invariant::StoreCovers, details);
        }
    }

    /// What a process has open that was given up. It only becomes less. Without
    /// a probe nobody would count it, so there must be none, unless the process
    /// is stopped and can close nothing.
    fn strays_of(&mut self, process: usize, database: usize, holding: u32) -> u32 {
        let most = self.ledgers.all[database].gone[process].unwrap_or_default();
        if holding > most {
            let details =
                format!("process {process} was given up with {most} of database {database}, has {holding}");
            broken(Invariant::OneHolder, details);
        }
        self.ledgers.all[database].gone[process] = Some(holding);
        let open = self.databases.all[database].open[process];
        if self.plan.databases[database].settings.watched {
            return open;
        }
        if open > 0 && !self.is_excused(process, database) {
            let details =
                format!("process {process} was given up and has {open} connections to database {database}");
            broken(Invariant::CapHolds, details);
        }
        0
    }

    /// **The cap holds.** Two sums, each with a bound:
    ///
    /// 1. What all processes and callers that the core counts truly hold is at
    ///    most the configured cap.
    /// 2. At a watched database, that and the connections of processes that the
    ///    core has given up, and of tools, are together at most what the newest
    ///    answer of the probe admits: the database's limit, less the reserve,
    ///    less the others.
    ///
    /// A bound that falls leaves over what was held before: it comes down no
    /// faster than what the core counts, and does not rise again but with what
    /// is admitted, and with tools that come. The second one comes down with the
    /// observations: between two of them tokens may move, so that what one node
    /// gives back another one may have. What a process claims that was given up, and was right to
    /// have it, counts as left over too.
    ///
    /// Not counted are connections that their client has closed, which linger
    /// at the database for up to 75 ms; those of a process that is stopped and
    /// past its fence; and tools that the last three observations did not all
    /// see. The second bound is higher by the connections that the reports of
    /// attached sessions claimed and the database did not have when the probe
    /// looked: those of nodes whose closes were still on their way, and dead
    /// sockets that nobody has used since the database restarted.
    fn the_cap_holds(&self, database: usize, tokens: u64, strays: u64) {
        let ledger = &self.ledgers.all[database];
        if tokens > ledger.bound {
            let bound = ledger.bound;
            let details = format!("{tokens} tokens of database {database} are held, the bound is {bound}");
            broken(Invariant::CapHolds, details);
        }
        if !self.plan.databases[database].settings.watched {
            return;
        }
        let tools = ledger.tools.min(u64::from(self.databases.all[database].tools));
        if tokens + strays + tools > ledger.bound_admitted {
            let bound = ledger.bound_admitted;
            let details = format!(
                "{tokens} held, {strays} strays and {tools} tools at database {database}, the bound is {bound}"
            );
            broken(Invariant::CapHolds, details);
        }
    }

    fn nobody_babbles(&mut self) {
        let second = self.now.0 / 1_000_000_000;
        if second != self.ledgers.second {
            let sent = self.messages - self.ledgers.messages;
            if sent > MESSAGES_A_SECOND {
                broken(Invariant::Quiet, format!("{sent} messages in one second"));
            }
            (self.ledgers.second, self.ledgers.messages) = (second, self.messages);
        }
    }

    fn forget_the_dead(&mut self) {
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

    /// What a pool of a node's process holds.
    pub(crate) fn tokens_of(&self, node: usize, database: usize) -> u32 {
        self.nodes[node].process.map_or(0, |process| self.holding(process, database))
    }

    /// Now, for those who wait for something.
    pub(crate) fn moment(&self) -> Moment {
        self.now
    }
}
