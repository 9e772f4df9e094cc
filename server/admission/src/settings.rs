//! The settings of one database, already checked. Knows nothing of files or
//! defaults.

use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Who gets a token next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Tokens stay where they are as long as their node has work for them.
    Unfair,
    /// Arrival order across the fleet, up to the quantum. A quantum of zero is
    /// strict order.
    Fair {
        /// How far a younger waiter may pass an older one elsewhere.
        quantum: Duration,
    },
}

/// What a node does when its deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPolicy {
    /// It goes on with what it has and opens nothing.
    Keep,
    /// It closes every connection.
    Fence,
}

/// One database, with the operators' overrides already in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// A probe watches it. Without, the cap is static.
    pub watched: bool,
    /// Upper bound of the cap. Always set when unwatched.
    pub cap: Option<u32>,
    /// Connections kept back for people and tools, the probe's included.
    pub reserve: u32,
    /// Who gets a token next.
    pub admission: Admission,
    /// Lifetime of a lease without a sign of life. At least one second.
    pub ttl: Duration,
    /// What nodes do past their deadline.
    pub on_loss: LossPolicy,
    /// How long after its deadline a fenced node may still have a connection
    /// open.
    pub fence_grace: Duration,
    /// No new grants.
    pub draining: bool,
}
