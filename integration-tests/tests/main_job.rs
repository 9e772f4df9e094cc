//! The main job, on a real database: a fleet whose pools could grow to eight
//! times what the database admits never meets its limit, and leaves next to
//! nothing of its share unused. Without Leasehold the same fleet meets the
//! limit all the time.

use std::time::Duration;

use leasehold_integration_tests::{
    figures::measured,
    fleet::{ACCOUNT, DATABASE, Fleet, Terms, none_failed, reports, start_nodes},
    mariadb::MariaDb,
    node::{Load, Report},
    stage::Stage,
    wait::{never, now},
};

const MAX_CONNECTIONS: u32 = 40;
const CAP: u32 = 30;
const NODES: usize = 8;
const TASKS: usize = 20;
const SECONDS: u64 = 20;
/// Refusals are plentiful without Leasehold: a part of the time is enough.
const DIRECT_SECONDS: u64 = 5;
/// Until the nodes have started and asked for what they need.
const WARM_UP: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_with_leasehold_fills_its_share_and_never_meets_the_limit() {
    let _stage = Stage::alone().await;
    let fleet = Fleet::start(Terms::default()).await;
    let watch = fleet.watch();
    let nodes = start_nodes(NODES, &fleet.load(TASKS, SECONDS));
    let (in_use, reports) = tokio::join!(mean_in_use(&fleet), reports(nodes));
    let seen = watch.end().await;
    let loaded = seen.between(WARM_UP, Duration::from_secs(SECONDS));
    let most = fleet.database.observer().status("Max_used_connections").await;
    measured(format_args!(
        "cap {CAP}: at most {} connections of the fleet at once, {:.1} open, {in_use:.1} \
         in use and {:.1} in a query on average; \
         the database saw at most {most} of all accounts; checkouts per node: {:?}",
        seen.peak(),
        loaded.mean_open(),
        loaded.mean_busy(),
        checkouts(&reports)
    ));

    let refused: u64 = reports.iter().map(Report::refused).sum();
    assert_eq!(refused, 0, "errors 1040 with Leasehold");
    none_failed(&reports);
    assert!(seen.peak() <= CAP, "the fleet had {} connections, more than {CAP}", seen.peak());
    assert!(most <= u64::from(MAX_CONNECTIONS), "the database met its limit: {most}");
    assert!(loaded.mean_open() >= 0.9 * f64::from(CAP), "{} of {CAP} were open", loaded.mean_open());
    assert!(in_use >= 0.9 * f64::from(CAP), "{in_use} of {CAP} were in use");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_fleet_without_leasehold_is_refused_by_the_hundred() {
    let _stage = Stage::alone().await;
    let database = MariaDb::start(MAX_CONNECTIONS).await;
    let load = Load::new(database.url(ACCOUNT), TASKS, DIRECT_SECONDS);
    let reports = reports(start_nodes(NODES, &load)).await;
    let refused: u64 = reports.iter().map(Report::refused).sum();
    measured(format_args!("without Leasehold: {refused} errors 1040 in {DIRECT_SECONDS} s"));
    assert!(refused >= 200, "only {refused} errors 1040 without Leasehold");
}

/// How many connections the nodes say are checked out, on average under load.
async fn mean_in_use(fleet: &Fleet) -> f64 {
    let mut samples = Vec::new();
    let start = now();
    never(Duration::from_secs(SECONDS), async || {
        let sessions = fleet.server.sessions(DATABASE).await;
        if start.elapsed() > WARM_UP {
            let leases = sessions.iter().flat_map(|session| &session.leases);
            samples.push(leases.map(|lease| lease.in_use).sum::<u32>());
        }
        None
    })
    .await;
    f64::from(samples.iter().sum::<u32>()) / samples.len() as f64
}

fn checkouts(reports: &[Report]) -> Vec<u64> {
    reports.iter().map(|report| report.checkouts).collect()
}
