//! The pool that teams have without Leasehold: deadpool, and the plainest
//! manager over the same driver. What the governed pool is compared with.

use std::time::Duration;

use deadpool::{
    Runtime,
    managed::{Manager, Metrics, Object, Pool, PoolError, RecycleResult, TimeoutType, Timeouts},
};
use mysql_async::{Conn, Opts, prelude::Queryable as _};

use crate::{
    arguments::Arguments,
    load::{Failure, Source},
};

/// Longest time for one connect.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);

/// A bare deadpool pool.
pub(crate) struct Direct {
    pool: Pool<Plain>,
}

impl Direct {
    /// A pool as large as the governed one would be.
    pub(crate) fn new(arguments: &Arguments) -> Result<Self, crate::Error> {
        let timeouts =
            Timeouts { wait: Some(arguments.wait_timeout), create: Some(CREATE_TIMEOUT), recycle: None };
        let options = Opts::from_url(&arguments.mysql).map_err(leasehold_client::mysql::Error::Url)?;
        let pool = Pool::builder(Plain { options })
            .max_size(arguments.pool_max.get() as usize)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()?;
        Ok(Self { pool })
    }
}

impl Source for Direct {
    type Checkout = Object<Plain>;

    fn connection(checkout: &mut Self::Checkout) -> &mut Conn {
        checkout
    }

    async fn get(&self) -> Result<Self::Checkout, Failure> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => Failure::from(&error),
            PoolError::Timeout(TimeoutType::Wait) => Failure("wait_timeout".into()),
            PoolError::Timeout(TimeoutType::Create) => Failure("create_timeout".into()),
            PoolError::Timeout(TimeoutType::Recycle) => Failure("recycle_timeout".into()),
            PoolError::Closed => Failure("closed".into()),
            PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => Failure("other".into()),
        })
    }

    fn open(&self) -> usize {
        self.pool.status().size
    }

    async fn close(&self) {
        self.pool.close();
    }
}

/// Connects, and pings a connection before it is used again.
pub(crate) struct Plain {
    options: Opts,
}

impl Manager for Plain {
    type Type = Conn;
    type Error = mysql_async::Error;

    async fn create(&self) -> Result<Conn, mysql_async::Error> {
        Conn::new(self.options.clone()).await
    }

    async fn recycle(&self, connection: &mut Conn, _: &Metrics) -> RecycleResult<mysql_async::Error> {
        Ok(connection.ping().await?)
    }
}
