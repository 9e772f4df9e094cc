//! What can go wrong between an application and its session. Knows nothing of
//! checkouts.

use std::fmt;
use std::time::Duration;

use crate::endpoint::{Endpoint, InvalidEndpoint};
use crate::session::message::{InvalidName, MAX_DATABASES};
use crate::session::{Fault, SessionStatus};

/// Why an endpoint failed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The endpoint.
    pub endpoint: String,
    /// Why it failed.
    pub fault: Fault,
}

impl Attempt {
    pub(super) fn list(status: &SessionStatus, endpoints: &[Endpoint]) -> Vec<Self> {
        let named = |(index, fault): (&usize, &Fault)| {
            let endpoint = endpoints.get(*index)?.to_string();
            Some(Self { endpoint, fault: fault.clone() })
        };
        status.faults.iter().filter_map(named).collect()
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.endpoint, self.fault)
    }
}

/// `a: refused; b: no answer`, or that nothing has failed yet.
fn listed(attempts: &[Attempt]) -> String {
    if attempts.is_empty() {
        return "no attempt has failed yet".into();
    }
    attempts.iter().map(Attempt::to_string).collect::<Vec<_>>().join("; ")
}

/// Why a client could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No endpoint was given.
    #[error("no endpoint of a server was given")]
    NoEndpoint,
    /// An endpoint is not an address.
    #[error(transparent)]
    Endpoint(#[from] InvalidEndpoint),
    /// The node's or the workload's name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A time is out of bounds.
    #[error("{setting} is {value:?}; set it to between 1 ms and {longest:?}")]
    OutOfBounds {
        /// The setting.
        setting: &'static str,
        /// What it was.
        value: Duration,
        /// The most that is allowed.
        longest: Duration,
    },
    /// The session needs a task, and there is no tokio runtime here.
    #[error("a client is made inside a tokio runtime, for its session runs in a task")]
    NoRuntime,
    /// No server welcomed the session in time.
    #[error("no server answered within {waited:?}: {}", listed(attempts))]
    Unreachable {
        /// How long the client tried.
        waited: Duration,
        /// Why each endpoint failed.
        attempts: Vec<Attempt>,
    },
}

/// Why a database is not ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadyError {
    /// It is not in the server's configuration.
    #[error(
        "the server does not know a database `{database}`: check the name, or add it to the server's configuration"
    )]
    Unknown {
        /// The database.
        database: String,
    },
    /// No pool of it was built with this client.
    #[error("this client has no pool for a database `{database}`")]
    NoPool {
        /// The database.
        database: String,
    },
    /// No server answered in time.
    #[error("no server answered for database `{database}` within {waited:?}: {}", listed(attempts))]
    Timeout {
        /// The database.
        database: String,
        /// How long it was waited for.
        waited: Duration,
        /// Why each endpoint failed.
        attempts: Vec<Attempt>,
    },
    /// The session has ended.
    #[error("the client was shut down")]
    Ended,
}

/// Why a pool could not be put under the session's orders.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The database's name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The database has a pool that is not closed, or still holds something.
    #[error("database `{database}` has a pool in this client: share it, or close it first")]
    Taken {
        /// The database.
        database: String,
    },
    /// One session has at most [`MAX_DATABASES`] databases.
    #[error("a client has at most {MAX_DATABASES} databases")]
    TooMany,
    /// The session has ended.
    #[error("the client was shut down")]
    Ended,
}

/// What a shutdown could not do. The session has ended all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// Connections were in use all the time. The server counts them until it
    /// knows that they are gone.
    #[error("connections were still in use after {waited:?}: {}", listed_held(held))]
    StillInUse {
        /// Tokens still held, by database.
        held: Vec<(String, u32)>,
        /// How long the shutdown waited.
        waited: Duration,
    },
    /// The server could not be told. It finds out when the session expires.
    #[error("the server did not confirm the end of the session; it will see the session expire")]
    Unheard,
}

fn listed_held(held: &[(String, u32)]) -> String {
    held.iter().map(|(database, held)| format!("{held} of `{database}`")).collect::<Vec<_>>().join(", ")
}
