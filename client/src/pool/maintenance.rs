//! What a pool does of its own accord: it keeps the warm minimum open, closes
//! what is idle for too long or too old, and lets the reports settle. Knows
//! nothing of checkouts.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::Manager;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::ledger::{Shell, State};
use crate::settings::SETTLING_PERIOD;

use super::connect::NoConnection;
use super::shared::Shared;

/// How long the warm minimum rests after a connect for it failed.
const REST: Duration = Duration::from_secs(1);

/// Runs until the pool is closed, as it is at the latest when its last handle
/// drops.
pub(super) async fn maintain<M: Manager + 'static>(shared: Arc<Shared<M>>) {
    // Side by side, for a connect that hangs must not hold up the reports.
    tokio::select! {
        () = keep_tidy(&shared) => {}
        () = keep_warm(&shared) => {}
    }
}

/// Ends when the pool is closed.
async fn keep_tidy<M: Manager + 'static>(shared: &Arc<Shared<M>>) {
    let mut period = interval(SETTLING_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !shared.ledger.read(State::is_closed) {
        period.tick().await;
        shared.tidy();
    }
}

/// Opens connections up to the warm minimum whenever the ledger asks for it.
async fn keep_warm<M: Manager + 'static>(shared: &Arc<Shared<M>>) {
    loop {
        shared.ledger.upkeep().await;
        // In a task of its own, so that a manager that panics ends that one.
        let warm_up = Arc::clone(shared).warm_up();
        if !shared.runtime.spawn(warm_up).await.unwrap_or(false) {
            // A manager's error need not be printable.
            tracing::warn!(database = shared.database, "cannot keep the minimum of connections open");
            sleep(REST).await;
        }
    }
}

impl<M: Manager + 'static> Shared<M> {
    fn tidy(self: &Arc<Self>) {
        let now = self.ledger.now();
        let idle_timeout = self.settings.idle_timeout;
        let ((), close) = self.ledger.change(|state, effects| {
            state.reap(idle_timeout, |pooled| pooled.is_expired(now), now, effects);
            state.settle(effects);
        });
        self.close_all(close);
    }

    /// Opens connections while fewer than the minimum are open and tokens are
    /// free. False when a connect failed.
    async fn warm_up(self: Arc<Self>) -> bool {
        loop {
            let now = self.ledger.now();
            if !self.ledger.step(|state, effects| state.begin_warm(now, effects)) {
                return true;
            }
            match self.warm().await {
                Ok(()) => {}
                Err(NoConnection::Lapsed | NoConnection::Closed) => return true,
                Err(NoConnection::Failed(_)) => return false,
            }
        }
    }
}
