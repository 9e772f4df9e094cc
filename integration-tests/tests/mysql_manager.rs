//! The manager for MySQL on a real MariaDB: each trap of the driver that it
//! avoids. No Leasehold server is in it.

use std::time::Duration;

use deadpool::managed::{Manager as _, Metrics};
use leasehold_client::{
    hooks::{Hooks as _, OnReturn},
    mysql::{Condition, Connection, Error, Hooks, Manager, Recycle},
};
use leasehold_integration_tests::{
    mariadb::MariaDb,
    wait::{eventually, find},
};
use mysql_async::prelude::Queryable as _;
use tokio::time::timeout;

/// What each wait ends within on a busy machine.
const BOUND: Duration = Duration::from_secs(10);

fn manager(database: &MariaDb) -> Manager {
    Manager::from_url(&database.url("app")).expect("a URL")
}

async fn connect(database: &MariaDb) -> Connection {
    manager(database).create().await.expect("a connection")
}

/// Begins a query that takes long, and drops it while it runs.
async fn cancel_a_query(database: &MariaDb, connection: &mut Connection) {
    let marked = format!("'{}'", connection.id());
    let query = format!("SELECT SLEEP(30), {marked}");
    let look =
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%' AND INFO LIKE";
    let mut observer = database.connect("leasehold").await.expect("an observer");
    let runs = eventually(BOUND, "the query to run", async || {
        let seen: Option<u32> = observer
            .query_first(format!("{look} '%''{}''%'", marked.trim_matches('\'')))
            .await
            .expect("look");
        seen == Some(1)
    });
    tokio::select! {
        answer = connection.query_drop(query) => panic!("the query ended: {answer:?}"),
        _elapsed = runs => {}
    }
    observer.disconnect().await.expect("the observer leaves");
}

#[tokio::test]
async fn what_comes_back_at_rest_is_clean() {
    let database = MariaDb::start(20).await;
    let mut connection = connect(&database).await;
    assert_eq!(connection.condition(), Condition::Clean, "fresh");
    for statement in
        ["SELECT 1", "DO 1", "CREATE TABLE test.t (id INT)", "INSERT INTO test.t VALUES (1), (2)"]
    {
        connection.query_drop(statement).await.expect(statement);
        assert_eq!(connection.condition(), Condition::Clean, "{statement}");
    }
    connection.exec_drop("SELECT id FROM test.t WHERE id > ?", (1,)).await.expect("a prepared statement");
    assert_eq!(connection.condition(), Condition::Clean, "prepared");
    assert_eq!(Hooks.on_return(&mut connection), OnReturn::Pool);
}

#[tokio::test]
async fn what_may_hold_locks_is_reset_before_it_idles() {
    let database = MariaDb::start(20).await;
    database.observer().command("CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=InnoDB").await;
    database.observer().command("INSERT INTO test.t VALUES (1)").await;
    let mut connection = connect(&database).await;
    for statements in [
        &["BEGIN", "UPDATE test.t SET id = 2"][..],
        // The error says nothing of the transaction, which stays open.
        &["BEGIN", "UPDATE test.t SET id = 2", "SELECT nonsense"],
        &["SET autocommit = 0", "UPDATE test.t SET id = 2"],
    ] {
        for statement in statements {
            let _last_one_may_fail = connection.query_drop(*statement).await;
        }
        assert_eq!(Hooks.on_return(&mut connection), OnReturn::Reset, "{statements:?}");
        assert!(Hooks.reset(&mut connection).await, "{statements:?}");
        assert_eq!(connection.condition(), Condition::Clean, "{statements:?}");

        let mut other = database.connect("other").await.expect("another connection");
        other.query_drop("SET innodb_lock_wait_timeout = 1").await.expect("do not wait");
        other.query_drop("UPDATE test.t SET id = 1").await.expect("the row is not locked");
        other.disconnect().await.expect("the other leaves");
    }
    connection.query_drop("BEGIN").await.expect("begin");
    connection.prep("SELECT id FROM test.t").await.expect("prepare last");
    assert_eq!(connection.condition(), Condition::Unsettled, "after a bare prepare");
}

#[tokio::test]
async fn unread_rows_are_read_away_before_it_idles() {
    let database = MariaDb::start(20).await;
    let mut connection = connect(&database).await;
    let rows = connection.query_iter("SELECT seq FROM test.seq_1_to_100000").await.expect("rows");
    drop(rows);
    assert_eq!(Hooks.on_return(&mut connection), OnReturn::Reset);
    assert!(Hooks.reset(&mut connection).await);
    let answer: Option<u32> = connection.query_first("SELECT 7").await.expect("its own answer");
    assert_eq!(answer, Some(7));
}

#[tokio::test]
async fn an_error_that_nobody_read_does_not_stop_the_reset() {
    let database = MariaDb::start(20).await;
    let mut connection = connect(&database).await;
    drop(connection.query_iter("DO 1; SELECT nonsense").await.expect("the first of two"));
    let told = connection.query_iter("DO 1; SELECT nonsense").await.map(drop);
    assert!(told.is_err(), "the driver tells it at the next command");
    drop(connection.query_iter("DO 1; SELECT nonsense").await.expect("the first of two"));
    assert_eq!(Hooks.on_return(&mut connection), OnReturn::Reset);
    assert!(Hooks.reset(&mut connection).await);
    assert_eq!(connection.condition(), Condition::Clean);
}

#[tokio::test]
async fn a_cancelled_query_never_answers_the_next_one() {
    let database = MariaDb::start(20).await;

    // The trap: the driver's ping reads the cancelled query's answer and calls
    // the connection good.
    let mut bare = database.connect("app").await.expect("a bare connection");
    let cancelled = timeout(Duration::from_millis(50), bare.query_drop("SELECT 'wrong', SLEEP(0.2)")).await;
    assert!(cancelled.is_err() && bare.is_disconnected());
    bare.ping().await.expect("a ping that should fail");
    assert!(!bare.is_disconnected(), "the trap is gone; does the manager still have to look first?");

    for recycle in [Recycle::Reset, Recycle::Ping, Recycle::Fast] {
        let manager = manager(&database).recycle_by(recycle);
        let mut connection = manager.create().await.expect("a connection");
        cancel_a_query(&database, &mut connection).await;
        assert_eq!(Hooks.on_return(&mut connection), OnReturn::Close);
        manager.recycle(&mut connection, &Metrics::default()).await.expect_err("it must not be used again");
    }
}

#[tokio::test]
async fn a_reset_alone_clears_what_the_user_before_left() {
    let database = MariaDb::start(20).await;
    for (recycle, left) in [(Recycle::Reset, None), (Recycle::Ping, Some(5)), (Recycle::Fast, Some(5))] {
        let manager = manager(&database).recycle_by(recycle);
        let mut connection = manager.create().await.expect("a connection");
        connection.query_drop("SET @mine = 5").await.expect("a variable");
        connection.query_drop("CREATE TEMPORARY TABLE test.mine (id INT)").await.expect("a table");
        manager.recycle(&mut connection, &Metrics::default()).await.expect("recycled");
        let found: Option<u32> =
            connection.query_first::<Option<u32>, _>("SELECT @mine").await.expect("ask").flatten();
        assert_eq!(found, left, "{recycle:?}");
        let table = connection.query_drop("SELECT * FROM test.mine").await;
        assert_eq!(table.is_ok(), left.is_some(), "{recycle:?}");
        assert_eq!(connection.condition() == Condition::Clean, left.is_some(), "{recycle:?}");
    }
}

#[tokio::test]
async fn a_full_server_is_not_yet_in_both_of_its_forms() {
    let database = MariaDb::start(10).await;
    let manager = manager(&database);
    let full = async || match manager.create().await {
        Err(error) => (error.code(), Hooks.is_refused_for_now(&error)),
        Ok(connection) => panic!("{connection:?} got in"),
    };
    let _everybody = database.open("other", 10).await;
    // With the administrator's slot free the server greets first.
    assert_eq!(full().await, (Some(1040), true), "after the greeting");
    // The refused one may take that slot for a moment longer.
    let enter = async || database.connect("root").await.ok();
    let _administrator = find(BOUND, "the administrator's slot", enter).await;
    assert_eq!(full().await, (Some(1040), true), "instead of a greeting");
}

#[tokio::test]
async fn an_accounts_limit_is_not_yet_and_a_wrong_password_is_final() {
    let database = MariaDb::start_with(20, &["--max-user-connections=1"]).await;
    database.observer().command("CREATE USER 'few'@'%' WITH MAX_USER_CONNECTIONS 1").await;
    database.observer().command("CREATE USER 'locked'@'%' IDENTIFIED BY 'secret'").await;
    let few = Manager::from_url(&database.url("few")).expect("a URL");
    let _one = few.create().await.expect("the one that is allowed");
    let error = few.create().await.expect_err("one too many");
    assert_eq!((error.code(), error.is_not_yet()), (Some(1226), true));

    let _one = connect(&database).await;
    let error = manager(&database).create().await.expect_err("one too many");
    assert_eq!((error.code(), error.is_not_yet()), (Some(1203), true));

    let locked = Manager::from_url(&database.url("locked")).expect("a URL");
    let error = locked.create().await.expect_err("no password");
    assert_eq!((error.code(), error.is_not_yet()), (Some(1045), false));
}

#[tokio::test]
async fn the_handshake_has_a_limit_also_after_the_tcp_connect() {
    let mut database = MariaDb::start(20).await;
    // The kernel still accepts for it.
    database.pause();
    let manager = manager(&database).connect_timeout(Duration::from_millis(200));
    let error = timeout(BOUND, manager.create()).await.expect("in time").expect_err("nobody answers");
    assert!(matches!(error, Error::Handshake { .. }), "{error}");
    database.resume();
}

#[tokio::test]
async fn a_severed_connection_fails_at_once_and_is_closed() {
    let database = MariaDb::start(20).await;
    let mut connection = connect(&database).await;
    let sever = Hooks.severer(&connection).expect("the socket can be looked at on Linux");
    let severed = async {
        sever().await;
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = timeout(BOUND, connection.query_drop("SELECT SLEEP(60)")) => answer.expect("in time"),
        () = severed => unreachable!("it only waits"),
    };
    assert!(matches!(answer, Err(mysql_async::Error::Io(_))), "{answer:?}");
    assert_eq!(connection.condition(), Condition::Lost);
    // The number of the descriptor may belong to another socket by now.
    drop(connection);
    let mut next = connect(&database).await;
    sever().await;
    next.query_drop("SELECT 1").await.expect("another connection is left alone");
}
