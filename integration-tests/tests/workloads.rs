//! Classes of sessions that share a database: a crowd in one of them does not make
//! the others wait, and a bound of what may wait is a refusal with its number.

use std::time::Duration;

use leasehold_client::{Client, Error, Tokens};
use leasehold_integration_tests::{
    figures::measured,
    fleet::{DATABASE, Fleet, Terms, never_above, none_failed},
    node::{Node, Report},
    server::Server,
    stage::Stage,
    wait::{eventually, now},
};
use leasehold_proto::v1::{AcquireRequest, Workload, lease_service_client::LeaseServiceClient};
use tokio::{task::JoinSet, time::timeout};
use tonic::Code;

const CAP: u32 = 30;
/// A crowd that would be older than anybody else for seconds.
const CROWD: usize = 2_000;
/// As few tasks as a third of the neighbour's part could serve at once.
const FEW: usize = 5;
const SECONDS: u64 = 4;
/// How long the crowd uses a connection.
const BATCH_HOLD_MS: f64 = 50.0;
const BOUND: Duration = Duration::from_secs(10);

/// A web node, alone or beside a crowd of batch tasks.
async fn web_beside(fleet: &Fleet, crowd: usize) -> (Report, Option<Report>) {
    let mut load = fleet.load(crowd, SECONDS + 4);
    load.query = format!("SELECT SLEEP({})", BATCH_HOLD_MS / 1_000.0);
    let batch = (crowd > 0).then(|| Node::start_of(&load, "night", "batch"));
    if batch.is_some() {
        let all = |workload: &Workload| workload.held == CAP && workload.waiting > CROWD as u32 / 2;
        eventually(BOUND, "the crowd to hold all", async || all(&of(&fleet.server, "batch").await)).await;
    }
    let web = Node::start_of(&fleet.load(FEW, SECONDS), "shop", "web");
    let web = web.report().await;
    let batch = match batch {
        Some(node) => Some(node.report().await),
        None => None,
    };
    (web, batch)
}

async fn of(server: &Server, name: &str) -> Workload {
    let workloads = server.database(DATABASE).await.workloads;
    workloads.into_iter().find(|workload| workload.name == name).expect("the workload")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_in_one_workload_does_not_make_another_wait() {
    let _stage = Stage::alone().await;
    let even = "[databases.orders.workloads.web]\n[databases.orders.workloads.batch]\n";
    let floor = "[databases.orders.workloads.web]\nfloor = 5\n[databases.orders.workloads.batch]\n";
    for (how, workloads) in [("weights 1:1", even), ("a floor of 5", floor)] {
        let fleet = Fleet::start_among(Terms::default(), workloads).await;
        let (alone, _) = web_beside(&fleet, 0).await;
        let (beside, batch) = web_beside(&fleet, CROWD).await;
        let batch = batch.expect("a report");
        none_failed(&[alone.clone(), beside.clone(), batch.clone()]);
        measured(format_args!(
            "{how}: web waits {:.1} ms alone and {:.1} ms beside {CROWD} batch tasks, which wait {:.0} ms (p99)",
            alone.wait_ms.p99, beside.wait_ms.p99, batch.wait_ms.p99
        ));
        // In one queue with the crowd it would wait for as long as the crowd does.
        let bound = 2.0 * alone.wait_ms.p99 + BATCH_HOLD_MS + 100.0;
        assert!(
            beside.wait_ms.p99 < bound,
            "web waits {:?} beside the crowd, {bound} at most",
            beside.wait_ms
        );
        assert!(batch.wait_ms.p50 > 10.0 * bound, "the crowd is no crowd: {:?}", batch.wait_ms);
        never_above(&fleet.database, CAP).await;
    }
}

fn call(number: u32, workload: &str, tokens: u32) -> AcquireRequest {
    AcquireRequest {
        request_id: format!("00000000-0000-4000-8000-{number:012}"),
        node: "job".to_owned(),
        database: DATABASE.to_owned(),
        tokens,
        workload: workload.to_owned(),
        max_wait_ms: 60_000,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_too_many_is_refused_at_once_with_the_number() {
    let server = Server::start(
        "[databases.orders]\ncap = 2\n[databases.orders.workloads.batch]\nmax_waiting = 3\nlimit = 1\n",
    )
    .await;
    let leases = LeaseServiceClient::new(server.channel());
    let acquire = |request, tokens| {
        let mut leases = leases.clone();
        async move { leases.acquire(request).await.map(|reply| assert_eq!(reply.into_inner().tokens, tokens)) }
    };
    acquire(call(1, "batch", 1), 1).await.expect("the only one that batch may have");
    let mut waiting = JoinSet::new();
    for number in 2..=4 {
        waiting.spawn(acquire(call(number, "batch", 1), 1));
    }
    eventually(BOUND, "three to wait", async || of(&server, "batch").await.waiting == 3).await;

    let refused = acquire(call(5, "batch", 1), 1).await.expect_err("as many wait as may");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "3 tasks wait in the workload `batch` already, the most that may");
    let refused = acquire(call(6, "batch", 2), 2).await.expect_err("it may have one");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.message(), "more tokens than the workload `batch` may hold, which is 1");
    // Nobody set anything for this one, so that it is in the default workload.
    acquire(call(7, "reports", 1), 1).await.expect("the other token");
    assert_eq!(of(&server, "batch").await.refused, 1);
}

/// A node's tokens, and what keeps them alive.
async fn node_of(server: &Server, name: &str, workload: &str) -> (Client, Tokens) {
    let client = Client::builder().endpoint(server.url()).node(name).workload(workload);
    let client = client.connect().await.expect("a session");
    let tokens = client.tokens(DATABASE).max_size(50).build().expect("tokens");
    client.ready(DATABASE).await.expect("the server knows the database");
    (client, tokens)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nodes_task_too_many_is_refused_at_once_with_the_number() {
    let server =
        Server::start("[databases.orders]\ncap = 2\n[databases.orders.workloads.batch]\nmax_waiting = 8\n")
            .await;
    let (_one, crowd) = node_of(&server, "crowd", "batch").await;
    let (_other, late) = node_of(&server, "late", "batch").await;
    let held = (crowd.acquire().await.expect("a token"), crowd.acquire().await.expect("the other"));
    let wait = |tokens: &Tokens| {
        let tokens = tokens.clone();
        async move { tokens.acquire().await.map(drop) }
    };
    let mut waiting = JoinSet::new();
    for _ in 0..8 {
        waiting.spawn(wait(&crowd));
    }
    eventually(BOUND, "the crowd to know that no more may wait", async || {
        matches!(timeout(Duration::ZERO, crowd.acquire()).await, Ok(Err(Error::QueueFull { .. })))
    })
    .await;
    let asked = now();
    let refused = crowd.acquire().await.expect_err("as many wait as may");
    assert!(matches!(refused, Error::QueueFull { max_waiting: 8, .. }), "{refused:?}");
    assert!(refused.to_string().starts_with("8 tasks wait for a connection to `orders`"), "{refused}");
    measured(format_args!("a task too many is refused after {:?}", asked.elapsed()));
    // Of another node the first task may wait all the same, and is served.
    waiting.spawn(wait(&late));
    eventually(BOUND, "nine to wait", async || of(&server, "batch").await.waiting == 9).await;
    drop(held);
    for outcome in waiting.join_all().await {
        outcome.expect("who waited is served");
    }
    drop(crowd.acquire().await.expect("there is room again"));
}
