//! `simulate`: plays seeds, says how fast, and prints a failing one with the
//! command that plays it again.

use std::{process::ExitCode, time::Instant};

use clap::Parser;
use leasehold_simulation::history::{Failure, catch_panics, play, shrink};

/// Steps of faults in a history, unless told otherwise.
const STEPS: u64 = 20_000;

/// Plays the whole system under faults, one history for each seed.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds to play.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Steps of a history before its faults stop.
    #[arg(long, default_value_t = STEPS)]
    steps: u64,
    /// Numbers of faults that are left out.
    #[arg(long, value_delimiter = ',')]
    without: Vec<usize>,
    /// Prints every event.
    #[arg(long)]
    trace: bool,
    /// Goes on after a failing seed.
    #[arg(long)]
    keep_going: bool,
    /// Says which promise was broken and no more: neither faults nor how to
    /// replay.
    #[arg(long)]
    brief: bool,
}

#[expect(clippy::print_stdout, reason = "this is a program for people")]
#[expect(
    clippy::disallowed_methods,
    reason = "the simulation's speed is true time; nothing in it reads a clock"
)]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    catch_panics();
    let start = Instant::now();
    let (mut steps, mut faults, mut failures) = (0, 0, 0_u32);
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        let outcome = play(seed, arguments.steps, &arguments.without, arguments.trace);
        steps += outcome.steps;
        faults += outcome.faults;
        let Some(failure) = outcome.failure else { continue };
        failures += 1;
        if arguments.brief {
            let steps = outcome.steps;
            println!("{} at seed {seed} after {steps} steps", failure.violation.invariant.name());
        } else {
            tell(&arguments, seed, failure);
        }
        if !arguments.keep_going {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    if !arguments.brief {
        println!(
            "{steps} steps with {faults} faults in {seconds:.1} s, {:.0} steps a second",
            steps as f64 / seconds
        );
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::print_stdout, reason = "this is a program for people")]
fn tell(arguments: &Arguments, seed: u64, failure: Failure) {
    println!("seed {seed} broke {}", failure.violation);
    if arguments.trace {
        return;
    }
    let (without, failure) = shrink(seed, arguments.steps, &arguments.without, failure);
    println!("with these faults alone it broke {}", failure.violation);
    failure.faults.iter().for_each(|fault| println!("  {fault}"));
    let numbers: Vec<String> = without.iter().map(ToString::to_string).collect();
    let without =
        if numbers.is_empty() { String::new() } else { format!(" --without {}", numbers.join(",")) };
    println!("replay: scripts/simulate --seed {seed} --steps {}{without}", arguments.steps);
}
