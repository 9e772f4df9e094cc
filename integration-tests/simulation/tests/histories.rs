//! A few seconds' worth of histories, and that a seed is one history, bit for
//! bit. `scripts/simulate` plays more.

use leasehold_simulation::history::{Outcome, play};

/// Steps of faults in each history.
const STEPS: u64 = 6_000;

fn holds(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Some(failure) = play(seed, STEPS, &[], false).failure {
            let faults = failure.faults.join("\n");
            panic!(
                "{}\nafter\n{faults}\nreplay: scripts/simulate --seed {seed} --steps {STEPS}",
                failure.violation
            );
        }
    }
}

#[test]
fn the_first_histories_hold() {
    holds(0..60);
}

#[test]
fn a_seed_is_one_history() {
    let played = || {
        let Outcome { steps, faults, failure } = play(7, STEPS, &[], false);
        (steps, faults, failure.map(|failure| failure.violation))
    };
    assert_eq!(played(), played());
}
