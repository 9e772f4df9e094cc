//! The API over real connections: a server on a free port, and clients that
//! send what the generated code lets them send.

mod service;
mod streams;
mod unary;

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
/// A silent connection is given up after two of these.
const PING: Duration = Duration::from_millis(500);
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
            shadow: false,
            workloads: Vec::new(),
        };
        let store = Box::new(Memory::default());
        let (handle, driver) = driver::start(store, &[orders], Traces::default()).await.expect("it starts");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _ = stopped.await;
        };
        let serving = grpc::serve_with(listener, handle.clone(), stopped, PING, PING);
        let server = tokio::spawn(async { serving.await.expect("it serves") });
        Served { address, handle, stop, server, driver }
    }

    async fn channel(&self) -> Channel {
        channel(self.address).await
    }

    async fn leases(&self) -> LeaseServiceClient<Channel> {
        LeaseServiceClient::new(self.channel().await)
    }

    async fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel().await)
    }

    /// Opens a stream without a word.
    async fn stream(&self) -> Node {
        Node::open(self.channel().await).await
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
    async fn open(channel: Channel) -> Node {
        let (sender, messages) = mpsc::channel(16);
        let mut leases = LeaseServiceClient::new(channel);
        let answers = leases.session(ReceiverStream::new(messages)).await.expect("it opens").into_inner();
        Node { sender, answers }
    }

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

async fn channel(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("it is an address");
    endpoint.connect().await.expect("it connects")
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
