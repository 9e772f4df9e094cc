//! Durable before visible: commits what a round of the core has changed, and
//! keeps what a failed commit leaves behind. Knows nothing of the core.

use std::time::Duration;

use leasehold_admission::durable::Change;
use leasehold_storage::Store;
use tokio::{
    sync::watch,
    task::{JoinError, JoinHandle, spawn_blocking},
    time::Instant,
};
use tracing::{error, info};

use super::{Health, pending::Pending};

/// While the store fails it is asked again this often, and not more often.
const RETRY: Duration = Duration::from_millis(500);

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
    /// Of failed commits, oldest first.
    pending: Pending,
    retry_at: Option<Instant>,
    health: watch::Sender<Health>,
    succeeded: u64,
}

impl Commits {
    pub(super) fn new(store: Box<dyn Store>, health: watch::Sender<Health>) -> Commits {
        Commits { store: Some(store), pending: Pending::default(), retry_at: None, health, succeeded: 0 }
    }

    /// Whether earlier changes still wait to become durable. Then nothing that
    /// needs a commit may be sent without one.
    pub(super) fn behind(&self) -> bool {
        self.retry_at.is_some()
    }

    /// When changes that were left behind are due again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether the store works, and if not, why.
    pub(super) fn health(&self) -> watch::Ref<'_, Health> {
        self.health.borrow()
    }

    /// How many commits have succeeded since the start.
    pub(super) fn succeeded(&self) -> u64 {
        self.succeeded
    }

    /// Starts to commit everything that was left behind, and then `changes`.
    /// None: the store has failed so lately that it is not asked; the changes
    /// are kept.
    pub(super) fn begin(&mut self, changes: Vec<Change>) -> Option<Attempt> {
        if self.retry_at.is_some_and(|due| Instant::now() < due) {
            self.pending.extend(changes);
            return None;
        }
        let batch = if self.pending.is_empty() {
            changes
        } else {
            self.pending.extend(changes);
            self.pending.take()
        };
        let mut store = self.store.take().expect("one commit at a time");
        Some(spawn_blocking(move || {
            let outcome = store.commit(&batch);
            Done { store, batch, outcome }
        }))
    }

    /// The commit under way takes long, and may be lost.
    pub(super) fn stalled(&mut self, since: Duration) {
        if self.health().store.is_ok() {
            let message = format!("a commit has taken more than {} s and is not done", since.as_secs());
            error!(error = message, "store stalls: nothing is granted until it works again");
            self.health.send_modify(|health| health.store = Err(message));
        }
    }

    /// Ends what was begun. False: the commit failed, or may have; its changes
    /// are kept.
    pub(super) fn end(&mut self, done: Result<Done, JoinError>) -> bool {
        let Done { store, batch, outcome } = done.expect("the store does not panic");
        self.store = Some(store);
        match outcome {
            Ok(()) => self.recovered(),
            Err(error) => self.failed(batch, &error),
        }
        self.retry_at.is_none()
    }

    fn recovered(&mut self) {
        self.succeeded += 1;
        self.retry_at = None;
        if self.health().store.is_err() {
            info!("store works again");
            self.health.send_modify(|health| health.store = Ok(()));
        }
    }

    fn failed(&mut self, batch: Vec<Change>, error: &leasehold_storage::Error) {
        let message = with_sources(error);
        if self.retry_at.is_none() {
            error!(error = message, "store failed: nothing is granted until it works again");
        }
        self.pending.extend(batch);
        self.retry_at = Some(Instant::now() + RETRY);
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
