//! `leasehold status`: the server and its databases at a glance, and what needs a
//! person's attention.

use std::io::Write;

use leasehold_proto::v1::StatusRequest;

use crate::connect::Connection;
use crate::error::Error;
use crate::output::table::{self, Column};
use crate::output::{Output, Report, human};
use crate::report::{Database, Override, Server, Workload};

/// Shows the state; fails when the store is not healthy, so that scripts notice.
pub(super) async fn run<W: Write>(connection: &mut Connection, output: &mut Output<W>) -> Result<(), Error> {
    let reply = connection.read(async |client| client.status(StatusRequest {}).await).await?;
    let server = Server::from(reply);
    output.show(&server)?;
    if server.store_healthy {
        return Ok(());
    }
    Err(Error::Unhealthy(server.store_error.unwrap_or_else(|| "no reason given".to_owned())))
}

impl Report for Server {
    fn text(&self) -> String {
        let mut sections = vec![summary(self)];
        if self.databases.is_empty() {
            sections.push("no databases are configured".to_owned());
        } else {
            sections.push(overview(&self.databases));
        }
        let remarks: Vec<String> = self.databases.iter().flat_map(remarks).collect();
        if !remarks.is_empty() {
            sections.push(remarks.join("\n"));
        }
        sections.join("\n\n")
    }
}

fn summary(server: &Server) -> String {
    format!(
        "server {}, generation {}, up {}, store {}",
        human::plain(&server.version),
        server.generation,
        human::age(server.uptime_ms),
        if server.store_healthy { "healthy" } else { "NOT HEALTHY: grants wait" },
    )
}

fn overview(databases: &[Database]) -> String {
    let columns = [
        Column::Text("DATABASE"),
        Column::Number("CAP"),
        Column::Number("HELD"),
        Column::Number("FREE"),
        Column::Number("WAITING"),
        Column::Number("SESSIONS"),
        Column::Number("QUARANTINED"),
        Column::Text("ADMISSION"),
        Column::Text("PROBE"),
    ];
    table::with_heading(
        columns,
        databases.iter().map(|database| {
            [
                database.name.clone(),
                database.cap.to_string(),
                database.held.to_string(),
                database.free.to_string(),
                database.waiting.to_string(),
                database.sessions.to_string(),
                database.quarantined.to_string(),
                mode(database),
                database.probe.clone(),
            ]
        }),
    )
}

fn mode(database: &Database) -> String {
    match database {
        Database { draining: true, .. } => "draining".to_owned(),
        Database { shadow: true, .. } => "shadow".to_owned(),
        Database { admission, .. } => admission.clone(),
    }
}

/// What is not as it should be, or not as configured.
fn remarks(database: &Database) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(problem) = &database.probe_error {
        remarks.push(format!("probe {}: {problem}", database.probe));
    }
    if let Some(warning) = &database.probe_warning {
        remarks.push(format!("probe {}, but {warning}", database.probe));
    }
    if database.draining {
        remarks.push("draining: grants nothing".to_owned());
    }
    if database.shadow {
        remarks.push(format!("shadow mode: everything is granted; {}", shadow(database)));
    }
    remarks.extend(floors(database));
    remarks.extend(database.overrides.iter().map(describe_override));
    remarks
        .into_iter()
        .map(|remark| human::plain(&format!("{}: {remark}", database.name)).into_owned())
        .collect()
}

/// "4 tasks would be waiting; since the start 120 tokens would have been waited for and
/// 3 calls refused".
pub(super) fn shadow(database: &Database) -> String {
    let sum = |count: fn(&Workload) -> u64| database.workloads.iter().map(count).sum::<u64>();
    let waiting = sum(|workload| workload.shadow_waiting.into());
    let (queued, refused) = (sum(|workload| workload.shadow_queued), sum(|workload| workload.shadow_refused));
    let of = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} would be waiting; since the start {} would have been waited for and {} refused",
        of(waiting, "task"),
        of(queued, "token"),
        of(refused, "call")
    )
}

/// What of the floors is not in force, and why.
pub(super) fn floors(database: &Database) -> Vec<String> {
    let within = |workload: &Workload| workload.floor.min(workload.limit.unwrap_or(u32::MAX));
    let limited = |workload: &Workload| {
        let (name, floor, limit) = (&workload.name, workload.floor, within(workload));
        let above = format!("floor of workload {name} scaled down to {limit} of {floor} tokens: its limit");
        (limit < floor).then_some(above)
    };
    let mut remarks: Vec<String> = database.workloads.iter().filter_map(limited).collect();
    let sum = |floor: &dyn Fn(&Workload) -> u32| {
        database.workloads.iter().map(|workload| u64::from(floor(workload))).sum::<u64>()
    };
    let (set, in_force) = (sum(&within), sum(&|workload| workload.floor_in_force));
    if in_force < set {
        remarks.push(format!("floors scaled down to {in_force} of {set} tokens: the cap is not enough"));
    }
    remarks
}

/// "cap overridden to 50, 25m left".
pub(super) fn describe_override(found: &Override) -> String {
    let Override { setting, value, remaining_ms, workload } = found;
    let of = workload.as_ref().map(|workload| format!(" of workload {workload}")).unwrap_or_default();
    let until = match remaining_ms {
        Some(remaining) => format!(", {} left", human::age(*remaining)),
        None => " until cleared".to_owned(),
    };
    format!("{setting}{of} overridden to {value}{until}")
}

#[cfg(test)]
mod tests {
    use crate::commands::samples;
    use crate::output::Report;
    use crate::report::Server;

    #[test]
    fn all_is_well() {
        let server = Server::from(samples::status());
        insta::assert_snapshot!(server.text(), @"
        server 0.1.0, generation 3, up 2h10m, store healthy

        DATABASE  CAP  HELD  FREE  WAITING  SESSIONS  QUARANTINED  ADMISSION  PROBE
        default   100     0   100        0         0            0  strict     none
        orders    111    90    21        4         8            0  fair       ok
        ");
    }

    #[test]
    fn what_needs_attention_is_said() {
        let mut reply = samples::status();
        reply.store_healthy = false;
        reply.store_error = "cannot commit: no space left on device".to_owned();
        reply.databases =
            vec![samples::troubled_database(), samples::half_seen_database(), samples::divided_database()];
        reply.databases.push(samples::shadowed_database());
        insta::assert_snapshot!(Server::from(reply).text(), @"
        server 0.1.0, generation 3, up 2h10m, store NOT HEALTHY: grants wait

        DATABASE  CAP  HELD  FREE  WAITING  SESSIONS  QUARANTINED  ADMISSION  PROBE
        billing    50    61     0      130         8           12  draining   down
        shop      111    90    21        4         8            0  fair       ok
        orders    111    90    21        4         8            0  fair       ok
        stock     111   116     0        4         8            0  shadow     ok

        billing: probe down: cannot connect: connection refused
        billing: draining: grants nothing
        billing: admission overridden to unfair until cleared
        billing: cap overridden to 50, 25m left
        shop: probe ok, but nodes report 7 connections more than the database shows on the fleet's accounts
        orders: floors scaled down to 30 of 60 tokens: the cap is not enough
        stock: shadow mode: everything is granted; 5 tasks would be waiting; since the start 132 tokens would have been waited for and 1 call refused
        ");
    }

    #[test]
    fn a_server_without_databases() {
        let mut reply = samples::status();
        reply.databases.clear();
        insta::assert_snapshot!(Server::from(reply).text(), @"
        server 0.1.0, generation 3, up 2h10m, store healthy

        no databases are configured
        ");
    }

    #[test]
    fn the_json_keeps_its_promise() {
        let server = Server::from(samples::status());
        let pretty = serde_json::to_string_pretty(&server).unwrap();
        insta::assert_snapshot!(pretty, @r#"
        {
          "generation": 3,
          "databases": [
            {
              "name": "default",
              "cap": 100,
              "held": 0,
              "free": 100,
              "reserve": 0,
              "others": 0,
              "strays": 0,
              "uncertain": 0,
              "quarantined": 0,
              "max_connections": null,
              "waiting": 0,
              "sessions": 0,
              "admission": "strict",
              "quantum_ms": 0,
              "draining": false,
              "probe": "none",
              "probe_error": null,
              "probe_warning": null,
              "observed_ms": null,
              "cap_limit": 100,
              "ttl_ms": 30000,
              "on_loss": "fence",
              "overrides": [],
              "grants": 0,
              "recalls": 0,
              "expired": 0,
              "repeated_releases": 0,
              "shadow": false,
              "workloads": []
            },
            {
              "name": "orders",
              "cap": 111,
              "held": 90,
              "free": 21,
              "reserve": 10,
              "others": 30,
              "strays": 0,
              "uncertain": 0,
              "quarantined": 0,
              "max_connections": 151,
              "waiting": 4,
              "sessions": 8,
              "admission": "fair",
              "quantum_ms": 100,
              "draining": false,
              "probe": "ok",
              "probe_error": null,
              "probe_warning": null,
              "observed_ms": 412,
              "cap_limit": 200,
              "ttl_ms": 10000,
              "on_loss": "keep",
              "overrides": [],
              "grants": 18234,
              "recalls": 17902,
              "expired": 2,
              "repeated_releases": 1,
              "shadow": false,
              "workloads": [
                {
                  "name": "default",
                  "weight": 1,
                  "floor": 0,
                  "floor_in_force": 0,
                  "keep": false,
                  "limit": null,
                  "max_waiting": null,
                  "held": 0,
                  "demand": 0,
                  "target_thousandths": null,
                  "quarantined": 0,
                  "waiting": 0,
                  "sessions": 0,
                  "refused": 0,
                  "shadow_waiting": 0,
                  "shadow_queued": 0,
                  "shadow_refused": 0
                }
              ]
            }
          ],
          "version": "0.1.0",
          "uptime_ms": 7830000,
          "store_healthy": true,
          "store_error": null
        }
        "#);
    }
}
