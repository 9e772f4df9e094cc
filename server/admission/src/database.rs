//! One database: its cap, its leases and their totals. Decides nothing by
//! itself; `grant`, `recall` and `watch` do.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::{
    mem::{replace, take},
    time::Duration,
};

use crate::{
    Admission, DatabaseId, DatabaseSettings, Effect, Note, Queueing, SessionId, Time,
    between::fit_floors,
    calls::Call,
    durable::Change,
    lease::{Counts, Lease, Standing},
    moves::Moves,
    orders::Places,
    targets::Claim,
    watch::Watch,
    workload::{Workload, WorkloadId},
};

/// Most connects in flight at one database: a database that accepts slowly is
/// not made slower by a crowd (rule 11 of `docs/admission.md`).
pub(crate) const CONNECTS_IN_FLIGHT: u32 = 32;

/// The quantum by which nodes report ages in strict order. It knows the true order
/// only as far as it is told; what it passes over is at most the age of a report.
const STRICT_REPORTS: Duration = Duration::from_millis(100);

/// One database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) id: DatabaseId,
    pub(crate) settings: DatabaseSettings,
    pub(crate) leases: BTreeMap<SessionId, Lease>,
    pub(crate) totals: Totals,
    /// The default workload first.
    pub(crate) workloads: Vec<Workload>,
    /// The tokens, and the claims on them, that the workloads' targets are made of.
    pub(crate) aimed_for: (u64, Vec<Claim>),
    /// Leases whose ceiling is above what they hold.
    pub(crate) slack: BTreeSet<SessionId>,
    /// Leases that may have something to send.
    pub(crate) touched: Vec<SessionId>,
    /// Leases that changed since the last commit.
    pub(crate) uncommitted: BTreeSet<SessionId>,
    pub(crate) watch: Watch,
    pub(crate) moves: Moves,
    /// Donors that may have answered a recall.
    pub(crate) answered: Vec<SessionId>,
    /// Calls that were served and are not yet answered.
    pub(crate) granted: Vec<(SessionId, Call)>,
    pub(crate) cap: u32,
    /// The cap as it was last written.
    pub(crate) cap_written: Option<u32>,
    /// A session attached with more than was counted, which the probe may count
    /// as strays until the next observation is judged: no excess is recalled.
    pub(crate) unsettled: bool,
    /// When to decide again although nothing happens.
    pub(crate) wake_at: Option<Time>,
    pub(crate) grants: u64,
    pub(crate) recalls: u64,
    pub(crate) expired: u64,
    pub(crate) repeated_releases: u64,
}

/// Sums over all leases of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) held: u64,
    pub(crate) target: u64,
    pub(crate) recallable: u64,
    pub(crate) ceiling: u64,
    pub(crate) lowest: u64,
    pub(crate) highest: u64,
    pub(crate) waiting: u64,
    pub(crate) in_flight: u64,
    pub(crate) quarantined: u64,
    pub(crate) live: u64,
    pub(crate) using: u64,
    pub(crate) giving: u64,
    pub(crate) promised: u64,
}

impl Totals {
    pub(crate) fn replace(&mut self, before: Counts, after: Counts) {
        let swap = |sum: &mut u64, before: u32, after: u32| {
            *sum = *sum + u64::from(after) - u64::from(before);
        };
        swap(&mut self.held, before.held, after.held);
        swap(&mut self.target, before.target, after.target);
        swap(&mut self.recallable, before.recallable, after.recallable);
        swap(&mut self.ceiling, before.ceiling, after.ceiling);
        swap(&mut self.lowest, before.lowest, after.lowest);
        swap(&mut self.highest, before.highest, after.highest);
        swap(&mut self.waiting, before.waiting, after.waiting);
        swap(&mut self.in_flight, before.in_flight, after.in_flight);
        swap(&mut self.quarantined, before.quarantined, after.quarantined);
        swap(&mut self.live, before.live, after.live);
        swap(&mut self.using, before.using, after.using);
        swap(&mut self.giving, before.giving, after.giving);
        swap(&mut self.promised, before.promised, after.promised);
    }
}

/// All that is kept of a lease beside it.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    workload: WorkloadId,
    counts: Counts,
    places: Places,
}

impl Account {
    fn of(session: SessionId, lease: &Lease) -> Account {
        Account { workload: lease.workload, counts: lease.counts(), places: Places::of(session, lease) }
    }
}

impl Database {
    pub(crate) fn new(id: DatabaseId, settings: DatabaseSettings, last_cap: Option<u32>) -> Database {
        let watch = Watch::new(settings.watched, last_cap);
        let workloads = Workload::all(&settings.workloads, &[]);
        let mut database = Database {
            id,
            settings,
            leases: BTreeMap::new(),
            totals: Totals::default(),
            workloads,
            aimed_for: (0, Vec::new()),
            slack: BTreeSet::new(),
            touched: Vec::new(),
            uncommitted: BTreeSet::new(),
            watch,
            moves: Moves::default(),
            answered: Vec::new(),
            granted: Vec::new(),
            cap: 0,
            cap_written: last_cap,
            unsettled: false,
            wake_at: None,
            grants: 0,
            recalls: 0,
            expired: 0,
            repeated_releases: 0,
        };
        database.cap = database.cap_now();
        if database.cap > 0 {
            fit_floors(&mut database.workloads, database.cap);
        }
        database
    }

    /// Takes other settings. `workload` names that of a session.
    pub(crate) fn configure<'a>(
        &mut self,
        settings: DatabaseSettings,
        workload: impl Fn(SessionId) -> Option<&'a Arc<str>>,
        effects: &mut Vec<Effect>,
    ) {
        let before = replace(&mut self.settings, settings);
        if before.workloads != self.settings.workloads {
            if before.workloads.has_names_of(&self.settings.workloads) {
                self.divide_otherwise();
            } else {
                self.sort_again(workload);
            }
            self.refit_floors(effects);
        }
        self.tell_queueing();
        self.recap(effects);
    }

    /// Gives each workload its new settings. Who is in which stays as it is, so nobody
    /// is counted again: to an observation under way that would be a moment in which
    /// nodes had nothing, and a stray that is gone would count for longer.
    fn divide_otherwise(&mut self) {
        for (workload, settings) in self.workloads.iter_mut().zip(self.settings.workloads.iter()) {
            workload.settings = settings.clone();
            if self.cap == 0 {
                workload.floor = workload.settings.floor_within_limit();
            }
        }
    }

    /// Sorts everybody into other workloads.
    fn sort_again<'a>(&mut self, workload: impl Fn(SessionId) -> Option<&'a Arc<str>>) {
        let workloads = Workload::all(&self.settings.workloads, &self.workloads);
        let before = replace(&mut self.workloads, workloads);
        self.aimed_for = (0, Vec::new());
        for call in before.into_iter().flat_map(|mut workload| workload.calls.drain()) {
            self.insert_call(call.0, call.1);
        }
        self.totals = Totals::default();
        for (session, mut lease) in take(&mut self.leases) {
            lease.workload =
                workload(session).map_or_else(WorkloadId::default, |name| self.workload_named(name));
            self.insert(session, lease);
        }
    }

    /// Changes one lease and keeps totals and indexes true. `None` when the
    /// session has no lease here.
    pub(crate) fn change<R>(&mut self, session: SessionId, how: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        let lease = self.leases.get_mut(&session)?;
        let before = Account::of(session, lease);
        let result = how(lease);
        let after = Account::of(session, lease);
        if !replace(&mut lease.touched, true) {
            self.touched.push(session);
        }
        if lease.has_answered() {
            self.answered.push(session);
        }
        self.account(session, &before, &after);
        Some(result)
    }

    /// Changes what is written or sent of a lease, which moves it in no order.
    pub(crate) fn recount<R>(&mut self, session: SessionId, how: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        let lease = self.leases.get_mut(&session)?;
        let (before, workload) = (lease.counts(), lease.workload);
        let result = how(lease);
        let after = lease.counts();
        self.count(session, (workload, before), (workload, after));
        Some(result)
    }

    /// Adds a lease.
    pub(crate) fn insert(&mut self, session: SessionId, mut lease: Lease) {
        lease.touched = true;
        self.touched.push(session);
        let nothing = Account { workload: lease.workload, ..Account::default() };
        self.account(session, &nothing, &Account::of(session, &lease));
        let before = self.leases.insert(session, lease);
        assert!(before.is_none(), "two leases of one session at one database");
    }

    /// Removes a lease for good. Returns what it held.
    pub(crate) fn remove(&mut self, session: SessionId, effects: &mut Vec<Effect>) -> u32 {
        let Some(lease) = self.leases.remove(&session) else { return 0 };
        let nothing = Account { workload: lease.workload, ..Account::default() };
        self.account(session, &Account::of(session, &lease), &nothing);
        self.uncommitted.remove(&session);
        self.forget_moves(session);
        effects.push(Effect::Commit(Change::RemoveLease(session, self.settings.name.clone())));
        lease.held()
    }

    fn account(&mut self, session: SessionId, before: &Account, after: &Account) {
        self.count(session, (before.workload, before.counts), (after.workload, after.counts));
        if before.workload == after.workload {
            self.workloads[after.workload.index()].orders.replace(session, &before.places, &after.places);
        } else {
            let nowhere = Places::default();
            self.workloads[before.workload.index()].orders.replace(session, &before.places, &nowhere);
            self.workloads[after.workload.index()].orders.replace(session, &nowhere, &after.places);
        }
    }

    fn count(&mut self, session: SessionId, before: (WorkloadId, Counts), after: (WorkloadId, Counts)) {
        if before == after {
            return;
        }
        self.workloads[before.0.index()].totals.replace(before.1, Counts::default());
        self.workloads[after.0.index()].totals.replace(Counts::default(), after.1);
        let (before, after) = (before.1, after.1);
        self.totals.replace(before, after);
        if after.ceiling > after.held {
            self.slack.insert(session);
        } else if before.ceiling > before.held {
            self.slack.remove(&session);
        }
        self.watch.saw(self.totals.lowest, self.totals.highest);
    }

    /// The workload of this name, or the default.
    pub(crate) fn workload_named(&self, name: &str) -> WorkloadId {
        let named = self.workloads.iter().find(|workload| &**workload.name() == name);
        named.map_or(WorkloadId::default(), |workload| workload.id)
    }

    /// Most tokens that could be granted now, in total.
    pub(crate) fn room(&self) -> u32 {
        self.unheld().saturating_sub(self.watch.kept())
    }

    pub(crate) fn unheld(&self) -> u32 {
        u64::from(self.cap).saturating_sub(self.totals.held) as u32
    }

    /// Whether grants may be made at all.
    pub(crate) fn grants_allowed(&self) -> bool {
        let records_lost = self.leases.contains_key(&SessionId::LOST);
        !self.settings.draining && !records_lost && self.watch.may_grant()
    }

    /// The cap that follows from settings and observations.
    fn cap_now(&self) -> u32 {
        let admitted = match self.watch.admitted(self.settings.reserve) {
            Some(admitted) => admitted,
            None if self.settings.watched => 0,
            None => u32::MAX,
        };
        admitted.min(self.settings.cap.unwrap_or(u32::MAX))
    }

    /// Brings the cap up to date.
    pub(crate) fn recap(&mut self, effects: &mut Vec<Effect>) {
        let to = self.cap_now();
        if to != self.cap {
            effects.push(Effect::Note(Note::CapChanged { database: self.id, from: self.cap, to }));
            self.watch.keep_also_of(to.saturating_sub(self.cap));
            self.cap = to;
            self.refit_floors(effects);
        }
        // A server that dies before the first lazy write must not come back with
        // a cap of nothing: it would take everything back from its nodes.
        if self.cap_written.is_none() && self.watch.newest().is_some() {
            self.write_cap(effects);
        }
    }

    /// Brings the floors in force up to date with a cap that is known.
    fn refit_floors(&mut self, effects: &mut Vec<Effect>) {
        let before: u64 = self.workloads.iter().map(|workload| u64::from(workload.floor)).sum();
        if self.cap == 0 {
            return;
        }
        let (set, in_force) = fit_floors(&mut self.workloads, self.cap);
        if in_force != before {
            effects.push(Effect::Note(Note::FloorsFitted { database: self.id, set, in_force }));
        }
    }

    pub(crate) fn write_cap(&mut self, effects: &mut Vec<Effect>) {
        self.cap_written = Some(self.cap);
        effects.push(Effect::Commit(Change::PutCap(self.settings.name.clone(), self.cap)));
    }

    /// An observation was judged: what it leaves in doubt is kept from grants.
    pub(crate) fn keep_doubtful(&mut self) {
        let free = self.unheld();
        self.watch.keep_of(free);
    }

    pub(crate) fn quantum(&self) -> Option<Duration> {
        match self.settings.admission {
            Admission::Unfair => None,
            Admission::Fair { quantum } => Some(quantum),
        }
    }

    /// The quantum by which nodes report how long their tasks wait; zero: no order
    /// asks for it.
    fn report_quantum(&self) -> Duration {
        match self.quantum() {
            None => Duration::ZERO,
            Some(quantum) if quantum.is_zero() => STRICT_REPORTS,
            Some(quantum) => quantum,
        }
    }

    /// How the tasks of a workload's sessions queue.
    pub(crate) fn queueing(&self, workload: WorkloadId) -> Queueing {
        Queueing { quantum: self.report_quantum(), full: self.workloads[workload.index()].full() }
    }

    /// Lets nodes know whose workloads have as many waiting tasks as may wait, or
    /// have not any more.
    fn look_at_queues(&mut self) {
        let shadow = self.settings.shadow;
        let look = |any, workload: &mut Workload| workload.look_at_queue(shadow) || any;
        if self.workloads.iter_mut().fold(false, look) {
            self.tell_queueing();
        }
    }

    /// Notes what is to be told to each node that queues by other rules now.
    fn tell_queueing(&mut self) {
        let news = |(session, lease): (&SessionId, &Lease)| {
            let queueing = self.queueing(lease.workload);
            let attached = matches!(lease.standing, Standing::Attached(_));
            (attached && lease.queueing != queueing).then_some((*session, queueing))
        };
        let news: Vec<(SessionId, Queueing)> = self.leases.iter().filter_map(news).collect();
        for (session, queueing) in news {
            self.change(session, |lease| lease.queueing = queueing);
        }
    }

    pub(crate) fn wake(&mut self, at: Time) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Decides what follows from all changes so far, and says so.
    pub(crate) fn decide(&mut self, now: Time, store_failed: bool, effects: &mut Vec<Effect>) {
        self.wake_at = None;
        self.settle_moves(now);
        if self.settings.draining {
            self.drain();
        } else if !self.settings.shadow {
            self.shed();
        }
        self.aim(now);
        if self.settings.shadow {
            if !self.settings.draining && !store_failed {
                self.grant_in_shadow(now);
            }
        } else if self.grants_allowed() && !store_failed {
            self.grant(now);
            self.recall(now);
        }
        self.look_at_queues();
        self.settle(now, effects);
    }
}
