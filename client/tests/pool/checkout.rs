//! The way to a connection: waits, connects, tests, failures, and what is counted of it.

use std::error::Error as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_client::governed::Recall;
use leasehold_client::hooks::OnReturn;
use leasehold_client::{Checkout, Error, RecycleFailure};

use crate::SHORT;
use crate::hooks::Driven;
use crate::support::{Database, Refused, Scene, reached};

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
async fn each_source_line_is_counted() {
    let scene = Scene::new(1);
    for _ in 0..3 {
        drop(scene.pool.get().await.expect("there is a token"));
    }
    let here = scene.pool.get().await.expect("there is a token");
    let statistics = scene.pool.statistics();
    let [busy, other] = &statistics.sites[..] else { panic!("two lines: {statistics:?}") };
    assert!(busy.location.expect("it is a line").file().ends_with("checkout.rs"));
    assert_eq!((busy.hold.iter().sum::<u64>(), busy.in_use), (3, 0));
    assert_eq!((other.hold.iter().sum::<u64>(), other.in_use), (0, 1));
    assert_eq!((statistics.opens, statistics.peak_in_use, statistics.peak_open), (1, 1, 1));
    drop(here);
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
