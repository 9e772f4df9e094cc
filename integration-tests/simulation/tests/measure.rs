//! Admission is as good as it was: a few cells of the measurement, the worst among
//! them, stay within bounds. `scripts/simulate measure --quick` prints them.

use leasehold_simulation::measure::{
    bounds::{BOUNDS, Bound},
    measure,
    table::{HEAD, Line},
};

/// A fleet can have more than one state to be in. With the second of these, many small
/// shares once began in one that was worse, and stayed there.
const SEEDS: [u64; 2] = [1, 4];

/// Measures some of the cells, at the same time as other tests do others.
fn hold(part: &[Bound]) {
    let mut failed = Vec::new();
    for (bound, seed) in part.iter().flat_map(|bound| SEEDS.map(|seed| (bound, seed))) {
        let figures = measure(&bound.cell, seed);
        eprintln!("measured: {}", Line(&bound.cell, &figures));
        let passed = bound.passed_by(&figures).into_iter();
        failed.extend(passed.map(|passed| format!("{passed}: {}", Line(&bound.cell, &figures))));
    }
    let failed = failed.join("\n");
    assert!(
        failed.is_empty(),
        "{failed}\nof\n{HEAD}\nprint them all: scripts/simulate measure --quick [--seed 4]"
    );
}

#[test]
fn the_first_cells_keep_their_bounds() {
    hold(&BOUNDS[..BOUNDS.len() / 2]);
}

#[test]
fn the_other_cells_keep_their_bounds() {
    hold(&BOUNDS[BOUNDS.len() / 2..]);
}

#[test]
fn a_seed_gives_the_same_figures() {
    let Bound { cell, .. } = &BOUNDS[0];
    let figures = || Line(cell, &measure(cell, 7)).to_string();
    assert_eq!(figures(), figures());
}
