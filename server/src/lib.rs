//! The Leasehold server: thin shells around the pure core in `admission/`.
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the command line, and how errors are told |
//! | [`config`] | the settings, checked |
//! | [`http`] | pages for health checks and scrapers |
//! | [`probe`] | asks a database for its limit and its connections |
//! | [`telemetry`] | log and traces |

pub mod cli;
pub mod config;
pub mod http;
pub mod probe;
pub mod telemetry;
