//! The command line: what can be said on it, and how errors are told. Knows
//! nothing of what the server does.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config;

/// The exit code when the command line or the configuration is wrong.
pub const EXIT_USAGE: u8 = 2;
/// The exit code when the server cannot run.
pub const EXIT_FAILED: u8 = 1;

/// Leases the connections of databases to a fleet of nodes.
///
/// Without --config it runs on its defaults: one database `default` with a
/// fixed cap of 100, gRPC on 127.0.0.1:7420, HTTP on 127.0.0.1:7421, records
/// in ./leasehold-data.
///
/// What counts, from least to most: the built-in defaults, the file, the
/// environment, --set, and live `leasehold set`.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold-server",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "\
The environment:
  LEASEHOLD__LEVEL__LEVEL      any setting of the file, such as
                               LEASEHOLD__DATABASES__ORDERS__ADMISSION=unfair
  RUST_LOG                     what to log, such as info or leasehold_server=debug
  OTEL_EXPORTER_OTLP_ENDPOINT  collector for traces, such as http://127.0.0.1:4317

Exit codes:
  0  stopped in order; or done; or (--check) the configuration is fine
  1  the server cannot run, or the command cannot be done
  2  the command line or the configuration is wrong"
)]
pub struct Arguments {
    /// What to run on.
    #[command(flatten)]
    pub settings: Settings,

    /// Check the configuration, say what it means and what does not come from
    /// the file, and exit.
    #[arg(long)]
    pub check: bool,

    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Where the configuration comes from.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// The configuration, in TOML.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// A setting above the file and the environment, such as
    /// databases.orders.admission=unfair; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl Settings {
    /// Reads and checks all of it.
    pub fn load(&self) -> Result<config::Loaded, config::Error> {
        config::load(self.config.as_deref(), &self.set)
    }
}

/// What can be done with the records of a server that is stopped.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Make a damaged store usable: keep what can be read, set the rest aside.
    Recover(Place),
    /// Write all records to standard output as JSON, one a line.
    Export(Place),
    /// Read records as `export` writes them from standard input.
    Import {
        /// Where to.
        #[command(flatten)]
        place: Place,
        /// Set aside what is there already.
        #[arg(long)]
        replace: bool,
    },
}

/// Where the records are.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// The configuration that names the directory.
    #[command(flatten)]
    pub settings: Settings,

    /// The directory, whatever the configuration says.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "set"])]
    pub data: Option<PathBuf>,
}

impl Arguments {
    /// Reads the command line; ends the process where that is all there is to do.
    pub fn read() -> Self {
        Self::parse()
    }
}

/// Writes for people. That nobody reads is no reason to stop.
pub fn say(text: &impl std::fmt::Display) {
    let mut output = std::io::stdout().lock();
    let _ = write!(output, "{text}").and_then(|()| output.flush());
}

/// Tells why it is over, on standard error, and gives the exit code back.
pub fn fail(error: &dyn Error, code: u8) -> ExitCode {
    let mut output = std::io::stderr().lock();
    for line in chain(error).lines() {
        let _ = writeln!(output, "error: {line}");
    }
    ExitCode::from(code)
}

/// An error and what caused it, each once, on one line if the error is one.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their source, and `transparent` ones are it.
        if !text.ends_with(&cause_text) {
            let _ = write!(text, ": {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_chain_names_each_cause_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot start")]
        struct Outer(#[source] Middle);
        #[derive(Debug, thiserror::Error)]
        #[error("cannot open: {0}")]
        struct Middle(#[source] std::io::Error);

        let error = Outer(Middle(std::io::Error::other("no space left")));
        assert_eq!(chain(&error), "cannot start: cannot open: no space left");
    }
}
