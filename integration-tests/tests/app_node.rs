//! The example node: what it counts, how it ends, what it refuses.

use std::{process::Command, time::Duration};

use leasehold_integration_tests::{
    binaries,
    fleet::{DATABASE, Fleet, Terms},
    mariadb::MariaDb,
    node::{Load, Node, Report},
    process::Process,
    scratch,
    wait::eventually,
};

/// What each wait ends within on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

fn direct(database: &MariaDb) -> Load {
    Load { pool_max: 4, query: "SELECT SLEEP(0.001)".into(), ..Load::new(database.url("app"), 8, 1) }
}

#[tokio::test]
async fn it_counts_what_its_pool_did() {
    let database = MariaDb::start(20).await;
    let report = Node::start(&direct(&database)).report().await;
    assert!(report.checkouts > 100, "{report:?}");
    assert_eq!((report.failures(), report.peak_open), (0, 4), "{report:?}");
    let wait = report.wait_ms;
    assert!(
        0.0 < wait.p50 && wait.p50 <= wait.p99 && wait.p99 <= wait.max && wait.max < 1000.0,
        "{report:?}"
    );
}

#[tokio::test]
async fn a_refusal_is_counted_by_the_databases_number() {
    let database = MariaDb::start(10).await;
    let _others = database.open("other", 9).await;
    let report = Node::start(&direct(&database)).report().await;
    assert!(report.refused() > 0 && report.checkouts > 0, "{report:?}");
    assert_eq!(report.failures(), report.refused(), "{report:?}");
}

#[tokio::test]
async fn asked_to_end_it_still_reports() {
    let database = MariaDb::start(20).await;
    let directory = scratch::directory("node");
    let mut command = Command::new(binaries::app_node());
    command.args(["--direct", "--mysql", &database.url("app"), "--node", "early"]);
    command.args(["--pool-max", "4", "--tasks", "8", "--seconds", "600"]);
    let mut node = Process::spawn("app_node", &command, directory.path());
    eventually(BOUND, "its pool to fill", async || database.connections("app").await == 4).await;
    assert!(node.stop().await.success());
    let output = node.output();
    assert_eq!(output.lines().count(), 1, "one line: {output}");
    let report: Report = serde_json::from_str(&output).expect("a report");
    assert_eq!(report.node, "early");
    assert!(report.checkouts > 0, "{report:?}");
    eventually(BOUND, "its connections to close", async || database.connections("app").await == 0).await;
}

#[tokio::test]
async fn asked_to_end_it_kills_what_runs_and_gives_everything_back() {
    let fleet = Fleet::start(Terms { max_connections: 20, reserve: 5, ..Terms::default() }).await;
    let directory = scratch::directory("node");
    let mut command = Command::new(binaries::app_node());
    command.args(["--server", &fleet.server.url(), "--database", DATABASE]);
    command.args(["--mysql", &fleet.database.url("app"), "--pool-max", "4", "--tasks", "2"]);
    // Unlike `SLEEP` it does not look after its client.
    command.args(["--seconds", "600", "--query", "SELECT BENCHMARK(1000000000000, 1)"]);
    let mut node = Process::spawn("app_node", &command, directory.path());
    let busy = async || fleet.database.observer().crowd("app").await.busy == 2;
    eventually(BOUND, "its queries to run", busy).await;
    assert!(node.stop().await.success());
    let report: Report = serde_json::from_str(&node.output()).expect("a report");
    assert_eq!((report.checkouts, report.failures()), (2, 0), "{report:?}");
    assert_eq!(fleet.database.connections("app").await, 0, "{}", node.log());
    let state = fleet.server.database(DATABASE).await;
    assert_eq!((state.held, state.sessions), (0, 0), "{state:?}");
}

#[tokio::test]
async fn what_it_cannot_use_it_refuses_without_the_password() {
    let refused = |arguments: &[&str]| {
        let output = Command::new(binaries::app_node())
            .args(["--pool-max", "1", "--tasks", "1", "--seconds", "1"])
            .args(arguments)
            .output()
            .expect("it starts");
        assert!(!output.status.success(), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let said = refused(&["--mysql", "mysql://app@127.0.0.1/"]);
    assert!(said.contains("--server"), "{said}");
    for arguments in [
        &["--direct", "--mysql", "postgres://app:s3cret@127.0.0.1/"][..],
        &["--server", "http://127.0.0.1:1", "--mysql", "postgres://app:s3cret@127.0.0.1/"],
    ] {
        let said = refused(arguments);
        assert!(said.contains("mysql://USER") && !said.contains("s3cret"), "{said}");
    }
}
