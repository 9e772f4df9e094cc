//! `leasehold drain` and `leasehold resume`: stops and restarts grants for a database.

use std::io::Write;

use leasehold_proto::v1::{DrainRequest, ResumeRequest};
use serde::Serialize;

use super::set::counts;
use crate::connect::Connection;
use crate::error::Error;
use crate::output::{Output, Report, human};
use crate::report::Database;

/// The database after the change.
#[derive(Debug, Serialize)]
struct Changed {
    database: Database,
}

/// Stops grants.
pub(super) async fn drain<W: Write>(
    connection: &mut Connection,
    output: &mut Output<W>,
    name: &str,
) -> Result<(), Error> {
    let request = DrainRequest { database: name.to_owned() };
    let reply = connection.change(async |client| client.drain(request).await).await?;
    let database = reply.database.ok_or(Error::Incomplete("database"))?;
    output.show(&Changed { database: Database::from(database) })
}

/// Lets grants go on.
pub(super) async fn resume<W: Write>(
    connection: &mut Connection,
    output: &mut Output<W>,
    name: &str,
) -> Result<(), Error> {
    let request = ResumeRequest { database: name.to_owned() };
    let reply = connection.change(async |client| client.resume(request).await).await?;
    let database = reply.database.ok_or(Error::Incomplete("database"))?;
    output.show(&Changed { database: Database::from(database) })
}

impl Report for Changed {
    fn text(&self) -> String {
        let state = if self.database.draining { "draining, grants nothing" } else { "granting" };
        format!("{}: {state}; {}", human::plain(&self.database.name), counts(&self.database))
    }
}

#[cfg(test)]
mod tests {
    use super::Changed;
    use crate::commands::samples;
    use crate::output::Report;
    use crate::report::Database;

    #[test]
    fn drained_and_resumed() {
        let draining = Changed { database: Database::from(samples::troubled_database()) };
        insta::assert_snapshot!(draining.text(), @"billing: draining, grants nothing; cap 50, held 61, free 0; 11 above the cap");
        let granting = Changed { database: Database::from(samples::database()) };
        insta::assert_snapshot!(granting.text(), @"orders: granting; cap 111, held 90, free 21");
    }
}
