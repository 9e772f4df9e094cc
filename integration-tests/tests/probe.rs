//! The probe against a real MariaDB: what it counts, what it says when it
//! cannot, and that it always comes back.

use std::time::Duration;

use leasehold_integration_tests::{mariadb::MariaDb, ports::Port, wait::eventually};
use leasehold_server::{
    config::{DatabaseUrl, Watched},
    probe::{self, Counts, Report, mysql::Mysql},
};
use tokio::{net::TcpStream, sync::mpsc, time::timeout};

/// Longest wait for a report; more than the probe's longest timeout and pause.
const BOUND: Duration = Duration::from_secs(20);

/// A probe that runs until it is dropped.
struct Probe {
    reports: mpsc::Receiver<Report>,
}

impl Probe {
    fn start(url: &str, accounts: &[&str]) -> Self {
        let watched = Watched {
            url: DatabaseUrl::parse(url).expect("a url"),
            accounts: accounts.iter().map(|account| (*account).to_owned()).collect(),
            reserve: 10,
            cap: None,
        };
        let (sender, reports) = mpsc::channel(probe::REPORT_QUEUE);
        tokio::spawn(async move { probe::run("test", Mysql::new(&watched), sender).await });
        Self { reports }
    }

    async fn next(&mut self) -> Report {
        timeout(BOUND, self.reports.recv()).await.expect("a report in time").expect("the probe runs")
    }

    /// The next observation that begins after this call.
    async fn sees(&mut self) -> Counts {
        while self.reports.try_recv().is_ok() {}
        let mut announced = false;
        loop {
            match self.next().await {
                Report::ObservationStarts => announced = true,
                Report::Observed(observation) if announced => return observation.counts,
                Report::Observed(_) | Report::Connected { .. } | Report::Down { .. } => {}
            }
        }
    }

    /// The next complaint.
    async fn complains(&mut self) -> String {
        loop {
            if let Report::Down { error, .. } = self.next().await {
                return error;
            }
        }
    }

    /// Waits until it sees exactly this many connections, the fleet's and others'.
    async fn settles(&mut self, fleet: u32, others: u32) {
        let what = format!("{fleet} of the fleet's and {others} others");
        eventually(BOUND, &what, async || {
            let counts = self.sees().await;
            (counts.fleet, counts.others) == (fleet, others)
        })
        .await;
    }
}

#[tokio::test]
async fn it_counts_by_account_and_follows_the_limit() {
    let database = MariaDb::start_with(40, &["--event-scheduler=ON"]).await;
    let app = database.open("app", 3).await;
    let other = database.open("other", 2).await;
    let mut probe = Probe::start(&database.url("leasehold"), &["app"]);
    assert_eq!(probe.next().await, Report::Connected { warning: None });
    probe.settles(3, 2).await;
    assert_eq!(probe.sees().await.max_connections, 40);

    database.set_max_connections(60).await;
    assert_eq!(probe.sees().await.max_connections, 60);

    // Who has not logged in yet takes a slot, and may be a node that connects.
    let address = database.url("app").replace("mysql://app@", "").replace('/', "");
    let silent = TcpStream::connect(&address).await.expect("a silent connection");
    probe.settles(4, 2).await;
    drop((silent, app, other));
    probe.settles(0, 0).await;
}

#[tokio::test]
async fn without_accounts_or_the_privilege_all_are_the_fleets() {
    let database = MariaDb::start(40).await;
    let _app = database.open("app", 3).await;
    let _other = database.open("other", 2).await;

    let mut probe = Probe::start(&database.url("leasehold"), &[]);
    probe.settles(5, 0).await;
    drop(probe);

    let mut probe = Probe::start(&database.url("other"), &["app"]);
    let warning = loop {
        // The first one's lock is free as soon as its connection is closed.
        if let Report::Connected { warning } = probe.next().await {
            break warning.expect("a warning");
        }
    };
    assert!(warning.contains("lacks the PROCESS privilege"), "{warning}");
    probe.settles(5, 0).await;
}

#[tokio::test]
async fn one_database_has_one_watcher() {
    let database = MariaDb::start(40).await;
    let mut first = Probe::start(&database.url("leasehold"), &["app"]);
    first.sees().await;

    let mut second = Probe::start(&database.url("leasehold"), &["app"]);
    let complaint = second.complains().await;
    assert!(complaint.contains("already watched by another Leasehold server"), "{complaint}");
    // The refused one keeps no connection: it would be counted as the fleet's.
    first.settles(0, 0).await;

    drop(first);
    second.sees().await;
}

#[tokio::test]
async fn a_database_may_come_late_and_crash() {
    let port = Port::claim();
    let mut probe = Probe::start(&format!("mysql://leasehold@127.0.0.1:{}/", port.number()), &["app"]);
    let complaint = probe.complains().await;
    assert!(complaint.starts_with("cannot connect to 127.0.0.1:"), "{complaint}");
    drop(probe);

    let mut database = MariaDb::start(40).await;
    let mut probe = Probe::start(&database.url("leasehold"), &["app"]);
    let long = Duration::from_secs(5);
    eventually(BOUND, "an uptime that can fall", async || probe.sees().await.uptime >= long).await;
    database.kill();
    probe.complains().await;
    database.restart().await;
    let uptime = probe.sees().await.uptime;
    assert!(uptime < long, "uptime {uptime:?} after a restart");
}

#[tokio::test]
async fn a_database_that_stands_still_is_down_until_it_runs_on() {
    let mut database = MariaDb::start(40).await;
    let mut probe = Probe::start(&database.url("leasehold"), &["app"]);
    probe.sees().await;
    database.pause();
    let complaint = probe.complains().await;
    assert!(complaint.contains("did not answer the probe within"), "{complaint}");
    // What is accepted by the kernel alone does not count as connected.
    let complaint = probe.complains().await;
    assert!(complaint.contains("did not let the probe in within"), "{complaint}");
    database.resume();
    // None of the given up connections keeps the lock.
    probe.settles(0, 0).await;
}

#[tokio::test]
async fn a_full_database_is_told_apart_from_one_that_is_down() {
    let database = MariaDb::start(10).await;
    let crowd = database.open("app", 10).await;
    let mut probe = Probe::start(&database.url("leasehold"), &["app"]);
    let complaint = probe.complains().await;
    assert!(complaint.contains("has no connection left for the probe (1040)"), "{complaint}");
    drop(crowd);
    probe.settles(0, 0).await;
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let database = MariaDb::start(10).await;
    let url = database.url("leasehold").replace("leasehold@", "leasehold:s3cret@");
    let complaint = Probe::start(&url, &["app"]).complains().await;
    assert!(complaint.contains("Access denied"), "{complaint}");
    assert!(!complaint.contains("s3cret"), "{complaint}");
}
