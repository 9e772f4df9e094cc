//! Keeps the server's durable state: the [`Store`] trait, its backends and the
//! suite that each of them passes. Knows nothing of what the state means, nor
//! of when it is written: the driver decides both.

pub mod conformance;
mod error;
mod memory;
mod sled;

pub use error::Error;
pub use leasehold_admission::durable::{Change, State};
pub use memory::Memory;
pub use sled::{Recovery, Sled};

/// A place where the state survives the process.
///
/// Calls block; an async caller puts them on a thread that may.
pub trait Store: Send {
    /// Reads everything that was committed.
    ///
    /// # Errors
    ///
    /// What was stored cannot be read in full. A damaged store is never
    /// answered with a part of it.
    fn load(&mut self) -> Result<State, Error>;

    /// Applies `changes` in their order: all of them or none. They are durable
    /// when this returns. Committing the same changes again does no harm.
    ///
    /// # Errors
    ///
    /// The store did not confirm the commit. That is ambiguous: all of the
    /// changes may turn out to be durable, now or after a restart, or none. The
    /// caller counts on the worse of the two, and commits them again before
    /// newer ones.
    fn commit(&mut self, changes: &[Change]) -> Result<(), Error>;
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn load(&mut self) -> Result<State, Error> {
        (**self).load()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        (**self).commit(changes)
    }
}
