//! How connections of a governed pool end on a real MariaDB: when a token is
//! free, the server's slot is too. The pool's orders come from the test, not
//! from a Leasehold server.

use std::{sync::Arc, time::Duration};

use leasehold_client::{
    governed::{Recall, Reporter},
    mysql::{Hooks, Manager},
    pool::{Checkout, LeasedPool},
};
use leasehold_integration_tests::{mariadb::MariaDb, wait::eventually};
use mysql_async::{Conn, prelude::Queryable as _};
use tokio::time::timeout;

/// What each wait ends within on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

/// The server closes a socket a moment before it forgets the connection.
const LINGER: Duration = Duration::from_millis(500);
/// Runs for ever. Unlike `SLEEP` it does not look after its client.
const ENDLESS: &str = "SELECT BENCHMARK(1000000000000, 1)";

/// Nobody listens.
struct Silent;

impl Reporter for Silent {
    fn changed(&self) {}
}

/// Waits until `pool` holds nothing, and returns without a pause after that.
async fn emptied(pool: &LeasedPool<Manager>) {
    let wait = async {
        while pool.status().holding > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, wait).await.expect("the token is given back");
}

/// A pool on the account `app` that holds `tokens`.
fn pool(database: &MariaDb, tokens: u32) -> LeasedPool<Manager> {
    let manager = Manager::from_url(&database.url("app")).expect("a URL");
    let pool = LeasedPool::builder("test", manager)
        .hooks(Hooks)
        .max_size(10)
        .create_timeout(BOUND)
        .close_timeout(BOUND)
        .build(Arc::new(Silent))
        .expect("a pool");
    pool.governed().allot(tokens, Recall::None);
    pool
}

/// Sees every thread of the server.
struct Observer {
    connection: Conn,
}

impl Observer {
    async fn of(database: &MariaDb) -> Self {
        Self { connection: database.connect("leasehold").await.expect("an observer") }
    }

    async fn count(&mut self, condition: &str) -> u32 {
        let look = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE {condition}");
        self.connection.query_first(look).await.expect("look").expect("a count")
    }

    async fn runs(&mut self, thread: u32) -> bool {
        self.count(&format!("ID = {thread} AND COMMAND = 'Query'")).await > 0
    }

    async fn exists(&mut self, thread: u32) -> bool {
        self.count(&format!("ID = {thread}")).await > 0
    }
}

/// Runs `query` on `checkout` and drops it as soon as the server is at it.
/// Returns the server's number of the connection.
async fn cancel(observer: &mut Observer, mut checkout: Checkout<Manager>, query: &str) -> u32 {
    let thread = checkout.id();
    tokio::select! {
        answer = checkout.query_drop(query) => panic!("the query ended: {answer:?}"),
        _elapsed = eventually(BOUND, "the query to run", async || observer.runs(thread).await) => {}
    }
    thread
}

#[tokio::test]
async fn a_close_is_a_proper_goodbye() {
    let database = MariaDb::start(20).await;
    database.observer().command("CREATE TABLE test.t (id INT) ENGINE=InnoDB").await;
    let aborted = database.observer().status("Aborted_clients").await;
    let pool = pool(&database, 4);

    let clean = pool.get().await.expect("a connection");
    let mut in_transaction = pool.get().await.expect("a connection");
    in_transaction.query_drop("BEGIN").await.expect("begin");
    in_transaction.query_drop("INSERT INTO test.t VALUES (1)").await.expect("insert");
    let mut unread = pool.get().await.expect("a connection");
    drop(unread.query_iter("SELECT seq FROM test.seq_1_to_100000").await.expect("rows"));
    let in_use = pool.get().await.expect("a connection");
    drop((clean, in_transaction, unread));
    let ((), closed) = tokio::join!(async { drop(in_use) }, pool.close());

    closed.expect("everything is given back");
    assert_eq!(pool.status().holding, 0);
    let gone = async || database.observer().crowd("app").await.open == 0;
    eventually(LINGER, "the server to forget the connections", gone).await;
    assert_eq!(database.observer().status("Aborted_clients").await, aborted);
}

#[tokio::test]
async fn a_transaction_that_came_back_open_holds_no_lock_while_its_connection_idles() {
    let database = MariaDb::start(20).await;
    database.observer().command("CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=InnoDB").await;
    database.observer().command("INSERT INTO test.t VALUES (1)").await;
    let pool = pool(&database, 1);
    let mut careless = pool.get().await.expect("a connection");
    careless.query_drop("BEGIN").await.expect("begin");
    careless.query_drop("UPDATE test.t SET id = 2").await.expect("a lock");
    drop(careless);
    eventually(BOUND, "the connection to idle", async || pool.status().idle == 1).await;
    database.observer().command("SET STATEMENT innodb_lock_wait_timeout = 1 FOR DELETE FROM test.t").await;
}

#[tokio::test]
async fn a_slot_can_be_used_as_soon_as_its_token_is_free() {
    let database = MariaDb::start(10).await;
    let _others = database.open("other", 9).await;
    let (mut giver, mut taker) = (pool(&database, 1), pool(&database, 0));
    let before = database.observer().status("Aborted_connects").await;
    let swaps = 200;
    for _ in 0..swaps {
        drop(giver.get().await.expect("the last slot"));
        giver.governed().allot(0, Recall::Idle);
        emptied(&giver).await;
        taker.governed().allot(1, Recall::None);
        drop(taker.get().await.expect("the slot that was given back"));
        std::mem::swap(&mut giver, &mut taker);
    }
    let refused = database.observer().status("Aborted_connects").await - before;
    // The server counts a connection for a moment longer than it keeps the
    // socket open, and a pool tries again.
    assert!(refused <= swaps / 10, "{refused} of {swaps} swaps were refused at first");
}

#[tokio::test]
async fn a_cancelled_query_is_killed_and_its_token_counted_until_then() {
    let database = MariaDb::start(20).await;
    let mut observer = Observer::of(&database).await;
    let pool = pool(&database, 3);
    // Idle, so that it can be sent to kill; nobody checks anything out.
    let (first, helper) = (pool.get().await.expect("one"), pool.get().await.expect("another"));
    drop(helper);
    let thread = cancel(&mut observer, first, ENDLESS).await;
    assert_eq!((pool.status().closing, pool.status().holding), (1, 3));

    eventually(BOUND, "the close to end", async || pool.status().closing == 0).await;
    assert!(!observer.exists(thread).await, "the token was free before the slot");
    assert_eq!(pool.status().idle, 1, "the helper is back");
    let answer: Option<u32> =
        pool.get().await.expect("one").query_first("SELECT 7").await.expect("an answer");
    assert_eq!(answer, Some(7));
}

#[tokio::test]
async fn all_queries_cancelled_at_once_are_killed_one_through_the_other() {
    let database = MariaDb::start(20).await;
    let mut observer = Observer::of(&database).await;
    let pool = pool(&database, 3);
    let mut threads = Vec::new();
    let mut out = Vec::new();
    for _ in 0..3 {
        out.push(pool.get().await.expect("a connection"));
    }
    // The first to end by itself makes room for a connection that kills.
    for (checkout, query) in out.into_iter().zip([ENDLESS, ENDLESS, "SELECT SLEEP(1)"]) {
        threads.push(cancel(&mut observer, checkout, query).await);
    }
    eventually(BOUND, "all closes to end", async || {
        let open = observer.count("USER = 'app'").await;
        assert!(open <= 3, "{open} connections for 3 tokens");
        pool.status().closing == 0
    })
    .await;
    for thread in threads {
        eventually(LINGER, "the server to forget the thread", async || !observer.exists(thread).await).await;
    }
}

#[tokio::test]
async fn a_close_that_needs_another_connection_asks_for_a_token() {
    let database = MariaDb::start(20).await;
    let mut observer = Observer::of(&database).await;
    let pool = pool(&database, 1);
    let only = pool.get().await.expect("the only one");
    let thread = cancel(&mut observer, only, ENDLESS).await;
    eventually(BOUND, "the wish for a second token", async || pool.status().wanted == 2).await;
    pool.governed().allot(2, Recall::None);
    eventually(BOUND, "the close to end", async || pool.status().closing == 0).await;
    assert!(!observer.exists(thread).await, "the token was free before the slot");
    eventually(BOUND, "the wish to end", async || pool.status().wanted == 0).await;
}

#[tokio::test]
async fn with_no_other_connection_the_token_waits_for_the_querys_end() {
    let database = MariaDb::start(20).await;
    let mut observer = Observer::of(&database).await;
    let pool = pool(&database, 1);
    let only = pool.get().await.expect("the only one");
    let thread = cancel(&mut observer, only, "SELECT SLEEP(1)").await;
    eventually(BOUND, "the close to end", async || {
        let closing = pool.status().closing;
        closing == 0 || {
            assert!(observer.count("USER = 'app'").await <= 1);
            false
        }
    })
    .await;
    eventually(LINGER, "the server to forget the thread", async || !observer.exists(thread).await).await;
    pool.get().await.expect("with the same token").query_drop("SELECT 1").await.expect("a query");
}

#[tokio::test]
async fn a_full_server_is_tried_again() {
    let database = MariaDb::start(10).await;
    let mut others = database.open("other", 10).await;
    let before = database.observer().status("Aborted_connects").await;
    let pool = pool(&database, 1);
    let room = async {
        let refused = async || database.observer().status("Aborted_connects").await > before;
        eventually(BOUND, "a refusal", refused).await;
        assert_eq!(pool.status().opening, 1, "it keeps its token");
        others.pop().expect("one of them").disconnect().await.expect("it leaves");
    };
    let (checkout, ()) = tokio::join!(pool.get(), room);
    checkout.expect("in the end").query_drop("SELECT 1").await.expect("a query");
}

#[tokio::test]
async fn a_crash_of_the_database_frees_every_token_at_once() {
    let mut database = MariaDb::start(20).await;
    let pool = pool(&database, 3);
    let mut out = Vec::new();
    for _ in 0..3 {
        out.push(pool.get().await.expect("a connection"));
    }
    let mut busy = out.pop().expect("one of them");
    let query = tokio::spawn(async move { busy.query_drop("SELECT SLEEP(600)").await });
    database.kill();
    query.await.expect("the task").expect_err("the database is gone");
    drop(out);
    database.restart().await;
    let answer: Option<u32> =
        pool.get().await.expect("a connection").query_first("SELECT 7").await.expect("an answer");
    assert_eq!(answer, Some(7));
    eventually(BOUND, "all closes to end", async || pool.status().closing == 0).await;
    assert_eq!(pool.status().holding, 3);
}

#[tokio::test]
async fn a_fence_severs_what_is_in_use() {
    let database = MariaDb::start(20).await;
    let mut observer = Observer::of(&database).await;
    let pool = pool(&database, 2);
    let mut busy = pool.get().await.expect("one");
    drop(pool.get().await.expect("another, then idle"));
    let thread = busy.id();
    let query = tokio::spawn(async move { busy.query_drop("SELECT SLEEP(1)").await });
    eventually(BOUND, "the query to run", async || observer.runs(thread).await).await;
    pool.governed().lapse(true);
    query.await.expect("the task").expect_err("it was severed");
    eventually(BOUND, "everything to close", async || pool.status().holding == 0).await;
    let gone = async || observer.count("USER = 'app'").await == 0;
    eventually(LINGER, "the server to forget the connections", gone).await;
}
