//! The whole server in this process: it answers on both ports, and whoever
//! hangs on to it cannot keep it from ending.

#![expect(clippy::unwrap_used, reason = "a test whose surroundings fail fails")]

use std::path::Path;
use std::time::Duration;

use leasehold_proto::v1::admin_service_client::AdminServiceClient;
use leasehold_proto::v1::lease_service_client::LeaseServiceClient;
use leasehold_proto::v1::node_message::Kind;
use leasehold_proto::v1::{Hello, NodeMessage, StatusRequest};
use leasehold_server::config;
use leasehold_server::run::{self, Addresses, Listeners};
use leasehold_server::telemetry::Traces;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;

/// Longest wait for anything.
const BOUND: Duration = Duration::from_secs(10);
/// A server ends within this, whatever hangs on to it.
const STOP: Duration = Duration::from_secs(8);

struct Server {
    addresses: Addresses,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), run::Error>>,
    _directory: TempDir,
}

impl Server {
    async fn start(databases: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let text = format!(
            "[server]\nlisten = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\ndata = '{}'\n{databases}",
            data.display()
        );
        let config = config::parse(Path::new("test"), &text, &|name| std::env::var(name)).unwrap();
        let listeners = Listeners::bind(&config.server).await.unwrap();
        let addresses = listeners.addresses().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
            "the test"
        };
        let task = tokio::spawn(run::run(config, listeners, Traces::default(), |_| (), stopped));
        Self { addresses, stop, task, _directory: directory }
    }

    fn url(&self) -> String {
        format!("http://{}", self.addresses.grpc)
    }

    /// Stops it and tells how long that took.
    async fn stop(self) -> Duration {
        let start = Instant::now();
        self.stop.send(()).unwrap();
        timeout(BOUND, self.task).await.expect("it ends in time").unwrap().unwrap();
        start.elapsed()
    }
}

async fn page(server: &Server, path: &str) -> String {
    let mut stream = TcpStream::connect(server.addresses.http).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn it_answers_on_both_ports() {
    let server = Server::start("[databases.a]\ncap = 7").await;
    let mut admin = AdminServiceClient::connect(server.url()).await.unwrap();
    let status = admin.status(StatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.generation, status.databases[0].cap), (1, 7));
    assert!(page(&server, "/readyz").await.starts_with("HTTP/1.0 200"));
    assert!(page(&server, "/metrics").await.contains("leasehold_cap{database=\"a\"} 7\n"));
    drop(admin);
    server.stop().await;
}

#[tokio::test]
async fn nobody_keeps_it_from_ending() {
    // A database that nobody will ever reach, so that its probe is in the middle of a pause.
    let server = Server::start("[databases.a]\nurl = 'mysql://probe@127.0.0.1:1/'").await;

    // A node that stays attached, and never reads what it is told.
    let (messages, outgoing) = mpsc::channel(1);
    let hello = Hello { session: vec![7; 16], node: "n".to_owned(), ..Hello::default() };
    messages.send(NodeMessage { kind: Some(Kind::Hello(hello)) }).await.unwrap();
    let mut leases = LeaseServiceClient::connect(server.url()).await.unwrap();
    let stream = leases.session(ReceiverStream::new(outgoing)).await.unwrap().into_inner();

    // Connections that say nothing, or half of something.
    let silent = TcpStream::connect(server.addresses.grpc).await.unwrap();
    let mut half = TcpStream::connect(server.addresses.http).await.unwrap();
    half.write_all(b"GET /metrics HT").await.unwrap();

    let took = server.stop().await;
    assert!(took < STOP, "it took {took:?}");
    drop((messages, leases, stream, silent, half));
}
