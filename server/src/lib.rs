//! The Leasehold server: thin shells around the pure core in `admission/`.
//!
//! | module | what it is |
//! |---|---|
//! | [`config`] | the settings, checked |
//! | [`http`] | pages for health checks and scrapers |
//! | [`probe`] | asks a database for its limit and its connections |
//! | [`telemetry`] | log and traces |

pub mod config;
pub mod http;
pub mod probe;
pub mod telemetry;
