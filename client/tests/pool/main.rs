//! The governed pool from its user's side and from its session's, against a
//! database that only counts.

#[path = "../support/mod.rs"]
mod support;

mod checkout;
mod closing;
mod hooks;
mod keeping;

use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);
