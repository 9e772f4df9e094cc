//! What a pool does of its own accord: it keeps the warm minimum open, closes
//! what is idle for too long or too old, and lets the reports settle. Knows
//! nothing of checkouts.

use std::sync::Arc;

use deadpool::managed::Manager;
use tokio::time::{MissedTickBehavior, interval};

use crate::ledger::{Shell, State};

use crate::settings::SETTLING_PERIOD;

use super::connect::NoConnection;
use super::shared::Shared;

/// Runs until the pool is closed, as it is at the latest when its last handle
/// drops.
pub(super) async fn maintain<M: Manager + 'static>(shared: Arc<Shared<M>>) {
    let mut period = interval(SETTLING_PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // After a connect failed, the next is tried with the next period, however
    // often the ledger asks.
    let mut resting = false;
    loop {
        tokio::select! {
            _ = period.tick() => {
                resting = false;
                shared.tidy();
            }
            () = shared.ledger.upkeep(), if !resting => {}
        }
        if shared.ledger.read(State::is_closed) {
            return;
        }
        if !resting {
            resting = !shared.warm_up().await;
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

    /// Opens connections up to the warm minimum. False when one failed.
    async fn warm_up(self: &Arc<Self>) -> bool {
        loop {
            let now = self.ledger.now();
            if !self.ledger.step(|state, effects| state.begin_warm(now, effects)) {
                return true;
            }
            match self.warm().await {
                Ok(()) => {}
                Err(NoConnection::Lapsed | NoConnection::Closed) => return true,
                Err(NoConnection::Failed(_)) => {
                    // A manager's error need not be printable.
                    tracing::warn!(database = self.database, "cannot keep the minimum of connections open");
                    return false;
                }
            }
        }
    }
}
