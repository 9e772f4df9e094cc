//! The ledger of a pool: who has which token, which connections are idle, and
//! who waits, behind one lock, so that "take the idle connection" and "take a
//! free token" are one decision. Knows nothing of deadpool or gRPC.
//!
//! [`State`] is the pure machine; `Ledger` is the shell that locks it, tells
//! it the time, and carries out its [`Effects`] after the lock is open again.
//! No waker, no connection's drop and no code of a user ever runs under it.

mod effects;
mod orders;
mod report;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod upkeep;
mod wait;
mod waiters;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;

use tokio::sync::Notify;

use crate::clock::{Clock, Time};
use crate::governed::Reporter;

pub use effects::{Effects, Few};
pub use state::{Ahead, Asked, Limits, MayUse, Opened, State, Use};
pub(crate) use wait::{Shell, Wait, remaining};
pub use waiters::{Ticket, WaiterId};

/// What a task gets from the ledger.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim<T> {
    /// An open connection, to be tested before its use.
    Connection(T),
    /// The right to open one.
    Token,
    /// Nothing, for ever.
    Closed,
}

/// How long a thread waits between its first looks at a lock that another holds,
/// in spins: some microseconds, and twice as long each time. After the last look
/// it sleeps until the lock is free.
///
/// Long, so that the holder can come back several times while what it needs is
/// in its core's cache; taking turns at every checkout would move all of it each
/// time. Which *task* is next the queue says, not the lock.
const PAUSES: [u32; 3] = [64, 128, 256];

/// A [`State`] that tasks share.
pub(crate) struct Ledger<T> {
    /// Who waits for the lock looks at it; the holder's lines are others.
    state: Apart<Mutex<Apart<State<T, Waker>>>>,
    clock: Clock,
    reporter: Arc<dyn Reporter>,
    /// Told when a connection should be opened for the warm minimum.
    upkeep: Notify,
    /// Told when a closed ledger has given everything back.
    emptied: Notify,
}

/// Something on lines of the processor's cache of its own, or rather on pairs of
/// them, which many fetch together: what is beside it is read by tasks that do
/// not hold the lock.
#[repr(align(128))]
struct Apart<X>(X);

impl<T> Ledger<T> {
    pub(crate) fn new(limits: Limits, uses: Use, clock: Clock, reporter: Arc<dyn Reporter>) -> Self {
        Self {
            state: Apart(Mutex::new(Apart(State::new(limits, uses)))),
            clock,
            reporter,
            upkeep: Notify::new(),
            emptied: Notify::new(),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Changes the state and carries out what follows from it. What is to be
    /// closed is the caller's: only a pool knows how.
    #[inline]
    pub(crate) fn change<R>(
        &self,
        step: impl FnOnce(&mut State<T, Waker>, &mut Effects<T, Waker>) -> R,
    ) -> (R, Few<T>) {
        let mut effects = Effects::default();
        let result = step(&mut self.lock().0, &mut effects);
        (result, self.carry_out(effects))
    }

    /// Changes the state in a way that cannot close a connection.
    #[inline]
    pub(crate) fn step<R>(&self, step: impl FnOnce(&mut State<T, Waker>, &mut Effects<T, Waker>) -> R) -> R {
        let (result, close) = self.change(step);
        assert!(close.is_empty(), "a connection that is to be closed is forgotten");
        result
    }

    /// Looks at the state.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&State<T, Waker>) -> R) -> R {
        look(&self.lock().0)
    }

    /// Returns when a connection should be opened for the warm minimum.
    pub(crate) async fn upkeep(&self) {
        self.upkeep.notified().await;
    }

    /// Returns when the closed ledger has given everything back.
    pub(crate) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.read(State::is_emptied) {
                return;
            }
            emptied.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Apart<State<T, Waker>>> {
        for pause in PAUSES {
            match self.state.0.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => (0..pause).for_each(|_| std::hint::spin_loop()),
            }
        }
        // Only a broken invariant panics under the lock, and it panics again in
        // every later change: there is nothing that poisoning could add.
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn carry_out(&self, effects: Effects<T, Waker>) -> Few<T> {
        let Effects { wake, close, report, upkeep, emptied } = effects;
        // Mostly there is none, and then even an empty list costs something.
        if !wake.is_empty() {
            wake.into_iter().for_each(Waker::wake);
        }
        if report {
            self.reporter.changed();
        }
        if upkeep {
            self.upkeep.notify_one();
        }
        if emptied {
            self.emptied.notify_waiters();
        }
        close
    }
}
