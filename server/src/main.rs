//! Starts the server. Everything that it is made of is in the library.

use std::process::ExitCode;
use std::time::Duration;

use leasehold_server::cli::{self, Arguments, EXIT_FAILED, EXIT_USAGE};
use leasehold_server::config::{Config, Loaded};
use leasehold_server::records;
use leasehold_server::run::{self, Listeners};
use leasehold_server::telemetry::Telemetry;
use tokio::runtime::Runtime;

/// Longest wait for work that still blocks a thread at the very end.
const LEFTOVERS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments = Arguments::read();
    if let Some(command) = arguments.command {
        return records::run(&command);
    }
    let Loaded { config, overridden } = match arguments.settings.load() {
        Ok(loaded) => loaded,
        Err(error) => return cli::fail(&error, EXIT_USAGE),
    };
    if arguments.check {
        cli::say(&format_args!("{}{overridden}", config.summary()));
        return ExitCode::SUCCESS;
    }
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return cli::fail(&error, EXIT_FAILED),
    };
    let code = runtime.block_on(serve(config));
    runtime.shutdown_timeout(LEFTOVERS);
    code
}

async fn serve(config: Config) -> ExitCode {
    let telemetry = match Telemetry::start() {
        Ok(telemetry) => telemetry,
        Err(error) => return cli::fail(&error, EXIT_USAGE),
    };
    let outcome = start_and_run(config, &telemetry).await;
    telemetry.shutdown().await;
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => cli::fail(&error, EXIT_FAILED),
    }
}

async fn start_and_run(config: Config, telemetry: &Telemetry) -> Result<(), run::Error> {
    let stop = run::stop_signal()?;
    let listeners = Listeners::bind(&config.server).await?;
    run::run(config, listeners, telemetry.traces(), |banner| cli::say(banner), stop).await
}
