//! What goes into the driver, and what comes out of it. Knows nothing of gRPC.

use std::{sync::Arc, time::Duration};

use leasehold_admission::{
    Acquire, Allotment, Close, DatabaseId, DatabaseView, Demand, Event, Explanation, Hello, ReleaseTarget,
    SessionId, SessionView, StreamId, Ticket, UnaryReply, Welcome,
};
use tokio::sync::{mpsc, oneshot};

use super::overrides::{Contradiction, OverrideRequest, OverrideStatus};

/// One thing for the driver to take.
pub(super) enum Input {
    /// A node opened a stream.
    Open {
        hello: Hello,
        /// The databases of the Hello in its order, unknown ones included.
        places: Vec<Place>,
        outgoing: mpsc::Sender<Outgoing>,
    },
    /// A node reports the levels of one database.
    Demand { stream: StreamId, database: DatabaseId, demand: Demand, traceparent: Option<Arc<str>> },
    /// A message on a stream that needs nothing but the core.
    OnStream { stream: StreamId, event: Event },
    /// A stream ended.
    StreamEnded { stream: StreamId },
    /// A unary call.
    Call { call: Call, reply: oneshot::Sender<UnaryReply> },
    /// A unary call is over without an answer, or has waited for long enough.
    CallEnded { ticket: Ticket, timed_out: bool },
    /// A probe tells something.
    Probe(Event),
    /// A probe is connected; what keeps it from seeing what it should, for people.
    ProbeConnected { database: DatabaseId, warning: Option<String> },
    /// An operator wants something changed.
    Admin { action: AdminAction, who: String, reply: oneshot::Sender<Result<AdminReply, AdminRefusal>> },
    /// The server stops.
    Stop,
}

/// Somebody wants to see something. Changes nothing, so that it can be answered
/// while the store stalls.
pub(super) enum Look {
    /// Everything.
    Status(oneshot::Sender<Snapshot>),
    /// The sessions.
    Sessions(oneshot::Sender<Vec<SessionView>>),
    /// Why somebody waits.
    Why(Subject, oneshot::Sender<(Vec<Explanation>, usize)>),
}

/// Whom somebody asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Name of a node, or the beginning of a session's id.
    pub name: String,
    /// It may be the beginning of an id.
    pub may_be_id: bool,
    /// Only at this database.
    pub database: Option<DatabaseId>,
}

impl Subject {
    pub(super) fn is(&self, session: SessionId, node: &str) -> bool {
        node == self.name
            || (self.may_be_id && session.to_string().starts_with(&self.name.to_ascii_lowercase()))
    }
}

/// A unary call.
pub(super) enum Call {
    Acquire(Acquire),
    Renew { ticket: Ticket, lease: SessionId, node: Arc<str> },
    Release { ticket: Ticket, target: ReleaseTarget, node: Arc<str> },
}

/// A database as a Hello named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name.
    pub name: Arc<str>,
    /// None: the server does not know it.
    pub database: Option<DatabaseId>,
}

/// A message for a node. When the sender is dropped without an end, the node
/// did not take its messages fast enough, or the server stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// Answers the Hello.
    Welcome {
        /// Number of the server's incarnation.
        generation: u64,
        /// Terms of the known databases, in the order of `places`.
        welcome: Welcome,
        /// The databases of the Hello in its order.
        places: Vec<Place>,
    },
    /// The server's target for one database.
    Allotment(DatabaseId, Allotment),
    /// Answers a keep-alive.
    KeepAlive(u64),
    /// Nothing follows.
    End(Close),
}

/// What an operator wants changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAction {
    /// Overrides settings.
    SetOverride {
        /// Of this database.
        database: DatabaseId,
        /// Which.
        request: OverrideRequest,
    },
    /// Starts or ends a drain.
    SetDraining {
        /// Of this database.
        database: DatabaseId,
        /// Whether it drains from now on.
        draining: bool,
    },
    /// Ends a session.
    Evict {
        /// The first hexadecimal digits of its id.
        prefix: String,
    },
}

/// What became of an operator's wish.
#[derive(Clone, Debug, PartialEq)]
pub enum AdminReply {
    /// The database after the change.
    Database(Box<DatabaseStatus>),
    /// The session before the change.
    Session(SessionView),
}

/// Why an operator's wish was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminRefusal {
    /// The store fails; nothing was changed.
    StoreFails(String),
    /// It was done, and the store failed at it: it will be made durable when the
    /// store works again.
    NotDurable(String),
    /// It contradicts what is set otherwise; nothing was changed.
    Contradicts(Contradiction),
    /// No session has an id that starts like this.
    UnknownSession,
    /// So many sessions have an id that starts like this.
    AmbiguousSession(usize),
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Number of the server's incarnation.
    pub generation: u64,
    /// Time since the start.
    pub uptime: Duration,
    /// Commits since the start.
    pub commits: u64,
    /// The databases, in the order of their ids.
    pub databases: Vec<DatabaseStatus>,
}

/// One database.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseStatus {
    /// As the core sees it.
    pub view: DatabaseView,
    /// Overrides in force.
    pub overrides: Vec<OverrideStatus>,
    /// What keeps the probe from seeing what it should, for people.
    pub probe_warning: Option<String>,
}

/// How the driver does. Readable without asking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Why the store refuses commits, if it does.
    pub store: Result<(), String>,
}
