//! One database: its cap, its leases and their totals. Decides nothing by
//! itself; `grant`, `recall` and `watch` do.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::{
    mem::{replace, take},
    time::Duration,
};

use crate::{
    Admission, DatabaseId, DatabaseSettings, Effect, Note, SessionId, Time,
    calls::Calls,
    durable::Change,
    lease::{Counts, Lease},
    moves::Moves,
    orders::{Orders, Places},
    watch::Watch,
};

/// Most connects in flight at one database: a database that accepts slowly is
/// not made slower by a crowd (rule 11 of `docs/admission.md`).
pub(crate) const CONNECTS_IN_FLIGHT: u32 = 32;

/// One database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) id: DatabaseId,
    pub(crate) settings: DatabaseSettings,
    pub(crate) leases: BTreeMap<SessionId, Lease>,
    pub(crate) totals: Totals,
    /// Who is next, by every rule.
    pub(crate) orders: Orders,
    /// Leases whose ceiling is above what they hold.
    pub(crate) slack: BTreeSet<SessionId>,
    /// Leases that may have something to send.
    touched: Vec<SessionId>,
    /// Leases that changed since the last commit.
    pub(crate) uncommitted: BTreeSet<SessionId>,
    pub(crate) watch: Watch,
    pub(crate) moves: Moves,
    /// Donors that may have answered a recall.
    pub(crate) answered: Vec<SessionId>,
    pub(crate) calls: Calls,
    pub(crate) cap: u32,
    /// The cap as it was last written.
    cap_written: Option<u32>,
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
    }
}

impl Database {
    pub(crate) fn new(id: DatabaseId, settings: DatabaseSettings, last_cap: Option<u32>) -> Database {
        let watch = Watch::new(settings.watched, last_cap);
        let mut database = Database {
            id,
            settings,
            leases: BTreeMap::new(),
            totals: Totals::default(),
            orders: Orders::default(),
            slack: BTreeSet::new(),
            touched: Vec::new(),
            uncommitted: BTreeSet::new(),
            watch,
            moves: Moves::default(),
            answered: Vec::new(),
            calls: Calls::default(),
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
        database
    }

    /// Changes one lease and keeps totals and indexes true. `None` when the
    /// session has no lease here.
    pub(crate) fn change<R>(&mut self, session: SessionId, how: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        let lease = self.leases.get_mut(&session)?;
        let before = (lease.counts(), Places::of(session, lease));
        let result = how(lease);
        let after = (lease.counts(), Places::of(session, lease));
        if !replace(&mut lease.touched, true) {
            self.touched.push(session);
        }
        if lease.has_answered() {
            self.answered.push(session);
        }
        self.account(session, before.0, after.0);
        self.orders.replace(session, &before.1, &after.1);
        Some(result)
    }

    /// Changes what is written or sent of a lease, which moves it in no order.
    fn recount<R>(&mut self, session: SessionId, how: impl FnOnce(&mut Lease) -> R) -> Option<R> {
        let lease = self.leases.get_mut(&session)?;
        let before = lease.counts();
        let result = how(lease);
        let after = lease.counts();
        self.account(session, before, after);
        Some(result)
    }

    /// Adds a lease.
    pub(crate) fn insert(&mut self, session: SessionId, mut lease: Lease) {
        lease.touched = true;
        self.touched.push(session);
        self.account(session, Counts::default(), lease.counts());
        self.orders.replace(session, &Places::default(), &Places::of(session, &lease));
        let before = self.leases.insert(session, lease);
        assert!(before.is_none(), "two leases of one session at one database");
    }

    /// Removes a lease for good. Returns what it held.
    pub(crate) fn remove(&mut self, session: SessionId, effects: &mut Vec<Effect>) -> u32 {
        let Some(lease) = self.leases.remove(&session) else { return 0 };
        let counts = lease.counts();
        self.account(session, counts, Counts::default());
        self.orders.replace(session, &Places::of(session, &lease), &Places::default());
        self.uncommitted.remove(&session);
        self.forget_moves(session);
        effects.push(Effect::Commit(Change::RemoveLease(session, self.settings.name.clone())));
        counts.held
    }

    fn account(&mut self, session: SessionId, before: Counts, after: Counts) {
        if before == after {
            return;
        }
        self.totals.replace(before, after);
        if after.ceiling > after.held {
            self.slack.insert(session);
        } else if before.ceiling > before.held {
            self.slack.remove(&session);
        }
        self.watch.saw(self.totals.lowest, self.totals.highest);
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
        }
        // A server that dies before the first lazy write must not come back with
        // a cap of nothing: it would take everything back from its nodes.
        if self.cap_written.is_none() && self.watch.newest().is_some() {
            self.write_cap(effects);
        }
    }

    fn write_cap(&mut self, effects: &mut Vec<Effect>) {
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

    pub(crate) fn wake(&mut self, at: Time) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Decides what follows from all changes so far, and says so.
    pub(crate) fn decide(&mut self, now: Time, store_failed: bool, effects: &mut Vec<Effect>) {
        self.wake_at = None;
        self.settle_moves(now);
        if self.settings.draining {
            self.drain();
        } else {
            self.shed();
        }
        if self.grants_allowed() && !store_failed {
            self.grant(now);
            self.recall(now);
        }
        self.settle(now, effects);
    }

    /// Makes ceilings cover what is held, then says what is new.
    fn settle(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let mut touched = take(&mut self.touched);
        for session in touched.drain(..) {
            let Some(lease) = self.leases.get_mut(&session) else { continue };
            lease.touched = false;
            if lease.has_news() {
                self.cover(session, effects);
                self.tell(session, now, effects);
                self.cover(session, effects);
            }
        }
        // Nothing of this touched a lease again: its memory is for the next time.
        self.touched = touched;
        self.make_ceilings_fit(effects);
    }

    /// Sends a session its allotment, if that is not what it was told last.
    fn tell(&mut self, session: SessionId, now: Time, effects: &mut Vec<Effect>) {
        let Some(lease) = self.leases.get(&session) else { return };
        let (told, waited) = (lease.told_tokens(), lease.age(now));
        let Some((stream, allotment, rests_on_commit)) =
            self.recount(session, Lease::next_allotment).flatten()
        else {
            return;
        };
        self.uncommitted.insert(session);
        let database = self.id;
        effects.push(Effect::Allotment { stream, database, allotment, rests_on_commit });
        let tokens = allotment.tokens.abs_diff(told);
        if allotment.tokens > told {
            self.grants += u64::from(tokens);
            effects.push(Effect::Note(Note::Granted { session, database, tokens, waited }));
        } else if allotment.tokens < told {
            self.recalls += u64::from(tokens);
            let recall = allotment.recall;
            effects.push(Effect::Note(Note::Recalled { session, database, tokens, recall }));
        }
    }

    /// Raises the ceiling of a lease to what it holds (rule 13), and writes the
    /// policy that the session was told (rule 16).
    fn cover(&mut self, session: SessionId, effects: &mut Vec<Effect>) {
        if self.leases.get(&session).is_some_and(Lease::is_uncovered) {
            self.write_ceiling(session, effects);
        }
    }

    /// While ceilings sum to more than the cap, lowers those above what is held.
    fn make_ceilings_fit(&mut self, effects: &mut Vec<Effect>) {
        while self.totals.ceiling > u64::from(self.cap) {
            let Some(&session) = self.slack.first() else { return };
            self.write_ceiling(session, effects);
        }
    }

    /// Sets the ceiling of a lease to what it holds.
    fn write_ceiling(&mut self, session: SessionId, effects: &mut Vec<Effect>) {
        if let Some(lease) = self.recount(session, Lease::cover) {
            effects.push(Effect::Commit(Change::PutLease(session, self.settings.name.clone(), lease)));
        }
    }

    /// The lazy part of what is durable: ceilings come down, the cap is noted.
    pub(crate) fn write_lazily(&mut self, effects: &mut Vec<Effect>) {
        while let Some(&session) = self.slack.first() {
            self.write_ceiling(session, effects);
        }
        if self.settings.watched && self.watch.may_grant() && self.cap_written != Some(self.cap) {
            self.write_cap(effects);
        }
    }

    /// Everything emitted since the last commit is durable and on its way.
    pub(crate) fn committed(&mut self) {
        for session in take(&mut self.uncommitted) {
            if let Some(lease) = self.leases.get_mut(&session) {
                lease.committed();
            }
        }
    }

    /// Nothing emitted since the last commit was sent. Returns whom that concerns.
    pub(crate) fn commit_failed(&mut self) -> BTreeSet<SessionId> {
        let uncommitted = take(&mut self.uncommitted);
        for session in &uncommitted {
            self.change(*session, Lease::withdraw);
        }
        uncommitted
    }
}
