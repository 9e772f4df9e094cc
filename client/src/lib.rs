//! A connection pool that is governed by a Leasehold server.
//!
//! The path of a checkout: [`pool`] → [`ledger`] → [`governed`] (levels up,
//! orders down) → [`session`].

pub mod clock;
pub mod error;
pub mod governed;
pub mod hooks;
pub mod ledger;
pub mod pool;
pub mod session;
pub mod settings;
pub mod statistics;
pub mod trace;

pub use error::{Error, RecycleFailure, StillInUse};
pub use hooks::Hooks;
pub use pool::{Checkout, Detached, LeasedPool, PoolBuilder};
pub use settings::{BuildError, Settings};
