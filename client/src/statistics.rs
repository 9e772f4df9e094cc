//! What happened in a pool: how long connections stay out, from which source
//! lines, and how often it waited, opened and closed. Bounded in memory, no
//! allocation at a checkout. Knows nothing of connections.

mod sites;
mod tally;

use std::panic::Location;
use std::time::Duration;

pub(crate) use sites::{Held, Site, Sites};
pub(crate) use tally::Tally;

/// Number of buckets of the hold time.
pub const HOLD_BUCKETS: usize = 8;

/// Source lines that are counted on their own; further ones are counted together.
pub const SITES_BOUND: usize = 128;

/// Upper bounds of all buckets but the last, which has none. Each bucket is
/// half-open: a hold of exactly 1 ms counts in the second.
pub const HOLD_BOUNDS: [Duration; HOLD_BUCKETS - 1] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(100),
    Duration::from_secs(1_000),
];

/// What a pool has seen since it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Finished checkouts by how long they lasted; see [`HOLD_BOUNDS`]. The
    /// time of the test at checkout is included when it follows at once.
    pub hold: [u64; HOLD_BUCKETS],
    /// The same for each source line, the most used first.
    pub sites: Vec<SiteStatistics>,
    /// Most connections that were ever in use at a time.
    pub peak_in_use: u32,
    /// Most connections that were ever open, opening or closing at a time.
    pub peak_open: u32,
    /// Checkouts that had to wait.
    pub waits: u64,
    /// Waits that ended with `wait_timeout`.
    pub wait_timeouts: u64,
    /// Checkouts that were refused, for as many tasks waited as may.
    pub refused: u64,
    /// Connects that ended with `create_timeout`.
    pub create_timeouts: u64,
    /// Connections opened.
    pub opens: u64,
    /// Connects that failed.
    pub open_failures: u64,
    /// Connections closed.
    pub closes: u64,
    /// Connections that failed their test at checkout.
    pub recycle_failures: u64,
    /// Tokens given up because the server recalled them.
    pub recalls: u64,
    /// Mean time in use, weighted towards the last ones; zero when unknown.
    pub mean_hold: Duration,
    /// Mean time of a connect, weighted towards the last ones; zero when
    /// unknown.
    pub mean_connect: Duration,
}

/// What happened to the checkouts of one source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteStatistics {
    /// Where the checkout is written; None counts all lines beyond
    /// [`SITES_BOUND`] and the pool's own checkouts.
    pub location: Option<&'static Location<'static>>,
    /// Finished checkouts by how long they lasted; see [`HOLD_BOUNDS`].
    pub hold: [u64; HOLD_BUCKETS],
    /// Connections in use now.
    pub in_use: u32,
    /// Checkouts that had to wait.
    pub waits: u64,
    /// Waits that ended with `wait_timeout`.
    pub wait_timeouts: u64,
}
