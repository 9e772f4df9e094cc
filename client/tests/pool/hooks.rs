//! Hooks that a test drives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_client::hooks::{BoxFuture, Hooks, OnReturn, Severer, Spare};
use tokio::sync::Semaphore;

use crate::support::{Connection, Connector, Refused};

/// What they answer, and what they count.
#[derive(Clone)]
pub(crate) struct Driven {
    /// What to do with a connection that comes back; None panics.
    pub(crate) verdict: Option<OnReturn>,
    pub(crate) clean: bool,
    /// Each close takes one before it ends.
    pub(crate) close: Arc<Semaphore>,
    pub(crate) resets: Arc<AtomicU32>,
    pub(crate) severed: Arc<AtomicU32>,
    /// A close asks for another connection first.
    pub(crate) wants_spare: bool,
    pub(crate) spares: Arc<AtomicU32>,
}

impl Driven {
    pub(crate) fn new(verdict: Option<OnReturn>) -> Self {
        Self {
            verdict,
            clean: true,
            close: Arc::new(Semaphore::new(0)),
            resets: Arc::default(),
            severed: Arc::default(),
            wants_spare: false,
            spares: Arc::default(),
        }
    }
}

impl Hooks<Connector> for Driven {
    fn on_return(&self, _connection: &mut Connection) -> OnReturn {
        self.verdict.expect("on_return panics")
    }

    fn reset<'a>(&'a self, _connection: &'a mut Connection) -> BoxFuture<'a, bool> {
        self.resets.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { self.clean })
    }

    fn close(&self, connection: Connection, spare: Spare<Connector>) -> BoxFuture<'static, ()> {
        let hooks = self.clone();
        Box::pin(async move {
            if hooks.wants_spare && spare.connection().await.is_some() {
                hooks.spares.fetch_add(1, Ordering::SeqCst);
            }
            hooks.close.acquire().await.expect("it stays").forget();
            drop(connection);
        })
    }

    fn severer(&self, _connection: &Connection) -> Option<Severer> {
        let severed = Arc::clone(&self.severed);
        Some(Arc::new(move || {
            severed.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {})
        }))
    }

    fn is_refused_for_now(&self, error: &Refused) -> bool {
        *error == Refused::ForNow
    }
}
