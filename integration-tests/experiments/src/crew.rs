//! The node processes of one run: started, told to begin at once, and read.
//! Knows nothing of what they do.

use std::{path::PathBuf, process::Stdio, time::Duration};

use leasehold_integration_tests::scratch;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{node::READY, plan::Plan, records::Records};

/// This very program, also when its file was built anew meanwhile.
const ITSELF: &str = "/proc/self/exe";
/// Longest time for a node to have its pool.
const START_BOUND: Duration = Duration::from_secs(30);
/// Longest time for a node to end after its load.
const END_BOUND: Duration = Duration::from_secs(60);

/// Nodes that have their pools and wait for the word to begin.
pub(crate) struct Crew {
    members: Vec<Member>,
    // Dropped last: their records are in it.
    _directory: TempDir,
}

struct Member {
    process: Child,
    records: PathBuf,
    /// How long its load may still last.
    lasts: Duration,
}

/// Runs one node process for each plan, all from the same moment on, and
/// returns what they recorded, in the same order.
pub(crate) async fn run(plans: &[Plan]) -> Vec<Records> {
    let mut crew = Crew::gather(plans).await;
    crew.begin().await;
    crew.records().await
}

impl Crew {
    /// Starts one node process for each plan.
    pub(crate) async fn gather(plans: &[Plan]) -> Self {
        let directory = scratch::directory("experiment");
        let mut members = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            let records = directory.path().join(format!("{number}.json"));
            members.push(Member::start(plan, records).await);
        }
        Self { members, _directory: directory }
    }

    /// Tells them to begin.
    pub(crate) async fn begin(&mut self) {
        for member in &mut self.members {
            let input = member.process.stdin.as_mut().expect("its input is a pipe");
            input.write_all(b"go\n").await.expect("a node listens");
        }
    }

    /// Tells them to end, although their plans last longer.
    pub(crate) fn end(&mut self) {
        for member in &mut self.members {
            drop(member.process.stdin.take());
            member.lasts = Duration::ZERO;
        }
    }

    /// What they recorded, in the order of their plans, when all have ended.
    pub(crate) async fn records(self) -> Vec<Records> {
        let mut all = Vec::new();
        for mut member in self.members {
            // To wait would close it, and so tell the node to end.
            let _input = member.process.stdin.take();
            let end = timeout(member.lasts + END_BOUND, member.process.wait());
            let status = end.await.expect("a node ends in time");
            assert!(status.is_ok_and(|status| status.success()), "a node failed");
            all.push(Records::read(&member.records).expect("a node's records"));
        }
        all
    }
}

impl Member {
    async fn start(plan: &Plan, records: PathBuf) -> Self {
        let mut process = Command::new(ITSELF)
            .args(["node", "--plan", &serde_json::to_string(plan).expect("a plan is text")])
            .arg("--records")
            .arg(&records)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a node can be started");
        let mut lines = BufReader::new(process.stdout.take().expect("its output is a pipe")).lines();
        let line = timeout(START_BOUND, lines.next_line()).await.expect("a node has its pool in time");
        assert_eq!(line.ok().flatten().as_deref(), Some(READY), "{} has no pool", plan.node);
        Self { process, records, lasts: Duration::from_millis(plan.lasts_ms) }
    }
}
