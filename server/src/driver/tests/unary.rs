//! Unary calls: waiting, timing out, being dropped at any moment.

use leasehold_admission::{ReleaseTarget, UnaryReply};

use super::*;

fn call(request: u128, tokens: u32) -> AcquireCall {
    let [node, workload] = ["script".into(), "default".into()];
    AcquireCall { request: SessionId(request), node, workload, database: ORDERS, tokens }
}

fn is_leased(reply: &Result<UnaryReply, Unanswered>) -> bool {
    matches!(reply, Ok(UnaryReply::Leased { .. }))
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_acquired_renewed_and_released() {
    let running = Running::start(5).await;
    let reply = running.handle.acquire(call(1, 3), Duration::ZERO).await;
    assert!(is_leased(&reply), "{reply:?}");
    assert!(running.store.ceiling(1) >= 3, "it is durable");
    let again = running.handle.acquire(call(1, 3), Duration::ZERO).await;
    assert!(is_leased(&again), "{again:?}");
    assert_eq!(running.orders().await.view.held, 3, "and was not leased twice");

    let handle = &running.handle;
    let renewed = handle.renew(SessionId(1), "script".into()).await;
    assert!(matches!(renewed, Ok(UnaryReply::Renewed { .. })), "{renewed:?}");
    let release = || handle.release(ReleaseTarget::Lease(SessionId(1)), "script".into());
    assert_eq!(release().await, Ok(UnaryReply::Released));
    assert_eq!(release().await, Ok(UnaryReply::AlreadyReleased));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_than_it_says() {
    let running = Running::start(3).await;
    assert!(is_leased(&running.handle.acquire(call(1, 3), Duration::ZERO).await));
    for wait in [Duration::ZERO, Duration::from_secs(2)] {
        let asked = Instant::now();
        let reply = running.handle.acquire(call(2, 1), wait).await;
        assert_eq!(reply, Ok(UnaryReply::TimedOut));
        assert!(asked.elapsed() >= wait && asked.elapsed() < wait + Duration::from_secs(1));
    }
    assert_eq!(running.orders().await.view.waiting, 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_nothing_behind() {
    let running = Running::start(3).await;
    assert!(is_leased(&running.handle.acquire(call(1, 3), Duration::ZERO).await));
    let handle = running.handle.clone();
    let waiting = tokio::spawn(async move { handle.acquire(call(2, 2), PATIENCE).await });
    let running = &running;
    until("the call waits", || async { running.orders().await.view.waiting > 0 }).await;
    waiting.abort();
    until("nobody waits", || async { running.orders().await.view.waiting == 0 }).await;
    let release = running.handle.release(ReleaseTarget::Request(SessionId(2)), "script".into()).await;
    assert_eq!(release, Ok(UnaryReply::Unknown));
}

/// Whatever moment a call is dropped at, its tokens come back or were never
/// taken.
#[tokio::test(start_paused = true)]
async fn a_call_may_be_dropped_at_any_moment() {
    let running = Running::start(3).await;
    for polls in 0..20 {
        let request = 100 + polls;
        let mut acquire = Box::pin(running.handle.acquire(call(request, 3), PATIENCE));
        for _ in 0..polls {
            let polled = tokio::time::timeout(Duration::ZERO, &mut acquire).await;
            if polled.is_ok() {
                let target = ReleaseTarget::Request(SessionId(request));
                running.handle.release(target, "script".into()).await.expect("it answers");
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(acquire);
        let running = &running;
        until("all tokens are free", || async { running.orders().await.view.held == 0 }).await;
    }
    running.stop().await;
}
