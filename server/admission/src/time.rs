//! A moment, as the driver tells it. Knows nothing of the clock behind it.

use core::{
    ops::{Add, Sub},
    time::Duration,
};

/// Time since the driver started, on its monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The driver's start.
    pub const ZERO: Time = Time(Duration::ZERO);

    /// The moment this long after the start.
    pub const fn from_start(since: Duration) -> Time {
        Time(since)
    }

    /// How long after the start this moment is.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero if it is not earlier.
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment this much earlier, but not before the start.
    #[must_use]
    pub fn back(self, by: Duration) -> Time {
        Time(self.0.saturating_sub(by))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, later: Duration) -> Time {
        Time(self.0.saturating_add(later))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}
