//! The pool of a node: one that Leasehold governs, or deadpool's own of a fixed
//! size. Knows nothing of loads.

use std::{
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use deadpool::{
    Runtime,
    managed::{self, Metrics, RecycleResult},
};
use leasehold_client::{
    Client, LeasedPool,
    clock::{Clock, Time},
    mysql::{Manager, Recycle},
};
use mysql_async::{Conn, Opts, prelude::Queryable as _};

use crate::plan::Plan;

/// Longest time for one connect: a process with thousands of ready tasks may take
/// seconds to come to one of them again.
const CREATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a node's connections come from.
pub(crate) enum Pool {
    Leased { client: Client, pool: LeasedPool<Manager> },
    Fixed(managed::Pool<Plain>),
}

impl Pool {
    pub(crate) async fn build(plan: &Plan) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let Some(server) = &plan.server else {
            let manager = Plain { options: Opts::from_url(&plan.mysql)?, opens: AtomicU64::new(0) };
            let pool =
                managed::Pool::builder(manager).max_size(plan.pool_max as usize).runtime(Runtime::Tokio1);
            return Ok(Self::Fixed(pool.build()?));
        };
        let client = Client::builder()
            .endpoints([server.clone()])
            .node(&plan.node)
            .workload(&plan.workload)
            .connect()
            .await?;
        let manager = Manager::from_url(&plan.mysql)?;
        // As the pool of a fixed size does.
        let manager = manager.connect_timeout(CREATE_TIMEOUT).recycle_by(Recycle::Fast);
        let pool = client
            .mysql_pool(&plan.database, manager)
            .max_size(plan.pool_max)
            .wait_timeout(None)
            .create_timeout(CREATE_TIMEOUT)
            .build()?;
        client.ready(&plan.database).await?;
        Ok(Self::Leased { client, pool })
    }

    /// Runs `query`; says when the connection was there, when the answer was,
    /// and when the connection was back.
    ///
    /// Errors: there was no connection, or no answer.
    pub(crate) async fn query(
        &self,
        query: &str,
        clock: &Clock,
    ) -> Result<(Time, Time, Time), Box<dyn Error + Send + Sync>> {
        match self {
            Self::Leased { pool, .. } => {
                let mut connection = pool.get().await?;
                let got = clock.now();
                connection.query_drop(query).await?;
                let done = clock.now();
                drop(connection);
                Ok((got, done, clock.now()))
            }
            Self::Fixed(pool) => {
                let mut connection = pool.get().await?;
                let got = clock.now();
                connection.query_drop(query).await?;
                let done = clock.now();
                drop(connection);
                Ok((got, done, clock.now()))
            }
        }
    }

    /// Connections opened so far.
    pub(crate) fn opens(&self) -> u64 {
        match self {
            Self::Leased { pool, .. } => pool.statistics().opens,
            Self::Fixed(pool) => pool.manager().opens.load(Ordering::Relaxed),
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Leased { client, .. } => {
                if let Err(error) = client.shutdown().await {
                    eprintln!("the session did not end in order: {error}");
                }
            }
            Self::Fixed(pool) => pool.close(),
        }
    }
}

/// Connects, and nothing else.
pub(crate) struct Plain {
    options: Opts,
    opens: AtomicU64,
}

impl managed::Manager for Plain {
    type Type = Conn;
    type Error = mysql_async::Error;

    async fn create(&self) -> Result<Conn, mysql_async::Error> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        Conn::new(self.options.clone()).await
    }

    async fn recycle(&self, _connection: &mut Conn, _: &Metrics) -> RecycleResult<mysql_async::Error> {
        Ok(())
    }
}
