//! A store that lives as long as the process: for tests and for trying things
//! out. Knows nothing of files.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Change, Error, State, Store};

/// Keeps the state in memory. Clones share it, as two openings of one directory
/// would.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
}

impl Store for Memory {
    fn load(&mut self) -> Result<State, Error> {
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        changes.iter().cloned().for_each(|change| state.apply(change));
        Ok(())
    }
}
