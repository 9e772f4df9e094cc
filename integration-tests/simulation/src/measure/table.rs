//! Cells and their figures as a Markdown table. Knows nothing of how they were
//! measured.

use std::{fmt, time::Duration};

use super::{
    Figures,
    cell::{Cell, Change, Knowledge, Shape, Source, Weights},
};

/// The head of the table.
pub const HEAD: &str = "\
| nodes | cap | delay | hold | connect | demand | mode | throughput | overtaking p99 | max \
| wait p50 | p99 | max | connects | messages | misplaced | oscillation | starved |
|--:|--:|--:|--:|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// One line of it. Times are in milliseconds.
#[derive(Debug)]
pub struct Line<'a>(pub &'a Cell, pub &'a Figures);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(cell, figures) = self;
        let Cell { nodes, cap, delay, connect, mode, .. } = cell;
        let (overtaking, waits) = (&figures.overtaking, &figures.waits);
        write!(
            f,
            "| {nodes} | {cap} | {} | {} | {} | {} | {mode} | {:.3} | {} | {} | {} | {} | {} | {:.1} | {} | {} | {} | {} |",
            millis(*delay),
            hold(cell),
            millis(*connect),
            demand(cell),
            figures.throughput,
            short(overtaking.quantile(0.99)),
            short(overtaking.max()),
            short(waits.quantile(0.5)),
            short(waits.quantile(0.99)),
            short(waits.max()),
            figures.connects,
            short(figures.messages),
            figures.misplaced.map_or_else(String::new, |part| format!("{:.1} %", part * 100.0)),
            oscillation(cell, figures),
            figures.starved,
        )
    }
}

fn hold(cell: &Cell) -> String {
    let mean = millis(cell.hold.mean);
    let long = cell.hold.long.map_or_else(String::new, |long| format!(" and {}", millis(long)));
    let shape = match cell.hold.shape {
        Shape::Exponential => "",
        Shape::Rare => ", rarely 51 times that",
    };
    let knowledge = match cell.knowledge {
        Knowledge::Estimated => "",
        Knowledge::True => " (known)",
    };
    format!("{mean}{long}{shape}{knowledge}")
}

fn demand(cell: &Cell) -> String {
    let weights = match cell.demand.weights {
        Weights::Equal => "equal",
        Weights::Zipf => "Zipf",
        Weights::Steep => "80/13/5/2",
        Weights::Halves => "9:1",
    };
    let change = match cell.demand.change {
        Change::Steady => "",
        Change::Moving => " moving",
        Change::Bursty => " bursty",
    };
    let source = match cell.demand.source {
        Source::Closed(tasks) => format!("{tasks} tasks a token"),
        Source::Open(load) => format!("{:.0} % load", load * 100.0),
    };
    format!("{weights}{change}, {source}")
}

/// What is to move does not swing.
fn oscillation(cell: &Cell, figures: &Figures) -> String {
    match cell.demand.change {
        Change::Steady => format!("{:.2}", figures.oscillation),
        Change::Moving | Change::Bursty => String::new(),
    }
}

fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    format!("{millis}")
}

/// Three digits are enough.
fn short(millis: f64) -> String {
    match millis {
        _ if millis < 10.0 => format!("{millis:.1}"),
        _ if millis < 1_000.0 => format!("{millis:.0}"),
        _ => format!("{:.0}", (millis / 10.0).round() * 10.0),
    }
}
