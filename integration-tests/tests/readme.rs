//! What the README tells a newcomer to do, done: its first two commands and its
//! configuration.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    process::Command,
    time::Duration,
};

use leasehold_integration_tests::{
    binaries, cli, http, process::Process, scratch, stage::Stage, wait::eventually,
};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
/// Where a server listens that was told nothing.
const LISTEN: &str = "127.0.0.1:7420";
const HTTP: &str = "127.0.0.1:7421";
/// Another server on this machine may have to end first.
const FREE_BOUND: Duration = Duration::from_secs(60);
const BOUND: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn the_first_two_commands_show_what_the_readme_shows() {
    // The ports are fixed, so no two tests may do this at once.
    let _stage = Stage::alone().await;
    eventually(FREE_BOUND, "ports 7420 and 7421 to be free", async || {
        TcpListener::bind(LISTEN).is_ok() && TcpListener::bind(HTTP).is_ok()
    })
    .await;
    let directory = scratch::directory("readme");
    let mut command = Command::new(binaries::server());
    command.current_dir(directory.path());
    let mut server = Process::spawn("leasehold-server", &command, directory.path());
    let http: SocketAddr = HTTP.parse().expect("an address");
    eventually(BOUND, "the server to be ready", async || {
        assert!(server.ended().is_none(), "the server ended at once: {}", server.log());
        http::get(http, "/readyz").await.is_some_and(|page| page.status == 200)
    })
    .await;
    assert!(directory.path().join("leasehold-data").is_dir(), "the records are elsewhere");

    let shown = blocks("text")
        .into_iter()
        .find(|block| block.contains("\ndefault "))
        .expect("the README shows the database of a new server");
    let status = cli::leasehold(&format!("http://{LISTEN}"), &["status"]).await;
    assert_eq!(status.code, 0, "{}", status.complaint);
    // All but the first line, which says how long the server is up.
    let table = |text: &str| text.trim_end().split_once('\n').map(|(_, rest)| rest.to_owned());
    assert_eq!(table(&status.output), table(&shown));
    assert!(server.stop().await.success(), "{}", server.log());
}

#[test]
fn the_servers_configuration_is_accepted() {
    let directory = scratch::directory("readme");
    let config = directory.path().join("orders.toml");
    let [text] = blocks("toml").try_into().expect("one configuration in the README");
    fs::write(&config, text).expect("write the configuration");
    let output = Command::new(binaries::server())
        .arg("--config")
        .arg(&config)
        .arg("--check")
        .env("ORDERS_URL", "mysql://leasehold:secret@db.internal:3306/")
        .output()
        .expect("the server can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The fenced blocks of this language, without their indentation.
fn blocks(language: &str) -> Vec<String> {
    let readme = fs::read_to_string(README).expect("the README");
    let mut blocks = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let Some((indent, found)) = line.split_once("```") else { continue };
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        let text: String = block.flat_map(|line| [line.strip_prefix(indent).unwrap_or(line), "\n"]).collect();
        if found == language {
            blocks.push(text);
        }
    }
    blocks
}
