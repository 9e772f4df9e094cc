//! Real parts for the integration tests, each started for one test and gone
//! with it: a MariaDB, a Leasehold server, node processes, the operator's
//! command, an OTLP receiver, a network that fails.
//!
//! `cargo test --workspace` is all that is needed once `scripts/test` has
//! installed the parts that are not Rust. Knows nothing of what is tested.

#![expect(clippy::missing_panics_doc, reason = "a part that does not work fails its test, everywhere")]

pub mod binaries;
pub mod cli;
pub mod disk;
pub mod figures;
pub mod fleet;
pub mod full;
pub mod http;
pub mod mariadb;
pub mod member;
pub mod namespace;
pub mod node;
pub mod otlp;
pub mod ports;
pub mod process;
pub mod processors;
pub mod proxy;
pub mod raw;
pub mod scratch;
pub mod server;
pub mod stage;
pub mod wait;
