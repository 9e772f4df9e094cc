//! The server dies over and over, and stands still: nobody who holds
//! connections notices, the cap holds, and it is back at once.
//!
//! In the ordinary suite the server is killed 10 times and stands still for 10 s;
//! with `LEASEHOLD_FULL=1` it is killed 50 times and stands still for 30 s. Times are
//! those of the profile that the tests are built in, a debug build by default, and in
//! the ordinary suite without those in which the server waited for a processor:
//! other work on the machine is none of its faults.

use std::time::Duration;

use leasehold_integration_tests::{
    figures::measured,
    fleet::{DATABASE, Fleet, Terms, finished, never_above, none_failed, start_nodes},
    full,
    raw::{Crowd, Share},
    stage::Stage,
    wait::{eventually, now},
};
use leasehold_proto::v1::{
    AcquireRequest, ReleaseOutcome, ReleaseRequest, RenewRequest, lease_service_client::LeaseServiceClient,
    release_request::Target,
};

const CAP: u32 = 30;
const NODES: u32 = 4;
/// Bound for what should happen at once but is not measured.
const SOON: Duration = Duration::from_secs(10);

/// Sessions and tokens that the server has to remember through each crash.
const CROWD: u32 = 1_000;
const TOKENS_EACH: u32 = 100;
const CROWDED: &str = "crowded";
/// How soon after its start the server must be ready with all of them.
const READY: Duration = Duration::from_secs(1);
/// How long until all of a thousand sessions have what they ask for, or are
/// back, on a machine that runs them all.
const CROWD_BOUND: Duration = Duration::from_secs(60);
/// Longest life of the server between two kills.
const LONGEST_LIFE: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread")]
async fn kill_after_kill_under_load_nothing_is_lost_and_the_server_is_back_at_once() {
    let kills = full::of(10, 50);
    let _stage = Stage::alone().await;
    let mut random = fastrand::Rng::with_seed(full::seed());
    let crowded =
        format!("[databases.{CROWDED}]\ncap = {}\non_loss = \"keep\"\nttl = \"10s\"\n", CROWD * TOKENS_EACH);
    let mut fleet = Fleet::start_among(Terms::default(), &crowded).await;
    let share = Share { claims: TOKENS_EACH, waiting: 0 };
    let crowd = Crowd::gather(&fleet.server.url(), &[CROWDED], CROWD as usize, share);
    let all = CROWD * TOKENS_EACH;
    fleet.server.shows(CROWDED, CROWD_BOUND, "the crowd's tokens", |shown| shown.held == all).await;
    let watch = fleet.watch();
    let nodes = start_nodes(NODES as usize, &fleet.load(20, 600));
    fleet
        .server
        .shows(DATABASE, SOON, "all busy", |shown| shown.sessions == NODES && shown.held == CAP)
        .await;

    let generation = fleet.server.status().await.generation;
    let (mut slowest, mut own) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..kills {
        tokio::time::sleep(LONGEST_LIFE.mul_f64(random.f64())).await;
        fleet.server.kill();
        let ready = fleet.server.restart().await;
        slowest = slowest.max(ready);
        own = own.max(ready.saturating_sub(fleet.server.starved()));
        for (name, cap) in [(DATABASE, CAP), (CROWDED, all)] {
            let held = fleet.server.database(name).await.held;
            assert!(held <= cap, "{held} tokens of {name} are held after a crash, more than {cap}");
        }
        assert_eq!(crowd.holding(), all);
    }
    measured(format_args!(
        "{kills} kills: the slowest restart was ready after {slowest:?}, {own:?} without waits for a processor"
    ));
    let slowest = full::of(own, slowest);
    assert!(slowest <= READY, "a restart was ready only after {slowest:?}");
    assert_eq!(fleet.server.status().await.generation, generation + kills);

    let start = now();
    eventually(CROWD_BOUND, "every session to be back", async || {
        let mut sessions = fleet.server.sessions(CROWDED).await;
        sessions.retain(|session| session.state == "attached");
        sessions.len() == CROWD as usize
            && sessions.iter().all(|session| session.leases[0].holding == TOKENS_EACH)
    })
    .await;
    measured(format_args!("all {CROWD} sessions are back {:?} after the last restart", start.elapsed()));
    assert_eq!(crowd.holding(), all);
    fleet
        .server
        .shows(DATABASE, SOON, "all busy again", |shown| shown.sessions == NODES && shown.held == CAP)
        .await;
    none_failed(&finished(nodes).await);
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
    never_above(&fleet.database, CAP).await;
}

/// The server stands still for several times this.
const TTL: Duration = Duration::from_secs(3);
const UNARY: &str = "unary";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stood_still_expires_nobody() {
    let stall = Duration::from_secs(full::of(10, 30));
    let _stage = Stage::alone().await;
    let unary =
        format!("[databases.{UNARY}]\ncap = 10\non_loss = \"fence\"\nttl = \"3s\"\nfence_grace = \"0s\"\n");
    let mut fleet = Fleet::start_among(Terms { ttl: TTL, ..Terms::default() }, &unary).await;
    let watch = fleet.watch();
    let nodes = start_nodes(NODES as usize, &fleet.load(10, 600));
    fleet
        .server
        .shows(DATABASE, SOON, "all busy", |shown| shown.sessions == NODES && shown.held == CAP)
        .await;
    // It may not be called for as long as the stall lasts, so not with the
    // server's own channel, whose calls end early.
    let mut caller = LeaseServiceClient::connect(fleet.server.url()).await.expect("a connection");
    let request = AcquireRequest {
        request_id: "3c2f6f3e-54a4-4a2c-9a2b-6f9b6c0f0a11".into(),
        node: "caller".into(),
        database: UNARY.into(),
        tokens: 10,
        workload: String::new(),
        max_wait_ms: 0,
    };
    let lease = caller.acquire(request.clone()).await.expect("a lease").into_inner().lease_id;

    fleet.server.pause();
    // It waits in the server's socket.
    let renewal = tokio::spawn({
        let (mut caller, lease_id) = (caller.clone(), lease.clone());
        async move { caller.renew(RenewRequest { lease_id, node: "caller".into() }).await }
    });
    let before = fleet.database.observer().status("Questions").await;
    tokio::time::sleep(stall).await;
    let queries = fleet.database.observer().status("Questions").await - before;
    measured(format_args!("{queries} queries while the server stood still for {stall:?}"));
    assert!(!renewal.is_finished(), "the server did not stand still");
    fleet.server.resume();

    let reply = renewal.await.expect("no panic").expect("the renewal that waited wins").into_inner();
    assert_eq!(reply.ttl_ms, 3_000);
    let start = now();
    fleet
        .server
        .shows(DATABASE, SOON, "all busy again", |shown| shown.sessions == NODES && shown.held == CAP)
        .await;
    eventually(SOON, "every node attached", async || {
        fleet.server.sessions(DATABASE).await.iter().all(|session| session.state == "attached")
    })
    .await;
    measured(format_args!("all nodes are attached {:?} after the stall", start.elapsed()));
    for name in [DATABASE, UNARY] {
        let shown = fleet.server.database(name).await;
        assert_eq!((shown.expired, shown.quarantined), (0, 0), "{shown:?}");
    }
    let release = ReleaseRequest { node: "caller".into(), target: Some(Target::LeaseId(lease)) };
    let released = caller.release(release).await.expect("an answer").into_inner();
    assert_eq!(released.outcome(), ReleaseOutcome::Released);

    none_failed(&finished(nodes).await);
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
    never_above(&fleet.database, CAP).await;
}
