//! Checkouts and calls that are given up at any moment, pools that close, user
//! code that panics, runtimes that end: nothing leaks, and whoever is next is
//! served.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold_client::Error;
use leasehold_integration_tests::{
    figures::measured,
    fleet::{ACCOUNT, DATABASE, Fleet, Terms},
    full,
    member::Member,
    server::Server,
    stage::Stage,
    wait::{eventually, now},
};
use leasehold_proto::v1::{
    AcquireRequest, ReleaseRequest, lease_service_client::LeaseServiceClient, release_request::Target,
};
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

const CAP: u32 = 30;
/// Checkouts, or calls, that wait and are given up.
const DROPPED: usize = 10_000;
/// Longest life of one of them.
const LONGEST: Duration = Duration::from_secs(2);
const TTL: Duration = Duration::from_secs(2);
/// Bound for what should happen at once but is not measured.
const SOON: Duration = Duration::from_secs(10);
/// How soon the next is served when a connection is there.
const AT_ONCE: Duration = Duration::from_secs(1);

async fn member(fleet: &Fleet, name: &str) -> Member {
    Member::join(&fleet.server.url(), &fleet.database.url(ACCOUNT), name).await
}

/// Every token is back and no connection is left.
async fn nothing_is_left(fleet: &Fleet) {
    fleet.server.shows(DATABASE, SOON, "nothing held", |shown| shown.held == 0 && shown.waiting == 0).await;
    eventually(SOON, "no connection", async || fleet.database.connections(ACCOUNT).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_checkouts_dropped_while_they_wait_leave_nothing_behind() {
    let _stage = Stage::alone().await;
    let mut random = fastrand::Rng::with_seed(full::seed());
    let fleet = Fleet::start(Terms::default()).await;
    let watch = fleet.watch();
    let (member, other) = (member(&fleet, "fickle").await, member(&fleet, "other").await);
    // All there is: partly here, partly elsewhere.
    let held = member.take(20).await;
    let elsewhere = other.take(10).await;
    let mut checkouts = JoinSet::new();
    for _ in 0..DROPPED {
        let (pool, life) = (member.pool.clone(), LONGEST.mul_f64(random.f64()));
        checkouts.spawn(async move {
            // Some get one, as those in use come and go.
            tokio::time::timeout(life, pool.get()).await.is_ok_and(|got| got.is_ok())
        });
    }
    // Not all at once, so that some are dropped in the very moment in which
    // they are served.
    let mut held: Vec<_> = held.into_iter().map(Some).collect();
    for turn in 0..200 {
        let slot = &mut held[turn % 20];
        if let Some(connection) = slot.take() {
            drop(connection);
        } else {
            let got = tokio::time::timeout(Duration::from_millis(5), member.pool.get()).await;
            *slot = got.ok().map(|got| got.expect("a connection"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let served = checkouts.join_all().await.into_iter().filter(|served| *served).count();
    measured(format_args!("{served} of {DROPPED} checkouts were served before they were given up"));
    drop(held);
    eventually(SOON, "nobody to wait", async || member.pool.status().waiting == 0).await;

    let start = now();
    let taken = member.take(20).await;
    let waited = start.elapsed();
    measured(format_args!("the next 20 were served after {waited:?}"));
    assert!(waited <= AT_ONCE, "the next were served only after {waited:?}");
    drop((taken, elsewhere));
    for member in [member, other] {
        member.client.shutdown().await.expect("everything is given back");
    }
    nothing_is_left(&fleet).await;
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_calls_dropped_while_they_wait_leave_nothing_behind() {
    let _stage = Stage::alone().await;
    let mut random = fastrand::Rng::with_seed(full::seed());
    let unary = "[databases.unary]\ncap = 10\non_loss = \"fence\"\nttl = \"60s\"\nfence_grace = \"0s\"\n";
    let server = Server::start(unary).await;
    let acquire = |number: usize, tokens: u32| AcquireRequest {
        request_id: format!("00000000-0000-4000-8000-{number:012x}"),
        node: "fickle".into(),
        database: "unary".into(),
        tokens,
        workload: String::new(),
        max_wait_ms: 60_000,
    };
    let mut leases = LeaseServiceClient::connect(server.url()).await.expect("a connection");
    leases.acquire(acquire(0, 10)).await.expect("all there is");
    // Their connections bound how many calls wait at once, not how many there are.
    let mut callers = Vec::new();
    for _ in 0..5 {
        callers.push(LeaseServiceClient::connect(server.url()).await.expect("a connection"));
    }
    let mut calls = JoinSet::new();
    for number in 1..=DROPPED {
        let (mut leases, life) = (callers[number % callers.len()].clone(), LONGEST.mul_f64(random.f64()));
        let call = acquire(number, random.u32(1..=10));
        calls.spawn(async move {
            let given_up = tokio::time::timeout(life, leases.acquire(call)).await;
            assert!(given_up.is_err(), "a call was answered: {given_up:?}");
        });
    }
    server.shows("unary", SOON, "that calls wait", |shown| shown.waiting > 0).await;
    calls.join_all().await;
    server.shows("unary", SOON, "nobody to wait", |shown| shown.waiting == 0).await;
    assert_eq!(server.database("unary").await.held, 10);

    let next = acquire(DROPPED + 1, 10);
    let waits = tokio::spawn({
        let mut leases = leases.clone();
        async move { leases.acquire(next).await }
    });
    server.shows("unary", SOON, "the next to wait", |shown| shown.waiting > 0).await;
    let release =
        ReleaseRequest { node: "fickle".into(), target: Some(Target::RequestId(acquire(0, 10).request_id)) };
    let start = now();
    leases.release(release).await.expect("an answer");
    waits.await.expect("no panic").expect("the next is served");
    let waited = start.elapsed();
    measured(format_args!("the next call was served {waited:?} after the release"));
    assert!(waited <= AT_ONCE, "the next was served only after {waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_closed_during_checkouts_gives_everything_back() {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(Terms::default()).await;
    let (closing, other) = (member(&fleet, "closing").await, member(&fleet, "other").await);
    for round in 0..20 {
        // More than there are, so that some wait, some connect and some have one.
        let mut checkouts = JoinSet::new();
        for _ in 0..60 {
            let pool = closing.pool.clone();
            checkouts.spawn(async move {
                let mut connection = match pool.get().await {
                    Ok(connection) => connection,
                    Err(error) => return matches!(error, Error::Closed { .. }),
                };
                connection.query_drop("SELECT SLEEP(0.01)").await.is_ok()
            });
        }
        if round < 19 {
            // Dropped with all that is under way.
            tokio::time::sleep(Duration::from_millis(round)).await;
            checkouts.shutdown().await;
            continue;
        }
        eventually(SOON, "checkouts under way", async || closing.pool.status().established > 0).await;
        closing.pool.close().await.expect("all in use come back");
        assert!(checkouts.join_all().await.into_iter().all(|ended| ended), "a checkout ended otherwise");
    }
    assert!(matches!(closing.pool.get().await, Err(Error::Closed { .. })));
    // Its session lives on with nothing: the other one can have all.
    let start = now();
    let all = other.take(CAP as usize).await;
    measured(format_args!("all of a closed pool was another node's after {:?}", start.elapsed()));
    drop(all);
    for member in [closing, other] {
        member.client.shutdown().await.expect("everything is given back");
    }
    nothing_is_left(&fleet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_holding_a_connection_costs_no_token() {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(Terms::default()).await;
    let member = member(&fleet, "panicky").await;
    let mut tasks = JoinSet::new();
    for number in 0..300 {
        let pool = member.pool.clone();
        tasks.spawn(async move {
            let mut connection = pool.get().await.expect("a connection");
            if number % 2 == 0 {
                connection.query_drop("BEGIN").await.expect("a query");
            }
            // No message: hundreds of them would only hide what a failure says.
            std::panic::resume_unwind(Box::new("on purpose"));
        });
    }
    while let Some(ended) = tasks.join_next().await {
        let ended: Result<(), _> = ended;
        assert!(ended.is_err_and(|error| error.is_panic()), "a task ended otherwise");
    }
    let start = now();
    let all = member.take(CAP as usize).await;
    let waited = start.elapsed();
    measured(format_args!("all {CAP} connections after 300 panics: {waited:?}"));
    assert!(waited <= AT_ONCE, "all were there only after {waited:?}");
    drop(all);
    member.client.shutdown().await.expect("everything is given back");
    nothing_is_left(&fleet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_shut_down_under_load_loses_its_tokens_to_the_others() {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(Terms { ttl: TTL, ..Terms::default() }).await;
    let watch = fleet.watch();
    let survivor = member(&fleet, "survivor").await;
    let done = Arc::<AtomicU32>::default();
    for _ in 0..3 {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let doomed = {
            let (server, mysql) = (fleet.server.url(), fleet.database.url(ACCOUNT));
            runtime.spawn(async move { Member::join(&server, &mysql, "doomed").await })
        };
        let doomed = doomed.await.expect("a member");
        let before = done.load(Ordering::Relaxed);
        for _ in 0..60 {
            let (pool, done) = (doomed.pool.clone(), Arc::clone(&done));
            runtime.spawn(async move {
                // Until the pool's last moments, which are an error.
                while let Ok(mut connection) = pool.get().await {
                    if connection.query_drop("SELECT SLEEP(0.01)").await.is_ok() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        eventually(SOON, "it to work", async || done.load(Ordering::Relaxed) > before + 200).await;
        // All of its tasks end where they stand, the session's among them.
        runtime.shutdown_background();
        let start = now();
        drop(doomed);
        let all = survivor.take(CAP as usize).await;
        measured(format_args!("all that an ended runtime had was another's after {:?}", start.elapsed()));
        drop(all);
    }
    survivor.client.shutdown().await.expect("everything is given back");
    nothing_is_left(&fleet).await;
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
}
