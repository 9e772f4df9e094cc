//! Why a checkout failed. Waiting, connecting and testing are told apart, for
//! each has another remedy: more tokens, a database that answers, a connection
//! that lives.

use std::convert::Infallible;
use std::time::Duration;

use deadpool::managed::RecycleError;

/// Why a checkout failed. `E` is the error of the manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// No token came free within `wait_timeout`: the fleet wants more
    /// connections than the database admits, or this pool's maximum is low.
    #[error("no connection to `{database}` came free within {waited:?}")]
    WaitTimeout {
        /// The database's name.
        database: String,
        /// How long the task waited.
        waited: Duration,
    },
    /// As many tasks wait in this node's workload, on all nodes together, as its
    /// `max_waiting` at the server admits: this one was refused at once.
    #[error(
        "{max_waiting} tasks wait for a connection to `{database}` in this workload already, the most that may"
    )]
    QueueFull {
        /// The database's name.
        database: String,
        /// The bound, in tasks.
        max_waiting: u32,
    },
    /// A token was there, but the database did not accept a connection within
    /// `create_timeout`.
    #[error("cannot connect to `{database}` within {limit:?}")]
    CreateTimeout {
        /// The database's name.
        database: String,
        /// The `create_timeout`.
        limit: Duration,
        /// The last refusal, when the database answered "not yet".
        #[source]
        source: Option<E>,
    },
    /// Connections that were open before kept failing their test until the time
    /// for waiting, or the number of tries, was used up.
    #[error("{attempts} open connections to `{database}` failed their test one after the other")]
    Recycle {
        /// The database's name.
        database: String,
        /// How many were tried and closed.
        attempts: u32,
        /// Why the last one failed.
        #[source]
        source: RecycleFailure<E>,
    },
    /// The database refused the connection.
    #[error("cannot connect to `{database}`")]
    Backend {
        /// The database's name.
        database: String,
        /// What the manager said.
        #[source]
        source: E,
    },
    /// The pool was closed.
    #[error("the pool of connections to `{database}` is closed")]
    Closed {
        /// The database's name.
        database: String,
    },
}

/// Why a connection was not fit for another use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecycleFailure<E> {
    /// The manager found it unfit.
    #[error("the connection is not fit for another use")]
    Unfit(#[source] RecycleError<E>),
    /// The manager gave no verdict within `recycle_timeout`.
    #[error("the test of the connection took longer than {limit:?}")]
    Timeout {
        /// The `recycle_timeout`.
        limit: Duration,
    },
    /// It was older than `max_lifetime`.
    #[error("the connection has reached its maximum lifetime")]
    Expired,
}

/// Why no token was given: [`Error::WaitTimeout`], [`Error::QueueFull`] or
/// [`Error::Closed`].
pub type TokenError = Error<Infallible>;

/// Closing a pool did not end in time. What is in use is still counted, and is
/// closed when it comes back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{connections} connections to `{database}` are still in use {waited:?} after the pool was closed")]
pub struct StillInUse {
    /// The database's name.
    pub database: String,
    /// Tokens that are still kept.
    pub connections: u32,
    /// How long the close waited.
    pub waited: Duration,
}
