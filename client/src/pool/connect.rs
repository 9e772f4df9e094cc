//! Connecting with a token at hand, and again for a while when the database
//! says "not yet". Knows nothing of queues.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics};
use tokio::time::timeout;
use tracing::Instrument;

use crate::error::Error;
use crate::ledger::{MayUse, Opened, remaining};
use crate::statistics::{Held, Site};
use crate::trace::connect_span;

use super::guard::Checkout;
use super::shared::{Entry, Pooled, Shared};

/// The first pause after a refusal; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Why there is no connection.
pub(super) enum NoConnection<E> {
    /// The session's deadline has passed.
    Lapsed,
    /// The pool was closed.
    Closed,
    /// The database did not give one.
    Failed(Error<E>),
}

impl<M: Manager + 'static> Shared<M> {
    /// Opens a connection with a claimed token, and uses it at `site`.
    pub(super) async fn connect(self: &Arc<Self>, site: Site) -> Result<Checkout<M>, NoConnection<M::Error>> {
        let mut opening = Opening::new(self);
        let (pooled, took) = opening.connect_traced().await?;
        opening.token_at_hand = false;
        let now = self.ledger.now();
        match self.ledger.step(|state, effects| state.opened(took, now, effects)) {
            Opened::InUse => Ok(Checkout::new(pooled, Held { site, since: now }, Arc::clone(self))),
            Opened::Lapsed => {
                self.start_close(pooled);
                Err(NoConnection::Lapsed)
            }
            Opened::Closed => {
                self.start_close(pooled);
                Err(NoConnection::Closed)
            }
        }
    }

    /// Opens a connection with the token that was claimed for the warm minimum,
    /// and keeps it idle.
    pub(super) async fn warm(self: &Arc<Self>) -> Result<(), NoConnection<M::Error>> {
        let mut opening = Opening::new(self);
        let (pooled, took) = opening.connect_traced().await?;
        opening.token_at_hand = false;
        let now = self.ledger.now();
        let ((), close) = self.ledger.change(|state, effects| state.warmed(pooled, took, now, effects));
        for pooled in close {
            self.start_close(pooled);
        }
        Ok(())
    }

    fn entry(&self, connection: M::Type) -> Entry<M::Type> {
        let created = self.ledger.now();
        let severing = self.hooks.severer(&connection).map(|severer| self.severers.add(severer));
        Entry {
            connection,
            metrics: Metrics::default(),
            created,
            expires: self.expiry(created),
            fences: self.fences.load(Ordering::SeqCst),
            severing,
            left_manager: false,
        }
    }
}

/// A token with which a connection is being opened. Dropped before it is open,
/// it comes back.
struct Opening<'a, M: Manager + 'static> {
    shared: &'a Arc<Shared<M>>,
    token_at_hand: bool,
    timed_out: bool,
}

impl<'a, M: Manager + 'static> Opening<'a, M> {
    const fn new(shared: &'a Arc<Shared<M>>) -> Self {
        Self { shared, token_at_hand: true, timed_out: false }
    }

    async fn connect_traced(&mut self) -> Result<(Pooled<M::Type>, Duration), NoConnection<M::Error>> {
        let span = connect_span(&self.shared.database);
        let outcome = self.connect().instrument(span.clone()).await;
        span.record("outcome", if outcome.is_ok() { "connection" } else { "none" });
        outcome
    }

    /// Connects, and connects again after each "not yet", within
    /// `create_timeout`.
    async fn connect(&mut self) -> Result<(Pooled<M::Type>, Duration), NoConnection<M::Error>> {
        let shared = self.shared;
        let begun = shared.ledger.now();
        let mut pause = FIRST_PAUSE;
        let mut refusal = None;
        loop {
            self.check_token()?;
            let since = shared.ledger.now();
            let left = remaining(shared.settings.create_timeout, begun, since);
            if left.is_zero() {
                return Err(self.time_out(refusal));
            }
            match timeout(left, shared.manager.create()).await {
                Ok(Ok(connection)) => {
                    let took = shared.ledger.now().since(since);
                    return Ok((Box::new(shared.entry(connection)), took));
                }
                Ok(Err(error)) if shared.hooks.is_refused_for_now(&error) => refusal = Some(error),
                Ok(Err(source)) => {
                    let database = shared.database.clone();
                    return Err(NoConnection::Failed(Error::Backend { database, source }));
                }
                Err(_elapsed) => return Err(self.time_out(refusal)),
            }
            tokio::time::sleep(jittered(pause).min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Before each try: the token may have lapsed since it was claimed.
    fn check_token(&mut self) -> Result<(), NoConnection<M::Error>> {
        let now = self.shared.ledger.now();
        let answer = self.shared.ledger.step(|state, effects| state.may_use(now, effects));
        self.token_at_hand = answer == MayUse::Yes;
        match answer {
            MayUse::Yes => Ok(()),
            MayUse::Lapsed => Err(NoConnection::Lapsed),
            MayUse::Closed => Err(NoConnection::Closed),
        }
    }

    fn time_out(&mut self, source: Option<M::Error>) -> NoConnection<M::Error> {
        self.timed_out = true;
        NoConnection::Failed(Error::CreateTimeout {
            database: self.shared.database.clone(),
            limit: self.shared.settings.create_timeout,
            source,
        })
    }
}

impl<M: Manager + 'static> Drop for Opening<'_, M> {
    fn drop(&mut self) {
        if self.token_at_hand {
            let timed_out = self.timed_out;
            self.shared.ledger.step(|state, effects| state.open_failed(timed_out, effects));
        }
    }
}

/// Between half of `pause` and all of it, so that nodes that were refused
/// together do not come back together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + 0.5 * fastrand::f64())
}
