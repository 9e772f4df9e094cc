//! Streams: welcome, allotments, supersession, slow readers, restarts.

use leasehold_admission::{Close, SessionState};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_is_welcome_and_gets_what_it_asks_for() {
    let running = Running::start(10).await;
    let mut node = running.open(1, 0).await;
    let Outgoing::Welcome { generation, welcome, places } = node.next().await else { panic!("not welcome") };
    assert_eq!(generation, 1);
    assert_eq!(welcome.ttl, Duration::from_secs(10));
    assert_eq!(places[0].database, None, "unknown databases come along");
    node.demand.acknowledged = welcome.terms[0].sequence;
    node.want(4).await;
    node.take(4).await;
    assert_eq!(running.orders().await.view.held, 4);
    assert!(running.store.ceiling(1) >= 4);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_newest_stream_speaks_for_the_session() {
    let running = Running::start(10).await;
    let mut old = running.attach(1, 0).await;
    let new = running.attach(1, 0).await;
    assert_eq!(old.next().await, Outgoing::End(Close::Superseded));
    drop(old);
    new.guard.keep_alive(7).await.expect("the driver runs");
    let mut new = new;
    assert_eq!(new.next().await, Outgoing::KeepAlive(7));
    let sessions = running.handle.sessions().await.expect("it answers");
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].state, SessionState::Attached);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_read_is_let_go_and_comes_back() {
    let running = Running::start(10).await;
    let node = running.attach(1, 0).await;
    for id in 0..=OUTGOING as u64 {
        node.guard.keep_alive(id).await.expect("the driver runs");
    }
    let handle = &running.handle;
    let state = || async { handle.sessions().await.expect("it answers")[0].state };
    until("the stream is let go", || async { state().await == SessionState::Unattached }).await;
    let _back = running.attach(1, 0).await;
    assert_eq!(state().await, SessionState::Attached);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_leaves_the_session() {
    let running = Running::start(10).await;
    let mut node = running.attach(1, 0).await;
    node.want(3).await;
    node.take(3).await;
    drop(node);
    let sessions = running.handle.sessions().await.expect("it answers");
    assert_eq!(sessions[0].state, SessionState::Unattached);
    assert_eq!(sessions[0].leases[0].held, 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_ends_the_session() {
    let running = Running::start(10).await;
    let mut node = running.attach(1, 0).await;
    node.guard.goodbye().await.expect("the driver runs");
    assert_eq!(node.next().await, Outgoing::End(Close::Ended));
    assert_eq!(running.handle.sessions().await, Ok(vec![]));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_session_expires_and_its_tokens_come_back() {
    let running = Running::start(3).await;
    let mut node = running.attach(1, 0).await;
    node.want(3).await;
    node.take(3).await;
    drop(node);
    let mut other = running.attach(2, 0).await;
    other.want(3).await;
    let asked = Instant::now();
    // The other shows that it is alive, as a node does.
    while other.demand.holding < 3 {
        other.guard.keep_alive(1).await.expect("the driver runs");
        if let Outgoing::Allotment(_, allotment) = other.next().await {
            other.acknowledge(allotment);
            other.report().await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(asked.elapsed() < PATIENCE, "nothing came back");
    }
    assert!(asked.elapsed() >= Duration::from_secs(10), "before the session could have expired");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_counts_what_was_held_under_a_new_generation() {
    let running = Running::start(10).await;
    let mut node = running.attach(1, 0).await;
    node.want(6).await;
    node.take(6).await;
    let store = running.stop().await;

    let running = Running::start_with(10, store).await;
    assert_eq!(running.handle.generation(), 2);
    assert!(running.orders().await.view.held >= 6);
    let mut other = running.attach(2, 0).await;
    other.want(10).await;
    other.take(4).await;
    let node = running.attach(1, 6).await;
    node.report().await;
    assert_eq!(running.orders().await.view.held, 10);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_comes_together_is_committed_together() {
    let running = Running::start(10).await;
    let before = running.store.commits();
    let mut nodes = Vec::new();
    // Nothing in here waits for the driver, so that it finds all of them at once.
    for session in 1..=1_000 {
        nodes.push(running.open(session, 0).await);
    }
    for node in &mut nodes {
        assert!(matches!(node.next().await, Outgoing::Welcome { .. }));
    }
    let commits = running.store.commits() - before;
    assert!(commits <= 20, "{commits} commits for 1,000 nodes");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_driver_ends_streams_and_calls() {
    let running = Running::start(10).await;
    let mut node = running.attach(1, 0).await;
    let handle = running.handle.clone();
    running.stop().await;
    assert_eq!(node.messages.recv().await, None);
    assert_eq!(handle.status().await, Err(Unanswered::Stopped));
}
