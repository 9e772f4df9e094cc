//! Asks a database, once a second, how many connections it admits and who has
//! them, and reports that in the order that the admission core relies on: first
//! that an observation is about to be made, a while later what it saw.
//!
//! A database that is down at the start or goes away later is reported as down
//! and asked again. Knows nothing of leases, and of a database's protocol only
//! what [`Database`] says; `mysql` speaks it.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};

pub mod mysql;
#[cfg(test)]
mod tests;

/// Time from the announcement of an observation to its query. What nodes have
/// reported by then is what the observation is compared with, so this must
/// cover a report's way to the driver.
pub const REPORT_LEAD: Duration = Duration::from_millis(200);
/// Shortest time from an answer to the next announcement. Reports that belong to
/// the answer may still be on their way; the core judges it after this long, or
/// sooner, and then less surely, if the next observation begins.
pub const REPORT_LAG: Duration = Duration::from_millis(300);
/// Time from one announcement to the next.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The same right after a connect: nothing is granted before the first
/// observations are judged, so a start must not wait for whole intervals.
pub const FIRST_INTERVAL: Duration = Duration::from_millis(500);
/// How many observations after a connect follow each other at [`FIRST_INTERVAL`].
pub const FIRST_OBSERVATIONS: u32 = 3;
/// Longest connect, login and lock included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest observation.
pub const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest orderly close.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest pause after the first failure; doubles with each further one.
pub const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause between two attempts.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Reports that may wait for the driver. No more than one: an announcement that
/// waits behind others would reach the driver after its query was sent.
pub const REPORT_QUEUE: usize = 1;

/// What a probe tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// It is connected. Observations follow.
    Connected {
        /// What keeps it from seeing everything, for people.
        warning: Option<String>,
    },
    /// It sends its query [`REPORT_LEAD`] from now.
    ObservationStarts,
    /// What it saw. Answers the newest `ObservationStarts`.
    Observed(Observation),
    /// It cannot see the database; the observation it announced will not come.
    Down {
        /// Why, for people, on one line.
        error: String,
        /// Another watcher has the database.
        watched_elsewhere: bool,
    },
}

/// A database's connections, counted in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// When the query was sent.
    pub sent: Instant,
    /// What was counted.
    pub counts: Counts,
}

/// What a database says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Its own limit.
    pub max_connections: u32,
    /// Time since it started.
    pub uptime: Duration,
    /// Connections on the fleet's accounts, the probe's own excluded.
    pub fleet: u32,
    /// Connections on other accounts.
    pub others: u32,
}

/// A database that can be asked.
pub trait Database: Send + Sync + 'static {
    /// The one connection over which it is asked.
    type Session: Session;

    /// Connects, within [`CONNECT_TIMEOUT`].
    fn connect(&self) -> impl Future<Output = Result<Self::Session, Error>> + Send;
}

/// The one connection over which a database is asked.
pub trait Session: Send {
    /// What keeps it from seeing everything, for people.
    fn warning(&self) -> Option<String>;

    /// Counts, within [`LOOK_TIMEOUT`].
    fn look(&mut self) -> impl Future<Output = Result<Counts, Error>> + Send;

    /// Closes the connection, within [`CLOSE_TIMEOUT`].
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Why a database could not be asked: one line for people, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: String,
    watched_elsewhere: bool,
}

impl Error {
    /// An error that reads like this.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), watched_elsewhere: false }
    }

    /// Another watcher has the database.
    pub fn watched_elsewhere(message: impl Into<String>) -> Self {
        Self { message: message.into(), watched_elsewhere: true }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Watches a database until the reports' receiver is dropped, and then closes
/// the connection. `name` is for the log.
pub async fn run(name: &str, database: impl Database, reports: mpsc::Sender<Report>) {
    let mut pauses = Pauses::default();
    loop {
        let Outcome::Failed(error) = watch(name, &database, &reports, &mut pauses).await else { return };
        // Whoever takes the report tells people when the state changes; this is each attempt.
        debug!(database = name, %error, "probe failed");
        let Error { message, watched_elsewhere } = error;
        if reports.send(Report::Down { error: message, watched_elsewhere }).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(pauses.next()) => {}
            () = reports.closed() => return,
        }
    }
}

enum Outcome {
    /// Nobody listens any more.
    Closed,
    Failed(Error),
}

/// One connection from its beginning to its end.
async fn watch<D: Database>(
    name: &str,
    database: &D,
    reports: &mpsc::Sender<Report>,
    pauses: &mut Pauses,
) -> Outcome {
    let connected = tokio::select! {
        connected = database.connect() => connected,
        () = reports.closed() => return Outcome::Closed,
    };
    let mut session = match connected {
        Ok(session) => session,
        Err(error) => return Outcome::Failed(error),
    };
    let warning = session.warning();
    if let Some(warning) = &warning {
        warn!(database = name, warning, "probe sees a part only");
    }
    let outcome = tokio::select! {
        error = observe(&mut session, warning, reports, pauses) => match error {
            Some(error) => Outcome::Failed(error),
            None => Outcome::Closed,
        },
        () = reports.closed() => Outcome::Closed,
    };
    session.close().await;
    outcome
}

/// Announces and looks, again and again. Ends with an error, or with `None`
/// when nobody listens.
async fn observe(
    session: &mut impl Session,
    warning: Option<String>,
    reports: &mpsc::Sender<Report>,
    pauses: &mut Pauses,
) -> Option<Error> {
    reports.send(Report::Connected { warning }).await.ok()?;
    let mut observed: u32 = 0;
    loop {
        let started = Instant::now();
        reports.send(Report::ObservationStarts).await.ok()?;
        // Counted from when the driver took the announcement, not from `started`.
        sleep(REPORT_LEAD).await;
        let sent = Instant::now();
        let counts = match session.look().await {
            Ok(counts) => counts,
            Err(error) => return Some(error),
        };
        reports.send(Report::Observed(Observation { sent, counts })).await.ok()?;
        let answered = Instant::now();
        pauses.reset();
        observed = observed.saturating_add(1);
        let interval = if observed < FIRST_OBSERVATIONS { FIRST_INTERVAL } else { PROBE_INTERVAL };
        sleep_until((started + interval).max(answered + REPORT_LAG)).await;
    }
}

/// How long to wait after a failure: up to twice as long after each, at random,
/// so that several probes of one machine do not knock together.
#[derive(Debug, Default)]
struct Pauses {
    failures: u32,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        let longest = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    fn reset(&mut self) {
        self.failures = 0;
    }
}
