//! The governed pool from its user's side and from its session's, against a
//! database that only counts.

mod support;

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_client::clock::Clock;
use leasehold_client::governed::Recall;
use leasehold_client::hooks::{BoxFuture, Hooks, OnReturn, Severer, Spare};
use leasehold_client::{BuildError, Checkout, Error, LeasedPool, RecycleFailure};
use tokio::sync::Semaphore;

use support::{Bell, Connection, Connector, Database, Refused, Scene, reached};

const SHORT: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_token_that_arrives_ends_the_wait() {
    let scene = Scene::new(0);
    let get = tokio::spawn({
        let pool = scene.pool.clone();
        async move { pool.get().await.map(|connection| connection.number) }
    });
    scene.settled([0, 0, 0, 0, 0, 1]).await;
    assert!(scene.bell.rings() > 0, "the session is told of the first waiter");
    scene.session.allot(1, Recall::None);
    assert_eq!(get.await.expect("it does not panic").expect("it connects"), 0);
    scene.settled([1, 0, 1, 0, 0, 0]).await;
}

#[tokio::test]
async fn connections_are_used_again_and_their_metrics_tell() {
    let scene = Scene::new(2);
    let first = scene.pool.get().await.expect("it connects");
    assert_eq!((Checkout::metrics(&first).recycle_count, Checkout::metrics(&first).recycled), (0, None));
    drop(first);
    for count in 1..5 {
        let again = scene.pool.get().await.expect("it is idle");
        let metrics = Checkout::metrics(&again);
        assert_eq!((again.number, metrics.recycle_count), (0, count));
        assert!(metrics.recycled.expect("it was tested") >= metrics.created);
    }
}

#[tokio::test]
async fn failures_are_told_apart() {
    let scene =
        Scene::with(1, |pool| pool.wait_timeout(Some(SHORT)).create_timeout(SHORT).recycle_timeout(SHORT));
    let held = scene.pool.get().await.expect("it connects");
    let error = scene.pool.get().await.expect_err("nothing is free");
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error:?}");
    drop(Checkout::detach(held));
    scene.settled([1, 0, 0, 0, 0, 0]).await;

    Database::shut(&scene.database.create_gate);
    let error = scene.pool.get().await.expect_err("the database hangs");
    assert!(matches!(error, Error::CreateTimeout { source: None, .. }), "{error:?}");
    Database::open_gate(&scene.database.create_gate);

    scene.database.for_good.store(true, Ordering::SeqCst);
    scene.database.refusals.store(1, Ordering::SeqCst);
    let error = scene.pool.get().await.expect_err("the database refuses");
    assert!(matches!(error, Error::Backend { source: Refused::ForGood, .. }), "{error:?}");
    assert_eq!(error.source().expect("it has a source").to_string(), "access denied");

    drop(scene.pool.get().await.expect("it connects"));
    Database::shut(&scene.database.recycle_gate);
    let error = scene.pool.get().await.expect_err("the test hangs for as long as a wait may last");
    let timed_out =
        matches!(error, Error::Recycle { source: RecycleFailure::Timeout { .. }, attempts: 1, .. });
    assert!(timed_out, "{error:?}");
    Database::open_gate(&scene.database.recycle_gate);

    scene.pool.close().await.expect("nothing is in use");
    let error = scene.pool.get().await.expect_err("it is closed");
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
    let statistics = scene.pool.statistics();
    assert_eq!(
        (statistics.wait_timeouts, statistics.create_timeouts, statistics.recycle_failures),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn a_zero_wait_does_not_wait() {
    let scene = Scene::with(1, |pool| pool.wait_timeout(Some(Duration::ZERO)));
    let held = scene.pool.get().await.expect("a connect is not a wait");
    assert!(matches!(scene.pool.get().await, Err(Error::WaitTimeout { .. })));
    drop(held);
    drop(scene.pool.get().await.expect("it is idle"));
    scene.session.allot(2, Recall::None);
    scene.database.unfit.store(true, Ordering::SeqCst);
    drop(scene.pool.get().await.expect("the idle one is unfit, but another token is free"));
}

#[tokio::test]
async fn a_connect_goes_on_without_its_checkout_and_the_next_one_has_its_connection() {
    let scene = Scene::new(1);
    Database::shut(&scene.database.create_gate);
    let get = || {
        let pool = scene.pool.clone();
        tokio::spawn(async move { pool.get().await.map(|connection| connection.number) })
    };
    let first = get();
    scene.settled([1, 0, 0, 1, 0, 0]).await;
    first.abort();
    assert!(first.await.is_err_and(|error| error.is_cancelled()));
    // Its token is not to be had: half a login is a connection to the database.
    let second = get();
    scene.settled([1, 0, 0, 1, 0, 1]).await;
    Database::open_gate(&scene.database.create_gate);
    assert_eq!(second.await.expect("it does not panic").expect("it waits no longer"), 0);
    scene.settled([1, 0, 1, 0, 0, 0]).await;
    assert_eq!(scene.database.made.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connect_that_goes_on_without_its_checkout_leaves_with_its_pool() {
    let scene = Scene::new(1);
    Database::shut(&scene.database.create_gate);
    assert!(tokio::time::timeout(SHORT, scene.pool.get()).await.is_err());
    scene.settled([1, 0, 0, 1, 0, 0]).await;
    let close = tokio::spawn({
        let pool = scene.pool.clone();
        async move { pool.close().await }
    });
    assert!(reached(|| scene.pool.is_closed()).await);
    Database::open_gate(&scene.database.create_gate);
    close.await.expect("it does not panic").expect("nothing is in use");
    assert_eq!((scene.database.open(), scene.pool.status().holding), (0, 0));
}

#[tokio::test]
async fn a_cancelled_checkout_leaves_nothing_behind() {
    let scene = Scene::new(1);
    // While it waits.
    let held = scene.pool.get().await.expect("it connects");
    assert!(tokio::time::timeout(SHORT, scene.pool.get()).await.is_err());
    scene.settled([1, 1, 0, 0, 0, 0]).await;
    drop(held);
    // While it tests: the state of the connection is unknown.
    Database::shut(&scene.database.recycle_gate);
    assert!(tokio::time::timeout(SHORT, scene.pool.get()).await.is_err());
    scene.settled([1, 0, 0, 0, 0, 0]).await;
    assert_eq!(scene.database.open(), 0);
    assert_eq!(scene.database.detached.load(Ordering::SeqCst), 1, "the manager was told");
}

#[tokio::test]
async fn an_unfit_connection_is_replaced_in_the_same_checkout() {
    let scene = Scene::new(1);
    drop(scene.pool.get().await.expect("it connects"));
    scene.database.unfit.store(true, Ordering::SeqCst);
    let connection = scene.pool.get().await.expect("another is made with the same token");
    assert_eq!(connection.number, 1);
    assert_eq!(scene.pool.statistics().recycle_failures, 1);
}

#[tokio::test]
async fn panics_cost_a_connection_but_never_a_token() {
    let scene = Scene::new(1);
    let run = |hold: bool| {
        let pool = scene.pool.clone();
        tokio::spawn(async move {
            let _connection = pool.get().await;
            assert!(!hold, "the holder panics");
        })
    };
    scene.database.create_panics.store(true, Ordering::SeqCst);
    assert!(run(false).await.is_err());
    scene.settled([1, 0, 0, 0, 0, 0]).await;
    assert!(run(true).await.is_err());
    scene.settled([1, 0, 0, 0, 0, 0]).await;
    assert!(run(false).await.is_ok());
    scene.settled([1, 0, 1, 0, 0, 0]).await;
    scene.database.recycle_panics.store(true, Ordering::SeqCst);
    assert!(run(false).await.is_err());
    scene.settled([1, 0, 0, 0, 0, 0]).await;
    assert_eq!(scene.database.open(), 0);
}

#[tokio::test]
async fn a_detached_connection_keeps_its_token() {
    let scene = Scene::new(1);
    let detached = Checkout::detach(scene.pool.get().await.expect("it connects"));
    assert_eq!(scene.database.detached.load(Ordering::SeqCst), 1);
    assert_eq!(scene.counts(), [1, 1, 0, 0, 0, 0]);
    assert_eq!(detached.number, 0);
    drop(detached);
    scene.settled([1, 0, 0, 0, 0, 0]).await;
    assert_eq!(scene.database.open(), 0);
    assert_eq!(scene.database.detached.load(Ordering::SeqCst), 1, "it is told once");
}

#[tokio::test]
async fn a_recall_takes_the_next_return() {
    let scene = Scene::new(2);
    let first = scene.pool.get().await.expect("it connects");
    let second = scene.pool.get().await.expect("it connects");
    scene.session.allot(1, Recall::NextReturn);
    assert_eq!(scene.counts(), [2, 2, 0, 0, 0, 0]);
    drop(first);
    scene.settled([1, 1, 0, 0, 0, 0]).await;
    drop(second);
    scene.settled([1, 0, 1, 0, 0, 0]).await;
    assert_eq!(scene.pool.statistics().recalls, 1);
}

#[tokio::test]
async fn each_source_line_is_counted() {
    let scene = Scene::new(1);
    for _ in 0..3 {
        drop(scene.pool.get().await.expect("there is a token"));
    }
    let here = scene.pool.get().await.expect("there is a token");
    let statistics = scene.pool.statistics();
    let [busy, other] = &statistics.sites[..] else { panic!("two lines: {statistics:?}") };
    assert!(busy.location.expect("it is a line").file().ends_with("pool.rs"));
    assert_eq!((busy.hold.iter().sum::<u64>(), busy.in_use), (3, 0));
    assert_eq!((other.hold.iter().sum::<u64>(), other.in_use), (0, 1));
    assert_eq!((statistics.opens, statistics.peak_in_use, statistics.peak_open), (1, 1, 1));
    drop(here);
}

#[tokio::test]
async fn closing_waits_for_what_is_in_use() {
    let scene = Scene::with(2, |pool| pool.shutdown_timeout(SHORT));
    let held = scene.pool.get().await.expect("it connects");
    let error = scene.pool.close().await.expect_err("one is in use");
    assert_eq!((error.connections, error.database.as_str()), (1, "orders"));
    let close = scene.pool.close();
    drop(held);
    close.await.expect("it came back");
    assert_eq!((scene.counts(), scene.database.open()), ([0; 6], 0));
}

#[tokio::test]
async fn closing_tells_those_who_wait() {
    let scene = Scene::new(0);
    let get = tokio::spawn({
        let pool = scene.pool.clone();
        async move { pool.get().await.map(drop) }
    });
    scene.settled([0, 0, 0, 0, 0, 1]).await;
    scene.pool.close().await.expect("nothing is in use");
    assert!(matches!(get.await, Ok(Err(Error::Closed { .. }))));
}

#[tokio::test]
async fn the_last_handle_closes_the_pool() {
    let scene = Scene::new(2);
    let Scene { pool, database, session, .. } = scene;
    let held = pool.get().await.expect("it connects");
    drop(pool.get().await.expect("it connects"));
    drop(pool);
    assert!(reached(|| session.levels().holding == 1).await, "the one in use stays");
    drop(held);
    assert!(reached(|| session.levels().holding == 0 && database.open() == 0).await);
}

#[tokio::test]
async fn the_minimum_is_kept_open() {
    let scene = Scene::with(0, |pool| pool.min_size(2));
    assert_eq!(scene.session.levels().wanted, 2);
    scene.session.allot(3, Recall::None);
    scene.settled([3, 0, 2, 0, 0, 0]).await;
    scene.database.unfit.store(true, Ordering::SeqCst);
    drop(scene.pool.get().await.expect("the other one is fit"));
    scene.settled([3, 0, 2, 0, 0, 0]).await;
}

#[tokio::test]
async fn the_minimum_survives_a_manager_that_panics() {
    let scene = Scene::with(0, |pool| pool.min_size(1));
    scene.database.create_panics.store(true, Ordering::SeqCst);
    scene.session.allot(1, Recall::None);
    scene.settled([1, 0, 1, 0, 0, 0]).await;
}

#[tokio::test]
async fn old_and_long_idle_connections_are_closed() {
    let clock = Clock::manual();
    let lifetime = Duration::from_secs(600);
    let scene = Scene::with(1, |pool| {
        pool.clock(clock.clone()).idle_timeout(Some(Duration::from_secs(60))).max_lifetime(Some(lifetime))
    });
    drop(scene.pool.get().await.expect("it connects"));
    clock.advance(Duration::from_secs(59));
    drop(scene.pool.get().await.expect("it is idle"));
    clock.advance(Duration::from_secs(60));
    scene.settled([1, 0, 0, 0, 0, 0]).await;
    let held = scene.pool.get().await.expect("it connects");
    assert_eq!(held.number, 1);
    clock.advance(lifetime);
    drop(held);
    scene.settled([1, 0, 0, 0, 0, 0]).await;
    assert_eq!(scene.database.open(), 0);
}

#[tokio::test]
async fn nothing_opens_past_the_deadline() {
    let clock = Clock::manual();
    let scene = Scene::with(2, |pool| pool.clock(clock.clone()).wait_timeout(Some(SHORT)));
    scene.session.prolong(clock.now() + Duration::from_secs(10));
    let held = scene.pool.get().await.expect("it connects");
    Database::shut(&scene.database.create_gate);
    let get = tokio::spawn({
        let pool = scene.pool.clone();
        async move { pool.get().await.map(drop) }
    });
    scene.settled([2, 1, 0, 1, 0, 0]).await;
    // The machine sleeps through the deadline in the middle of the connect.
    clock.advance(Duration::from_secs(10));
    Database::open_gate(&scene.database.create_gate);
    assert!(matches!(get.await, Ok(Err(Error::WaitTimeout { .. }))));
    scene.settled([1, 1, 0, 0, 0, 0]).await;
    assert_eq!(scene.database.open(), 1, "what was opened too late is closed");
    drop(held);
    drop(scene.pool.get().await.expect("what is open is still used"));
}

#[tokio::test]
async fn wrong_settings_are_refused() {
    let build = |max, min| {
        let pool = LeasedPool::builder("orders", Connector(Database::new()));
        pool.max_size(max).min_size(min).build(Arc::new(Bell::default())).map(drop)
    };
    assert_eq!(build(0, 0), Err(BuildError::MaxSize { max_size: 0 }));
    assert_eq!(build(3, 4), Err(BuildError::MinSize { min_size: 4, max_size: 3 }));
    let pool = LeasedPool::builder("orders", Connector(Database::new()));
    let error = pool.close_timeout(Duration::ZERO).build(Arc::new(Bell::default())).map(drop);
    assert_eq!(error, Err(BuildError::Zero { setting: "close_timeout" }));
}

/// Hooks that a test drives.
#[derive(Clone)]
struct Driven {
    /// What to do with a connection that comes back; None panics.
    verdict: Option<OnReturn>,
    clean: bool,
    /// Each close takes one before it ends.
    close: Arc<Semaphore>,
    resets: Arc<AtomicU32>,
    severed: Arc<AtomicU32>,
    /// A close asks for another connection first.
    wants_spare: bool,
    spares: Arc<AtomicU32>,
}

impl Driven {
    fn new(verdict: Option<OnReturn>) -> Self {
        Self {
            verdict,
            clean: true,
            close: Arc::new(Semaphore::new(0)),
            resets: Arc::default(),
            severed: Arc::default(),
            wants_spare: false,
            spares: Arc::default(),
        }
    }
}

impl Hooks<Connector> for Driven {
    fn on_return(&self, _connection: &mut Connection) -> OnReturn {
        self.verdict.expect("on_return panics")
    }

    fn reset<'a>(&'a self, _connection: &'a mut Connection) -> BoxFuture<'a, bool> {
        self.resets.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { self.clean })
    }

    fn close(&self, connection: Connection, spare: Spare<Connector>) -> BoxFuture<'static, ()> {
        let hooks = self.clone();
        Box::pin(async move {
            if hooks.wants_spare && spare.connection().await.is_some() {
                hooks.spares.fetch_add(1, Ordering::SeqCst);
            }
            hooks.close.acquire().await.expect("it stays").forget();
            drop(connection);
        })
    }

    fn severer(&self, _connection: &Connection) -> Option<Severer> {
        let severed = Arc::clone(&self.severed);
        Some(Arc::new(move || {
            severed.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {})
        }))
    }

    fn is_refused_for_now(&self, error: &Refused) -> bool {
        *error == Refused::ForNow
    }
}

#[tokio::test]
async fn a_token_is_counted_until_its_close_has_ended() {
    let hooks = Driven::new(Some(OnReturn::Close));
    let scene = Scene::with(1, |pool| pool.hooks(hooks.clone()));
    drop(scene.pool.get().await.expect("it connects"));
    assert_eq!(scene.counts(), [1, 0, 0, 0, 1, 0]);
    scene.session.allot(0, Recall::Idle);
    assert_eq!(scene.counts(), [1, 0, 0, 0, 1, 0]);
    hooks.close.add_permits(1);
    scene.settled([1, 0, 0, 0, 0, 0]).await;
}

#[tokio::test]
async fn a_close_that_hangs_is_bounded() {
    let hooks = Driven::new(Some(OnReturn::Close));
    let scene = Scene::with(1, |pool| pool.hooks(hooks).close_timeout(SHORT));
    drop(scene.pool.get().await.expect("it connects"));
    scene.settled([1, 0, 0, 0, 0, 0]).await;
    assert_eq!(scene.database.open(), 0);
}

#[tokio::test]
async fn a_returned_connection_is_reset_before_it_is_idle() {
    let hooks = Driven::new(Some(OnReturn::Reset));
    let scene = Scene::with(1, |pool| pool.hooks(hooks.clone()));
    drop(scene.pool.get().await.expect("it connects"));
    scene.settled([1, 0, 1, 0, 0, 0]).await;
    assert_eq!(hooks.resets.load(Ordering::SeqCst), 1);
    assert_eq!(scene.pool.statistics().hold.iter().sum::<u64>(), 1);
}

#[tokio::test]
async fn what_cannot_be_reset_or_judged_is_closed() {
    for hooks in [Driven { clean: false, ..Driven::new(Some(OnReturn::Reset)) }, Driven::new(None)] {
        let scene = Scene::with(1, |pool| pool.hooks(hooks.clone()));
        drop(scene.pool.get().await.expect("it connects"));
        scene.settled([1, 0, 0, 0, 1, 0]).await;
        hooks.close.add_permits(1);
        scene.settled([1, 0, 0, 0, 0, 0]).await;
    }
}

#[tokio::test]
async fn a_close_gets_another_connection_ahead_of_all_that_wait() {
    let hooks = Driven { wants_spare: true, ..Driven::new(Some(OnReturn::Pool)) };
    let scene = Scene::with(2, |pool| pool.hooks(hooks.clone()));
    let doomed = scene.pool.get().await.expect("it connects");
    let other = scene.pool.get().await.expect("it connects");
    let waiting = tokio::spawn({
        let pool = scene.pool.clone();
        async move { pool.get().await.map(drop) }
    });
    scene.settled([2, 2, 0, 0, 0, 1]).await;
    drop(Checkout::detach(doomed));
    scene.settled([2, 1, 0, 0, 1, 2]).await;
    assert!(scene.pool.status().oldest_wait < Duration::from_secs(60), "an age is an age");
    drop(other);
    assert!(reached(|| hooks.spares.load(Ordering::SeqCst) == 1).await);
    assert!(waiting.await.is_ok_and(|got| got.is_ok()), "then it is handed on");
    hooks.close.add_permits(1);
    scene.settled([2, 0, 1, 0, 0, 0]).await;
}

#[tokio::test]
async fn a_refusal_for_now_is_tried_again() {
    let hooks = Driven::new(Some(OnReturn::Pool));
    let scene = Scene::with(1, |pool| pool.hooks(hooks));
    scene.database.refusals.store(3, Ordering::SeqCst);
    let connection = scene.pool.get().await.expect("the fourth try succeeds");
    drop(Checkout::detach(connection));
    let scene = Scene::with(1, |pool| {
        pool.hooks(Driven::new(Some(OnReturn::Pool))).create_timeout(Duration::from_millis(50))
    });
    scene.database.refusals.store(u32::MAX, Ordering::SeqCst);
    let error = scene.pool.get().await.expect_err("it is refused for too long");
    assert!(matches!(error, Error::CreateTimeout { source: Some(Refused::ForNow), .. }), "{error:?}");
}

#[tokio::test]
async fn a_fence_severs_what_is_in_use() {
    let hooks = Driven::new(Some(OnReturn::Pool));
    let scene = Scene::with(3, |pool| pool.hooks(hooks.clone()));
    let first = scene.pool.get().await.expect("it connects");
    let second = scene.pool.get().await.expect("it connects");
    drop(second);
    scene.session.lapse(true);
    assert!(reached(|| hooks.severed.load(Ordering::SeqCst) == 1).await);
    assert_eq!(scene.counts(), [2, 1, 0, 0, 1, 0], "the idle one closes, the unopened token lapsed");
    scene.session.revive();
    drop(first);
    assert_eq!(scene.counts(), [2, 0, 0, 0, 2, 0], "a severed connection is not used again");
    hooks.close.add_permits(2);
    // What was open at the deadline takes its token along, revived or not.
    scene.settled([0, 0, 0, 0, 0, 0]).await;
    assert_eq!(scene.database.open(), 0);
}
