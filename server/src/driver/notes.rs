//! Writes the core's notes to the log. Knows nothing of who reads it.

use std::sync::Arc;

use leasehold_admission::{DatabaseId, Note, Recall};
use tracing::{debug, info, warn};

/// One line for each note.
pub(super) fn log(note: &Note, names: &[Arc<str>]) {
    let name = |database: &DatabaseId| &*names[database.0 as usize];
    match note {
        Note::Granted { session, database, tokens, waited } => {
            let waited_ms = waited.as_millis() as u64;
            debug!(%session, database = name(database), tokens, waited_ms, "tokens granted");
        }
        Note::Recalled { session, database, tokens, recall } => {
            let recall = match recall {
                Recall::None => "none",
                Recall::Idle => "idle",
                Recall::NextReturn => "next return",
            };
            debug!(%session, database = name(database), tokens, recall, "tokens recalled");
        }
        Note::Attached { session, node, new } => info!(%session, %node, new, "session attached"),
        Note::OverClaimed { session, database, claimed, counted } => {
            warn!(%session, database = name(database), claimed, counted, "session claims more than it was granted");
        }
        Note::Expired { session, node, tokens } => warn!(%session, %node, tokens, "session expired"),
        Note::QuarantineEnded { session, database, tokens } => {
            info!(%session, database = name(database), tokens, "quarantine ended");
        }
        Note::CapChanged { database, from, to } => info!(database = name(database), from, to, "cap changed"),
        Note::FloorsFitted { database, set, in_force } if in_force < set => {
            warn!(
                database = name(database),
                set, in_force, "floors of workloads scaled down to what cap and limits allow"
            );
        }
        Note::FloorsFitted { database, set, .. } => {
            info!(database = name(database), set, "floors of workloads are in force");
        }
        Note::ProbeUp { database } => info!(database = name(database), "database is watched"),
        Note::ProbeLost { database, error } => {
            warn!(database = name(database), error, "database cannot be watched");
        }
        Note::DatabaseRestarted { database } => warn!(database = name(database), "database restarted"),
        Note::Dropped { stream } => debug!(stream = stream.0, "message of an old stream dropped"),
    }
}
