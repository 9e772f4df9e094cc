//! The plain calls over a network that loses and repeats: whoever asks again
//! gets the same lease, and each release is told what it found.

use std::{fs, time::Duration};

use leasehold_integration_tests::{
    disk::FaultyDisk,
    figures::measured,
    full,
    proxy::{Direction, Proxy},
    server::Server,
    wait::{eventually, now},
};
use leasehold_proto::v1::{
    AcquireReply, AcquireRequest, ReleaseOutcome, ReleaseRequest, RenewRequest,
    lease_service_client::LeaseServiceClient, release_request::Target,
};
use tokio::task::JoinSet;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

const DATABASE: &str = "orders";
const CAP: u32 = 10;
const TTL: Duration = Duration::from_secs(2);
const CONFIG: &str =
    "[databases.orders]\ncap = 10\non_loss = \"fence\"\nttl = \"2s\"\nfence_grace = \"1s\"\n";
/// What the server adds to a lease's life before its tokens are free again.
const FENCE_GRACE: Duration = Duration::from_secs(1);
/// Bound for what should happen at once but is not measured.
const SOON: Duration = Duration::from_secs(10);
/// How soon the next is served when nobody stands in the way.
const AT_ONCE: Duration = Duration::from_secs(1);

/// One caller with its connection.
struct Caller {
    leases: LeaseServiceClient<Channel>,
    node: &'static str,
}

impl Caller {
    async fn over(url: String, node: &'static str) -> Self {
        let endpoint = Endpoint::from_shared(url).expect("a URL");
        let channel = endpoint.connect().await.expect("a connection");
        Self { leases: LeaseServiceClient::new(channel), node }
    }

    async fn acquire(&self, request: &str, tokens: u32) -> Result<AcquireReply, Status> {
        let request = AcquireRequest {
            request_id: request.to_owned(),
            node: self.node.to_owned(),
            database: DATABASE.to_owned(),
            tokens,
            workload: String::new(),
            max_wait_ms: 60_000,
        };
        self.leases.clone().acquire(request).await.map(tonic::Response::into_inner)
    }

    async fn renew(&self, lease: &str) -> Result<(), Status> {
        let request = RenewRequest { lease_id: lease.to_owned(), node: self.node.to_owned() };
        self.leases.clone().renew(request).await.map(|_reply| ())
    }

    async fn release(&self, target: Target) -> Result<ReleaseOutcome, Status> {
        let request = ReleaseRequest { target: Some(target), node: self.node.to_owned() };
        self.leases.clone().release(request).await.map(|reply| reply.into_inner().outcome())
    }
}

/// The `number`th request id.
fn request(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_asked_for_again_is_the_same_lease_also_after_a_crash() {
    let mut server = Server::start(CONFIG).await;
    let proxy = Proxy::start(server.address());

    // The server leases, and the reply is lost on its way.
    let caller = Caller::over(proxy.url(), "lossy").await;
    proxy.stall(Direction::Replies);
    let lost = tokio::spawn(async move { caller.acquire(&request(1), 4).await });
    server.shows(DATABASE, SOON, "a lease that nobody heard of", |shown| shown.held == 4).await;
    assert!(!lost.is_finished(), "the reply was not lost");
    proxy.cut();
    let error = lost.await.expect("no panic").expect_err("the connection is cut");
    assert!(matches!(error.code(), Code::Unknown | Code::Unavailable), "{error:?}");

    let caller = Caller::over(server.url(), "lossy").await;
    let lease = caller.acquire(&request(1), 4).await.expect("the same lease");
    let again = caller.acquire(&request(1), 4).await.expect("the same lease");
    assert_eq!((&again.lease_id, again.tokens), (&lease.lease_id, 4));
    assert_eq!(server.database(DATABASE).await.held, 4);

    server.kill();
    server.restart().await;
    let caller = Caller::over(server.url(), "lossy").await;
    let after = caller.acquire(&request(1), 4).await.expect("the same lease after the crash");
    assert_eq!((&after.lease_id, after.tokens), (&lease.lease_id, 4));
    assert_eq!(after.generation, lease.generation + 1);
    assert_eq!(server.database(DATABASE).await.held, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_release_is_told_what_it_found_and_frees_no_token_twice() {
    let server = Server::start(CONFIG).await;
    let (one, other) = (Caller::over(server.url(), "one").await, Caller::over(server.url(), "other").await);
    let held = async || server.database(DATABASE).await.held;
    let first = Target::LeaseId(one.acquire(&request(1), 4).await.expect("a lease").lease_id);
    let second = other.acquire(&request(2), 3).await.expect("a lease").lease_id;

    let foreign = other.release(first.clone()).await.expect_err("it is not the other's");
    assert_eq!(foreign.code(), Code::PermissionDenied, "{foreign:?}");
    assert_eq!(held().await, 7);

    assert_eq!(one.release(first.clone()).await.expect("an answer"), ReleaseOutcome::Released);
    assert_eq!(held().await, 3);
    // Whoever got the tokens meanwhile keeps them.
    let third = one.acquire(&request(3), 7).await.expect("a lease").lease_id;
    assert_eq!(held().await, CAP);
    assert_eq!(one.release(first.clone()).await.expect("an answer"), ReleaseOutcome::AlreadyReleased);
    let late = one.release(Target::RequestId(request(1))).await.expect("an answer");
    assert_eq!(late, ReleaseOutcome::AlreadyReleased);
    assert_eq!(held().await, CAP);
    assert_eq!(server.database(DATABASE).await.repeated_releases, 2, "they are counted");

    // The second runs out while the third is kept alive: a late release of it
    // takes nothing from whoever has its tokens then.
    eventually(SOON, "the second's end", async || {
        one.renew(&third).await.expect("the third lives on");
        held().await == 7
    })
    .await;
    let fourth = one.acquire(&request(4), 3).await.expect("a lease").lease_id;
    assert_eq!(other.renew(&second).await.expect_err("it is gone").code(), Code::FailedPrecondition);
    let expired = other.release(Target::LeaseId(second)).await.expect("an answer");
    assert_eq!(expired, ReleaseOutcome::Expired);
    assert_eq!(held().await, CAP);
    let never = Target::LeaseId(request(99));
    assert_eq!(one.release(never).await.expect("an answer"), ReleaseOutcome::Unknown);

    for lease in [third, fourth] {
        assert_eq!(one.release(Target::LeaseId(lease)).await.expect("an answer"), ReleaseOutcome::Released);
    }
    assert_eq!(held().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_and_repeated_calls_over_a_slow_network_lease_and_free_once() {
    /// Ways to the server that differ in how slow they are.
    const WAYS: u64 = 3;
    let server = Server::start(CONFIG).await;
    let mut proxies = Vec::new();
    for way in 0..WAYS {
        let proxy = Proxy::start(server.address());
        proxy.delay(Duration::from_millis(40 * way));
        proxies.push(proxy);
    }
    // The same request over all ways at once: one lease, and no more.
    for number in 1..=10 {
        let mut attempts = JoinSet::new();
        for proxy in &proxies {
            let caller = Caller::over(proxy.url(), "echo").await;
            attempts.spawn(async move { caller.acquire(&request(number), 6).await });
        }
        let replies: Vec<_> =
            attempts.join_all().await.into_iter().map(|reply| reply.expect("a lease")).collect();
        assert!(replies.iter().all(|reply| reply.lease_id == replies[0].lease_id), "{replies:?}");
        assert_eq!(server.database(DATABASE).await.held, 6);

        let mut releases = JoinSet::new();
        for proxy in &proxies {
            let caller = Caller::over(proxy.url(), "echo").await;
            let lease = Target::LeaseId(replies[0].lease_id.clone());
            releases.spawn(async move { caller.release(lease).await.expect("an answer") });
        }
        let mut outcomes = releases.join_all().await;
        outcomes.sort();
        let once =
            [ReleaseOutcome::Released, ReleaseOutcome::AlreadyReleased, ReleaseOutcome::AlreadyReleased];
        assert_eq!(outcomes, once);
        assert_eq!(server.database(DATABASE).await.held, 0);
        // An attempt that was under way all the time comes when all is over.
        let caller = Caller::over(proxies[0].url(), "echo").await;
        let late = caller.acquire(&request(number), 6).await.expect_err("it was released");
        assert_eq!(late.code(), Code::FailedPrecondition, "{late:?}");
    }
    assert_eq!(server.database(DATABASE).await.held, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_vanishes_between_commit_and_reply_leaks_nothing() {
    const CALLERS: u64 = 60;
    let server = Server::start(CONFIG).await;
    let proxy = Proxy::start(server.address());
    let mut random = fastrand::Rng::with_seed(full::seed());
    let mut vanished = JoinSet::new();
    for number in 1..=CALLERS {
        let caller = Caller::over(proxy.url(), "mayfly").await;
        vanished.spawn(async move { caller.acquire(&request(number), 1).await });
        // From before the call arrives to after its reply.
        tokio::time::sleep(Duration::from_micros(random.u64(0..6_000))).await;
        proxy.cut();
    }
    let told = vanished.join_all().await.iter().filter(|reply| reply.is_ok()).count();
    // What went out to somebody counts until it has run out, and not longer.
    let caller = Caller::over(server.url(), "next").await;
    let start = now();
    caller.acquire(&request(1_000), CAP).await.expect("all there is");
    let waited = start.elapsed();
    measured(format_args!("{CALLERS} callers vanished, {told} with a lease: all is free after {waited:?}"));
    assert!(waited <= TTL + FENCE_GRACE + Duration::from_secs(1), "all was free only after {waited:?}");
    let shown = server.database(DATABASE).await;
    assert_eq!((shown.held, shown.waiting, shown.quarantined), (CAP, 0, 0), "{shown:?}");

    // A reply that waits in the network holds nobody up for longer either.
    let released = caller.release(Target::RequestId(request(1_000))).await.expect("an answer");
    assert_eq!(released, ReleaseOutcome::Released);
    let silent = Caller::over(proxy.url(), "silent").await;
    proxy.stall(Direction::Replies);
    let lost = tokio::spawn(async move { silent.acquire(&request(2_000), CAP).await });
    server.shows(DATABASE, SOON, "a lease that nobody heard of", |shown| shown.held == CAP).await;
    let start = now();
    caller.acquire(&request(1_001), CAP).await.expect("the next is served");
    let waited = start.elapsed();
    measured(format_args!("a lease whose reply never arrived is served to the next after {waited:?}"));
    assert!(waited <= TTL + FENCE_GRACE + Duration::from_secs(1), "served only after {waited:?}");
    lost.abort();
}

/// Between the two lies a disk that hangs, so that it is certain where the caller
/// vanishes: what it would have got is durable, and no reply is on its way.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_is_served_at_once_when_a_caller_vanishes_during_its_commit() {
    let disk = FaultyDisk::default();
    let environment = disk.environment();
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let server = Server::start_with(CONFIG, &environment).await;
    let proxy = Proxy::start(server.address());
    let mayfly = Caller::over(proxy.url(), "mayfly").await;
    let next = Caller::over(server.url(), "next").await;
    server.status().await;

    let fault = disk.stall();
    let vanishing = tokio::spawn(async move { mayfly.acquire(&request(1), CAP).await });
    eventually(SOON, "the commit to hang", async || !server.status().await.store_healthy).await;
    let before = sockets(&server);
    proxy.cut();
    vanishing.await.expect("no panic").expect_err("the connection is cut");
    eventually(SOON, "the server to miss the caller", async || sockets(&server) < before).await;
    let waiting = tokio::spawn(async move { next.acquire(&request(2), CAP).await });
    drop(fault);

    let start = now();
    waiting.await.expect("no panic").expect("the next is served");
    let waited = start.elapsed();
    measured(format_args!("a caller vanished during its commit: the next is served after {waited:?}"));
    assert!(waited <= AT_ONCE, "served only after {waited:?}");
    let shown = server.database(DATABASE).await;
    assert_eq!((shown.held, shown.waiting, shown.quarantined), (CAP, 0, 0), "{shown:?}");
}

/// How many sockets the server has open.
fn sockets(server: &Server) -> usize {
    let files = fs::read_dir(format!("/proc/{}/fd", server.id())).expect("the server runs");
    let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}
