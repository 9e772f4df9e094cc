//! How much of a long test runs: a part by default, so that the whole suite
//! ends within minutes, and all of it with `LEASEHOLD_FULL=1`. Knows nothing
//! of the tests.

use std::env;

/// The variable that asks for everything.
const VARIABLE: &str = "LEASEHOLD_FULL";

/// `all` with `LEASEHOLD_FULL=1`, else `part`.
pub fn of<T>(part: T, all: T) -> T {
    if is_asked_for() { all } else { part }
}

/// Whether everything is to run.
pub fn is_asked_for() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == "1")
}

/// A seed for what a test does at random, and printed so that a failure can be
/// repeated: `LEASEHOLD_SEED` if it is set.
pub fn seed() -> u64 {
    let seed = env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("repeat this with LEASEHOLD_SEED={seed}");
    seed
}
