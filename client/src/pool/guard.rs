//! What a user holds: a checked-out connection, or one that was detached from
//! its pool for good. Knows nothing of how either is closed.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use deadpool::managed::{Manager, Metrics};

use crate::statistics::Held;

use super::shared::{Entry, Pooled, Shared};

/// A connection in use. It goes back to its pool when it is dropped; dropped by
/// a panic it is closed, for nobody knows in what state it is.
#[must_use = "the connection goes back at once when it is not kept"]
pub struct Checkout<M: Manager + 'static> {
    inner: Out<M>,
}

/// A connection that does not go back to its pool. It keeps its token for as
/// long as it lives, and is closed when it is dropped.
#[must_use = "the connection is closed at once when it is not kept"]
pub struct Detached<M: Manager + 'static> {
    inner: Out<M>,
}

/// A connection that is out of its pool, and the way back.
struct Out<M: Manager + 'static> {
    /// Some until the drop.
    pooled: Option<Pooled<M::Type>>,
    held: Held,
    shared: Arc<Shared<M>>,
}

impl<M: Manager + 'static> Checkout<M> {
    pub(super) fn new(pooled: Pooled<M::Type>, held: Held, shared: Arc<Shared<M>>) -> Self {
        shared.sites.checked_out(held.site);
        Self { inner: Out { pooled: Some(pooled), held, shared } }
    }

    /// When the connection was made, and how often it was tested.
    pub fn metrics(this: &Self) -> Metrics {
        this.inner.pooled().metrics
    }

    /// Keeps the connection for good. Its token stays counted until the
    /// [`Detached`] guard drops, and so does its source line; in the statistics
    /// of hold times it does not appear.
    pub fn detach(mut this: Self) -> Detached<M> {
        let held = this.inner.held;
        let shared = Arc::clone(&this.inner.shared);
        let pooled = this.inner.pooled.take();
        let mut inner = Out { pooled, held, shared };
        inner.tell_manager();
        Detached { inner }
    }
}

impl<M: Manager + 'static> Out<M> {
    fn pooled(&self) -> &Entry<M::Type> {
        self.pooled.as_ref().expect("a guard has its connection until it drops")
    }

    fn pooled_mut(&mut self) -> &mut Entry<M::Type> {
        self.pooled.as_mut().expect("a guard has its connection until it drops")
    }

    fn tell_manager(&mut self) {
        let shared = Arc::clone(&self.shared);
        shared.leave_manager(self.pooled_mut());
    }
}

impl<M: Manager + 'static> Drop for Checkout<M> {
    fn drop(&mut self) {
        let Some(pooled) = self.inner.pooled.take() else { return };
        if std::thread::panicking() {
            self.inner.shared.close_used(pooled, self.inner.held);
        } else {
            self.inner.shared.give_back(pooled, self.inner.held);
        }
    }
}

impl<M: Manager + 'static> Drop for Detached<M> {
    fn drop(&mut self) {
        let Some(pooled) = self.inner.pooled.take() else { return };
        self.inner.shared.close_detached(pooled, self.inner.held);
    }
}

impl<M: Manager + 'static> Deref for Checkout<M> {
    type Target = M::Type;

    fn deref(&self) -> &M::Type {
        &self.inner.pooled().connection
    }
}

impl<M: Manager + 'static> DerefMut for Checkout<M> {
    fn deref_mut(&mut self) -> &mut M::Type {
        &mut self.inner.pooled_mut().connection
    }
}

impl<M: Manager + 'static> Deref for Detached<M> {
    type Target = M::Type;

    fn deref(&self) -> &M::Type {
        &self.inner.pooled().connection
    }
}

impl<M: Manager + 'static> DerefMut for Detached<M> {
    fn deref_mut(&mut self) -> &mut M::Type {
        &mut self.inner.pooled_mut().connection
    }
}

impl<M: Manager + 'static> fmt::Debug for Checkout<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Checkout")
            .field("database", &self.inner.shared.database)
            .finish_non_exhaustive()
    }
}

impl<M: Manager + 'static> fmt::Debug for Detached<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Detached")
            .field("database", &self.inner.shared.database)
            .finish_non_exhaustive()
    }
}
