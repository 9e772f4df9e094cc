//! A client and a pool against a scripted server, over real gRPC.

mod scripted_server;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleResult};
use leasehold_client::client::{ConnectError, PoolError, ReadyError, RegisterError, ShutdownError};
use leasehold_client::{Client, Error, LeasedPool};
use leasehold_proto::v1;
use leasehold_proto::v1::node_message::Kind as FromNode;
use leasehold_proto::v1::server_message::Kind as ToNode;
use scripted_server::{ScriptedServer, ServerStream, soon, welcome};
use tokio::net::TcpSocket;

/// Makes "connections" that are numbers.
#[derive(Debug, Default)]
struct Numbers(AtomicU32);

impl Manager for Numbers {
    type Type = u32;
    type Error = Infallible;

    async fn create(&self) -> Result<u32, Infallible> {
        Ok(self.0.fetch_add(1, Ordering::SeqCst))
    }

    async fn recycle(&self, _: &mut u32, _: &Metrics) -> RecycleResult<Infallible> {
        Ok(())
    }
}

/// A client that is attached to `server`, and its first, empty stream.
async fn attached(server: &mut ScriptedServer) -> (Client, ServerStream) {
    let address = server.address.to_string();
    let (client, (stream, hello)) =
        soon("client", async { tokio::join!(Client::connect([address]), server.accept_and_welcome(1)) })
            .await;
    assert_eq!(hello.claims, []);
    (client.expect("a welcome"), stream)
}

/// A client with a pool for "orders" that holds one connection, which is idle.
async fn with_a_connection(server: &mut ScriptedServer) -> (Client, LeasedPool<Numbers>, ServerStream) {
    let (client, first) = attached(server).await;
    let pool = client.pool("orders", Numbers::default()).build().expect("a pool");
    drop(first);
    let (mut stream, hello) = server.accept_and_welcome(1).await;
    assert_eq!(hello.claims[0].database, "orders");
    soon("answer about the database", client.ready("orders")).await.expect("a known database");
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.get().await.map(drop) }
    });
    stream.demand(|demand| demand.acknowledged == 1 && demand.waiting == 1).await;
    stream.allot("orders", 2, 1).await;
    stream.demand(|demand| demand.acknowledged == 2 && demand.holding == 1).await;
    soon("checkout", waiting).await.expect("a task that ends").expect("a connection");
    stream.demand(|demand| demand.idle == 1).await;
    (client, pool, stream)
}

#[tokio::test]
async fn a_checkout_waits_for_an_allotment() {
    let mut server = ScriptedServer::start().await;
    let (client, pool, _stream) = with_a_connection(&mut server).await;
    assert_eq!(pool.status().holding, 1);
    let status = client.status();
    assert!(status.attached && !status.ended);
    assert_eq!(status.generation, Some(1));
    assert_eq!(status.endpoint, Some(format!("http://{}", server.address)));
    assert!(status.deadline_remaining > Some(Duration::ZERO), "{status:?}");
}

#[tokio::test]
async fn a_server_that_comes_back_finds_what_is_held() {
    let mut server = ScriptedServer::start().await;
    let (client, pool, stream) = with_a_connection(&mut server).await;
    let address = server.address;
    drop((server, stream));
    // The pool does not need the server for what it holds.
    drop(soon("checkout without a server", pool.get()).await.unwrap());

    let mut server = ScriptedServer::start_on(address).await;
    let (mut stream, hello) = server.accept_and_welcome(2).await;
    assert_eq!(hello.generation, 1);
    let claim = hello.claims[0].demand.clone().unwrap();
    assert_eq!((claim.acknowledged, claim.holding, claim.established), (0, 1, 1));
    let demand = stream.demand(|demand| demand.acknowledged == 1).await;
    assert_eq!(demand.holding, 1, "a Welcome takes nothing and gives nothing");
    assert_eq!(client.status().generation, Some(2));
}

#[tokio::test]
async fn endpoints_that_do_not_answer_are_passed_over() {
    let mut server = ScriptedServer::start().await;
    let (_socket, refusing) = refusing_address();
    let endpoints = [refusing, server.address.to_string()];
    let connect = async { tokio::join!(Client::connect(endpoints), server.accept_and_welcome(1)) };
    let (client, _stream) = soon("client", connect).await;
    assert_eq!(client.unwrap().status().endpoint, Some(format!("http://{}", server.address)));
}

#[tokio::test]
async fn a_connect_without_any_server_says_what_was_tried() {
    let ((_one, first), (_other, second)) = (refusing_address(), refusing_address());
    let builder = Client::builder().endpoints([&first, &second]).connect_timeout(Duration::from_millis(500));
    let error = soon("refusal", builder.connect()).await.unwrap_err();
    let ConnectError::Unreachable { attempts, .. } = &error else { panic!("{error:?}") };
    assert_eq!(attempts.len(), 2);
    let text = error.to_string();
    assert!(text.contains(&format!("http://{first}: cannot connect: Connection refused")), "{text}");
    assert!(text.contains(&second), "{text}");
}

#[tokio::test]
async fn a_message_that_is_not_valid_is_named_in_the_error() {
    let mut server = ScriptedServer::start().await;
    let builder =
        Client::builder().endpoint(server.address.to_string()).connect_timeout(Duration::from_millis(500));
    let script = async {
        let mut stream = server.accept().await;
        let hello = stream.hello().await;
        stream.send(ToNode::Welcome(v1::Welcome { ttl_ms: 0, ..welcome(1, &hello) })).await;
        stream
    };
    let (client, _stream) = soon("refusal", async { tokio::join!(builder.connect(), script) }).await;
    let text = client.unwrap_err().to_string();
    assert!(text.contains("not valid: ttl_ms is 0, which is not from 2 to 86400000"), "{text}");
}

#[tokio::test]
async fn a_server_that_stops_answering_is_left_for_a_new_stream() {
    let mut server = ScriptedServer::start().await;
    let (_client, first) = attached(&mut server).await;
    // Nobody answers its keep-alives; the connection itself stays up.
    let mut second = server.accept().await;
    let hello = second.hello().await;
    assert_eq!(hello.generation, 1);
    drop(first);
}

#[tokio::test]
async fn an_eviction_is_answered_with_what_is_held() {
    let mut server = ScriptedServer::start().await;
    let (_client, _pool, stream) = with_a_connection(&mut server).await;
    stream.send(ToNode::Gone(v1::Gone { reason: "evicted".into() })).await;
    let (_stream, hello) = server.accept_and_welcome(1).await;
    assert_eq!(hello.claims[0].demand.clone().unwrap().holding, 1);
}

#[tokio::test]
async fn past_the_deadline_nothing_is_opened_and_what_is_open_goes_on() {
    let mut server = ScriptedServer::start().await;
    let address = server.address.to_string();
    let builder = Client::builder().endpoint(address).connect_lazy().unwrap();
    let pool = builder.pool("orders", Numbers::default()).wait_timeout(Some(Duration::ZERO)).build().unwrap();
    let mut stream = server.accept().await;
    let hello = stream.hello().await;
    stream.send(ToNode::Welcome(v1::Welcome { ttl_ms: 400, ..welcome(1, &hello) })).await;
    stream.allot("orders", 2, 2).await;
    stream.demand(|demand| demand.acknowledged == 2 && demand.holding == 2).await;
    let open = soon("checkout", pool.get()).await.unwrap();
    drop((server, stream));
    let lapsed = async {
        while pool.status().holding > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("lapse of the unopened token", lapsed).await;
    assert!(matches!(pool.get().await, Err(Error::WaitTimeout { .. })));
    drop(open);
    drop(soon("checkout of the open connection", pool.get()).await.unwrap());
    assert_eq!(builder.status().deadline_remaining, Some(Duration::ZERO));
}

#[tokio::test]
async fn a_database_that_the_server_does_not_know_is_a_clear_error() {
    let mut server = ScriptedServer::start().await;
    let (client, _first) = attached(&mut server).await;
    let _pool = client.pool("typo", Numbers::default()).build().unwrap();
    let mut stream = server.accept().await;
    let hello = stream.hello().await;
    let mut unknown = welcome(1, &hello);
    unknown.databases = vec![v1::DatabaseTerms { database: "typo".into(), ..Default::default() }];
    stream.send(ToNode::Welcome(unknown)).await;
    let error = soon("answer", client.ready("typo")).await.unwrap_err();
    assert_eq!(error, ReadyError::Unknown { database: "typo".into() });
    let other = client.ready("other").await.unwrap_err();
    assert_eq!(other, ReadyError::NoPool { database: "other".into() });
}

#[tokio::test]
async fn tokens_without_connections_are_leased_like_a_pool() {
    let mut server = ScriptedServer::start().await;
    let (client, _first) = attached(&mut server).await;
    let tokens = client.tokens("orders").max_size(3).build().unwrap();
    let (mut stream, _) = server.accept_and_welcome(1).await;
    let waiting = tokio::spawn({
        let tokens = tokens.clone();
        async move { tokens.acquire().await }
    });
    stream.demand(|demand| demand.waiting == 1 && demand.wanted == 1).await;
    stream.allot("orders", 2, 1).await;
    let token = soon("token", waiting).await.unwrap().unwrap();
    stream.demand(|demand| demand.acknowledged == 2 && demand.in_use == 1).await;
    drop(token);
    drop(tokens);
    stream.demand(|demand| demand.holding == 0).await;
}

#[tokio::test]
async fn one_database_has_one_pool_until_it_is_closed() {
    let mut server = ScriptedServer::start().await;
    let (client, pool, _stream) = with_a_connection(&mut server).await;
    let taken = client.pool("orders", Numbers::default()).build().unwrap_err();
    assert_eq!(taken, PoolError::Register(RegisterError::Taken { database: "orders".into() }));
    soon("close", pool.close()).await.unwrap();
    client.pool("orders", Numbers::default()).build().unwrap();
}

#[tokio::test]
async fn a_shutdown_gives_everything_back_and_says_goodbye() {
    let mut server = ScriptedServer::start().await;
    let (client, pool, mut stream) = with_a_connection(&mut server).await;
    let script = async {
        stream.demand(|demand| demand.holding == 0).await;
        stream.until(|kind| matches!(kind, FromNode::Goodbye(_))).await;
        drop(stream);
    };
    let (ended, ()) = soon("shutdown", async { tokio::join!(client.shutdown(), script) }).await;
    ended.unwrap();
    assert!(pool.is_closed() && client.status().ended);
    client.shutdown().await.unwrap();
    let late = client.pool("other", Numbers::default()).build().unwrap_err();
    assert_eq!(late, PoolError::Register(RegisterError::Ended));
}

#[tokio::test]
async fn a_shutdown_with_connections_in_use_has_a_bound_and_says_what_is_held() {
    let mut server = ScriptedServer::start().await;
    let builder =
        Client::builder().endpoint(server.address.to_string()).shutdown_timeout(Duration::from_millis(300));
    let client = builder.connect_lazy().unwrap();
    let pool = client.pool("orders", Numbers::default()).build().unwrap();
    let (mut stream, _) = server.accept_and_welcome(1).await;
    stream.allot("orders", 2, 1).await;
    let _in_use = soon("checkout", pool.get()).await.unwrap();
    stream.demand(|demand| demand.in_use == 1).await;
    let error = soon("end", client.shutdown()).await.unwrap_err();
    let ShutdownError::StillInUse { held, .. } = &error else { panic!("{error:?}") };
    assert_eq!(held, &[("orders".to_owned(), 1)]);
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_session() {
    let mut server = ScriptedServer::start().await;
    let (client, mut stream) = attached(&mut server).await;
    let watch = Arc::new(client.clone());
    drop(client);
    drop(watch);
    stream.until(|kind| matches!(kind, FromNode::Goodbye(_))).await;
}

/// An address that refuses connections as long as the socket is kept: it is
/// taken, but nobody listens.
fn refusing_address() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a loopback port");
    let address = socket.local_addr().expect("an address").to_string();
    (socket, address)
}
