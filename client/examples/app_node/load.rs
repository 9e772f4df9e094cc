//! The load: tasks that take a connection, query and give it back until told
//! to stop. Knows pools only as a `Source`.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use mysql_async::{Conn, prelude::Queryable as _};
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing::{Instrument as _, info_span};

use crate::report::Record;

/// How long queries that run at the end may go on.
const DRAIN_BOUND: Duration = Duration::from_secs(5);
/// How long a checkout may go on at the end.
const CHECKOUT_GRACE: Duration = Duration::from_millis(500);
/// A task whose checkout or query failed pauses for so long, as applications do.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(10);

/// Where connections come from.
pub(crate) trait Source: Send + Sync + 'static {
    /// A connection, given back when dropped.
    type Checkout: Send;

    /// The connection that was taken out.
    fn connection(checkout: &mut Self::Checkout) -> &mut Conn;

    /// Takes a connection out.
    fn get(&self) -> impl Future<Output = Result<Self::Checkout, Failure>> + Send;

    /// How many connections are open.
    fn open(&self) -> usize;

    /// Most connections that were open at once; `seen` is the most that a
    /// checkout saw.
    fn peak_open(&self, seen: usize) -> usize {
        seen
    }

    /// Closes everything and gives everything back.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Why a checkout or a query failed: the database's number, or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<&mysql_async::Error> for Failure {
    fn from(error: &mysql_async::Error) -> Self {
        Self(match error {
            mysql_async::Error::Server(answer) => answer.code.to_string(),
            mysql_async::Error::Io(_) => "io".into(),
            mysql_async::Error::Driver(_) => "driver".into(),
            mysql_async::Error::Url(_) => "url".into(),
            mysql_async::Error::Other(_) => "other".into(),
        })
    }
}

/// What the tasks do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) tasks: usize,
    pub(crate) query: &'a str,
}

/// Runs `load` on `source` until `stop` ends; then lets queries that run end,
/// and gives up waits for a connection.
pub(crate) async fn run<S: Source>(
    source: &Arc<S>,
    load: Load<'_>,
    record: &Arc<Record>,
    stop: impl Future<Output = ()>,
) {
    let (stopping, stopped) = watch::channel(false);
    let query: Arc<str> = Arc::from(load.query);
    let mut tasks = JoinSet::new();
    for _ in 0..load.tasks {
        let task = Task {
            source: Arc::clone(source),
            query: Arc::clone(&query),
            record: Arc::clone(record),
            stopped: stopped.clone(),
        };
        tasks.spawn(task.run());
    }
    stop.await;
    let _no_tasks = stopping.send(true);
    let drained = tokio::time::timeout(DRAIN_BOUND, async {
        while let Some(ended) = tasks.join_next().await {
            report_panic(ended);
        }
    });
    if drained.await.is_err() {
        tracing::warn!("queries still run at the end; they are cancelled");
        tasks.shutdown().await;
    }
}

struct Task<S> {
    source: Arc<S>,
    query: Arc<str>,
    record: Arc<Record>,
    stopped: watch::Receiver<bool>,
}

impl<S: Source> Task<S> {
    async fn run(mut self) {
        while !*self.stopped.borrow() {
            // One span for each request of the application, the root of the
            // trace that goes on to the server and the database.
            let request = self.request().instrument(info_span!("app.request"));
            if let Err(failure) = request.await {
                tracing::debug!(%failure, "request failed");
                self.record.failed(failure.0);
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    async fn request(&mut self) -> Result<(), Failure> {
        let asked = Instant::now();
        let mut checkout = tokio::select! {
            checkout = self.source.get() => checkout?,
            () = given_up(&mut self.stopped) => return Ok(()),
        };
        let got = Instant::now();
        self.record.checked_out(got - asked, self.source.open());
        let answer = S::connection(&mut checkout).query_drop(&*self.query).await;
        drop(checkout);
        self.record.returned(got.elapsed());
        answer.map_err(|error| Failure::from(&error))
    }
}

/// Ends some time after the stop: a checkout that is about to connect or to
/// test its connection shall do so, for to drop it then costs the connection.
async fn given_up(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
    tokio::time::sleep(CHECKOUT_GRACE).await;
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a task of the load failed");
    }
}
