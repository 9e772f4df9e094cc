//! What pools and the client put down for the session's task to find: new
//! pools, changed levels, the wish to end. Knows nothing of what follows.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::governed::{Governed, Reporter};
use crate::session::message::DatabaseName;

/// Where the session's task finds what is new. Bounded by the number of
/// databases: a change that is already noted is not noted twice.
#[derive(Default)]
pub(crate) struct Mailbox {
    inbox: Mutex<Inbox>,
    wake: Arc<Notify>,
}

#[derive(Default)]
struct Inbox {
    registered: Vec<(DatabaseName, Arc<dyn Governed>)>,
    reporters: Vec<(DatabaseName, Arc<PoolReporter>)>,
    shut_down: bool,
}

/// What was found.
pub(crate) struct Mail {
    pub(crate) registered: Vec<(DatabaseName, Arc<dyn Governed>)>,
    pub(crate) changed: Vec<DatabaseName>,
    pub(crate) shut_down: bool,
}

impl Mailbox {
    /// Makes the reporter that a pool of `database` calls.
    pub(crate) fn reporter(&self) -> Arc<PoolReporter> {
        Arc::new(PoolReporter { changed: AtomicBool::new(false), wake: Arc::clone(&self.wake) })
    }

    /// Hands a pool over, with the reporter it was made with.
    pub(crate) fn register(
        &self,
        database: DatabaseName,
        governed: Arc<dyn Governed>,
        reporter: Arc<PoolReporter>,
    ) {
        self.with(|inbox| {
            inbox.reporters.retain(|(other, _)| *other != database);
            inbox.reporters.push((database.clone(), reporter));
            inbox.registered.push((database, governed));
        });
        self.wake.notify_one();
    }

    /// Asks the session to end.
    pub(crate) fn shut_down(&self) {
        self.with(|inbox| inbox.shut_down = true);
        self.wake.notify_one();
    }

    /// Whether the session was asked to end.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.with(|inbox| inbox.shut_down)
    }

    /// Waits until there is something to take.
    pub(super) async fn mail(&self) {
        self.wake.notified().await;
    }

    /// Takes what is there.
    pub(super) fn take(&self) -> Mail {
        self.with(|inbox| {
            let changed = inbox.reporters.iter().filter(|(_, reporter)| reporter.take());
            let changed = changed.map(|(database, _)| database.clone()).collect();
            let registered = std::mem::take(&mut inbox.registered);
            Mail { registered, changed, shut_down: inbox.shut_down }
        })
    }

    fn with<R>(&self, change: impl FnOnce(&mut Inbox) -> R) -> R {
        change(&mut self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

/// Notes that one pool's levels changed. Wakes the task once until it looks.
#[derive(Debug)]
pub(crate) struct PoolReporter {
    changed: AtomicBool,
    wake: Arc<Notify>,
}

impl PoolReporter {
    fn take(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }
}

impl Reporter for PoolReporter {
    fn changed(&self) {
        if !self.changed.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }
}
