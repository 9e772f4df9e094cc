//! Unary calls.

use super::*;

#[tokio::test]
async fn a_unary_lease_is_acquired_renewed_and_released() {
    let served = Served::start(10).await;
    let mut leases = served.leases().await;
    let lease = leases.acquire(acquire(3, PATIENCE)).await.expect("it is leased").into_inner();
    assert_eq!((&*lease.lease_id, lease.tokens, lease.ttl_ms), (REQUEST, 3, 30_000));
    assert!(lease.waited_ms < 10_000);
    let again = leases.acquire(acquire(3, PATIENCE)).await.expect("it is the same").into_inner();
    assert_eq!(again.lease_id, lease.lease_id);
    let other = leases.acquire(acquire(4, PATIENCE)).await.expect_err("another count");
    assert_eq!(other.code(), Code::AlreadyExists);

    let renew = |node: &str| v1::RenewRequest { lease_id: REQUEST.to_owned(), node: node.to_owned() };
    leases.renew(renew("script")).await.expect("it is renewed");
    let foreign = leases.renew(renew("other")).await.expect_err("another node");
    assert_eq!(foreign.code(), Code::PermissionDenied);

    let target = v1::release_request::Target::RequestId(REQUEST.to_owned());
    let release = v1::ReleaseRequest { target: Some(target), node: "script".to_owned() };
    let released = leases.release(release.clone()).await.expect("it is released").into_inner();
    assert_eq!(released.outcome(), v1::ReleaseOutcome::Released);
    let released = leases.release(release).await.expect("it is known").into_inner();
    assert_eq!(released.outcome(), v1::ReleaseOutcome::AlreadyReleased);
    served.stop().await;
}

#[tokio::test]
async fn a_unary_call_says_why_it_got_nothing() {
    let served = Served::start(10).await;
    let mut leases = served.leases().await;
    let code = async |leases: &mut LeaseServiceClient<Channel>, request| {
        leases.acquire(request).await.expect_err("it is refused").code()
    };
    let lost = v1::AcquireRequest { database: "lost".to_owned(), ..acquire(1, PATIENCE) };
    assert_eq!(code(&mut leases, lost).await, Code::NotFound);
    assert_eq!(code(&mut leases, acquire(11, PATIENCE)).await, Code::FailedPrecondition);
    leases.acquire(acquire(10, Duration::ZERO)).await.expect("it is leased");
    let other = REQUEST.replace('4', "5");
    let late = v1::AcquireRequest { request_id: other, ..acquire(1, Duration::from_millis(20)) };
    assert_eq!(code(&mut leases, late).await, Code::DeadlineExceeded);
    served.stop().await;
}

#[tokio::test]
async fn a_cancelled_call_waits_no_longer() {
    let served = Served::start(3).await;
    let mut leases = served.leases().await;
    leases.acquire(acquire(3, Duration::ZERO)).await.expect("it is leased");
    let waiting = v1::AcquireRequest { request_id: REQUEST.replace('4', "5"), ..acquire(1, PATIENCE) };
    let call = tokio::spawn(async move { leases.acquire(waiting).await });
    until("the call waits", || async { served.waiting().await == 1 }).await;
    call.abort();
    until("nobody waits", || async { served.waiting().await == 0 }).await;
    served.stop().await;
}
