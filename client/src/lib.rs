//! A connection pool that is governed by a Leasehold server.
//!
//! The path of a checkout: [`pool`] → [`ledger`] → [`governed`] (levels up,
//! orders down) → [`session`] → `connection` → the server. [`client`] is what an
//! application holds.

pub mod client;
pub mod clock;
mod connection;
pub mod endpoint;
pub mod error;
mod from_proto;
pub mod governed;
pub mod hooks;
pub mod ledger;
#[cfg(feature = "mysql")]
pub mod mysql;
pub mod pool;
pub mod session;
pub mod settings;
pub mod statistics;
mod to_proto;
pub mod tokens;
pub mod trace;

pub use client::{Client, ClientBuilder};
pub use error::{Error, RecycleFailure, StillInUse};
pub use hooks::Hooks;
pub use pool::{Checkout, Detached, LeasedPool, PoolBuilder};
pub use settings::{BuildError, Settings};
pub use tokens::{Token, Tokens};
