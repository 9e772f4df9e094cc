//! Durable before visible, while the store fails and after it.

use leasehold_admission::{Close, ReleaseTarget, UnaryReply};

use super::*;

#[tokio::test(start_paused = true)]
async fn nobody_is_welcomed_while_the_store_fails() {
    let running = Running::start(10).await;
    running.store.set_failing(true);
    let mut node = running.open(1, 0).await;
    assert_eq!(node.next().await, Outgoing::End(Close::StoreUnavailable));
    let health = running.handle.health();
    assert!(health.borrow().store.as_ref().is_err_and(|error| error.contains("cannot write `test`")));

    running.store.set_failing(false);
    let mut health = health;
    health.wait_for(|health| health.store.is_ok()).await.expect("the driver runs");
    running.attach(1, 0).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn grants_wait_for_the_store_and_then_come_by_themselves() {
    for ambiguous in [false, true] {
        let running = Running::start(10).await;
        running.store.ambiguous.store(ambiguous, Ordering::SeqCst);
        let mut node = running.attach(1, 0).await;
        running.store.set_failing(true);
        node.want(5).await;
        node.guard.keep_alive(1).await.expect("the driver runs");
        assert_eq!(node.next().await, Outgoing::KeepAlive(1), "no allotment before it");

        let mut health = running.handle.health();
        health.wait_for(|health| health.store.is_err()).await.expect("the driver runs");
        running.store.set_failing(false);
        node.take(5).await;
        assert!(running.store.ceiling(1) >= 5);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn returns_are_taken_while_the_store_fails() {
    let running = Running::start(5).await;
    let mut first = running.attach(1, 0).await;
    let mut second = running.attach(2, 0).await;
    first.want(5).await;
    first.take(5).await;
    running.store.set_failing(true);
    second.want(5).await;
    first.give_back().await;
    let mut health = running.handle.health();
    health.wait_for(|health| health.store.is_err()).await.expect("the driver runs");

    running.store.set_failing(false);
    while second.demand.holding < 5 {
        tokio::select! {
            // Whatever it is told on the way, it keeps nothing.
            Some(Outgoing::Allotment(_, allotment)) = first.messages.recv() => {
                first.demand.acknowledged = allotment.sequence;
                first.give_back().await;
            }
            () = second.take(second.demand.holding + 1) => {}
        }
    }
    assert_eq!(running.store.ceiling(2), 5);
    assert_eq!(running.store.ceiling(1), 0, "the ceilings fit the cap");
    running.stop().await;
}

/// A grant within a durable ceiling needs no commit of its own.
#[tokio::test(start_paused = true)]
async fn a_failed_commit_takes_back_nothing_that_was_sent_before() {
    let running = Running::start(10).await;
    let mut first = running.attach(1, 0).await;
    let mut second = running.attach(2, 0).await;
    first.want(5).await;
    first.take(5).await;
    first.give_back().await;
    let commits = running.store.commits();
    first.want(5).await;
    assert!(matches!(first.next().await, Outgoing::Allotment(_, allotment) if allotment.tokens == 5));
    assert_eq!(running.store.commits(), commits, "the ceiling still covers it");

    running.store.set_failing(true);
    second.want(3).await;
    let mut health = running.handle.health();
    health.wait_for(|health| health.store.is_err()).await.expect("the driver runs");
    assert_eq!(running.orders().await.view.held, 5, "the first node has it, acknowledged or not");
    running.store.set_failing(false);
    running.stop().await;
}

/// What a node was told is never above what is durable, whenever the store
/// fails.
#[tokio::test(start_paused = true)]
async fn no_allotment_is_above_its_durable_ceiling() {
    let running = Running::start(40).await;
    let mut nodes = Vec::new();
    for session in 1..=4 {
        nodes.push((session, running.attach(session, 0).await));
    }
    for round in 0..200_u32 {
        running.store.set_failing(round % 7 < 3);
        for (session, node) in &mut nodes {
            if (round + *session as u32).is_multiple_of(5) {
                node.give_back().await;
            } else {
                node.want(round % 11).await;
            }
            node.guard.keep_alive(u64::from(round)).await.expect("the driver runs");
            loop {
                match node.next().await {
                    Outgoing::Allotment(_, allotment) => {
                        let ceiling = running.store.ceiling(*session);
                        let tokens = allotment.tokens;
                        assert!(tokens <= ceiling, "told {tokens}, durable {ceiling}, round {round}");
                        node.acknowledge(allotment);
                    }
                    Outgoing::KeepAlive(id) if id == u64::from(round) => break,
                    Outgoing::KeepAlive(_) => {}
                    other @ (Outgoing::Welcome { .. } | Outgoing::End(_)) => panic!("{other:?}"),
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    running.stop().await;
}

/// A disk that hangs: nobody hears anything wrong, and whoever looks is told.
#[tokio::test(start_paused = true)]
async fn a_store_that_stalls_is_told_of_and_then_goes_on() {
    let running = Running::start(10).await;
    let mut node = running.attach(1, 0).await;
    let stall = running.store.stall();
    node.want(5).await;
    let mut health = running.handle.health();
    // While a thread commits, the paused clock does not move by itself.
    while health.borrow_and_update().store.is_ok() {
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    let why = health.borrow().store.clone().expect_err("it is told of");
    assert_eq!(why, "a commit has taken more than 1 s and is not done");
    let looked = running.orders().await;
    assert_eq!((looked.view.held, looked.view.waiting), (5, 5), "the grant counts before it is durable");
    assert_eq!(running.handle.sessions().await.map(|sessions| sessions.len()), Ok(1));
    assert!(node.messages.try_recv().is_err(), "nothing is granted before the commit is done");

    drop(stall);
    node.take(5).await;
    assert!(health.borrow_and_update().store.is_ok());
    assert!(running.store.ceiling(1) >= 5);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_the_store_in_vain_hears_of_it() {
    let running = Running::start(5).await;
    running.store.set_failing(true);
    for max_wait in [Duration::ZERO, Duration::from_secs(3)] {
        let call = AcquireCall {
            request: SessionId(9),
            node: "script".into(),
            workload: "default".into(),
            database: ORDERS,
            tokens: 2,
        };
        let asked = Instant::now();
        let answer = running.handle.acquire(call, max_wait).await;
        assert_eq!(answer, Ok(UnaryReply::StoreUnavailable));
        assert!(asked.elapsed() < max_wait + Duration::from_secs(1));
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_unary_call_waits_for_the_store() {
    let running = Running::start(5).await;
    running.store.set_failing(true);
    let call = AcquireCall {
        request: SessionId(9),
        node: "script".into(),
        workload: "default".into(),
        database: ORDERS,
        tokens: 2,
    };
    let handle = running.handle.clone();
    let acquire = tokio::spawn(async move { handle.acquire(call, PATIENCE).await });
    let mut health = running.handle.health();
    health.wait_for(|health| health.store.is_err()).await.expect("the driver runs");
    assert!(!acquire.is_finished());
    running.store.set_failing(false);
    let reply = acquire.await.expect("the call does not panic");
    assert!(matches!(reply, Ok(UnaryReply::Leased { tokens: 2, .. })), "{reply:?}");

    running.store.set_failing(true);
    let release = || running.handle.release(ReleaseTarget::Lease(SessionId(9)), "script".into());
    assert_eq!(release().await, Ok(UnaryReply::StoreUnavailable));
    assert_eq!(release().await, Ok(UnaryReply::StoreUnavailable), "a crash would bring the lease back");
    running.store.set_failing(false);
    health.wait_for(|health| health.store.is_ok()).await.expect("the driver runs");
    assert_eq!(release().await, Ok(UnaryReply::AlreadyReleased));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_hears_that_the_store_fails() {
    let running = Running::start(5).await;
    let call = || AcquireCall {
        request: SessionId(9),
        node: "script".into(),
        workload: "default".into(),
        database: ORDERS,
        tokens: 2,
    };
    let leased = running.handle.acquire(call(), Duration::ZERO).await;
    assert!(matches!(leased, Ok(UnaryReply::Leased { .. })), "{leased:?}");
    running.store.set_failing(true);
    // The store is not asked before something has to be written.
    drop(running.open(1, 0).await);
    let mut health = running.handle.health();
    health.wait_for(|health| health.store.is_err()).await.expect("the driver runs");
    let asked = Instant::now();
    let again = running.handle.acquire(call(), PATIENCE).await;
    assert_eq!(again, Ok(UnaryReply::StoreUnavailable));
    assert!(asked.elapsed() < Duration::from_secs(1), "it did not wait for what will not come");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn operators_hear_that_the_store_fails() {
    let running = Running::start(5).await;
    running.store.set_failing(true);
    let drain = || AdminAction::SetDraining { database: ORDERS, draining: true };
    let first = running.admin(drain()).await;
    assert!(matches!(first, Err(AdminRefusal::NotDurable(_))), "{first:?}");
    let second = running.admin(drain()).await;
    assert!(matches!(second, Err(AdminRefusal::StoreFails(_))), "{second:?}");

    running.store.set_failing(false);
    let store = running.store.clone();
    until("the drain is durable", || async {
        store.state().operators.get("orders").is_some_and(|operator| operator.draining)
    })
    .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_the_start_stops_it() {
    let store = Flaky::default();
    store.set_failing(true);
    let error = start(Box::new(store), &[orders(5)], Traces::default()).await.expect_err("it does not start");
    assert_eq!(error.to_string(), "cannot write `test`");
}
