//! A moment, as the driver tells it. Knows nothing of the clock behind it.

use core::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// Time since the driver started, on its monotonic clock, in nanoseconds: enough
/// for five centuries.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The driver's start.
    pub const ZERO: Time = Time(0);

    /// The end of all times.
    pub const MAX: Time = Time(u64::MAX);

    /// The moment this long after the start.
    pub fn from_start(since: Duration) -> Time {
        Time(nanos(since))
    }

    /// How long after the start this moment is.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The time from `earlier` to this moment; zero if it is not earlier.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment this much earlier, but not before the start.
    #[must_use]
    pub fn back(self, by: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(by)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.since_start(), f)
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, later: Duration) -> Time {
        Time(self.0.saturating_add(nanos(later)))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}
