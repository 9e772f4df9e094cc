//! Everything that can go wrong, in words for the operator, and the exit code that
//! scripts see. Knows nothing of how it is printed.

use std::error::Error as StdError;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use tonic::{Code, Status};

use crate::args::ServerUrl;
use crate::output::human;

/// Every message begins with the name of the command, as a pipeline needs it.
pub(crate) const PREFIX: &str = "leasehold";

/// The server refused, or is not healthy.
const EXIT_REFUSED: u8 = 1;
/// Wrong usage, or the server cannot be reached.
pub(crate) const EXIT_USAGE: u8 = 2;

/// Added where the server may have done its work although we heard nothing.
const UNCERTAIN: &str = "; the change may have happened all the same: look at `leasehold databases`";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No connection came about.
    #[error(
        "cannot reach {server}: {}; is the server running? --server or LEASEHOLD_SERVER names another",
        root_cause(source)
    )]
    Unreachable { server: ServerUrl, source: tonic::transport::Error },

    /// No connection came about in time.
    #[error(
        "cannot reach {server} within {}; is it the right address? --server or LEASEHOLD_SERVER names another",
        human::exact_duration(*timeout)
    )]
    ConnectTimeout { server: ServerUrl, timeout: Duration },

    /// Connected, but no answer came in time.
    #[error(
        "no answer from {server} within {}{}",
        human::exact_duration(*timeout),
        if *changes { UNCERTAIN } else { "; --timeout waits longer" }
    )]
    AnswerTimeout { server: ServerUrl, timeout: Duration, changes: bool },

    /// The connection broke before the answer came, or the peer speaks something else.
    #[error(
        "lost the connection to {server}: {}{}",
        root_cause(source),
        if *changes { UNCERTAIN } else { "; is this the gRPC port of a Leasehold server?" }
    )]
    Lost { server: ServerUrl, source: Box<Status>, changes: bool },

    /// The server's answer is no.
    #[error("the server refused: {}", refusal(source))]
    Refused { source: Box<Status> },

    /// The answer lacks what the API promises.
    #[error("the server's answer has no {0}; are server and command of the same version?")]
    Incomplete(&'static str),

    /// The server knows no database of this name.
    #[error("no database is named `{}`; `leasehold databases` lists them", human::plain(.0))]
    UnknownDatabase(String),

    /// The server runs, but cannot do its work.
    #[error("not healthy: the store refuses commits: {}", human::plain(.0))]
    Unhealthy(String),

    /// What was found could not be written.
    #[error("cannot write to standard output: {}", io_cause(.0))]
    Write(#[source] io::Error),

    /// The process lacks what any program needs.
    #[error("cannot start: {}", io_cause(.0))]
    Start(#[source] io::Error),
}

impl Error {
    /// The exit code for scripts.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Error::Refused { .. }
            | Error::Incomplete(_)
            | Error::UnknownDatabase(_)
            | Error::Unhealthy(_) => EXIT_REFUSED,
            Error::Unreachable { .. }
            | Error::ConnectTimeout { .. }
            | Error::AnswerTimeout { .. }
            | Error::Lost { .. }
            | Error::Write(_)
            | Error::Start(_) => EXIT_USAGE,
        })
    }
}

/// What the server said, or what its code means when it said nothing.
fn refusal(status: &Status) -> String {
    if status.code() == Code::Unimplemented {
        return "it does not know this call; is this its gRPC port, and is it of the same version?"
            .to_owned();
    }
    match status.message() {
        "" => status.code().description().to_lowercase(),
        message => human::plain(message).into_owned(),
    }
}

/// The innermost reason: the layers above it only repeat that something failed.
fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<io::Error>() {
        Some(error) => io_cause(error),
        None => human::plain(&innermost.to_string()).into_owned(),
    }
}

/// An operating system's error without its number: "connection refused".
fn io_cause(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}
