//! The clocks of the server; no other file asks one. Knows nothing of what the
//! time is for.

use std::time::{Duration, SystemTime};

use leasehold_admission::Time;
use tokio::time::Instant;

/// Tells the core's time.
///
/// It is tokio's clock, on Linux `CLOCK_MONOTONIC`, which stands still while the
/// machine is suspended. That is what the core wants: a session's age is the
/// server's *running* time (rule 15), since a server that slept heard nobody,
/// and a shorter time only keeps tokens back for longer. (A node's deadline is
/// the opposite case, and runs on `CLOCK_BOOTTIME`.) It is also the clock behind
/// the timers that wake the driver, so that a deadline and its timer agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts at zero.
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Time since the start.
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// An instant as time since the start; zero if it lies before.
    pub fn at(&self, instant: Instant) -> Time {
        Time::from_start(instant.saturating_duration_since(self.start))
    }

    /// The instant that timers understand.
    pub fn instant(&self, time: Time) -> Instant {
        self.start + time.since_start()
    }
}

/// What the clock on the wall shows: for people, for traces and for overrides
/// that outlive the process. It may jump.
#[expect(clippy::disallowed_methods, reason = "this is the clock file")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_millis().try_into().unwrap_or(u64::MAX)
}
