//! Why a session has what it has of a database, and what it waits for. Looks at
//! everybody where it must: it is for people who ask, and no decision rests on it.

use alloc::{sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{
    DatabaseId, LeaseView, SessionId, Time,
    calls::{Call, as_receiver},
    core::Core,
    database::Database,
    grant::age_of_call,
    lease::Lease,
    orders::{Lack, NOBODY, Places},
    queue::{EffectiveAge, effective_age},
    reason::{Reason, Rule},
    shadow::Shadowed,
    targets::TOKEN,
    workload::Workload,
};

/// Most explanations of one answer.
const EXPLAINED: usize = 20;

/// Most holders that one explanation names.
const HOLDERS: usize = 5;

/// What the server knows of one session, or of one call that waits, at one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The session, or the request of the call.
    pub session: SessionId,
    /// Name of its node.
    pub node: Arc<str>,
    /// The database.
    pub database: DatabaseId,
    /// What it has; none: it is a call that waits.
    pub lease: Option<LeaseView>,
    /// Where it counts: "default" for a workload that nobody set anything for.
    pub workload: Arc<str>,
    /// What the workload holds.
    pub workload_held: u32,
    /// What the workload is to have, in thousandths of a token. None: it is alone.
    pub workload_target_thousandths: Option<u64>,
    /// What matters to admission.
    pub facts: Facts,
    /// Its place among all of its workload that need something. 1: it is next.
    pub place: Option<u32>,
    /// Busy tokens that are asked for on its behalf, the oldest first.
    pub moves: Vec<Promise>,
    /// What shadow mode has granted it, that it would have waited for.
    pub shadowed: Option<ShadowedView>,
    /// Those that hold most of the database, the greatest first.
    pub holders: Vec<Holder>,
}

/// What admission goes by, of one session at one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Tokens that it has use for.
    pub demand: u32,
    /// Tokens that its tasks need, beyond what is theirs already.
    pub need: u32,
    /// Tokens that others were asked for on its behalf.
    pub promised: u32,
    /// Tokens that it was asked for and has not given up.
    pub giving: u32,
    /// Its share of what its workload is to have, in thousandths of a token. None: a
    /// call has none.
    pub share_thousandths: Option<u64>,
    /// How many of its workload need something.
    pub in_line: u32,
    /// What it waits for.
    pub reason: Reason,
}

/// What somebody would have waited for, since it attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowedView {
    /// Tokens.
    pub tokens: u64,
    /// What it would have waited for, the last time.
    pub reason: Reason,
    /// Time since then.
    pub ago: Duration,
}

/// A busy token that another session was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Name of the donor's node.
    pub donor: Arc<str>,
    /// By which rule.
    pub rule: Rule,
    /// Since when.
    pub asked: Duration,
}

/// Somebody who holds tokens of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The session.
    pub session: SessionId,
    /// Name of its node.
    pub node: Arc<str>,
    /// Where it counts.
    pub workload: Arc<str>,
    /// What it has.
    pub lease: LeaseView,
}

/// Somebody who may need something: a lease or a call.
#[derive(Clone, Copy)]
pub(crate) enum Asking<'a> {
    Lease(&'a Lease),
    Call(&'a Call),
}

impl Core {
    /// Explains the sessions and the waiting calls that are `wanted`, by database, id
    /// and node: those that wait longest first. Also says how many more there are.
    pub fn explain(
        &self,
        now: Time,
        wanted: impl Fn(DatabaseId, SessionId, &str) -> bool,
    ) -> (Vec<Explanation>, usize) {
        let mut found = Vec::new();
        for database in &self.databases {
            for (session, lease) in &database.leases {
                let owner = self.sessions.get(session);
                if let Some(owner) = owner.filter(|owner| wanted(database.id, *session, &owner.node)) {
                    found.push((database, *session, &owner.node, Asking::Lease(lease)));
                }
            }
            for (request, call) in database.workloads.iter().flat_map(|workload| workload.calls.iter()) {
                if wanted(database.id, request, &call.node) {
                    found.push((database, request, &call.node, Asking::Call(call)));
                }
            }
        }
        found.sort_by_key(|(database, session, _, asking)| {
            (asking.since().unwrap_or(NOBODY), database.id, *session)
        });
        let left_out = found.len().saturating_sub(EXPLAINED);
        found.truncate(EXPLAINED);
        let explain = |(database, session, node, asking): (&Database, SessionId, &Arc<str>, Asking<'_>)| {
            self.explanation(database, session, node, asking, now)
        };
        (found.into_iter().map(explain).collect(), left_out)
    }

    /// What admission goes by for one lease. Looks at nobody else.
    pub fn facts(&self, now: Time, session: SessionId, database: DatabaseId) -> Option<Facts> {
        let at = &self.databases[database.0 as usize];
        let lease = at.leases.get(&session)?;
        Some(at.facts(session, Asking::Lease(lease), self.store_fails(), now))
    }

    fn explanation(
        &self,
        database: &Database,
        session: SessionId,
        node: &Arc<str>,
        asking: Asking<'_>,
        now: Time,
    ) -> Explanation {
        let workload = asking.workload(database);
        let moves = database.moves.iter().filter(|step| step.receiver == session);
        let holder = |(session, lease): (&SessionId, &Lease)| Holder {
            session: *session,
            node: self.node_of(*session),
            workload: database.workloads[lease.workload.index()].name().clone(),
            lease: lease.view(database.id, now),
        };
        Explanation {
            session,
            node: node.clone(),
            database: database.id,
            lease: match asking {
                Asking::Lease(lease) => Some(lease.view(database.id, now)),
                Asking::Call(_) => None,
            },
            workload: workload.name().clone(),
            workload_held: count(workload.totals.held),
            workload_target_thousandths: database.target_thousandths(workload),
            facts: database.facts(session, asking, self.store_fails(), now),
            place: database.place(session, asking, now),
            moves: moves
                .map(|step| Promise {
                    donor: self.node_of(step.donor),
                    rule: step.rule,
                    asked: now.since(step.since),
                })
                .collect(),
            shadowed: asking.shadowed().map(|shadowed| ShadowedView {
                tokens: shadowed.tokens,
                reason: shadowed.reason,
                ago: now.since(shadowed.at),
            }),
            holders: database.greatest_holders().into_iter().map(holder).collect(),
        }
    }

    fn node_of(&self, session: SessionId) -> Arc<str> {
        self.sessions.get(&session).map_or_else(|| Arc::from(""), |owner| owner.node.clone())
    }
}

impl Database {
    fn facts(&self, session: SessionId, asking: Asking<'_>, store_fails: bool, now: Time) -> Facts {
        let workload = asking.workload(self);
        let (demand, giving, share) = match asking {
            Asking::Lease(lease) => {
                (lease.using(), lease.giving(), Some(self.shares(workload).share_thousandths(lease.stake())))
            }
            Asking::Call(call) => (call.tokens, 0, None),
        };
        Facts {
            demand,
            need: asking.need(),
            promised: asking.promised(),
            giving,
            share_thousandths: share,
            in_line: workload.orders.receivers.len() as u32,
            reason: self.reason(session, asking, store_fails, now),
        }
    }

    /// Those that hold most, the greatest first.
    fn greatest_holders(&self) -> Vec<(&SessionId, &Lease)> {
        let mut greatest: Vec<(&SessionId, &Lease)> = Vec::with_capacity(HOLDERS + 1);
        for (session, lease) in self.leases.iter().filter(|(_, lease)| lease.held() > 0) {
            let at = greatest.partition_point(|(_, other)| other.held() >= lease.held());
            if at < HOLDERS {
                greatest.insert(at, (session, lease));
                greatest.truncate(HOLDERS);
            }
        }
        greatest
    }

    /// How many of its workload come before it for free capacity, and one.
    fn place(&self, session: SessionId, asking: Asking<'_>, now: Time) -> Option<u32> {
        let own = asking.effective_age(session, now)?;
        let workload = asking.workload(self);
        let calls = workload.calls.iter().filter(|(request, call)| age_of_call(*request, call, now) > own);
        Some((1 + workload.orders.queue.before(own, now) + calls.count()) as u32)
    }
}

impl<'a> Asking<'a> {
    pub(crate) fn workload(self, database: &'a Database) -> &'a Workload {
        let id = match self {
            Asking::Lease(lease) => lease.workload,
            Asking::Call(call) => database.workload_named(&call.workload),
        };
        &database.workloads[id.index()]
    }

    pub(crate) fn since(self) -> Option<Time> {
        match self {
            Asking::Lease(lease) => lease.oldest_since,
            Asking::Call(call) => Some(call.since),
        }
    }

    pub(crate) fn need(self) -> u32 {
        match self {
            Asking::Lease(lease) => lease.need(),
            Asking::Call(call) => call.tokens,
        }
    }

    /// With how many tokens something is done for it.
    pub(crate) fn least(self) -> u32 {
        match self {
            Asking::Lease(_) => 1,
            Asking::Call(call) => call.tokens,
        }
    }

    pub(crate) fn promised(self) -> u32 {
        match self {
            Asking::Lease(lease) => lease.promised,
            Asking::Call(call) => call.promised,
        }
    }

    fn shadowed(self) -> Option<Shadowed> {
        match self {
            Asking::Lease(lease) => lease.shadowed,
            Asking::Call(_) => None,
        }
    }

    /// What it lacks beyond what is promised.
    pub(crate) fn lack(self, session: SessionId) -> Option<Lack> {
        match self {
            Asking::Lease(lease) => Places::of(session, lease).receiver.map(|(_, lack)| lack),
            Asking::Call(call) => as_receiver((session, call)).map(|(_, lack)| lack),
        }
    }

    fn effective_age(self, session: SessionId, now: Time) -> Option<EffectiveAge> {
        match self {
            Asking::Lease(lease) => {
                let (part, turn) = Places::of(session, lease).queue?;
                Some(effective_age(&turn, part, now))
            }
            Asking::Call(call) => Some(age_of_call(session, call, now)),
        }
    }
}

pub(crate) fn count(sum: u64) -> u32 {
    u32::try_from(sum).unwrap_or(u32::MAX)
}

impl Database {
    /// What a workload is to have; none where there is no other.
    pub(crate) fn target_thousandths(&self, workload: &Workload) -> Option<u64> {
        (self.workloads.len() > 1).then(|| workload.target * 1_000 / TOKEN)
    }
}
