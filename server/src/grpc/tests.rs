//! The API over real connections: a server on a free port, and clients that
//! send what the generated code lets them send.

use std::{net::SocketAddr, time::Duration};

use leasehold_proto::v1::{
    self, admin_service_client::AdminServiceClient, lease_service_client::LeaseServiceClient,
    node_message::Kind, server_message,
};
use leasehold_storage::Memory;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    config::{Admission, DatabaseConfig, DatabaseName, LossPolicy, Source},
    driver::{self, DriverHandle},
    grpc,
    telemetry::Traces,
};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);
const REQUEST: &str = "4f9a6c3e-8d5b-4c1a-9e7f-0123456789ab";

struct Served {
    address: SocketAddr,
    handle: DriverHandle,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
    driver: JoinHandle<()>,
}

impl Served {
    /// A server over one database, `orders`.
    async fn start(cap: u32) -> Served {
        let orders = DatabaseConfig {
            name: DatabaseName::new("orders").expect("the name has the right form"),
            source: Source::Static { cap },
            admission: Admission::Fair,
            quantum: Duration::from_millis(100),
            ttl: Duration::from_secs(30),
            on_loss: LossPolicy::Fence,
            fence_grace: Duration::from_secs(5),
        };
        let store = Box::new(Memory::default());
        let (handle, driver) = driver::start(store, &[orders], Traces::default()).await.expect("it starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = grpc::serve(listener, handle.clone(), async {
            let _ = stopped.await;
        });
        let server = tokio::spawn(async { serving.await.expect("it serves") });
        Served { address, handle, stop, server, driver }
    }

    async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).expect("it is an address");
        endpoint.connect().await.expect("it connects")
    }

    async fn leases(&self) -> LeaseServiceClient<Channel> {
        LeaseServiceClient::new(self.channel().await)
    }

    async fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel().await)
    }

    /// Opens a stream without a word.
    async fn stream(&self) -> Node {
        let (sender, messages) = mpsc::channel(16);
        let mut leases = self.leases().await;
        let answers = leases.session(ReceiverStream::new(messages)).await.expect("it opens").into_inner();
        Node { sender, answers }
    }

    /// Opens a stream and is welcomed.
    async fn node(&self, session: u8) -> (Node, v1::Welcome) {
        let mut node = self.stream().await;
        node.send(Kind::Hello(hello(session))).await;
        let server_message::Kind::Welcome(welcome) = node.next().await else { panic!("not welcome") };
        (node, welcome)
    }

    async fn waiting(&self) -> u32 {
        self.handle.status().await.expect("it answers").databases[0].view.waiting
    }

    async fn stop(self) {
        self.stop.send(()).expect("the server waits for it");
        timeout(PATIENCE, self.server).await.expect("it stops in time").expect("it does not panic");
        timeout(PATIENCE, self.driver).await.expect("it stops in time").expect("it does not panic");
    }
}

struct Node {
    sender: mpsc::Sender<v1::NodeMessage>,
    answers: Streaming<v1::ServerMessage>,
}

impl Node {
    async fn send(&self, kind: Kind) {
        self.sender.send(v1::NodeMessage { kind: Some(kind) }).await.expect("the stream is open");
    }

    async fn message(&mut self) -> Result<Option<server_message::Kind>, Status> {
        let message = timeout(PATIENCE, self.answers.message()).await.expect("a message in time")?;
        Ok(message.map(|message| message.kind.expect("a known message")))
    }

    async fn next(&mut self) -> server_message::Kind {
        self.message().await.expect("no error").expect("the stream goes on")
    }

    /// The status with which the stream ends.
    async fn end(&mut self) -> Status {
        loop {
            match self.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

fn hello(session: u8) -> v1::Hello {
    let claim =
        |database: &str| v1::Claim { database: database.to_owned(), demand: Some(v1::Demand::default()) };
    v1::Hello {
        session: vec![session; 16],
        node: format!("node-{session}"),
        claims: vec![claim("lost"), claim("orders")],
        ..v1::Hello::default()
    }
}

fn acquire(tokens: u32, max_wait: Duration) -> v1::AcquireRequest {
    v1::AcquireRequest {
        request_id: REQUEST.to_owned(),
        node: "script".to_owned(),
        database: "orders".to_owned(),
        tokens,
        max_wait_ms: max_wait.as_millis() as u64,
        ..v1::AcquireRequest::default()
    }
}

fn waits(sequence: u64, waiting: u32) -> Kind {
    Kind::Demand(v1::Demand {
        database: "orders".to_owned(),
        acknowledged: sequence,
        waiting,
        wanted: waiting,
        oldest_wait_us: 1_000,
        ..v1::Demand::default()
    })
}

async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

#[tokio::test]
async fn a_node_says_hello_and_gets_tokens() {
    let served = Served::start(10).await;
    let (mut node, welcome) = served.node(1).await;
    assert_eq!((welcome.generation, welcome.ttl_ms, welcome.keep_alive_ms), (1, 30_000, 6_000));
    let [lost, orders] = &welcome.databases[..] else { panic!("{welcome:?}") };
    assert_eq!(lost, &v1::DatabaseTerms { database: "lost".to_owned(), ..v1::DatabaseTerms::default() });
    assert!(orders.known && orders.database == "orders");
    assert_eq!((orders.on_loss(), orders.quantum_us), (v1::LossPolicy::Fence, 100_000));

    node.send(waits(orders.sequence, 3)).await;
    let server_message::Kind::Allotment(allotment) = node.next().await else { panic!("no allotment") };
    assert_eq!((&*allotment.database, allotment.tokens), ("orders", 3));
    node.send(Kind::KeepAlive(v1::KeepAlive { id: 7 })).await;
    while node.next().await != server_message::Kind::KeepAlive(v1::KeepAliveReply { id: 7 }) {}

    node.send(Kind::Goodbye(v1::Goodbye {})).await;
    assert_eq!(node.end().await.code(), Code::Ok);
    served.stop().await;
}

#[tokio::test]
async fn the_older_stream_is_aborted() {
    let served = Served::start(10).await;
    let (mut old, _) = served.node(1).await;
    let (_new, _) = served.node(1).await;
    let status = old.end().await;
    assert_eq!((status.code(), status.message()), (Code::Aborted, "a newer stream speaks for the session"));
    served.stop().await;
}

#[tokio::test]
async fn a_stream_that_ends_leaves_an_unattached_session() {
    let served = Served::start(10).await;
    let (node, _) = served.node(1).await;
    drop(node);
    let unattached = || async {
        let sessions = served.handle.sessions().await.expect("it answers");
        sessions[0].state == leasehold_admission::SessionState::Unattached
    };
    until("the session is unattached", unattached).await;
    served.stop().await;
}

#[tokio::test]
async fn a_bad_message_ends_the_stream_and_says_why() {
    let served = Served::start(10).await;
    let refusal = async |message: Kind| {
        let mut node = served.stream().await;
        node.send(message).await;
        let status = node.end().await;
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message().to_owned()
    };
    let first = refusal(Kind::KeepAlive(v1::KeepAlive { id: 1 })).await;
    assert_eq!(first, "`kind` must be hello in the first message");
    let nobody = refusal(Kind::Hello(v1::Hello { node: String::new(), ..hello(1) })).await;
    assert_eq!(nobody, "`node` is missing");

    let later = async |session: u8, message: Kind| {
        let (mut node, _) = served.node(session).await;
        node.send(message).await;
        let status = node.end().await;
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message().to_owned()
    };
    let again = later(1, Kind::Hello(hello(1))).await;
    assert_eq!(again, "`hello` came again: a stream has one");
    let too_few = v1::Demand { database: "orders".to_owned(), opening: 1, ..v1::Demand::default() };
    let too_few = later(2, Kind::Demand(too_few)).await;
    assert_eq!(too_few, "`holding` is 0, below established + opening + closing = 1");
    let other = v1::Demand { database: "reports".to_owned(), ..v1::Demand::default() };
    let other = later(3, Kind::Demand(other)).await;
    assert_eq!(other, "`demand.database` names a database that the Hello did not claim");
    served.stop().await;
}

#[tokio::test]
async fn a_demand_for_a_database_that_is_unknown_is_passed_over() {
    let served = Served::start(10).await;
    let (mut node, _) = served.node(1).await;
    let lost = v1::Demand { database: "lost".to_owned(), ..v1::Demand::default() };
    node.send(Kind::Demand(lost)).await;
    node.send(Kind::KeepAlive(v1::KeepAlive { id: 1 })).await;
    assert_eq!(node.next().await, server_message::Kind::KeepAlive(v1::KeepAliveReply { id: 1 }));
    served.stop().await;
}

#[tokio::test]
async fn an_older_server_is_refused() {
    let served = Served::start(10).await;
    let mut node = served.stream().await;
    node.send(Kind::Hello(v1::Hello { generation: 2, ..hello(1) })).await;
    assert_eq!(node.end().await.code(), Code::FailedPrecondition);
    assert_eq!(served.handle.sessions().await, Ok(vec![]));
    served.stop().await;
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_stream() {
    let served = Served::start(10).await;
    let mut node = served.stream().await;
    node.send(Kind::Hello(v1::Hello { client: "c".repeat(grpc::MESSAGE_BYTES), ..hello(1) })).await;
    assert_eq!(node.end().await.code(), Code::OutOfRange);
    served.stop().await;
}

#[tokio::test]
async fn a_unary_lease_is_acquired_renewed_and_released() {
    let served = Served::start(10).await;
    let mut leases = served.leases().await;
    let lease = leases.acquire(acquire(3, PATIENCE)).await.expect("it is leased").into_inner();
    assert_eq!((&*lease.lease_id, lease.tokens, lease.ttl_ms), (REQUEST, 3, 30_000));
    assert!(lease.waited_ms < 10_000);
    let again = leases.acquire(acquire(3, PATIENCE)).await.expect("it is the same").into_inner();
    assert_eq!(again.lease_id, lease.lease_id);
    let other = leases.acquire(acquire(4, PATIENCE)).await.expect_err("another count");
    assert_eq!(other.code(), Code::AlreadyExists);

    let renew = |node: &str| v1::RenewRequest { lease_id: REQUEST.to_owned(), node: node.to_owned() };
    leases.renew(renew("script")).await.expect("it is renewed");
    let foreign = leases.renew(renew("other")).await.expect_err("another node");
    assert_eq!(foreign.code(), Code::PermissionDenied);

    let target = v1::release_request::Target::RequestId(REQUEST.to_owned());
    let release = v1::ReleaseRequest { target: Some(target), node: "script".to_owned() };
    let released = leases.release(release.clone()).await.expect("it is released").into_inner();
    assert_eq!(released.outcome(), v1::ReleaseOutcome::Released);
    let released = leases.release(release).await.expect("it is known").into_inner();
    assert_eq!(released.outcome(), v1::ReleaseOutcome::AlreadyReleased);
    served.stop().await;
}

#[tokio::test]
async fn a_unary_call_says_why_it_got_nothing() {
    let served = Served::start(10).await;
    let mut leases = served.leases().await;
    let code = async |leases: &mut LeaseServiceClient<Channel>, request| {
        leases.acquire(request).await.expect_err("it is refused").code()
    };
    let lost = v1::AcquireRequest { database: "lost".to_owned(), ..acquire(1, PATIENCE) };
    assert_eq!(code(&mut leases, lost).await, Code::NotFound);
    assert_eq!(code(&mut leases, acquire(11, PATIENCE)).await, Code::FailedPrecondition);
    leases.acquire(acquire(10, Duration::ZERO)).await.expect("it is leased");
    let other = REQUEST.replace('4', "5");
    let late = v1::AcquireRequest { request_id: other, ..acquire(1, Duration::from_millis(20)) };
    assert_eq!(code(&mut leases, late).await, Code::DeadlineExceeded);
    served.stop().await;
}

#[tokio::test]
async fn a_cancelled_call_waits_no_longer() {
    let served = Served::start(3).await;
    let mut leases = served.leases().await;
    leases.acquire(acquire(3, Duration::ZERO)).await.expect("it is leased");
    let waiting = v1::AcquireRequest { request_id: REQUEST.replace('4', "5"), ..acquire(1, PATIENCE) };
    let call = tokio::spawn(async move { leases.acquire(waiting).await });
    until("the call waits", || async { served.waiting().await == 1 }).await;
    call.abort();
    until("nobody waits", || async { served.waiting().await == 0 }).await;
    served.stop().await;
}

#[tokio::test]
async fn operators_look_and_steer() {
    let served = Served::start(10).await;
    let (mut node, _) = served.node(1).await;
    let mut admin = served.admin().await;
    let status = admin.status(v1::StatusRequest {}).await.expect("it answers").into_inner();
    assert!(status.store_healthy && status.generation == 1 && !status.version.is_empty());
    assert_eq!((status.databases[0].cap, &*status.databases[0].on_loss), (10, "fence"));

    let set = v1::SetOverrideRequest {
        database: "orders".to_owned(),
        cap: Some(8),
        quantum_ms: Some(0),
        duration_ms: Some(60_000),
        ..v1::SetOverrideRequest::default()
    };
    let set = admin.set_override(set).await.expect("it is done").into_inner().database.expect("it is there");
    assert_eq!((set.cap, set.cap_limit, &*set.admission), (8, Some(8), "strict"));
    let shown: Vec<_> = set.overrides.iter().map(|kept| format!("{} {}", kept.setting, kept.value)).collect();
    assert_eq!(shown, ["cap 8", "quantum 0ms"]);
    assert!(set.overrides.iter().all(|kept| kept.remaining_ms.is_some_and(|left| left <= 60_000)));

    let database = "orders".to_owned();
    let drained = admin.drain(v1::DrainRequest { database: database.clone() }).await.expect("it is done");
    assert!(drained.into_inner().database.expect("it is there").draining);
    let resumed = admin.resume(v1::ResumeRequest { database: database.clone() }).await.expect("it is done");
    assert!(!resumed.into_inner().database.expect("it is there").draining);

    let request = v1::ListSessionsRequest { database };
    let sessions = admin.list_sessions(request).await.expect("it answers").into_inner().sessions;
    assert_eq!((&*sessions[0].node, &*sessions[0].state), ("node-1", "attached"));
    let evict = |session: &str| v1::EvictRequest { session: session.to_owned() };
    assert_eq!(admin.evict(evict("01")).await.expect_err("too short").code(), Code::InvalidArgument);
    assert_eq!(admin.evict(evict("99999999")).await.expect_err("unknown").code(), Code::NotFound);
    let evicted = admin.evict(evict("01010101")).await.expect("it is done").into_inner();
    assert_eq!(evicted.session.expect("it is there").id, sessions[0].id);
    assert!(matches!(node.next().await, server_message::Kind::Gone(_)));
    assert_eq!(node.end().await.code(), Code::Ok);
    let request = v1::ListDatabasesRequest { database: "lost".to_owned() };
    assert_eq!(admin.list_databases(request).await.expect_err("unknown").code(), Code::NotFound);
    served.stop().await;
}

#[tokio::test]
async fn the_server_says_whether_it_serves() {
    let served = Served::start(10).await;
    let mut health = HealthClient::new(served.channel().await);
    for service in ["", "leasehold.v1.LeaseService", "leasehold.v1.AdminService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let serving = || async {
            let checked = health.clone().check(request.clone()).await;
            checked.is_ok_and(|reply| reply.into_inner().status == 1)
        };
        until("it serves", serving).await;
    }
    let mut watch = health.watch(HealthCheckRequest::default()).await.expect("it answers").into_inner();
    assert_eq!(watch.message().await.expect("no error").expect("it goes on").status, 1);
    drop((watch, health));
    served.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_ends_streams_and_calls() {
    let served = Served::start(1).await;
    let (mut node, _) = served.node(1).await;
    let mut leases = served.leases().await;
    leases.acquire(acquire(1, Duration::ZERO)).await.expect("it is leased");
    let waiting = v1::AcquireRequest { request_id: REQUEST.replace('4', "5"), ..acquire(1, PATIENCE) };
    let call = tokio::spawn(async move { leases.acquire(waiting).await });
    until("the call waits", || async { served.waiting().await == 1 }).await;
    served.stop().await;
    assert_eq!(node.end().await.code(), Code::Unavailable);
    let call = call.await.expect("it does not panic").expect_err("it was not leased");
    assert_eq!(call.code(), Code::Unavailable);
}
