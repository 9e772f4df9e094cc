//! Gets a configuration from a file, or from the defaults built into the
//! program. Knows nothing of what the settings mean.

use std::env::VarError;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::document::{Collector, Faults};
use super::{Config, check, limits};

/// What the server runs on without a file.
const DEFAULT_CONFIG: &str = include_str!("default.toml");
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

/// Reads and checks a configuration file, or the defaults if there is none.
/// Variables that the file names come from the environment of the process.
///
/// Errors: the file cannot be read, or has faults, all of them named.
pub fn load(file: Option<&Path>) -> Result<Config, Error> {
    let environment = |name: &str| std::env::var(name);
    match file {
        None => Ok(parse(Path::new(DEFAULT_CONFIG_NAME), DEFAULT_CONFIG, &environment)?),
        Some(path) => Ok(parse(path, &read(path)?, &environment)?),
    }
}

/// Checks the text of a configuration; `path` is for messages only.
pub fn parse(
    path: &Path,
    text: &str,
    environment: &dyn Fn(&str) -> Result<String, VarError>,
) -> Result<Config, Faults> {
    let mut faults = Collector::new(text);
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        let at = error.span().map_or(0, |span| span.start);
        faults.add(at, format!("this is not TOML: {}", error.message()));
    }
    // What a broken document seems to say would only distract from its breaks.
    let config = if syntax_errors.is_empty() {
        let config = check::config(document.get_ref(), environment, &mut faults);
        if config.databases.is_empty() && faults.is_empty() {
            faults
                .add(0, "no database to lease: add a section such as [databases.orders] with `url` or `cap`");
        }
        Some(config)
    } else {
        None
    };
    let list = faults.into_list();
    match config {
        Some(config) if list.is_empty() => Ok(config),
        _ => Err(Faults { file: path.to_owned(), list }),
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
