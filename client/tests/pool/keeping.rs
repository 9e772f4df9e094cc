//! What a pool keeps, and what makes it give up: recalls, minimum, ages, deadlines,
//! settings.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_client::clock::Clock;
use leasehold_client::governed::Recall;
use leasehold_client::{BuildError, Checkout, Error, LeasedPool};

use crate::SHORT;
use crate::support::{Bell, Connector, Database, Scene};

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
