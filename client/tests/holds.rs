//! For how long a connection counts as held: in the statistics from when its user
//! has it, to the server from when it is kept for its user.

mod support;

use std::time::Duration;

use leasehold_client::clock::Clock;
use support::Scene;

/// How long a processor has no time for a task that was handed a connection.
const LATE: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_connection_is_held_while_its_task_waits_for_a_processor() {
    let clock = Clock::manual();
    let scene = Scene::with(1, |pool| pool.clock(clock.clone()));
    let held = scene.pool.get().await.expect("it connects");
    let waiting = tokio::spawn({
        let pool = scene.pool.clone();
        async move { pool.get().await.map(drop) }
    });
    scene.settled([1, 1, 0, 0, 0, 1]).await;
    // On one thread: what is handed over here is taken at the next pause.
    drop(held);
    clock.advance(LATE);
    waiting.await.expect("it does not panic").expect("it was handed the connection");
    let statistics = scene.pool.statistics();
    let mean = statistics.mean_hold;
    assert!(mean >= LATE / 2 && mean < LATE, "{mean:?}, of one that took no time and one that was late");
    assert_eq!(statistics.hold[0], 2, "no user had it for any time: {:?}", statistics.hold);
}

#[tokio::test]
async fn what_a_connection_was_idle_before_is_no_hold() {
    let clock = Clock::manual();
    let scene = Scene::with(1, |pool| pool.clock(clock.clone()));
    for _ in 0..2 {
        drop(scene.pool.get().await.expect("it connects, or is idle"));
        clock.advance(LATE);
    }
    assert_eq!(scene.pool.statistics().mean_hold, Duration::ZERO);
}
