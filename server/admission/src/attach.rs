//! The life of a session: Hello, silence, expiry, quarantine, the end. Rules 1,
//! 10 and 14 to 16 of `docs/protocol.md`.

use alloc::{sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{
    Claim, Close, DatabaseId, Demand, Effect, Hello, Note, SessionId, StreamId, Terms, Time, Welcome,
    core::Core,
    durable::{self, Change, Kind, Outcome},
    lease::{Lease, Standing},
    session::Session,
    silence::REMEMBERED_TTLS,
    workload::WorkloadId,
};

/// Time to live of a session that uses no database.
const USUAL_TTL: Duration = Duration::from_secs(10);

impl Core {
    /// A new stream speaks for a session, from now on alone (rule 1).
    pub(crate) fn hello(&mut self, now: Time, hello: Hello, effects: &mut Vec<Effect>) {
        let Hello { stream, session: id, node, workload, claims } = hello;
        let unary = matches!(self.sessions.get(&id), Some(Session { kind: Kind::Unary(_), .. }));
        if unary || id == SessionId::LOST {
            effects.push(Effect::Close { stream, reason: Close::Unknown });
            return;
        }
        let new = !self.sessions.contains_key(&id);
        let ttls = claims.iter().map(|claim| self.databases[claim.database.0 as usize].settings.ttl);
        let ttl = ttls.min().unwrap_or(USUAL_TTL);
        self.supersede(id, stream, effects);
        self.welcome_session(id, stream, &node, workload, ttl);

        let terms = claims.iter().map(|claim| self.attach(id, stream, claim, now, effects)).collect();
        let claimed: Vec<DatabaseId> = claims.iter().map(|claim| claim.database).collect();
        self.leave_unclaimed(id, &claimed);
        self.look_later(id);
        self.write_session(id, effects);
        self.end_silence(id, effects);
        effects.push(Effect::Note(Note::Attached { session: id, node, new }));
        effects.push(Effect::Welcome { stream, welcome: Welcome { ttl, terms } });
        self.batch.welcomes.push(stream);
        for database in claimed {
            self.decide(now, database, effects);
        }
    }

    fn supersede(&mut self, id: SessionId, stream: StreamId, effects: &mut Vec<Effect>) {
        let old = self.sessions.get(&id).and_then(|session| session.stream);
        if let Some(old) = old {
            self.streams.remove(&old);
            effects.push(Effect::Close { stream: old, reason: Close::Superseded });
        }
        self.streams.insert(stream, id);
    }

    fn welcome_session(
        &mut self,
        id: SessionId,
        stream: StreamId,
        node: &Arc<str>,
        workload: Arc<str>,
        ttl: Duration,
    ) {
        let running = self.running();
        let session = self.sessions.entry(id).or_insert_with(|| Session {
            node: node.clone(),
            workload: workload.clone(),
            kind: Kind::Node,
            stream: None,
            heard: running,
            ttl,
            ttl_next: None,
            databases: Vec::new(),
            unclaimed: Vec::new(),
            handed: Vec::new(),
            look_at: None,
            written: None,
        });
        session.node = node.clone();
        session.workload = workload;
        session.kind = Kind::Node;
        session.stream = Some(stream);
        session.heard = running;
        // Until it acknowledges the Welcome, it may believe in what it was
        // told before.
        session.ttl = session.ttl.max(ttl);
        session.ttl_next = Some(ttl);
    }

    fn attach(
        &mut self,
        id: SessionId,
        stream: StreamId,
        claim: &Claim,
        now: Time,
        effects: &mut Vec<Effect>,
    ) -> Terms {
        let Claim { database, demand } = *claim;
        let at = &mut self.databases[database.0 as usize];
        let mut workload = WorkloadId::default();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.add(database);
            workload = at.workload_named(&session.workload);
        }
        let on_loss = at.settings.on_loss;
        if !at.leases.contains_key(&id) {
            at.insert(id, Lease::recovered(0, on_loss, Standing::Unattached));
        }
        let counted = at.leases.get(&id).map_or(0, Lease::held);
        let usual_hold = at.workloads[workload.index()].orders.shares.usual_hold();
        let queueing = at.queueing(workload);
        let attach = |lease: &mut Lease| {
            lease.workload = workload;
            lease.assume_hold(usual_hold);
            lease.attach(stream, demand, on_loss, queueing, now)
        };
        let sequence = at.change(id, attach).unwrap_or_default();
        if demand.holding > counted {
            at.unsettled = at.settings.watched;
            let claimed = demand.holding;
            effects.push(Effect::Note(Note::OverClaimed { session: id, database, claimed, counted }));
        }
        Terms { database, sequence, on_loss, quantum: queueing.quantum }
    }

    /// Databases that the Hello does not name: the node uses them no more, but
    /// nothing is lowered before it has acknowledged a Welcome.
    fn leave_unclaimed(&mut self, id: SessionId, claimed: &[DatabaseId]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.unclaimed =
            session.databases.iter().copied().filter(|database| !claimed.contains(database)).collect();
        for database in session.unclaimed.clone() {
            self.databases[database.0 as usize].change(id, Lease::detach);
        }
    }

    /// A report of levels.
    pub(crate) fn demand(
        &mut self,
        now: Time,
        stream: StreamId,
        database: DatabaseId,
        demand: Demand,
        effects: &mut Vec<Effect>,
    ) {
        let Some(id) = self.heard(stream, effects) else { return };
        let at = &mut self.databases[database.0 as usize];
        let is_attached = |lease: &&Lease| lease.standing == Standing::Attached(stream);
        let Some(lease) = at.leases.get(&id).filter(is_attached) else {
            effects.push(Effect::Note(Note::Dropped { stream }));
            return;
        };
        let (counted, was_welcomed) = (lease.held(), lease.is_welcomed());
        let usual_hold = at.workloads[lease.workload.index()].orders.shares.usual_hold();
        let report = |lease: &mut Lease| {
            lease.assume_hold(usual_hold);
            (lease.report(demand, now), lease.is_welcomed())
        };
        let (excess, is_welcomed) = at.change(id, report).unwrap_or_default();
        if excess > 0 {
            let claimed = demand.holding;
            effects.push(Effect::Note(Note::OverClaimed { session: id, database, claimed, counted }));
        }
        if is_welcomed && !was_welcomed {
            self.acknowledge_welcome(now, id, effects);
        }
        self.decide(now, database, effects);
    }

    /// The node has its Welcome: what that told is in force.
    fn acknowledge_welcome(&mut self, now: Time, id: SessionId, effects: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let told = session.ttl_next.is_some();
        session.ttl = session.ttl_next.take().unwrap_or(session.ttl);
        let unclaimed = core::mem::take(&mut session.unclaimed);
        session.databases.retain(|database| !unclaimed.contains(database));
        if told {
            self.look_later(id);
            self.write_later(id);
        }
        for database in unclaimed {
            self.databases[database.0 as usize].remove(id, effects);
            self.decide(now, database, effects);
        }
    }

    /// A sign of life. It also says that everything is as it was reported last:
    /// whoever has nothing new to report would be doubted for ever.
    pub(crate) fn keep_alive(&mut self, now: Time, stream: StreamId, id: u64, effects: &mut Vec<Effect>) {
        let Some(session) = self.heard(stream, effects) else { return };
        effects.push(Effect::KeepAlive { stream, id });
        let leases = |database: &DatabaseId| &self.databases[database.0 as usize].leases;
        let is_doubted =
            |database: &DatabaseId| leases(database).get(&session).is_some_and(Lease::is_doubted);
        // Hardly ever any.
        let doubted: Vec<DatabaseId> =
            self.sessions[&session].databases.iter().copied().filter(is_doubted).collect();
        for database in doubted {
            self.databases[database.0 as usize].change(session, Lease::stands_by_its_report);
            self.decide(now, database, effects);
        }
    }

    /// The session that a stream speaks for, now heard of.
    fn heard(&mut self, stream: StreamId, effects: &mut Vec<Effect>) -> Option<SessionId> {
        let running = self.running();
        let Some(&id) = self.streams.get(&stream) else {
            effects.push(Effect::Note(Note::Dropped { stream }));
            return None;
        };
        if let Some(session) = self.sessions.get_mut(&id) {
            session.heard = running;
        }
        Some(id)
    }

    /// The node holds nothing any more.
    pub(crate) fn goodbye(&mut self, now: Time, stream: StreamId, effects: &mut Vec<Effect>) {
        let Some(id) = self.heard(stream, effects) else { return };
        let databases = self.end_session(id, effects);
        effects.push(Effect::Close { stream, reason: Close::Ended });
        for database in databases {
            self.decide(now, database, effects);
        }
    }

    pub(crate) fn stream_ended(&mut self, now: Time, stream: StreamId, effects: &mut Vec<Effect>) {
        let Some(id) = self.streams.remove(&stream) else { return };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.stream = None;
        let databases = session.databases.clone();
        self.write_later(id);
        for database in databases {
            self.databases[database.0 as usize].change(id, Lease::detach);
            self.decide(now, database, effects);
        }
    }

    /// A look at a session is due: expires it if it has been silent for too long,
    /// forgets it if it is over.
    pub(crate) fn expire_if_due(&mut self, now: Time, id: SessionId, effects: &mut Vec<Effect>) {
        let running = self.running();
        if self.sessions.get(&id).is_some_and(|session| running >= session.expires()) {
            self.expire_session(now, id, effects);
        }
    }

    fn expire_session(&mut self, now: Time, id: SessionId, effects: &mut Vec<Effect>) {
        let running = self.running();
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let silent = session.silent(running);
        match &mut session.kind {
            Kind::Unary(unary) if unary.outcome != Outcome::Leased => {
                if silent >= session.ttl * REMEMBERED_TTLS && session.databases.is_empty() {
                    self.end_session(id, effects);
                } else {
                    self.end_fenced(now, id, effects);
                }
                return;
            }
            Kind::Quarantined => {
                self.end_fenced(now, id, effects);
                return;
            }
            Kind::Unary(unary) => unary.outcome = Outcome::Expired,
            Kind::Node => session.kind = Kind::Quarantined,
        }
        session.handed.clear();
        let node = session.node.clone();
        let databases = session.databases.clone();
        if let Some(stream) = session.stream.take() {
            self.streams.remove(&stream);
            effects.push(Effect::Close { stream, reason: Close::Expired });
        }
        let mut tokens = 0;
        for database in &databases {
            let at = &mut self.databases[database.0 as usize];
            let held = at.leases.get(&id).map_or(0, Lease::held);
            at.expired += u64::from(held > 0);
            at.change(id, |lease| lease.quarantine(now));
            tokens += held;
        }
        effects.push(Effect::Note(Note::Expired { session: id, node, tokens }));
        self.write_session(id, effects);
        self.write_later(id);
        for database in databases {
            self.end_quarantine_if(id, database, effects, |lease| is_empty(id, lease));
            self.decide(now, database, effects);
        }
    }

    /// Ends the quarantine of fenced leases whose grace has passed, where no
    /// probe can tell (rule 16).
    fn end_fenced(&mut self, now: Time, id: SessionId, effects: &mut Vec<Effect>) {
        let running = self.running();
        let Some(session) = self.sessions.get(&id) else { return };
        let (silent, ttl) = (session.silent(running), session.ttl);
        for database in session.databases.clone() {
            let settings = &self.databases[database.0 as usize].settings;
            let over = !settings.watched && silent >= ttl + settings.fence_grace;
            self.end_quarantine_if(id, database, effects, |lease| {
                over && lease.on_loss == crate::LossPolicy::Fence || is_empty(id, lease)
            });
            self.decide(now, database, effects);
        }
    }

    /// Ends quarantines at a database after one of its observations was judged.
    pub(crate) fn judged(&mut self, now: Time, database: DatabaseId, sent: Time, effects: &mut Vec<Effect>) {
        let at = &mut self.databases[database.0 as usize];
        at.unsettled = false;
        let concerned: Vec<SessionId> =
            at.workloads.iter().flat_map(|workload| &workload.orders.unobserved).copied().collect();
        for id in concerned {
            let ended = self.databases[database.0 as usize].change(id, |lease| lease.judged(sent));
            if ended == Some(true) {
                self.end_quarantine_if(id, database, effects, |_| true);
            }
        }
        let at = &mut self.databases[database.0 as usize];
        at.recap(effects);
        at.keep_doubtful();
        self.decide(now, database, effects);
    }

    fn end_quarantine_if(
        &mut self,
        id: SessionId,
        database: DatabaseId,
        effects: &mut Vec<Effect>,
        over: impl FnOnce(&Lease) -> bool,
    ) {
        let at = &mut self.databases[database.0 as usize];
        let Some(lease) = at.leases.get(&id) else { return };
        if !matches!(lease.standing, Standing::Quarantined { .. }) || !over(lease) {
            return;
        }
        let tokens = at.remove(id, effects);
        if tokens > 0 || id == SessionId::LOST {
            effects.push(Effect::Note(Note::QuarantineEnded { session: id, database, tokens }));
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.databases.retain(|other| *other != database);
        if session.databases.is_empty() && session.kind == Kind::Quarantined {
            self.end_session(id, effects);
        }
        self.look_later(id);
    }

    /// An operator ends a session at once.
    pub(crate) fn evict(&mut self, now: Time, id: SessionId, effects: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(stream) = session.stream.take() {
            self.streams.remove(&stream);
            effects.push(Effect::Close { stream, reason: Close::Evicted });
        }
        let session = self.sessions.get(&id);
        if matches!(session, Some(Session { kind: Kind::Unary(_), .. })) {
            self.end_unary(now, id, Outcome::Expired, effects);
            return;
        }
        for database in self.end_session(id, effects) {
            self.decide(now, database, effects);
        }
    }

    /// Removes a session with everything it held. Returns where it held.
    pub(crate) fn end_session(&mut self, id: SessionId, effects: &mut Vec<Effect>) -> Vec<DatabaseId> {
        let Some(session) = self.sessions.remove(&id) else { return Vec::new() };
        self.look_no_more(id, &session);
        if let Some(stream) = session.stream {
            self.streams.remove(&stream);
        }
        for database in &session.databases {
            self.databases[database.0 as usize].remove(id, effects);
        }
        effects.push(Effect::Commit(Change::RemoveSession(id)));
        session.databases
    }

    /// Writes that a session is silent no more, if a silence was written. A server
    /// that started from that silence would expire it sooner than it was told.
    pub(crate) fn end_silence(&mut self, id: SessionId, effects: &mut Vec<Effect>) {
        self.write_session_if(id, Session::has_written_silence_beyond, effects);
    }

    /// Writes the record of a session, if it is worth it.
    pub(crate) fn write_session(&mut self, id: SessionId, effects: &mut Vec<Effect>) {
        self.write_session_if(id, Session::is_stale, effects);
    }

    fn write_session_if(
        &mut self,
        id: SessionId,
        wanted: fn(&Session, &durable::Session) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let running = self.running();
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let record = session.record(running);
        if wanted(session, &record) {
            session.written = Some(record.clone());
            effects.push(Effect::Commit(Change::PutSession(id, record)));
        }
    }
}

/// Whether nothing is kept back by a lease.
fn is_empty(id: SessionId, lease: &Lease) -> bool {
    lease.held() == 0 && id != SessionId::LOST
}
