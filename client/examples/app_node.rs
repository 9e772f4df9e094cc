//! An application's node, as small as can be: tasks that take a connection,
//! query and give it back, through a pool that a Leasehold server governs. It
//! is an example to start from, and the load of the integration tests.
//!
//! ```text
//! cargo run --release -p leasehold-client --features mysql --example app_node -- \
//!   --server http://127.0.0.1:7420 --database orders --mysql mysql://app@127.0.0.1:3306/ \
//!   --pool-max 40 --tasks 20 --seconds 20
//! ```
//!
//! It ends by printing one line of JSON: how many checkouts there were, what
//! failed, how many connections were open at once, how long tasks waited for a
//! connection and held it.

#[path = "app_node/arguments.rs"]
mod arguments;
#[path = "app_node/direct.rs"]
mod direct;
#[path = "app_node/governed.rs"]
mod governed;
#[path = "app_node/load.rs"]
mod load;
#[path = "app_node/report.rs"]
mod report;
#[path = "app_node/traces.rs"]
mod traces;

use std::{io::Write as _, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser as _;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use crate::{
    arguments::Arguments,
    direct::Direct,
    governed::Governed,
    load::{Load, Source},
    report::{Record, Report},
    traces::Traces,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match node(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("app_node: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn node(arguments: &Arguments) -> Result<(), Error> {
    let traces = Traces::start()?;
    let report = if arguments.direct {
        run(Direct::new(arguments)?, arguments).await?
    } else {
        run(Governed::new(arguments).await?, arguments).await?
    };
    traces.stop().await;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(())
}

async fn run<S: Source>(source: S, arguments: &Arguments) -> Result<Report, Error> {
    let (source, record) = (Arc::new(source), Arc::new(Record::default()));
    let stop = end(Duration::from_secs(arguments.seconds))?;
    let load = Load { tasks: arguments.tasks, query: &arguments.query };
    let started = Instant::now();
    load::run(&source, load, &record, stop).await;
    let duration = started.elapsed();
    source.close().await;
    let peak_open = source.peak_open(record.peak_open());
    Ok(record.report(arguments.node.clone(), peak_open, duration))
}

/// Ends after `time`, or when the process is asked to.
fn end(time: Duration) -> Result<impl Future<Output = ()>, Error> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            _asked = terminate.recv() => {}
            _asked = interrupt.recv() => {}
        }
    })
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
