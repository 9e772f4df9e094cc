//! A node in the test's own process: a session of the client library and its
//! pool, for tests that hold connections by hand or want many nodes at small
//! cost. Knows nothing of how many connections there are.

use leasehold_client::{
    Checkout, Client, LeasedPool,
    mysql::{Hooks, Manager},
};
use tokio::task::JoinSet;

use crate::node::DATABASE;

/// Most connections of its pool.
pub const POOL_SIZE: u32 = 40;

/// A session and its pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// The session.
    pub client: Client,
    /// Its only pool.
    pub pool: LeasedPool<Manager>,
}

impl Member {
    /// Joins the fleet of the Leasehold server at `server`, with connections to
    /// the database at `mysql`.
    pub async fn join(server: &str, mysql: &str, name: &str) -> Self {
        Self::join_with(server, mysql, name, POOL_SIZE).await
    }

    /// The same with a pool of another size.
    pub async fn join_with(server: &str, mysql: &str, name: &str, max_size: u32) -> Self {
        let client = Client::builder().endpoint(server).node(name).connect().await.expect("a session");
        let manager = Manager::from_url(mysql).expect("the database's URL");
        let pool = client.pool(DATABASE, manager).hooks(Hooks).max_size(max_size).build().expect("a pool");
        client.ready(DATABASE).await.expect("the server knows the database");
        Self { client, pool }
    }

    /// Takes connections out, all asked for at once.
    pub async fn take(&self, count: usize) -> Vec<Checkout<Manager>> {
        let mut asked = JoinSet::new();
        for _ in 0..count {
            let pool = self.pool.clone();
            asked.spawn(async move { pool.get().await.expect("a connection") });
        }
        asked.join_all().await
    }
}
