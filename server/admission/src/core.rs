//! The core: one owner of all sessions and databases.

use alloc::vec::Vec;

use crate::{DatabaseId, DatabaseSettings, DatabaseView, Effect, Event, SessionView, Time, durable::State};

/// Decides who holds how many tokens of which database.
#[derive(Debug)]
pub struct Core {
    databases: Vec<DatabaseSettings>,
}

impl Core {
    /// A core that starts at `now` from what a store has kept. The databases get
    /// the ids 0, 1, 2, … in their order; names are unique.
    pub fn new(now: Time, databases: Vec<DatabaseSettings>, recovered: &State) -> Core {
        let _ = (now, recovered);
        Core { databases }
    }

    /// Takes one event and appends what follows from it. `now` never goes back.
    pub fn apply(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        let _ = (now, event, effects);
    }

    /// When [`Event::Tick`] is due; none: not before another event.
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The id of a database by its name.
    pub fn database(&self, name: &str) -> Option<DatabaseId> {
        self.databases
            .iter()
            .position(|settings| &*settings.name == name)
            .map(|index| DatabaseId(index as u32))
    }

    /// All databases, in the order of their ids.
    pub fn databases(&self, now: Time) -> Vec<DatabaseView> {
        let _ = now;
        Vec::new()
    }

    /// All sessions, in the order of their ids.
    pub fn sessions(&self, now: Time) -> Vec<SessionView> {
        let _ = now;
        Vec::new()
    }
}
