//! The whole system in one thread, under one seed: the real admission core, the
//! real session and ledger of each node, and a simulated world of clocks,
//! processes, networks, databases and a store, all of which can fail. One seed
//! is one history, bit for bit; after each step the named invariants hold.
//!
//! [`plan`] says who takes part, [`fault`] what goes wrong, [`world`] lets it
//! happen, [`history`] plays a seed to its end and shrinks what fails. [`measure`]
//! is another world around the same parts, without faults: it measures admission.

pub mod database;
pub mod dice;
pub mod driver;
pub mod fault;
pub mod history;
pub mod measure;
pub mod plan;
pub mod pool;
pub mod queue;
pub mod store;
pub mod time;
mod translate;
pub mod violation;
pub mod world;
