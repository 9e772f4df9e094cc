//! What an operator may type, and the help that explains it. Every value is
//! checked here, so that later code never sees a wrong one. Knows nothing of what
//! the commands do.

mod server_url;
mod set;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub(crate) use self::server_url::ServerUrl;
pub(crate) use self::set::{Admission, SetArguments, Setting, Switch, WorkloadArguments};
pub(crate) use self::values::{Milliseconds, SessionPrefix};
use crate::error;

const GLOBAL_OPTIONS: &str = "Global options";

const EXAMPLES: &str = "\
Examples:
  leasehold status
  leasehold sessions --database orders
  leasehold set orders --cap 50 --for 30m
  leasehold status --output json | jq '.databases[] | select(.waiting > 0)'

Exit codes:
  0  done
  1  the server refused, or (status) is not healthy
  2  wrong usage, or the server cannot be reached";

const DATABASES_EXAMPLES: &str = "\
Examples:
  leasehold databases           one line for each
  leasehold databases orders    everything about one: where its cap comes from, overrides, probe";

const SESSIONS_EXAMPLES: &str = "\
Examples:
  leasehold sessions
  leasehold sessions --database orders
  leasehold sessions -o json | jq '.sessions[] | select(.state == \"quarantined\")'";

const WHY_EXAMPLES: &str = "\
Rules have the numbers of docs/admission.md.

Examples:
  leasehold why web-1                      a node: at every database that it uses
  leasehold why 3f9a2c51d0b4               a session, by the first 8 digits of its id or more
  leasehold why report.py --database orders";

const DRAIN_EXAMPLES: &str = "\
What is held is recalled: unused connections close at once, those in use as they come
back. The drain survives restarts of the server. `leasehold resume` ends it.

Example:
  leasehold drain orders && leasehold databases orders";

const RESUME_EXAMPLES: &str = "\
Example:
  leasehold resume orders";

const EVICT_EXAMPLES: &str = "\
The session's tokens become free although its connections may still be open: evict a
session only when its node is gone or its connections are closed. A node that still
lives comes back with what it holds.

Example:
  leasehold evict 3f9a2c51d0b4";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    version,
    about = "Look at a Leasehold server and steer it",
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// Server to talk to.
    #[arg(
        long,
        // Not from the comment above: rustdoc takes the brackets for a link.
        help = "Server to talk to: http://HOST:PORT, HOST:PORT, HOST or [IPV6]:PORT",
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "URL",
        env = "LEASEHOLD_SERVER",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7420"
    )]
    pub(crate) server: ServerUrl,

    /// Tables for people, JSON for programs
    #[arg(
        short,
        long,
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "table|json",
        value_enum,
        hide_possible_values = true,
        default_value = "table"
    )]
    pub(crate) output: Format,

    /// Longest wait for the connection, and then for the answer
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "DURATION",
        value_parser = values::positive_duration,
        default_value = "5s"
    )]
    pub(crate) timeout: Duration,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs; the field names are stable.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the server and its databases; exits 1 when the store is not healthy
    Status,
    /// Show every count of the databases, or everything about one
    #[command(after_help = DATABASES_EXAMPLES)]
    Databases {
        /// Only this database, in detail
        #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        name: Option<String>,
    },
    /// Show who holds tokens, one line for each lease
    #[command(after_help = SESSIONS_EXAMPLES)]
    Sessions {
        /// Only the leases of this database
        #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        database: Option<String>,
    },
    /// Explain what a session or a node has, what it waits for, and by which rule
    #[command(after_help = WHY_EXAMPLES)]
    Why {
        /// Name of a node, or a session's id or its first 8 digits or more
        #[arg(value_name = "SESSION|NODE", value_parser = NonEmptyStringValueParser::new())]
        subject: String,
        /// Only at this database
        #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        database: Option<String>,
    },
    /// Override settings of a database, for a time or until cleared
    #[command(after_help = set::EXAMPLES)]
    Set(SetArguments),
    /// Grant nothing more of a database and let what is held run out
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(DatabaseArgument),
    /// End the drain of a database
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(DatabaseArgument),
    /// End a session, or what is left of one in quarantine, at once
    #[command(after_help = EVICT_EXAMPLES)]
    Evict {
        /// Id of the session as `leasehold sessions` shows it, or its first 8 digits or more
        #[arg(value_name = "SESSION")]
        session: SessionPrefix,
    },
}

/// The one argument of `drain` and `resume`.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgument {
    /// Name of the database
    #[arg(value_name = "DATABASE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) database: String,
}

/// The process's arguments. Help, the version and wrong usage are printed here;
/// then the exit code is what is left to return.
pub(crate) fn from_process() -> Result<Arguments, ExitCode> {
    parsed(std::env::args_os()).map_err(|problem| {
        if problem.use_stderr() {
            eprint!("{}", usage_message(&problem));
            return ExitCode::from(error::EXIT_USAGE);
        }
        // Help that nobody reads to the end (`leasehold --help | head`) is no failure.
        let _ = problem.print();
        ExitCode::SUCCESS
    })
}

fn parsed(words: impl Iterator<Item = impl Into<OsString> + Clone>) -> Result<Arguments, clap::Error> {
    let arguments = Arguments::try_parse_from(words)?;
    if let Command::Set(changes) = &arguments.command {
        changes.fit_together().map_err(|problem| set_error(&problem))?;
    }
    Ok(arguments)
}

/// What clap's own rules cannot say of the arguments of `set`.
fn set_error(problem: &str) -> clap::Error {
    let mut command = Arguments::command();
    command.build();
    match command.find_subcommand_mut("set") {
        Some(set) => set.error(ErrorKind::MissingRequiredArgument, problem),
        None => command.error(ErrorKind::MissingRequiredArgument, problem),
    }
}

/// Wrong usage in the form of all our errors. Clap says "error: …".
fn usage_message(problem: &clap::Error) -> String {
    let text = problem.render().to_string();
    match text.strip_prefix("error: ") {
        Some(rest) => format!("{}: {rest}", error::PREFIX),
        None => text,
    }
}

#[cfg(test)]
mod tests;
