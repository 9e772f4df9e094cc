//! Who is next for free capacity. Rule 2 of `docs/admission.md`.
//!
//! The order of two crowds can turn as time passes: one of which half is about
//! to be served grows old half as fast. So the part of a crowd that nothing is
//! on its way to is told in sixty-fourths, and each part has a queue of its own,
//! in which the order stays as it is.

use alloc::collections::BTreeSet;
use core::{array, cmp::Reverse};

use crate::{SessionId, Time};

/// A crowd is counted in this many parts.
const PARTS: u32 = 64;

/// The part of a crowd that nothing is on its way to, in 64ths: 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part(u8);

impl Part {
    /// All of it.
    pub(crate) const WHOLE: Part = Part(PARTS as u8);

    /// The part of `waiting` tasks beyond `covered` ones; never nothing, since
    /// whoever is in the queue needs something.
    pub(crate) fn of(covered: u32, waiting: u32) -> Part {
        let (waiting, covered) = (u64::from(waiting.max(1)), u64::from(covered));
        let uncovered = waiting.saturating_sub(covered).max(1);
        Part((uncovered * u64::from(PARTS)).div_ceil(waiting) as u8)
    }
}

/// A place in the queue. The least comes first among those of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    /// When its oldest task began to wait.
    pub(crate) since: Time,
    /// Among equals, whoever has fewest tokens.
    pub(crate) tokens: u32,
    pub(crate) session: SessionId,
}

/// `oldest wait × uncovered part`: a crowd whose oldest tasks are about to be
/// served is as old as those behind them. The greatest comes first.
pub(crate) type EffectiveAge = (u128, Reverse<u32>, Reverse<SessionId>);

/// The effective age of a place in the queue.
pub(crate) fn effective_age(turn: &Turn, part: Part, now: Time) -> EffectiveAge {
    // Not even a task that has just come is without age.
    let age = now.since(turn.since).as_nanos() + 1;
    (age * u128::from(part.0), Reverse(turn.tokens), Reverse(turn.session))
}

/// Everybody with a need, by effective age.
#[derive(Debug)]
pub(crate) struct Queue {
    /// By part, the smallest first.
    parts: [BTreeSet<Turn>; PARTS as usize],
    /// A bit for each part that has somebody in it.
    filled: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { parts: array::from_fn(|_| BTreeSet::new()), filled: 0 }
    }
}

impl Queue {
    pub(crate) fn insert(&mut self, part: Part, turn: Turn) {
        self.parts[index(part)].insert(turn);
        self.filled |= 1 << index(part);
    }

    pub(crate) fn remove(&mut self, part: Part, turn: &Turn) {
        let turns = &mut self.parts[index(part)];
        turns.remove(turn);
        if turns.is_empty() {
            self.filled &= !(1 << index(part));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Whoever is next.
    pub(crate) fn first(&self, now: Time) -> Option<(EffectiveAge, SessionId)> {
        let mut left = self.filled;
        let mut first = None;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            if let Some(turn) = self.parts[at as usize].first() {
                first = first.max(Some((effective_age(turn, Part(at as u8 + 1), now), turn.session)));
            }
        }
        first
    }

    /// How many come before one of this age.
    pub(crate) fn before(&self, age: EffectiveAge, now: Time) -> usize {
        let ages = |(index, turns): (usize, &BTreeSet<Turn>)| {
            let part = Part(index as u8 + 1);
            // Within a part they stand in this order.
            turns.iter().take_while(|turn| effective_age(turn, part, now) > age).count()
        };
        self.parts.iter().enumerate().map(ages).sum()
    }

    /// When the oldest task of all began to wait.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.parts.iter().filter_map(|turns| turns.first()).map(|turn| turn.since).min()
    }
}

fn index(part: Part) -> usize {
    usize::from(part.0) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_never_nothing_and_never_more_than_all() {
        assert_eq!(Part::of(0, 1), Part::WHOLE);
        assert_eq!(Part::of(0, u32::MAX), Part::WHOLE);
        assert_eq!(Part::of(1, 2), Part(32));
        assert_eq!(Part::of(999, 1_000), Part(1));
        assert_eq!(Part::of(u32::MAX, 1), Part::WHOLE, "a need that is not of tasks");
        assert_eq!(Part::of(1, 1_000), Part::WHOLE, "rounded up");
    }
}
