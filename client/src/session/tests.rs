//! The session's rules as scripts: a node with pools that only count, a server
//! that says what the test says, and a clock that the test moves.

mod counting_pool;
mod random;
mod reports;
mod rules;
mod streams;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::counting_pool::CountingPool;
use super::message::{
    Allotment, DatabaseName, DatabaseTerms, Demand, FromServer, Generation, Hello, KeepAliveId, LossPolicy,
    Sequence, SessionId, Terms, ToServer, Welcome,
};
use super::{Effect, Event, Identity, Session, SessionStatus, StreamId};
use crate::clock::Time;
use crate::governed::Recall;

const TTL: Duration = Duration::from_secs(9);
const KEEP_ALIVE: Duration = Duration::from_secs(2);
const QUANTUM: Duration = Duration::from_millis(100);

fn name(database: &str) -> DatabaseName {
    DatabaseName::new(database).unwrap()
}

/// A session with its pools, and everything that it did and nobody took yet.
struct Node {
    session: Session,
    pools: Vec<(DatabaseName, Arc<CountingPool>)>,
    now: Time,
    effects: Vec<Effect>,
    /// What the server tells every database.
    on_loss: LossPolicy,
}

impl Node {
    fn new(databases: &[&str]) -> Self {
        Self::with_endpoints(databases, 1)
    }

    fn with_endpoints(databases: &[&str], endpoints: usize) -> Self {
        let identity = Identity {
            session: SessionId::from_bytes([1; 16]),
            node: "node-1".into(),
            workload: String::new(),
            client: "test".into(),
        };
        let mut node = Self {
            session: Session::new(identity, endpoints, 42),
            pools: Vec::new(),
            now: Time::START + Duration::from_secs(1_000),
            effects: Vec::new(),
            on_loss: LossPolicy::Keep,
        };
        for database in databases {
            node.register(database);
        }
        node
    }

    /// A node whose first stream was welcomed, with the Welcome acknowledged.
    fn attached(databases: &[&str]) -> Self {
        let mut node = Self::new(databases);
        node.attach();
        node
    }

    fn register(&mut self, database: &str) {
        let pool = Arc::new(CountingPool::default());
        self.pools.push((name(database), Arc::clone(&pool)));
        self.session.register(self.now, name(database), pool, &mut self.effects);
    }

    fn pool(&self, database: &str) -> &CountingPool {
        &self.pools.iter().find(|(other, _)| *other == name(database)).unwrap().1
    }

    fn apply(&mut self, event: Event) {
        self.session.apply(self.now, event, &mut self.effects);
    }

    fn advance(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.apply(Event::Timer);
    }

    fn taken(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    fn status(&self) -> SessionStatus {
        self.session.status()
    }

    /// The stream that was opened last. Waits for it, a pause at most.
    fn opened(&mut self) -> (StreamId, usize) {
        for _ in 0..200 {
            for effect in self.taken() {
                if let Effect::Open { stream, endpoint, .. } = effect {
                    return (stream, endpoint);
                }
            }
            self.advance(Duration::from_millis(20));
        }
        panic!("no stream was opened: {:?}", self.session)
    }

    /// Reaches the server and returns the Hello.
    fn hello(&mut self) -> (StreamId, Hello) {
        let (stream, _) = self.opened();
        self.apply(Event::Connected(stream));
        let sent = self.taken();
        let [Effect::Send(on, ToServer::Hello(hello))] = &sent[..] else { panic!("no Hello: {sent:?}") };
        assert_eq!(*on, stream);
        let hello = hello.clone();
        self.apply(Event::Sent(stream));
        (stream, hello)
    }

    fn welcome_to(&self, hello: &Hello) -> Welcome {
        let terms = Terms { sequence: Sequence(1), on_loss: self.on_loss, quantum: QUANTUM };
        let database =
            |claim: &Demand| DatabaseTerms { database: claim.database.clone(), terms: Some(terms) };
        Welcome {
            generation: Generation(3),
            ttl: TTL,
            keep_alive: KEEP_ALIVE,
            databases: hello.claims.iter().map(database).collect(),
        }
    }

    /// Opens a stream, is welcomed, and lets every acknowledgement leave.
    fn attach(&mut self) -> StreamId {
        let (stream, hello) = self.hello();
        let welcome = self.welcome_to(&hello);
        self.apply(Event::Received(stream, FromServer::Welcome(welcome)));
        self.said(stream);
        stream
    }

    fn stream(&self) -> StreamId {
        self.session.current().expect("a stream")
    }

    fn receive(&mut self, message: FromServer) {
        let stream = self.stream();
        self.apply(Event::Received(stream, message));
    }

    fn allot(&mut self, database: &str, sequence: u64, tokens: u32) {
        self.receive(allotment(database, sequence, tokens));
    }

    /// Everything that the node says until it falls silent.
    fn said(&mut self, stream: StreamId) -> Vec<ToServer> {
        let mut said = Vec::new();
        loop {
            let sent: Vec<_> = self.taken();
            if sent.is_empty() {
                return said;
            }
            for effect in sent {
                match effect {
                    Effect::Send(on, message) => {
                        assert_eq!(on, stream);
                        said.push(message);
                    }
                    other @ (Effect::Open { .. } | Effect::Drop(_) | Effect::Finished) => {
                        panic!("instead of speaking: {other:?}")
                    }
                }
            }
            self.apply(Event::Sent(stream));
        }
    }

    /// The demands that the node sends until it falls silent.
    fn demands(&mut self) -> Vec<Demand> {
        let stream = self.stream();
        let demand = |message| match message {
            ToServer::Demand(demand) => Some(demand),
            ToServer::Hello(_) | ToServer::KeepAlive(_) | ToServer::Goodbye => None,
        };
        self.said(stream).into_iter().filter_map(demand).collect()
    }

    /// Advances to the next keep-alive and returns its id.
    fn keep_alive(&mut self) -> KeepAliveId {
        self.advance(KEEP_ALIVE);
        let stream = self.stream();
        let id = |message: &ToServer| match message {
            ToServer::KeepAlive(id) => Some(*id),
            ToServer::Hello(_) | ToServer::Demand(_) | ToServer::Goodbye => None,
        };
        self.said(stream).iter().find_map(id).expect("a keep-alive")
    }
}

fn allotment(database: &str, sequence: u64, tokens: u32) -> FromServer {
    FromServer::Allotment(Allotment {
        database: name(database),
        sequence: Sequence(sequence),
        tokens,
        recall: Recall::Idle,
        quantum: None,
        max_waiting: None,
    })
}
