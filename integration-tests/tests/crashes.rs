//! Crashes: what a dead node held comes back in time, a dead server stops
//! nobody, and nothing is ever given out twice.

use std::time::Duration;

use leasehold_integration_tests::{
    figures::measured,
    fleet::{DATABASE, Fleet, Terms, none_failed, reports, start_nodes},
    node::Node,
    stage::Stage,
    wait::{eventually, never, now},
};

const CAP: u32 = 30;
const PROBE: Duration = Duration::from_secs(1);
/// Shorter than the default, so that the tests are; what is measured scales with it.
const TTL: Duration = Duration::from_secs(3);
/// Bound for what should happen at once but is not measured.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_a_killed_node_come_back_in_time() {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(Terms { ttl: TTL, ..Terms::default() }).await;
    let watch = fleet.watch();
    let mut victim = Node::start(&fleet.load(40, 60));
    fleet.server.shows(DATABASE, SOON, "one node that holds all", |shown| shown.held == CAP).await;
    let survivor = Node::start_named(&fleet.load(40, 15), "survivor");
    fleet.server.shows(DATABASE, SOON, "two sessions", |shown| shown.sessions == 2).await;

    victim.kill();
    let time = eventually(TTL + 3 * PROBE, "the survivor to hold all", async || {
        fleet.server.sessions(DATABASE).await.iter().any(|session| {
            session.node == "survivor" && session.leases.iter().any(|lease| lease.holding == CAP)
        })
    })
    .await;
    measured(format_args!("TTL {TTL:?}: the survivor holds all {time:?} after the other's death"));
    none_failed(&reports(vec![survivor]).await);
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_keeps_its_place_at_the_database() {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(Terms { ttl: TTL, ..Terms::default() }).await;
    let watch = fleet.watch();
    let mut nodes = start_nodes(2, &fleet.load(40, 16));
    eventually(SOON, "two nodes that share all", async || {
        let sessions = fleet.server.sessions(DATABASE).await;
        let holdings: Vec<u32> =
            sessions.iter().flat_map(|session| &session.leases).map(|lease| lease.holding).collect();
        holdings.len() == 2 && holdings.iter().all(|holding| *holding >= CAP / 3)
    })
    .await;

    // Its connections stay open, so its tokens must not go to the other.
    nodes[0].pause();
    let expired = TTL + 3 * PROBE;
    fleet.server.shows(DATABASE, expired, "its expiry", |shown| shown.sessions == 1).await;
    fleet.server.shows(DATABASE, SOON, "its connections as strays", |shown| shown.strays > 0).await;
    nodes[0].resume();
    fleet.server.shows(DATABASE, SOON, "its return", |shown| shown.sessions == 2 && shown.strays == 0).await;

    let reports = reports(nodes).await;
    // What the other was doing when it was stopped may well have timed out.
    none_failed(&reports[1..]);
    assert!(reports[0].checkouts > 0, "the node was of no use: {:?}", reports[0]);
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_not_missed_and_takes_its_nodes_back() {
    a_server_dies(Duration::from_secs(10), Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_dead_for_longer_than_the_ttl_is_not_missed_either() {
    a_server_dies(Duration::from_secs(2), Duration::from_secs(5)).await;
}

async fn a_server_dies(ttl: Duration, outage: Duration) {
    const NODES: u32 = 4;
    let _stage = Stage::alone().await;
    let mut fleet = Fleet::start(Terms { ttl, ..Terms::default() }).await;
    let watch = fleet.watch();
    let nodes = start_nodes(NODES as usize, &fleet.load(20, 15));
    fleet
        .server
        .shows(DATABASE, SOON, "all busy", |shown| shown.sessions == NODES && shown.held == CAP)
        .await;
    let generation = fleet.server.status().await.generation;

    fleet.server.kill();
    let before = fleet.database.observer().status("Questions").await;
    let start = now();
    eventually(outage * 2, "the end of the outage", async || start.elapsed() >= outage).await;
    let queries = fleet.database.observer().status("Questions").await - before;
    measured(format_args!("{queries} queries while the server was dead for {outage:?}"));
    assert!(queries > 1_000, "the nodes stood still without the server: {queries} queries");

    let start = now();
    fleet.server.restart().await;
    fleet.server.shows(DATABASE, SOON, "every node back", |shown| shown.sessions == NODES).await;
    let time = start.elapsed();
    measured(format_args!("all {NODES} nodes are back {time:?} after the restart"));
    assert!(time <= Duration::from_secs(2), "the nodes were back only after {time:?}");
    assert_eq!(fleet.server.status().await.generation, generation + 1);
    never(SOON, async || {
        let held = fleet.server.database(DATABASE).await.held;
        (held > CAP).then(|| format!("{held} held, more than {CAP}"))
    })
    .await;

    none_failed(&reports(nodes).await);
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
}
