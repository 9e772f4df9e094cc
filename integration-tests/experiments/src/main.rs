//! Experiments that anybody can repeat with one command: real node processes, a
//! real server and a real MariaDB. Each writes a document with its tables and
//! pictures.

#![expect(clippy::print_stdout, reason = "a node tells its parent on its standard output")]
#![expect(clippy::print_stderr, reason = "an experiment says how far it is")]

mod crew;
mod figures;
mod moving;
mod neighbour;
mod node;
mod plan;
mod plot;
mod pool;
mod records;
mod report;
mod skew;
mod split;
mod stage;
mod table;

use std::{error::Error, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand, ValueEnum};
use tokio::runtime::Builder;

use crate::{plan::Plan, report::Report};

/// Experiments on real servers, nodes and databases.
#[derive(Parser)]
#[command(name = "leasehold-experiments")]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// What fair admission costs, and what it is good for.
    Fairness {
        /// Where the document and its pictures go.
        #[arg(long, default_value = "docs/experiments")]
        out: PathBuf,
        /// Runs of each mode, in turns.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
        runs: u16,
        /// Seconds of each run, its warm-up included.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(4..=3_600))]
        seconds: u64,
        /// Only these parts.
        #[arg(long, value_enum, value_delimiter = ',')]
        parts: Vec<Part>,
    },
    /// One node of an experiment.
    #[command(hide = true)]
    Node {
        #[arg(long)]
        plan: String,
        #[arg(long)]
        records: PathBuf,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Table,
    Skew,
    Neighbour,
    Split,
    Moving,
}

fn main() -> ExitCode {
    match run(Arguments::parse().experiment) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leasehold-experiments: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(experiment: Experiment) -> Result<(), Box<dyn Error + Send + Sync>> {
    match experiment {
        Experiment::Fairness { out, runs, seconds, parts } => {
            let runtime = Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(fairness(out, usize::from(runs), seconds, &parts))
        }
        Experiment::Node { plan, records } => {
            let plan: Plan = serde_json::from_str(&plan)?;
            // As tokio's own choice is in a pod with one processor: the nodes are
            // more than the processors here.
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            let ended = runtime.block_on(async move { tokio::spawn(node::run(plan, records)).await });
            // It may still listen to its parent.
            runtime.shutdown_background();
            ended?
        }
    }
}

async fn fairness(
    out: PathBuf,
    runs: usize,
    seconds: u64,
    parts: &[Part],
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    let mut report = Report::new(out, "Fair and unfair admission");
    report.paragraph(&format!(
        "Made by `scripts/experiments fairness --runs {runs} --seconds {seconds}`, on one \
         machine of {} processors: MariaDB has one half of them, the nodes and the server the other, as if they were on \
         machines of their own. Each node's runtime has one thread.",
        std::thread::available_parallelism()?
    ));
    stage::part_processors()?;
    if wanted(Part::Table) {
        table::run(&mut report, runs, seconds).await;
    }
    if wanted(Part::Skew) {
        skew::run(&mut report, runs, seconds).await;
    }
    if wanted(Part::Neighbour) {
        neighbour::run(&mut report, runs, seconds).await;
    }
    if wanted(Part::Split) {
        split::run(&mut report, runs, seconds).await;
    }
    if wanted(Part::Moving) {
        moving::run(&mut report, 10 * runs).await;
    }
    Ok(report.write("fairness.md")?)
}
