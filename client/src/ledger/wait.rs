//! A task's place in the queue, as a future that can be dropped at any time,
//! and its time limit. Knows nothing of what a connection is.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use std::time::Duration;

use tokio::time::timeout;

use crate::clock::Time;

use super::{Ahead, Asked, Claim, Effects, Few, Ledger, State, Ticket, WaiterId};

/// Who owns a ledger, and knows how to close the connections in it.
pub(crate) trait Shell {
    /// An open connection.
    type Connection;

    /// The ledger.
    fn ledger(&self) -> &Ledger<Self::Connection>;

    /// Closes connections that the ledger counts as closing.
    fn close_all(&self, connections: Few<Self::Connection>);
}

/// A waiter of the ledger; resolves to what it is chosen for. Dropped before, it
/// leaves the queue, or passes on what it was chosen for.
pub(crate) struct Wait<'a, S: Shell> {
    shell: &'a S,
    id: Option<WaiterId>,
}

impl<'a, S: Shell> Wait<'a, S> {
    /// Makes `before`, then asks, all in one change.
    pub(crate) fn ask(
        shell: &'a S,
        ticket: Ticket,
        ahead: Ahead,
        before: impl FnOnce(&mut State<S::Connection, Waker>, &mut Effects<S::Connection, Waker>),
    ) -> Asked<Claim<S::Connection>, Self> {
        let asked = shell.ledger().step(|state, effects| {
            before(state, effects);
            // The first poll brings the real waker.
            state.ask(ticket, ahead, Waker::noop().clone(), effects)
        });
        match asked {
            Asked::Claim(claim) => Asked::Claim(claim),
            Asked::Place(id) => Asked::Place(Self { shell, id: Some(id) }),
            Asked::Refused { max_waiting } => Asked::Refused { max_waiting },
        }
    }

    /// Waits at most until `limit` after `since`; for ever without a
    /// limit. The error is how long it waited.
    pub(crate) async fn within(
        self,
        limit: Option<Duration>,
        since: Time,
    ) -> Result<Claim<S::Connection>, Duration> {
        let Some(limit) = limit else { return Ok(self.await) };
        let ledger = self.shell.ledger();
        if let Ok(claim) = timeout(remaining(limit, since, ledger.now()), self).await {
            return Ok(claim);
        }
        Err(ledger.now().since(since))
    }
}

/// How long is left of `limit`, from `since` on.
pub(crate) fn remaining(limit: Duration, since: Time, now: Time) -> Duration {
    limit.saturating_sub(now.since(since))
}

impl<S: Shell> Future for Wait<'_, S> {
    type Output = Claim<S::Connection>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(id) = self.id else { return Poll::Pending };
        let waker = context.waker().clone();
        // The former waker drops here, outside the lock.
        let (outcome, _) = self.shell.ledger().change(|state, _| state.poll(id, waker));
        match outcome {
            Ok(claim) => {
                self.id = None;
                Poll::Ready(claim)
            }
            Err(_former) => Poll::Pending,
        }
    }
}

impl<S: Shell> Drop for Wait<'_, S> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let ledger = self.shell.ledger();
        let now = ledger.now();
        let (_waker, close) = ledger.change(|state, effects| state.leave(id, now, effects));
        self.shell.close_all(close);
    }
}
