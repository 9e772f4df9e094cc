//! What can be done with the records of a server that is stopped: recover them
//! from damage, write them out, read them in. Says what it did, line by line.
//! Knows nothing of how records are stored.

use std::fmt;
use std::io::{self, BufRead, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use leasehold_admission::SessionId;
use leasehold_admission::durable::State;
use leasehold_storage::{Recovery, Sled, Store as _};

use crate::cli::{self, Command, EXIT_FAILED, EXIT_USAGE, Place};
use crate::clock;
use crate::config;

mod lines;

pub use lines::LineError;

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error(transparent)]
    Store(#[from] leasehold_storage::Error),
    #[error("cannot write the records")]
    Write(#[source] io::Error),
    #[error("cannot import: {0}; nothing was changed")]
    Line(#[from] LineError),
    #[error(
        "`{}` holds records already: name another directory, or set them aside with --replace; nothing was changed",
        .0.display()
    )]
    Occupied(PathBuf),
}

/// Does what the command says and gives the exit code.
pub fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Recover(place) => recover(place),
        Command::Export(place) => export(place),
        Command::Import { place, replace } => import(place, *replace, io::stdin().lock()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ Error::Config(_)) => cli::fail(&error, EXIT_USAGE),
        Err(error @ (Error::Store(_) | Error::Write(_) | Error::Line(_) | Error::Occupied(_))) => {
            cli::fail(&error, EXIT_FAILED)
        }
    }
}

fn recover(place: &Place) -> Result<(), Error> {
    let path = directory(place)?;
    let recovery = Sled::recover(&path, unix_seconds())?;
    cli::say(&Told { path, recovery });
    Ok(())
}

fn export(place: &Place) -> Result<(), Error> {
    let path = directory(place)?;
    if !path.exists() {
        return Err(leasehold_storage::Error::Missing { path }.into());
    }
    let state = Sled::open(path)?.load()?;
    let mut output = BufWriter::new(io::stdout().lock());
    lines::write(&state, &mut output).and_then(|()| output.flush()).map_err(Error::Write)
}

/// Everything is read before anything is changed. What is read may be old: the
/// generation rises above all others, and records count as missing.
fn import(place: &Place, replace: bool, input: impl BufRead) -> Result<(), Error> {
    let path = directory(place)?;
    let mut state = lines::read(input)?;
    let now = unix_seconds();
    let existing = existing(&path)?;
    if existing.is_some() && !replace {
        return Err(Error::Occupied(path));
    }
    state.generation = state.generation.max(existing.unwrap_or(0)).max(now);
    state.miss_records();
    let aside = Sled::replace(&path, &state, now)?;
    cli::say(&Imported { path, aside, state });
    Ok(())
}

/// The generation of the store that is there, if there is one with records. One
/// that cannot be read counts as one.
fn existing(path: &PathBuf) -> Result<Option<u64>, Error> {
    let empty = |mut entries: std::fs::ReadDir| entries.next().is_none();
    if std::fs::read_dir(path).map_or(!path.exists(), empty) {
        return Ok(None);
    }
    match Sled::open(path).and_then(|mut store| store.load()) {
        Ok(state) => Ok((state != State::default()).then_some(state.generation)),
        Err(leasehold_storage::Error::Damaged { .. } | leasehold_storage::Error::Panicked { .. }) => {
            Ok(Some(0))
        }
        Err(error) => Err(error.into()),
    }
}

fn directory(place: &Place) -> Result<PathBuf, Error> {
    match &place.data {
        Some(data) => Ok(data.clone()),
        None => Ok(place.settings.load()?.config.server.data),
    }
}

fn unix_seconds() -> u64 {
    clock::unix_ms() / 1000
}

/// A recovery, for people.
struct Told {
    path: PathBuf,
    recovery: Recovery,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recovery { damage, aside, kept, lost } = &self.recovery;
        let Some(damage) = damage else {
            writeln!(f, "whole: {} opens, there is nothing to recover", self.path.display())?;
            return writeln!(f, "kept: {}", Counts(kept));
        };
        if let leasehold_storage::Error::Damaged { path, what } = damage {
            // Without the way out, which is this.
            writeln!(f, "damage: {}, {what}", path.display())?;
        } else {
            writeln!(f, "damage: {}", cli::chain(damage))?;
        }
        for lost in lost {
            writeln!(f, "lost: {lost}")?;
        }
        writeln!(f, "kept: {}", Counts(kept))?;
        if let Some(aside) = aside {
            writeln!(f, "set aside: the damaged store is in {}", aside.display())?;
        }
        f.write_str(&held_back(kept))
    }
}

/// An import, for people.
struct Imported {
    path: PathBuf,
    aside: Option<PathBuf>,
    state: State,
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "imported into {}: {}", self.path.display(), Counts(&self.state))?;
        if let Some(aside) = &self.aside {
            writeln!(f, "set aside: what was there is in {}", aside.display())?;
        }
        f.write_str(&held_back(&self.state))
    }
}

fn held_back(state: &State) -> String {
    format!(
        "generation: {}, above all before\n\
         next: start the server; it grants nothing for a TTL (without a probe also the fence_grace), until\n\
         \u{20}     nodes whose records may be missing have come back with what they hold, or have lapsed\n",
        state.generation
    )
}

/// How much is in a state.
struct Counts<'a>(&'a State);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { generation: _, sessions, leases, caps, operators, audit } = self.0;
        let known = sessions.keys().filter(|id| **id != SessionId::LOST).count();
        let tokens: u64 = leases.values().map(|lease| u64::from(lease.ceiling)).sum();
        write!(
            f,
            "sessions {known}, leases {} (of at most {tokens} tokens), caps {}, databases with settings by \
             operators {}, audit entries {}",
            leases.len(),
            caps.len(),
            operators.len(),
            audit.len()
        )
    }
}
