//! `leasehold set`: overrides settings of a database.

use std::io::Write;

use leasehold_proto::v1::{SetOverrideReply, SetOverrideRequest, WorkloadOverride};
use serde::Serialize;

use super::status::{describe_override, floors};
use crate::args::{Admission, Milliseconds, SetArguments, Setting, Switch, WorkloadArguments};
use crate::connect::Connection;
use crate::error::Error;
use crate::output::{Output, Report, human};
use crate::report::Database;

/// The database after the change.
#[derive(Debug, Serialize)]
struct Changed {
    database: Database,
}

/// Sends the change and shows what is in force now.
pub(super) async fn run<W: Write>(
    connection: &mut Connection,
    output: &mut Output<W>,
    changes: &SetArguments,
) -> Result<(), Error> {
    let request = request(changes);
    let SetOverrideReply { database } =
        connection.change(async |client| client.set_override(request).await).await?;
    let database = database.ok_or(Error::Incomplete("database"))?;
    output.show(&Changed { database: Database::from(database) })
}

fn request(changes: &SetArguments) -> SetOverrideRequest {
    let milliseconds = |value: Option<Milliseconds>| value.map(|Milliseconds(count)| count);
    SetOverrideRequest {
        database: changes.database.clone(),
        cap: changes.cap,
        reserve: changes.reserve,
        admission: changes.admission.map(Admission::as_str).map(str::to_owned),
        quantum_ms: milliseconds(changes.quantum),
        shadow: changes.shadow.map(|shadow| shadow == Switch::On),
        duration_ms: milliseconds(changes.duration),
        clear: cleared(changes, false),
        workloads: workload(changes).into_iter().collect(),
    }
}

fn workload(changes: &SetArguments) -> Option<WorkloadOverride> {
    let WorkloadArguments { workload, weight, floor, keep, limit, max_waiting } = &changes.of_workload;
    Some(WorkloadOverride {
        workload: workload.clone()?,
        weight: *weight,
        floor: *floor,
        keep: keep.map(|keep| keep == Switch::On),
        limit: *limit,
        max_waiting: *max_waiting,
        clear: cleared(changes, true),
    })
}

/// The settings to clear, of a workload or of the database.
fn cleared(changes: &SetArguments, of_workload: bool) -> Vec<String> {
    let cleared = changes.clear.iter().filter(|setting| setting.is_of_workload() == of_workload);
    cleared.copied().map(Setting::as_str).map(str::to_owned).collect()
}

impl Report for Changed {
    fn text(&self) -> String {
        let Changed { database } = self;
        let overrides = if database.overrides.is_empty() {
            "no overrides, as configured".to_owned()
        } else {
            database.overrides.iter().map(describe_override).collect::<Vec<_>>().join("; ")
        };
        let name = human::plain(&database.name);
        let lines = [overrides].into_iter().chain(floors(database)).chain([counts(database)]);
        lines.map(|line| format!("{name}: {}", human::plain(&line))).collect::<Vec<_>>().join("\n")
    }
}

/// "cap 50, held 61, free 0; 11 above the cap".
pub(super) fn counts(database: &Database) -> String {
    let Database { cap, held, free, .. } = database;
    match held.saturating_sub(*cap) {
        0 => format!("cap {cap}, held {held}, free {free}"),
        excess => format!("cap {cap}, held {held}, free {free}; {excess} above the cap"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Changed, request};
    use crate::args::{Admission, Milliseconds, SetArguments, Setting, Switch, WorkloadArguments};
    use crate::commands::samples;
    use crate::output::Report;
    use crate::report::Database;

    #[test]
    fn every_argument_reaches_the_request() {
        let sent = request(&SetArguments {
            database: "orders".to_owned(),
            cap: Some(50),
            reserve: Some(20),
            admission: Some(Admission::Unfair),
            quantum: Some(Milliseconds(50)),
            shadow: Some(Switch::On),
            duration: Some(Milliseconds(1_800_000)),
            clear: vec![Setting::Cap, Setting::MaxWaiting, Setting::Quantum],
            of_workload: WorkloadArguments {
                workload: Some("web".to_owned()),
                weight: Some(3),
                floor: Some(20),
                keep: Some(Switch::Off),
                limit: Some(60),
                max_waiting: Some(5_000),
            },
        });
        insta::assert_debug_snapshot!(sent, @r#"
        SetOverrideRequest {
            database: "orders",
            cap: Some(
                50,
            ),
            reserve: Some(
                20,
            ),
            admission: Some(
                "unfair",
            ),
            quantum_ms: Some(
                50,
            ),
            duration_ms: Some(
                1800000,
            ),
            clear: [
                "cap",
                "quantum",
            ],
            shadow: Some(
                true,
            ),
            workloads: [
                WorkloadOverride {
                    workload: "web",
                    weight: Some(
                        3,
                    ),
                    floor: Some(
                        20,
                    ),
                    keep: Some(
                        false,
                    ),
                    limit: Some(
                        60,
                    ),
                    max_waiting: Some(
                        5000,
                    ),
                    clear: [
                        "max_waiting",
                    ],
                },
            ],
        }
        "#);
    }

    #[test]
    fn overrides_in_force_are_shown() {
        let changed = Changed { database: Database::from(samples::troubled_database()) };
        insta::assert_snapshot!(changed.text(), @"
        billing: admission overridden to unfair until cleared; cap overridden to 50, 25m left
        billing: cap 50, held 61, free 0; 11 above the cap
        ");
    }

    #[test]
    fn what_is_not_in_force_of_floors_is_shown() {
        let changed = Changed { database: Database::from(samples::redivided_database()) };
        insta::assert_snapshot!(changed.text(), @"
        orders: floor of workload web overridden to 80, 25m left; floor of workload batch overridden to 90 until cleared
        orders: floor of workload web scaled down to 60 of 80 tokens: its limit
        orders: floors scaled down to 100 of 150 tokens: the cap is not enough
        orders: cap 100, held 90, free 21
        ");
    }

    #[test]
    fn a_database_as_configured() {
        let changed = Changed { database: Database::from(samples::database()) };
        insta::assert_snapshot!(changed.text(), @"
        orders: no overrides, as configured
        orders: cap 111, held 90, free 21
        ");
    }
}
