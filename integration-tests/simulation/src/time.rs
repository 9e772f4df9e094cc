//! True time, which nobody in the simulated world can read, and the clocks that
//! they read instead: fast or slow, standing still, leaping. Knows nothing of
//! who reads them.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use crate::dice::Dice;

/// A moment of true time, in nanoseconds since the start of the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, later: Duration) -> Moment {
        Moment(self.0 + later.as_nanos() as u64)
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", Duration::from_nanos(self.0).as_secs_f64())
    }
}

/// Parts in a million of true time by which a clock may be fast or slow.
pub const SKEW: i32 = 10_000;

const MILLION: i128 = 1_000_000;

/// A clock that never falls.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    since: Moment,
    shown: u64,
    /// Nanoseconds that it advances in a millisecond of true time.
    rate: i128,
    stands: bool,
}

impl Clock {
    /// A clock that shows `shown` nanoseconds at `now` and is fast by `skew`
    /// parts in a million.
    pub fn new(now: Moment, shown: u64, skew: i32) -> Clock {
        Clock { since: now, shown, rate: MILLION + i128::from(skew), stands: false }
    }

    /// A clock that is fast or slow by chance.
    pub fn skewed(dice: &mut Dice, shown: u64) -> Clock {
        let skew = dice.number(0, 2 * SKEW.unsigned_abs()).cast_signed() - SKEW;
        Clock::new(Moment(0), shown, skew)
    }

    /// What it shows.
    pub fn read(&self, now: Moment) -> u64 {
        if self.stands {
            return self.shown;
        }
        let passed = i128::from(now.0 - self.since.0);
        self.shown + (passed * self.rate / MILLION) as u64
    }

    /// The first moment, not before `now`, at which it shows `shown`.
    pub fn when(&self, now: Moment, shown: u64) -> Moment {
        let left = i128::from(shown.saturating_sub(self.read(now)));
        Moment(now.0 + ((left * MILLION + self.rate - 1) / self.rate) as u64)
    }

    /// It leaps forward.
    pub fn leap(&mut self, now: Moment, by: Duration) {
        self.shown = self.read(now) + by.as_nanos() as u64;
        self.since = now;
    }

    /// It stands still, or goes on.
    pub fn stand(&mut self, now: Moment, stands: bool) {
        self.shown = self.read(now);
        self.since = now;
        self.stands = stands;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_what_it_was_asked_to_at_the_moment_it_names() {
        for skew in [-10_000, -1, 0, 1, 9_999] {
            let clock = Clock::new(Moment(17), 5, skew);
            for shown in [5, 6, 1_000, 123_456_789] {
                let when = clock.when(Moment(20), shown);
                assert!(clock.read(when) >= shown, "skew {skew}, {shown}");
            }
        }
    }

    #[test]
    fn a_clock_that_stood_still_goes_on_where_it_was() {
        let mut clock = Clock::new(Moment(0), 0, 0);
        clock.stand(Moment(10), true);
        assert_eq!(clock.read(Moment(50)), 10);
        clock.stand(Moment(50), false);
        clock.leap(Moment(60), Duration::from_nanos(5));
        assert_eq!(clock.read(Moment(61)), 26);
    }
}
