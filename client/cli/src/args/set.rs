//! What `leasehold set` changes, of a database and of one of its workloads. Knows
//! nothing of how it is sent.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, ValueEnum};

use super::values::{self, Milliseconds};

pub(super) const EXAMPLES: &str = "\
Overrides survive restarts of the server and stay until they end or are cleared. All that
one call asks for is done, or nothing.

Examples:
  leasehold set orders --cap 50 --for 30m       lease at most 50 tokens for half an hour
  leasehold set orders --reserve 20             keep 20 connections back, until cleared
  leasehold set orders --admission unfair       let tokens stay where they are used
  leasehold set orders --shadow off             from now on the cap holds
  leasehold set orders --clear cap,reserve      back to the configuration
  leasehold set orders --workload web --weight 3 --floor 20 --for 30m
                                                more for web, for half an hour
  leasehold set orders --workload web --clear weight,floor";

/// What `set` changes.
#[derive(Debug, Args)]
#[command(
    override_usage = "leasehold set <DATABASE> [--cap N] [--reserve N] [--admission MODE] [--quantum DURATION]\n\
                      \u{20}                           [--shadow on|off] [--for DURATION] [--clear SETTING]...\n\
                      \u{20}      leasehold set <DATABASE> --workload NAME [--weight N] [--floor N] [--keep on|off]\n\
                      \u{20}                           [--limit N] [--max-waiting N] [--for DURATION] [--clear SETTING]...",
    group = ArgGroup::new("values")
        .args(["cap", "reserve", "admission", "quantum", "shadow"])
        .args(["weight", "floor", "keep", "limit", "max_waiting"])
        .multiple(true),
    group = ArgGroup::new("changes")
        .args(["cap", "reserve", "admission", "quantum", "shadow"])
        .args(["weight", "floor", "keep", "limit", "max_waiting", "clear"])
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

    /// First clear an override: cap, reserve, admission, quantum or shadow; with --workload also
    /// weight, floor, keep, limit or max-waiting; may be repeated or a list
    #[arg(long, value_name = "SETTING", value_enum, hide_possible_values = true, value_delimiter = ',')]
    pub(crate) clear: Vec<Setting>,

    /// What one of its workloads may have.
    #[command(flatten)]
    pub(crate) of_workload: WorkloadArguments,
}

/// What `set` changes of a workload.
#[derive(Debug, Default, Args)]
#[group(skip)]
#[command(next_help_heading = "Options of a workload")]
pub(crate) struct WorkloadArguments {
    /// Set or clear what this workload of the database may have
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) workload: Option<String>,

    /// Its part beside others that want more than there is: 1 to 1000
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::weight(), requires = "workload")]
    pub(crate) weight: Option<u32>,

    /// Tokens that it always gets when it has use for them; 0: none
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::tokens_or_none(), requires = "workload")]
    pub(crate) floor: Option<u32>,

    /// Hold the floor free while it is not used: on or off
    #[arg(long, value_name = "on|off", value_enum, hide_possible_values = true, requires = "workload")]
    pub(crate) keep: Option<Switch>,

    /// Most tokens that it ever holds
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::tokens(), requires = "workload")]
    pub(crate) limit: Option<u32>,

    /// Most tasks that wait in it; more are refused at once
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::tasks(), requires = "workload")]
    pub(crate) max_waiting: Option<u32>,
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
    /// A workload's part beside others.
    Weight,
    /// Tokens that a workload always gets.
    Floor,
    /// Whether its floor is held free.
    Keep,
    /// Most tokens that a workload holds.
    Limit,
    /// Most tasks that wait in a workload.
    #[value(alias = "max_waiting")]
    MaxWaiting,
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
            Setting::Weight => "weight",
            Setting::Floor => "floor",
            Setting::Keep => "keep",
            Setting::Limit => "limit",
            Setting::MaxWaiting => "max_waiting",
        }
    }

    /// Whether it is a workload's, and not the database's.
    pub(crate) fn is_of_workload(self) -> bool {
        match self {
            Setting::Weight | Setting::Floor | Setting::Keep | Setting::Limit | Setting::MaxWaiting => true,
            Setting::Cap | Setting::Reserve | Setting::Admission | Setting::Quantum | Setting::Shadow => {
                false
            }
        }
    }
}

impl SetArguments {
    /// Whether a workload is named if and only if something of one is changed.
    pub(super) fn fit_together(&self) -> Result<(), String> {
        let WorkloadArguments { workload, weight, floor, keep, limit, max_waiting } = &self.of_workload;
        let cleared = self.clear.iter().find(|setting| setting.is_of_workload());
        let set = [weight, floor, limit, max_waiting].into_iter().any(Option::is_some) || keep.is_some();
        match (workload, cleared) {
            (None, Some(cleared)) => {
                let name = cleared.as_str().replace('_', "-");
                Err(format!("'--clear {name}' needs '--workload <NAME>': it is a setting of a workload"))
            }
            (Some(name), None) if !set => {
                Err(format!("'--workload {name}' needs something to set, or to clear, of the workload"))
            }
            (None | Some(_), _) => Ok(()),
        }
    }
}
