//! Which endpoint to try next, and when: each in turn, then a pause that
//! doubles with every fruitless round, most of it left to chance: a fleet that
//! loses its server in one moment shall not come back in waves. Knows nothing
//! of connections.

use std::time::Duration;

/// Longest pause after the first round of endpoints that failed.
pub const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause between two rounds. Below two seconds, in which a restarted
/// server has its nodes back.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A pause lasts at least this part of the longest that it might.
const LEAST_PART: u32 = 10;

/// The turn of the endpoints. Jitter comes from a seed, so that a simulation
/// can repeat it.
#[derive(Debug)]
pub(super) struct Backoff {
    endpoints: usize,
    next: usize,
    failures: u32,
    random: fastrand::Rng,
}

impl Backoff {
    /// Starts with the first of `endpoints`.
    pub(super) fn new(endpoints: usize, seed: u64) -> Self {
        assert!(endpoints > 0, "a session needs an endpoint");
        Self { endpoints, next: 0, failures: 0, random: fastrand::Rng::with_seed(seed) }
    }

    /// Index of the endpoint whose turn it is.
    pub(super) fn endpoint(&self) -> usize {
        self.next
    }

    /// The endpoint failed: it is the next one's turn, after the pause that is
    /// returned. Within a round there is next to none.
    pub(super) fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.next = (self.next + 1) % self.endpoints;
        let endpoints = u32::try_from(self.endpoints).unwrap_or(u32::MAX);
        if !self.failures.is_multiple_of(endpoints) {
            return self.between(Duration::ZERO, SHORTEST_PAUSE);
        }
        self.pause(self.failures / endpoints)
    }

    /// The session, not the endpoint, failed: the same one again, after the
    /// pause that is returned.
    pub(super) fn again(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.pause(self.failures)
    }

    /// The server has answered for a while: a later failure starts over.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The pause after `rounds` fruitless rounds, at least 1.
    fn pause(&mut self, rounds: u32) -> Duration {
        let doublings = rounds.saturating_sub(1).min(16);
        let longest = SHORTEST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
        self.between(longest / LEAST_PART, longest)
    }

    fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random.u64(nanoseconds(low)..=nanoseconds(high)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_carry_jitter() {
        let mut backoff = Backoff::new(1, 7);
        let pauses: Vec<Duration> = (0..12).map(|_| backoff.failed()).collect();
        for (round, pause) in pauses.iter().enumerate() {
            let longest = (SHORTEST_PAUSE * (1 << round.min(10))).min(LONGEST_PAUSE);
            assert!(*pause >= longest / LEAST_PART && *pause <= longest, "round {round}: {pause:?}");
        }
        backoff.succeeded();
        assert!(backoff.failed() <= SHORTEST_PAUSE);
    }

    #[test]
    fn those_who_failed_together_do_not_come_back_together() {
        const SESSIONS: u64 = 500;
        const SLOT: u128 = 100;
        let mut slots = [0_u32; 40];
        for seed in 0..SESSIONS {
            let (mut backoff, mut at) = (Backoff::new(1, seed), Duration::ZERO);
            loop {
                at += backoff.failed();
                let Some(slot) = slots.get_mut((at.as_millis() / SLOT) as usize) else { break };
                *slot += 1;
            }
        }
        // Evenly spread it would be 91, the longest pause being 550 ms on average.
        let busiest = slots[10..].iter().max().expect("there are slots");
        assert!(*busiest < 130, "{busiest} of {SESSIONS} come at once: {slots:?}");
    }

    #[test]
    fn every_endpoint_has_its_turn_before_the_pause() {
        let mut backoff = Backoff::new(3, 7);
        let mut turns = Vec::new();
        for _ in 0..6 {
            turns.push(backoff.endpoint());
            backoff.failed();
        }
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        let third_round: Vec<Duration> = (0..3).map(|_| backoff.failed()).collect();
        assert!(third_round[0] <= SHORTEST_PAUSE && third_round[1] <= SHORTEST_PAUSE);
        assert!(third_round[2] >= SHORTEST_PAUSE * 4 / LEAST_PART);
    }
}
