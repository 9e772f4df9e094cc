//! What time it is: the only file of this crate that reads a clock.
//!
//! A node's deadline is an instant of a clock that goes on while the machine is
//! suspended (`CLOCK_BOOTTIME` on Linux), for the server's clock goes on too.
//! Knows nothing of sessions or pools.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An instant, in nanoseconds since an arbitrary start (the boot, on Linux).
///
/// Arithmetic saturates: an instant is never before the start, a difference
/// never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of the clock.
    pub const START: Time = Time(0);

    /// The instant `nanoseconds` after the start.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero when it is not in the past.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanoseconds))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

/// Where the time comes from: the system, or a test's hand.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's clock, which counts suspended time where the system can.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at [`Time::START`] until [`Clock::advance`] moves
    /// it. Clones share the hand.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::default()))
    }

    /// The time now. Never falls.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.0 {
            Source::System => system_now(),
            Source::Manual(hand) => Time(hand.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock forward; a system clock is left alone.
    pub fn advance(&self, duration: Duration) {
        match &self.0 {
            Source::System => {}
            Source::Manual(hand) => {
                let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
                hand.fetch_add(nanoseconds, Ordering::SeqCst);
            }
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn system_now() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
}

/// Elsewhere the monotonic clock has to do; it may stand still while the
/// machine is suspended.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn system_now() -> Time {
    use std::sync::LazyLock;
    use std::time::Instant;

    #[expect(clippy::disallowed_methods, reason = "this is the crate's clock file")]
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Time::START + START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let early = Time::from_nanos(5);
        let late = early + Duration::from_nanos(7);
        assert_eq!(late - early, Duration::from_nanos(7));
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(late + Duration::MAX, Time::from_nanos(u64::MAX));
    }

    #[test]
    fn the_system_clock_never_falls() {
        let clock = Clock::system();
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        assert!(last > Time::START);
    }

    #[test]
    fn a_manual_clock_stands_until_moved() {
        let clock = Clock::manual();
        let shared = clock.clone();
        assert_eq!(clock.now(), Time::START);
        shared.advance(Duration::from_secs(3));
        assert_eq!(clock.now(), Time::START + Duration::from_secs(3));
    }
}
