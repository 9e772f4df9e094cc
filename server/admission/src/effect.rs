//! What the core wants done.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{DatabaseId, LossPolicy, SessionId, StreamId, Ticket, durable::Change};

/// One thing to do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make durable, before any effect with `needs_commit` is carried out.
    Commit(Change),
    /// Answer a Hello.
    Welcome {
        /// The stream.
        stream: StreamId,
        /// The answer.
        welcome: Welcome,
    },
    /// Send an allotment.
    Allotment {
        /// The stream.
        stream: StreamId,
        /// The database.
        database: DatabaseId,
        /// The target.
        allotment: Allotment,
        /// It rests on the commit of what was emitted before it. One that only
        /// lowers does not.
        rests_on_commit: bool,
    },
    /// Answer a keep-alive.
    KeepAlive {
        /// The stream.
        stream: StreamId,
        /// As it came.
        id: u64,
    },
    /// End a stream.
    Close {
        /// The stream.
        stream: StreamId,
        /// Why.
        reason: Close,
    },
    /// Answer a unary call.
    Reply {
        /// The call.
        ticket: Ticket,
        /// The answer.
        reply: UnaryReply,
    },
    /// Tell people: a log line, a count, a span.
    Note(Note),
}

impl Effect {
    /// Whether it may be carried out only after the commit of everything
    /// emitted before it.
    pub fn needs_commit(&self) -> bool {
        match self {
            Effect::Welcome { .. } | Effect::Note(Note::Granted { .. }) => true,
            Effect::Allotment { rests_on_commit, .. } => *rests_on_commit,
            Effect::Reply { reply, .. } => reply.needs_commit(),
            Effect::Commit(_) | Effect::KeepAlive { .. } | Effect::Close { .. } | Effect::Note(_) => false,
        }
    }
}

/// Accepts a Hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The session's time to live.
    pub ttl: Duration,
    /// One for each claim, in their order.
    pub terms: Vec<Terms>,
}

/// What holds for one database on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The database.
    pub database: DatabaseId,
    /// Sequence of the Welcome.
    pub sequence: u64,
    /// What the node does past its deadline.
    pub on_loss: LossPolicy,
    /// The quantum by which ages are reported; zero: not on their own account.
    pub quantum: Duration,
}

/// The server's target for one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allotment {
    /// Rises strictly on a stream and database.
    pub sequence: u64,
    /// How many tokens the session should hold.
    pub tokens: u32,
    /// How the node goes down to `tokens`.
    pub recall: Recall,
    /// How its tasks queue from now on.
    pub queueing: Queueing,
}

/// How the tasks of a session queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queueing {
    /// The quantum by which ages are reported; zero: not on their own account.
    pub quantum: Duration,
    /// As many tasks wait in its workload as may: so many. Another one is to be
    /// refused, unless it is the only one of its node, which is to be heard of.
    pub full: Option<u32>,
}

/// How a node gives up tokens above its allotment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recall {
    /// Nothing is recalled.
    None,
    /// Unused ones at once.
    Idle,
    /// Unused ones at once, the rest as they come back.
    NextReturn,
}

/// Why the server ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// A newer stream of the session was accepted.
    Superseded,
    /// The session expired.
    Expired,
    /// An operator evicted the session.
    Evicted,
    /// The session ended as it asked.
    Ended,
    /// The store does not answer, so that the Hello cannot be accepted now.
    StoreUnavailable,
    /// The stream speaks for no session.
    Unknown,
}

/// The answer to a unary call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnaryReply {
    /// The tokens are leased, from now or from an earlier attempt.
    Leased {
        /// Names the lease.
        lease: SessionId,
        /// How many.
        tokens: u32,
        /// How long this attempt waited for them, on a clock that stands still
        /// while the server does: at most the true time.
        waited: Duration,
        /// Lifetime without a renewal, from the end of the wait.
        ttl: Duration,
    },
    /// The longest wait has passed.
    TimedOut,
    /// The request was released while it waited.
    Cancelled,
    /// The request id is bound to another node, database or count.
    Mismatch,
    /// More tokens than the database's cap admits now.
    TooMany {
        /// The cap.
        cap: u32,
    },
    /// More tokens than its workload may ever hold.
    AboveLimit {
        /// The workload.
        workload: Arc<str>,
        /// Its limit.
        limit: u32,
    },
    /// As many tasks wait in its workload as may.
    TooManyWait {
        /// The workload.
        workload: Arc<str>,
        /// The most that may wait.
        max_waiting: u32,
    },
    /// Too many calls wait already.
    QueueFull {
        /// The bound.
        bound: u32,
    },
    /// The lease was prolonged.
    Renewed {
        /// Lifetime from now on.
        ttl: Duration,
    },
    /// The lease was given back now, or the waiting request was cancelled.
    Released,
    /// It had been given back before.
    AlreadyReleased,
    /// It had expired before.
    Expired,
    /// It was never known, or is forgotten.
    Unknown,
    /// It belongs to another node.
    Foreign,
    /// The store does not answer; nothing was granted.
    StoreUnavailable,
}

impl UnaryReply {
    /// Whether it may be given only after the commit of everything before it. A
    /// renewal that a crash forgets leaves less time than was told; and that a lease
    /// was given back is as little known as that it is, until it is durable.
    pub(crate) fn needs_commit(&self) -> bool {
        match self {
            UnaryReply::Leased { .. }
            | UnaryReply::Renewed { .. }
            | UnaryReply::Released
            | UnaryReply::AlreadyReleased => true,
            UnaryReply::TimedOut
            | UnaryReply::Cancelled
            | UnaryReply::Mismatch
            | UnaryReply::TooMany { .. }
            | UnaryReply::AboveLimit { .. }
            | UnaryReply::TooManyWait { .. }
            | UnaryReply::QueueFull { .. }
            | UnaryReply::Expired
            | UnaryReply::Unknown
            | UnaryReply::Foreign
            | UnaryReply::StoreUnavailable => false,
        }
    }
}

/// Something that people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Tokens were granted.
    Granted {
        /// To whom.
        session: SessionId,
        /// Of which database.
        database: DatabaseId,
        /// How many more than before.
        tokens: u32,
        /// Age of the session's oldest waiting task at the grant.
        waited: Duration,
    },
    /// Tokens were asked back.
    Recalled {
        /// From whom.
        session: SessionId,
        /// Of which database.
        database: DatabaseId,
        /// How many.
        tokens: u32,
        /// How.
        recall: Recall,
    },
    /// A session was attached.
    Attached {
        /// Which.
        session: SessionId,
        /// Its node.
        node: Arc<str>,
        /// It was not known before.
        new: bool,
    },
    /// A session claimed more than it was ever granted.
    OverClaimed {
        /// Which.
        session: SessionId,
        /// Of which database.
        database: DatabaseId,
        /// What it claimed.
        claimed: u32,
        /// What the server had counted.
        counted: u32,
    },
    /// A session expired; what it held is in quarantine.
    Expired {
        /// Which.
        session: SessionId,
        /// Its node.
        node: Arc<str>,
        /// Tokens in quarantine, over all databases.
        tokens: u32,
    },
    /// The quarantine of an expired session ended for one database.
    QuarantineEnded {
        /// Which.
        session: SessionId,
        /// The database.
        database: DatabaseId,
        /// Tokens that are free again.
        tokens: u32,
    },
    /// The cap of a database changed.
    CapChanged {
        /// The database.
        database: DatabaseId,
        /// Before.
        from: u32,
        /// Now.
        to: u32,
    },
    /// The floors of workloads in force are others than before: they are less than
    /// was set while the cap is less than all of them.
    FloorsFitted {
        /// The database.
        database: DatabaseId,
        /// The sum of the floors that were set.
        set: u64,
        /// The sum of the floors in force.
        in_force: u64,
    },
    /// The probe sees the database again, or for the first time.
    ProbeUp {
        /// The database.
        database: DatabaseId,
    },
    /// The probe lost the database.
    ProbeLost {
        /// The database.
        database: DatabaseId,
        /// Why.
        error: String,
    },
    /// The database restarted.
    DatabaseRestarted {
        /// The database.
        database: DatabaseId,
    },
    /// A message from a stream that no longer speaks for its session was
    /// dropped.
    Dropped {
        /// The stream.
        stream: StreamId,
    },
}
