//! What a driver can tell a pool beyond deadpool's `Manager`: how to close a
//! connection for certain, what to do with one that comes back, how to cut one
//! that somebody else uses, and which refusals mean "not yet". Knows nothing of
//! tokens or sessions.
//!
//! Every method has a default, so a manager without hooks works as it is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::Manager;

use crate::pool::Checkout;

/// A boxed future, as the hooks return them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How long the token of a connection that was merely dropped stays counted:
/// databases were seen to notice the end of a socket up to 75 ms late.
pub const DROP_GRACE: Duration = Duration::from_millis(100);

/// What happens to a connection that comes back from use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReturn {
    /// It is fit for the next user, after the manager's `recycle`.
    Pool,
    /// [`Hooks::reset`] must clean it first, such as end a transaction that
    /// would hold its locks while the connection is idle.
    Reset,
    /// It is closed with [`Hooks::close`].
    Close,
}

/// Cuts one connection while somebody else uses it. Whoever uses it gets an
/// error and gives it back.
pub type Severer = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What a driver knows beyond deadpool's `Manager`.
///
/// The pool calls every hook outside its lock. A hook that panics costs its
/// connection, never a token.
pub trait Hooks<M: Manager + 'static>: Send + Sync + 'static {
    /// Looks at a connection that comes back. It runs in the guard's drop, so
    /// it does no IO and returns at once.
    fn on_return(&self, connection: &mut M::Type) -> OnReturn {
        let _ = connection;
        OnReturn::Pool
    }

    /// Cleans a connection for which [`Hooks::on_return`] said
    /// [`OnReturn::Reset`]. It runs in a task of its own, at most for
    /// `recycle_timeout`; the token stays in use meanwhile. False: it cannot be
    /// cleaned, and is closed.
    fn reset<'a>(&'a self, connection: &'a mut M::Type) -> BoxFuture<'a, bool> {
        let _ = connection;
        Box::pin(async { true })
    }

    /// Closes a connection. The token stays counted as `closing` until the
    /// future ends, at most for `close_timeout`: it should end when the
    /// database's side is gone for certain, also when a cancelled query still
    /// runs there. `spare` gives another connection of the pool to end it with.
    ///
    /// The default drops the connection and waits [`DROP_GRACE`].
    fn close(&self, connection: M::Type, spare: Spare<M>) -> BoxFuture<'static, ()> {
        let _ = spare;
        Box::pin(drop_and_wait::<M>(connection, DROP_GRACE))
    }

    /// How to cut `connection` while it is in use. It is asked once, after the
    /// connect, and used when the session is lost under the `fence` policy.
    /// None: such a connection is closed when it comes back.
    fn severer(&self, connection: &M::Type) -> Option<Severer> {
        let _ = connection;
        None
    }

    /// True when the database refused a connect only for the moment, such as
    /// error 1040 of `MySQL` while the slot of a closed connection is still busy.
    /// The pool then tries again within `create_timeout`.
    fn is_refused_for_now(&self, error: &M::Error) -> bool {
        let _ = error;
        false
    }
}

/// The hooks of a manager that has none: connections are closed by dropping
/// them, and their tokens stay counted for a grace time after that.
#[derive(Clone, Copy, Debug)]
pub struct PlainDrop {
    grace: Duration,
}

impl PlainDrop {
    /// Counts the token of a dropped connection for `grace` longer.
    pub const fn with_grace(grace: Duration) -> Self {
        Self { grace }
    }
}

impl Default for PlainDrop {
    /// Waits [`DROP_GRACE`].
    fn default() -> Self {
        Self::with_grace(DROP_GRACE)
    }
}

impl<M: Manager + 'static> Hooks<M> for PlainDrop {
    fn close(&self, connection: M::Type, _spare: Spare<M>) -> BoxFuture<'static, ()> {
        Box::pin(drop_and_wait::<M>(connection, self.grace))
    }
}

async fn drop_and_wait<M: Manager + 'static>(connection: M::Type, grace: Duration) {
    drop(connection);
    if grace > Duration::ZERO {
        tokio::time::sleep(grace).await;
    }
}

/// Where a closing hook gets another connection of the same pool, such as to
/// send `MySQL` a KILL for the one it closes.
pub struct Spare<M: Manager + 'static> {
    source: Box<dyn Fn() -> BoxFuture<'static, Option<Checkout<M>>> + Send + Sync>,
}

impl<M: Manager + 'static> Spare<M> {
    pub(crate) fn new(
        source: impl Fn() -> BoxFuture<'static, Option<Checkout<M>>> + Send + Sync + 'static,
    ) -> Self {
        Self { source: Box::new(source) }
    }

    /// Checks out a connection, ahead of every waiting task. None when the pool
    /// can give none. Bounded, as the whole close is, by `close_timeout`.
    pub async fn connection(&self) -> Option<Checkout<M>> {
        (self.source)().await
    }
}

impl<M: Manager + 'static> fmt::Debug for Spare<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Spare")
    }
}
