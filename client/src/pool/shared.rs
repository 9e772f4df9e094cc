//! What all handles, guards and tasks of one pool share, and the orders of its
//! session. Knows nothing of how a checkout proceeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deadpool::managed::{Manager, Metrics};
use tokio::runtime::Handle;

use crate::clock::Time;
use crate::governed::{Governed, Levels, Recall};
use crate::hooks::Hooks;
use crate::ledger::{Few, Ledger, Shell, State};
use crate::settings::Settings;
use crate::statistics::Sites;

use super::sever::{Severers, SeveringId};

/// A connection of the pool. Boxed once, when it is made, for it changes hands
/// several times in each checkout: moving it in full costs more than the rest of
/// a checkout does.
pub(crate) type Pooled<T> = Box<Entry<T>>;

/// A connection and what the pool remembers of it.
pub(crate) struct Entry<T> {
    pub(super) connection: T,
    pub(super) metrics: Metrics,
    /// When it was made, on the pool's clock.
    pub(super) created: Time,
    /// When it last came back, or was made.
    pub(super) came: Time,
    pub(super) expires: Option<Time>,
    /// How often the pool had been fenced when it was made.
    pub(super) fences: u32,
    pub(super) severing: Option<SeveringId>,
    /// The manager was told that the connection leaves it.
    pub(super) left_manager: bool,
}

impl<T> Entry<T> {
    pub(super) fn is_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    /// Notes a passed test in the metrics that the manager sees. Their clock is
    /// not ours; going from one to the other by the age saves reading both.
    pub(super) fn tested(&mut self, now: Time) {
        self.metrics.recycle_count += 1;
        self.metrics.recycled = Some(self.metrics.created + now.since(self.created));
    }
}

pub(crate) struct Shared<M: Manager + 'static> {
    pub(super) database: String,
    pub(super) manager: M,
    pub(super) hooks: Arc<dyn Hooks<M>>,
    pub(super) settings: Settings,
    pub(super) ledger: Ledger<Pooled<M::Type>>,
    pub(super) sites: Sites,
    /// Closes outlive the task that starts them, and may start outside of any.
    pub(super) runtime: Handle,
    pub(super) severers: Severers,
    pub(super) fences: AtomicU32,
}

impl<M: Manager + 'static> Shared<M> {
    /// Nothing more is given out; what is unused begins to close.
    pub(super) fn begin_shutdown(self: &Arc<Self>) {
        let ((), close) = self.ledger.change(State::close);
        self.close_all(close);
    }

    /// When a connection made now must be replaced: up to a tenth early, at
    /// random, so that those made together do not end together.
    pub(super) fn expiry(&self, now: Time) -> Option<Time> {
        const LIFETIME_JITTER: f64 = 0.1;
        let lifetime = self.settings.max_lifetime?;
        Some(now + lifetime.mul_f64(1.0 - LIFETIME_JITTER * fastrand::f64()))
    }
}

impl<M: Manager + 'static> Shell for Arc<Shared<M>> {
    type Connection = Pooled<M::Type>;

    fn ledger(&self) -> &Ledger<Self::Connection> {
        &self.ledger
    }

    fn close_all(&self, connections: Few<Self::Connection>) {
        for pooled in connections {
            self.start_close(pooled);
        }
    }
}

/// The pool as its session sees it.
pub(super) struct Reins<M: Manager + 'static>(pub(super) Arc<Shared<M>>);

impl<M: Manager + 'static> Governed for Reins<M> {
    fn levels(&self) -> Levels {
        let now = self.0.ledger.now();
        self.0.ledger.step(|state, _| state.report(now))
    }

    fn traceparent(&self) -> String {
        let trace = self.0.ledger.read(State::trace);
        trace.map_or_else(String::new, |trace| trace.to_string())
    }

    fn allot(&self, tokens: u32, recall: Recall) {
        let now = self.0.ledger.now();
        let ((), close) = self.0.ledger.change(|state, effects| state.allot(tokens, recall, now, effects));
        self.0.close_all(close);
    }

    fn bound_queue(&self, full: Option<u32>) {
        self.0.ledger.step(|state, _| state.bound_queue(full));
    }

    fn lapse(&self, fence: bool) {
        if fence {
            // First, so that what comes back meanwhile is closed as well.
            self.0.fences.fetch_add(1, Ordering::SeqCst);
        }
        let ((), close) = self.0.ledger.change(|state, effects| state.lapse(fence, effects));
        self.0.close_all(close);
        if fence {
            self.0.sever_all();
        }
    }

    fn revive(&self) {
        self.0.ledger.step(State::revive);
    }

    fn prolong(&self, deadline: Time) {
        self.0.ledger.step(|state, effects| state.prolong(deadline, effects));
    }

    fn close(&self) {
        self.0.begin_shutdown();
    }

    fn is_closed(&self) -> bool {
        self.0.ledger.read(State::is_closed)
    }
}
