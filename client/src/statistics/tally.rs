//! What the ledger counts under its lock: opens, closes, and how long
//! connections stay out on average. Knows nothing of source lines.

use std::time::Duration;

use super::Statistics;
use crate::clock::Time;

/// So many holds count in their mean: enough that shares of a few tokens do not
/// tremble with it.
const HOLDS: u32 = 32;

/// Holds that are older than this hardly count, however few there were since, as
/// long as there were so many.
const HOLDS_OF: Duration = Duration::from_secs(2);
const FEWEST_HOLDS: u32 = 4;

/// So many connects count in their mean.
const CONNECTS: u32 = 8;

/// The counters, as the ledger keeps them under its lock.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    mean_hold: Mean,
    mean_connect: Mean,
    pace: Pace,
    pub(crate) create_timeouts: u64,
    pub(crate) opens: u64,
    pub(crate) open_failures: u64,
    pub(crate) closes: u64,
    pub(crate) recycle_failures: u64,
    pub(crate) recalls: u64,
    pub(crate) refused: u64,
}

impl Tally {
    /// Something comes or goes at `now`: between these times holds end.
    pub(crate) fn passes(&mut self, now: Time) {
        self.pace.passes(now);
    }

    pub(crate) fn returned(&mut self, held: Duration) {
        self.mean_hold.add(held, self.pace.memory());
    }

    pub(crate) fn opened(&mut self, took: Duration) {
        self.opens += 1;
        self.mean_connect.add(took, CONNECTS);
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
    /// How many values there were, up to the memory of the last one.
    values: u32,
}

impl Mean {
    /// About the last `memory` values count; the first ones all alike.
    fn add(&mut self, value: Duration, memory: u32) {
        let value = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.values = (self.values + 1).min(memory);
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

/// How fast holds come.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    last: Time,
    /// Between the last two.
    between: Duration,
}

impl Pace {
    fn passes(&mut self, now: Time) {
        self.between = now.since(self.last);
        self.last = now;
    }

    /// How many holds are to count.
    fn memory(self) -> u32 {
        let between = self.between.as_nanos() as u64;
        match (HOLDS_OF.as_nanos() as u64).checked_div(between) {
            Some(holds) => holds.clamp(u64::from(FEWEST_HOLDS), u64::from(HOLDS)) as u32,
            None => HOLDS,
        }
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
            tally.passes(*now);
            tally.returned(held);
        }
    }

    #[test]
    fn the_first_values_count_alike() {
        let mut tally = Tally::default();
        assert_eq!(tally.mean_hold(), Duration::ZERO);
        for held in [8, 80, 32] {
            tally.returned(ms(held));
        }
        assert_eq!(tally.mean_hold(), ms(40));
    }

    #[test]
    fn one_long_hold_among_many_moves_little() {
        let (mut tally, mut now) = (Tally::default(), Time::START);
        returns(&mut tally, &mut now, 100, ms(1), ms(5));
        returns(&mut tally, &mut now, 1, ms(1), ms(69));
        assert_eq!(tally.mean_hold(), ms(7));
    }

    /// Within about two seconds at a few returns a second, and by as many returns as
    /// the memory has where they come faster.
    #[test]
    fn the_mean_follows_a_change() {
        for (between, seconds) in [(ms(300), 4), (ms(100), 6), (ms(20), 3), (ms(1), 1)] {
            let (mut tally, mut now) = (Tally::default(), Time::START);
            returns(&mut tally, &mut now, 200, between, ms(10));
            let returned = (Duration::from_secs(seconds).as_millis() / between.as_millis()) as u32;
            returns(&mut tally, &mut now, returned.min(100), between, ms(110));
            let mean = tally.mean_hold();
            assert!(mean > ms(90) && mean <= ms(110), "{mean:?}, a return every {between:?}");
        }
    }
}
