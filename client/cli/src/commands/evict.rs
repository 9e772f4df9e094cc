//! `leasehold evict`: ends a session at once.

use std::io::Write;

use leasehold_proto::v1::EvictRequest;
use serde::Serialize;

use crate::args::SessionPrefix;
use crate::connect::Connection;
use crate::error::Error;
use crate::output::{Output, Report, human};
use crate::report::{Lease, Session};

/// The session as it was.
#[derive(Debug, Serialize)]
struct Evicted {
    session: Session,
}

/// Ends the session and shows what it held.
pub(super) async fn run<W: Write>(
    connection: &mut Connection,
    output: &mut Output<W>,
    session: &SessionPrefix,
) -> Result<(), Error> {
    let request = EvictRequest { session: session.to_string() };
    let reply = connection.change(async |client| client.evict(request).await).await?;
    let session = reply.session.ok_or(Error::Incomplete("session"))?;
    output.show(&Evicted { session: Session::from(session) })
}

impl Report for Evicted {
    fn text(&self) -> String {
        let Session { id, node, state, leases, .. } = &self.session;
        let text =
            format!("evicted {state} session {} of node {node}: {}", human::short_id(id), freed(leases));
        human::plain(&text).into_owned()
    }
}

/// "12 tokens of orders and 1 token of billing are free".
fn freed(leases: &[Lease]) -> String {
    let freed: Vec<String> = leases
        .iter()
        .filter(|lease| lease.held > 0)
        .map(|lease| format!("{} of {}", human::count(lease.held, "token"), lease.database))
        .collect();
    match freed.as_slice() {
        [] => "it held nothing".to_owned(),
        freed => format!("freed {}", freed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::Evicted;
    use crate::commands::samples;
    use crate::output::Report;
    use crate::report::Session;

    #[test]
    fn what_was_freed_is_said() {
        let texts: Vec<String> = samples::sessions()
            .into_iter()
            .map(|session| Evicted { session: Session::from(session) }.text())
            .collect();
        insta::assert_snapshot!(texts.join("\n"), @"
        evicted attached session 3f9a2c51d0b4 of node web-1: freed 1 token of billing, 12 tokens of orders
        evicted quarantined session a01b2c3d4e5f of node ノード二: freed 7 tokens of orders
        evicted unattached session bb0000000000 of node batch-1: it held nothing
        evicted unary session cc0000000000 of node report.py: freed 1 token of billing
        ");
    }
}
