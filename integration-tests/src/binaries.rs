//! The project's own programs as built files, whichever way the tests were
//! started: `cargo test -p` of this package alone does not build them. Knows
//! nothing of what they do.

use std::{
    collections::HashMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde::Deserialize;

/// `leasehold-server`.
pub fn server() -> &'static Path {
    built("leasehold-server")
}

/// `leasehold`, the operator's command.
pub fn cli() -> &'static Path {
    built("leasehold")
}

/// The example `app_node`.
pub fn app_node() -> &'static Path {
    built("app_node")
}

fn built(name: &str) -> &'static Path {
    static BUILT: OnceLock<HashMap<String, PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).get(name).unwrap_or_else(|| panic!("the workspace has no program `{name}`"))
}

/// What cargo says of each thing that it has built, one JSON line each.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds the programs in the profile of this test. Takes a moment when they
/// are built already; cargo's own lock makes parallel tests wait for one.
fn build() -> HashMap<String, PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        // The features of the whole workspace, as `cargo test --workspace` has
        // them: otherwise the two would build everything over again in turns.
        .args(["build", "--workspace", "--bins", "--example", "app_node"])
        .args(["--quiet", "--message-format=json-render-diagnostics", "--profile", profile()])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "cargo cannot build the programs that the tests run");
    let messages = String::from_utf8(output.stdout).expect("cargo's messages are text");
    messages.lines().filter_map(program).collect()
}

fn program(line: &str) -> Option<(String, PathBuf)> {
    let message: Message = serde_json::from_str(line).ok()?;
    let target = message.target?;
    let runs = target.kind.iter().any(|kind| kind == "bin" || kind == "example");
    Some((target.name, message.executable.filter(|_| runs)?))
}

/// The profile that this test was built in, by the name of its directory.
fn profile() -> &'static str {
    if cfg!(debug_assertions) { "dev" } else { "release" }
}
