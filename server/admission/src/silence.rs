//! Whose silence is looked at next, and whose record is worth a lazy write: two
//! indexes, so that neither a tick nor a lazy write looks at everybody.
//!
//! A sign of life only moves a look to later. That is noticed when the look is
//! due, so it costs nothing when the sign comes.

use alloc::{collections::BTreeSet, vec::Vec};
use core::mem::{replace, take};

use crate::{
    DatabaseId, Effect, LossPolicy, SessionId, Time,
    core::Core,
    durable::{Kind, Outcome},
    lease::{Lease, Standing},
    session::{Running, Session},
};

/// A unary request is remembered for this many times to live after its end.
pub(crate) const REMEMBERED_TTLS: u32 = 2;

/// What is to be looked at, and when.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// At most one for each session, and none later than it is due.
    at: BTreeSet<(Running, SessionId)>,
    /// Sessions whose record may differ from what is written.
    unwritten: BTreeSet<SessionId>,
}

impl Core {
    /// Brings the next look at a session up to date, after anything but a sign
    /// of life.
    pub(crate) fn look_later(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (planned, due) = (session.look_at, self.look_due(id, session));
        if due.is_some_and(|due| planned.is_none_or(|planned| due < planned)) {
            self.plan_look(id, due);
        }
    }

    /// A session is to be looked at with the next tick, whatever its silence.
    pub(crate) fn look_soon(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        // One that is overdue is looked at with the next tick anyway.
        if session.look_at.is_none_or(|planned| planned > self.running()) {
            self.plan_look(id, Some(self.running()));
        }
    }

    /// What is kept back of sessions may be kept for shorter from now on.
    pub(crate) fn look_at_absent(&mut self, database: DatabaseId) {
        let leases = &self.databases[database.0 as usize].leases;
        let quarantined = |lease: &Lease| matches!(lease.standing, Standing::Quarantined { .. });
        let absent: Vec<SessionId> =
            leases.iter().filter(|(_, lease)| quarantined(lease)).map(|(id, _)| *id).collect();
        for id in absent {
            self.look_later(id);
        }
    }

    /// A session is gone.
    pub(crate) fn look_no_more(&mut self, id: SessionId, session: &Session) {
        if let Some(at) = session.look_at {
            self.looks.at.remove(&(at, id));
        }
        self.looks.unwritten.remove(&id);
    }

    /// The record of a session may have changed, and can be written lazily.
    pub(crate) fn write_later(&mut self, id: SessionId) {
        self.looks.unwritten.insert(id);
    }

    fn plan_look(&mut self, id: SessionId, due: Option<Running>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let planned = replace(&mut session.look_at, due);
        if let Some(at) = planned {
            self.looks.at.remove(&(at, id));
        }
        if let Some(at) = due {
            self.looks.at.insert((at, id));
        }
    }

    /// Expires who has been silent for too long, forgets what is over.
    pub(crate) fn expire(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let running = self.running();
        let mut due = Vec::new();
        while let Some(&(at, id)) = self.looks.at.first()
            && at <= running
        {
            self.plan_look(id, None);
            due.push(id);
        }
        for id in due {
            self.expire_if_due(now, id, effects);
            self.look_later(id);
        }
    }

    /// When there is something to do about a session, if only time passes.
    fn look_due(&self, id: SessionId, session: &Session) -> Option<Running> {
        let after = |silence| Running(session.heard.0.saturating_add(silence));
        match &session.kind {
            Kind::Node => Some(session.expires()),
            Kind::Unary(unary) if unary.outcome == Outcome::Leased => Some(session.expires()),
            Kind::Unary(_) if session.databases.is_empty() => Some(after(session.ttl * REMEMBERED_TTLS)),
            Kind::Unary(_) | Kind::Quarantined => {
                let databases = session.databases.iter().map(|at| &self.databases[at.0 as usize]);
                let fenced = databases.filter(|at| {
                    let told = at.leases.get(&id).map(|lease| lease.on_loss);
                    !at.settings.watched && told == Some(LossPolicy::Fence)
                });
                fenced.map(|at| after(session.ttl.saturating_add(at.settings.fence_grace))).min()
            }
        }
    }

    /// Writes the records that have changed. Whoever is silent is looked at again
    /// each time: its age is part of its record.
    pub(crate) fn write_records(&mut self, effects: &mut Vec<Effect>) {
        for id in take(&mut self.looks.unwritten) {
            self.write_session(id, effects);
            if self.sessions.get(&id).is_some_and(|session| session.stream.is_none()) {
                self.write_later(id);
            }
        }
    }

    /// No look is missed, no record forgotten.
    pub(crate) fn looks_are_planned(&self) {
        for (id, session) in &self.sessions {
            let planned = session.look_at;
            let due = self.look_due(*id, session);
            assert!(due.is_none() || planned.is_some_and(|at| Some(at) <= due), "a look too late");
            assert!(planned.is_none_or(|at| self.looks.at.contains(&(at, *id))), "a look forgotten");
            let stale = session.is_stale(&session.record(self.running()));
            assert!(!stale || self.looks.unwritten.contains(id), "a record that nobody will write");
        }
        let planned = self.sessions.values().filter(|session| session.look_at.is_some()).count();
        assert_eq!(self.looks.at.len(), planned, "a look at nobody");
    }
}
