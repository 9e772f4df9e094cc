//! A configuration in people's words, for `--check` and the start. Shows no secret.

use std::fmt;

use super::document::spell;
use super::{Admission, Config, DatabaseConfig, LossPolicy, Source, WorkloadConfig};

impl Config {
    /// What the configuration says, one line for each thing.
    pub fn summary(&self) -> Summary<'_> {
        Summary(self)
    }
}

/// Writes a configuration for people.
#[derive(Debug)]
pub struct Summary<'config>(&'config Config);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.0.server;
        writeln!(
            f,
            "gRPC on {}, HTTP on {}, records in {}",
            server.listen,
            server.http,
            server.data.display()
        )?;
        for database in &self.0.databases {
            writeln!(f, "database {}: {}", database.name, describe(database))?;
        }
        Ok(())
    }
}

fn describe(database: &DatabaseConfig) -> String {
    let admission = match database.admission {
        Admission::Fair => format!("fair admission within {}", spell(database.quantum)),
        Admission::Strict => "strict order".to_owned(),
        Admission::Unfair => "unfair admission".to_owned(),
    };
    let ttl = spell(database.ttl);
    let loss = match database.on_loss {
        LossPolicy::Keep => format!("nodes keep their connections when the server is silent for {ttl}"),
        LossPolicy::Fence => format!(
            "nodes close their connections when the server is silent for {ttl}, and have {} for it",
            spell(database.fence_grace)
        ),
    };
    let workloads = workloads(&database.workloads);
    let shadow = if database.shadow { "; shadow mode: everything is granted" } else { "" };
    format!("{}; {admission}; {loss}{workloads}{shadow}", source(&database.source))
}

fn workloads(workloads: &[WorkloadConfig]) -> String {
    let list: Vec<String> = workloads.iter().map(workload).collect();
    if list.is_empty() { String::new() } else { format!("; workloads {}", list.join(", ")) }
}

fn workload(workload: &WorkloadConfig) -> String {
    let WorkloadConfig { name, weight, floor, keep, limit, max_waiting } = workload;
    let floor = match (floor, keep) {
        (0, _) => String::new(),
        (floor, false) => format!(", floor {floor}"),
        (floor, true) => format!(", floor {floor} kept free"),
    };
    let limit = limit.map_or_else(String::new, |limit| format!(", at most {limit}"));
    let waiting = max_waiting.map_or_else(String::new, |most| format!(", at most {most} waiting"));
    format!("{name} (weight {weight}{floor}{limit}{waiting})")
}

fn source(source: &Source) -> String {
    match source {
        Source::Static { cap } => format!("a fixed cap of {cap}"),
        Source::Watched(watched) => {
            let bound = watched.cap.map_or_else(String::new, |cap| format!(", at most {cap}"));
            let accounts = if watched.accounts.is_empty() {
                "every account is the fleet's".to_owned()
            } else {
                format!("the fleet's accounts are {}", watched.accounts.join(", "))
            };
            format!("what {} admits less {}{bound}; {accounts}", watched.url, watched.reserve)
        }
    }
}
