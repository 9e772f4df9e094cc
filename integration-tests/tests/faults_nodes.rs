//! Nodes that stand still, cancel everything they asked for, or lose their
//! database: what they held counts for as long as it is there, and is free
//! when it is gone.

use std::time::Duration;

use leasehold_integration_tests::{
    figures::measured,
    fleet::{ACCOUNT, DATABASE, Fleet, Terms, Watch, finished, never_above, none_failed, start_nodes},
    full,
    mariadb::MariaDb,
    member::Member,
    node::{Load, Node},
    server::Server,
    stage::Stage,
    wait::{eventually, never, now},
};
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

const CAP: u32 = 30;
const PROBE: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(2);
/// Bound for what should happen at once but is not measured.
const SOON: Duration = Duration::from_secs(10);

/// The account of the node that goes on, so that the database tells the two
/// nodes apart.
const SURVIVOR: &str = "other";

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_node_that_stands_still_are_free_only_when_the_database_shows_them_gone() {
    let _stage = Stage::alone().await;
    let database = MariaDb::start(40).await;
    let server = Server::start(&format!(
        "[databases.{DATABASE}]\nurl = \"{}\"\naccounts = [\"{ACCOUNT}\", \"{SURVIVOR}\"]\nreserve = 10\nttl = \"{}ms\"\n",
        database.url("leasehold"),
        TTL.as_millis()
    ))
    .await;
    server.shows(DATABASE, SOON, "the database's limit", |shown| shown.cap == CAP).await;
    let watch = Watch::over(database.observer(), &[ACCOUNT, SURVIVOR]);
    let load = |account| Load { server: Some(server.url()), ..Load::new(database.url(account), 40, 600) };

    let mut sleeper = Node::start(&load(ACCOUNT));
    let survivor = Node::start(&load(SURVIVOR));
    let both = async || (database.connections(ACCOUNT).await, database.connections(SURVIVOR).await);
    eventually(SOON, "both to share all there is", async || {
        let (one, other) = both().await;
        one >= 10 && other >= 10 && one + other == CAP
    })
    .await;
    sleeper.pause();
    server.shows(DATABASE, TTL + 3 * PROBE, "its expiry", |shown| shown.sessions == 1).await;
    server
        .shows(DATABASE, SOON, "its connections as strays", |shown| {
            shown.strays > 0 && shown.quarantined == 0
        })
        .await;

    // Long after the TTL: what it has open is not given to anybody.
    let kept = database.connections(ACCOUNT).await;
    assert!(kept >= 5, "the node that stands still has only {kept} connections left");
    never(2 * TTL, async || {
        let (one, other) = both().await;
        (one != kept || other > CAP - kept)
            .then(|| format!("{one} of {kept} connections left while the other has {other}"))
    })
    .await;

    database.kill_connections(ACCOUNT).await;
    let gone = now();
    eventually(SOON, "the other to have all", async || both().await == (0, CAP)).await;
    measured(format_args!("{kept} killed connections are another node's after {:?}", gone.elapsed()));

    // It wakes up with tokens that lapsed long ago, and connections that are dead.
    sleeper.resume();
    server.shows(DATABASE, SOON, "its return", |shown| shown.sessions == 2).await;
    eventually(SOON, "its share", async || both().await.0 > 0).await;
    none_failed(&finished(vec![survivor]).await);
    // What it was doing when it was stopped may well have failed.
    let report = sleeper.finish().await;
    assert!(report.refused() == 0 && report.checkouts > 0, "{report:?}");
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
    never_above(&database, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_cancelled_queries_leave_no_token_and_no_thread_behind() {
    let cancellations = full::of(300, 1_000);
    let _stage = Stage::alone().await;
    let mut random = fastrand::Rng::with_seed(full::seed());
    let fleet = Fleet::start(Terms::default()).await;
    let canceller = Member::join(&fleet.server.url(), &fleet.database.url(ACCOUNT), "canceller").await;
    let bystander = start_nodes(1, &fleet.load(5, 600));

    let mut running = JoinSet::new();
    for _ in 0..cancellations {
        let (pool, patience) = (canceller.pool.clone(), Duration::from_millis(random.u64(5..200)));
        running.spawn(async move {
            let long = async {
                let mut connection = pool.get().await.expect("a connection");
                // Unlike `SLEEP` it does not look after its client.
                connection.query_drop("SELECT BENCHMARK(1000000000000, 1)").await
            };
            let _ = tokio::time::timeout(patience, long).await;
        });
        if running.len() >= 60 {
            running.join_next().await;
        }
    }
    running.join_all().await;
    let start = now();
    eventually(Duration::from_secs(30), "every cancelled query's end", async || {
        canceller.pool.status().closing == 0 && fleet.database.observer().endless(ACCOUNT).await == 0
    })
    .await;
    measured(format_args!("{cancellations} cancelled queries are gone {:?} after the last", start.elapsed()));

    // All that it had is to be had again, at once.
    let start = now();
    let taken = canceller.take(20).await;
    measured(format_args!("20 connections after that: {:?}", start.elapsed()));
    drop(taken);
    none_failed(&finished(bystander).await);
    canceller.client.shutdown().await.expect("everything is given back");
    fleet.server.shows(DATABASE, SOON, "nothing held", |shown| shown.held == 0 && shown.sessions == 0).await;
    eventually(SOON, "no connection", async || fleet.database.connections(ACCOUNT).await == 0).await;
    // A killed query's slot is free a little after its close.
    never_above(&fleet.database, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_restarts_under_load_is_full_again_and_never_too_full() {
    const NODES: usize = 4;
    let _stage = Stage::alone().await;
    let mut fleet = Fleet::start(Terms::default()).await;
    let nodes = start_nodes(NODES, &fleet.load(20, 600));
    let busy = async |fleet: &Fleet| {
        let what = "all of the cap in use";
        fleet.server.shows(DATABASE, Duration::from_secs(20), what, |shown| shown.held == CAP).await;
        eventually(Duration::from_secs(20), "all connections", async || {
            fleet.database.connections(ACCOUNT).await == CAP
        })
        .await;
    };
    busy(&fleet).await;
    for crash in [true, false] {
        if crash {
            fleet.database.kill();
        } else {
            fleet.database.stop().await;
        }
        fleet.database.restart().await;
        let start = now();
        busy(&fleet).await;
        let time = start.elapsed();
        measured(format_args!("a database that restarted (crash: {crash}) is fully used after {time:?}"));
        never_above(&fleet.database, CAP).await;
    }
    let shown = fleet.server.database(DATABASE).await;
    assert_eq!((shown.quarantined, shown.strays, shown.expired), (0, 0, 0), "{shown:?}");
    for report in finished(nodes).await {
        // Connections broke with the database, but none was ever refused.
        assert!(report.refused() == 0 && report.checkouts > 0, "{report:?}");
    }
}
