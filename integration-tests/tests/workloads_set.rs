//! Operators change what workloads may have while nodes work: tokens move, limits are
//! obeyed, nobody who waits is lost, and what was set outlives a crash and its own end.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold_client::{Client, Error, Tokens};
use leasehold_integration_tests::{
    cli::{leasehold, leasehold_json},
    fleet::DATABASE,
    server::Server,
    wait::eventually,
};
use leasehold_proto::v1::{AcquireRequest, Workload, lease_service_client::LeaseServiceClient};
use tokio::task::JoinSet;
use tonic::Code;

const BOUND: Duration = Duration::from_secs(10);
const CAP: u32 = 12;
/// More tasks than there are tokens, in each workload.
const TASKS: usize = 40;
/// How long each of them works.
const HOLD: Duration = Duration::from_millis(5);

/// A node whose tasks want tokens all the time.
struct Busy {
    /// Tokens in use at this moment.
    in_use: Arc<AtomicU32>,
    ends: Arc<AtomicBool>,
    tasks: JoinSet<Result<u64, Error<Infallible>>>,
    client: Client,
}

impl Busy {
    async fn start(server: &Server, workload: &str) -> Busy {
        let client = Client::builder().endpoint(server.url()).node(workload).workload(workload);
        let client = client.connect().await.expect("a session");
        let tokens = client.tokens(DATABASE).max_size(50).build().expect("tokens");
        client.ready(DATABASE).await.expect("the server knows the database");
        let (in_use, ends) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            tasks.spawn(work(tokens.clone(), Arc::clone(&in_use), Arc::clone(&ends)));
        }
        Busy { in_use, ends, tasks, client }
    }

    /// All tasks end in good order, and each of them was served.
    async fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        for served in self.tasks.join_all().await {
            assert!(served.expect("who waited is served") > 0, "a task was never served");
        }
        self.client.shutdown().await.expect("nothing is in use");
    }
}

async fn work(
    tokens: Tokens,
    in_use: Arc<AtomicU32>,
    ends: Arc<AtomicBool>,
) -> Result<u64, Error<Infallible>> {
    let mut served = 0;
    while !ends.load(Ordering::Relaxed) {
        let token = tokens.acquire().await?;
        in_use.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(HOLD).await;
        in_use.fetch_sub(1, Ordering::Relaxed);
        drop(token);
        served += 1;
    }
    Ok(served)
}

fn named<'a>(workloads: &'a [Workload], name: &str) -> &'a Workload {
    workloads.iter().find(|workload| workload.name == name).expect("the workload")
}

/// Waits until web and batch hold so many.
async fn hold(server: &Server, web: u32, batch: u32) {
    let what = format!("web to hold {web}, and batch {batch}");
    eventually(BOUND, &what, async || {
        let workloads = server.database(DATABASE).await.workloads;
        (named(&workloads, "web").held, named(&workloads, "batch").held) == (web, batch)
    })
    .await;
}

async fn set(server: &Server, arguments: &[&str]) {
    let ran = leasehold(&server.url(), &[&["set", DATABASE][..], arguments].concat()).await;
    assert_eq!(ran.code, 0, "leasehold set {arguments:?}: {}", ran.complaint);
}

async fn refused(server: &Server, arguments: &[&str]) -> String {
    let ran = leasehold(&server.url(), &[&["set", DATABASE][..], arguments].concat()).await;
    assert_eq!(ran.code, 1, "leasehold set {arguments:?}: {}", ran.output);
    ran.complaint
}

async fn overrides(server: &Server) -> Vec<String> {
    let database = server.database(DATABASE).await;
    database
        .overrides
        .iter()
        .map(|kept| format!("{} {} {}", kept.workload, kept.setting, kept.value))
        .collect()
}

async fn start() -> Server {
    let workloads = "[databases.orders.workloads.web]\n[databases.orders.workloads.batch]\n";
    Server::start(&format!("[databases.orders]\ncap = {CAP}\n{workloads}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_and_limits_change_under_load_and_nobody_is_lost() {
    let mut server = start().await;
    let (web, batch) = (Busy::start(&server, "web").await, Busy::start(&server, "batch").await);
    hold(&server, 6, 6).await;

    set(&server, &["--workload", "web", "--weight", "3"]).await;
    hold(&server, 9, 3).await;

    server.kill();
    server.restart().await;
    assert_eq!(overrides(&server).await, ["web weight 3"]);
    hold(&server, 9, 3).await;

    // What is held above the new limit is worked off; then it is obeyed, by the node itself.
    set(&server, &["--workload", "web", "--limit", "4", "--for", "1h"]).await;
    hold(&server, 4, 8).await;
    assert!(web.in_use.load(Ordering::Relaxed) <= 4, "web uses more than its limit");
    let status = leasehold_json(&server.url(), &["status"]).await;
    assert_eq!(status["databases"][0]["overrides"][1]["workload"], "web", "{status}");
    assert_eq!(status["databases"][0]["overrides"][1]["setting"], "limit", "{status}");
    let shown = leasehold(&server.url(), &["databases", DATABASE]).await.output;
    assert!(shown.contains("weight of workload web overridden to 3 until cleared"), "{shown}");

    let why = refused(&server, &["--workload", "web", "--floor", "5", "--cap", "9"]).await;
    assert!(why.contains("would have a floor of 5, above its limit of 4"), "{why}");
    let why = refused(&server, &["--workload", "batch", "--floor", "13"]).await;
    assert!(why.contains("would be 13 together, above the cap of 12"), "{why}");
    let why = refused(&server, &["--workload", "bacth", "--weight", "2"]).await;
    assert!(why.contains("no workload `bacth`") && why.contains("`batch`"), "{why}");
    assert_eq!(server.database(DATABASE).await.cap, CAP, "nothing of it was done");

    set(&server, &["--workload", "web", "--clear", "weight,limit"]).await;
    assert_eq!(overrides(&server).await, Vec::<String>::new());
    hold(&server, 6, 6).await;

    // For a time only: it ends by itself.
    set(&server, &["--workload", "batch", "--limit", "2", "--for", "2s"]).await;
    hold(&server, 10, 2).await;
    hold(&server, 6, 6).await;
    assert_eq!(overrides(&server).await, Vec::<String>::new());

    // A floor comes back at once, whatever the weights are.
    set(&server, &["--workload", "web", "--weight", "1000"]).await;
    hold(&server, 11, 1).await;
    set(&server, &["--workload", "batch", "--floor", "5", "--keep", "on"]).await;
    hold(&server, 7, 5).await;
    web.end().await;
    batch.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_more_than_a_new_limit_is_told_so() {
    let server = start().await;
    let leases = LeaseServiceClient::new(server.channel());
    let acquire = |number: u32, tokens| {
        let mut leases = leases.clone();
        let request = AcquireRequest {
            request_id: format!("00000000-0000-4000-8000-{number:012}"),
            node: "job".to_owned(),
            database: DATABASE.to_owned(),
            tokens,
            workload: "batch".to_owned(),
            max_wait_ms: 60_000,
        };
        async move { leases.acquire(request).await.map(|reply| reply.into_inner().tokens) }
    };
    assert_eq!(acquire(1, 10).await.expect("there is room"), 10);
    let waits = tokio::spawn(acquire(2, 8));
    eventually(BOUND, "a call to wait", async || {
        named(&server.database(DATABASE).await.workloads, "batch").waiting == 1
    })
    .await;
    set(&server, &["--workload", "batch", "--limit", "6"]).await;
    let refusal = waits.await.expect("the call ends").expect_err("it can never be served");
    assert_eq!(refusal.code(), Code::FailedPrecondition);
    assert_eq!(refusal.message(), "more tokens than the workload `batch` may hold, which is 6");
}
