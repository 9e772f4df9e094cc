//! The cells that a test holds to what they were, among them the worst ones, with a
//! margin. Knows nothing of how they are measured.

use std::time::Duration;

use super::{
    Figures,
    catalogue::{SHORT_WAITS, USUAL},
    cell::{Cell, Change, Demand, Hold, Mode, Source, Weights},
};

/// A cell, and what its figures must not pass. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The cell.
    pub cell: Cell,
    /// Its throughput is at least this.
    pub throughput: f64,
    /// The 99th percentile of its overtaking is at most this.
    pub overtaking: f64,
    /// The 99th percentile of its waits is at most this.
    pub wait: f64,
    /// Nodes say at most so much for each thousand checkouts.
    pub messages: f64,
    /// At most this part of the work is done at other nodes than it is due at.
    pub misplaced: f64,
}

impl Bound {
    /// What of the figures passes its bound.
    pub fn passed_by(&self, figures: &Figures) -> Vec<String> {
        let overtaking = figures.overtaking.quantile(0.99);
        let wait = figures.waits.quantile(0.99);
        let mut passed = Vec::new();
        if figures.throughput < self.throughput {
            passed.push(format!("throughput {:.3} < {}", figures.throughput, self.throughput));
        }
        if overtaking > self.overtaking {
            passed.push(format!("overtaking {overtaking:.0} ms > {} ms", self.overtaking));
        }
        if wait > self.wait {
            passed.push(format!("wait {wait:.0} ms > {} ms", self.wait));
        }
        if figures.messages > self.messages {
            passed.push(format!("messages {:.0} > {}", figures.messages, self.messages));
        }
        if let Some(misplaced) = figures.misplaced.filter(|part| *part > self.misplaced) {
            passed.push(format!("misplaced {misplaced:.3} > {}", self.misplaced));
        }
        if figures.starved > 0 {
            passed.push(format!("{} nodes were served nothing", figures.starved));
        }
        passed
    }
}

/// Short enough for a test, long enough for the tail.
const BRIEF: Cell = Cell { scenario: "bounds", lasts: Duration::from_secs(4), ..USUAL };

const MANY: Cell = Cell { nodes: 50, ..BRIEF };

const MOVING: Demand =
    Demand { source: Source::Closed(30.0), weights: Weights::Halves, change: Change::Moving };

const QUIET: Demand = Demand { source: Source::Open(0.1), ..BRIEF.demand };

const BURSTS: Demand = Demand { source: Source::Open(0.6), change: Change::Bursty, ..BRIEF.demand };

/// All of them. What was measured is in `docs/admission.md`; the margin is about a
/// quarter of a time, and a third of what throughput lacks of the ideal.
pub const BOUNDS: [Bound; 16] = [
    // Few nodes, waits longer than the quantum: nothing has to move.
    Bound {
        cell: Cell { delay: Duration::from_millis(10), ..BRIEF },
        throughput: 0.99,
        overtaking: 45.0,
        wait: 230.0,
        messages: 13.0,
        misplaced: 0.06,
    },
    Bound {
        cell: Cell { delay: Duration::from_millis(10), mode: Mode::STRICT, ..BRIEF },
        throughput: 0.93,
        overtaking: 130.0,
        wait: 260.0,
        messages: 65.0,
        misplaced: 1.0,
    },
    // Strict order, where all wait and nothing but the age of a task changes.
    Bound {
        cell: Cell { nodes: 2, cap: 20, mode: Mode::STRICT, ..BRIEF },
        throughput: 0.90,
        overtaking: 150.0,
        wait: 270.0,
        messages: 350.0,
        misplaced: 1.0,
    },
    Bound {
        cell: Cell { cap: 20, mode: Mode::STRICT, ..MANY },
        throughput: 0.92,
        overtaking: 1_050.0,
        wait: 1_050.0,
        messages: 1_800.0,
        misplaced: 1.0,
    },
    // Many nodes: small shares, of which estimated holds are not to make tokens tremble.
    Bound {
        cell: Cell { delay: Duration::from_micros(100), ..MANY },
        throughput: 0.99,
        overtaking: 110.0,
        wait: 250.0,
        messages: 160.0,
        misplaced: 0.03,
    },
    Bound {
        cell: Cell { delay: Duration::from_millis(50), ..MANY },
        throughput: 0.96,
        overtaking: 220.0,
        wait: 300.0,
        messages: 170.0,
        misplaced: 0.05,
    },
    // More nodes than tokens: each gets one in its turn, as the budget allows.
    Bound {
        cell: Cell { cap: 20, ..MANY },
        throughput: 0.92,
        overtaking: 1_050.0,
        wait: 1_050.0,
        messages: 1_800.0,
        misplaced: 1.0,
    },
    Bound {
        cell: Cell { nodes: 500, cap: 20, ..BRIEF },
        throughput: 0.93,
        overtaking: 4_400.0,
        wait: 4_400.0,
        messages: 16_000.0,
        misplaced: 1.0,
    },
    // Demand that moves, or differs.
    Bound {
        cell: Cell { demand: MOVING, ..MANY },
        throughput: 0.98,
        overtaking: 330.0,
        wait: 480.0,
        messages: 210.0,
        misplaced: 1.0,
    },
    Bound {
        cell: Cell { demand: Demand { weights: Weights::Zipf, ..BRIEF.demand }, ..MANY },
        throughput: 0.98,
        overtaking: 160.0,
        wait: 250.0,
        messages: 170.0,
        misplaced: 0.06,
    },
    Bound {
        cell: Cell { demand: Demand { source: Source::Open(0.8), ..MOVING }, ..MANY },
        throughput: 0.98,
        overtaking: 60.0,
        wait: 48.0,
        messages: 610.0,
        misplaced: 1.0,
    },
    // Demand that differs where waits are about a quantum: little reminds of it.
    Bound {
        cell: Cell { lasts: BRIEF.lasts, ..SHORT_WAITS },
        throughput: 0.99,
        overtaking: 140.0,
        wait: 150.0,
        messages: 250.0,
        misplaced: 0.04,
    },
    // Long holds beside short ones.
    Bound {
        cell: Cell {
            hold: Hold { long: Some(Duration::from_millis(500)), ..BRIEF.hold },
            demand: Demand { source: Source::Closed(2.0), ..BRIEF.demand },
            ..MANY
        },
        throughput: 0.98,
        overtaking: 340.0,
        wait: 210.0,
        messages: 1_600.0,
        misplaced: 1.0,
    },
    // Tokens that come to rest where nobody waits are found at once, also where nothing
    // else moves any; and nodes that are at peace keep silent.
    Bound {
        cell: Cell { demand: QUIET, ..MANY },
        throughput: 0.97,
        overtaking: 8.0,
        wait: 1.0,
        messages: 55.0,
        misplaced: 1.0,
    },
    Bound {
        cell: Cell { demand: Demand { source: Source::Open(0.6), ..QUIET }, mode: Mode::UNFAIR, ..MANY },
        throughput: 0.98,
        overtaking: 25.0,
        wait: 22.0,
        messages: 1_150.0,
        misplaced: 1.0,
    },
    Bound {
        cell: Cell { demand: BURSTS, mode: Mode::UNFAIR, ..MANY },
        throughput: 0.97,
        overtaking: 100.0,
        wait: 100.0,
        messages: 650.0,
        misplaced: 1.0,
    },
];
