//! More than a server is made for: 10,000 sessions, 100,000 waiting tasks, more
//! calls than it lets wait. Memory stays bounded, who is too many is told so,
//! and after a crash everybody is served all the same.
//!
//! In the ordinary suite there are 2,000 sessions with 20,000 waiting tasks, and a
//! twentieth of these is served in the end; with `LEASEHOLD_FULL=1` there are all,
//! and all are served. Sizes are those of the profile that the tests are built in,
//! a debug build by default; they hardly differ in a release build.

use std::{fs, time::Duration};

use leasehold_integration_tests::{
    cli::leasehold,
    figures::measured,
    full,
    raw::{Crowd, Share},
    server::Server,
    stage::Stage,
    wait::{eventually, now},
};
use leasehold_proto::v1::{AcquireRequest, lease_service_client::LeaseServiceClient};
use tokio::task::JoinSet;
use tonic::Code;

const WAITING_EACH: u32 = 10;
/// Until ten thousand sessions have been welcomed, or served.
const BOUND: Duration = Duration::from_secs(120);
/// Most memory that a session with one database, or one more lease of it, may
/// take, its stream and its buffers included.
const SESSION_BYTES: u64 = 40_000;
const LEASE_BYTES: u64 = 8_000;
/// Databases of the sessions whose leases are weighed.
const LEASES: usize = 5;
/// Calls that wait for one database at most.
const WAITING_CALLS: usize = 10_000;

/// A database whose tokens are all taken, by one unary lease that lives on.
const FULL: &str = "[databases.full]\ncap = 1000\nttl = \"10m\"\nfence_grace = \"0s\"\nquantum = \"1m\"\n";

fn sessions() -> usize {
    full::of(2_000, 10_000)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_a_lease_cost_some_kilobytes() {
    let _stage = Stage::alone().await;
    let mut databases = String::new();
    for number in 0..LEASES {
        databases += &FULL.replace("full", &format!("full{number}"));
    }
    let names: Vec<String> = (0..LEASES).map(|number| format!("full{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let one = growth(&databases, &names[..1]).await;
    let many = growth(&databases, &names).await;
    let lease = many.saturating_sub(one) / (LEASES as u64 - 1);
    measured(format_args!("a session with one lease costs {one} bytes, each further lease {lease}"));
    assert!(one <= SESSION_BYTES, "a session costs {one} bytes");
    assert!(lease <= LEASE_BYTES, "a lease costs {lease} bytes");
}

/// What a server grows by for each of many sessions, in bytes.
async fn growth(databases: &str, names: &[&str]) -> u64 {
    let server = Server::start(databases).await;
    let before = resident(&server);
    let crowd = Crowd::gather(&server.url(), names, sessions(), Share { claims: 0, waiting: 0 });
    welcomed(&server, &crowd).await;
    (resident(&server) - before) / sessions() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_wait_in_masses_survive_a_crash_and_are_served() {
    let _stage = Stage::alone().await;
    let sessions = sessions();
    let mut server = Server::start(FULL).await;
    let mut leases = LeaseServiceClient::connect(server.url()).await.expect("a connection");
    leases.acquire(acquire(0, 1_000, 0)).await.expect("all there is");

    let idle = resident(&server);
    let crowd = Crowd::gather(&server.url(), &["full"], sessions, Share { claims: 0, waiting: WAITING_EACH });
    welcomed(&server, &crowd).await;
    let all = sessions as u32 * WAITING_EACH;
    server.shows("full", BOUND, "everybody to wait", |shown| shown.waiting == all).await;
    let loaded = resident(&server);
    measured(format_args!("{all} waiting tasks of {sessions} sessions: {} MB more", (loaded - idle) >> 20));

    // They have nothing, and it is the same whoever asks.
    assert_eq!((crowd.holding(), crowd.waiting()), (0, all));
    server.kill();
    let ready = server.restart().await;
    measured(format_args!("ready {ready:?} after a crash with {sessions} sessions"));
    let start = now();
    welcomed(&server, &crowd).await;
    measured(format_args!("all {sessions} sessions are back {:?} after that", start.elapsed()));
    server.shows("full", BOUND, "everybody to wait again", |shown| shown.waiting == all).await;
    assert_eq!(server.database("full").await.held, 1_000);

    let start = now();
    let more = full::of(all / 20, all);
    let cap = (more + 1_000).to_string();
    assert_eq!(leasehold(&server.url(), &["--timeout", "60s", "set", "full", "--cap", &cap]).await.code, 0);
    eventually(full::of(BOUND, 15 * BOUND), "as many to be served", async || crowd.holding() == more).await;
    measured(format_args!("{more} tasks were served within {:?}", start.elapsed()));
    let waiting = all - more;
    assert_eq!(crowd.waiting(), waiting);
    let what = "all held, and the others to wait";
    server.shows("full", BOUND, what, |shown| shown.held == more + 1_000 && shown.waiting == waiting).await;
    let peak = resident(&server);
    measured(format_args!("resident after that: {} MB", peak >> 20));
    assert!(peak < 2 * loaded, "the server grew from {loaded} to {peak} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_too_many_is_refused_and_the_others_wait_on() {
    /// More than may wait.
    const MORE: usize = 500;
    /// One connection carries 4,096 calls at once.
    const CALLERS: usize = 5;
    let _stage = Stage::alone().await;
    let server = Server::start(FULL).await;
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(LeaseServiceClient::connect(server.url()).await.expect("a connection"));
    }
    callers[0].acquire(acquire(0, 1_000, 0)).await.expect("all there is");
    let before = resident(&server);
    let mut calls = JoinSet::new();
    for number in 1..=WAITING_CALLS + MORE {
        let mut leases = callers[number % CALLERS].clone();
        calls.spawn(async move { leases.acquire(acquire(number, 1, 600_000)).await });
    }
    for _ in 0..MORE {
        let refused = calls.join_next().await.expect("a call").expect("no panic").expect_err("too many");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        assert_eq!(refused.message(), format!("{WAITING_CALLS} calls wait for this database already"));
    }
    let what = "as many to wait as may";
    server.shows("full", BOUND, what, |shown| shown.waiting as usize == WAITING_CALLS).await;
    let bytes = (resident(&server) - before) / WAITING_CALLS as u64;
    measured(format_args!("a call that waits costs {bytes} bytes"));
    assert!(bytes <= SESSION_BYTES, "a call that waits costs {bytes} bytes");
    assert_eq!(calls.len(), WAITING_CALLS);

    let cap = (WAITING_CALLS + 1_000).to_string();
    assert_eq!(leasehold(&server.url(), &["--timeout", "60s", "set", "full", "--cap", &cap]).await.code, 0);
    let replies = calls.join_all().await;
    assert!(replies.iter().all(Result::is_ok), "a call that waited was not served");
    assert_eq!(replies.len(), WAITING_CALLS);
}

async fn welcomed(server: &Server, crowd: &Crowd) {
    let generation = server.status().await.generation;
    eventually(BOUND, "every session to be welcome", async || crowd.welcomed_by(generation) == sessions())
        .await;
}

fn acquire(number: usize, tokens: u32, max_wait_ms: u64) -> AcquireRequest {
    AcquireRequest {
        request_id: format!("00000000-0000-4000-8000-{number:012x}"),
        node: "caller".into(),
        database: "full".into(),
        tokens,
        workload: String::new(),
        max_wait_ms,
    }
}

/// Memory that the server has in use, in bytes.
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its size");
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kilobytes * 1024
}
