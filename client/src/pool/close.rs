//! The way of a connection back into the pool, or out of it. Knows nothing of
//! who used it.
//!
//! A close runs in a task of its own, and its token is counted until the task
//! ends, however it ends: by the hook, by its timeout, by a panic, or with the
//! runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deadpool::managed::Manager;
use tokio::time::timeout;

use crate::clock::Time;
use crate::hooks::{OnReturn, Spare};
use crate::ledger::Shell;
use crate::statistics::Held;

use super::shared::{Entry, Pooled, Shared};

impl<M: Manager + 'static> Shared<M> {
    /// A checkout ends.
    pub(super) fn give_back(self: &Arc<Self>, mut pooled: Pooled<M::Type>, held: Held) {
        let now = self.ledger.now();
        self.sites.returned(held.site, now.since(held.since));
        pooled.came = now;
        let lasted = now.since(held.kept_since);
        match self.verdict(&mut pooled, now) {
            OnReturn::Pool => self.put_back(pooled, Some(lasted), now),
            OnReturn::Reset => {
                self.ledger.step(|state, _| state.checked_in(lasted, now));
                self.start_reset(pooled);
            }
            OnReturn::Close => self.begin_close(pooled, lasted, now),
        }
    }

    /// A connection that had left its pool for good ends. How long it was out
    /// says nothing of how long a checkout lasts.
    pub(super) fn close_detached(self: &Arc<Self>, pooled: Pooled<M::Type>, held: Held) {
        self.sites.detached_ended(held.site);
        self.ledger.step(|state, effects| state.begin_retire(false, effects));
        self.start_close(pooled);
    }

    /// A checkout ends, and its connection with it.
    pub(super) fn close_used(self: &Arc<Self>, pooled: Pooled<M::Type>, held: Held) {
        let now = self.ledger.now();
        self.sites.returned(held.site, now.since(held.since));
        self.begin_close(pooled, now.since(held.kept_since), now);
    }

    fn begin_close(self: &Arc<Self>, pooled: Pooled<M::Type>, lasted: Duration, now: Time) {
        self.ledger.step(|state, effects| state.begin_close(lasted, now, effects));
        self.start_close(pooled);
    }

    /// Closes a connection that the ledger counts as closing.
    pub(super) fn start_close(self: &Arc<Self>, mut pooled: Pooled<M::Type>) {
        if let Some(id) = pooled.severing.take() {
            self.severers.remove(id);
        }
        self.leave_manager(&mut pooled);
        let closing = Closing { shared: Arc::clone(self), stalled: Arc::default() };
        self.runtime.spawn(closing.run(pooled.connection));
    }

    /// Tells the manager, once, that a connection leaves it.
    pub(super) fn leave_manager(&self, pooled: &mut Entry<M::Type>) {
        if !std::mem::replace(&mut pooled.left_manager, true) {
            let detach = || self.manager.detach(&mut pooled.connection);
            if catch_unwind(AssertUnwindSafe(detach)).is_err() {
                tracing::error!(database = self.database, "the manager panicked in detach");
            }
        }
    }

    /// What happens to a connection that comes back.
    fn verdict(&self, pooled: &mut Entry<M::Type>, now: Time) -> OnReturn {
        if pooled.is_expired(now) || pooled.fences != self.fences.load(Ordering::SeqCst) {
            return OnReturn::Close;
        }
        let look = || self.hooks.on_return(&mut pooled.connection);
        catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| {
            tracing::error!(
                database = self.database,
                "the hook on_return panicked; the connection is closed"
            );
            OnReturn::Close
        })
    }

    fn put_back(self: &Arc<Self>, pooled: Pooled<M::Type>, held: Option<Duration>, now: Time) {
        let ((), close) = self.ledger.change(|state, effects| state.give_back(pooled, held, now, effects));
        if !close.is_empty() {
            self.close_all(close);
        }
    }

    fn start_reset(self: &Arc<Self>, pooled: Pooled<M::Type>) {
        let resetting = Resetting { shared: Arc::clone(self), pooled: Some(pooled) };
        self.runtime.spawn(resetting.run());
    }
}

/// A token whose connection is being closed.
struct Closing<M: Manager + 'static> {
    shared: Arc<Shared<M>>,
    /// Set once the hook has asked for another connection, or at the end.
    stalled: Arc<OnceLock<()>>,
}

impl<M: Manager + 'static> Closing<M> {
    async fn run(self, connection: M::Type) {
        // Weak, so that a hook that keeps its spare longer changes nothing.
        let (shared, stalled) = (Arc::clone(&self.shared), Arc::downgrade(&self.stalled));
        let spare = Spare::new(move || {
            let (shared, stalled) = (Arc::clone(&shared), stalled.upgrade());
            Box::pin(async move {
                let stalled = stalled?;
                shared.ledger.step(|state, effects| {
                    if stalled.set(()).is_ok() {
                        state.close_stalls(effects);
                    }
                });
                shared.checkout_spare().await
            })
        });
        let limit = self.shared.settings.close_timeout;
        // The async block starts the hook under the timeout's eye; either way
        // its future, and the connection in it, are gone before the token is.
        let close = async { self.shared.hooks.close(connection, spare).await };
        if timeout(limit, close).await.is_err() {
            tracing::warn!(
                database = self.shared.database,
                ?limit,
                "a close was given up; its connection is dropped"
            );
        }
    }
}

impl<M: Manager + 'static> Drop for Closing<M> {
    fn drop(&mut self) {
        self.shared.ledger.step(|state, effects| match self.stalled.set(()) {
            // From now on it cannot stall any more.
            Ok(()) => state.close_ended(effects),
            Err(()) => state.stalled_close_ended(effects),
        });
    }
}

/// A connection that came back and is being reset. Dropped before the end, it
/// is closed.
struct Resetting<M: Manager + 'static> {
    shared: Arc<Shared<M>>,
    pooled: Option<Pooled<M::Type>>,
}

impl<M: Manager + 'static> Resetting<M> {
    async fn run(mut self) {
        let Some(pooled) = self.pooled.as_mut() else { return };
        let limit = self.shared.settings.recycle_timeout;
        let reset = async { self.shared.hooks.reset(&mut pooled.connection).await };
        let clean = timeout(limit, reset).await.unwrap_or(false);
        let now = self.shared.ledger.now();
        let current = pooled.fences == self.shared.fences.load(Ordering::SeqCst);
        if clean
            && current
            && let Some(pooled) = self.pooled.take()
        {
            self.shared.put_back(pooled, None, now);
        }
    }
}

impl<M: Manager + 'static> Drop for Resetting<M> {
    fn drop(&mut self) {
        let Some(pooled) = self.pooled.take() else { return };
        self.shared.ledger.step(|state, effects| state.begin_retire(false, effects));
        self.shared.start_close(pooled);
    }
}
