//! What a node process is to do, as its parent tells it: one line of JSON.
//! Knows nothing of what comes of it.

use serde::{Deserialize, Serialize};

/// What one node does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Its name at the server.
    pub(crate) node: String,
    /// Its workload at the server.
    pub(crate) workload: String,
    /// URL of the Leasehold server; without, a bare deadpool pool of
    /// `pool_max`.
    pub(crate) server: Option<String>,
    /// Name of the database at the server.
    pub(crate) database: String,
    /// URL of the database itself.
    pub(crate) mysql: String,
    /// Most connections of the node's pool.
    pub(crate) pool_max: u32,
    /// What it runs on each connection.
    pub(crate) query: String,
    /// How long after the others it begins, in milliseconds.
    pub(crate) begins_ms: u64,
    /// Who asks for connections.
    pub(crate) load: Load,
    /// How long all ask, in milliseconds from the first one's beginning.
    pub(crate) lasts_ms: u64,
}

/// Who asks for connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Load {
    /// As many requests at a time, each the next one as soon as the last has its
    /// answers; a request runs `queries` at once, each on a connection of its
    /// own.
    Closed {
        /// Requests at a time.
        requests: usize,
        /// Queries of each.
        queries: usize,
    },
    /// Single queries at random moments, whoever still waits.
    Open {
        /// Rates in queries a second, one after the other for `phase_ms` each,
        /// and then from the first again.
        rates: Vec<f64>,
        /// How long each lasts, in milliseconds.
        phase_ms: u64,
    },
}
