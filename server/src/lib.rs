//! The Leasehold server: thin shells around the pure core in `admission/`.
//!
//! | module | what it is |
//! |---|---|
//! | [`config`] | the settings, checked |
//! | [`probe`] | asks a database for its limit and its connections |
//! | [`telemetry`] | log and traces |

pub mod config;
pub mod probe;
pub mod telemetry;
