//! The cap follows what the database really has to give: its own limit as
//! operators change it, and the connections that others open. No query of a
//! busy fleet fails for it.

use std::time::Duration;

use leasehold_integration_tests::{
    figures::measured,
    fleet::{ACCOUNT, DATABASE, Fleet, Terms, none_failed, reports, start_nodes},
    stage::Stage,
};

/// How soon the cap must have moved.
const BOUND: Duration = Duration::from_secs(3);
/// Connections that a tool opens; they fit into the reserve.
const TOOL: u32 = 15;
const TERMS: Terms = Terms { max_connections: 60, reserve: 20, ttl: Duration::from_secs(10) };
const CAP: u32 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_moves_up_and_down() {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(TERMS).await;
    let nodes = start_nodes(4, &fleet.load(20, 12));
    fully_used(&fleet, CAP).await;
    for (limit, cap) in [(80, 60), (40, 20), (60, 40)] {
        fleet.database.set_max_connections(limit).await;
        let time = cap_becomes(&fleet, cap).await;
        measured(format_args!("max_connections {limit}: cap {cap} after {time:?}"));
        fully_used(&fleet, cap).await;
    }
    none_failed(&reports(nodes).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_on_another_account_count() {
    a_tool_counts("other").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_on_the_fleets_account_count() {
    a_tool_counts(ACCOUNT).await;
}

async fn a_tool_counts(account: &str) {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(TERMS).await;
    let nodes = start_nodes(4, &fleet.load(20, 10));
    fully_used(&fleet, CAP).await;

    let tool = fleet.database.open(account, TOOL as usize).await;
    let time = cap_becomes(&fleet, CAP - TOOL).await;
    measured(format_args!("{TOOL} more connections on account {account}: cap {} after {time:?}", CAP - TOOL));
    fully_used(&fleet, CAP - TOOL).await;

    for connection in tool {
        connection.disconnect().await.expect("the tool leaves");
    }
    let time = cap_becomes(&fleet, CAP).await;
    measured(format_args!("the connections on account {account} are gone: cap {CAP} after {time:?}"));
    fully_used(&fleet, CAP).await;
    none_failed(&reports(nodes).await);
}

async fn cap_becomes(fleet: &Fleet, cap: u32) -> Duration {
    fleet.server.shows(DATABASE, BOUND, &format!("cap {cap}"), |shown| shown.cap == cap).await
}

/// The busy fleet takes all there is, and no more.
async fn fully_used(fleet: &Fleet, cap: u32) {
    let what = format!("all of cap {cap} held");
    fleet.server.shows(DATABASE, BOUND, &what, |shown| shown.cap == cap && shown.held == cap).await;
}
