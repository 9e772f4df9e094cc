//! Nodes on their streams.

use leasehold_admission::SessionState;
use tokio::{io::copy_bidirectional, net::TcpStream};

use super::*;

impl Served {
    async fn until_unattached(&self) {
        let unattached = || async {
            let sessions = self.handle.sessions().await.expect("it answers");
            sessions[0].state == SessionState::Unattached
        };
        until("the session is unattached", unattached).await;
    }
}

/// Passes bytes on until it is told to fall silent, with both connections open.
async fn silent_proxy(to: SocketAddr) -> (SocketAddr, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let (hush, silence) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut node, _) = listener.accept().await.expect("a node connects");
        let mut server = TcpStream::connect(to).await.expect("it connects");
        tokio::select! {
            _ = copy_bidirectional(&mut node, &mut server) => {}
            _ = silence => tokio::time::sleep(PATIENCE).await,
        }
    });
    (address, hush)
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
    served.until_unattached().await;
    served.stop().await;
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_noticed() {
    let served = Served::start(10).await;
    let (address, hush) = silent_proxy(served.address).await;
    let mut node = Node::open(channel(address).await).await;
    node.send(Kind::Hello(hello(1))).await;
    assert!(matches!(node.next().await, server_message::Kind::Welcome(_)));
    hush.send(()).expect("the proxy runs");
    served.until_unattached().await;
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
