//! What the ledger counts under its lock: opens, closes, and how long
//! connections stay out on average. Knows nothing of source lines.

use std::time::Duration;

use super::Statistics;

/// The counters, as the ledger keeps them under its lock.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    mean_hold: Mean,
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
    pub(crate) fn returned(&mut self, held: Duration) {
        self.mean_hold.add(held);
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

/// An exponentially weighted mean: each value moves it by an eighth of the
/// difference, so about the last sixteen count.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    nanoseconds: Option<u64>,
}

impl Mean {
    const WEIGHT: u64 = 8;

    fn add(&mut self, value: Duration) {
        let value = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds = Some(match self.nanoseconds {
            None => value,
            Some(mean) if value >= mean => mean + (value - mean) / Self::WEIGHT,
            Some(mean) => mean - (mean - value) / Self::WEIGHT,
        });
    }

    fn value(self) -> Duration {
        Duration::from_nanos(self.nanoseconds.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_last_values() {
        let mut mean = Mean::default();
        assert_eq!(mean.value(), Duration::ZERO);
        mean.add(Duration::from_millis(8));
        assert_eq!(mean.value(), Duration::from_millis(8));
        for _ in 0..100 {
            mean.add(Duration::from_millis(80));
        }
        assert!(mean.value() > Duration::from_millis(79) && mean.value() <= Duration::from_millis(80));
    }
}
