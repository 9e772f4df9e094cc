//! A task's place in the queue, as a future that can be dropped at any time.
//! Knows nothing of timeouts.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Claim, Few, Ledger, WaiterId};

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
    /// Takes over a waiter that was entered with [`placeholder`].
    pub(crate) const fn new(shell: &'a S, id: WaiterId) -> Self {
        Self { shell, id: Some(id) }
    }
}

/// The waker of a waiter whose future was not polled yet.
pub(crate) fn placeholder() -> Waker {
    Waker::noop().clone()
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
