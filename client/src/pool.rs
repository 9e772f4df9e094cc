//! A connection pool whose size the server decides: any deadpool manager, and a
//! token for every connection. Knows nothing of gRPC; its session holds it by
//! [`Governed`].
//!
//! The path of a checkout through the files: `checkout` (take, test or wait) →
//! `connect` → `guard` (what the user holds) → `close` (the way back or out).

mod builder;
mod checkout;
mod close;
mod connect;
mod guard;
mod maintenance;
mod sever;
mod shared;

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use deadpool::managed::Manager;
use tokio::time::timeout;

use crate::error::{Error, StillInUse};
use crate::governed::{Governed, Levels};
use crate::ledger::State;
use crate::settings::Settings;
use crate::statistics::Statistics;

pub use builder::PoolBuilder;
pub use guard::{Checkout, Detached};

use shared::{Reins, Shared};

/// A pool of connections to one database, of at most as many as the server has
/// given tokens for.
///
/// Handles are cheap to clone. When the last one drops the pool closes: what is
/// idle at once, what is in use as it comes back.
pub struct LeasedPool<M: Manager + 'static> {
    handle: Arc<Handle<M>>,
}

/// Closes the pool with its last handle.
struct Handle<M: Manager + 'static> {
    shared: Arc<Shared<M>>,
}

impl<M: Manager + 'static> LeasedPool<M> {
    /// Begins to build a pool over `manager` for the database that the server
    /// calls `database`.
    pub fn builder(database: impl Into<String>, manager: M) -> PoolBuilder<M> {
        PoolBuilder::new(database.into(), manager)
    }

    /// Checks out a connection: an idle one, a new one if there is a token, or
    /// the first that comes free.
    ///
    /// It waits at most `wait_timeout` for a token or a connection; connecting
    /// takes at most `create_timeout` on top. Dropping the future at any point
    /// loses nothing; a connect that has begun goes on, and its connection stays
    /// in the pool. The source line of the call is counted in
    /// [`statistics`](Self::statistics).
    ///
    /// Errors: see [`Error`].
    #[track_caller]
    pub fn get(&self) -> impl Future<Output = Result<Checkout<M>, Error<M::Error>>> + Send + use<'_, M> {
        let location = Location::caller();
        self.handle.shared.checkout(location)
    }

    /// Closes the pool and gives every token back. Tasks that wait get
    /// [`Error::Closed`], idle connections close now, those in use when they
    /// come back, for which it waits at most `shutdown_timeout`.
    ///
    /// Errors: connections are in use for longer. They still close when they
    /// come back.
    pub async fn close(&self) -> Result<(), StillInUse> {
        let shared = &self.handle.shared;
        shared.begin_shutdown();
        let limit = shared.settings.shutdown_timeout;
        if timeout(limit, shared.ledger.emptied()).await.is_ok() {
            return Ok(());
        }
        let connections = self.status().holding;
        Err(StillInUse { database: shared.database.clone(), connections, waited: limit })
    }

    /// True once the pool was closed.
    pub fn is_closed(&self) -> bool {
        self.handle.shared.ledger.read(State::is_closed)
    }

    /// What the pool holds and wants now.
    pub fn status(&self) -> Levels {
        let ledger = &self.handle.shared.ledger;
        let now = ledger.now();
        ledger.read(|state| state.levels(now))
    }

    /// What happened in the pool so far.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.handle.shared.ledger.read(State::statistics);
        self.handle.shared.sites.add_to(&mut statistics);
        statistics
    }

    /// The name by which the server knows the database.
    pub fn database(&self) -> &str {
        &self.handle.shared.database
    }

    /// The settings that the pool was built with.
    pub fn settings(&self) -> &Settings {
        &self.handle.shared.settings
    }

    /// The manager.
    pub fn manager(&self) -> &M {
        &self.handle.shared.manager
    }

    /// The pool as its session sees it.
    pub fn governed(&self) -> Arc<dyn Governed> {
        Arc::new(Reins(Arc::clone(&self.handle.shared)))
    }
}

impl<M: Manager + 'static> Clone for LeasedPool<M> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<M: Manager + 'static> fmt::Debug for LeasedPool<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LeasedPool")
            .field("database", &self.database())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl<M: Manager + 'static> Drop for Handle<M> {
    fn drop(&mut self) {
        self.shared.begin_shutdown();
    }
}
