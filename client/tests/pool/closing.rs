//! The way out: connections that are closed or reset, fences, and pools that are closed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_client::governed::Recall;
use leasehold_client::hooks::OnReturn;
use leasehold_client::{Checkout, Error};

use crate::SHORT;
use crate::hooks::Driven;
use crate::support::{Scene, reached};

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
