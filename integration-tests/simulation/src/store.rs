//! A store that fails, stalls, and leaves its caller in doubt. What it holds is
//! what a restarted server finds. Knows nothing of what the changes mean.

use std::time::Duration;

use leasehold_storage::{Change, Memory, State, Store};

use crate::dice::Dice;

/// What a failing commit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It changes nothing.
    Loses,
    /// It takes effect all the same.
    Applies,
    /// Either.
    Either,
}

/// The store of the server.
#[derive(Debug)]
pub struct FaultyStore {
    kept: Memory,
    /// A copy of what is kept, to look at without loading.
    pub state: State,
    /// Commits fail like this.
    pub failing: Option<Failure>,
    /// Commits take so long.
    pub slow: Option<Duration>,
    dice: Dice,
}

/// A commit under way.
#[derive(Clone, Debug)]
pub struct Attempt {
    changes: Vec<Change>,
    /// How long it takes.
    pub takes: Duration,
    applies: bool,
    /// It is reported as done.
    pub succeeds: bool,
}

impl FaultyStore {
    /// An empty one.
    pub fn new(seed: u64) -> FaultyStore {
        let (kept, state) = (Memory::default(), State::default());
        FaultyStore { kept, state, failing: None, slow: None, dice: Dice::new(seed, 2) }
    }

    /// Everything that was committed, as a server loads it.
    pub fn load(&mut self) -> State {
        self.kept.load().unwrap_or_default()
    }

    /// Begins a commit.
    pub fn attempt(&mut self, changes: Vec<Change>) -> Attempt {
        let quick = self.dice.tail(Duration::from_micros(100), 6);
        let takes = self.slow.map_or(quick, |slow| slow.mul_f64(0.5) + quick);
        let (applies, succeeds) = match self.failing {
            None => (true, true),
            Some(Failure::Loses) => (false, false),
            Some(Failure::Applies) => (true, false),
            Some(Failure::Either) => (self.dice.chance(500), false),
        };
        Attempt { changes, takes, applies, succeeds }
    }

    /// Ends a commit: what applies is durable now. Returns the changes if it is
    /// reported as failed.
    pub fn end(&mut self, attempt: Attempt) -> Option<Vec<Change>> {
        let Attempt { changes, applies, succeeds, .. } = attempt;
        if applies {
            // A store in memory does not fail.
            self.kept.commit(&changes).unwrap_or_default();
            changes.iter().cloned().for_each(|change| self.state.apply(change));
        }
        (!succeeds).then_some(changes)
    }

    /// The server dies in the middle of a commit: all of it survives, or none.
    pub fn torn(&mut self, attempt: Attempt) {
        let applies = self.dice.chance(500);
        drop(self.end(Attempt { applies, ..attempt }));
    }
}
