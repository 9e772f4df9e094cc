//! What the server said, in the shape that `--output json` prints. Field names and
//! types here are a promise to programs: add, never rename or remove. The API's own
//! types stay behind this file, so that a change there cannot change what is
//! printed. Knows nothing of tables.

use leasehold_proto::v1;
use serde::Serialize;

/// The state of the server.
#[derive(Debug, Serialize)]
pub(crate) struct Server {
    pub(crate) generation: u64,
    pub(crate) databases: Vec<Database>,
    pub(crate) version: String,
    pub(crate) uptime_ms: u64,
    pub(crate) store_healthy: bool,
    /// Null when healthy.
    pub(crate) store_error: Option<String>,
}

/// One database. Counts are connections or tokens.
#[derive(Debug, Serialize)]
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) cap: u32,
    pub(crate) held: u32,
    pub(crate) free: u32,
    pub(crate) reserve: u32,
    pub(crate) others: u32,
    pub(crate) strays: u32,
    pub(crate) uncertain: u32,
    pub(crate) quarantined: u32,
    /// Null when it was never read.
    pub(crate) max_connections: Option<u32>,
    pub(crate) waiting: u32,
    pub(crate) sessions: u32,
    pub(crate) admission: String,
    pub(crate) quantum_ms: u64,
    pub(crate) draining: bool,
    /// "none", "starting", "ok" or "down".
    pub(crate) probe: String,
    /// Null unless the probe is down.
    pub(crate) probe_error: Option<String>,
    /// What keeps the probe from seeing what it should. Null when nothing is known.
    pub(crate) probe_warning: Option<String>,
    /// Age of the newest observation. Null when there is none.
    pub(crate) observed_ms: Option<u64>,
    /// Configured or overridden bound of the cap. Null when there is none.
    pub(crate) cap_limit: Option<u32>,
    pub(crate) ttl_ms: u64,
    pub(crate) on_loss: String,
    pub(crate) overrides: Vec<Override>,
    pub(crate) grants: u64,
    pub(crate) recalls: u64,
    pub(crate) expired: u64,
    pub(crate) repeated_releases: u64,
    /// Everything is granted, whatever the cap.
    pub(crate) shadow: bool,
    /// The default first.
    pub(crate) workloads: Vec<Workload>,
}

/// A class of sessions of one database. Counts are tokens.
#[derive(Debug, Serialize)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) weight: u32,
    /// As configured.
    pub(crate) floor: u32,
    /// Less than configured while the cap is less than all floors.
    pub(crate) floor_in_force: u32,
    pub(crate) keep: bool,
    /// Null when there is none.
    pub(crate) limit: Option<u32>,
    /// Null when there is none.
    pub(crate) max_waiting: Option<u32>,
    pub(crate) held: u32,
    pub(crate) demand: u32,
    /// What it is to have. Null when it is alone.
    pub(crate) target_thousandths: Option<u64>,
    pub(crate) quarantined: u32,
    pub(crate) waiting: u32,
    pub(crate) sessions: u32,
    pub(crate) refused: u64,
    /// What would happen without shadow mode.
    pub(crate) shadow_waiting: u32,
    pub(crate) shadow_queued: u64,
    pub(crate) shadow_refused: u64,
}

/// A setting that is not as configured.
#[derive(Debug, Serialize)]
pub(crate) struct Override {
    pub(crate) setting: String,
    pub(crate) value: String,
    /// Null when it stays until cleared.
    pub(crate) remaining_ms: Option<u64>,
    /// Whose setting it is. Null when it is the database's.
    pub(crate) workload: Option<String>,
}

/// A session with its leases.
#[derive(Debug, Serialize)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) node: String,
    pub(crate) workload: String,
    pub(crate) state: String,
    pub(crate) silent_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) leases: Vec<Lease>,
}

/// The tokens of one database that a session holds.
#[derive(Debug, Serialize)]
pub(crate) struct Lease {
    pub(crate) database: String,
    pub(crate) allotment: u32,
    pub(crate) holding: u32,
    pub(crate) held: u32,
    pub(crate) ceiling: u32,
    pub(crate) in_use: u32,
    pub(crate) idle: u32,
    pub(crate) opening: u32,
    pub(crate) closing: u32,
    pub(crate) waiting: u32,
    pub(crate) oldest_wait_ms: u64,
    pub(crate) mean_hold_us: u64,
}

impl From<v1::StatusReply> for Server {
    fn from(reply: v1::StatusReply) -> Self {
        let v1::StatusReply { generation, version, uptime_ms, store_healthy, store_error, databases } = reply;
        Server {
            generation,
            databases: databases.into_iter().map(Database::from).collect(),
            version,
            uptime_ms,
            store_healthy,
            store_error: unless_empty(store_error),
        }
    }
}

impl From<v1::Database> for Database {
    fn from(database: v1::Database) -> Self {
        let probe =
            database.probe.unwrap_or_else(|| v1::Probe { state: "none".to_owned(), ..v1::Probe::default() });
        Database {
            name: database.name,
            cap: database.cap,
            held: database.held,
            free: database.free,
            reserve: database.reserve,
            others: database.others,
            strays: database.strays,
            uncertain: database.uncertain,
            quarantined: database.quarantined,
            max_connections: database.max_connections,
            waiting: database.waiting,
            sessions: database.sessions,
            admission: database.admission,
            quantum_ms: database.quantum_ms,
            draining: database.draining,
            probe: probe.state,
            probe_error: unless_empty(probe.error),
            probe_warning: unless_empty(probe.warning),
            observed_ms: probe.observed_ms,
            cap_limit: database.cap_limit,
            ttl_ms: database.ttl_ms,
            on_loss: database.on_loss,
            overrides: database.overrides.into_iter().map(Override::from).collect(),
            grants: database.grants,
            recalls: database.recalls,
            expired: database.expired,
            repeated_releases: database.repeated_releases,
            shadow: database.shadow,
            workloads: database.workloads.into_iter().map(Workload::from).collect(),
        }
    }
}

impl From<v1::Override> for Override {
    fn from(found: v1::Override) -> Self {
        let v1::Override { setting, value, remaining_ms, workload } = found;
        Override { setting, value, remaining_ms, workload: unless_empty(workload) }
    }
}

impl From<v1::Session> for Session {
    fn from(session: v1::Session) -> Self {
        let v1::Session { id, node, workload, state, silent_ms, ttl_ms, leases } = session;
        let leases = leases.into_iter().map(Lease::from).collect();
        Session { id, node, workload, state, silent_ms, ttl_ms, leases }
    }
}

impl From<v1::Workload> for Workload {
    fn from(workload: v1::Workload) -> Self {
        Workload {
            name: workload.name,
            weight: workload.weight,
            floor: workload.floor,
            floor_in_force: workload.floor_in_force,
            keep: workload.keep,
            limit: workload.limit,
            max_waiting: workload.max_waiting,
            held: workload.held,
            demand: workload.demand,
            target_thousandths: workload.target_thousandths,
            quarantined: workload.quarantined,
            waiting: workload.waiting,
            sessions: workload.sessions,
            refused: workload.refused,
            shadow_waiting: workload.shadow_waiting,
            shadow_queued: workload.shadow_queued,
            shadow_refused: workload.shadow_refused,
        }
    }
}

impl From<v1::Lease> for Lease {
    fn from(lease: v1::Lease) -> Self {
        Lease {
            database: lease.database,
            allotment: lease.allotment,
            holding: lease.holding,
            held: lease.held,
            ceiling: lease.ceiling,
            in_use: lease.in_use,
            idle: lease.idle,
            opening: lease.opening,
            closing: lease.closing,
            waiting: lease.waiting,
            oldest_wait_ms: lease.oldest_wait_ms,
            mean_hold_us: lease.mean_hold_us,
        }
    }
}

/// The API sends an empty text where there is none.
fn unless_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
