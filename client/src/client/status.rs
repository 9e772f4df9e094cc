//! How a client's session stands, in words of the application. Decides nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Attempt;
use crate::clock::Time;
use crate::endpoint::Endpoint;
use crate::session::{DatabaseState, SessionStatus};

/// How a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The session's id, 32 hexadecimal digits, as the operator's command shows
    /// it.
    pub session: String,
    /// A server has welcomed the current stream.
    pub attached: bool,
    /// The endpoint of that server.
    pub endpoint: Option<String>,
    /// Highest generation that has welcomed the session; `None`: none has.
    pub generation: Option<u64>,
    /// How long connections may still be opened without another word from the
    /// server. Zero: the deadline has passed. `None`: never welcomed.
    pub deadline_remaining: Option<Duration>,
    /// What the server said about each database.
    pub databases: BTreeMap<String, DatabaseState>,
    /// Why each endpoint failed that has not welcomed the session since.
    pub attempts: Vec<Attempt>,
    /// The session has ended.
    pub ended: bool,
}

impl Status {
    pub(super) fn of(status: &SessionStatus, endpoints: &[Endpoint], now: Time) -> Self {
        let databases = status.databases.iter().map(|(database, state)| (database.to_string(), *state));
        Self {
            session: status.session.to_string(),
            attached: status.endpoint.is_some(),
            endpoint: status.endpoint.and_then(|index| endpoints.get(index)).map(Endpoint::to_string),
            generation: Some(status.generation.0).filter(|generation| *generation > 0),
            deadline_remaining: status.deadline.map(|deadline| deadline.since(now)),
            databases: databases.collect(),
            attempts: Attempt::list(status, endpoints),
            ended: status.ending.is_some(),
        }
    }
}
