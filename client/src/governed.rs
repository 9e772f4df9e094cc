//! The seam between a session and what it governs: the levels that a pool
//! reports up, and the orders that come down. Knows nothing of gRPC, tasks or
//! connections, so that a simulation can stand on either side.

use std::time::Duration;

use crate::clock::Time;

/// How a pool goes down to its allotment when it holds more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recall {
    /// Nothing is recalled.
    None,
    /// Unused tokens leave at once: unopened first, then the longest idle.
    Idle,
    /// Unused tokens leave at once, the rest as they come back from use.
    NextReturn,
}

/// What a pool holds and wants, each a level at one moment.
///
/// `holding >= established + opening + closing`, and
/// `established >= in_use + idle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Tokens kept, used or not.
    pub holding: u32,
    /// Connections that are open.
    pub established: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Connections being closed.
    pub closing: u32,
    /// Open connections that are checked out.
    pub in_use: u32,
    /// Open connections that are not checked out.
    pub idle: u32,
    /// Tasks that wait and have no token yet.
    pub waiting: u32,
    /// Tokens the pool has use for.
    pub wanted: u32,
    /// Age of the oldest waiting task; zero when none waits.
    pub oldest_wait: Duration,
    /// Mean time that a connection stays checked out; zero when unknown.
    pub mean_hold: Duration,
    /// Mean time that a connect takes; zero when unknown.
    pub mean_connect: Duration,
}

/// Something that holds tokens of one database and follows a session's orders.
///
/// Every call is short, never blocks and never runs user code under a lock.
pub trait Governed: Send + Sync {
    /// The levels now.
    fn levels(&self) -> Levels;

    /// The W3C trace context of the oldest waiting task, empty when there is
    /// none.
    fn traceparent(&self) -> String;

    /// Follows an allotment: `tokens` is the server's target. A target above
    /// the holding raises it; one below is gone down to as `recall` says.
    fn allot(&self, tokens: u32, recall: Recall);

    /// As many tasks wait in the workload as may, `full` of them: another one is
    /// refused unless it is the only one here. None: all may wait.
    fn bound_queue(&self, full: Option<u32>);

    /// Keeps at most `holding` tokens counted and opens nothing more: the
    /// session's deadline has passed. Unopened tokens lapse at once, every
    /// close takes its token along. With `fence`, idle connections close now
    /// and those in use are severed, or close when they come back.
    fn lapse(&self, fence: bool);

    /// The session lives again: connections may be opened under tokens that
    /// an allotment gives from now on.
    fn revive(&self);

    /// The session's deadline is now `deadline`. From then on nothing may be
    /// opened, even while `lapse` is still to come: the session's task may be
    /// late, or the machine have slept. Checked again after each connect.
    /// It mostly moves forward; a server with a shorter TTL moves it back.
    fn prolong(&self, deadline: Time);

    /// Gives nothing out any more: what is unused closes now, the rest as it
    /// comes back, and every close takes its token along. The levels tell when
    /// that is done.
    fn close(&self);

    /// Whether it was closed, by this order or by its users.
    fn is_closed(&self) -> bool;
}

/// Wakes the session when levels changed that are worth a report.
pub trait Reporter: Send + Sync {
    /// The levels changed; the session reads them when it next can send.
    /// Cheap, never blocks, may be called under no lock.
    fn changed(&self);
}
