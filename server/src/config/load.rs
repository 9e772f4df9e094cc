//! Gets a configuration from a file, or from the defaults built into the
//! program, and from the environment and the command line above it. Knows
//! nothing of what the settings mean.

use std::env::VarError;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::faults::{Collector, Faults};
use super::overrides::{self, Overridden, Override};
use super::{Config, check, limits};

/// What the server runs on without a file.
const DEFAULT_CONFIG: &str = include_str!("default.toml");
/// The database in it.
const DEFAULT_DATABASE: &str = "default";
/// Its name in messages.
const DEFAULT_CONFIG_NAME: &str = "(built-in defaults)";

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path names a directory.
    #[error("the configuration file {} is a directory: name a file in it", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The file is not a configuration, it is too long to be one.
    #[error("the configuration file {} is longer than {} bytes", path.display(), limits::FILE_BYTES)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file is not text.
    #[error("the configuration file {} is not UTF-8 text (byte {valid_up_to})", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Bytes before the first that is not text.
        valid_up_to: usize,
    },
    /// The text has faults.
    #[error(transparent)]
    Faults(#[from] Faults),
}

/// A configuration, and what of it does not come from the file.
#[derive(Debug)]
pub struct Loaded {
    /// What is in force.
    pub config: Config,
    /// What the environment and the command line say of it.
    pub overridden: Overridden,
}

/// Reads and checks a configuration: the file, or the defaults if there is none;
/// above it the environment of the process; above that `set`, each `KEY=VALUE`.
/// Variables that the file names come from the same environment.
///
/// Errors: the file cannot be read, or anything has faults, all of them named.
pub fn load(file: Option<&Path>, set: &[String]) -> Result<Loaded, Error> {
    let overrides = overrides::gather(std::env::vars_os(), set);
    let environment = |name: &str| std::env::var(name);
    match file {
        None => Ok(settle(None, DEFAULT_CONFIG, &overrides, &environment)?),
        Some(path) => Ok(settle(Some(path), &read(path)?, &overrides, &environment)?),
    }
}

/// Checks the text of a configuration by itself; `path` is for messages only.
pub fn parse(
    path: &Path,
    text: &str,
    environment: &dyn Fn(&str) -> Result<String, VarError>,
) -> Result<Config, Faults> {
    settle(Some(path), text, &[], environment).map(|loaded| loaded.config)
}

/// Checks a text with what is above it. Without a path it is the defaults.
pub(super) fn settle(
    path: Option<&Path>,
    text: &str,
    overrides: &[Override],
    environment: check::Environment<'_>,
) -> Result<Loaded, Faults> {
    let name = path.unwrap_or(Path::new(DEFAULT_CONFIG_NAME));
    let mut faults = Collector::new(name, text, overrides::origins(overrides));
    let (mut document, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        let at = error.span().map_or(0, |span| span.start);
        faults.add(at, format!("this is not TOML: {}", error.message()));
    }
    let overridden = overrides::apply(overrides, document.get_mut(), &mut faults);
    // What a broken document seems to say would only distract from its breaks.
    let mut config = None;
    if syntax_errors.is_empty() {
        if path.is_none() {
            retire_default(document.get_mut(), &overridden);
        }
        let checked = check::config(document.get_ref(), environment, &mut faults);
        if checked.databases.is_empty() && faults.is_empty() {
            faults
                .add(0, "no database to lease: add a section such as [databases.orders] with `url` or `cap`");
        }
        config = Some(checked);
    }
    match (faults.into_faults(), config) {
        (None, Some(config)) => Ok(Loaded { config, overridden }),
        (faults, _) => Err(faults.expect("without a configuration there is a fault")),
    }
}

/// The built-in database is for trying things out. Whoever names databases
/// means those.
fn retire_default(document: &mut DeTable<'_>, overridden: &Overridden) {
    let databases = document.get_mut("databases").map(toml::Spanned::get_mut);
    if let Some(DeValue::Table(databases)) = databases
        && databases.len() > 1
        && !overridden.touches(&["databases", DEFAULT_DATABASE])
    {
        databases.remove(DEFAULT_DATABASE);
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(Error::Directory { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(limits::FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limits::FILE_BYTES {
        return Err(Error::TooLong { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| Error::NotText {
        path: path.to_owned(),
        valid_up_to: error.utf8_error().valid_up_to(),
    })
}
