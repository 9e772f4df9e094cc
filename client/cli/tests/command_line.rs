//! Runs the real binary against a gRPC server in this process, whose answers the
//! tests choose: exit codes, what is written where, and what happens when the other
//! side is not there, refuses, is silent or goes away.

mod fake;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};

use fake::{Behaviour, Server};
use serde_json::Value;
use tokio::net::TcpSocket;

/// The command as a script runs it; `PATH` and such do not matter to it.
fn leasehold(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(arguments).env_remove("LEASEHOLD_SERVER").stdin(Stdio::null());
    command
}

struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn finish(mut command: Command) -> Finished {
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Finished { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

fn run(server: SocketAddr, arguments: &[&str]) -> Finished {
    let mut command = leasehold(arguments);
    command.env("LEASEHOLD_SERVER", server.to_string());
    finish(command)
}

/// Nothing on standard output, one line on standard error.
fn assert_fails(finished: &Finished, code: i32, message: &str) {
    assert_eq!(finished.stderr.trim_end(), message);
    assert_eq!(finished.stdout, "");
    assert_eq!(finished.code, Some(code));
}

#[test]
fn status_prints_a_table_or_json() {
    let server = Server::start(Behaviour::Healthy);
    let table = run(server.address(), &["status"]);
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    assert!(table.stdout.contains("DATABASE  CAP  HELD"), "{}", table.stdout);
    assert!(table.stdout.ends_with('\n') && !table.stdout.ends_with("\n\n"));

    let json = run(server.address(), &["status", "--output", "json"]);
    assert_eq!((json.code, json.stderr.as_str()), (Some(0), ""));
    let value: Value = serde_json::from_str(&json.stdout).expect("standard output is JSON");
    assert_eq!(value["generation"], 3);
    assert_eq!(value["databases"][0]["name"], "orders");
    assert_eq!(value["databases"][0]["max_connections"], Value::Null);
    assert_eq!(json.stdout.lines().count(), 1);
}

#[test]
fn status_fails_when_the_store_does() {
    let server = Server::start(Behaviour::StoreBroken);
    for arguments in [&["status"][..], &["status", "-o", "json"]] {
        let found = run(server.address(), arguments);
        assert_eq!(found.code, Some(1));
        assert_eq!(
            found.stderr.trim_end(),
            "leasehold: not healthy: the store refuses commits: no space left on device"
        );
        assert!(!found.stdout.is_empty(), "the state is shown all the same");
    }
}

#[test]
fn every_command_reaches_its_call() {
    let server = Server::start(Behaviour::Healthy);
    let id = "3f9a2c51d0b47e8896a1c2d3e4f50617";
    let cases = [
        ("databases", "databases"),
        ("databases orders", "databases orders"),
        ("sessions", "sessions"),
        ("sessions --database orders", "sessions orders"),
        ("why web-1", "why web-1"),
        ("why web-1 --database orders", "why web-1 orders"),
        ("set orders --cap 5 --for 1m", "set orders cap=5 for=60000"),
        ("drain orders", "drain orders"),
        ("resume orders", "resume orders"),
        ("evict 3F9A2C51D0B4", "evict 3f9a2c51d0b4"),
    ];
    for (line, expected) in cases {
        for format in ["table", "json"] {
            let mut arguments: Vec<&str> = line.split(' ').collect();
            arguments.extend(["-o", format]);
            let found = run(server.address(), &arguments);
            assert_eq!((found.code, found.stderr.as_str()), (Some(0), ""), "{line}");
            assert_eq!(server.last_call(), expected, "{line}");
            if format == "json" {
                serde_json::from_str::<Value>(&found.stdout).expect("standard output is JSON");
            }
        }
    }
    let evicted = run(server.address(), &["evict", "3f9a2c51d0b4", "-o", "json"]);
    assert!(evicted.stdout.contains(id), "JSON has the whole id");
}

#[test]
fn sessions_of_a_database_have_no_other_leases() {
    let server = Server::start(Behaviour::Healthy);
    let found = run(server.address(), &["sessions", "--database", "orders", "-o", "json"]);
    let value: Value = serde_json::from_str(&found.stdout).unwrap();
    let leases = value["sessions"][0]["leases"].as_array().unwrap();
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0]["database"], "orders");
}

#[test]
fn nothing_to_list_is_said_aside() {
    let server = Server::start(Behaviour::Empty);
    let status = run(server.address(), &["status"]);
    assert_eq!(status.code, Some(0));
    assert!(status.stdout.contains("no databases are configured"));
    for (command, remark) in
        [("sessions", "leasehold: no sessions\n"), ("databases", "leasehold: no databases are configured\n")]
    {
        let table = run(server.address(), &[command]);
        assert_eq!((table.code, table.stdout.as_str()), (Some(0), ""));
        assert_eq!(table.stderr, remark);
        let json = run(server.address(), &[command, "-o", "json"]);
        assert_eq!((json.code, json.stderr.as_str()), (Some(0), ""));
        assert_eq!(json.stdout, format!("{{\"{command}\":[]}}\n"));
    }
    let unknown = run(server.address(), &["databases", "ordres"]);
    assert_fails(&unknown, 1, "leasehold: no database is named `ordres`; `leasehold databases` lists them");
}

#[test]
fn a_refusal_is_told_in_the_servers_words() {
    let server = Server::start(Behaviour::Refusing);
    let found = run(server.address(), &["set", "orders", "--cap", "5"]);
    assert_fails(&found, 1, "leasehold: the server refused: no database `orders`\\u{1b}[31m");
}

#[test]
fn a_refused_connection_is_explained() {
    // Bound, so that nobody else gets the port, but not listening.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    for format in ["table", "json"] {
        let found = run(address, &["status", "-o", format]);
        assert_fails(
            &found,
            2,
            &format!(
                "leasehold: cannot reach http://{address}: connection refused; is the server running? \
                 --server or LEASEHOLD_SERVER names another"
            ),
        );
    }
}

#[test]
fn an_unknown_host_is_explained() {
    // No name has a part of 64 letters: it fails without asking a name server.
    let host = format!("{}.invalid", "a".repeat(64));
    let found = finish(leasehold(&["status", "--server", &host]));
    assert_eq!((found.code, found.stdout.as_str()), (Some(2), ""));
    assert!(
        found.stderr.starts_with(&format!("leasehold: cannot reach http://{host}:7420: ")),
        "{}",
        found.stderr
    );
    assert_eq!(found.stderr.lines().count(), 1);
}

#[test]
fn a_silent_peer_is_not_waited_for() {
    // Accepts by backlog and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let found = run(address, &["status", "--timeout", "150ms"]);
    assert_fails(
        &found,
        2,
        &format!("leasehold: no answer from http://{address} within 150ms; --timeout waits longer"),
    );
    let found = run(address, &["drain", "orders", "--timeout", "150ms"]);
    assert_fails(
        &found,
        2,
        &format!(
            "leasehold: no answer from http://{address} within 150ms; the change may have happened \
             all the same: look at `leasehold databases`"
        ),
    );
}

#[test]
fn a_peer_that_speaks_something_else_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let found = run(address, &["status"]);
    peer.join().unwrap();
    assert_eq!((found.code, found.stdout.as_str()), (Some(2), ""));
    assert!(
        found.stderr.trim_end().ends_with("is this the gRPC port of a Leasehold server?"),
        "{}",
        found.stderr
    );
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [&[][..], &["frobnicate"], &["set", "orders"], &["status", "--server", "::1"]] {
        let found = finish(leasehold(arguments));
        assert_eq!((found.code, found.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(!found.stderr.is_empty());
    }
    let mut command = leasehold(&["status"]);
    command.env("LEASEHOLD_SERVER", "https://db");
    let found = finish(command);
    assert_eq!(found.code, Some(2));
    assert!(found.stderr.starts_with("leasehold: invalid value 'https://db'"), "{}", found.stderr);
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [&["--help"][..], &["set", "--help"], &["--version"]] {
        let found = finish(leasehold(arguments));
        assert_eq!((found.code, found.stderr.as_str()), (Some(0), ""));
        assert!(!found.stdout.is_empty());
    }
}

#[test]
fn a_large_fleet_is_listed_whole() {
    let server = Server::start(Behaviour::Large);
    let found = run(server.address(), &["sessions"]);
    assert_eq!(found.code, Some(0));
    assert_eq!(found.stdout.lines().count(), 1 + fake::LARGE_FLEET);
    let widths: Vec<usize> = found.stdout.lines().map(|line| line.chars().count()).collect();
    assert!(
        widths.iter().all(|width| *width == widths[0]),
        "the last column is a number: all lines end alike"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    // Far more than a pipe holds, so that the write does fail.
    let server = Server::start(Behaviour::Large);
    let mut command = leasehold(&["sessions"]);
    command.env("LEASEHOLD_SERVER", server.address().to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 7];
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut first).unwrap();
    drop(pipe);
    let finished = child.wait_with_output().unwrap();
    assert_eq!(&first, b"SESSION");
    assert_eq!(String::from_utf8_lossy(&finished.stderr), "");
    assert_eq!(finished.status.code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    let server = Server::start(Behaviour::Healthy);
    let mut command = leasehold(&["status"]);
    command.env("LEASEHOLD_SERVER", server.address().to_string());
    command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let finished = command.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&finished.stderr),
        "leasehold: cannot write to standard output: no space left on device\n"
    );
    assert_eq!(finished.status.code(), Some(2));
}

#[test]
fn ipv6_and_names_are_reached() {
    let server = Server::start(Behaviour::Healthy);
    let port = server.address().port();
    let found = finish(leasehold(&["status", "--server", &format!("localhost:{port}")]));
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    // A machine without IPv6 has nothing to show here.
    if let Some(server) = Server::start_on("[::1]:0", Behaviour::Healthy) {
        let found = finish(leasehold(&["status", "--server", &format!("[::1]:{}", server.address().port())]));
        assert_eq!(found.code, Some(0), "{}", found.stderr);
    }
}
