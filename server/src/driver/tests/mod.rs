//! The driver with a real core and a real store in memory, on paused time: the
//! clock moves only when everybody waits.

mod failures;
mod operators;
mod sessions;
mod traces;
mod unary;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_admission::{Claim, DatabaseId, Demand, SessionId};
use leasehold_storage::{Change, Error, Memory, State, Store};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::*;
use crate::config::{Admission, DatabaseName, LossPolicy, Source};

const ORDERS: DatabaseId = DatabaseId(0);
/// Longest wait for anything, on the paused clock.
const PATIENCE: Duration = Duration::from_secs(60);
const OPERATOR: &str = "127.0.0.1:9";

/// A store whose commits can be made to fail, and that counts them.
#[derive(Clone, Default)]
struct Flaky {
    memory: Memory,
    fails: Arc<AtomicBool>,
    /// The next commit hangs until the sender of this is dropped.
    stall: Arc<Mutex<Option<std::sync::mpsc::Receiver<()>>>>,
    /// A failed commit is durable all the same.
    ambiguous: Arc<AtomicBool>,
    commits: Arc<AtomicUsize>,
    last: Arc<Mutex<Vec<Change>>>,
}

impl Flaky {
    fn set_failing(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Makes the next commit hang until what is returned is dropped.
    fn stall(&self) -> std::sync::mpsc::Sender<()> {
        let (stalled, stall) = std::sync::mpsc::channel();
        *self.stall.lock().expect("nobody panicked") = Some(stall);
        stalled
    }

    fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    fn state(&self) -> State {
        self.memory.clone().load().expect("memory loads")
    }

    fn ceiling(&self, session: u128) -> u32 {
        let key = (SessionId(session), Arc::from("orders"));
        self.state().leases.get(&key).map_or(0, |lease| lease.ceiling)
    }
}

impl Store for Flaky {
    fn load(&mut self) -> Result<State, Error> {
        self.memory.load()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        let stall = self.stall.lock().expect("nobody panicked").take();
        // An error says that the stall is over.
        let _ = stall.map(|stall| stall.recv());
        let fails = self.fails.load(Ordering::SeqCst);
        if !fails || self.ambiguous.load(Ordering::SeqCst) {
            self.memory.commit(changes)?;
        }
        if fails {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(Error::File { operation: "write", path: "test".into(), source });
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        changes.clone_into(&mut self.last.lock().expect("nobody panicked"));
        Ok(())
    }
}

fn orders(cap: u32) -> DatabaseConfig {
    DatabaseConfig {
        name: DatabaseName::new("orders").expect("the name has the right form"),
        source: Source::Static { cap },
        admission: Admission::Fair,
        quantum: Duration::from_millis(100),
        ttl: Duration::from_secs(10),
        on_loss: LossPolicy::Fence,
        fence_grace: Duration::from_secs(5),
        shadow: false,
        workloads: Vec::new(),
    }
}

/// A running driver over one database, `orders`.
struct Running {
    handle: DriverHandle,
    task: JoinHandle<()>,
    store: Flaky,
}

impl Running {
    async fn start(cap: u32) -> Running {
        Running::start_with(cap, Flaky::default()).await
    }

    async fn start_with(cap: u32, store: Flaky) -> Running {
        let (handle, task) =
            start(Box::new(store.clone()), &[orders(cap)], Traces::default()).await.expect("it starts");
        Running { handle, task, store }
    }

    async fn stop(self) -> Flaky {
        self.handle.stop().await;
        self.task.await.expect("the driver does not panic");
        self.store
    }

    async fn orders(&self) -> DatabaseStatus {
        self.handle.status().await.expect("it answers").databases.swap_remove(0)
    }

    async fn admin(&self, action: AdminAction) -> Result<AdminReply, AdminRefusal> {
        self.handle.admin(action, OPERATOR.to_owned()).await.expect("it answers")
    }

    /// Opens a stream; whether it is welcome is another matter.
    async fn open(&self, session: u128, holding: u32) -> TestNode {
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        let demand = Demand { holding, ..Demand::default() };
        let hello = HelloMessage {
            session: SessionId(session),
            node: "node".into(),
            workload: "default".into(),
            claims: vec![Claim { database: ORDERS, demand }],
            places: vec![
                Place { name: "lost".into(), database: None },
                Place { name: "orders".into(), database: Some(ORDERS) },
            ],
        };
        let guard = self.handle.open_stream(hello, outgoing).await.expect("it takes the stream");
        TestNode { guard, messages, demand }
    }

    async fn attach(&self, session: u128, holding: u32) -> TestNode {
        let mut node = self.open(session, holding).await;
        let Outgoing::Welcome { welcome, .. } = node.next().await else { panic!("not welcome") };
        node.demand.acknowledged = welcome.terms[0].sequence;
        node
    }
}

/// A node that keeps what it is given.
struct TestNode {
    guard: StreamGuard,
    messages: mpsc::Receiver<Outgoing>,
    demand: Demand,
}

impl TestNode {
    async fn next(&mut self) -> Outgoing {
        let message = timeout_at(Instant::now() + PATIENCE, self.messages.recv()).await;
        message.expect("a message in time").expect("the stream is open")
    }

    async fn report(&self) {
        self.guard.demand(ORDERS, self.demand, None).await.expect("the driver runs");
    }

    /// Reports so many waiting tasks.
    async fn want(&mut self, waiting: u32) {
        self.demand.waiting = waiting;
        self.demand.wanted = self.demand.in_use + waiting;
        self.demand.oldest_wait = Duration::from_millis(u64::from(waiting.min(1)));
        self.report().await;
    }

    /// Takes allotments and opens a connection for each waiting task, until it
    /// has at least so many.
    async fn take(&mut self, tokens: u32) {
        while self.demand.holding < tokens {
            let Outgoing::Allotment(_, allotment) = self.next().await else { continue };
            self.acknowledge(allotment);
            self.report().await;
        }
        assert!(self.demand.holding >= tokens);
    }

    fn acknowledge(&mut self, allotment: leasehold_admission::Allotment) {
        let demand = &mut self.demand;
        demand.acknowledged = allotment.sequence;
        let more = allotment.tokens.saturating_sub(demand.holding);
        demand.holding += more;
        demand.established += more;
        demand.in_use += more;
        demand.waiting = demand.waiting.saturating_sub(more);
    }

    /// Gives everything back.
    async fn give_back(&mut self) {
        self.demand = Demand { acknowledged: self.demand.acknowledged, ..Demand::default() };
        self.report().await;
    }
}

/// Waits for a condition, asking again whenever the clock moves on.
async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
