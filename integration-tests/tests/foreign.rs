//! A client in another language, without any Leasehold code: `foreign/client.py`
//! finds the API by reflection and lives through the life of a few leases.

use std::{path::Path, process::Command, time::Duration};

use leasehold_integration_tests::{process::Process, scratch, server::Server};
use serde::Deserialize;

const BOUND: Duration = Duration::from_secs(60);
/// Made by `scripts/test`.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/foreign-client/bin/python");
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/foreign/client.py");

/// One step of the client, as it prints it.
#[derive(Debug, Deserialize)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    outcome: String,
    #[serde(default)]
    lease_id: String,
    #[serde(default)]
    services: Vec<String>,
    held: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_leases_tokens() {
    let server = Server::start(
        "[databases.orders]\ncap = 10\non_loss = \"fence\"\nttl = \"2s\"\nfence_grace = \"0s\"\n",
    )
    .await;
    assert!(
        Path::new(PYTHON).exists(),
        "the Python client's packages are missing; scripts/test installs them"
    );
    let address = server.url().replace("http://", "");
    let mut command = Command::new(PYTHON);
    command.args([CLIENT, &address, "orders"]);
    let directory = scratch::directory("foreign");
    let mut client = Process::spawn("client.py", &command, directory.path());
    let status = client.end(BOUND).await;
    eprintln!("{}", client.output());
    assert!(status.success(), "the Python client ended with {status}");
    let steps: Vec<Step> = client
        .output()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not a step, {error}: {line}")))
        .collect();

    let services = &steps[0].services;
    for name in ["leasehold.v1.AdminService", "leasehold.v1.LeaseService", "grpc.health.v1.Health"] {
        assert!(services.iter().any(|service| service == name), "{name} is not among {services:?}");
    }
    assert_eq!(lease(&steps, "acquire"), lease(&steps, "acquire again"), "the same request, another lease");
    let told: Vec<String> = steps[1..].iter().map(told).collect();
    assert_eq!(told.join("\n"), EXPECTED.trim());
}

const EXPECTED: &str = "
acquire: OK, held 4
acquire again: OK, held 4
acquire again with another count: ALREADY_EXISTS, held 4
renew: OK, held 4
acquire too many without waiting: DEADLINE_EXCEEDED, held 4
cancel while waiting: CANCELLED, held 4
acquire the rest after the cancellation: OK, held 10
release another node's: PERMISSION_DENIED, held 10
release: OK RELEASED, held 10
acquire after waiting: OK, held 10
release again: OK ALREADY_RELEASED, held 10
release again by the request: OK ALREADY_RELEASED, held 10
acquire a released request: FAILED_PRECONDITION, held 10
release by the request: OK RELEASED, held 4
renew a released lease: FAILED_PRECONDITION, held 4
renew an expired lease: FAILED_PRECONDITION, held 0
release an expired lease: OK EXPIRED, held 0
release a lease that never was: OK UNKNOWN, held 0
";

fn told(step: &Step) -> String {
    let outcome = step.outcome.replace("RELEASE_OUTCOME_", " ");
    format!("{}: {}{outcome}, held {}", step.name, step.code, step.held)
}

fn lease<'a>(steps: &'a [Step], name: &str) -> &'a str {
    &steps.iter().find(|step| step.name == name).expect("a step of this name").lease_id
}
