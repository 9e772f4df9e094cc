//! Unary leases: calls that wait for all of their tokens, and what becomes of
//! them. `docs/protocol.md`, "Unary leases".

use alloc::{sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{
    Acquire, DatabaseId, Effect, ReleaseTarget, SessionId, Ticket, Time, UnaryReply,
    calls::Call,
    core::{Attempt, Core},
    database::Database,
    durable::{Kind, Outcome, Unary},
    session::Session,
};

/// Most calls that wait for one database. A further one is refused at once.
pub(crate) const WAITING_CALLS: u32 = 10_000;

/// Most attempts at one request whose delivery is watched.
const HANDED: usize = 64;

impl Core {
    pub(crate) fn acquire(&mut self, now: Time, acquire: Acquire, effects: &mut Vec<Effect>) {
        let ticket = acquire.ticket;
        match self.admit(now, acquire, effects) {
            Ok(()) => {}
            Err(reply) => self.answer(ticket, reply, effects),
        }
    }

    /// Answers a call that does not wait. If the commit fails that the answer rests
    /// on, the call is told so.
    fn answer(&mut self, ticket: Ticket, reply: UnaryReply, effects: &mut Vec<Effect>) {
        if reply.needs_commit() {
            self.batch.answered.push(ticket);
        }
        effects.push(Effect::Reply { ticket, reply });
    }

    /// Answers an attempt at once, or lets it wait.
    fn admit(&mut self, now: Time, acquire: Acquire, effects: &mut Vec<Effect>) -> Result<(), UnaryReply> {
        if self.sessions.contains_key(&acquire.request) {
            let reply = self.repeat(&acquire);
            self.end_silence(acquire.request, effects);
            return Err(reply);
        }
        let Acquire { ticket, request, node, workload, database: id, tokens } = acquire;
        let waits_at = |other: &Database| other.call(request).is_some();
        if self.databases.iter().any(|other| other.id != id && waits_at(other)) {
            return Err(UnaryReply::Mismatch);
        }
        let database = &mut self.databases[id.0 as usize];
        match database.call(request) {
            Some(call) if call.node != node || call.tokens != tokens => return Err(UnaryReply::Mismatch),
            Some(_) => database.attempt_call(request, ticket),
            None => {
                database.let_wait(&workload, tokens)?;
                let tickets = Vec::from([ticket]);
                let call = Call { tickets, tokens, node, workload, since: now, promised: 0 };
                database.insert_call(request, call);
            }
        }
        self.tickets.insert(ticket, Attempt { database: id, request, arrived: self.running() });
        self.decide(now, id, effects);
        Ok(())
    }

    /// An attempt at a request that was answered before.
    fn repeat(&mut self, acquire: &Acquire) -> UnaryReply {
        let running = self.running();
        let names = |id: DatabaseId| self.databases[id.0 as usize].settings.name.clone();
        let name = names(acquire.database);
        let Some(session) = self.sessions.get_mut(&acquire.request) else { return UnaryReply::Unknown };
        let Kind::Unary(Unary { database, tokens, outcome }) = &session.kind else {
            return UnaryReply::Mismatch;
        };
        if session.node != acquire.node || *database != name || *tokens != acquire.tokens {
            return UnaryReply::Mismatch;
        }
        match outcome {
            Outcome::Leased => {
                let (tokens, ttl) = (*tokens, session.ttl);
                session.heard = running;
                if session.handed.len() < HANDED {
                    session.handed.push(acquire.ticket);
                }
                UnaryReply::Leased { lease: acquire.request, tokens, waited: Duration::ZERO, ttl }
            }
            Outcome::Released => UnaryReply::AlreadyReleased,
            Outcome::Expired => UnaryReply::Expired,
        }
    }

    /// Turns the calls that a database has just served into leases.
    pub(crate) fn answer_granted(&mut self, id: DatabaseId, effects: &mut Vec<Effect>) {
        let running = self.running();
        let database = &mut self.databases[id.0 as usize];
        let ttl = database.settings.ttl;
        let name = database.settings.name.clone();
        let granted = core::mem::take(&mut database.granted);
        database.grants += granted.iter().map(|(_, call)| u64::from(call.tokens)).sum::<u64>();
        for (request, call) in granted {
            let unary = Unary { database: name.clone(), tokens: call.tokens, outcome: Outcome::Leased };
            let session = Session {
                node: call.node.clone(),
                workload: call.workload.clone(),
                kind: Kind::Unary(unary),
                stream: None,
                heard: running,
                ttl,
                ttl_next: None,
                databases: Vec::from([id]),
                unclaimed: Vec::new(),
                handed: call.tickets.clone(),
                look_at: None,
                written: None,
            };
            self.sessions.insert(request, session);
            self.look_later(request);
            self.write_later(request);
            self.write_session(request, effects);
            for ticket in &call.tickets {
                let arrived = self.tickets.remove(ticket).map_or(running, |attempt| attempt.arrived);
                let (tokens, waited) = (call.tokens, running.since(arrived));
                let reply = UnaryReply::Leased { lease: request, tokens, waited, ttl };
                effects.push(Effect::Reply { ticket: *ticket, reply });
            }
            self.batch.calls.push((id, request, call));
        }
    }

    /// The commit of calls that were served has failed: they wait again.
    pub(crate) fn requeue(
        &mut self,
        id: DatabaseId,
        request: SessionId,
        call: Call,
        effects: &mut Vec<Effect>,
    ) {
        self.end_session(request, effects);
        for ticket in &call.tickets {
            // What it waited before that is lost: it is told less, which is safe.
            self.tickets.insert(*ticket, Attempt { database: id, request, arrived: self.running() });
        }
        // What was promised to it ended with its lease.
        self.databases[id.0 as usize].insert_call(request, Call { promised: 0, ..call });
    }

    /// An attempt is over without an answer: its caller is gone, or has waited
    /// long enough.
    pub(crate) fn acquire_ended(
        &mut self,
        now: Time,
        ticket: Ticket,
        timed_out: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Some(Attempt { database: id, request, .. }) = self.tickets.remove(&ticket) else {
            if self.batch.calls.iter().any(|(_, _, call)| call.tickets.contains(&ticket)) {
                // If the commit fails it waits again, and must not for ever.
                self.batch.over.push((ticket, timed_out));
            }
            if !timed_out {
                self.not_delivered(now, ticket, effects);
            }
            return;
        };
        if timed_out {
            let reply = if self.store_fails() { UnaryReply::StoreUnavailable } else { UnaryReply::TimedOut };
            effects.push(Effect::Reply { ticket, reply });
        }
        let database = &mut self.databases[id.0 as usize];
        if database.give_up_call(request, ticket) {
            database.remove_call(request);
            self.decide(now, id, effects);
        }
    }

    /// A lease was handed to a caller that is gone. When no other attempt got
    /// it, nobody knows of it: it is released.
    fn not_delivered(&mut self, now: Time, ticket: Ticket, effects: &mut Vec<Effect>) {
        let holder = self.sessions.iter_mut().find(|(_, session)| session.handed.contains(&ticket));
        let Some((&request, session)) = holder else { return };
        session.handed.retain(|other| *other != ticket);
        let leased = matches!(&session.kind, Kind::Unary(unary) if unary.outcome == Outcome::Leased);
        if session.handed.is_empty() && leased {
            self.end_unary(now, request, Outcome::Released, effects);
        }
    }

    pub(crate) fn renew(
        &mut self,
        ticket: Ticket,
        lease: SessionId,
        node: &Arc<str>,
        effects: &mut Vec<Effect>,
    ) {
        let running = self.running();
        let reply = match self.sessions.get_mut(&lease) {
            Some(Session { kind: Kind::Unary(unary), node: owner, heard, ttl, handed, .. }) => {
                match unary.outcome {
                    _ if owner != node => UnaryReply::Foreign,
                    Outcome::Leased => {
                        *heard = running;
                        // Whoever renews has got the lease.
                        handed.clear();
                        UnaryReply::Renewed { ttl: *ttl }
                    }
                    Outcome::Released => UnaryReply::AlreadyReleased,
                    Outcome::Expired => UnaryReply::Expired,
                }
            }
            Some(_) | None => UnaryReply::Unknown,
        };
        self.end_silence(lease, effects);
        self.answer(ticket, reply, effects);
    }

    pub(crate) fn release(
        &mut self,
        now: Time,
        ticket: Ticket,
        target: ReleaseTarget,
        node: &Arc<str>,
        effects: &mut Vec<Effect>,
    ) {
        let (ReleaseTarget::Lease(id) | ReleaseTarget::Request(id)) = target;
        let reply = match self.sessions.get(&id) {
            Some(Session { kind: Kind::Unary(unary), node: owner, .. }) => match unary.outcome {
                _ if owner != node => UnaryReply::Foreign,
                Outcome::Leased => {
                    self.end_unary(now, id, Outcome::Released, effects);
                    UnaryReply::Released
                }
                Outcome::Released => {
                    let name = &unary.database;
                    // It may have been taken out of the configuration.
                    if let Some(of) = self.databases.iter_mut().find(|of| of.settings.name == *name) {
                        of.repeated_releases += 1;
                    }
                    UnaryReply::AlreadyReleased
                }
                Outcome::Expired => UnaryReply::Expired,
            },
            Some(_) => UnaryReply::Unknown,
            None => self.cancel(now, id, node, effects),
        };
        self.answer(ticket, reply, effects);
    }

    /// Cancels a request that still waits.
    fn cancel(
        &mut self,
        now: Time,
        request: SessionId,
        node: &Arc<str>,
        effects: &mut Vec<Effect>,
    ) -> UnaryReply {
        let holder = self.databases.iter_mut().find(|database| database.call(request).is_some());
        let Some(database) = holder else { return UnaryReply::Unknown };
        let id = database.id;
        if database.call(request).is_some_and(|call| call.node != *node) {
            return UnaryReply::Foreign;
        }
        for ticket in database.remove_call(request).into_iter().flat_map(|call| call.tickets) {
            self.tickets.remove(&ticket);
            effects.push(Effect::Reply { ticket, reply: UnaryReply::Cancelled });
        }
        self.decide(now, id, effects);
        UnaryReply::Released
    }

    /// A limit has changed: whoever waits for more than it allows would wait in vain,
    /// and all of its workload behind it. It is told what a new one would be told.
    pub(crate) fn refuse_above_limits(&mut self, id: DatabaseId, effects: &mut Vec<Effect>) {
        let database = &mut self.databases[id.0 as usize];
        if database.settings.shadow {
            return;
        }
        for index in 0..database.workloads.len() {
            let workload = &database.workloads[index];
            let Some(limit) = workload.settings.limit else { continue };
            let (name, above) = (workload.name().clone(), workload.calls.above(limit));
            for call in above.into_iter().filter_map(|request| database.remove_call(request)) {
                for ticket in call.tickets {
                    self.tickets.remove(&ticket);
                    let reply = UnaryReply::AboveLimit { workload: name.clone(), limit };
                    effects.push(Effect::Reply { ticket, reply });
                }
            }
        }
    }

    /// Ends a unary lease; the request is remembered for two times to live.
    pub(crate) fn end_unary(
        &mut self,
        now: Time,
        id: SessionId,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        let running = self.running();
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Kind::Unary(unary) = &mut session.kind {
            unary.outcome = outcome;
        }
        session.heard = running;
        session.handed.clear();
        let databases = core::mem::take(&mut session.databases);
        for database in &databases {
            self.databases[database.0 as usize].remove(id, effects);
        }
        self.look_later(id);
        self.write_session(id, effects);
        for database in databases {
            self.decide(now, database, effects);
        }
    }
}

impl Database {
    /// Whether a new call may wait for so many tokens. In shadow mode it may whatever
    /// the rules say.
    fn let_wait(&mut self, workload: &str, tokens: u32) -> Result<(), UnaryReply> {
        let id = self.workload_named(workload);
        let refusal = self.refusal(&self.workloads[id.index()], tokens);
        let workload = &mut self.workloads[id.index()];
        match refusal {
            Some(_) if self.settings.shadow => workload.shadow.refused += 1,
            Some(refusal) => {
                workload.refused += u64::from(matches!(refusal, UnaryReply::TooManyWait { .. }));
                return Err(refusal);
            }
            None => {}
        }
        let calls: usize = self.workloads.iter().map(|workload| workload.calls.len()).sum();
        if calls >= WAITING_CALLS as usize {
            return Err(UnaryReply::QueueFull { bound: WAITING_CALLS });
        }
        Ok(())
    }
}
