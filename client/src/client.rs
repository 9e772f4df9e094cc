//! The handle that an application holds: one session with the server, and the
//! pools that live by it. Decides nothing about tokens.

mod builder;
mod error;
mod pool;
mod status;
mod tokens;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

pub use self::builder::{ClientBuilder, DEFAULT_CONNECT_TIMEOUT, DEFAULT_SHUTDOWN_TIMEOUT, LONGEST_TIMEOUT};
pub use self::error::{Attempt, ConnectError, ReadyError, RegisterError, ShutdownError};
pub use self::pool::{ClientPoolBuilder, PoolError};
pub use self::status::Status;
pub use self::tokens::ClientTokensBuilder;

use crate::clock::Clock;
use crate::connection::Mailbox;
use crate::endpoint::Endpoint;
use crate::governed::{Governed, Reporter};
use crate::session::message::{DatabaseName, MAX_DATABASES};
use crate::session::{DatabaseState, Ending, SessionStatus};

/// A process's session with a Leasehold server. Cheap to clone; one is enough
/// for all databases of a process.
///
/// It reconnects by itself, for ever, to whichever endpoint answers. While no
/// server answers, pools go on with the connections they have.
///
/// Keep it as long as its pools are used: when the last handle drops, the
/// session ends like with [`Client::shutdown`], only that nobody waits for it.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// What all handles share. Its drop ends the session.
struct Inner {
    endpoints: Vec<Endpoint>,
    clock: Clock,
    mailbox: Arc<Mailbox>,
    status: watch::Receiver<SessionStatus>,
    /// The pool of each database.
    pools: Mutex<BTreeMap<DatabaseName, Arc<dyn Governed>>>,
    connect_timeout: Duration,
    shutdown_timeout: Duration,
}

impl Client {
    /// Connects to the first of `endpoints` that answers, each `host:port` or
    /// `http://host:port`, and waits for its welcome at most
    /// [`DEFAULT_CONNECT_TIMEOUT`]. Name and workload of the node are the
    /// defaults of [`Client::builder`].
    ///
    /// Errors: an address is not valid, or no server welcomed the session in
    /// time; the error says of each endpoint why.
    pub async fn connect<I>(endpoints: I) -> Result<Self, ConnectError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::builder().endpoints(endpoints).connect().await
    }

    /// Begins to build a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Waits until the server has answered for `database`, at most the
    /// `connect_timeout`. A pool works without this; it is for a process that
    /// wants to fail at its start rather than at its first query.
    ///
    /// Errors: the server does not know the database, no server answers, or no
    /// pool of it was built with this client.
    pub async fn ready(&self, database: &str) -> Result<(), ReadyError> {
        let name = DatabaseName::new(database)
            .ok()
            .filter(|name| self.with_pools(|pools| pools.contains_key(name)))
            .ok_or_else(|| ReadyError::NoPool { database: database.into() })?;
        let mut status = self.inner.status.clone();
        let answered = |status: &SessionStatus| match status.databases.get(&name) {
            Some(DatabaseState::Known) => Some(Ok(())),
            Some(DatabaseState::Unknown) => Some(Err(ReadyError::Unknown { database: database.into() })),
            Some(DatabaseState::Awaited) | None => status.ending.map(|_| Err(ReadyError::Ended)),
        };
        let wait = status.wait_for(|status| answered(status).is_some());
        match timeout(self.inner.connect_timeout, wait).await {
            Ok(Ok(status)) => answered(&status).unwrap_or(Err(ReadyError::Ended)),
            Ok(Err(_)) => Err(ReadyError::Ended),
            Err(_) => Err(ReadyError::Timeout {
                database: database.into(),
                waited: self.inner.connect_timeout,
                attempts: self.attempts(),
            }),
        }
    }

    /// How the session stands now.
    pub fn status(&self) -> Status {
        let status = self.inner.status.borrow();
        Status::of(&status, &self.inner.endpoints, self.inner.clock.now())
    }

    /// Ends the session: closes its pools, waits for the connections in use,
    /// gives every token back and says goodbye. Takes at most the
    /// `shutdown_timeout`. Further calls, and those of other handles, wait for
    /// the same end.
    ///
    /// Errors: connections were in use all the time, or the server could not be
    /// told. The session has ended all the same, and the server finds out when
    /// it expires there.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.inner.mailbox.shut_down();
        let mut status = self.inner.status.clone();
        // The task ends by itself; if it was killed with its runtime, so is this.
        let ending = match status.wait_for(|status| status.ending.is_some()).await {
            Ok(status) => status.ending,
            Err(_) => None,
        };
        match ending {
            Some(Ending::Confirmed) => Ok(()),
            Some(Ending::Unheard) | None => Err(ShutdownError::Unheard),
            Some(Ending::Holding) => {
                Err(ShutdownError::StillInUse { held: self.held(), waited: self.inner.shutdown_timeout })
            }
        }
    }

    /// Puts something that holds tokens of `database` under the session's
    /// orders. `make` builds it around the reporter that it calls when its
    /// levels change; pools and tokens are built with this.
    ///
    /// Errors: the name is not valid, the database has a pool already, there
    /// are too many, or the session has ended; also those of `make`.
    pub fn govern<T, E>(
        &self,
        database: &str,
        make: impl FnOnce(Arc<dyn Reporter>) -> Result<(T, Arc<dyn Governed>), E>,
    ) -> Result<T, E>
    where
        E: From<RegisterError>,
    {
        let database = DatabaseName::new(database).map_err(RegisterError::from)?;
        self.with_pools(|pools| {
            self.check_room(pools, &database)?;
            let reporter = self.inner.mailbox.reporter();
            let (handle, governed) = make(Arc::clone(&reporter) as Arc<dyn Reporter>)?;
            pools.insert(database.clone(), Arc::clone(&governed));
            self.inner.mailbox.register(database, governed, reporter);
            Ok(handle)
        })
    }

    fn check_room(
        &self,
        pools: &BTreeMap<DatabaseName, Arc<dyn Governed>>,
        database: &DatabaseName,
    ) -> Result<(), RegisterError> {
        if self.inner.mailbox.is_shut_down() {
            return Err(RegisterError::Ended);
        }
        match pools.get(database) {
            // The server counts by session and database, so the two pools would
            // have to share one holding.
            Some(pool) if !(pool.is_closed() && pool.levels().holding == 0) => {
                Err(RegisterError::Taken { database: database.to_string() })
            }
            None if pools.len() >= MAX_DATABASES => Err(RegisterError::TooMany),
            Some(_) | None => Ok(()),
        }
    }

    fn held(&self) -> Vec<(String, u32)> {
        self.with_pools(|pools| {
            let holding = pools.iter().map(|(database, pool)| (database.to_string(), pool.levels().holding));
            holding.filter(|(_, holding)| *holding > 0).collect()
        })
    }

    fn attempts(&self) -> Vec<Attempt> {
        Attempt::list(&self.inner.status.borrow(), &self.inner.endpoints)
    }

    fn with_pools<R>(&self, read: impl FnOnce(&mut BTreeMap<DatabaseName, Arc<dyn Governed>>) -> R) -> R {
        read(&mut self.inner.pools.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.mailbox.shut_down();
    }
}
