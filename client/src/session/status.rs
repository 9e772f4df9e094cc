//! How a session stands, as a copy to be passed around. Decides nothing.

use std::collections::BTreeMap;

use super::Fault;
use super::member::Knowledge;
use super::message::{DatabaseName, Generation, SessionId};
use crate::clock::Time;

/// How a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// The session's id.
    pub session: SessionId,
    /// Index of the endpoint whose server has welcomed the current stream;
    /// `None`: not attached.
    pub endpoint: Option<usize>,
    /// Highest generation that has welcomed the session; zero: none has.
    pub generation: Generation,
    /// When the right to open connections ends; `None` before the first
    /// Welcome.
    pub deadline: Option<Time>,
    /// What the server said about each database.
    pub databases: BTreeMap<DatabaseName, DatabaseState>,
    /// The last failure of each endpoint that has not welcomed the session
    /// since, by its index.
    pub faults: BTreeMap<usize, Fault>,
    /// How the session ended, if it has.
    pub ending: Option<Ending>,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server knows that nothing is held, or never knew the session.
    Confirmed,
    /// Nothing is held, but the server could not be told: it finds out when
    /// the session expires there.
    Unheard,
    /// Connections were still open. They are counted until the session expires
    /// and, after that, as its loss policy says.
    Holding,
}

/// What the server last said about a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseState {
    /// Nothing yet.
    Awaited,
    /// It is leased.
    Known,
    /// It is not in the server's configuration. Asked again at each new
    /// stream.
    Unknown,
}

impl From<Knowledge> for DatabaseState {
    fn from(knowledge: Knowledge) -> Self {
        match knowledge {
            Knowledge::Awaited => Self::Awaited,
            Knowledge::Known(_) => Self::Known,
            Knowledge::Unknown => Self::Unknown,
        }
    }
}
