//! One fleet and its work, to be measured. Knows nothing of what comes of it.

use std::{fmt, time::Duration};

use leasehold_admission::Admission;

use crate::dice::Dice;

/// The quantum of fair admission unless a cell says otherwise.
pub const QUANTUM: Duration = Duration::from_millis(100);

/// A fleet, its database, its work, and how tokens are admitted.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Name of the scenario that it belongs to.
    pub scenario: &'static str,
    /// Nodes, each with one pool that could use the whole cap.
    pub nodes: usize,
    /// Tokens.
    pub cap: u32,
    /// How long a message takes from a node to the server, or back.
    pub delay: Duration,
    /// How long a connect takes, give or take a quarter.
    pub connect: Duration,
    /// How long tasks hold a connection.
    pub hold: Hold,
    /// Who asks for how much.
    pub demand: Demand,
    /// Who gets a token next.
    pub mode: Mode,
    /// What the server knows of holds.
    pub knowledge: Knowledge,
    /// How long it is measured, after a warm-up.
    pub lasts: Duration,
}

/// How long tasks hold a connection.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// Mean over the tasks of a node.
    pub mean: Duration,
    /// How single holds differ from it.
    pub shape: Shape,
    /// Mean at every other node instead, from the first on.
    pub long: Option<Duration>,
}

/// How single holds differ from their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// They are drawn from an exponential distribution.
    Exponential,
    /// One in fifty is as long as fifty-one usual ones.
    Rare,
}

/// One in so many holds is long, where long ones are rare.
const RARE: u32 = 50;

/// How many times the mean a rare one is; the others are half the mean.
const RARE_MEANS: f64 = 25.5;

impl Hold {
    /// Exponential holds with this mean.
    pub const fn of(mean: Duration) -> Hold {
        Hold { mean, shape: Shape::Exponential, long: None }
    }

    /// The true mean at a node.
    pub fn mean_at(&self, node: usize) -> Duration {
        self.long.filter(|_| node.is_multiple_of(2)).unwrap_or(self.mean)
    }

    pub(super) fn draw(&self, node: usize, dice: &mut Dice) -> Duration {
        let mean = self.mean_at(node);
        match self.shape {
            Shape::Exponential => dice.exponential(mean),
            Shape::Rare if dice.number(1, RARE) == 1 => mean.mul_f64(RARE_MEANS),
            Shape::Rare => mean.mul_f64(0.5),
        }
    }
}

/// Who asks for how much.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// How tasks come.
    pub source: Source,
    /// Each node's part.
    pub weights: Weights,
    /// How the parts change.
    pub change: Change,
}

/// How tasks come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// So many tasks for each token of the cap. Each asks again at once.
    Closed(f64),
    /// Tasks that come by chance, and keep this part of the cap busy.
    Open(f64),
}

/// Each node's part of the demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// The same for all.
    Equal,
    /// That of the n-th node is proportional to 1/n.
    Zipf,
    /// 80, 13, 5 and 2 % of the whole, over four nodes or four kinds of them.
    Steep,
    /// Nine times as much for the first half of the nodes as for the others.
    Halves,
}

/// How the parts of the demand change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They do not.
    Steady,
    /// Every two seconds the parts move on by half of the nodes.
    Moving,
    /// Each node asks for five times its part, for a fifth of the time.
    Bursty,
}

/// Who gets a token next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the core does it.
    Admission(Admission),
    /// Each node may use its even part of the cap, and no other token.
    Split,
}

impl Mode {
    /// Unfair admission.
    pub const UNFAIR: Mode = Mode::Admission(Admission::Unfair);
    /// Strict order.
    pub const STRICT: Mode = Mode::Admission(Admission::Fair { quantum: Duration::ZERO });
    /// Fair admission.
    pub const FAIR: Mode = Mode::Admission(Admission::Fair { quantum: QUANTUM });
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Split => f.write_str("static split"),
            Mode::Admission(Admission::Unfair) => f.write_str("unfair"),
            Mode::Admission(Admission::Fair { quantum }) if quantum.is_zero() => f.write_str("strict"),
            Mode::Admission(Admission::Fair { quantum }) => write!(f, "fair({} ms)", quantum.as_millis()),
        }
    }
}

/// What the server knows of holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// What nodes estimate.
    Estimated,
    /// The true means.
    True,
}
