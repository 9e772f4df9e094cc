//! The operator's command `leasehold`, run for real. Knows nothing of what it
//! prints.

use std::process::Command;

use crate::binaries;

/// How a run of the command ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// What it printed for the operator or a program.
    pub output: String,
    /// What it complained of.
    pub complaint: String,
}

/// Runs `leasehold --server URL` with `arguments`.
pub async fn leasehold(server: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(binaries::cli());
    command.args(["--server", server]).args(arguments);
    let output = tokio::process::Command::from(command)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the command can be started");
    Ran {
        code: output.status.code().expect("the command ends by itself"),
        output: String::from_utf8(output.stdout).expect("the command prints text"),
        complaint: String::from_utf8(output.stderr).expect("the command complains in text"),
    }
}

/// Runs it with `--output json` and reads what it prints.
pub async fn leasehold_json(server: &str, arguments: &[&str]) -> serde_json::Value {
    let ran = leasehold(server, &[arguments, &["--output", "json"]].concat()).await;
    assert_eq!(ran.code, 0, "leasehold {arguments:?} failed: {}", ran.complaint);
    serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("not JSON, {error}: {}", ran.output))
}
