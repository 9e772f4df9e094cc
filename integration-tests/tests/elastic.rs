//! A busy node bursts into everything that the others leave idle, and gives it
//! back when they ask.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_client::{
    Checkout, Client, LeasedPool,
    mysql::{Hooks, Manager},
};
use leasehold_integration_tests::{
    figures::measured,
    fleet::{ACCOUNT, DATABASE, Fleet, Terms},
    stage::Stage,
    wait::{eventually, now},
};
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

const CAP: usize = 30;
/// How soon a node must have what it asks for.
const BOUND: Duration = Duration::from_secs(1);
/// Tasks of a busy node: more than there are connections.
const TASKS: usize = 2 * CAP;

/// A node in this process: a session and its pool.
struct Member {
    client: Client,
    pool: LeasedPool<Manager>,
}

impl Member {
    async fn join(fleet: &Fleet, name: &str) -> Self {
        let client =
            Client::builder().endpoint(fleet.server.url()).node(name).connect().await.expect("a session");
        let manager = Manager::from_url(&fleet.database.url(ACCOUNT)).expect("the database's URL");
        let pool = client.pool(DATABASE, manager).hooks(Hooks).max_size(40).build().expect("a pool");
        client.ready(DATABASE).await.expect("the server knows the database");
        Self { client, pool }
    }

    /// Takes connections out, all asked for at once.
    async fn take(&self, count: usize) -> Vec<Checkout<Manager>> {
        let mut asked = JoinSet::new();
        for _ in 0..count {
            let pool = self.pool.clone();
            asked.spawn(async move { pool.get().await.expect("a connection") });
        }
        asked.join_all().await
    }
}

/// Queries without end until it is dropped.
struct Work {
    done: Arc<AtomicBool>,
    queries: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Work {
    fn start(member: &Member) -> Self {
        let mut work = Self { done: Arc::default(), queries: Arc::default(), tasks: JoinSet::new() };
        for _ in 0..TASKS {
            let (pool, done, queries) =
                (member.pool.clone(), Arc::clone(&work.done), Arc::clone(&work.queries));
            work.tasks.spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let mut connection = pool.get().await.expect("a connection");
                    connection.query_drop("SELECT SLEEP(0.01)").await.expect("a query");
                    queries.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        work
    }

    async fn end(mut self) {
        self.done.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task.expect("a task of the load");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_gets_what_others_leave_idle_and_gives_it_back() {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(Terms::default()).await;
    let busy = Member::join(&fleet, "busy").await;
    let mut others = Vec::new();
    for name in ["one", "two", "three"] {
        others.push(Member::join(&fleet, name).await);
    }

    let all = in_time("one node takes the whole free cap", busy.take(CAP)).await;
    drop(all);
    // Idle connections of others are as good as free ones.
    for other in &others {
        let some = in_time("another takes a third from the idle node", other.take(CAP / 3)).await;
        drop(some);
    }
    let all = in_time("the first takes all back from three idle nodes", busy.take(CAP)).await;
    // Nobody looks into the database here: whoever does is counted, and the cap
    // is one lower for a second.
    assert_eq!(busy.pool.status().established, CAP as u32);
    drop(all);

    let work = Work::start(&busy);
    eventually(BOUND, "the busy node to use all", async || busy.pool.status().in_use == CAP as u32).await;
    let mut taken = Vec::new();
    for other in &others {
        taken.push(in_time("another takes a sixth from the busy node", other.take(CAP / 6)).await);
    }
    // What they took is the busy node's loss, and nothing else is.
    eventually(BOUND, "the busy node to use the rest", async || busy.pool.status().in_use == CAP as u32 / 2)
        .await;
    let before = work.queries.load(Ordering::Relaxed);
    eventually(BOUND, "the busy node to go on", async || work.queries.load(Ordering::Relaxed) > before + 100)
        .await;
    drop(taken);
    eventually(BOUND, "the busy node to use all again", async || busy.pool.status().in_use == CAP as u32)
        .await;

    work.end().await;
    for member in others.into_iter().chain([busy]) {
        member.client.shutdown().await.expect("the session ends in order");
    }
    fleet.server.shows(DATABASE, BOUND, "nothing held", |shown| shown.held == 0 && shown.sessions == 0).await;
}

async fn in_time<T>(what: &str, asked: impl Future<Output = T>) -> T {
    let start = now();
    let got =
        tokio::time::timeout(BOUND, asked).await.unwrap_or_else(|_| panic!("not within {BOUND:?}: {what}"));
    measured(format_args!("{what}: {:?}", start.elapsed()));
    got
}
