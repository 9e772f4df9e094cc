//! What a pool does of its own accord: warm connections, and the end of old and
//! long idle ones. Knows nothing of when it is called.

use std::time::Duration;

use crate::clock::Time;

use super::{Effects, Opened, State};

impl<T, W> State<T, W> {
    /// Takes a free token to open a connection for the warm minimum; it is then
    /// opening.
    pub fn begin_warm(&mut self, now: Time, effects: &mut Effects<T, W>) -> bool {
        let begins = self.wants_warm() && !self.is_past_deadline(now);
        if begins {
            self.free -= 1;
            self.opening += 1;
        }
        self.finish(effects);
        begins
    }

    /// A connect succeeded that no task waits for: one for the warm minimum, or
    /// one whose task was dropped meanwhile.
    pub fn opened_idle(&mut self, connection: T, took: Duration, now: Time, effects: &mut Effects<T, W>) {
        match self.count_opened(took, now) {
            Opened::InUse => self.put_connection(connection, now, effects),
            Opened::Lapsed | Opened::Closed => effects.close.push(connection),
        }
        self.finish(effects);
    }

    /// Closes idle connections that are `expired`, and those unused for
    /// `idle_timeout` above the warm minimum, the longest idle first.
    pub fn reap(
        &mut self,
        idle_timeout: Option<Duration>,
        expired: impl Fn(&T) -> bool,
        now: Time,
        effects: &mut Effects<T, W>,
    ) {
        let mut index = 0;
        while let Some(idle) = self.idle.get(index) {
            let unused = idle_timeout.is_some_and(|timeout| now.since(idle.since) >= timeout);
            let spare = self.in_use + self.idle.len() as u32 > self.limits.minimum;
            if expired(&idle.connection) || (unused && spare) {
                self.close_idle(index, self.owes_a_return(), effects);
            } else {
                index += 1;
            }
        }
        self.finish(effects);
    }
}
