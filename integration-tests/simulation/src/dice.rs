//! Chance from a seed: the only source of it in a simulation. Knows nothing of
//! what is decided with it.

use std::time::Duration;

/// A stream of random decisions. The same seed and purpose decide the same.
#[derive(Clone, Debug)]
pub struct Dice(fastrand::Rng);

impl Dice {
    /// The decisions of `seed` for one purpose; others are independent of them.
    pub fn new(seed: u64, purpose: u64) -> Dice {
        let mut mixer = fastrand::Rng::with_seed(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Dice(fastrand::Rng::with_seed(mixer.u64(..)))
    }

    /// True in `permille` of a thousand cases.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.0.u32(0..1_000) < permille
    }

    /// A number from `low` to `high`, both included.
    pub fn number(&mut self, low: u32, high: u32) -> u32 {
        self.0.u32(low..=high)
    }

    /// An index below `length`.
    pub fn index(&mut self, length: usize) -> usize {
        self.0.usize(0..length)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A time from `low` to `high`, in microseconds.
    pub fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_nanos(self.0.u64(low * 1_000..=high * 1_000))
    }

    /// A time from `low` to `high`, in milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.micros(low * 1_000, high * 1_000)
    }

    /// Mostly short, now and then long: each further `step` of doubling is half
    /// as likely.
    pub fn tail(&mut self, shortest: Duration, steps: u32) -> Duration {
        let mut longest = shortest;
        for _ in 0..steps {
            if self.0.bool() {
                break;
            }
            longest *= 2;
        }
        Duration::from_nanos(self.0.u64(0..=longest.as_nanos() as u64)) + shortest / 2
    }

    /// A time until something that happens by chance, on average after `mean`.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        // From above 0 to 1: the logarithm is finite.
        mean.mul_f64(-(1.0 - self.0.f64()).ln())
    }

    /// About `mean`: up to a quarter more or less.
    pub fn about(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(0.75 + 0.5 * self.0.f64())
    }
}
