//! What the ledger counts under its lock: opens, closes, and how long
//! connections stay out on average. Knows nothing of source lines.

use std::time::Duration;

use super::Statistics;
use crate::clock::Time;

/// Holds that ended longer ago than this hardly count: long enough that shares of a few
/// tokens do not tremble with their mean, however many holds there are.
const HOLDS_OF: Duration = Duration::from_secs(1);
/// But about so many do at least, however long ago they ended.
const FEWEST_HOLDS: f64 = 4.0;

/// So many connects count in their mean.
const CONNECTS: u32 = 8;

/// The counters, as the ledger keeps them under its lock.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    mean_hold: Recent,
    mean_connect: Mean,
    pub(crate) create_timeouts: u64,
    pub(crate) opens: u64,
    pub(crate) open_failures: u64,
    pub(crate) closes: u64,
    pub(crate) recycle_failures: u64,
    pub(crate) recalls: u64,
    pub(crate) refused: u64,
}

impl Tally {
    pub(crate) fn returned(&mut self, held: Duration, now: Time) {
        self.mean_hold.add(held, now);
    }

    pub(crate) fn opened(&mut self, took: Duration) {
        self.opens += 1;
        self.mean_connect.add(took);
    }

    pub(crate) fn mean_hold(&self) -> Duration {
        self.mean_hold.value()
    }

    pub(crate) fn mean_connect(&self) -> Duration {
        self.mean_connect.value()
    }

    /// What is known here; the rest is zero.
    pub(crate) fn statistics(&self) -> Statistics {
        Statistics {
            create_timeouts: self.create_timeouts,
            opens: self.opens,
            open_failures: self.open_failures,
            closes: self.closes,
            recycle_failures: self.recycle_failures,
            recalls: self.recalls,
            refused: self.refused,
            mean_hold: self.mean_hold(),
            mean_connect: self.mean_connect(),
            ..Statistics::default()
        }
    }
}

/// An exponentially weighted mean: each value moves it by a part of the difference.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    nanoseconds: u64,
    /// How many values there were, up to those that count.
    values: u32,
}

impl Mean {
    /// The last ones count; the first ones all alike.
    fn add(&mut self, value: Duration) {
        let value = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.values = (self.values + 1).min(CONNECTS);
        let part = u64::from(self.values);
        if value >= self.nanoseconds {
            self.nanoseconds += (value - self.nanoseconds) / part;
        } else {
            self.nanoseconds -= (self.nanoseconds - value) / part;
        }
    }

    fn value(self) -> Duration {
        Duration::from_nanos(self.nanoseconds)
    }
}

/// The mean of the values of late, each of which counts the less the longer ago it was.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    seconds: f64,
    /// How many values these are, as far as they count.
    weight: f64,
    last: Time,
}

impl Recent {
    fn add(&mut self, value: Duration, now: Time) {
        let left = 1.0 - now.since(self.last).as_secs_f64() / HOLDS_OF.as_secs_f64();
        let left = left.max(1.0 - 1.0 / FEWEST_HOLDS);
        self.seconds = self.seconds * left + value.as_secs_f64();
        self.weight = self.weight * left + 1.0;
        self.last = now;
    }

    fn value(self) -> Duration {
        if self.weight > 0.0 { Duration::from_secs_f64(self.seconds / self.weight) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// So many returns at one pace.
    fn returns(tally: &mut Tally, now: &mut Time, times: u32, between: Duration, held: Duration) {
        for _ in 0..times {
            *now = *now + between;
            tally.returned(held, *now);
        }
    }

    #[test]
    fn the_first_values_count_alike() {
        let mut tally = Tally::default();
        assert_eq!(tally.mean_hold(), Duration::ZERO);
        for held in [8, 80, 32] {
            tally.returned(ms(held), Time::START);
        }
        assert_eq!(tally.mean_hold(), ms(40));
    }

    #[test]
    fn one_long_hold_among_many_moves_little() {
        let (mut tally, mut now) = (Tally::default(), Time::START);
        returns(&mut tally, &mut now, 5_000, ms(1), ms(5));
        returns(&mut tally, &mut now, 1, ms(1), ms(1_005));
        let mean = tally.mean_hold();
        assert!(mean > ms(5) && mean < ms(7), "{mean:?}");
    }

    /// Within about three seconds, however fast they come.
    #[test]
    fn the_mean_follows_a_change() {
        for between in [ms(300), ms(100), ms(20), ms(1)] {
            let (mut tally, mut now) = (Tally::default(), Time::START);
            returns(&mut tally, &mut now, 200, between, ms(10));
            let returned = (Duration::from_secs(3).as_millis() / between.as_millis()) as u32;
            returns(&mut tally, &mut now, returned, between, ms(110));
            let mean = tally.mean_hold();
            assert!(mean > ms(100) && mean <= ms(110), "{mean:?}, a return every {between:?}");
        }
    }

    /// Crowds of holds that end at once do not make it forget the others.
    #[test]
    fn a_burst_is_no_more_than_its_part() {
        let (mut tally, mut now) = (Tally::default(), Time::START);
        returns(&mut tally, &mut now, 2_000, ms(1), ms(10));
        returns(&mut tally, &mut now, 100, Duration::ZERO, ms(110));
        let mean = tally.mean_hold();
        assert!(mean > ms(15) && mean < ms(25), "{mean:?}");
    }

    /// Sums stay sums, also of what never comes back.
    #[test]
    fn the_longest_hold_is_a_hold() {
        let mut tally = Tally::default();
        tally.returned(Duration::MAX, Time::START);
        tally.returned(ms(1), Time::START + ms(1));
        assert!(tally.mean_hold() > Duration::from_secs(1));
    }
}
