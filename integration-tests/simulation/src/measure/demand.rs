//! Each node's part of the demand, as it is at the moment. Knows nothing of tasks.

use std::time::Duration;

use super::cell::{Change, Demand, Weights};
use crate::dice::Dice;

/// How long the parts stay where they are, when they move.
pub(super) const PHASE: Duration = Duration::from_secs(2);

/// How long a burst lasts on average, and the pause after it.
const BURST: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(400);

/// How much more than its part a node asks for in a burst, so that the mean is its
/// part.
const BURST_FACTOR: f64 = 5.0;

/// What a node with the steep weights asks for.
const STEEP: [f64; 4] = [0.80, 0.13, 0.05, 0.02];

/// The parts of all nodes.
#[derive(Debug)]
pub(super) struct Parts {
    change: Change,
    weights: Vec<f64>,
    moved: usize,
    bursting: Vec<bool>,
}

impl Parts {
    pub(super) fn new(demand: &Demand, nodes: usize) -> Parts {
        let weight = |node: usize| match demand.weights {
            Weights::Equal => 1.0,
            Weights::Zipf => 1.0 / (node + 1) as f64,
            Weights::Steep => STEEP[node % STEEP.len()],
            Weights::Halves => {
                if node < nodes / 2 {
                    9.0
                } else {
                    1.0
                }
            }
        };
        let whole: f64 = (0..nodes).map(weight).sum();
        let weights = (0..nodes).map(|node| weight(node) / whole).collect();
        Parts { change: demand.change, weights, moved: 0, bursting: vec![false; nodes] }
    }

    /// The part of a node now.
    pub(super) fn of(&self, node: usize) -> f64 {
        let nodes = self.weights.len();
        let part = self.weights[(node + self.moved * (nodes / 2)) % nodes];
        match self.change {
            Change::Steady | Change::Moving => part,
            Change::Bursty if self.bursting[node] => part * BURST_FACTOR,
            Change::Bursty => 0.0,
        }
    }

    /// Those of all nodes, if they stay.
    pub(super) fn steady(&self) -> Option<&[f64]> {
        match self.change {
            Change::Steady => Some(&self.weights),
            Change::Moving | Change::Bursty => None,
        }
    }

    /// They move on.
    pub(super) fn shift(&mut self) {
        self.moved += 1;
    }

    /// A node begins or ends a burst. Returns when it does the other.
    pub(super) fn turn(&mut self, node: usize, dice: &mut Dice) -> Duration {
        self.bursting[node] = !self.bursting[node];
        dice.exponential(if self.bursting[node] { BURST } else { PAUSE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::cell::Source;

    fn parts(weights: Weights, change: Change) -> Parts {
        Parts::new(&Demand { source: Source::Open(0.5), weights, change }, 4)
    }

    #[test]
    fn the_parts_are_a_whole() {
        for weights in [Weights::Equal, Weights::Zipf, Weights::Steep, Weights::Halves] {
            let parts = parts(weights, Change::Steady);
            let whole: f64 = (0..4).map(|node| parts.of(node)).sum();
            assert!((whole - 1.0).abs() < 1e-9, "{weights:?}");
        }
    }

    #[test]
    fn moving_parts_come_back() {
        let mut parts = parts(Weights::Halves, Change::Moving);
        let first = parts.of(0);
        parts.shift();
        assert!(parts.of(0) < first && (parts.of(2) - first).abs() < 1e-9);
        parts.shift();
        assert!((parts.of(0) - first).abs() < 1e-9);
    }
}
