//! The real parts behave as the other tests rely on.

use std::{process::Command, time::Duration};

use leasehold_integration_tests::{
    mariadb::MariaDb,
    ports::Port,
    process::Process,
    scratch,
    wait::{eventually, find},
};

const BOUND: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_full_database_still_lets_the_observer_in() {
    let database = MariaDb::start(10).await;
    let held = database.open("app", 10).await;
    // The eleventh is for the superuser; the application has no right to it.
    let refusal = database.connect("app").await.expect_err("the database is full");
    assert!(refusal.to_string().contains("1040"), "{refusal}");
    assert_eq!(database.connections("app").await, 10);

    database.set_max_connections(12).await;
    // The refused one may take its slot for a moment longer.
    let get_in = async || database.connect("other").await.ok();
    let (one, _) = find(BOUND, "the eleventh to get in", get_in).await;
    let (two, _) = find(BOUND, "the twelfth to get in", get_in).await;
    assert_eq!(database.connections("other").await, 2);
    for connection in held.into_iter().chain([one, two]) {
        connection.disconnect().await.expect("the tool leaves");
    }
    eventually(BOUND, "the connections to be gone", async || database.connections("app").await == 0).await;
}

#[tokio::test]
async fn a_crashed_database_comes_back_on_its_port() {
    let mut database = MariaDb::start(20).await;
    database.observer().command("CREATE TABLE test.kept (id INT)").await;
    let url = database.url("app");
    database.kill();
    assert!(database.connect("app").await.is_err());
    database.restart().await;
    assert_eq!(database.url("app"), url);
    database.observer().command("SELECT id FROM test.kept").await;
}

#[tokio::test]
async fn a_process_ends_with_its_handle() {
    let directory = scratch::directory("process");
    let mut command = Command::new("sleep");
    command.arg("600");
    let process = Process::spawn("sleep", &command, directory.path());
    let trace = format!("/proc/{}", process.id());
    assert!(std::fs::exists(&trace).expect("look at the process"));
    drop(process);
    assert!(!std::fs::exists(&trace).expect("look at the process"));
}

#[test]
fn a_port_is_claimed_once() {
    let (one, two) = (Port::claim(), Port::claim());
    assert_ne!(one.number(), two.number());
}
