//! What admission costs and what it gives, measured: the real core and the real
//! ledgers and sessions in simulated time, without faults. A [`Cell`] is a fleet
//! with its work; [`measure`] lets it run and returns its [`Figures`].
//!
//! What is simulated is what lies between them: messages that take one time, a
//! database whose connects take another, tasks. So a figure shows what the rules do,
//! not what a machine does: the server and the nodes take no time to think.
//!
//! `catalogue` has the cells that people look at, `bounds` those that a test holds to
//! what they were; `fleet` lets one happen, `meter` looks on, `table` prints.

pub mod bounds;
pub mod catalogue;
pub mod cell;
pub mod table;

mod demand;
mod fleet;
mod line;
mod meter;
mod node;
mod server;

pub use self::{
    cell::Cell,
    fleet::measure,
    meter::{Figures, Times},
};
