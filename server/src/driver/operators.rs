//! What operators have set: the overrides of every database and the audit log.
//! Makes changes and settings of it. Knows nothing of the core or the store.

use std::sync::Arc;

use leasehold_admission::{
    DatabaseId, DatabaseSettings,
    durable::{Audit, Change, State},
};

use tracing::info;

use super::{
    input::AdminRefusal,
    overrides::{Layers, OverrideRequest, OverrideStatus, on_or_off},
};
use crate::config::DatabaseConfig;

/// How many entries of the audit log are kept.
pub const AUDIT_ENTRIES: u64 = 10_000;
/// Who ends an override whose time has come, in the audit log.
const SERVER: &str = "the server";

pub(super) struct Operators {
    databases: Vec<(Arc<str>, Layers)>,
    next_audit: u64,
}

/// A change of settings: for the core, and for the store.
pub(super) struct Reconfigured {
    pub(super) database: DatabaseId,
    pub(super) settings: DatabaseSettings,
    pub(super) changes: Vec<Change>,
}

impl Operators {
    pub(super) fn recover(databases: &[DatabaseConfig], state: &State) -> Operators {
        let layers = databases.iter().map(|configured| {
            let name: Arc<str> = Arc::from(configured.name.as_str());
            let operator = state.operators.get(&name).cloned().unwrap_or_default();
            (name, Layers::new(configured.clone(), operator))
        });
        let newest = state.audit.last_key_value().map_or(0, |(sequence, _)| *sequence);
        Operators { databases: layers.collect(), next_audit: newest.saturating_add(1) }
    }

    pub(super) fn settings(&self) -> Vec<DatabaseSettings> {
        self.databases.iter().map(|(_, layers)| layers.settings()).collect()
    }

    pub(super) fn overrides(&self, database: DatabaseId, now_unix_ms: u64) -> Vec<OverrideStatus> {
        self.databases[database.0 as usize].1.overrides(now_unix_ms)
    }

    /// Overrides settings of a database.
    pub(super) fn set(
        &mut self,
        database: DatabaseId,
        request: &OverrideRequest,
        who: &str,
        now_unix_ms: u64,
    ) -> Result<Reconfigured, AdminRefusal> {
        let (name, layers) = &mut self.databases[database.0 as usize];
        layers.set(request, now_unix_ms).map_err(AdminRefusal::Contradicts)?;
        let what = format!("set {name}: {}", words(request));
        Ok(self.reconfigured(database, who, what, now_unix_ms))
    }

    /// Starts or ends a drain.
    pub(super) fn set_draining(
        &mut self,
        database: DatabaseId,
        draining: bool,
        who: &str,
        now_unix_ms: u64,
    ) -> Reconfigured {
        let (name, layers) = &mut self.databases[database.0 as usize];
        layers.set_draining(draining);
        let what = format!("{} {name}", if draining { "drain" } else { "resume" });
        self.reconfigured(database, who, what, now_unix_ms)
    }

    /// Ends overrides whose time has come.
    pub(super) fn expire(&mut self, now_unix_ms: u64) -> Vec<Reconfigured> {
        let mut expired = Vec::new();
        for index in 0..self.databases.len() {
            let (name, layers) = &mut self.databases[index];
            if layers.expire(now_unix_ms) {
                let what = format!("an override of {name} has ended");
                expired.push(self.reconfigured(DatabaseId(index as u32), SERVER, what, now_unix_ms));
            }
        }
        expired
    }

    /// When the next override ends.
    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.databases.iter().filter_map(|(_, layers)| layers.next_expiry()).min()
    }

    /// Appends to the log and to the audit log, and takes from its end what is too old.
    pub(super) fn audit(&mut self, who: &str, what: String, now_unix_ms: u64) -> Vec<Change> {
        let sequence = self.next_audit;
        self.next_audit = sequence.saturating_add(1);
        info!(who, what, "audit");
        let audit = Audit { unix_ms: now_unix_ms, who: who.to_owned(), what };
        let trim = sequence.checked_sub(AUDIT_ENTRIES).map(Change::TrimAudit);
        [Change::PutAudit(sequence, audit)].into_iter().chain(trim).collect()
    }

    fn reconfigured(
        &mut self,
        database: DatabaseId,
        who: &str,
        what: String,
        now_unix_ms: u64,
    ) -> Reconfigured {
        let (name, layers) = &self.databases[database.0 as usize];
        let settings = layers.settings();
        let put = Change::PutOperator(Arc::clone(name), layers.operator().clone());
        let mut changes = self.audit(who, what, now_unix_ms);
        changes.insert(0, put);
        Reconfigured { database, settings, changes }
    }
}

/// An override in words, for the audit log.
fn words(request: &OverrideRequest) -> String {
    let mut words: Vec<String> = request.clear.iter().map(|setting| format!("clear {setting}")).collect();
    words.extend(request.cap.map(|cap| format!("cap {cap}")));
    words.extend(request.reserve.map(|reserve| format!("reserve {reserve}")));
    words.extend(request.admission.map(|admission| format!("admission {admission}")));
    words.extend(request.quantum.map(|quantum| format!("quantum {} ms", quantum.as_millis())));
    words.extend(request.shadow.map(|shadow| format!("shadow {}", on_or_off(shadow))));
    words.extend(request.workloads.iter().map(ToString::to_string));
    words.extend(request.duration.map(|duration| format!("for {} s", duration.as_secs_f64())));
    words.join(", ")
}
