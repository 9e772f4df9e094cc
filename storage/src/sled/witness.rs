//! The file beside the database that says "here is a store, and it has seen this
//! many commits". A database that was emptied, replaced or cut short looks
//! younger than its witness and is refused. Its lock keeps a second process out.
//! Knows nothing of records.
//!
//! The count is written after each commit and not flushed: when the process is
//! killed the kernel keeps it, and after a loss of power it is merely lower than
//! it could be. It is never ahead of the database.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::Error;

pub(super) const FILE_NAME: &str = "leasehold.store";
const TEXT: &str = "Leasehold store, format 1. Belongs to the directory beside it; do not edit.\n";
/// A count has a fixed width, so that it is overwritten in place.
const DIGITS: usize = 20;

/// The locked file.
#[derive(Debug)]
pub(super) struct Witness {
    file: File,
    path: PathBuf,
    /// The number in the file.
    noted: u64,
}

impl Witness {
    /// Opens and locks the witness of the store in `directory`; none if there is
    /// no such file.
    pub(super) fn open(directory: &Path) -> Result<Option<Witness>, Error> {
        match Witness::open_with(directory, OpenOptions::new().read(true).write(true)) {
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Creates and locks an empty witness: a store is about to be made.
    pub(super) fn create(directory: &Path) -> Result<Witness, Error> {
        Witness::open_with(directory, OpenOptions::new().read(true).write(true).create(true).truncate(false))
    }

    fn open_with(directory: &Path, options: &OpenOptions) -> Result<Witness, Error> {
        let path = directory.join(FILE_NAME);
        let file = options.open(&path).map_err(failed("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Witness { file, path, noted: 0 }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: directory.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
        }
    }

    /// Reads the number of commits; none if the store was never finished.
    pub(super) fn commits(&mut self) -> Result<Option<u64>, Error> {
        let mut text = String::new();
        match self.file.read_to_string(&mut text) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(self.damaged()),
            Err(error) => return Err(failed("read", &self.path)(error)),
        }
        if text.is_empty() {
            return Ok(None);
        }
        self.noted = parse(&text).ok_or_else(|| self.damaged())?;
        Ok(Some(self.noted))
    }

    /// Makes the file whole: the store exists from now on.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.file.write_all_at(TEXT.as_bytes(), 0).map_err(failed("write", &self.path))?;
        self.note(0)?;
        self.file.sync_all().map_err(failed("flush", &self.path))?;
        let directory = self.path.parent().expect("the file is in a directory");
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed("flush", directory))
    }

    /// Writes the number of commits.
    pub(super) fn note(&mut self, commits: u64) -> Result<(), Error> {
        self.noted = commits;
        let line = format!("{commits:0DIGITS$}\n");
        self.file.write_all_at(line.as_bytes(), TEXT.len() as u64).map_err(failed("write", &self.path))
    }

    /// The number of commits that the database is known to have seen.
    pub(super) fn noted(&self) -> u64 {
        self.noted
    }

    fn damaged(&self) -> Error {
        Error::Damaged {
            path: self.path.parent().unwrap_or(&self.path).to_owned(),
            what: format!("its file `{FILE_NAME}` was changed"),
        }
    }
}

/// The number of commits that the witness in a directory tells, if it can be
/// read; else 0. Locks nothing.
pub(super) fn read(directory: &Path) -> u64 {
    let text = std::fs::read_to_string(directory.join(FILE_NAME)).unwrap_or_default();
    parse(&text).unwrap_or(0)
}

fn parse(text: &str) -> Option<u64> {
    let count = text.strip_prefix(TEXT)?.strip_suffix('\n')?;
    if count.len() == DIGITS { count.parse().ok() } else { None }
}

/// Makes an error of what happened to a file.
pub(super) fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { operation, path, source }
}
