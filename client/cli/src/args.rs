//! What an operator may type, and the help that explains it. Every value is
//! checked here, so that later code never sees a wrong one. Knows nothing of what
//! the commands do.

mod server_url;
mod values;

use std::process::ExitCode;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::server_url::ServerUrl;
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

const SET_EXAMPLES: &str = "\
Overrides survive restarts of the server and stay until they end or are cleared.

Examples:
  leasehold set orders --cap 50 --for 30m       lease at most 50 tokens for half an hour
  leasehold set orders --reserve 20             keep 20 connections back, until cleared
  leasehold set orders --admission unfair       let tokens stay where they are used
  leasehold set orders --shadow off             from now on the cap holds
  leasehold set orders --clear cap,reserve      back to the configuration";

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
    #[command(after_help = SET_EXAMPLES)]
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

/// What `set` changes.
#[derive(Debug, Args)]
#[command(
    override_usage = "leasehold set <DATABASE> [--cap N] [--reserve N] [--admission MODE] [--quantum DURATION]\n\
                      \u{20}                           [--shadow on|off] [--for DURATION] [--clear SETTING]...",
    group = ArgGroup::new("values").args(["cap", "reserve", "admission", "quantum", "shadow"]).multiple(true),
    group = ArgGroup::new("changes")
        .args(["cap", "reserve", "admission", "quantum", "shadow", "clear"])
        .multiple(true)
        .required(true)
)]
pub(crate) struct SetArguments {
    /// Name of the database
    #[arg(value_name = "DATABASE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) database: String,

    /// Lease at most N tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::tokens())]
    pub(crate) cap: Option<u32>,

    /// Keep N connections back for people and tools
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::tokens())]
    pub(crate) reserve: Option<u32>,

    /// Who gets a token next: fair, strict or unfair
    #[arg(long, value_name = "MODE", value_enum, hide_possible_values = true)]
    pub(crate) admission: Option<Admission>,

    /// How far a younger waiter may pass an older one: 20ms to 1m, or 0ms for strict order
    #[arg(long, value_name = "DURATION", value_parser = values::milliseconds)]
    pub(crate) quantum: Option<Milliseconds>,

    /// Grant everything, whatever the cap, and count what would have waited: on or off
    #[arg(long, value_name = "on|off", value_enum, hide_possible_values = true)]
    pub(crate) shadow: Option<Switch>,

    /// End the overrides of this call after DURATION, such as 90s, 30m or 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = values::positive_milliseconds, requires = "values")]
    pub(crate) duration: Option<Milliseconds>,

    /// First clear an override: cap, reserve, admission, quantum or shadow; may be repeated or a list
    #[arg(long, value_name = "SETTING", value_enum, hide_possible_values = true, value_delimiter = ',')]
    pub(crate) clear: Vec<Setting>,
}

/// Who gets a token next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Admission {
    /// The longest waiting, within the quantum.
    Fair,
    /// The longest waiting, always.
    Strict,
    /// Whoever has a free one.
    Unfair,
}

impl Admission {
    /// The word of the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Admission::Fair => "fair",
            Admission::Strict => "strict",
            Admission::Unfair => "unfair",
        }
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// True.
    On,
    /// False.
    Off,
}

/// A setting that can be overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Setting {
    /// Most tokens leasable.
    Cap,
    /// Connections kept back.
    Reserve,
    /// Who gets a token next.
    Admission,
    /// How far a younger waiter may pass.
    Quantum,
    /// Whether everything is granted.
    Shadow,
}

impl Setting {
    /// The word of the API.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Setting::Cap => "cap",
            Setting::Reserve => "reserve",
            Setting::Admission => "admission",
            Setting::Quantum => "quantum",
            Setting::Shadow => "shadow",
        }
    }
}

/// The process's arguments. Help, the version and wrong usage are printed here;
/// then the exit code is what is left to return.
pub(crate) fn from_process() -> Result<Arguments, ExitCode> {
    Arguments::try_parse().map_err(|problem| {
        if problem.use_stderr() {
            eprint!("{}", usage_message(&problem));
            return ExitCode::from(error::EXIT_USAGE);
        }
        // Help that nobody reads to the end (`leasehold --help | head`) is no failure.
        let _ = problem.print();
        ExitCode::SUCCESS
    })
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
