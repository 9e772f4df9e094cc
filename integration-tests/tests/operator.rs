//! The operator's command `leasehold` against a real server with a real
//! database: sees, steers, and tells by its exit code how that went.

use std::time::Duration;

use leasehold_integration_tests::{
    cli::{leasehold, leasehold_json},
    fleet::{ACCOUNT, DATABASE, Fleet, Terms},
    mariadb::MariaDb,
    member::Member,
    server::Server,
    wait::eventually,
};
use leasehold_proto::v1::{AcquireRequest, Database, lease_service_client::LeaseServiceClient};
use serde_json::{Value, json};
use tonic::Code;

const BOUND: Duration = Duration::from_secs(3);
const CAP: u32 = 30;
/// The server grants nothing before it has judged what it sees of the database.
const WAIT_MS: u64 = 3_000;

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_what_programs_rely_on() {
    let fleet = Fleet::start(Terms::default()).await;
    acquire(&fleet, "11111111-2222-4333-8444-555555555555", 4, WAIT_MS).await.expect("four tokens");
    let status = leasehold_json(&fleet.server.url(), &["status"]).await;
    assert_eq!(status["generation"], 1);
    let expected = json!({
        "name": DATABASE, "cap": CAP, "held": 4, "free": CAP - 4, "reserve": 10, "others": 0, "strays": 0,
        "quarantined": 0, "max_connections": 40, "waiting": 0, "sessions": 1, "admission": "fair",
        "quantum_ms": 100, "draining": false, "probe": "ok"
    });
    for (field, value) in expected.as_object().expect("an object") {
        assert_eq!(&status["databases"][0][field], value, "{field} in {status}");
    }
    let table = leasehold(&fleet.server.url(), &["status"]).await;
    assert_eq!(table.code, 0, "{}", table.complaint);
    assert!(table.output.contains(DATABASE), "{}", table.output);
}

/// What is set up wrongly so that the cap is wrong, but nothing fails.
#[tokio::test(flavor = "multi_thread")]
async fn status_says_what_the_probe_cannot_see() {
    let database = MariaDb::start(40).await;
    let shown = async |server: &Server| leasehold(&server.url(), &["status"]).await.output;

    let blind =
        format!("[databases.{DATABASE}]\nurl = \"{}\"\naccounts = [\"{ACCOUNT}\"]\n", database.url("other"));
    let server = Server::start(&blind).await;
    eventually(BOUND, "the privilege to be missed", async || {
        shown(&server).await.contains("lacks the PROCESS privilege")
    })
    .await;
    drop(server);

    let misnamed =
        format!("[databases.{DATABASE}]\nurl = \"{}\"\naccounts = [\"apps\"]\n", database.url("leasehold"));
    let server = Server::start(&misnamed).await;
    server.shows(DATABASE, BOUND, "the database's limit", |shown| shown.cap == CAP).await;
    assert!(!shown(&server).await.contains("accounts"), "{}", shown(&server).await);
    let member = Member::join(&server.url(), &database.url(ACCOUNT), "node").await;
    let taken = member.take(3).await;
    eventually(BOUND * 2, "the accounts to be doubted", async || {
        shown(&server).await.contains("nodes report 3 connections more than the database shows")
    })
    .await;
    drop(taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_holds_through_a_crash_until_it_is_cleared() {
    let mut fleet = Fleet::start(Terms::default()).await;
    let url = fleet.server.url();
    run(&fleet, &["set", DATABASE, "--cap", "12", "--for", "1h"]).await;
    run(&fleet, &["set", DATABASE, "--admission", "unfair"]).await;
    fleet.server.kill();
    fleet.server.restart().await;
    assert_eq!(fleet.server.database(DATABASE).await.cap, 12);
    // Until then its cap is the last one known, whatever the reserve is.
    let watched = |shown: &Database| shown.max_connections.is_some();
    fleet.server.shows(DATABASE, BOUND, "the database's limit", watched).await;
    let status = leasehold_json(&url, &["databases", DATABASE]).await.to_string();
    assert!(status.contains("unfair"), "{status}");
    run(&fleet, &["set", DATABASE, "--clear", "cap,admission"]).await;
    fleet
        .server
        .shows(DATABASE, BOUND, "the cap as before", |shown| shown.cap == CAP && shown.admission == "fair")
        .await;

    // For a time only: it ends by itself.
    run(&fleet, &["set", DATABASE, "--reserve", "25", "--for", "1s"]).await;
    assert_eq!(fleet.server.database(DATABASE).await.cap, 15);
    fleet.server.shows(DATABASE, BOUND, "the reserve as before", |shown| shown.cap == CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_database_gives_nothing_more_until_it_is_resumed() {
    let fleet = Fleet::start(Terms::default()).await;
    run(&fleet, &["drain", DATABASE]).await;
    assert!(fleet.server.database(DATABASE).await.draining);
    let request = "11111111-2222-4333-8444-555555555555";
    assert!(acquire(&fleet, request, 1, 0).await.is_err(), "a draining database granted a token");
    run(&fleet, &["resume", DATABASE]).await;
    acquire(&fleet, "11111111-2222-4333-8444-666666666666", 1, WAIT_MS)
        .await
        .expect("a token after the drain");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_session_gives_its_tokens_back() {
    let fleet = Fleet::start(Terms::default()).await;
    acquire(&fleet, "11111111-2222-4333-8444-555555555555", 4, WAIT_MS).await.expect("four tokens");
    let sessions = leasehold_json(&fleet.server.url(), &["sessions"]).await;
    assert_eq!(sessions["sessions"][0]["node"], "operator-test", "{sessions}");
    let id = sessions["sessions"][0]["id"].as_str().expect("the session's id");
    run(&fleet, &["evict", &id[..8]]).await;
    assert_eq!(fleet.server.database(DATABASE).await.held, 0);
    let sessions = leasehold_json(&fleet.server.url(), &["sessions"]).await;
    assert_eq!(sessions["sessions"], Value::Array(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_a_refusal_from_a_server_that_is_not_there() {
    let mut fleet = Fleet::start(Terms::default()).await;
    let url = fleet.server.url();
    let refused = leasehold(&url, &["drain", "nowhere"]).await;
    assert_eq!(refused.code, 1, "{}", refused.complaint);
    assert!(refused.complaint.contains("nowhere"), "{}", refused.complaint);
    assert_eq!(leasehold(&url, &["drain"]).await.code, 2);
    assert_eq!(leasehold(&url, &["evict", "00000000"]).await.code, 1);
    fleet.server.stop().await;
    let absent = leasehold(&url, &["status"]).await;
    assert_eq!(absent.code, 2, "{}", absent.complaint);
    let address = url.trim_start_matches("http://");
    assert!(absent.complaint.contains(address), "{}", absent.complaint);
}

async fn run(fleet: &Fleet, arguments: &[&str]) {
    let ran = leasehold(&fleet.server.url(), arguments).await;
    assert_eq!(ran.code, 0, "leasehold {arguments:?}: {}", ran.complaint);
}

async fn acquire(fleet: &Fleet, request: &str, tokens: u32, max_wait_ms: u64) -> Result<(), Code> {
    let request = AcquireRequest {
        request_id: request.to_owned(),
        node: "operator-test".to_owned(),
        database: DATABASE.to_owned(),
        tokens,
        workload: String::new(),
        max_wait_ms,
    };
    let mut leases = LeaseServiceClient::new(fleet.server.channel());
    leases.acquire(request).await.map(|_| ()).map_err(|status| status.code())
}
