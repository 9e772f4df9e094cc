//! The pool that a Leasehold server governs: what an application writes.

use std::time::Duration;

use leasehold_client::{
    Checkout, Client, Error, LeasedPool, RecycleFailure,
    mysql::{self, Manager},
};
use mysql_async::Conn;
use tokio::time::{sleep, timeout};

use crate::{
    arguments::Arguments,
    load::{Failure, Source},
};

/// Longest time for one connect, tries again included.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait at the end for cancelled queries to be killed, while there are
/// still connections to kill them with.
const KILL_BOUND: Duration = Duration::from_secs(5);
/// Pause between two looks at that.
const KILL_PAUSE: Duration = Duration::from_millis(20);

/// A session with the server and the one pool under it.
pub(crate) struct Governed {
    client: Client,
    pool: LeasedPool<Manager>,
}

impl Governed {
    /// Connects to the server and builds the pool.
    pub(crate) async fn new(arguments: &Arguments) -> Result<Self, crate::Error> {
        let manager = Manager::from_url(&arguments.mysql)?;
        let mut client = Client::builder().endpoints(arguments.servers.clone()).node(&arguments.node);
        if let Some(workload) = &arguments.workload {
            client = client.workload(workload);
        }
        let client = client.connect().await?;
        let pool = client
            .mysql_pool(&arguments.database, manager)
            .max_size(arguments.pool_max.get())
            .wait_timeout(Some(arguments.wait_timeout))
            .create_timeout(CREATE_TIMEOUT)
            .build()?;
        client.ready(&arguments.database).await?;
        Ok(Self { client, pool })
    }
}

impl Source for Governed {
    type Checkout = Checkout<Manager>;

    fn connection(checkout: &mut Self::Checkout) -> &mut Conn {
        checkout
    }

    async fn get(&self) -> Result<Self::Checkout, Failure> {
        self.pool.get().await.map_err(|error| Failure(name(&error)))
    }

    fn open(&self) -> usize {
        self.pool.status().established as usize
    }

    fn peak_open(&self, _seen: usize) -> usize {
        // The pool itself counts at every open.
        self.pool.statistics().peak_open as usize
    }

    async fn close(&self) {
        let killed = async {
            while self.pool.status().closing > 0 {
                sleep(KILL_PAUSE).await;
            }
        };
        if timeout(KILL_BOUND, killed).await.is_err() {
            tracing::warn!("connections still close at the end");
        }
        if let Err(error) = self.client.shutdown().await {
            tracing::warn!(%error, "the session did not end in order");
        }
    }
}

/// The database's number when it gave one, else what happened.
fn name(error: &Error<mysql::Error>) -> String {
    let (code, name) = match error {
        Error::WaitTimeout { .. } => (None, "wait_timeout"),
        Error::QueueFull { .. } => (None, "queue_full"),
        Error::CreateTimeout { source, .. } => {
            (source.as_ref().and_then(mysql::Error::code), "create_timeout")
        }
        Error::Recycle { source: RecycleFailure::Timeout { .. }, .. } => (None, "recycle_timeout"),
        Error::Recycle { .. } => (None, "recycle"),
        Error::Backend { source, .. } => (source.code(), backend(source)),
        Error::Closed { .. } => (None, "closed"),
        _ => (None, "other"),
    };
    code.map_or_else(|| name.into(), |code| code.to_string())
}

fn backend(error: &mysql::Error) -> &'static str {
    match error {
        mysql::Error::Connect { source: mysql_async::Error::Io(_), .. } => "io",
        mysql::Error::Handshake { .. } => "handshake_timeout",
        mysql::Error::Connect { .. } | mysql::Error::Recycle(_) => "driver",
        mysql::Error::Url(_) => "url",
    }
}
