//! `measure`: prints what admission costs and gives in the scenarios that are named,
//! as a Markdown table.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use leasehold_simulation::measure::{
    bounds::{BOUNDS, Bound},
    catalogue::{SCENARIOS, Scenario},
    measure,
    table::{HEAD, Line},
};

/// Measures admission in simulated time: the real core and the real client, without
/// faults.
#[derive(Debug, Parser)]
#[command(name = "simulate measure")]
struct Arguments {
    /// Scenarios to measure; all of them unless some are named.
    #[arg(value_parser = scenario)]
    scenarios: Vec<Scenario>,
    /// Says which scenarios there are.
    #[arg(long)]
    list: bool,
    /// Measures only the few cells that the test suite holds to bounds.
    #[arg(long, conflicts_with_all = ["scenarios", "list"])]
    quick: bool,
    /// The seed of all that happens by chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measures each cell for so many simulated seconds.
    #[arg(long)]
    seconds: Option<u64>,
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        format!("there is no such scenario; there are {}", names.join(", "))
    })
}

#[expect(clippy::print_stdout, reason = "this is a program for people")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for Scenario { name, about, .. } in SCENARIOS {
            println!("{name:10} {about}");
        }
        return ExitCode::SUCCESS;
    }
    if arguments.quick {
        println!("{HEAD}");
        for Bound { cell, .. } in BOUNDS {
            println!("{}", Line(&cell, &measure(&cell, arguments.seed)));
        }
        return ExitCode::SUCCESS;
    }
    let all = if arguments.scenarios.is_empty() { SCENARIOS.to_vec() } else { arguments.scenarios };
    for Scenario { name, about, cells } in all {
        println!("\n### {name}: {about}\n\n{HEAD}");
        for mut cell in cells() {
            if let Some(seconds) = arguments.seconds {
                cell.lasts = Duration::from_secs(seconds);
            }
            let figures = measure(&cell, arguments.seed);
            println!("{}", Line(&cell, &figures));
        }
    }
    ExitCode::SUCCESS
}
