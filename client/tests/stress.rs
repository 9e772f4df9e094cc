//! The governed pool under everything at once: 64 tasks on 4 workers, random
//! levels, cancellations, failures, panics, detaches, fences, and a close.
//! Never more open than the highest allotment, nobody stuck, everything given
//! back.
//!
//! `STRESS_SEED=n cargo test -p leasehold-client --test stress` repeats the
//! random choices of a run; what threads do with them still differs.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use fastrand::Rng;
use leasehold_client::governed::{Governed, Recall, Reporter};
use leasehold_client::hooks::{BoxFuture, Hooks, OnReturn, Spare};
use leasehold_client::{Checkout, Error, LeasedPool};
use tokio::time::timeout;

const TASKS: u64 = 64;
const ROUNDS: u32 = 600;
const HIGHEST: u32 = 20;
/// Far more than a run takes; a stuck task ends the test with this.
const BOUND: Duration = Duration::from_secs(120);

/// The panics that are part of the test.
const ON_PURPOSE: &str = "a panic on purpose";

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused {
    for_now: bool,
}

/// What the database counts.
#[derive(Default)]
struct Database {
    open: AtomicU32,
    peak: AtomicU32,
    made: AtomicU64,
    /// Failures stop for the end of the test.
    calm: AtomicBool,
}

struct Connection {
    database: Arc<Database>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.database.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Connector(Arc<Database>);

impl Connector {
    fn happens(&self, one_in: u32) -> bool {
        !self.0.calm.load(Ordering::SeqCst) && fastrand::u32(..one_in) == 0
    }
}

impl Manager for Connector {
    type Type = Connection;
    type Error = Refused;

    async fn create(&self) -> Result<Connection, Refused> {
        pause(fastrand::u32(..4)).await;
        assert!(!self.happens(50), "{ON_PURPOSE}");
        if self.happens(8) {
            return Err(Refused { for_now: fastrand::bool() });
        }
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.peak.fetch_max(open, Ordering::SeqCst);
        self.0.made.fetch_add(1, Ordering::SeqCst);
        let connection = Connection { database: Arc::clone(&self.0) };
        // A cancelled connect may have reached the database.
        pause(fastrand::u32(..2)).await;
        Ok(connection)
    }

    async fn recycle(&self, _connection: &mut Connection, _metrics: &Metrics) -> RecycleResult<Refused> {
        pause(fastrand::u32(..2)).await;
        assert!(!self.happens(100), "{ON_PURPOSE}");
        if self.happens(10) { Err(RecycleError::message("unfit")) } else { Ok(()) }
    }
}

struct Closer(Arc<Database>);

impl Hooks<Connector> for Closer {
    fn on_return(&self, _connection: &mut Connection) -> OnReturn {
        match fastrand::u32(..16) {
            0 => OnReturn::Close,
            1 => OnReturn::Reset,
            2 if !self.0.calm.load(Ordering::SeqCst) && fastrand::u32(..8) == 0 => panic!("{ON_PURPOSE}"),
            _ => OnReturn::Pool,
        }
    }

    fn reset<'a>(&'a self, _connection: &'a mut Connection) -> BoxFuture<'a, bool> {
        Box::pin(async {
            pause(1).await;
            fastrand::u32(..4) > 0
        })
    }

    fn close(&self, connection: Connection, spare: Spare<Connector>) -> BoxFuture<'static, ()> {
        let calm = self.0.calm.load(Ordering::SeqCst);
        Box::pin(async move {
            pause(fastrand::u32(..3)).await;
            if !calm && fastrand::u32(..16) == 0 {
                drop(timeout(Duration::from_millis(2), spare.connection()).await);
            }
            assert!(calm || fastrand::u32(..50) > 0, "{ON_PURPOSE}");
            drop(connection);
        })
    }

    fn is_refused_for_now(&self, error: &Refused) -> bool {
        error.for_now
    }
}

struct Deaf;

impl Reporter for Deaf {
    fn changed(&self) {}
}

/// Lets other tasks run, for a while or for a moment.
async fn pause(length: u32) {
    match length {
        0 => {}
        1 => tokio::task::yield_now().await,
        _ => tokio::time::sleep(Duration::from_micros(fastrand::u64(..1_000))).await,
    }
}

/// One checkout and what a user may do with it.
async fn use_one(pool: &LeasedPool<Connector>, choice: u32, hold: u32) -> Result<(), Error<Refused>> {
    let connection = pool.get().await?;
    pause(hold).await;
    match choice {
        0 => panic!("{ON_PURPOSE}"),
        1 | 2 => {
            let detached = Checkout::detach(connection);
            pause(1).await;
            drop(detached);
        }
        _ => {}
    }
    Ok(())
}

async fn work(pool: LeasedPool<Connector>, mut random: Rng) {
    for _ in 0..ROUNDS {
        let (choice, hold, patience) = (random.u32(..40), random.u32(..4), random.u64(..3_000));
        let pool = pool.clone();
        let one = tokio::spawn(async move { use_one(&pool, choice, hold).await });
        if choice % 4 == 3 {
            // Cancelled somewhere on its way.
            tokio::time::sleep(Duration::from_micros(patience)).await;
            one.abort();
        }
        match one.await {
            Ok(Err(Error::Closed { .. })) => panic!("nobody closed it yet"),
            Ok(Ok(()) | Err(_)) => {}
            Err(failed) => assert!(failed.is_cancelled() || is_on_purpose(failed), "another panic"),
        }
    }
}

fn is_on_purpose(failed: tokio::task::JoinError) -> bool {
    failed.try_into_panic().is_ok_and(|panic| {
        panic.downcast_ref::<String>().is_some_and(|text| text == ON_PURPOSE)
            || panic.downcast_ref::<&str>().is_some_and(|text| *text == ON_PURPOSE)
    })
}

/// Moves the levels about, as a server and a network would.
async fn govern(session: Arc<dyn Governed>, mut random: Rng, done: Arc<AtomicBool>) {
    while !done.load(Ordering::SeqCst) {
        let recall = match random.u32(..3) {
            0 => Recall::None,
            1 => Recall::Idle,
            _ => Recall::NextReturn,
        };
        session.allot(random.u32(..=HIGHEST), recall);
        if random.u32(..20) == 0 {
            session.lapse(random.bool());
            pause(2).await;
            session.revive();
        }
        let levels = session.levels();
        assert!(levels.holding >= levels.established + levels.opening + levels.closing);
        assert!(levels.holding <= HIGHEST);
        tokio::time::sleep(Duration::from_micros(random.u64(..2_000))).await;
    }
}

#[test]
fn everything_at_once() {
    let seed = std::env::var("STRESS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(ON_PURPOSE) {
            eprintln!("replay with STRESS_SEED={seed}");
            usual(panic);
        }
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(async {
        timeout(BOUND, stress(seed)).await.unwrap_or_else(|_| panic!("a task is stuck, seed {seed}"));
    });
}

async fn stress(seed: u64) {
    let database = Arc::new(Database::default());
    let pool = LeasedPool::builder("orders", Connector(Arc::clone(&database)))
        .hooks(Closer(Arc::clone(&database)))
        .max_size(HIGHEST)
        .min_size(2)
        .wait_timeout(Some(Duration::from_millis(200)))
        .create_timeout(Duration::from_millis(50))
        .build(Arc::new(Deaf))
        .expect("the settings are right");
    let session = pool.governed();
    let done = Arc::new(AtomicBool::new(false));
    let governor = tokio::spawn(govern(Arc::clone(&session), Rng::with_seed(seed), Arc::clone(&done)));
    let workers: Vec<_> = (1..=TASKS)
        .map(|task| tokio::spawn(work(pool.clone(), Rng::with_seed(seed.wrapping_add(task)))))
        .collect();
    for worker in workers {
        worker.await.expect("a worker's only panics are on purpose");
    }
    done.store(true, Ordering::SeqCst);
    governor.await.expect("the governor's checks hold");

    everyone_is_served(&pool, &session, &database).await;

    let held = pool.get().await.expect("there are tokens");
    let close = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close().await }
    });
    while !pool.is_closed() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(pool.get().await, Err(Error::Closed { .. })));
    drop(held);
    close.await.expect("close does not panic").expect("everything comes back");

    let statistics = pool.statistics();
    let levels = session.levels();
    assert_eq!((levels.holding, levels.waiting), (0, 0), "everything is accounted for");
    assert_eq!(database.open.load(Ordering::SeqCst), 0, "every connection is closed");
    assert!(database.peak.load(Ordering::SeqCst) <= HIGHEST, "never more open than the highest allotment");
    assert!(statistics.peak_open <= HIGHEST, "never more counted than the highest allotment");
    let made = database.made.load(Ordering::SeqCst);
    // A connect that was given up may have reached the database.
    assert!(statistics.opens <= made && made <= statistics.opens + statistics.open_failures);
    assert!(statistics.closes == statistics.opens, "every connection that was opened was closed");
    let happened =
        [statistics.recalls, statistics.recycle_failures, statistics.open_failures, statistics.waits];
    assert!(happened.iter().all(|count| *count > 0), "the storm was a breeze: {statistics:?}");
    assert!(statistics.sites.iter().all(|site| site.in_use == 0), "no source line still holds one");
}

/// After the storm: with one token, all 64 tasks get their turn.
async fn everyone_is_served(pool: &LeasedPool<Connector>, session: &Arc<dyn Governed>, database: &Database) {
    database.calm.store(true, Ordering::SeqCst);
    session.revive();
    session.allot(0, Recall::NextReturn);
    while session.levels().holding > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let waiting: Vec<_> = (0..TASKS)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                // A turn may come too late once; it must come.
                while pool.get().await.map(drop).is_err() {}
            })
        })
        .collect();
    session.allot(1, Recall::None);
    for task in waiting {
        task.await.expect("a checkout does not panic");
    }
}
