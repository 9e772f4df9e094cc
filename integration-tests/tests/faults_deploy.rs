//! A rolling deploy of a fleet in which everybody wants everything: new nodes
//! come before old ones go, and neither waits for the other.
//!
//! In the ordinary suite it is 8 nodes; with `LEASEHOLD_FULL=1` it is 20.

use std::time::Duration;

use leasehold_integration_tests::{
    figures::measured,
    fleet::{DATABASE, Fleet, Terms, never_above, none_failed},
    full,
    node::{Load, Node},
    stage::Stage,
    wait::{find, now},
};

const CAP: u32 = 40;
const TERMS: Terms = Terms { max_connections: 50, reserve: 10, ttl: Duration::from_secs(10) };
/// How soon a new node has a share of what the others use.
const SHARE_BOUND: Duration = Duration::from_secs(20);
/// Until twenty processes have started.
const START_BOUND: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_are_replaced_while_all_want_everything() {
    let nodes = full::of(8, 20);
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(TERMS).await;
    let watch = fleet.watch();
    // Any node alone could use the whole cap.
    let load = Load {
        pool_max: CAP as usize,
        query: "SELECT SLEEP(0.05)".to_owned(),
        ..fleet.load(CAP as usize, 600)
    };
    let mut old = Vec::new();
    for number in 0..nodes {
        old.push(Node::start_named(&load, &format!("old-{number}")));
    }
    let full = |shown: &leasehold_proto::v1::Database| shown.sessions as usize == nodes && shown.held == CAP;
    fleet.server.shows(DATABASE, START_BOUND, "all nodes and all tokens used", full).await;

    let (mut new, mut reports, mut slowest) = (Vec::new(), Vec::new(), Duration::ZERO);
    for (number, leaving) in old.into_iter().enumerate() {
        let name = format!("new-{number}");
        new.push(Node::start_named(&load, &name));
        slowest = slowest.max(has_a_share(&fleet, &name).await);
        // It gives everything back before it ends, although all want it.
        let start = now();
        reports.push(leaving.finish().await);
        eprintln!("a node left within {:?}: {:?}", start.elapsed(), reports[number]);
    }
    measured(format_args!("the slowest new node had a share after {slowest:?}"));
    fleet.server.shows(DATABASE, SHARE_BOUND, "all tokens used by the new", full).await;
    for number in 0..nodes {
        has_a_share(&fleet, &format!("new-{number}")).await;
    }
    for node in new {
        reports.push(node.finish().await);
    }
    none_failed(&reports);
    let peak = watch.end().await.peak();
    assert!(peak <= CAP, "the fleet had {peak} connections, more than {CAP}");
    never_above(&fleet.database, CAP).await;
}

/// Waits until a node uses connections, and returns the time that this took,
/// its start included.
async fn has_a_share(fleet: &Fleet, name: &str) -> Duration {
    find(SHARE_BOUND, &format!("{name} to use a connection"), async || {
        let sessions = fleet.server.sessions(DATABASE).await;
        let mine = sessions.iter().find(|session| session.node == name)?;
        (mine.leases.iter().map(|lease| lease.in_use).sum::<u32>() > 0).then_some(())
    })
    .await
    .1
}
