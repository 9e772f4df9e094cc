//! How to cut connections that somebody else uses, for a session that is lost
//! under the policy `fence`. Knows nothing of which connections are in use:
//! those that close are taken out before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use deadpool::managed::Manager;

use crate::hooks::Severer;

use super::shared::Shared;

/// Names a connection that can be severed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SeveringId(u64);

/// The severers of all connections that have one and are not closing.
#[derive(Default)]
pub(super) struct Severers {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    severers: HashMap<SeveringId, Severer>,
}

impl Severers {
    pub(super) fn add(&self, severer: Severer) -> SeveringId {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let id = SeveringId(table.next);
        table.next += 1;
        table.severers.insert(id, severer);
        id
    }

    pub(super) fn remove(&self, id: SeveringId) -> Option<Severer> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).severers.remove(&id)
    }

    fn all(&self) -> Vec<Severer> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.severers.values().cloned().collect()
    }
}

impl<M: Manager + 'static> Shared<M> {
    /// Cuts every connection that is not closing, each in a task of its own.
    pub(super) fn sever_all(self: &Arc<Self>) {
        for severer in self.severers.all() {
            let shared = Arc::clone(self);
            self.runtime.spawn(async move {
                let limit = shared.settings.close_timeout;
                if tokio::time::timeout(limit, severer()).await.is_err() {
                    tracing::warn!(
                        database = shared.database,
                        ?limit,
                        "a connection could not be severed in time"
                    );
                }
            });
        }
    }
}
