//! How a pool is built under a client's session. Knows nothing of how a pool
//! works: all settings are those of [`PoolBuilder`].

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::Manager;

use super::{Client, RegisterError};
use crate::governed::{Governed, Reporter};
use crate::hooks::Hooks;
use crate::pool::{LeasedPool, PoolBuilder};
use crate::settings::{BuildError, Settings};

/// Why a pool could not be built under a client's session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The session cannot take it.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A setting is wrong.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Builds a [`LeasedPool`] that lives by a client's session. Each setting is
/// described at [`Settings`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientPoolBuilder<M: Manager + 'static> {
    client: Client,
    database: String,
    pool: PoolBuilder<M>,
}

impl Client {
    /// Begins to build the pool of this process for the database that the
    /// server calls `database`, over any deadpool manager.
    pub fn pool<M: Manager + 'static>(&self, database: &str, manager: M) -> ClientPoolBuilder<M> {
        let pool = LeasedPool::builder(database, manager).clock(self.inner.clock.clone());
        ClientPoolBuilder { client: self.clone(), database: database.into(), pool }
    }
}

#[cfg(feature = "mysql")]
impl Client {
    /// As [`Client::pool`], over the ready manager for MySQL and MariaDB, with
    /// its hooks: what that manager knows beyond deadpool's trait.
    pub fn mysql_pool(
        &self,
        database: &str,
        manager: crate::mysql::Manager,
    ) -> ClientPoolBuilder<crate::mysql::Manager> {
        self.pool(database, manager).hooks(crate::mysql::Hooks)
    }
}

impl<M: Manager + 'static> ClientPoolBuilder<M> {
    /// What the driver knows beyond the manager. See [`PoolBuilder::hooks`].
    pub fn hooks(self, hooks: impl Hooks<M>) -> Self {
        self.with(|pool| pool.hooks(hooks))
    }

    /// All settings at once.
    pub fn settings(self, settings: Settings) -> Self {
        self.with(|pool| pool.settings(settings))
    }

    /// Most connections that this pool ever asks for. Default 10.
    pub fn max_size(self, connections: u32) -> Self {
        self.with(|pool| pool.max_size(connections))
    }

    /// Connections kept open while the server has tokens to spare. Default 0.
    pub fn min_size(self, connections: u32) -> Self {
        self.with(|pool| pool.min_size(connections))
    }

    /// Longest wait for a token or a connection. Default 30 s.
    pub fn wait_timeout(self, limit: Option<Duration>) -> Self {
        self.with(|pool| pool.wait_timeout(limit))
    }

    /// Longest time for a connect. Default 10 s.
    pub fn create_timeout(self, limit: Duration) -> Self {
        self.with(|pool| pool.create_timeout(limit))
    }

    /// Longest time for a test at checkout. Default 5 s.
    pub fn recycle_timeout(self, limit: Duration) -> Self {
        self.with(|pool| pool.recycle_timeout(limit))
    }

    /// How long a connection may be unused. Default 10 min.
    pub fn idle_timeout(self, limit: Option<Duration>) -> Self {
        self.with(|pool| pool.idle_timeout(limit))
    }

    /// How old a connection may get. Default 30 min.
    pub fn max_lifetime(self, limit: Option<Duration>) -> Self {
        self.with(|pool| pool.max_lifetime(limit))
    }

    /// Longest time for closing one connection. Default 30 s.
    pub fn close_timeout(self, limit: Duration) -> Self {
        self.with(|pool| pool.close_timeout(limit))
    }

    /// Longest time for closing the pool. Default 30 s.
    pub fn shutdown_timeout(self, limit: Duration) -> Self {
        self.with(|pool| pool.shutdown_timeout(limit))
    }

    /// Builds the pool and puts it under the session's orders. It may be used at
    /// once; tokens come when the server has answered, see [`Client::ready`].
    ///
    /// Errors: a setting or the database's name is wrong, the client has a pool
    /// of this database or too many pools, it was shut down, or there is no
    /// tokio runtime here.
    pub fn build(self) -> Result<LeasedPool<M>, PoolError> {
        let Self { client, database, pool } = self;
        let make = |reporter: Arc<dyn Reporter>| -> Result<(LeasedPool<M>, Arc<dyn Governed>), PoolError> {
            let pool = pool.build(reporter)?;
            let governed = pool.governed();
            Ok((pool, governed))
        };
        client.govern(&database, make)
    }

    fn with(mut self, set: impl FnOnce(PoolBuilder<M>) -> PoolBuilder<M>) -> Self {
        self.pool = set(self.pool);
        self
    }
}
