//! An application's node process: the example `app_node`, that runs queries
//! through a pool as fast as it can and then reports. Knows its command line
//! and its report, and nothing of pools.

use std::{
    collections::BTreeMap,
    process::{Command, ExitStatus},
    time::Duration,
};

use serde::Deserialize;
use tempfile::TempDir;

use crate::{binaries, namespace::Namespace, process::Process, scratch};

/// How much longer than its load a node may take to start and to end.
const OVERTIME: Duration = Duration::from_secs(30);

/// The name of the database at the server, in all tests with nodes.
pub const DATABASE: &str = "orders";

/// What a node is to do.
#[derive(Clone, Debug)]
pub struct Load {
    /// URL of the Leasehold server; without, a bare deadpool pool of the same
    /// size.
    pub server: Option<String>,
    /// URL of the database itself.
    pub mysql: String,
    /// Most connections of the node's pool.
    pub pool_max: usize,
    /// Tasks that ask the pool for a connection over and over.
    pub tasks: usize,
    /// How long they do.
    pub seconds: u64,
    /// What they run on each connection.
    pub query: String,
    /// Variables for its environment.
    pub environment: Vec<(String, String)>,
}

impl Load {
    /// For as many tasks and seconds on the database of this URL, with a pool
    /// that may grow to 40 and queries of 10 ms.
    pub fn new(mysql: String, tasks: usize, seconds: u64) -> Self {
        let query = "SELECT SLEEP(0.01)".to_owned();
        Self { server: None, mysql, pool_max: 40, tasks, seconds, query, environment: Vec::new() }
    }
}

/// What a node says at its end.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// Its name.
    pub node: String,
    /// Connections taken from the pool and used.
    pub checkouts: u64,
    /// Failures, by the database's error number or a name.
    pub errors: BTreeMap<String, u64>,
    /// Most connections that were open in the pool at once.
    pub peak_open: u32,
    /// How long checkouts took.
    pub wait_ms: Waits,
}

/// A distribution of times, in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Waits {
    /// Half were shorter.
    pub p50: f64,
    /// 99 of 100 were shorter.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Report {
    /// How often the database refused a connection for want of room.
    pub fn refused(&self) -> u64 {
        self.errors.get("1040").copied().unwrap_or(0)
    }

    /// All failures.
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    // Dropped first: it uses the directory.
    process: Process,
    _directory: TempDir,
    bound: Duration,
}

impl Node {
    /// Starts a node process.
    pub fn start(load: &Load) -> Self {
        Self::launch(load, &[], None)
    }

    /// The same with a name of its own.
    pub fn start_named(load: &Load, name: &str) -> Self {
        Self::launch(load, &["--node", name], None)
    }

    /// The same, of a workload.
    pub fn start_of(load: &Load, name: &str, workload: &str) -> Self {
        Self::launch(load, &["--node", name, "--workload", workload], None)
    }

    /// The same in a network namespace.
    pub fn start_inside(namespace: &Namespace, load: &Load, name: &str) -> Self {
        Self::launch(load, &["--node", name], Some(namespace))
    }

    fn launch(load: &Load, arguments: &[&str], namespace: Option<&Namespace>) -> Self {
        let directory = scratch::directory("node");
        let mut command = Command::new(binaries::app_node());
        match &load.server {
            Some(server) => command.args(["--server", server, "--database", DATABASE]),
            None => command.arg("--direct"),
        };
        command.args(["--mysql", &load.mysql]);
        command.args(["--pool-max", &load.pool_max.to_string(), "--tasks", &load.tasks.to_string()]);
        command.args(["--seconds", &load.seconds.to_string(), "--query", &load.query]);
        command.args(arguments);
        command.envs(load.environment.iter().map(|(key, value)| (key, value)));
        if let Some(namespace) = namespace {
            command = namespace.inside(&command);
        }
        let process = Process::spawn("app_node", &command, directory.path());
        Self { process, _directory: directory, bound: Duration::from_secs(load.seconds) + OVERTIME }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Makes it stand still with its connections open.
    pub fn pause(&mut self) {
        self.process.pause();
    }

    /// Lets it run on after `pause`.
    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Waits for its end and reads what it says.
    pub async fn report(mut self) -> Report {
        let status = self.process.end(self.bound).await;
        self.read(status)
    }

    /// Asks it to end now and reads what it says.
    pub async fn finish(mut self) -> Report {
        let status = self.process.stop().await;
        self.read(status)
    }

    fn read(&self, status: ExitStatus) -> Report {
        let output = self.process.output();
        assert!(status.success(), "the node ended with {status}");
        let line = output.lines().last().expect("the node's report");
        serde_json::from_str(line).unwrap_or_else(|error| panic!("not a report, {error}: {line}"))
    }
}
