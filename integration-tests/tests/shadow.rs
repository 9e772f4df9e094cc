//! Shadow mode with a real server and the real command: nobody waits, operators see
//! who would have, and from the moment that it ends the cap holds.

use std::time::Duration;

use leasehold_integration_tests::{
    cli::{leasehold, leasehold_json},
    server::Server,
    wait::eventually,
};
use leasehold_proto::v1::{
    AcquireReply, AcquireRequest, ReleaseRequest, lease_service_client::LeaseServiceClient,
    release_request::Target,
};
use tonic::{Code, Status, transport::Channel};

const BOUND: Duration = Duration::from_secs(10);

async fn acquire(
    leases: &LeaseServiceClient<Channel>,
    number: u32,
    tokens: u32,
    max_wait_ms: u64,
) -> Result<AcquireReply, Status> {
    let request = AcquireRequest {
        request_id: format!("00000000-0000-4000-8000-{number:012}"),
        node: format!("job-{number}"),
        database: "orders".to_owned(),
        tokens,
        workload: String::new(),
        max_wait_ms,
    };
    leases.clone().acquire(request).await.map(tonic::Response::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_and_operators_see_who_would() {
    let server = Server::start("[databases.orders]\ncap = 3\nshadow = true\nfence_grace = \"1s\"\n").await;
    let leases = LeaseServiceClient::new(server.channel());
    acquire(&leases, 1, 2, 0).await.expect("there is room");
    acquire(&leases, 2, 3, 0).await.expect("everything is granted");
    acquire(&leases, 3, 9, 0).await.expect("also what is more than the cap");

    let status = leasehold(&server.url(), &["status"]).await.output;
    let told = "orders: shadow mode: everything is granted; 11 tasks would be waiting; since the start 2 tokens \
                would have been waited for and 1 call refused";
    assert!(status.contains(told), "{status}");
    let why = leasehold_json(&server.url(), &["why", "job-2"]).await;
    let shadowed = &why["explanations"][0]["shadowed"];
    assert_eq!((&shadowed["tokens"], &shadowed["reason"]), (&2.into(), &"no_donor".into()), "{why}");
    let why = leasehold_json(&server.url(), &["why", "job-1"]).await;
    assert!(why["explanations"][0]["shadowed"].is_null(), "{why}");
    let text = server.page("/metrics").await.expect("the page").body;
    assert!(text.contains("\nleasehold_shadow{database=\"orders\"} 1\n"), "{text}");
    let queued = "\nleasehold_workload_shadow_queued_total{database=\"orders\",workload=\"default\"} 2\n";
    assert!(text.contains(queued), "{text}");

    let off = leasehold(&server.url(), &["set", "orders", "--shadow", "off"]).await;
    assert_eq!(off.code, 0, "{}", off.complaint);
    assert!(off.output.starts_with("orders: shadow overridden to off until cleared\n"), "{}", off.output);
    let full = acquire(&leases, 4, 1, 0).await.expect_err("14 of 3 are held");
    assert_eq!(full.code(), Code::DeadlineExceeded, "{full}");
    let refused = acquire(&leases, 5, 9, 0).await.expect_err("it is more than the cap");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");

    for number in [2, 3] {
        let target = Target::RequestId(format!("00000000-0000-4000-8000-{number:012}"));
        let release = ReleaseRequest { target: Some(target), node: format!("job-{number}") };
        leases.clone().release(release).await.expect("it is released");
    }
    acquire(&leases, 6, 1, 5_000).await.expect("2 of 3 are held");
    eventually(BOUND, "the cap to be full", async || server.database("orders").await.held == 3).await;
    assert!(acquire(&leases, 7, 1, 0).await.is_err(), "the cap holds");
}
