//! The node processes of one run: started, told to begin at once, and read.
//! Knows nothing of what they do.

use std::{path::PathBuf, process::Stdio, time::Duration};

use leasehold_integration_tests::scratch;
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

struct Member {
    process: Child,
    records: PathBuf,
}

/// Runs one node process for each plan, all from the same moment on, and
/// returns what they recorded, in the same order.
pub(crate) async fn run(plans: &[Plan]) -> Vec<Records> {
    let directory = scratch::directory("experiment");
    let mut members = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let records = directory.path().join(format!("{number}.json"));
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
        assert_eq!(line.ok().flatten().as_deref(), Some(READY), "node {number} has no pool");
        members.push(Member { process, records });
    }
    for member in &mut members {
        let input = member.process.stdin.as_mut().expect("its input is a pipe");
        input.write_all(b"go\n").await.expect("a node listens");
    }
    let mut all = Vec::new();
    for (member, plan) in members.iter_mut().zip(plans) {
        let bound = Duration::from_millis(plan.lasts_ms) + END_BOUND;
        let status = timeout(bound, member.process.wait()).await.expect("a node ends in time");
        assert!(status.is_ok_and(|status| status.success()), "{} failed", plan.node);
        all.push(Records::read(&member.records).expect("a node's records"));
    }
    all
}
