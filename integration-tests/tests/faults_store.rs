//! The disk below the store fails: it fills up, turns read-only, hangs. Nothing
//! is granted meanwhile, what comes back is taken, the pages and the status say
//! why, no restart is asked for, and all goes on by itself.

use std::time::Duration;

use leasehold_integration_tests::{
    disk::{Disk, FaultyDisk},
    server::Server,
    wait::{eventually, never, now},
};
use leasehold_proto::v1::{
    AcquireReply, AcquireRequest, ReleaseRequest, lease_service_client::LeaseServiceClient,
    release_request::Target,
};
use tonic::{Code, Status};

/// A database that nobody watches.
const ORDERS: &str = "[databases.orders]\ncap = 40\n";
/// Longest wait for the server to notice that the disk fails, or works again.
const NOTICED: Duration = Duration::from_secs(10);
/// How long a disk hangs.
const STALL: Duration = Duration::from_secs(5);

struct Caller {
    leases: LeaseServiceClient<tonic::transport::Channel>,
    requests: u128,
}

impl Caller {
    fn of(server: &Server) -> Self {
        Self { leases: LeaseServiceClient::new(server.channel()), requests: 0 }
    }

    async fn acquire(&mut self, tokens: u32, max_wait: Duration) -> Result<AcquireReply, Status> {
        self.requests += 1;
        let id = format!("{:032x}", self.requests);
        let request = AcquireRequest {
            request_id: format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]),
            node: "caller".to_owned(),
            database: "orders".to_owned(),
            tokens,
            workload: String::new(),
            max_wait_ms: max_wait.as_millis() as u64,
        };
        self.leases.acquire(request).await.map(tonic::Response::into_inner)
    }

    async fn release(&mut self, lease: &AcquireReply) -> Result<(), Status> {
        let target = Some(Target::LeaseId(lease.lease_id.clone()));
        let request = ReleaseRequest { target, node: "caller".to_owned() };
        self.leases.release(request).await.map(|_| ())
    }
}

/// Grants until the store fails, and then checks all that must hold while it
/// does.
async fn fails_as_it_should(server: &Server, caller: &mut Caller, lease: &AcquireReply, reason: &str) {
    eventually(NOTICED, "a refusal", async || {
        caller.acquire(1, Duration::ZERO).await.is_err_and(|status| status.code() == Code::Unavailable)
    })
    .await;
    let refusal = caller.acquire(1, Duration::from_millis(700)).await.expect_err("nothing is granted");
    assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
    assert!(refusal.message().contains("the server's store fails"), "{refusal}");

    let held = server.database("orders").await.held;
    let taken = caller.release(lease).await.expect_err("it is not durable yet");
    assert_eq!(taken.code(), Code::Unavailable, "{taken}");
    let left = server.database("orders").await.held;
    assert_eq!(left, held - lease.tokens, "what comes back is taken");

    let status = server.status().await;
    assert!(!status.store_healthy);
    assert!(status.store_error.contains(reason), "{}", status.store_error);
    let ready = server.page("/readyz").await.expect("the page");
    assert!(ready.status == 503 && ready.body.contains(reason), "{ready:?}");
    let fault = async || {
        let page = server.page("/healthz").await.expect("the page");
        (page.status != 200).then_some(format!("not alive: {page:?}"))
    };
    never(Duration::from_secs(1), fault).await;
}

async fn goes_on(server: &Server, caller: &mut Caller) {
    let ready = async || server.page("/readyz").await.is_some_and(|page| page.status == 200);
    let elapsed = eventually(NOTICED, "the server to be ready again", ready).await;
    eprintln!("ready again after {elapsed:?}");
    assert!(server.status().await.store_healthy);
    let lease = caller.acquire(1, NOTICED).await.expect("tokens are granted");
    caller.release(&lease).await.expect("it is released");
}

#[tokio::test]
async fn a_full_disk() {
    let Some(disk) = Disk::mount(8) else { return };
    let mut server = Server::start_on(&disk.path(), ORDERS).await;
    let mut caller = Caller::of(&server);
    let lease = caller.acquire(5, Duration::ZERO).await.expect("tokens are granted");
    disk.fill();
    fails_as_it_should(&server, &mut caller, &lease, "os error 28").await;
    disk.free();
    goes_on(&server, &mut caller).await;

    // What was released while the disk was full stays released.
    let held = server.database("orders").await.held;
    server.kill();
    server.restart().await;
    caller.release(&lease).await.expect("it is known to be released");
    assert_eq!(server.database("orders").await.held, held);
}

#[tokio::test]
async fn a_disk_that_turns_read_only() {
    let disk = FaultyDisk::default();
    let environment = disk.environment();
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let server = Server::start_with(ORDERS, &environment).await;
    let mut caller = Caller::of(&server);
    let lease = caller.acquire(5, Duration::ZERO).await.expect("tokens are granted");
    let fault = disk.read_only();
    fails_as_it_should(&server, &mut caller, &lease, "Read-only file system").await;
    drop(fault);
    goes_on(&server, &mut caller).await;
}

#[tokio::test]
async fn a_disk_that_hangs() {
    let disk = FaultyDisk::default();
    let environment = disk.environment();
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let server = Server::start_with(ORDERS, &environment).await;
    // More patient than the server's own channel.
    let leases = LeaseServiceClient::connect(server.url()).await.expect("a connection");
    let mut caller = Caller { leases, requests: 0 };
    let fault = disk.stall();
    let stalled = now();
    let waiting = tokio::spawn(async move {
        let lease = caller.acquire(1, Duration::from_secs(30)).await;
        (caller, lease)
    });
    eventually(NOTICED, "the server to be unready", async || {
        let page = server.page("/readyz").await.expect("the page");
        page.status == 503 && page.body.contains("a commit has taken more than 1 s")
    })
    .await;
    let status = server.status().await;
    assert!(!status.store_healthy);
    let left = STALL.saturating_sub(stalled.elapsed());
    never(left, async || {
        let page = server.page("/healthz").await.expect("the page");
        (page.status != 200).then_some(format!("not alive: {page:?}"))
    })
    .await;
    assert!(!waiting.is_finished(), "nothing is granted before it is durable");
    drop(fault);
    let (mut caller, lease) = waiting.await.expect("the call does not panic");
    assert_eq!(lease.expect("it is granted now").tokens, 1);
    goes_on(&server, &mut caller).await;
}
