//! The program itself, as an operator starts it: what it prints, what it
//! refuses, its exit codes, and that it ends when it is told to.

#![expect(clippy::unwrap_used, reason = "a test whose surroundings fail fails")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longest wait for the program to write a line or to end.
const BOUND: Duration = Duration::from_secs(20);

/// A directory to start the program in, with its configuration.
struct Place {
    directory: TempDir,
    config: PathBuf,
}

impl Place {
    fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leasehold.toml");
        std::fs::write(&path, config).unwrap();
        Self { directory, config: path }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-server"));
        command.current_dir(self.directory.path()).env_remove("RUST_LOG").stdin(Stdio::null());
        command.arg("--config").arg(&self.config);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    fn start(&self) -> Running {
        let mut child =
            self.command().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("start the program");
        let lines = lines(child.stdout.take().unwrap());
        Running { child, lines }
    }
}

/// A started program; killed if the test ends before it.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    /// The next line that it prints.
    fn line(&self) -> String {
        self.lines.recv_timeout(BOUND).expect("a line in time")
    }

    /// Sends a signal and waits for the end: the exit code.
    fn end(&mut self, signal: Signal) -> Option<i32> {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).unwrap();
        // The output ends with the program.
        while self.lines.recv_timeout(BOUND).is_ok() {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn errors(output: &Output, directory: &Path) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let said: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    said.join("\n").replace(&directory.display().to_string(), "DIR")
}

const ANY_PORTS: &str = "[server]\nlisten = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\n[databases.a]\ncap = 5\n";

#[test]
fn a_check_says_what_the_configuration_means() {
    let place = Place::new("[databases.a]\ncap = 5");
    let output = place.run(&["--check"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"
    gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records in ./leasehold-data
    database a: a fixed cap of 5; fair admission within 100ms; nodes close their connections when the server is silent for 30s, and have 30s for it
    ");
    assert!(!place.directory.path().join("leasehold-data").exists(), "a check leaves nothing behind");
}

#[test]
fn a_faulty_configuration_is_exit_code_2() {
    let place = Place::new("[databases.a]\ncap = 0\nquantm = '1s'");
    let output = place.run(&["--check"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(errors(&output, place.directory.path()), @"
    error: DIR/leasehold.toml:2:7: `cap` in [databases.a] must be from 1 to 1000000, not 0
    error: DIR/leasehold.toml:3:1: unknown key `quantm` in [databases.a]; did you mean `quantum`?
    ");
    assert_eq!(place.run(&["--nonsense"]).status.code(), Some(2));
}

#[test]
fn a_check_says_what_is_not_from_the_file() {
    let place = Place::new("[databases.a]\ncap = 5");
    let command = |arguments: &[&str]| {
        let mut command = place.command();
        command.env("LEASEHOLD__DATABASES__A__CAP", "7").args(arguments);
        command.output().unwrap()
    };
    let output = command(&["--check", "--set", "databases.a.admission=unfair"]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    let said = said.replace(&place.directory.path().display().to_string(), "DIR");
    insta::assert_snapshot!(said, @"
    gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records in ./leasehold-data
    database a: a fixed cap of 7; unfair admission; nodes close their connections when the server is silent for 30s, and have 30s for it
    databases.a.admission is set by --set databases.a.admission
    databases.a.cap is set by LEASEHOLD__DATABASES__A__CAP, over DIR/leasehold.toml:2:1
    ");

    let output = command(&["--set", "databases.a.cpa=5", "--set", "server"]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(errors(&output, place.directory.path()), @"
    error: --set databases.a.cpa: unknown key `cpa` in [databases.a]; did you mean `cap`?
    error: --set server: a setting needs a value: write --set KEY=VALUE
    ");
}

#[test]
fn commands_find_the_records_where_the_settings_say() {
    let place = Place::new("[server]\ndata = 'one'\n[databases.a]\ncap = 5");
    let export = |variables: &[(&str, &str)], set: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-server"));
        command.current_dir(place.directory.path()).envs(variables.iter().copied());
        command.arg("export").arg("--config").arg(&place.config).args(set).output().unwrap()
    };
    let told = |output: &Output| errors(output, place.directory.path());
    let variable = [("LEASEHOLD__SERVER__DATA", "two")];
    assert!(told(&export(&[], &[])).contains("`one`"));
    assert!(told(&export(&variable, &[])).contains("`two`"));
    assert!(told(&export(&variable, &["--set", "server.data=three"])).contains("`three`"));
    assert_eq!(export(&[], &["--data", "four"]).status.code(), Some(2));
}

#[test]
fn a_port_in_use_is_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let place = Place::new(&format!("[server]\nlisten = '{address}'\n[databases.a]\ncap = 5"));
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output, place.directory.path()).replace(&address.to_string(), "ADDRESS");
    insta::assert_snapshot!(said, @"error: cannot listen on ADDRESS for gRPC (another process has the port, perhaps another leasehold-server: stop it, or set `listen` in [server] to another port): Address already in use (os error 98)");
}

#[test]
fn records_that_cannot_be_kept_are_exit_code_1() {
    let place =
        Place::new(&ANY_PORTS.replace("[databases.a]", "data = 'leasehold.toml/data'\n[databases.a]"));
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(errors(&output, place.directory.path()), @"error: cannot keep records in leasehold.toml/data (`data` in [server]): cannot create `leasehold.toml/data`: Not a directory (os error 20)");
}

#[test]
fn records_are_kept_by_one_server() {
    let place = Place::new(ANY_PORTS);
    let mut first = place.start();
    assert!(first.line().starts_with("Leasehold "));
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(errors(&output, place.directory.path()), @"error: cannot keep records in ./leasehold-data (`data` in [server]): store `./leasehold-data` is in use by another process: stop that one, or give this one a directory of its own");
    assert_eq!(first.end(Signal::TERM), Some(0));
}

#[test]
fn it_tells_how_it_runs_and_ends_in_order() {
    let place = Place::new(ANY_PORTS);
    for (generation, signal) in [(1, Signal::TERM), (2, Signal::INT)] {
        let mut server = place.start();
        let first = server.line();
        assert!(first.ends_with(&format!(", generation {generation}")), "{first}");
        assert!(server.line().starts_with("gRPC on 127.0.0.1:"), "no addresses");
        assert!(server.line().starts_with("database a: a fixed cap of 5"), "no database");
        assert!(
            server
                .line()
                .starts_with("next: cargo run --release -p leasehold-cli -- status --server http://")
        );
        assert_eq!(server.end(signal), Some(0));
    }
}

#[test]
fn a_log_filter_that_cannot_be_read_is_exit_code_2() {
    let place = Place::new(ANY_PORTS);
    let output = place.command().env("RUST_LOG", "leasehold=loud").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(errors(&output, place.directory.path()), @r#"error: cannot read RUST_LOG: write levels such as `info` or `leasehold_server=debug`: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5"#);
}
