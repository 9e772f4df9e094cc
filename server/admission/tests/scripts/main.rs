//! The rules of `docs/protocol.md` and `docs/admission.md` that are the
//! server's, one short script each.

#[path = "../support/mod.rs"]
mod support;

mod accounts;
mod changed_workloads;
mod divided;
mod explain;
mod fairness;
mod lost;
mod shadow;
mod silence;
mod unary;
mod watch;
mod workloads;

use leasehold_admission::{DatabaseSettings, LossPolicy};
use support::settings;

/// A database whose probe keeps 10 connections back.
fn watched() -> DatabaseSettings {
    DatabaseSettings { watched: true, cap: None, reserve: 10, on_loss: LossPolicy::Keep, ..settings(0) }
}
