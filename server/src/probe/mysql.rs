//! Speaks to `MySQL` and `MariaDB` for the probe, over one connection that also
//! holds the lock that makes this server the only one for the database.
//!
//! What counts against `max_connections`, as tried on `MariaDB` 10.11: every client
//! connection from its acceptance on, so also those that have not logged in yet
//! (`unauthenticated user`). The threads of the event scheduler and of
//! replication appear in the process list but not in the count; a replica that
//! reads from this database is an ordinary client. Connections through
//! `extra_port` have a limit of their own but cannot be told apart in the process
//! list: they count here, on the safe side.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, IoError, OptsBuilder};
use tokio::time::timeout;

use super::{CLOSE_TIMEOUT, CONNECT_TIMEOUT, Counts, Database, Error, LOOK_TIMEOUT, PROBE_INTERVAL, Session};
use crate::config::{DatabaseUrl, Watched};

/// Name of the lock on the database server. One holder, one Leasehold.
const LOCK: &str = "leasehold";

/// The database closes the probe's connection after this long without a query.
/// Without it, a connection that died silently, as behind a cut network, would
/// hold the lock for hours and keep its own successor out.
const IDLE_LIMIT: Duration = Duration::from_secs(15);
const _: () = assert!(IDLE_LIMIT.as_secs() > PROBE_INTERVAL.as_secs() + LOOK_TIMEOUT.as_secs());

/// Threads of the database itself, under the names that the process list gives them.
const SYSTEM_THREADS: [&str; 2] = ["system user", "event_scheduler"];

/// Connections that have not logged in yet. They are the fleet's until they
/// show otherwise: a fleet that connects must not lower its own cap.
const NOT_LOGGED_IN: &str = "unauthenticated user";

/// `ER_CON_COUNT_ERROR`: too many connections.
const TOO_MANY_CONNECTIONS: u16 = 1040;
/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`: a privilege is missing.
const PRIVILEGE_MISSING: u16 = 1227;

/// Names what the privilege lets one see, and fails without it. (The table of
/// privileges does not show those that come from a role.)
const NEEDS_PROCESS: &str = "SELECT 1 FROM information_schema.innodb_trx LIMIT 1";
const MAX_CONNECTIONS: &str = "SELECT @@GLOBAL.max_connections";
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'Threads_connected')";
/// Names are compared as bytes: the column's collation would take `App` for `app`.
const ACCOUNTS: &str = "SELECT CAST(user AS BINARY), COUNT(*) FROM information_schema.processlist \
                        WHERE id <> CONNECTION_ID() GROUP BY CAST(user AS BINARY)";

/// A database that speaks `MySQL`'s protocol.
#[derive(Debug, Clone)]
pub struct Mysql {
    url: DatabaseUrl,
    accounts: Vec<String>,
}

impl Mysql {
    /// The database that the configuration names.
    pub fn new(watched: &Watched) -> Self {
        Self { url: watched.url.clone(), accounts: watched.accounts.clone() }
    }
}

impl Database for Mysql {
    type Session = MysqlSession;

    async fn connect(&self) -> Result<MysqlSession, Error> {
        let address = self.url.address();
        // The driver's own timeouts end with the TCP connect; a stopped server
        // accepts that and never greets.
        match timeout(CONNECT_TIMEOUT, self.open()).await {
            Ok(opened) => opened,
            Err(_) => {
                Err(Error::new(format!("{address} did not let the probe in within {CONNECT_TIMEOUT:?}")))
            }
        }
    }
}

impl Mysql {
    async fn open(&self) -> Result<MysqlSession, Error> {
        let address = self.url.address();
        let options =
            OptsBuilder::from_opts(self.url.options().clone()).prefer_socket(false).stmt_cache_size(0);
        let connection = Conn::new(options).await.map_err(|error| cannot_connect(&address, &error))?;
        let mut session = MysqlSession {
            address,
            accounts: self.accounts.clone(),
            sees_all: false,
            connection: Some(connection),
        };
        match session.prepare().await {
            Ok(()) => Ok(session),
            Err(error) => {
                session.close().await;
                Err(error)
            }
        }
    }
}

/// The probe's connection.
#[derive(Debug)]
pub struct MysqlSession {
    address: String,
    accounts: Vec<String>,
    /// The account has the PROCESS privilege.
    sees_all: bool,
    /// Gone once it is closed.
    connection: Option<Conn>,
}

impl MysqlSession {
    /// Makes the fresh connection the only one of its kind.
    async fn prepare(&mut self) -> Result<(), Error> {
        self.execute(format!("SET SESSION wait_timeout = {}", IDLE_LIMIT.as_secs())).await?;
        let lock: Option<Option<i64>> = self.first(format!("SELECT GET_LOCK('{LOCK}', 0)")).await?;
        if lock.flatten() != Some(1) {
            let holder: Option<Option<u64>> = self.first(format!("SELECT IS_USED_LOCK('{LOCK}')")).await?;
            let holder =
                holder.flatten().map_or_else(String::new, |id| format!(" (its connection there is {id})"));
            return Err(Error::watched_elsewhere(format!(
                "{} is already watched by another Leasehold server, or by another entry of this one{holder}: \
                 one database, one watcher",
                self.address
            )));
        }
        self.sees_all = self.has_process_privilege().await?;
        Ok(())
    }

    async fn has_process_privilege(&mut self) -> Result<bool, Error> {
        let answer: Result<Option<i64>, mysql_async::Error> =
            self.connection()?.query_first(NEEDS_PROCESS).await;
        match answer {
            Ok(_) => Ok(true),
            Err(mysql_async::Error::Server(error)) if error.code == PRIVILEGE_MISSING => Ok(false),
            Err(error) => Err(failed(&self.address, &error)),
        }
    }

    async fn count(&mut self) -> Result<Counts, Error> {
        let max_connections: Option<u64> = self.first(MAX_CONNECTIONS.to_owned()).await?;
        let status = Status::from_rows(&self.rows(STATUS).await?);
        let (Some(max_connections), Some(status)) = (max_connections, status) else {
            return Err(Error::new(format!(
                "{} does not tell its limit, uptime and connections",
                self.address
            )));
        };
        let (fleet, others) = if self.sees_all {
            let accounts: Vec<(Vec<u8>, u64)> = self.rows(ACCOUNTS).await?;
            divide(&accounts, &self.accounts)
        } else {
            // Everything counts as the fleet's; one of them is the probe itself.
            (status.connected.saturating_sub(1), 0)
        };
        Ok(Counts {
            max_connections: saturate(max_connections),
            uptime: status.uptime,
            fleet: saturate(fleet),
            others: saturate(others),
        })
    }

    async fn execute(&mut self, query: String) -> Result<(), Error> {
        let answer = self.connection()?.query_drop(query).await;
        answer.map_err(|error| failed(&self.address, &error))
    }

    async fn first<T>(&mut self, query: String) -> Result<Option<T>, Error>
    where
        T: mysql_async::prelude::FromRow + Send + 'static,
    {
        let answer = self.connection()?.query_first(query).await;
        answer.map_err(|error| failed(&self.address, &error))
    }

    async fn rows<T>(&mut self, query: &str) -> Result<Vec<T>, Error>
    where
        T: mysql_async::prelude::FromRow + Send + 'static,
    {
        let answer = self.connection()?.query(query).await;
        answer.map_err(|error| failed(&self.address, &error))
    }

    fn connection(&mut self) -> Result<&mut Conn, Error> {
        let closed = || Error::new(format!("the probe's connection to {} is closed", self.address));
        self.connection.as_mut().ok_or_else(closed)
    }
}

impl Session for MysqlSession {
    fn warning(&self) -> Option<String> {
        (!self.sees_all).then(|| {
            format!(
                "the probe's account at {} lacks the PROCESS privilege: connections cannot be told apart by account, \
                 and all count as the fleet's; GRANT PROCESS ON *.* TO it and restart",
                self.address
            )
        })
    }

    async fn look(&mut self) -> Result<Counts, Error> {
        match timeout(LOOK_TIMEOUT, self.count()).await {
            Ok(counts) => counts,
            Err(_) => {
                Err(Error::new(format!("{} did not answer the probe within {LOOK_TIMEOUT:?}", self.address)))
            }
        }
    }

    async fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            disconnect(connection).await;
        }
    }
}

impl Drop for MysqlSession {
    /// For a probe that was given up in the middle. The driver's own drop would
    /// wait for a pending answer, and so hold the lock, without a bound.
    fn drop(&mut self) {
        if let (Some(connection), Ok(runtime)) =
            (self.connection.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(disconnect(connection));
        }
    }
}

async fn disconnect(connection: Conn) {
    // Whatever goes wrong, the socket is closed afterwards, and then the
    // database ends the connection and its lock by itself.
    let _ = timeout(CLOSE_TIMEOUT, connection.disconnect()).await;
}

struct Status {
    uptime: Duration,
    connected: u64,
}

impl Status {
    fn from_rows(rows: &[(String, String)]) -> Option<Self> {
        let number = |wanted: &str| {
            let (_, value) = rows.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
            value.parse::<u64>().ok()
        };
        Some(Self { uptime: Duration::from_secs(number("Uptime")?), connected: number("Threads_connected")? })
    }
}

/// Splits client connections, counted per account, into the fleet's and others'.
fn divide(counted: &[(Vec<u8>, u64)], fleet_accounts: &[String]) -> (u64, u64) {
    let mut fleet = 0_u64;
    let mut others = 0_u64;
    for (account, count) in counted {
        let is = |name: &str| account == name.as_bytes();
        if SYSTEM_THREADS.into_iter().any(is) {
            continue;
        }
        if fleet_accounts.is_empty() || is(NOT_LOGGED_IN) || fleet_accounts.iter().any(|name| is(name)) {
            fleet += count;
        } else {
            others += count;
        }
    }
    (fleet, others)
}

fn saturate(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn cannot_connect(address: &str, error: &mysql_async::Error) -> Error {
    if let mysql_async::Error::Server(server) = error
        && server.code == TOO_MANY_CONNECTIONS
    {
        return Error::new(format!("{address} has no connection left for the probe (1040): raise `reserve`"));
    }
    Error::new(format!("cannot connect to {address}: {}", reason(error)))
}

fn failed(address: &str, error: &mysql_async::Error) -> Error {
    Error::new(format!("{address} failed the probe's query: {}", reason(error)))
}

/// The driver's errors wrap each other and quote the inner one each time: this
/// is the innermost alone. Never shows data that came along with the error.
fn reason(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Io(IoError::Io(error)) => error.to_string(),
        mysql_async::Error::Server(error) => format!("{} ({})", error.message, error.code),
        mysql_async::Error::Driver(DriverError::ConnectionClosed) => {
            "the database closed the connection".to_owned()
        }
        mysql_async::Error::Driver(DriverError::FromRow { .. } | DriverError::FromValue { .. }) => {
            "an answer has an unexpected form".to_owned()
        }
        mysql_async::Error::Driver(error) => error.to_string(),
        mysql_async::Error::Other(error) => error.to_string(),
        mysql_async::Error::Url(_) => "its url cannot be used".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(accounts: &[(&str, u64)]) -> Vec<(Vec<u8>, u64)> {
        accounts.iter().map(|(name, count)| (name.as_bytes().to_vec(), *count)).collect()
    }

    fn check(accounts: &[(&str, u64)], fleet_accounts: &[&str], expected: (u64, u64)) {
        let fleet_accounts: Vec<String> = fleet_accounts.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(
            divide(&counted(accounts), &fleet_accounts),
            expected,
            "{accounts:?} with {fleet_accounts:?}"
        );
    }

    #[test]
    fn accounts_are_told_apart() {
        check(&[("app", 5), ("backup", 2)], &["app"], (5, 2));
        check(&[("app", 5), ("backup", 2)], &[], (7, 0));
        check(&[("App", 1), ("app", 5)], &["app"], (5, 1));
        check(&[], &["app"], (0, 0));
    }

    #[test]
    fn the_databases_own_threads_take_no_connection() {
        check(&[("system user", 4), ("event_scheduler", 1), ("app", 1)], &["app"], (1, 0));
        check(&[("system user", 4), ("event_scheduler", 1), ("app", 1)], &[], (1, 0));
    }

    #[test]
    fn who_has_not_logged_in_may_be_a_node() {
        check(&[("unauthenticated user", 3), ("app", 1)], &["app"], (4, 0));
    }

    #[test]
    fn errors_are_one_line_without_quotes_of_quotes() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = cannot_connect("db:3306", &mysql_async::Error::Io(IoError::Io(refused)));
        assert_eq!(error.to_string(), "cannot connect to db:3306: connection refused");
    }
}
