//! `leasehold`, the operator's command: looks at a Leasehold server and steers it.
//!
//! This file turns the process's arguments into an exit code and does nothing
//! else. `args` says what may be typed, `connect` reaches the server, `commands`
//! has one file for each command, `report` is what the server said, `output` is
//! how it is printed. Knows nothing of how tokens are leased.

mod args;
mod commands;
mod connect;
mod error;
mod output;
mod report;

use std::process::ExitCode;

fn main() -> ExitCode {
    match args::from_process() {
        Ok(arguments) => commands::run_to_exit_code(&arguments),
        Err(exit_code) => exit_code,
    }
}
