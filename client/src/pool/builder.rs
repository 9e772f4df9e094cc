//! How a pool is put together. Knows nothing of how it works.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use deadpool::managed::Manager;
use tokio::runtime::Handle as Runtime;

use crate::clock::Clock;
use crate::governed::Reporter;
use crate::hooks::{Hooks, PlainDrop};
use crate::ledger::{Ledger, Limits, Use};
use crate::settings::{BuildError, Settings};
use crate::statistics::Sites;

use super::maintenance::maintain;
use super::sever::Severers;
use super::shared::Shared;
use super::{Handle, LeasedPool};

/// Builds a [`LeasedPool`]. Each setting is described at [`Settings`].
#[must_use = "a builder does nothing until `build`"]
pub struct PoolBuilder<M: Manager + 'static> {
    database: String,
    manager: M,
    hooks: Arc<dyn Hooks<M>>,
    settings: Settings,
    clock: Clock,
}

impl<M: Manager + 'static> PoolBuilder<M> {
    pub(super) fn new(database: String, manager: M) -> Self {
        let hooks = Arc::new(PlainDrop::default());
        Self { database, manager, hooks, settings: Settings::default(), clock: Clock::system() }
    }

    /// What the driver knows beyond the manager. Default: [`PlainDrop`].
    pub fn hooks(mut self, hooks: impl Hooks<M>) -> Self {
        self.hooks = Arc::new(hooks);
        self
    }

    /// All settings at once.
    pub const fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Most connections that this pool ever asks for.
    pub const fn max_size(mut self, connections: u32) -> Self {
        self.settings.max_size = connections;
        self
    }

    /// Connections kept open while the server has tokens to spare.
    pub const fn min_size(mut self, connections: u32) -> Self {
        self.settings.min_size = connections;
        self
    }

    /// Longest wait for a token or a connection.
    pub const fn wait_timeout(mut self, limit: Option<Duration>) -> Self {
        self.settings.wait_timeout = limit;
        self
    }

    /// Longest time for a connect.
    pub const fn create_timeout(mut self, limit: Duration) -> Self {
        self.settings.create_timeout = limit;
        self
    }

    /// Longest time for a test at checkout.
    pub const fn recycle_timeout(mut self, limit: Duration) -> Self {
        self.settings.recycle_timeout = limit;
        self
    }

    /// How long a connection may be unused.
    pub const fn idle_timeout(mut self, limit: Option<Duration>) -> Self {
        self.settings.idle_timeout = limit;
        self
    }

    /// How old a connection may get.
    pub const fn max_lifetime(mut self, limit: Option<Duration>) -> Self {
        self.settings.max_lifetime = limit;
        self
    }

    /// Longest time for closing one connection.
    pub const fn close_timeout(mut self, limit: Duration) -> Self {
        self.settings.close_timeout = limit;
        self
    }

    /// Longest time for closing the pool.
    pub const fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.settings.shutdown_timeout = limit;
        self
    }

    /// Another clock than the system's, for tests. It decides about ages and
    /// lifetimes; timers are tokio's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the pool, which tells `reporter` when its levels are worth a
    /// report. It has no tokens until its session gives it some.
    ///
    /// Errors: a setting is wrong, or there is no tokio runtime.
    pub fn build(self, reporter: Arc<dyn Reporter>) -> Result<LeasedPool<M>, BuildError> {
        self.settings.check()?;
        let runtime = Runtime::try_current().map_err(|_| BuildError::NoRuntime)?;
        let limits = Limits { maximum: self.settings.max_size, minimum: self.settings.min_size };
        let shared = Arc::new(Shared {
            database: self.database,
            manager: self.manager,
            hooks: self.hooks,
            settings: self.settings,
            ledger: Ledger::new(limits, Use::Connections, self.clock, reporter),
            sites: Sites::new(),
            runtime,
            severers: Severers::default(),
            fences: AtomicU32::new(0),
        });
        shared.runtime.spawn(maintain(Arc::clone(&shared)));
        Ok(LeasedPool { handle: Arc::new(Handle { shared }) })
    }
}

impl<M: Manager + 'static> fmt::Debug for PoolBuilder<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PoolBuilder")
            .field("database", &self.database)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
