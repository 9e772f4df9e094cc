//! What a commit has confirmed survives `kill -9`, at whatever moment it comes.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use leasehold_storage::{Change, Sled, Store};
use tempfile::TempDir;

/// Names the directory to a child process.
const DIRECTORY: &str = "LEASEHOLD_CRASH_DIRECTORY";
const ROUNDS: usize = 8;

#[test]
fn what_was_confirmed_survives_a_kill() {
    let directory = TempDir::new().expect("a directory can be made");
    let path = directory.path().join("data");
    let mut confirmed = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(env::current_exe().expect("the test has a file"))
            .args(["--exact", "commits_until_it_is_killed", "--nocapture"])
            .env(DIRECTORY, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test can be run again");
        let lines = BufReader::new(child.stdout.take().expect("the output is piped")).lines();
        let numbers = lines.map_while(Result::ok).filter_map(|line| line.trim().parse::<u64>().ok());
        // A few commits more each time, so that the kill meets different moments.
        confirmed = numbers.take(1 + round * 37).last().expect("a commit was confirmed");
        child.kill().expect("it can be killed");
        child.wait().expect("it has ended");

        let state = Sled::open(&path).and_then(|mut store| store.load()).expect("the store opens");
        assert!(state.generation >= confirmed, "{} after {confirmed} was confirmed", state.generation);
        let whole = state.caps.get("orders").copied().map(u64::from);
        assert_eq!(whole, Some(state.generation), "half a commit");
    }
    assert!(confirmed > ROUNDS as u64, "the rounds built on one another");
}

/// The child: no test of its own.
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn commits_until_it_is_killed() {
    let Some(path) = env::var_os(DIRECTORY) else { return };
    let mut store = Sled::open(path).expect("the store opens");
    let mut generation = store.load().expect("the state loads").generation;
    loop {
        generation += 1;
        let changes = [Change::Generation(generation), Change::PutCap("orders".into(), generation as u32)];
        store.commit(&changes).expect("the commit succeeds");
        println!("{generation}");
    }
}
