//! Commits what a round of the core has changed, on a thread that may block,
//! and tells how the store does. Knows nothing of the core, nor of what becomes
//! of a commit that failed.

use std::time::Duration;

use leasehold_admission::durable::Change;
use leasehold_storage::Store;
use tokio::{
    sync::watch,
    task::{JoinError, JoinHandle, spawn_blocking},
};
use tracing::{error, info};

use super::Health;

/// A commit under way.
pub(super) type Attempt = JoinHandle<Done>;

/// What comes back from the thread that committed.
pub(super) struct Done {
    store: Box<dyn Store>,
    batch: Vec<Change>,
    outcome: Result<(), leasehold_storage::Error>,
}

/// The store, as the driver uses it.
pub(super) struct Commits {
    /// Away while a thread commits.
    store: Option<Box<dyn Store>>,
    /// The last commit failed.
    failing: bool,
    health: watch::Sender<Health>,
    succeeded: u64,
}

impl Commits {
    pub(super) fn new(store: Box<dyn Store>, health: watch::Sender<Health>) -> Commits {
        Commits { store: Some(store), failing: false, health, succeeded: 0 }
    }

    /// Whether the store works, and if not, why.
    pub(super) fn health(&self) -> watch::Ref<'_, Health> {
        self.health.borrow()
    }

    /// How many commits have succeeded since the start.
    pub(super) fn succeeded(&self) -> u64 {
        self.succeeded
    }

    /// Starts to commit.
    pub(super) fn begin(&mut self, batch: Vec<Change>) -> Attempt {
        let mut store = self.store.take().expect("one commit at a time");
        spawn_blocking(move || {
            let outcome = store.commit(&batch);
            Done { store, batch, outcome }
        })
    }

    /// The commit under way takes long, and may be lost.
    pub(super) fn stalled(&mut self, since: Duration) {
        if self.health().store.is_ok() {
            let message = format!("a commit has taken more than {} s and is not done", since.as_secs());
            error!(error = message, "store stalls: nothing is granted until it works again");
            self.health.send_modify(|health| health.store = Err(message));
        }
    }

    /// Ends what was begun. Returns its changes if it failed, or may have.
    pub(super) fn end(&mut self, done: Result<Done, JoinError>) -> Option<Vec<Change>> {
        let Done { store, batch, outcome } = done.expect("the store does not panic");
        self.store = Some(store);
        match outcome {
            Ok(()) => {
                self.recovered();
                None
            }
            Err(error) => {
                self.failed(&error);
                Some(batch)
            }
        }
    }

    fn recovered(&mut self) {
        self.succeeded += 1;
        self.failing = false;
        if self.health().store.is_err() {
            info!("store works again");
            self.health.send_modify(|health| health.store = Ok(()));
        }
    }

    fn failed(&mut self, error: &leasehold_storage::Error) {
        let message = with_sources(error);
        if !self.failing {
            error!(error = message, "store failed: nothing is granted until it works again");
        }
        self.failing = true;
        self.health.send_modify(|health| health.store = Err(message));
    }
}

/// An error and what caused it, on one line.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line = format!("{line}: {cause}");
        source = cause.source();
    }
    line
}
