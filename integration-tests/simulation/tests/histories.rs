//! More than a hundred histories, some ten million steps; that a seed is one history, bit
//! for bit; and that people find what is checked. `scripts/simulate` plays more.

use std::ops::Range;

use leasehold_simulation::{
    history::{Outcome, play},
    violation::Invariant,
};

/// Steps of faults in each history; three times as many follow them.
const STEPS: u64 = 20_000;

fn hold(seeds: Range<u64>) {
    let (mut steps, first) = (0, seeds.start);
    for seed in seeds {
        let outcome = play(seed, STEPS, &[], false);
        steps += outcome.steps;
        if let Some(failure) = outcome.failure {
            let faults = failure.faults.join("\n");
            panic!(
                "{}\nafter\n{faults}\nreplay: scripts/simulate --seed {seed} --steps {STEPS}",
                failure.violation
            );
        }
    }
    eprintln!("measured: {steps} steps of simulated histories from seed {first}");
}

// In four parts, to be played at the same time.

#[test]
fn the_first_histories_hold() {
    hold(0..32);
}

#[test]
fn the_second_histories_hold() {
    hold(32..64);
}

#[test]
fn the_third_histories_hold() {
    hold(64..96);
}

#[test]
fn the_fourth_histories_hold() {
    hold(96..128);
}

#[test]
fn a_seed_is_one_history() {
    let played = || {
        let Outcome { steps, faults, failure } = play(7, STEPS, &[], false);
        (steps, faults, failure.map(|failure| failure.violation))
    };
    assert_eq!(played(), played());
}

#[test]
fn people_can_read_what_each_invariant_promises() {
    let page = include_str!("../../../docs/simulation.md");
    for invariant in Invariant::ALL {
        let name = invariant.name();
        assert!(page.contains(&format!("| `{name}` | ")), "docs/simulation.md does not tell of {name}");
    }
}
