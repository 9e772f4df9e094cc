//! The settings of one database, already checked. Knows nothing of files or
//! defaults.

use alloc::{sync::Arc, vec::Vec};
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
    /// Everything is granted, and what would have waited is counted.
    pub shadow: bool,
    /// How its tokens are divided among classes of sessions.
    pub workloads: Workloads,
}

/// A class of sessions, and what it may have of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadSettings {
    /// Sessions of this workload are in it.
    pub name: Arc<str>,
    /// Its part beside others that want more than there is. 1 to
    /// [`WorkloadSettings::HEAVIEST`].
    pub weight: u32,
    /// Tokens that it always gets when it has use for them. What is above `limit` of
    /// it is not in force.
    pub floor: u32,
    /// The floor is held free while it is not used. Otherwise it is lent.
    pub keep: bool,
    /// Most tokens that it ever holds.
    pub limit: Option<u32>,
    /// Most tasks that wait in it. At least 1.
    pub max_waiting: Option<u32>,
}

impl WorkloadSettings {
    /// The greatest weight.
    pub const HEAVIEST: u32 = 1_000;

    /// A workload beside whose weight nothing is set.
    pub fn named(name: impl Into<Arc<str>>) -> WorkloadSettings {
        WorkloadSettings {
            name: name.into(),
            weight: 1,
            floor: 0,
            keep: false,
            limit: None,
            max_waiting: None,
        }
    }

    /// The part of the floor that the limit allows.
    pub(crate) fn floor_within_limit(&self) -> u32 {
        self.floor.min(self.limit.unwrap_or(u32::MAX))
    }
}

/// The workloads of a database. The first is the default: sessions of a workload
/// that is not among them are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workloads(Vec<WorkloadSettings>);

impl Workloads {
    /// The name of the default workload.
    pub const DEFAULT: &'static str = "default";

    /// These workloads, with unlike names, and the default if it is not among
    /// them.
    pub fn new(mut workloads: Vec<WorkloadSettings>) -> Workloads {
        match workloads.iter().position(|workload| &*workload.name == Self::DEFAULT) {
            Some(at) => workloads[..=at].rotate_right(1),
            None => workloads.insert(0, WorkloadSettings::named(Self::DEFAULT)),
        }
        Workloads(workloads)
    }

    /// All of them, the default first.
    pub fn iter(&self) -> impl Iterator<Item = &WorkloadSettings> {
        self.0.iter()
    }

    /// Whether both have the same names, in the same order.
    pub(crate) fn has_names_of(&self, other: &Workloads) -> bool {
        self.iter().map(|workload| &workload.name).eq(other.iter().map(|workload| &workload.name))
    }
}

impl Default for Workloads {
    fn default() -> Workloads {
        Workloads::new(Vec::new())
    }
}
