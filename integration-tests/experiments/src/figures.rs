//! What is made of records: waits, throughput, overtaking. Knows nothing of
//! where they come from.

use std::time::Duration;

use leasehold_client::clock::Time;

use crate::records::{Checkout, Records};

/// Sorted times, in nanoseconds.
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn of(times: impl Iterator<Item = u64>) -> Self {
        let mut times: Vec<u64> = times.collect();
        times.sort_unstable();
        Self(times)
    }

    pub(crate) const fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn mean_ms(&self) -> f64 {
        let sum: u128 = self.0.iter().map(|time| u128::from(*time)).sum();
        if self.0.is_empty() { 0.0 } else { sum as f64 / self.0.len() as f64 / 1e6 }
    }

    /// The time that `part` of all are no longer than.
    pub(crate) fn quantile_ms(&self, part: f64) -> f64 {
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        let index = rank.saturating_sub(1).min(self.0.len().saturating_sub(1));
        self.0.get(index).map_or(0.0, |time| *time as f64 / 1e6)
    }

    pub(crate) fn min_ms(&self) -> f64 {
        self.quantile_ms(0.0)
    }

    pub(crate) fn max_ms(&self) -> f64 {
        self.quantile_ms(1.0)
    }
}

/// All nodes of a run, and the time of it that counts.
pub(crate) struct Run<'a> {
    nodes: &'a [Records],
    from: u64,
    to: u64,
}

impl<'a> Run<'a> {
    /// All of it but a warm-up at its start.
    pub(crate) fn new(nodes: &'a [Records], warm_up: Duration) -> Self {
        let started = nodes.iter().map(|node| node.started).max().unwrap_or(0);
        let to = nodes.iter().map(|node| node.stopped).min().unwrap_or(0);
        let from = started + warm_up.as_nanos() as u64;
        assert!(from < to, "the run ended within its warm-up");
        Self { nodes, from, to }
    }

    /// What was between two moments of it.
    pub(crate) fn between(nodes: &'a [Records], (from, to): (Time, Time)) -> Self {
        Self { nodes, from: from.as_nanos(), to: to.as_nanos() }
    }

    /// Seconds that count.
    pub(crate) fn seconds(&self) -> f64 {
        self.to.saturating_sub(self.from) as f64 / 1e9
    }

    /// The checkouts of one node that were there within the time that counts.
    pub(crate) fn checkouts_of(&self, node: usize) -> impl Iterator<Item = &Checkout> {
        self.nodes[node].checkouts.iter().filter(|checkout| (self.from..self.to).contains(&checkout.got))
    }

    pub(crate) fn checkouts(&self) -> impl Iterator<Item = &Checkout> {
        (0..self.nodes.len()).flat_map(|node| self.checkouts_of(node))
    }

    pub(crate) fn waits(&self) -> Times {
        Times::of(self.checkouts().map(|checkout| checkout.got - checkout.asked))
    }

    pub(crate) fn waits_of(&self, node: usize) -> Times {
        Times::of(self.checkouts_of(node).map(|checkout| checkout.got - checkout.asked))
    }

    /// From the moment a connection was there to that at which it began to go back.
    pub(crate) fn holds(&self) -> Times {
        Times::of(self.checkouts().map(|checkout| checkout.done - checkout.got))
    }

    pub(crate) fn releases(&self) -> Times {
        Times::of(self.checkouts().map(|checkout| checkout.returned - checkout.done))
    }

    /// Requests that ended within the time that counts.
    pub(crate) fn responses(&self) -> Times {
        let requests = self.nodes.iter().flat_map(|node| &node.requests);
        let counts = requests.filter(|request| (self.from..self.to).contains(&request.ended));
        Times::of(counts.map(|request| request.ended - request.begun))
    }

    pub(crate) fn queries_a_second(&self) -> f64 {
        self.checkouts().count() as f64 / self.seconds()
    }

    pub(crate) fn failures(&self) -> u64 {
        self.nodes.iter().map(|node| node.failures).sum()
    }

    /// Connections opened within the time that counts.
    pub(crate) fn opens(&self) -> u64 {
        let until = |node: &Records, end: u64| {
            node.opens.iter().take_while(|(at, _)| *at < end).last().map_or(0, |(_, opens)| *opens)
        };
        self.nodes.iter().map(|node| until(node, self.to) - until(node, self.from)).sum()
    }

    /// Most connections in use at one moment.
    pub(crate) fn peak(&self) -> i64 {
        let mut changes: Vec<(u64, i64)> = Vec::new();
        let counts = |checkout: &&Checkout| checkout.got < self.to && checkout.done > self.from;
        for checkout in self.nodes.iter().flat_map(|node| &node.checkouts).filter(counts) {
            changes.push((checkout.got, 1));
            changes.push((checkout.done, -1));
        }
        changes.sort_unstable();
        let mut now = 0;
        changes.iter().fold(0, |peak, (_, change)| {
            now += change;
            peak.max(now)
        })
    }

    /// By how much who was overtaken had asked before the youngest who got a
    /// connection earlier, on any node: zero for those nobody overtook.
    pub(crate) fn overtaking(&self) -> Times {
        Times::of(self.overtaken(self.nodes).into_iter())
    }

    /// The same among the tasks of one node each: in its pool nobody overtakes, and
    /// what is seen here is in which order the node's processor came to its tasks.
    pub(crate) fn overtaking_within_nodes(&self) -> Times {
        Times::of(self.nodes.chunks(1).flat_map(|node| self.overtaken(node)))
    }

    fn overtaken(&self, nodes: &[Records]) -> Vec<u64> {
        let mut all: Vec<&Checkout> = nodes.iter().flat_map(|node| &node.checkouts).collect();
        all.sort_unstable_by_key(|checkout| checkout.got);
        let mut youngest = 0;
        let mut overtaken = Vec::new();
        for checkout in all {
            if (self.from..self.to).contains(&checkout.got) {
                overtaken.push(u64::saturating_sub(youngest, checkout.asked));
            }
            youngest = youngest.max(checkout.asked);
        }
        overtaken
    }
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(checkouts: &[(u64, u64)]) -> Records {
        let checkouts = checkouts
            .iter()
            .map(|(asked, got)| Checkout { asked: *asked, got: *got, done: got + 10, returned: got + 11 })
            .collect();
        let opens = vec![(10, 1), (200, 4), (1_000, 9)];
        Records { started: 0, stopped: 1_000, checkouts, opens, ..Records::default() }
    }

    #[test]
    fn who_asked_later_and_got_earlier_has_overtaken() {
        let nodes = [node(&[(0, 100), (50, 60)]), node(&[(20, 70), (110, 120)])];
        let run = Run::new(&nodes, Duration::ZERO);
        assert_eq!(run.overtaking().0, [0, 0, 30, 50]);
        assert_eq!(run.overtaking_within_nodes().0, [0, 0, 0, 50]);
    }

    #[test]
    fn only_what_is_between_two_moments_counts() {
        let nodes = [node(&[(0, 100), (50, 160), (90, 250)])];
        let run = Run::between(&nodes, (Time::from_nanos(150), Time::from_nanos(500)));
        assert_eq!(run.waits().0, [110, 160]);
        assert_eq!(run.opens(), 3);
    }

    #[test]
    fn the_peak_counts_what_overlaps() {
        let nodes = [node(&[(0, 5), (0, 10), (0, 14), (0, 30)])];
        assert_eq!(Run::new(&nodes, Duration::ZERO).peak(), 3);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let times = Times::of([4_000_000, 1_000_000, 3_000_000, 2_000_000].into_iter());
        assert_eq!((times.min_ms(), times.quantile_ms(0.5), times.max_ms()), (1.0, 2.0, 4.0));
        assert!((times.mean_ms() - 2.5).abs() < f64::EPSILON);
    }
}
