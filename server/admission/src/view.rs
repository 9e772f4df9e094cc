//! What the core shows of itself to operators. Read-only copies.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{Admission, DatabaseId, LossPolicy, SessionId};

/// One database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseView {
    /// Its id.
    pub id: DatabaseId,
    /// Its name.
    pub name: Arc<str>,
    /// Most tokens leasable now.
    pub cap: u32,
    /// Tokens that count against the cap, quarantined ones included.
    pub held: u32,
    /// Tokens that could be granted now.
    pub free: u32,
    /// Connections kept back.
    pub reserve: u32,
    /// Connections on accounts that are not the fleet's.
    pub others: u32,
    /// Connections on the fleet's accounts of no live session, for certain.
    pub strays: u32,
    /// Strays that are possible but not certain.
    pub uncertain: u32,
    /// Held of expired sessions.
    pub quarantined: u32,
    /// The database's own limit as last read.
    pub max_connections: Option<u32>,
    /// Waiting tasks in all nodes, and waiting unary calls.
    pub waiting: u32,
    /// Live sessions that use it.
    pub sessions: u32,
    /// Admission in force.
    pub admission: Admission,
    /// No new grants.
    pub draining: bool,
    /// The configured or overridden upper bound of the cap.
    pub cap_limit: Option<u32>,
    /// Time to live.
    pub ttl: Duration,
    /// What nodes do past their deadline.
    pub on_loss: LossPolicy,
    /// The probe.
    pub probe: ProbeState,
    /// Age of the newest observation.
    pub observed: Option<Duration>,
    /// Tokens granted since the start.
    pub grants: u64,
    /// Tokens recalled since the start.
    pub recalls: u64,
    /// Leases that expired since the start.
    pub expired: u64,
}

/// The state of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeState {
    /// The database is not watched.
    None,
    /// Nothing was seen yet.
    Starting,
    /// The last look succeeded.
    Ok,
    /// The last look failed.
    Down(String),
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// Name of the node.
    pub node: Arc<str>,
    /// Workload of the node.
    pub workload: Arc<str>,
    /// Its state.
    pub state: SessionState,
    /// Running time since it was last heard of.
    pub silent: Duration,
    /// Its time to live.
    pub ttl: Duration,
    /// Its leases, in the order of the databases' ids.
    pub leases: Vec<LeaseView>,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// A stream speaks for it.
    Attached,
    /// It lives, but no stream speaks for it.
    Unattached,
    /// It expired; what it held is kept back.
    Quarantined,
    /// A unary lease.
    Unary,
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The database.
    pub database: DatabaseId,
    /// The server's target.
    pub allotment: u32,
    /// What the node reports to hold.
    pub holding: u32,
    /// What counts against the cap.
    pub held: u32,
    /// The durable upper bound of held.
    pub ceiling: u32,
    /// Connections checked out.
    pub in_use: u32,
    /// Connections open and idle.
    pub idle: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Connections being closed.
    pub closing: u32,
    /// Waiting tasks.
    pub waiting: u32,
    /// Age of the oldest waiting task.
    pub oldest_wait: Duration,
    /// Mean time that a connection stays checked out.
    pub mean_hold: Duration,
}
