//! What the server is made of, put together: the store, the driver that owns
//! it, a probe for each watched database, the gRPC API and the pages; and how
//! all of that ends within a bounded time. Decides nothing.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_admission::DatabaseId;
use leasehold_storage::Sled;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::config::{Config, DatabaseConfig};
use crate::driver::{self, DriverHandle};
use crate::probe::{self, Report, mysql::Mysql};
use crate::telemetry::Traces;
use crate::{grpc, http};

mod banner;
mod listen;
mod signals;

pub use banner::Banner;
pub use listen::{Addresses, Listeners};
pub use signals::stop_signal;

/// Longest wait for the driver to close its streams and the store.
const DRIVER_STOP: Duration = Duration::from_secs(5);
/// Longest wait for answers that are under way, once the driver has ended.
const SERVICES_STOP: Duration = Duration::from_secs(2);

/// Why the server does not run, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port cannot be had.
    #[error(transparent)]
    Listen(#[from] listen::Error),
    /// The operating system refused something basic.
    #[error("cannot {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The store cannot be used.
    #[error("cannot keep records in {} (`data` in [server])", path.display())]
    Store {
        /// The store's directory.
        path: PathBuf,
        /// Why.
        source: leasehold_storage::Error,
    },
    /// The driver ended, and with it the knowledge of who holds what.
    #[error(
        "the driver has ended: an invariant is broken, the log says which; nodes go on with what they hold"
    )]
    Driver,
    /// The gRPC API ended.
    #[error("the gRPC API has ended")]
    Grpc(#[source] tonic::transport::Error),
    /// The pages ended.
    #[error("the HTTP pages have ended")]
    Http(#[source] io::Error),
    /// A part ended without saying why.
    #[error("{part} ended by itself")]
    Ended {
        /// The part.
        part: &'static str,
    },
}

/// Runs a server until `stop` completes, and then ends it in order. `started`
/// is called once, when it takes calls.
///
/// Errors: the store cannot be used; or a part of the server ends by itself.
pub async fn run(
    mut config: Config,
    listeners: Listeners,
    traces: Traces,
    started: impl FnOnce(&Banner<'_>),
    stop: impl Future<Output = &'static str>,
) -> Result<(), Error> {
    let addresses =
        listeners.addresses().map_err(|source| Error::System { operation: "name the ports", source })?;
    (config.server.listen, config.server.http) = (addresses.grpc, addresses.http);

    let (driver, driver_task) = start_driver(&config, traces).await?;
    let (stop_parts, stopped) = watch::channel(false);
    let probes = start_probes(&config.databases, &driver, &stopped);
    let services = Services::start(listeners, &driver, &stopped);
    started(&Banner { config: &config, generation: driver.generation() });

    let mut parts = Parts { stop: stop_parts, driver, driver_task, probes, services };
    let outcome = parts.until(stop).await;
    parts.stop().await;
    outcome
}

async fn start_driver(config: &Config, traces: Traces) -> Result<(DriverHandle, JoinHandle<()>), Error> {
    let path = config.server.data.clone();
    let refused = |source| Error::Store { path: path.clone(), source };
    let opening = path.clone();
    // Opening reads the whole log from disk.
    let opened = spawn_blocking(move || Sled::open(opening)).await;
    let store = opened.expect("opening a store does not panic").map_err(refused)?;
    driver::start(Box::new(store), &config.databases, traces).await.map_err(refused)
}

/// Raised when everything is to end.
type Stopped = watch::Receiver<bool>;

/// A probe for each watched database, and a task that hands its reports on.
fn start_probes(databases: &[DatabaseConfig], driver: &DriverHandle, stopped: &Stopped) -> JoinSet<()> {
    let mut probes = JoinSet::new();
    for database in databases {
        let name = database.name.as_str();
        let (Some(watched), Some(id)) = (database.watched(), driver.database(name)) else { continue };
        let (sender, reports) = mpsc::channel(probe::REPORT_QUEUE);
        let (name, target) = (name.to_owned(), Mysql::new(watched));
        probes.spawn(async move { probe::run(&name, target, sender).await });
        probes.spawn(hand_on(reports, driver.clone(), id, raised(stopped.clone())));
    }
    probes
}

/// Ends with the driver or at the stop. Then the receiver is dropped, which
/// tells the probe to close its connection.
async fn hand_on(
    mut reports: mpsc::Receiver<Report>,
    driver: DriverHandle,
    database: DatabaseId,
    stop: impl Future<Output = ()>,
) {
    let forward = async {
        while let Some(report) = reports.recv().await {
            if driver.report(database, report).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = forward => {}
        () = stop => {}
    }
}

/// What answers on the two ports.
struct Services {
    grpc: JoinHandle<Result<(), tonic::transport::Error>>,
    http: JoinHandle<io::Result<()>>,
}

impl Services {
    fn start(listeners: Listeners, driver: &DriverHandle, stopped: &Stopped) -> Self {
        let grpc = tokio::spawn(grpc::serve(listeners.grpc, driver.clone(), raised(stopped.clone())));
        let http = tokio::spawn(http::serve(listeners.http, driver.clone(), raised(stopped.clone())));
        Self { grpc, http }
    }
}

async fn raised(mut flag: Stopped) {
    // An error says that whoever could raise it is gone, which is as good.
    let _ = flag.wait_for(|raised| *raised).await;
}

/// Everything that runs.
struct Parts {
    stop: watch::Sender<bool>,
    driver: DriverHandle,
    driver_task: JoinHandle<()>,
    probes: JoinSet<()>,
    services: Services,
}

impl Parts {
    /// Waits for the stop, or for a part that ends although it should not.
    async fn until(&mut self, stop: impl Future<Output = &'static str>) -> Result<(), Error> {
        tokio::select! {
            why = stop => {
                info!(why, "stopping");
                Ok(())
            }
            _ = &mut self.driver_task => Err(Error::Driver),
            ended = &mut self.services.grpc => Err(match ended {
                Ok(Err(source)) => Error::Grpc(source),
                Ok(Ok(())) | Err(_) => Error::Ended { part: "the gRPC API" },
            }),
            ended = &mut self.services.http => Err(match ended {
                Ok(Err(source)) => Error::Http(source),
                Ok(Ok(())) | Err(_) => Error::Ended { part: "the HTTP server" },
            }),
        }
    }

    /// Ends everything, each part within a bound: nodes keep streams open for
    /// as long as they live, and would keep the server up as long.
    async fn stop(self) {
        let Self { stop, driver, driver_task, mut probes, services } = self;
        // An error says that there is nobody left to end.
        let _ = stop.send(true);
        if !driver_task.is_finished() {
            driver.stop().await;
            if timeout(DRIVER_STOP, driver_task).await.is_err() {
                // What was acknowledged is durable; what was not, nobody relies on.
                error!("the store did not close in time");
            }
        }
        let (grpc, http) = (services.grpc, services.http);
        let aborts = [grpc.abort_handle(), http.abort_handle()];
        let ended = async {
            let _ = grpc.await;
            let _ = http.await;
            while probes.join_next().await.is_some() {}
        };
        if timeout(SERVICES_STOP, ended).await.is_err() {
            warn!("some connections did not end in time and are cut");
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
        info!("stopped");
    }
}
