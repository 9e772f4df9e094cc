//! A lease service that says only what a test says: real gRPC, no decisions.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use leasehold_proto::v1;
use leasehold_proto::v1::lease_service_server::{LeaseService, LeaseServiceServer};
use leasehold_proto::v1::node_message::Kind as FromNode;
use leasehold_proto::v1::server_message::Kind as ToNode;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Longest wait for anything in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for `future` with a bound.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("no {what} within {PATIENCE:?}"))
}

/// A server on a loopback port. Dropping it cuts every connection, like a kill.
pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
    streams: mpsc::Receiver<ServerStream>,
    runtime: Option<Runtime>,
}

impl ScriptedServer {
    /// Starts on a free port.
    pub(crate) async fn start() -> Self {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts on `address`, which a former server may just have left.
    pub(crate) async fn start_on(address: SocketAddr) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
        let (opened, streams) = mpsc::channel(16);
        let (bound, address_bound) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let listener = bind(address).await;
            bound.send(listener.local_addr().expect("an address")).expect("the test waits");
            tonic::transport::Server::builder()
                .add_service(LeaseServiceServer::new(Service { opened }))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
        });
        let address = soon("bound port", address_bound).await.expect("a bound port");
        Self { address, streams, runtime: Some(runtime) }
    }

    /// The next stream that a node opens.
    pub(crate) async fn accept(&mut self) -> ServerStream {
        soon("stream", self.streams.recv()).await.expect("a running server")
    }

    /// The next stream, whose Hello is answered with [`welcome`].
    pub(crate) async fn accept_and_welcome(&mut self, generation: u64) -> (ServerStream, v1::Hello) {
        let mut stream = self.accept().await;
        let hello = stream.hello().await;
        stream.send(ToNode::Welcome(welcome(generation, &hello))).await;
        (stream, hello)
    }
}

/// Binds as soon as a former server, which ends in the background, has left.
async fn bind(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            bound => return bound.expect("a loopback port"),
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A Welcome to every claim: a TTL of 6 s, a keep-alive every 100 ms.
pub(crate) fn welcome(generation: u64, hello: &v1::Hello) -> v1::Welcome {
    let terms = |claim: &v1::Claim| v1::DatabaseTerms {
        database: claim.database.clone(),
        known: true,
        sequence: 1,
        on_loss: v1::LossPolicy::Keep.into(),
        quantum_us: 100_000,
    };
    let databases = hello.claims.iter().map(terms).collect();
    v1::Welcome { generation, ttl_ms: 6_000, keep_alive_ms: 100, databases }
}

/// The server's end of one stream.
pub(crate) struct ServerStream {
    from_node: Streaming<v1::NodeMessage>,
    to_node: mpsc::Sender<Result<v1::ServerMessage, Status>>,
}

impl ServerStream {
    /// The next message, `None` at the stream's end.
    pub(crate) async fn next(&mut self) -> Option<FromNode> {
        let message = soon("message", self.from_node.message()).await.ok().flatten()?;
        Some(message.kind.expect("a message says something"))
    }

    /// The Hello, which comes first.
    pub(crate) async fn hello(&mut self) -> v1::Hello {
        match self.next().await {
            Some(FromNode::Hello(hello)) => hello,
            other => panic!("instead of a Hello: {other:?}"),
        }
    }

    /// The first demand for which `fits` holds; keep-alives are answered.
    pub(crate) async fn demand(&mut self, fits: impl Fn(&v1::Demand) -> bool) -> v1::Demand {
        let wanted = |kind: &FromNode| matches!(kind, FromNode::Demand(demand) if fits(demand));
        let FromNode::Demand(demand) = self.until(wanted).await else { unreachable!("it was looked for") };
        demand
    }

    /// The first message that is `wanted`; keep-alives are answered.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&FromNode) -> bool) -> FromNode {
        let search = async {
            loop {
                let kind = self.next().await.expect("the stream goes on");
                if wanted(&kind) {
                    return kind;
                }
                if let FromNode::KeepAlive(v1::KeepAlive { id }) = kind {
                    self.send(ToNode::KeepAlive(v1::KeepAliveReply { id })).await;
                }
            }
        };
        soon("message that was waited for", search).await
    }

    /// Says something.
    pub(crate) async fn send(&self, kind: ToNode) {
        let message = v1::ServerMessage { kind: Some(kind) };
        self.to_node.send(Ok(message)).await.expect("the node listens");
    }

    /// Sets a target.
    pub(crate) async fn allot(&self, database: &str, sequence: u64, tokens: u32) {
        let recall = v1::Recall::Idle.into();
        let database = database.into();
        let allotment = v1::Allotment { database, sequence, tokens, recall, ..v1::Allotment::default() };
        self.send(ToNode::Allotment(allotment)).await;
    }
}

struct Service {
    opened: mpsc::Sender<ServerStream>,
}

#[tonic::async_trait]
impl LeaseService for Service {
    type SessionStream = ReceiverStream<Result<v1::ServerMessage, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::NodeMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (to_node, messages) = mpsc::channel(16);
        let stream = ServerStream { from_node: request.into_inner(), to_node };
        self.opened.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn acquire(&self, _: Request<v1::AcquireRequest>) -> Result<Response<v1::AcquireReply>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn renew(&self, _: Request<v1::RenewRequest>) -> Result<Response<v1::RenewReply>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn release(&self, _: Request<v1::ReleaseRequest>) -> Result<Response<v1::ReleaseReply>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}
