//! One seed, played to its end; and a failing one played again with ever fewer
//! faults. Knows nothing of what a history is made of.

use std::{
    any::Any,
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
};

use crate::{
    plan::Plan,
    violation::{Invariant, Violation},
    world::World,
};

/// How a history went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Steps taken.
    pub steps: u64,
    /// Faults that were done.
    pub faults: usize,
    /// What was broken.
    pub failure: Option<Failure>,
}

/// A history that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The promise.
    pub violation: Violation,
    /// The faults that were done, one a line.
    pub faults: Vec<String>,
    /// Their numbers.
    pub numbers: Vec<usize>,
}

thread_local! {
    /// Where a panic came from.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps panics from being printed: [`play`] returns them.
pub fn catch_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = message_of(info.payload());
        PANIC.set(Some(format!("{message}, at {place}")));
    }));
}

/// Plays a seed: faults for so many steps, then the recovery.
pub fn play(seed: u64, steps: u64, without: &[usize], trace: bool) -> Outcome {
    let mut world = World::new(Plan::of(seed), without.to_vec(), trace);
    let played = panic::catch_unwind(AssertUnwindSafe(|| {
        world.run(steps);
        world.recover();
    }));
    let failure = played.err().map(|payload| {
        let violation = payload.downcast::<Violation>().map_or_else(|_| panicked(), |violation| *violation);
        Failure { violation, faults: world.faults(), numbers: world.fault_numbers() }
    });
    Outcome { steps: world.steps(), faults: world.fault_numbers().len(), failure }
}

fn message_of(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// An assertion failed, other than a promise of the world's.
fn panicked() -> Violation {
    let details = PANIC.take().unwrap_or_else(|| "a panic".to_owned());
    Violation { invariant: Invariant::Assertion, details }
}

/// Leaves out every fault that a failure does not need. Returns the numbers
/// of those left out, and the failure without them.
pub fn shrink(seed: u64, steps: u64, without: &[usize], failure: Failure) -> (Vec<usize>, Failure) {
    let mut without = without.to_vec();
    let mut failure = failure;
    // Halves first, then ever smaller parts.
    let mut part = failure.numbers.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < failure.numbers.len() {
            let end = (at + part).min(failure.numbers.len());
            let mut fewer = without.clone();
            fewer.extend(&failure.numbers[at..end]);
            match play(seed, steps, &fewer, false).failure {
                Some(smaller) if smaller.violation.invariant == failure.violation.invariant => {
                    (without, failure) = (fewer, smaller);
                }
                Some(_) | None => at = end,
            }
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
    without.sort_unstable();
    without.dedup();
    (without, failure)
}
