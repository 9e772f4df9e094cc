//! A database, a server that watches it and the nodes that share it: the scene
//! of most tests. Knows how many connections the fleet has at each moment, as
//! the database sees it, and nothing of who is to have them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinHandle;

use crate::{
    mariadb::{Crowd, MariaDb, Observer},
    node::{Load, Node, Report},
    server::Server,
    wait::now,
};

pub use crate::node::DATABASE;

/// The fleet's account at the database.
pub const ACCOUNT: &str = "app";
/// What the database may count above the cap: the probe's connection, and for a
/// moment those that have ended (`docs/protocol.md`, P6).
const LINGERING: u64 = 6;
/// Pause between two looks at the database.
const PAUSE: Duration = Duration::from_millis(25);

/// How much there is and how it is shared.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What the database admits.
    pub max_connections: u32,
    /// What is kept back from the fleet.
    pub reserve: u32,
    /// Time to live of leases.
    pub ttl: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self { max_connections: 40, reserve: 10, ttl: Duration::from_secs(10) }
    }
}

/// A database with its server.
#[derive(Debug)]
pub struct Fleet {
    /// What is shared.
    pub database: MariaDb,
    /// Who shares it out.
    pub server: Server,
}

impl Fleet {
    /// Starts both, and waits until the server knows the database.
    pub async fn start(terms: Terms) -> Self {
        Self::start_with(terms, &[]).await
    }

    /// The same with more variables in the server's environment.
    pub async fn start_with(terms: Terms, environment: &[(&str, &str)]) -> Self {
        Self::launch(terms, "", environment).await
    }

    /// The same with more `databases` in the server's configuration.
    pub async fn start_among(terms: Terms, databases: &str) -> Self {
        Self::launch(terms, databases, &[]).await
    }

    async fn launch(terms: Terms, databases: &str, environment: &[(&str, &str)]) -> Self {
        let database = MariaDb::start(terms.max_connections).await;
        let (url, reserve, ttl) = (database.url("leasehold"), terms.reserve, terms.ttl.as_millis());
        let config = format!(
            "[databases.{DATABASE}]\nurl = \"{url}\"\naccounts = [\"{ACCOUNT}\"]\nreserve = {reserve}\nttl = \"{ttl}ms\"\n\n{databases}"
        );
        let server = Server::start_with(&config, environment).await;
        let cap = terms.max_connections - terms.reserve;
        server
            .shows(DATABASE, Duration::from_secs(10), "the database's limit", |shown| shown.cap == cap)
            .await;
        Self { database, server }
    }

    /// A load that a node can put on it.
    pub fn load(&self, tasks: usize, seconds: u64) -> Load {
        Load { server: Some(self.server.url()), ..Load::new(self.database.url(ACCOUNT), tasks, seconds) }
    }

    /// Starts to look at the fleet's connections.
    pub fn watch(&self) -> Watch {
        Watch::over(self.database.observer(), &[ACCOUNT])
    }
}

/// Starts as many nodes with the same load.
pub fn start_nodes(count: usize, load: &Load) -> Vec<Node> {
    (0..count).map(|_| Node::start(load)).collect()
}

/// Waits for the nodes' ends and reads their reports.
pub async fn reports(nodes: Vec<Node>) -> Vec<Report> {
    let mut reports = Vec::new();
    for node in nodes {
        let report = node.report().await;
        eprintln!("{report:?}");
        reports.push(report);
    }
    reports
}

/// Asks the nodes to end now and reads their reports.
pub async fn finished(nodes: Vec<Node>) -> Vec<Report> {
    let mut reports = Vec::new();
    for node in nodes {
        let report = node.finish().await;
        eprintln!("{report:?}");
        reports.push(report);
    }
    reports
}

/// Checks that every node was served and met no error.
pub fn none_failed(reports: &[Report]) {
    for report in reports {
        assert_eq!(report.failures(), 0, "errors of {}: {:?}", report.node, report.errors);
        assert!(report.checkouts > 0, "{} was never served", report.node);
    }
}

/// Checks what the database counted itself since its start, so that nothing is
/// missed between two looks of a [`Watch`].
pub async fn never_above(database: &MariaDb, cap: u32) {
    let most = database.observer().status("Max_used_connections").await;
    eprintln!("the database had {most} connections at most");
    assert!(most <= u64::from(cap) + LINGERING, "the database had {most} connections at once");
}

/// Counts the fleet's connections at the database over and over.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<Sample>>,
}

/// What was seen at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time since the start of the watch.
    pub at: Duration,
    /// The fleet's connections.
    pub crowd: Crowd,
}

impl Watch {
    /// Starts to look at the connections of these accounts.
    pub fn over(observer: Observer, accounts: &[&str]) -> Self {
        let accounts: Vec<String> = accounts.iter().map(|account| (*account).to_owned()).collect();
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let start = now();
            let mut samples = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let at = start.elapsed();
                let crowd = observer.crowd_of(&accounts).await;
                samples.push(Sample { at, crowd });
                tokio::time::sleep(PAUSE).await;
            }
            samples
        });
        Self { stop, task }
    }

    /// Ends the watch.
    pub async fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        Seen { samples: self.task.await.expect("the watch") }
    }
}

/// What a watch saw.
#[derive(Debug)]
pub struct Seen {
    samples: Vec<Sample>,
}

impl Seen {
    /// Most connections at one moment.
    pub fn peak(&self) -> u32 {
        self.samples.iter().map(|sample| sample.crowd.open).max().unwrap_or(0)
    }

    /// What was seen between two moments.
    #[must_use]
    pub fn between(&self, from: Duration, to: Duration) -> Self {
        let within = |sample: &&Sample| (from..to).contains(&sample.at);
        Self { samples: self.samples.iter().filter(within).copied().collect() }
    }

    /// Mean number of open connections.
    pub fn mean_open(&self) -> f64 {
        self.mean(|crowd| crowd.open)
    }

    /// Mean number of connections that ran a query.
    pub fn mean_busy(&self) -> f64 {
        self.mean(|crowd| crowd.busy)
    }

    fn mean(&self, count: impl Fn(Crowd) -> u32) -> f64 {
        assert!(!self.samples.is_empty(), "nothing was seen");
        let sum: u32 = self.samples.iter().map(|sample| count(sample.crowd)).sum();
        f64::from(sum) / self.samples.len() as f64
    }
}
