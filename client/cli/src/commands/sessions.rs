//! `leasehold sessions`: who holds tokens, one line for each lease.

use std::io::Write;

use leasehold_proto::v1::ListSessionsRequest;
use serde::Serialize;

use crate::connect::Connection;
use crate::error::Error;
use crate::output::table::{self, Column, NOTHING};
use crate::output::{Output, Report, human};
use crate::report::{Lease, Session};

/// The answer's sessions.
#[derive(Debug, Serialize)]
struct Sessions {
    sessions: Vec<Session>,
}

/// Shows all sessions, or those that use `database` with their leases of it alone, so
/// that the sums of what is shown are the database's.
pub(super) async fn run<W: Write>(
    connection: &mut Connection,
    output: &mut Output<W>,
    database: Option<&str>,
) -> Result<(), Error> {
    let request = ListSessionsRequest { database: database.unwrap_or_default().to_owned() };
    let reply = connection.read(async |client| client.list_sessions(request).await).await?;
    let mut sessions: Vec<Session> = reply.sessions.into_iter().map(Session::from).collect();
    if let Some(name) = database {
        for session in &mut sessions {
            session.leases.retain(|lease| lease.database == name);
        }
    }
    let sessions = Sessions { sessions };
    output.show(&sessions)?;
    if sessions.sessions.is_empty() {
        output.remark("no sessions");
    }
    Ok(())
}

impl Report for Sessions {
    fn text(&self) -> String {
        if self.sessions.is_empty() {
            return String::new();
        }
        let columns = [
            Column::Text("SESSION"),
            Column::Text("NODE"),
            Column::Text("WORKLOAD"),
            Column::Text("STATE"),
            Column::Number("SILENT"),
            Column::Text("DATABASE"),
            Column::Number("HELD"),
            Column::Number("TARGET"),
            Column::Number("IN-USE"),
            Column::Number("IDLE"),
            Column::Number("OPENING"),
            Column::Number("CLOSING"),
            Column::Number("WAITING"),
            Column::Number("OLDEST"),
            Column::Number("MEAN-HOLD"),
        ];
        table::with_heading(columns, self.sessions.iter().flat_map(rows))
    }
}

/// A line for each lease; one for a session without any.
fn rows(session: &Session) -> Vec<[String; 15]> {
    if session.leases.is_empty() {
        return vec![row(session, std::array::from_fn(|_| NOTHING.to_owned()))];
    }
    session.leases.iter().map(|lease| row(session, lease_cells(lease))).collect()
}

fn row(session: &Session, lease: [String; 10]) -> [String; 15] {
    let [database, held, target, in_use, idle, opening, closing, waiting, oldest, mean_hold] = lease;
    [
        human::short_id(&session.id).to_owned(),
        session.node.clone(),
        session.workload.clone(),
        session.state.clone(),
        human::age(session.silent_ms),
        database,
        held,
        target,
        in_use,
        idle,
        opening,
        closing,
        waiting,
        oldest,
        mean_hold,
    ]
}

fn lease_cells(lease: &Lease) -> [String; 10] {
    [
        lease.database.clone(),
        lease.held.to_string(),
        lease.allotment.to_string(),
        lease.in_use.to_string(),
        lease.idle.to_string(),
        lease.opening.to_string(),
        lease.closing.to_string(),
        lease.waiting.to_string(),
        if lease.waiting == 0 { NOTHING.to_owned() } else { human::age(lease.oldest_wait_ms) },
        if lease.mean_hold_us == 0 { NOTHING.to_owned() } else { human::mean(lease.mean_hold_us) },
    ]
}

#[cfg(test)]
mod tests {
    use super::Sessions;
    use crate::commands::samples;
    use crate::output::Report;
    use crate::report::Session;

    fn sessions() -> Sessions {
        Sessions { sessions: samples::sessions().into_iter().map(Session::from).collect() }
    }

    #[test]
    fn one_line_for_each_lease() {
        insta::assert_snapshot!(sessions().text(), @"
        SESSION       NODE       WORKLOAD  STATE        SILENT  DATABASE  HELD  TARGET  IN-USE  IDLE  OPENING  CLOSING  WAITING  OLDEST  MEAN-HOLD
        3f9a2c51d0b4  web-1      default   attached      310ms  billing      1       1       0     1        0        0        0       -          -
        3f9a2c51d0b4  web-1      default   attached      310ms  orders      12      12      10     0        1        1        4    83ms      4.3ms
        a01b2c3d4e5f  ノード二   default   quarantined   2m10s  orders       7       0       0     0        0        0        0       -          -
        bb0000000000  batch-1    default   unattached       4s  -            -       -       -     -        -        -        -       -          -
        cc0000000000  report.py  default   unary         900ms  billing      1       1       0     1        0        0        0       -          -
        ");
    }

    #[test]
    fn json_has_whole_ids_and_every_field() {
        let mut sessions = sessions();
        sessions.sessions.truncate(1);
        insta::assert_snapshot!(serde_json::to_string_pretty(&sessions).unwrap(), @r#"
        {
          "sessions": [
            {
              "id": "3f9a2c51d0b47e8896a1c2d3e4f50617",
              "node": "web-1",
              "workload": "default",
              "state": "attached",
              "silent_ms": 310,
              "ttl_ms": 10000,
              "leases": [
                {
                  "database": "billing",
                  "allotment": 1,
                  "holding": 1,
                  "held": 1,
                  "ceiling": 1,
                  "in_use": 0,
                  "idle": 1,
                  "opening": 0,
                  "closing": 0,
                  "waiting": 0,
                  "oldest_wait_ms": 0,
                  "mean_hold_us": 0
                },
                {
                  "database": "orders",
                  "allotment": 12,
                  "holding": 12,
                  "held": 12,
                  "ceiling": 16,
                  "in_use": 10,
                  "idle": 0,
                  "opening": 1,
                  "closing": 1,
                  "waiting": 4,
                  "oldest_wait_ms": 83,
                  "mean_hold_us": 4310
                }
              ]
            }
          ]
        }
        "#);
    }

    #[test]
    fn nothing_to_list_prints_nothing() {
        assert_eq!(Sessions { sessions: vec![] }.text(), "");
    }
}
