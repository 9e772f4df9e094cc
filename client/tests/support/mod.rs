//! A database that only counts, a session that only listens, and a wait for a
//! condition. Knows nothing of any one test.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use leasehold_client::governed::{Governed, Recall, Reporter};
use leasehold_client::hooks::PlainDrop;
use leasehold_client::{LeasedPool, PoolBuilder};
use tokio::sync::Semaphore;

/// What a database refuses with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("too many connections")]
    ForNow,
    #[error("access denied")]
    ForGood,
}

/// What the connections and the test share.
#[derive(Debug)]
pub struct Database {
    pub open: AtomicU32,
    pub peak: AtomicU32,
    pub made: AtomicU32,
    pub detached: AtomicU32,
    /// Connects to refuse from now on, and how.
    pub refusals: AtomicU32,
    pub for_good: AtomicBool,
    /// The next connects panic.
    pub create_panics: AtomicBool,
    /// The next tests say that the connection is unfit, or panic.
    pub unfit: AtomicBool,
    pub recycle_panics: AtomicBool,
    /// Each connect, and each test, passes here.
    pub create_gate: Semaphore,
    pub recycle_gate: Semaphore,
}

impl Database {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            open: AtomicU32::new(0),
            peak: AtomicU32::new(0),
            made: AtomicU32::new(0),
            detached: AtomicU32::new(0),
            refusals: AtomicU32::new(0),
            for_good: AtomicBool::new(false),
            create_panics: AtomicBool::new(false),
            unfit: AtomicBool::new(false),
            recycle_panics: AtomicBool::new(false),
            create_gate: Semaphore::new(Semaphore::MAX_PERMITS),
            recycle_gate: Semaphore::new(Semaphore::MAX_PERMITS),
        })
    }

    pub fn open(&self) -> u32 {
        self.open.load(Ordering::SeqCst)
    }

    /// Lets nobody through a gate; [`open_gate`] undoes it.
    pub fn shut(gate: &Semaphore) {
        gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub fn open_gate(gate: &Semaphore) {
        gate.add_permits(Semaphore::MAX_PERMITS);
    }

    fn refuses(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }
}

/// A connection; the database sees it end when it drops.
#[derive(Debug)]
pub struct Connection {
    pub number: u32,
    pub database: Arc<Database>,
}

impl Connection {
    fn open(database: &Arc<Database>) -> Self {
        let open = database.open.fetch_add(1, Ordering::SeqCst) + 1;
        database.peak.fetch_max(open, Ordering::SeqCst);
        let number = database.made.fetch_add(1, Ordering::SeqCst);
        Self { number, database: Arc::clone(database) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.database.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes the connections.
#[derive(Debug)]
pub struct Connector(pub Arc<Database>);

impl Manager for Connector {
    type Type = Connection;
    type Error = Refused;

    async fn create(&self) -> Result<Connection, Refused> {
        drop(self.0.create_gate.acquire().await.expect("the gate stays"));
        assert!(!self.0.create_panics.swap(false, Ordering::SeqCst), "create panics");
        if self.0.refuses() {
            let for_good = self.0.for_good.load(Ordering::SeqCst);
            return Err(if for_good { Refused::ForGood } else { Refused::ForNow });
        }
        Ok(Connection::open(&self.0))
    }

    async fn recycle(&self, _connection: &mut Connection, _metrics: &Metrics) -> RecycleResult<Refused> {
        drop(self.0.recycle_gate.acquire().await.expect("the gate stays"));
        assert!(!self.0.recycle_panics.swap(false, Ordering::SeqCst), "recycle panics");
        if self.0.unfit.swap(false, Ordering::SeqCst) {
            return Err(RecycleError::message("unfit"));
        }
        Ok(())
    }

    fn detach(&self, _connection: &mut Connection) {
        self.0.detached.fetch_add(1, Ordering::SeqCst);
    }
}

/// Counts how often the session was called.
#[derive(Debug, Default)]
pub struct Bell(pub AtomicU32);

impl Bell {
    pub fn rings(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Reporter for Bell {
    fn changed(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A pool, its database and its reins.
pub struct Scene {
    pub pool: LeasedPool<Connector>,
    pub database: Arc<Database>,
    pub session: Arc<dyn Governed>,
    pub bell: Arc<Bell>,
}

impl Scene {
    /// A pool with `tokens`, whose closed connections are gone at once.
    pub fn new(tokens: u32) -> Self {
        Self::with(tokens, |builder| builder)
    }

    pub fn with(tokens: u32, set: impl FnOnce(PoolBuilder<Connector>) -> PoolBuilder<Connector>) -> Self {
        let database = Database::new();
        let bell = Arc::new(Bell::default());
        let builder = LeasedPool::builder("orders", Connector(Arc::clone(&database)))
            .hooks(PlainDrop::with_grace(Duration::ZERO));
        let pool = set(builder).build(bell.clone()).expect("the settings are right");
        let session = pool.governed();
        session.allot(tokens, Recall::None);
        Self { pool, database, session, bell }
    }

    /// Tokens, and what becomes of them: in use, idle, opening or closing, and
    /// waiting tasks.
    pub fn counts(&self) -> [u32; 6] {
        let levels = self.pool.status();
        [levels.holding, levels.in_use, levels.idle, levels.opening, levels.closing, levels.waiting]
    }

    /// Waits until the counts are as `expected`.
    #[track_caller]
    pub fn settled(&self, expected: [u32; 6]) -> impl Future<Output = ()> {
        let location = std::panic::Location::caller();
        async move {
            let reached = reached(|| self.counts() == expected).await;
            assert!(reached, "{location}: {:?} instead of {expected:?}", self.counts());
        }
    }
}

/// Waits for a condition, with a bound. False: it did not come true.
pub async fn reached(condition: impl Fn() -> bool) -> bool {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.is_ok()
}
