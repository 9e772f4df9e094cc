//! The cells that people look at, by scenario. Each scenario varies one thing.
//! Knows nothing of what comes of them.

use std::time::Duration;

use leasehold_admission::Admission;

use super::cell::{Cell, Change, Demand, Hold, Knowledge, Mode, Shape, Source, Weights};

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it varies, for people.
    pub about: &'static str,
    /// Its cells.
    pub cells: fn() -> Vec<Cell>,
}

/// All scenarios.
pub const SCENARIOS: [Scenario; 9] = [
    Scenario { name: "delay", about: "how long messages take", cells: delays },
    Scenario { name: "fleet", about: "how many nodes and tokens there are", cells: fleets },
    Scenario { name: "hold", about: "how long queries and connects take", cells: holds },
    Scenario { name: "skew", about: "demand that differs between nodes", cells: skews },
    Scenario { name: "moving", about: "demand that moves between nodes", cells: movings },
    Scenario { name: "long", about: "long holds at half of the nodes", cells: longs },
    Scenario { name: "open", about: "tasks that come by chance, beside a static split", cells: opens },
    Scenario { name: "estimate", about: "estimated holds and true ones", cells: estimates },
    Scenario { name: "quantum", about: "other quanta", cells: quanta },
];

const MODES: [Mode; 3] = [Mode::UNFAIR, Mode::STRICT, Mode::FAIR];

/// Tasks wait for about this long where all ask again at once.
const CONTENDED_WAIT: Duration = Duration::from_millis(150);

/// How long a cell is measured.
const LASTS: Duration = Duration::from_secs(8);

/// The cell that every scenario starts from: four nodes whose tasks wait for longer
/// than the quantum.
pub const USUAL: Cell = Cell {
    scenario: "usual",
    nodes: 4,
    cap: 200,
    delay: Duration::from_millis(1),
    connect: Duration::from_millis(5),
    hold: Hold::of(Duration::from_millis(5)),
    demand: Demand { source: Source::Closed(30.0), weights: Weights::Equal, change: Change::Steady },
    mode: Mode::FAIR,
    knowledge: Knowledge::Estimated,
    lasts: LASTS,
};

/// Demand that differs between nodes, with waits that are about a quantum: 160 tasks,
/// 26, 10 and 4.
pub const SHORT_WAITS: Cell = Cell {
    cap: 40,
    hold: Hold::of(Duration::from_millis(20)),
    demand: Demand { source: Source::Closed(5.0), weights: Weights::Steep, change: Change::Steady },
    ..USUAL
};

fn each<T: Copy>(cells: &[Cell], values: &[T], set: impl Fn(&mut Cell, T)) -> Vec<Cell> {
    let with = |cell: &Cell, value: &T| {
        let mut cell = *cell;
        set(&mut cell, *value);
        cell
    };
    cells.iter().flat_map(|cell| values.iter().map(|value| with(cell, value)).collect::<Vec<_>>()).collect()
}

fn usual(scenario: &'static str) -> Vec<Cell> {
    vec![Cell { scenario, ..USUAL }]
}

fn in_all_modes(cells: &[Cell]) -> Vec<Cell> {
    each(cells, &MODES, |cell, mode| cell.mode = mode)
}

fn delays() -> Vec<Cell> {
    let cells = each(&usual("delay"), &[4, 50], |cell, nodes| cell.nodes = nodes);
    let delays = [100, 1_000, 10_000, 50_000].map(Duration::from_micros);
    in_all_modes(&each(&cells, &delays, |cell, delay| cell.delay = delay))
}

fn fleets() -> Vec<Cell> {
    let sizes = [(2, 20), (4, 20), (50, 20), (500, 20), (2, 200), (50, 200), (4, 1_000), (50, 1_000)];
    in_all_modes(&each(&usual("fleet"), &sizes, |cell, (nodes, cap)| {
        (cell.nodes, cell.cap) = (nodes, cap);
        if cap == 1_000 {
            cell.lasts = LASTS / 2;
        }
    }))
}

fn holds() -> Vec<Cell> {
    let holds = [500, 5_000, 50_000, 500_000].map(Duration::from_micros);
    let cells = each(&usual("hold"), &holds, |cell, hold| {
        cell.hold = Hold::of(hold);
        let crowd = (CONTENDED_WAIT.as_secs_f64() / hold.as_secs_f64()).clamp(1.0, 99.0);
        cell.demand.source = Source::Closed(crowd.round() + 1.0);
        match hold.as_millis() {
            0 => (cell.cap, cell.lasts) = (50, LASTS / 2),
            500.. => cell.lasts = LASTS * 4,
            _ => {}
        }
    });
    let connects = [1, 20].map(Duration::from_millis);
    in_all_modes(&each(&cells, &connects, |cell, connect| cell.connect = connect))
}

fn skews() -> Vec<Cell> {
    let cells = each(&usual("skew"), &[4, 50], |cell, nodes| cell.nodes = nodes);
    let weights = [Weights::Zipf, Weights::Steep];
    let mut cells = each(&cells, &weights, |cell, weights| cell.demand.weights = weights);
    cells.push(Cell { scenario: "skew", ..SHORT_WAITS });
    in_all_modes(&cells)
}

fn movings() -> Vec<Cell> {
    let cells = each(&usual("moving"), &[4, 50], |cell, nodes| cell.nodes = nodes);
    in_all_modes(&each(&cells, &[Weights::Halves, Weights::Zipf], |cell, weights| {
        (cell.demand.weights, cell.demand.change) = (weights, Change::Moving);
    }))
}

fn longs() -> Vec<Cell> {
    let cells = each(&usual("long"), &[4, 50], |cell, nodes| cell.nodes = nodes);
    let longs = [50, 500, 5_000].map(Duration::from_millis);
    in_all_modes(&each(&cells, &longs, |cell, long| {
        cell.hold.long = Some(long);
        cell.demand.source = Source::Closed(2.0);
        cell.lasts = LASTS * 4;
    }))
}

fn opens() -> Vec<Cell> {
    let sizes = [(4, 20), (50, 200)];
    let cells = each(&usual("open"), &sizes, |cell, (nodes, cap)| (cell.nodes, cell.cap) = (nodes, cap));
    let kinds = [
        (Weights::Equal, Change::Steady),
        (Weights::Zipf, Change::Steady),
        (Weights::Halves, Change::Moving),
        (Weights::Equal, Change::Bursty),
    ];
    let cells = each(&cells, &kinds, |cell, (weights, change)| {
        (cell.demand.weights, cell.demand.change) = (weights, change);
    });
    let cells = each(&cells, &[0.1, 0.6, 0.8, 0.95], |cell, load| cell.demand.source = Source::Open(load));
    let modes = [Mode::Split, Mode::UNFAIR, Mode::STRICT, Mode::FAIR];
    each(&cells, &modes, |cell, mode| cell.mode = mode)
}

fn estimates() -> Vec<Cell> {
    let cells = each(&usual("estimate"), &[4, 50], |cell, nodes| cell.nodes = nodes);
    let hold = USUAL.hold;
    let holds = [
        hold,
        Hold { shape: Shape::Rare, ..hold },
        Hold { long: Some(hold.mean * 10), ..hold },
        Hold { shape: Shape::Rare, long: Some(hold.mean * 10), ..hold },
    ];
    let cells = each(&cells, &holds, |cell, hold| {
        cell.hold = hold;
        if hold.long.is_some() {
            cell.demand.source = Source::Closed(10.0);
        }
    });
    each(&cells, &[Knowledge::Estimated, Knowledge::True], |cell, knowledge| cell.knowledge = knowledge)
}

fn quanta() -> Vec<Cell> {
    let cells = each(&usual("quantum"), &[4, 50], |cell, nodes| cell.nodes = nodes);
    let quanta = [20, 50, 100, 200].map(Duration::from_millis);
    each(&cells, &quanta, |cell, quantum| cell.mode = Mode::Admission(Admission::Fair { quantum }))
}
