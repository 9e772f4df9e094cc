//! A ready manager for MySQL and MariaDB, over `mysql_async`.
//!
//! ```no_run
//! # fn main() -> Result<(), leasehold_client::mysql::Error> {
//! use leasehold_client::mysql::Manager;
//!
//! let manager = Manager::from_url("mysql://app:secret@db.example:3306/shop")?;
//! # let _ = manager;
//! # Ok(())
//! # }
//! ```
//!
//! It does by itself what a pool over this driver needs, each held by a test
//! in `integration-tests/tests/mysql_manager.rs`:
//!
//! * A connection whose query was cancelled is never used again: its next
//!   query would get the cancelled one's answer. The server runs the query on,
//!   so the manager has it killed, and the token stays counted until the
//!   server has closed the connection.
//! * A close is a proper goodbye, and ends when the server has closed too.
//! * A connection that comes back with an open transaction, or with rows
//!   unread, is reset before it idles, so that it holds no locks.
//! * The driver's second connection over a local socket stays off: it would be
//!   a connection without a token.
//! * The whole handshake has a time limit, not only the TCP connect.
//! * Errors that mean "full at this moment" are told apart from others.
//! * No password is ever in a debug form.
//!
//! What it cannot see: a `GET_LOCK`, `LOCK TABLES`, a temporary table or a
//! changed session variable. With [`Recycle::Reset`] they end at the next
//! checkout, and are held until then. A changed default database (`USE`) even
//! outlives that, as the server's reset does not undo it.

mod close;
mod connection;
mod error;
mod hooks;
mod manager;
mod socket;

/// The driver, in the version that the manager is made for.
pub use mysql_async;

pub use self::{
    connection::{Condition, Connection},
    error::Error,
    hooks::Hooks,
    manager::{Manager, Recycle},
};
