//! What must survive the server: the state that a store loads, and the changes
//! that it commits. Knows nothing of how they are stored.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{LossPolicy, SessionId};

/// Everything durable. Made of changes, applied in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Number of the server's last incarnation; 0 before the first.
    pub generation: u64,
    /// Sessions that may hold something, and unary requests that ended lately.
    pub sessions: BTreeMap<SessionId, Session>,
    /// Ceilings, by session and name of the database.
    pub leases: BTreeMap<(SessionId, Arc<str>), Lease>,
    /// The last cap of each watched database.
    pub caps: BTreeMap<Arc<str>, u32>,
    /// What operators set, by name of the database.
    pub operators: BTreeMap<Arc<str>, Operator>,
    /// The audit log, by sequence.
    pub audit: BTreeMap<u64, Audit>,
}

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Name of the node.
    pub node: Arc<str>,
    /// Workload of the node.
    pub workload: Arc<str>,
    /// What it is.
    pub kind: Kind,
    /// The time to live it was told, in milliseconds.
    pub ttl_ms: u64,
    /// The server's running time since it was last heard of, in milliseconds,
    /// as of the last lazy write.
    pub silent_ms: u64,
}

/// What a session is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A node with streams.
    Node,
    /// A node that expired; what it held is in quarantine.
    Quarantined,
    /// A unary lease.
    Unary(Unary),
}

/// A unary lease. The session's id is that of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unary {
    /// Name of the database.
    pub database: Arc<str>,
    /// Tokens asked for.
    pub tokens: u32,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a unary lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is leased.
    Leased,
    /// It was given back.
    Released,
    /// It expired; what it held may be in quarantine.
    Expired,
}

/// The durable part of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Never below what is counted as held.
    pub ceiling: u32,
    /// The loss policy that the session was told.
    pub on_loss: LossPolicy,
}

/// What operators set for one database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    /// Overrides, at most one for each setting.
    pub overrides: Vec<Override>,
    /// No new grants.
    pub draining: bool,
}

/// One overridden setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// The setting and its value.
    pub value: OverrideValue,
    /// When it ends, in milliseconds since 1970; none: when it is cleared.
    pub until_unix_ms: Option<u64>,
}

/// A setting that can be overridden. New ones come last, or records that were
/// written before would be read as others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverrideValue {
    /// Upper bound of the cap.
    Cap(u32),
    /// Connections kept back.
    Reserve(u32),
    /// "fair", "strict" or "unfair".
    Admission(String),
    /// The quantum, in milliseconds.
    QuantumMs(u64),
    /// Shadow mode.
    Shadow(bool),
    /// A setting of a workload.
    Workload {
        /// Its name.
        name: Arc<str>,
        /// The setting and its value.
        value: WorkloadValue,
    },
}

/// A setting of a workload that can be overridden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadValue {
    /// Its part beside others.
    Weight(u32),
    /// Tokens that it always gets when it has use for them.
    Floor(u32),
    /// Whether the floor is held free.
    Keep(bool),
    /// Most tokens that it ever holds.
    Limit(u32),
    /// Most tasks that wait in it.
    MaxWaiting(u32),
}

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The address of the caller.
    pub who: String,
    /// What was asked, in words.
    pub what: String,
}

/// One change. Each puts or removes the whole value of one key, so that applying
/// a change twice, or a sequence of changes from its start again, does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Sets the generation.
    Generation(u64),
    /// Puts a session.
    PutSession(SessionId, Session),
    /// Removes a session and all its leases.
    RemoveSession(SessionId),
    /// Puts a lease.
    PutLease(SessionId, Arc<str>, Lease),
    /// Removes a lease.
    RemoveLease(SessionId, Arc<str>),
    /// Puts the last cap of a database.
    PutCap(Arc<str>, u32),
    /// Puts what operators set for a database.
    PutOperator(Arc<str>, Operator),
    /// Appends to the audit log.
    PutAudit(u64, Audit),
    /// Removes the oldest entries of the audit log, up to this sequence.
    TrimAudit(u64),
}

/// What the session is called that stands for lost records.
const LOST: &str = "lost-records";

impl State {
    /// Notes that records may be missing: nothing is granted after the next start
    /// until whoever may have been on them has certainly lapsed.
    pub fn miss_records(&mut self) {
        let ttl_ms = self.sessions.values().map(|session| session.ttl_ms).max().unwrap_or(0);
        let lost =
            Session { node: LOST.into(), workload: LOST.into(), kind: Kind::Node, ttl_ms, silent_ms: 0 };
        self.sessions.insert(SessionId::LOST, lost);
    }

    /// Everything in it: changes that make the same state of an empty one.
    pub fn changes(&self) -> Vec<Change> {
        let State { generation, sessions, leases, caps, operators, audit } = self.clone();
        let mut changes = Vec::from([Change::Generation(generation)]);
        changes.extend(sessions.into_iter().map(|(id, session)| Change::PutSession(id, session)));
        changes.extend(leases.into_iter().map(|((id, name), lease)| Change::PutLease(id, name, lease)));
        changes.extend(caps.into_iter().map(|(name, cap)| Change::PutCap(name, cap)));
        changes.extend(operators.into_iter().map(|(name, operator)| Change::PutOperator(name, operator)));
        changes.extend(audit.into_iter().map(|(sequence, entry)| Change::PutAudit(sequence, entry)));
        changes
    }

    /// Applies one change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Generation(generation) => self.generation = generation,
            Change::PutSession(id, session) => {
                self.sessions.insert(id, session);
            }
            Change::RemoveSession(id) => {
                self.sessions.remove(&id);
                self.leases.retain(|(session, _), _| *session != id);
            }
            Change::PutLease(id, database, lease) => {
                self.leases.insert((id, database), lease);
            }
            Change::RemoveLease(id, database) => {
                self.leases.remove(&(id, database));
            }
            Change::PutCap(database, cap) => {
                self.caps.insert(database, cap);
            }
            Change::PutOperator(database, operator) => {
                self.operators.insert(database, operator);
            }
            Change::PutAudit(sequence, audit) => {
                self.audit.insert(sequence, audit);
            }
            Change::TrimAudit(through) => self.audit.retain(|sequence, _| *sequence > through),
        }
    }
}
