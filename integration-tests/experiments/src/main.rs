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

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse().experiment).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leasehold-experiments: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(experiment: Experiment) -> Result<(), Box<dyn Error>> {
    match experiment {
        Experiment::Fairness { out, runs, seconds, parts } => {
            fairness(out, usize::from(runs), seconds, &parts).await
        }
        Experiment::Node { plan, records } => {
            let plan: Plan = serde_json::from_str(&plan)?;
            node::run(plan, &records).await
        }
    }
}

async fn fairness(out: PathBuf, runs: usize, seconds: u64, parts: &[Part]) -> Result<(), Box<dyn Error>> {
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    let mut report = Report::new(out, "Fair and unfair admission");
    report.paragraph(&format!(
        "Made by `scripts/experiments fairness --runs {runs} --seconds {seconds}`, on one \
         machine of {} processors that the nodes, the server and MariaDB share.",
        std::thread::available_parallelism()?
    ));
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
