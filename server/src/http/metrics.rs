//! The state of the server as numbers, in Prometheus' text format. Which
//! numbers there are stands in the two tables; the writer knows none of them.
//!
//! It is the classic format and not `OpenMetrics`: every scraper reads it, and so
//! does `promtool check metrics`, to which a counter of `OpenMetrics` has no help.
//! All numbers are read off one snapshot, so there is nothing to count here.

use std::fmt::Write;

use leasehold_proto::v1::{Database, StatusReply, Workload};

/// What HTTP says the text is.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

struct Metric<T> {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    /// `None`: the metric has no value now, and no line.
    read: fn(&T) -> Option<f64>,
}

#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
        }
    }
}

const fn gauge<T>(name: &'static str, help: &'static str, read: fn(&T) -> Option<f64>) -> Metric<T> {
    Metric { name, kind: Kind::Gauge, help, read }
}

const fn counter<T>(name: &'static str, help: &'static str, read: fn(&T) -> Option<f64>) -> Metric<T> {
    Metric { name, kind: Kind::Counter, help, read }
}

const SERVER: [Metric<StatusReply>; 3] = [
    gauge("leasehold_generation", "Number of the server's incarnation.", |s| Some(s.generation as f64)),
    gauge("leasehold_uptime_seconds", "Time since the start, in seconds.", |s| Some(seconds(s.uptime_ms))),
    gauge("leasehold_store_healthy", "1 while the store takes commits, 0 while grants wait for it.", |s| {
        Some(flag(s.store_healthy))
    }),
];

const DATABASE: [Metric<Database>; 20] = [
    gauge("leasehold_cap", "Most tokens leasable now.", |d| Some(d.cap.into())),
    gauge("leasehold_cap_limit", "Configured or overridden upper bound of the cap, in tokens.", |d| {
        d.cap_limit.map(f64::from)
    }),
    gauge("leasehold_held", "Tokens that count against the cap.", |d| Some(d.held.into())),
    gauge("leasehold_free", "Tokens that could be granted now.", |d| Some(d.free.into())),
    gauge("leasehold_quarantined", "Tokens of expired sessions, kept back.", |d| Some(d.quarantined.into())),
    gauge("leasehold_reserve", "Kept back for people and tools, in connections.", |d| Some(d.reserve.into())),
    gauge("leasehold_others", "On accounts that are not the fleet's, in connections.", |d| {
        Some(d.others.into())
    }),
    gauge(
        "leasehold_strays",
        "On the fleet's accounts but of no live session, for certain, in connections.",
        |d| Some(d.strays.into()),
    ),
    gauge("leasehold_uncertain", "Strays that are possible but not certain, in connections.", |d| {
        Some(d.uncertain.into())
    }),
    gauge("leasehold_max_connections", "The database's own limit as last read, in connections.", |d| {
        d.max_connections.map(f64::from)
    }),
    gauge("leasehold_waiting", "Tasks waiting in all nodes.", |d| Some(d.waiting.into())),
    gauge("leasehold_sessions", "Live sessions that use the database.", |d| Some(d.sessions.into())),
    gauge("leasehold_shadow", "1 while everything is granted, whatever the cap.", |d| Some(flag(d.shadow))),
    gauge("leasehold_draining", "1 while nothing is granted because an operator drains the database.", |d| {
        Some(flag(d.draining))
    }),
    gauge("leasehold_probe_up", "1 while the probe sees the database. Absent without a probe.", |d| {
        d.probe.as_ref().filter(|probe| probe.state != "none").map(|probe| flag(probe.state == "ok"))
    }),
    gauge("leasehold_probe_age_seconds", "Age of the newest observation, in seconds.", |d| {
        d.probe.as_ref().and_then(|probe| probe.observed_ms).map(seconds)
    }),
    counter("leasehold_grants_total", "Tokens granted since the start.", |d| Some(d.grants as f64)),
    counter("leasehold_recalls_total", "Tokens recalled since the start.", |d| Some(d.recalls as f64)),
    counter("leasehold_expired_total", "Sessions whose lease expired since the start.", |d| {
        Some(d.expired as f64)
    }),
    counter(
        "leasehold_repeated_releases_total",
        "Unary leases that were released once more since the start.",
        |d| Some(d.repeated_releases as f64),
    ),
];

const WORKLOAD: [Metric<Workload>; 11] = [
    gauge("leasehold_workload_held", "Tokens that count against the workload's limit.", |w| {
        Some(w.held.into())
    }),
    gauge("leasehold_workload_demand", "Tokens that the workload has use for.", |w| Some(w.demand.into())),
    gauge("leasehold_workload_target", "Tokens that the workload is to have beside others.", |w| {
        w.target_thousandths.map(|target| target as f64 / 1_000.0)
    }),
    gauge("leasehold_workload_floor", "Floor in force, in tokens.", |w| Some(w.floor_in_force.into())),
    gauge("leasehold_workload_limit", "Most tokens that the workload ever holds.", |w| {
        w.limit.map(f64::from)
    }),
    gauge("leasehold_workload_waiting", "Tasks waiting in all nodes.", |w| Some(w.waiting.into())),
    gauge("leasehold_workload_sessions", "Live sessions of the workload.", |w| Some(w.sessions.into())),
    counter(
        "leasehold_workload_refused_total",
        "Calls refused since the start because as many waited as may.",
        |w| Some(w.refused as f64),
    ),
    gauge(
        "leasehold_workload_shadow_waiting",
        "Tasks that would be waiting, were it not for shadow mode.",
        |w| Some(w.shadow_waiting.into()),
    ),
    counter(
        "leasehold_workload_shadow_queued_total",
        "Tokens granted by shadow mode since the start that would have been waited for.",
        |w| Some(w.shadow_queued as f64),
    ),
    counter(
        "leasehold_workload_shadow_refused_total",
        "Calls let through by shadow mode since the start that would have been refused.",
        |w| Some(w.shadow_refused as f64),
    ),
];

/// Writes every metric of the server, of each database and of each workload.
pub(super) fn encode(status: &StatusReply) -> String {
    let mut text = String::new();
    let version = format!("{{version=\"{}\"}}", escape(&status.version));
    family(&mut text, "leasehold_build_info", Kind::Gauge, "1, with the server's version.", [(version, 1.0)]);
    for metric in &SERVER {
        let value = (metric.read)(status).map(|value| (String::new(), value));
        family(&mut text, metric.name, metric.kind, metric.help, value);
    }
    for metric in &DATABASE {
        let values = status.databases.iter().filter_map(|database| {
            let value = (metric.read)(database)?;
            Some((format!("{{database=\"{}\"}}", escape(&database.name)), value))
        });
        family(&mut text, metric.name, metric.kind, metric.help, values);
    }
    for metric in &WORKLOAD {
        let values = status.databases.iter().flat_map(|database| {
            database.workloads.iter().filter_map(|workload| {
                let value = (metric.read)(workload)?;
                let (database, name) = (escape(&database.name), escape(&workload.name));
                Some((format!("{{database=\"{database}\",workload=\"{name}\"}}"), value))
            })
        });
        family(&mut text, metric.name, metric.kind, metric.help, values);
    }
    text
}

fn family(
    text: &mut String,
    name: &str,
    kind: Kind,
    help: &str,
    samples: impl IntoIterator<Item = (String, f64)>,
) {
    let kind = kind.word();
    // Writing to a string cannot fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for (labels, value) in samples {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use leasehold_proto::v1::Probe;

    use super::*;

    #[test]
    fn a_server_reads_like_this() {
        let watched = Database {
            name: "orders".to_owned(),
            cap: 30,
            cap_limit: Some(200),
            held: 28,
            free: 2,
            reserve: 10,
            others: 3,
            max_connections: Some(43),
            waiting: 5,
            sessions: 8,
            grants: 1_234_567,
            probe: Some(Probe { state: "ok".to_owned(), observed_ms: Some(250), ..Probe::default() }),
            workloads: vec![
                Workload { name: "default".to_owned(), weight: 1, held: 8, ..Workload::default() },
                Workload {
                    name: "web".to_owned(),
                    weight: 3,
                    floor: 20,
                    floor_in_force: 15,
                    limit: Some(40),
                    held: 20,
                    demand: 25,
                    target_thousandths: Some(22_500),
                    waiting: 5,
                    sessions: 8,
                    refused: 3,
                    ..Workload::default()
                },
            ],
            ..Database::default()
        };
        let fixed = Database {
            name: "a\"b".to_owned(),
            cap: 100,
            draining: true,
            probe: Some(Probe { state: "none".to_owned(), ..Probe::default() }),
            ..Database::default()
        };
        let status = StatusReply {
            generation: 7,
            version: "0.1.0".to_owned(),
            uptime_ms: 61_500,
            store_healthy: true,
            store_error: String::new(),
            databases: vec![fixed, watched],
        };
        insta::assert_snapshot!(encode(&status));
    }
}
