//! The Leasehold server: thin shells around the pure core in `admission/`.
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the command line, and how errors are told |
//! | [`clock`] | the only place that asks what time it is |
//! | [`config`] | the settings, checked |
//! | [`connections`] | TCP connections, bounded in number and silence |
//! | [`driver`] | the loop that owns the core and the store |
//! | [`grpc`] | the gRPC API |
//! | [`http`] | pages for health checks and scrapers |
//! | [`probe`] | asks a database for its limit and its connections |
//! | [`records`] | what can be done with the records of a stopped server |
//! | [`run`] | all of it put together |
//! | [`telemetry`] | log and traces |

pub mod cli;
pub mod clock;
pub mod config;
pub mod connections;
pub mod driver;
pub mod grpc;
pub mod http;
pub mod probe;
pub mod records;
pub mod run;
pub mod telemetry;
