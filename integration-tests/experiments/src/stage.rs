//! A database and a server for one experiment. Knows nothing of nodes.

use std::{io, sync::OnceLock, time::Duration};

use leasehold_integration_tests::{mariadb::MariaDb, processors, server::Server, wait::eventually};
use leasehold_proto::v1::{SetOverrideRequest, admin_service_client::AdminServiceClient};
use rustix::thread::CpuSet;

/// The database's name at the server.
pub(crate) const DATABASE: &str = "orders";
/// The nodes' account at the database.
pub(crate) const ACCOUNT: &str = "app";
/// What is kept back of the database's connections.
const RESERVE: u32 = 20;
/// The workload of nodes that are not told apart.
pub(crate) const DEFAULT: &str = "default";
/// Longest time for the server to see the database, or to change its mode.
const BOUND: Duration = Duration::from_secs(20);

/// Who gets a token next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Unfair,
    Strict,
    Fair,
}

impl Mode {
    pub(crate) const ALL: [Mode; 3] = [Mode::Unfair, Mode::Strict, Mode::Fair];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Mode::Unfair => "unfair",
            Mode::Strict => "strict",
            Mode::Fair => "fair(100 ms)",
        }
    }

    /// What the server calls it.
    const fn admission(self) -> &'static str {
        match self {
            Mode::Unfair => "unfair",
            Mode::Strict => "strict",
            Mode::Fair => "fair",
        }
    }

    fn settings(self) -> String {
        let quantum = if self == Mode::Fair { "quantum = \"100ms\"" } else { "" };
        format!("admission = \"{}\"\n{quantum}", self.admission())
    }
}

/// The processors of databases; none where there is one for all.
static OF_DATABASES: OnceLock<CpuSet> = OnceLock::new();

/// Keeps one half of the processors for databases, as if they were on a machine of their
/// own. All that is started from now on has the other half.
pub(crate) fn part_processors() -> io::Result<()> {
    if let Some((others, databases)) = processors::halves()? {
        processors::keep(std::process::id(), &others)?;
        OF_DATABASES.get_or_init(|| databases);
    }
    Ok(())
}

/// A database that admits `cap` connections to the fleet.
pub(crate) async fn database(cap: u32) -> MariaDb {
    let database = MariaDb::start_with(cap + RESERVE, &["--back-log=1000"]).await;
    if let Some(processors) = OF_DATABASES.get() {
        database.keep_to(processors);
    }
    database
}

/// A server that leases them.
pub(crate) async fn server(database: &MariaDb, cap: u32, mode: Mode) -> Server {
    server_among(database, cap, mode, "").await
}

/// A server that leases them among `workloads`, as the configuration says it.
pub(crate) async fn server_among(database: &MariaDb, cap: u32, mode: Mode, workloads: &str) -> Server {
    let (url, settings) = (database.url("leasehold"), mode.settings());
    let server = Server::start(&format!(
        "[databases.{DATABASE}]\nurl = \"{url}\"\naccounts = [\"{ACCOUNT}\"]\nreserve = {RESERVE}\n{settings}\n\
         {workloads}"
    ))
    .await;
    server.shows(DATABASE, BOUND, "the cap", |shown| shown.cap == cap).await;
    server
}

/// Changes who gets a token next, live. On a disk that stalls this takes its time.
pub(crate) async fn change(server: &Server, mode: Mode) {
    let change = SetOverrideRequest {
        database: DATABASE.to_owned(),
        admission: Some(mode.admission().to_owned()),
        ..SetOverrideRequest::default()
    };
    eventually(BOUND, "the mode to be changed", async || {
        let mut admin = AdminServiceClient::new(server.channel());
        admin.set_override(change.clone()).await.is_ok()
    })
    .await;
}
