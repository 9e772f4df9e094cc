//! One file for each group of commands: the call, and what people read of its answer.
//! This file chooses among them and turns the result into an exit code.

mod databases;
mod drain;
mod evict;
mod sessions;
mod set;
mod status;
mod why;

#[cfg(test)]
mod samples;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::args::{Arguments, Command};
use crate::connect::Connection;
use crate::error::{self, Error};
use crate::output::Output;

/// Runs the command, and says on standard error why it failed.
pub(crate) fn run_to_exit_code(arguments: &Arguments) -> ExitCode {
    match run_blocking(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{}: {problem}", error::PREFIX);
            problem.exit_code()
        }
    }
}

fn run_blocking(arguments: &Arguments) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Start)?;
    let mut output = Output::new(arguments.output, io::stdout().lock());
    let result = runtime.block_on(run(arguments, &mut output));
    // Dropping the runtime would wait for a name lookup that outlasted the timeout.
    runtime.shutdown_background();
    result
}

async fn run<W: Write>(arguments: &Arguments, output: &mut Output<W>) -> Result<(), Error> {
    let mut connection = Connection::open(&arguments.server, arguments.timeout).await?;
    let connection = &mut connection;
    match &arguments.command {
        Command::Status => status::run(connection, output).await,
        Command::Databases { name: None } => databases::list(connection, output).await,
        Command::Databases { name: Some(name) } => databases::describe(connection, output, name).await,
        Command::Sessions { database } => sessions::run(connection, output, database.as_deref()).await,
        Command::Why { subject, database } => {
            why::run(connection, output, subject, database.as_deref()).await
        }
        Command::Set(changes) => set::run(connection, output, changes).await,
        Command::Drain(argument) => drain::drain(connection, output, &argument.database).await,
        Command::Resume(argument) => drain::resume(connection, output, &argument.database).await,
        Command::Evict { session } => evict::run(connection, output, session).await,
    }
}
