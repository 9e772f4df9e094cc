//! The server's settings, checked: whoever holds a [`Config`] need not check a
//! value of it again.
//!
//! It is read in three steps. `overrides` puts what the environment and the
//! command line say where a file would; `document` makes sections and fields of
//! it that know their place; `check` turns those into a [`Config`], or into one
//! clear message for each fault. Knows nothing of what the settings do.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

mod check;
mod document;
mod faults;
mod load;
mod overrides;
mod summary;
#[cfg(test)]
mod tests;
mod url;
mod workloads;

pub use faults::{Fault, Faults, Place};
pub use load::{Error, Loaded, load, parse};
pub use overrides::Overridden;
pub use url::DatabaseUrl;

/// Bounds and defaults of the settings, under the settings' names.
pub mod limits {
    use std::ops::RangeInclusive;
    use std::time::Duration;

    use leasehold_admission::WorkloadSettings;

    /// Longest configuration file that is read, in bytes.
    pub const FILE_BYTES: u64 = 1 << 20;
    /// Most settings outside the file.
    pub const OVERRIDES: usize = 2_000;
    /// Longest key of a setting outside the file, in bytes.
    pub const KEY_BYTES: usize = 1 << 10;
    /// Longest value of a setting outside the file, in bytes.
    pub const VALUE_BYTES: usize = 1 << 16;
    /// Most databases that one server leases.
    pub const DATABASES: usize = 1_000;
    /// Length of a database's name, in bytes.
    pub const NAME_BYTES: RangeInclusive<usize> = 1..=64;
    /// Most accounts of one database.
    pub const ACCOUNTS: usize = 100;
    /// Longest account name, in bytes; `MariaDB` allows 128 characters.
    pub const ACCOUNT_BYTES: usize = 512;
    /// `cap`, in tokens.
    pub const CAP: RangeInclusive<u32> = 1..=1_000_000;
    /// `reserve` of a watched database, in connections. The probe's own is one of them.
    pub const RESERVE: RangeInclusive<u32> = 1..=1_000_000;
    /// `reserve` of a watched database when the file names none.
    pub const DEFAULT_RESERVE: u32 = 10;
    /// `quantum`. Shorter ones would swing at every message delay.
    pub const QUANTUM: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(60);
    /// `quantum` when the file names none.
    pub const DEFAULT_QUANTUM: Duration = Duration::from_millis(100);
    /// `ttl`.
    pub const TTL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);
    /// `ttl` with `on_loss = "keep"` when the file names none.
    pub const DEFAULT_TTL_KEEP: Duration = Duration::from_secs(10);
    /// `ttl` with `on_loss = "fence"` when the file names none.
    pub const DEFAULT_TTL_FENCE: Duration = Duration::from_secs(30);
    /// `fence_grace`.
    pub const FENCE_GRACE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(24 * 60 * 60);
    /// `fence_grace` when the file names none.
    pub const DEFAULT_FENCE_GRACE: Duration = Duration::from_secs(30);
    /// Most workloads of one database.
    pub const WORKLOADS: usize = 64;
    /// Length of a workload's name, in bytes: what a node may call its own.
    pub const WORKLOAD_NAME_BYTES: RangeInclusive<usize> = 1..=128;
    /// `weight` of a workload.
    pub const WEIGHT: RangeInclusive<u32> = 1..=WorkloadSettings::HEAVIEST;
    /// `weight` when the file names none.
    pub const DEFAULT_WEIGHT: u32 = 1;
    /// `floor` of a workload, in tokens.
    pub const FLOOR: RangeInclusive<u32> = 0..=1_000_000;
    /// `limit` of a workload, in tokens.
    pub const LIMIT: RangeInclusive<u32> = 1..=1_000_000;
    /// `max_waiting` of a workload, in tasks.
    pub const MAX_WAITING: RangeInclusive<u32> = 1..=10_000_000;
}

/// Everything that the server was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Section `[server]`.
    pub server: ServerConfig,
    /// Sections `[databases.NAME]`, ordered by name; at least one.
    pub databases: Vec<DatabaseConfig>,
}

/// Where the server listens and keeps its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Address of the gRPC API.
    pub listen: SocketAddr,
    /// Address of `/metrics`, `/healthz` and `/readyz`.
    pub http: SocketAddr,
    /// Directory of the store, relative to the working directory.
    pub data: PathBuf,
}

/// One database whose connections are leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// Its name in this configuration.
    pub name: DatabaseName,
    /// Where the number of its connections comes from.
    pub source: Source,
    /// How its tokens are shared out.
    pub admission: Admission,
    /// How far, in time, fair admission lets a younger waiter pass an older
    /// one. Also kept while admission is not fair: an operator may change that.
    pub quantum: Duration,
    /// Lifetime of a lease without a sign of life.
    pub ttl: Duration,
    /// What nodes do once they have not heard from the server for a TTL.
    pub on_loss: LossPolicy,
    /// With [`LossPolicy::Fence`], how long after the TTL the last statement of
    /// a fenced node may still run.
    pub fence_grace: Duration,
    /// Everything is granted, and what would have waited is counted.
    pub shadow: bool,
    /// Classes of sessions, ordered by name. Sessions of any other are in the one
    /// that is named "default", which need not be among these.
    pub workloads: Vec<WorkloadConfig>,
}

/// What the sessions of one class may have of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadConfig {
    /// The name that nodes say.
    pub name: String,
    /// Its part beside others that want more than there is.
    pub weight: u32,
    /// Tokens that it always gets when it has use for them.
    pub floor: u32,
    /// The floor is held free while it is not used; otherwise it is lent.
    pub keep: bool,
    /// Most tokens that it ever holds.
    pub limit: Option<u32>,
    /// Most tasks that wait in it.
    pub max_waiting: Option<u32>,
}

impl DatabaseConfig {
    /// The configured upper bound of the cap, in tokens.
    pub fn cap_limit(&self) -> Option<u32> {
        self.source.cap_limit()
    }

    /// How to watch the database; `None` when its cap is static.
    pub fn watched(&self) -> Option<&Watched> {
        match &self.source {
            Source::Static { .. } => None,
            Source::Watched(watched) => Some(watched),
        }
    }
}

/// Where the cap of a database comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody asks the database: the cap is the configured one.
    Static {
        /// The cap, in tokens.
        cap: u32,
    },
    /// A probe asks the database itself.
    Watched(Watched),
}

impl Source {
    fn cap_limit(&self) -> Option<u32> {
        match self {
            Source::Static { cap } => Some(*cap),
            Source::Watched(watched) => watched.cap,
        }
    }
}

/// A database that a probe watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Where it is, and with which account the probe connects.
    pub url: DatabaseUrl,
    /// The fleet's accounts: user names without hosts. Empty: every account is the fleet's.
    pub accounts: Vec<String>,
    /// Connections kept back for people and tools; the probe's own is one of them.
    pub reserve: u32,
    /// Upper bound of the cap, in tokens.
    pub cap: Option<u32>,
}

/// How tokens are shared out among waiting nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The oldest waiter first, within the quantum.
    Fair,
    /// The oldest waiter first, at any price.
    Strict,
    /// Tokens stay where there is work for them.
    Unfair,
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fair => "fair",
            Self::Strict => "strict",
            Self::Unfair => "unfair",
        })
    }
}

/// What a node does past its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossPolicy {
    /// It goes on with the connections that it has and opens none.
    Keep,
    /// It closes every connection.
    Fence,
}

impl fmt::Display for LossPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Fence => "fence",
        })
    }
}

/// The name of a database: 1 to 64 of `a-z 0-9 _ - .`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseName(String);

impl DatabaseName {
    /// Takes a name that has the right form.
    pub fn new(name: &str) -> Option<Self> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.');
        (limits::NAME_BYTES.contains(&name.len()) && name.bytes().all(allowed)).then(|| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatabaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
