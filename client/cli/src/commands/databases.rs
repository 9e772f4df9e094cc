//! `leasehold databases [NAME]`: every count of all databases, or everything about
//! one, in the order in which its cap comes about.

use std::io::Write;

use leasehold_proto::v1::ListDatabasesRequest;
use serde::Serialize;

use super::status::{describe_override, shadow};
use crate::connect::Connection;
use crate::error::Error;
use crate::output::table::{self, Column, NOTHING};
use crate::output::{Output, Report, human};
use crate::report::{Database, Workload};

/// The answer's databases.
#[derive(Debug, Serialize)]
struct Databases {
    databases: Vec<Database>,
}

/// The one database that was asked for; in JSON the same list as without a name.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Description(Databases);

/// Shows all databases.
pub(super) async fn list<W: Write>(connection: &mut Connection, output: &mut Output<W>) -> Result<(), Error> {
    let databases = fetch(connection, "").await?;
    output.show(&databases)?;
    if databases.databases.is_empty() {
        output.remark("no databases are configured");
    }
    Ok(())
}

/// Shows one database in detail.
pub(super) async fn describe<W: Write>(
    connection: &mut Connection,
    output: &mut Output<W>,
    name: &str,
) -> Result<(), Error> {
    let databases = fetch(connection, name).await?;
    if databases.databases.is_empty() {
        return Err(Error::UnknownDatabase(name.to_owned()));
    }
    output.show(&Description(databases))
}

async fn fetch(connection: &mut Connection, name: &str) -> Result<Databases, Error> {
    let request = ListDatabasesRequest { database: name.to_owned() };
    let reply = connection.read(async |client| client.list_databases(request).await).await?;
    Ok(Databases { databases: reply.databases.into_iter().map(Database::from).collect() })
}

impl Report for Databases {
    fn text(&self) -> String {
        if self.databases.is_empty() {
            return String::new();
        }
        let columns = [
            Column::Text("DATABASE"),
            Column::Number("MAX-CONN"),
            Column::Number("RESERVE"),
            Column::Number("OTHERS"),
            Column::Number("STRAYS"),
            Column::Number("UNCERTAIN"),
            Column::Number("LIMIT"),
            Column::Number("CAP"),
            Column::Number("HELD"),
            Column::Number("QUARANTINED"),
            Column::Number("FREE"),
            Column::Number("WAITING"),
            Column::Number("SESSIONS"),
            Column::Text("ADMISSION"),
            Column::Number("QUANTUM"),
            Column::Text("DRAINING"),
            Column::Text("PROBE"),
        ];
        table::with_heading(columns, self.databases.iter().map(row))
    }
}

fn row(database: &Database) -> [String; 17] {
    [
        database.name.clone(),
        or_nothing(database.max_connections),
        database.reserve.to_string(),
        database.others.to_string(),
        database.strays.to_string(),
        database.uncertain.to_string(),
        or_nothing(database.cap_limit),
        database.cap.to_string(),
        database.held.to_string(),
        database.quarantined.to_string(),
        database.free.to_string(),
        database.waiting.to_string(),
        database.sessions.to_string(),
        database.admission.clone(),
        match database.quantum_ms {
            0 => NOTHING.to_owned(),
            quantum => human::exact_milliseconds(quantum),
        },
        yes_or_no(database.draining),
        database.probe.clone(),
    ]
}

impl Report for Description {
    fn text(&self) -> String {
        self.0
            .databases
            .iter()
            .flat_map(|database| [table::properties(properties(database)), workloads(&database.workloads)])
            .filter(|section| !section.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n")
    }
}

/// Nothing where there is no other workload than the default.
fn workloads(workloads: &[Workload]) -> String {
    if workloads.len() < 2 {
        return String::new();
    }
    let columns = [
        Column::Text("WORKLOAD"),
        Column::Number("WEIGHT"),
        Column::Text("FLOOR"),
        Column::Number("LIMIT"),
        Column::Number("TARGET"),
        Column::Number("HELD"),
        Column::Number("QUARANTINED"),
        Column::Number("DEMAND"),
        Column::Number("WAITING"),
        Column::Number("MAX-WAITING"),
        Column::Number("REFUSED"),
        Column::Number("SESSIONS"),
    ];
    table::with_heading(columns, workloads.iter().map(workload_row))
}

fn workload_row(workload: &Workload) -> [String; 12] {
    [
        workload.name.clone(),
        workload.weight.to_string(),
        floor(workload),
        or_nothing(workload.limit),
        workload.target_thousandths.map_or_else(|| NOTHING.to_owned(), human::thousandths),
        workload.held.to_string(),
        workload.quarantined.to_string(),
        workload.demand.to_string(),
        workload.waiting.to_string(),
        or_nothing(workload.max_waiting),
        workload.refused.to_string(),
        workload.sessions.to_string(),
    ]
}

/// "20", "20 kept", "12 of 20".
fn floor(workload: &Workload) -> String {
    let Workload { floor, floor_in_force, keep, .. } = workload;
    let reduced = if floor_in_force < floor { format!(" of {floor}") } else { String::new() };
    let kept = if *keep { " kept" } else { "" };
    if *floor == 0 { NOTHING.to_owned() } else { format!("{floor_in_force}{reduced}{kept}") }
}

fn properties(database: &Database) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("database", database.name.clone()),
        ("max connections", or_nothing(database.max_connections)),
        ("reserve", database.reserve.to_string()),
        ("others", database.others.to_string()),
        ("strays", strays(database)),
        ("limit", or_nothing(database.cap_limit)),
        ("cap", database.cap.to_string()),
        ("held", held(database)),
        ("free", database.free.to_string()),
        ("waiting", database.waiting.to_string()),
        ("sessions", database.sessions.to_string()),
        ("admission", admission(database)),
        ("draining", yes_or_no(database.draining)),
        ("lease", format!("{}, then {}", human::exact_milliseconds(database.ttl_ms), database.on_loss)),
        ("probe", probe(database)),
        (
            "since start",
            format!(
                "{} granted, {} recalled, {} expired",
                database.grants, database.recalls, database.expired
            ),
        ),
    ];
    if database.shadow {
        rows.push(("shadow mode", shadow(database)));
    }
    rows.extend(database.overrides.iter().map(|found| ("override", describe_override(found))));
    rows
}

fn strays(database: &Database) -> String {
    match database.uncertain {
        0 => database.strays.to_string(),
        uncertain => format!("{}, and {uncertain} uncertain", database.strays),
    }
}

fn held(database: &Database) -> String {
    match database.quarantined {
        0 => database.held.to_string(),
        quarantined => format!("{}, of which {quarantined} quarantined", database.held),
    }
}

fn admission(database: &Database) -> String {
    match database.quantum_ms {
        0 => database.admission.clone(),
        quantum => format!("{}, quantum {}", database.admission, human::exact_milliseconds(quantum)),
    }
}

fn probe(database: &Database) -> String {
    let observed = database
        .observed_ms
        .map(|age| format!(", last observed {} ago", human::age(age)))
        .unwrap_or_default();
    let problem = database.probe_error.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
    let warning =
        database.probe_warning.as_ref().map(|warning| format!(", but {warning}")).unwrap_or_default();
    format!("{}{observed}{problem}{warning}", database.probe)
}

fn or_nothing(count: Option<u32>) -> String {
    count.map_or_else(|| NOTHING.to_owned(), |count| count.to_string())
}

fn yes_or_no(value: bool) -> String {
    (if value { "yes" } else { "no" }).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Databases, Description};
    use crate::commands::samples;
    use crate::output::Report;
    use crate::report::Database;

    fn databases() -> Databases {
        let found = [samples::database(), samples::troubled_database(), samples::static_database()];
        Databases { databases: found.map(Database::from).into() }
    }

    #[test]
    fn every_count_of_every_database() {
        insta::assert_snapshot!(databases().text(), @"
        DATABASE  MAX-CONN  RESERVE  OTHERS  STRAYS  UNCERTAIN  LIMIT  CAP  HELD  QUARANTINED  FREE  WAITING  SESSIONS  ADMISSION  QUANTUM  DRAINING  PROBE
        orders         151       10      30       0          0    200  111    90            0    21        4         8  fair         100ms  no        ok
        billing          -       10      30       2          3     50   50    61           12     0      130         8  unfair           -  yes       down
        default          -        0       0       0          0    100  100     0            0   100        0         0  strict           -  no        none
        ");
    }

    #[test]
    fn a_database_at_rest() {
        let one = Databases { databases: vec![Database::from(samples::database())] };
        insta::assert_snapshot!(Description(one).text(), @"
        database:         orders
        max connections:  151
        reserve:          10
        others:           30
        strays:           0
        limit:            200
        cap:              111
        held:             90
        free:             21
        waiting:          4
        sessions:         8
        admission:        fair, quantum 100ms
        draining:         no
        lease:            10s, then keep
        probe:            ok, last observed 412ms ago
        since start:      18234 granted, 17902 recalled, 2 expired
        ");
    }

    #[test]
    fn a_database_in_trouble() {
        let one = Databases { databases: vec![Database::from(samples::troubled_database())] };
        insta::assert_snapshot!(Description(one).text(), @"
        database:         billing
        max connections:  -
        reserve:          10
        others:           30
        strays:           2, and 3 uncertain
        limit:            50
        cap:              50
        held:             61, of which 12 quarantined
        free:             0
        waiting:          130
        sessions:         8
        admission:        unfair
        draining:         yes
        lease:            10s, then keep
        probe:            down, last observed 1m4s ago: cannot connect: connection refused
        since start:      18234 granted, 17902 recalled, 2 expired
        override:         admission overridden to unfair until cleared
        override:         cap overridden to 50, 25m left
        ");
    }

    #[test]
    fn a_database_that_workloads_divide() {
        let one = Databases { databases: vec![Database::from(samples::divided_database())] };
        insta::assert_snapshot!(Description(one).text(), @"
        database:         orders
        max connections:  151
        reserve:          10
        others:           30
        strays:           0
        limit:            200
        cap:              111
        held:             90
        free:             21
        waiting:          4
        sessions:         8
        admission:        fair, quantum 100ms
        draining:         no
        lease:            10s, then keep
        probe:            ok, last observed 412ms ago
        since start:      18234 granted, 17902 recalled, 2 expired

        WORKLOAD  WEIGHT  FLOOR          LIMIT  TARGET  HELD  QUARANTINED  DEMAND  WAITING  MAX-WAITING  REFUSED  SESSIONS
        default        1  -                  -     0.2     0            0       0        0            -        0         2
        batch          1  -                 25    17.2    17            0     517      500          500       12         2
        web            3  30 of 60 kept      -    33.2    33            0      35        2            -        0         2
        ");
    }

    #[test]
    fn one_database_is_a_list_in_json_too() {
        let one = Databases { databases: vec![] };
        let json = serde_json::to_string(&Description(one)).unwrap();
        assert_eq!(json, r#"{"databases":[]}"#);
    }

    #[test]
    fn nothing_to_list_prints_nothing() {
        assert_eq!(Databases { databases: vec![] }.text(), "");
    }
}
