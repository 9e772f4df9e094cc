//! What happens to the core.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{DatabaseId, DatabaseSettings, SessionId, StreamId, Ticket, Time};

/// Something that happened. Counts are tokens or connections and levels, never
/// increments.
#[derive(Clone, Debug)]
pub enum Event {
    /// A node opened a stream.
    Hello(Hello),
    /// A node reports the levels of one database. The driver passes on only
    /// those with `holding >= established + opening + closing` and
    /// `established >= in_use + idle`.
    Demand {
        /// The stream it came on.
        stream: StreamId,
        /// The database.
        database: DatabaseId,
        /// The levels.
        demand: Demand,
    },
    /// A node shows that it is alive.
    KeepAlive {
        /// The stream it came on.
        stream: StreamId,
        /// To be repeated in the reply.
        id: u64,
    },
    /// A node holds nothing any more and ends its session.
    Goodbye {
        /// The stream it came on.
        stream: StreamId,
    },
    /// A stream ended, for whatever reason. The session lives on.
    StreamEnded {
        /// The stream.
        stream: StreamId,
    },
    /// A unary call asks for tokens.
    Acquire(Acquire),
    /// The caller of a waiting unary call went away, or its longest wait has
    /// passed.
    AcquireEnded {
        /// The call.
        ticket: Ticket,
        /// True when the wait has passed: the call is answered.
        timed_out: bool,
    },
    /// A unary call prolongs a lease.
    Renew {
        /// The call.
        ticket: Ticket,
        /// The lease.
        lease: SessionId,
        /// Name of the caller.
        node: Arc<str>,
    },
    /// A unary call gives a lease back.
    Release {
        /// The call.
        ticket: Ticket,
        /// What to release.
        target: ReleaseTarget,
        /// Name of the caller.
        node: Arc<str>,
    },
    /// The probe is about to look: it sends its query no sooner than 200 ms
    /// from now.
    ObservationStarts {
        /// The database.
        database: DatabaseId,
    },
    /// The probe's answer.
    Observed {
        /// The database.
        database: DatabaseId,
        /// What it saw.
        observation: Observation,
    },
    /// The probe cannot see the database.
    ProbeDown {
        /// The database.
        database: DatabaseId,
        /// Why, for people.
        error: String,
        /// Another server watches it: this one may grant nothing, whatever
        /// cap it knew.
        watched_elsewhere: bool,
    },
    /// The settings of a database changed.
    Configure {
        /// The database.
        database: DatabaseId,
        /// All settings; name and `watched` as before.
        settings: DatabaseSettings,
    },
    /// An operator ends a session, or what is left of one in quarantine.
    Evict {
        /// The session.
        session: SessionId,
    },
    /// Everything emitted since the last such event is durable, or needed no
    /// commit, and is sent. Due after each pass of the driver that did not fail.
    Committed,
    /// That commit failed, or may have. The driver has sent none of the effects
    /// that needed it, and keeps the changes to commit them again, in order,
    /// before newer ones.
    CommitFailed,
    /// Time has passed. Applied after everything else that has come.
    Tick,
}

/// A node opened a stream.
#[derive(Clone, Debug)]
pub struct Hello {
    /// The new stream.
    pub stream: StreamId,
    /// The session it speaks for.
    pub session: SessionId,
    /// Name of the node, for people.
    pub node: Arc<str>,
    /// Workload of the node.
    pub workload: Arc<str>,
    /// One for each database it uses. Each database at most once.
    pub claims: Vec<Claim>,
}

/// What a node holds of one database when it says Hello.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The database.
    pub database: DatabaseId,
    /// Its levels.
    pub demand: Demand,
}

/// The levels of one database at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Newest sequence applied on this stream.
    pub acknowledged: u64,
    /// Tokens kept, used or not.
    pub holding: u32,
    /// Open connections.
    pub established: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Connections being closed.
    pub closing: u32,
    /// Open connections that are checked out.
    pub in_use: u32,
    /// Open connections that are not checked out.
    pub idle: u32,
    /// Tasks that wait and have no token yet.
    pub waiting: u32,
    /// Tokens the node has use for.
    pub wanted: u32,
    /// Age of the oldest waiting task; zero when none waits.
    pub oldest_wait: Duration,
    /// Mean time that a connection stays checked out; zero when unknown.
    pub mean_hold: Duration,
    /// Mean time that a connect takes; zero when unknown.
    pub mean_connect: Duration,
}

impl Demand {
    /// Tokens kept without a connection.
    pub fn unopened(&self) -> u32 {
        self.holding.saturating_sub(self.established + self.opening + self.closing)
    }

    /// Most connections that the database may have open for these levels.
    pub fn possible(&self) -> u32 {
        self.established + self.opening + self.closing
    }
}

/// A unary call asks for tokens.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The call, for the answer.
    pub ticket: Ticket,
    /// The request's UUID; it becomes the lease's id.
    pub request: SessionId,
    /// Name of the caller.
    pub node: Arc<str>,
    /// Workload of the caller.
    pub workload: Arc<str>,
    /// The database.
    pub database: DatabaseId,
    /// How many, all or none. At least 1.
    pub tokens: u32,
}

/// What a Release names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseTarget {
    /// A lease.
    Lease(SessionId),
    /// The request that asked for it; it may still wait.
    Request(SessionId),
}

/// What the probe saw, in one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// When the query was sent.
    pub sent: Time,
    /// The database's own limit.
    pub max_connections: u32,
    /// Time since the database's start.
    pub uptime: Duration,
    /// Connections on the fleet's accounts, the probe's own excluded.
    pub fleet: u32,
    /// Connections on other accounts.
    pub others: u32,
}
