//! Connecting with a token at hand, and again for a while when the database
//! says "not yet". Knows nothing of queues.
//!
//! A connect runs in a task of its own and goes on when its checkout is dropped:
//! the database counts a connection from the first packet until it notices the
//! end, so a token that came back from half a login would be used twice.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Instrument;

use crate::error::Error;
use crate::ledger::{MayUse, Opened, Shell as _, remaining};
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

/// What a connect gives to its checkout.
type Answer<M> = Result<Checkout<M>, NoConnection<<M as Manager>::Error>>;

impl<M: Manager + 'static> Shared<M> {
    /// Opens a connection with a claimed token, and uses it at `site`. Dropped,
    /// it leaves the connection to the pool.
    pub(super) async fn connect(self: &Arc<Self>, site: Site) -> Answer<M> {
        let (answer, outcome) = oneshot::channel();
        let connect = Opening::new(self).connect_for(site, answer);
        let task = self.runtime.spawn(connect.in_current_span());
        match outcome.await {
            Ok(outcome) => outcome,
            Err(_unanswered) => match task.await {
                Err(failed) if failed.is_panic() => resume_unwind(failed.into_panic()),
                // With the runtime.
                Err(_) | Ok(()) => Err(NoConnection::Closed),
            },
        }
    }

    /// Opens a connection with the token that was claimed for the warm minimum,
    /// and keeps it idle.
    pub(super) async fn warm(self: &Arc<Self>) -> Result<(), NoConnection<M::Error>> {
        let opened = Opening::new(self).connect_traced().await?;
        self.keep(opened);
        Ok(())
    }

    /// A connection was opened that no task waits for, or does any more.
    fn keep(self: &Arc<Self>, Fresh { pooled, took }: Fresh<M::Type>) {
        let now = self.ledger.now();
        let ((), close) = self.ledger.change(|state, effects| state.opened_idle(pooled, took, now, effects));
        self.close_all(close);
    }

    /// A connection was opened for a task that waits for it.
    fn hand_out(self: &Arc<Self>, Fresh { pooled, took }: Fresh<M::Type>, site: Site) -> Answer<M> {
        let now = self.ledger.now();
        match self.ledger.step(|state, effects| state.opened(took, now, effects)) {
            Opened::InUse => Ok(Checkout::new(pooled, Held::at_once(site, now), Arc::clone(self))),
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

    fn entry(&self, connection: M::Type) -> Entry<M::Type> {
        let created = self.ledger.now();
        let severing = self.hooks.severer(&connection).map(|severer| self.severers.add(severer));
        Entry {
            connection,
            metrics: Metrics::default(),
            created,
            came: created,
            expires: self.expiry(created),
            fences: self.fences.load(Ordering::SeqCst),
            severing,
            left_manager: false,
        }
    }
}

/// A connection that was just opened, and not counted so yet.
struct Fresh<T> {
    pooled: Pooled<T>,
    took: Duration,
}

/// A token with which a connection is being opened. Dropped before it is open,
/// it comes back.
struct Opening<M: Manager + 'static> {
    shared: Arc<Shared<M>>,
    token_at_hand: bool,
    timed_out: bool,
}

impl<M: Manager + 'static> Opening<M> {
    fn new(shared: &Arc<Shared<M>>) -> Self {
        Self { shared: Arc::clone(shared), token_at_hand: true, timed_out: false }
    }

    /// Connects for the task that listens to `answer`, while it does.
    async fn connect_for(self, site: Site, answer: oneshot::Sender<Answer<M>>) {
        let shared = Arc::clone(&self.shared);
        let outcome = match self.connect_traced().await {
            Ok(fresh) if answer.is_closed() => return shared.keep(fresh),
            Ok(fresh) => shared.hand_out(fresh, site),
            Err(none) => Err(none),
        };
        // A checkout that nobody takes goes back to the pool here.
        drop(answer.send(outcome));
    }

    async fn connect_traced(mut self) -> Result<Fresh<M::Type>, NoConnection<M::Error>> {
        let span = connect_span(&self.shared.database);
        let outcome = self.connect().instrument(span.clone()).await;
        span.record("outcome", if outcome.is_ok() { "connection" } else { "none" });
        // From here on the connection carries the token.
        self.token_at_hand &= outcome.is_err();
        outcome
    }

    /// Connects, and connects again after each "not yet", within
    /// `create_timeout`.
    async fn connect(&mut self) -> Result<Fresh<M::Type>, NoConnection<M::Error>> {
        let shared = Arc::clone(&self.shared);
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
                    return Ok(Fresh { pooled: Box::new(shared.entry(connection)), took });
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

impl<M: Manager + 'static> Drop for Opening<M> {
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
