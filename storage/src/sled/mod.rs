//! The default backend: sled 0.34.7, one tree, one batch and one flush for each
//! commit. Knows nothing of the layout of a record (see `record`) nor of how a
//! shortened database is found out (see `witness`).
//!
//! sled loses what was not flushed even on a clean exit, and panics where others
//! return errors; both are dealt with here and nowhere else.

mod record;
mod recover;
mod witness;

pub use recover::Recovery;

use std::{
    any::Any,
    collections::BTreeMap,
    fmt, fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use self::{
    record::{Edit, Fault, META_KEY, Meta},
    witness::{Witness, failed},
};
use crate::{Change, Error, State, Store};

/// The database's directory inside the store's.
const DATABASE: &str = "sled";
/// The whole state is small, and read only at the start.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// How often, and how far apart, sled is asked for its lock: for two seconds.
const LOCK_ATTEMPTS: u32 = 400;
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// What the names of sled's unfinished snapshots end in.
const UNFINISHED_SNAPSHOT: &str = "generating";
/// A file system's own directory, present in a fresh volume.
const IGNORED_ENTRY: &str = "lost+found";

/// A store in a directory.
///
/// ```text
/// leasehold-data/
///   leasehold.store   says that a store is here, and is locked while it is open
///   sled/             the database
/// ```
pub struct Sled {
    path: PathBuf,
    witness: Witness,
    /// None after a failure: sled answers nothing more once it failed, so that
    /// the next call opens the database anew.
    database: Option<sled::Db>,
}

impl Sled {
    /// Opens the store in the directory at `path`, or makes one if there is no
    /// such directory or it is empty.
    ///
    /// # Errors
    ///
    /// The directory is in use, holds something else, was written by a newer
    /// version, is damaged, or cannot be read or written. Every record is
    /// checked here. What cannot be noticed: that the whole content of the
    /// directory was removed.
    pub fn open(path: impl AsRef<Path>) -> Result<Sled, Error> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(failed("create", path))?;
        if recover::is_pending(path) {
            return Err(recover::cut_short(path));
        }
        let mut witness = match Witness::open(path)? {
            Some(witness) => witness,
            None => create_witness(path)?,
        };
        let database = if let Some(commits) = witness.commits()? {
            open_database(path, commits)?
        } else {
            // The first start, or one that came after a crash during the first.
            let database = create_database(path)?;
            witness.finish()?;
            database
        };
        Ok(Sled { path: path.to_owned(), witness, database: Some(database) })
    }

    /// Runs one operation on the database. Whatever it does that it should not,
    /// the database is closed.
    fn run<T>(&mut self, operation: impl FnOnce(&Path, &sled::Db) -> Result<T, Error>) -> Result<T, Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => open_database(&self.path, self.witness.noted())?,
        };
        let path = &self.path;
        let outcome =
            catch_unwind(AssertUnwindSafe(|| operation(path, &database).map(|answer| (answer, database))));
        match outcome {
            Ok(Ok((answer, database))) => {
                self.database = Some(database);
                Ok(answer)
            }
            Ok(Err(error)) => Err(error),
            Err(panic) => Err(Error::Panicked { path: path.clone(), message: panic_message(panic.as_ref()) }),
        }
    }
}

impl Store for Sled {
    fn load(&mut self) -> Result<State, Error> {
        self.run(|path, database| read(path, database).map(|(state, _)| state))
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let commits = self.run(|path, database| write(path, database, changes))?;
        self.witness.note(commits)
    }
}

impl fmt::Debug for Sled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // sled prints every record of the database.
        f.debug_struct("Sled")
            .field("path", &self.path)
            .field("witness", &self.witness)
            .finish_non_exhaustive()
    }
}

/// Writes the changes in one batch and returns the number of commits so far.
fn write(path: &Path, database: &sled::Db, changes: &[Change]) -> Result<u64, Error> {
    let edits = overlay(database, changes).map_err(backend("read", path))?;
    let mut meta = read_meta(path, database)?;
    meta.commits += 1;
    let mut batch = sled::Batch::default();
    for (key, value) in edits {
        let existed = database.contains_key(&key).map_err(backend("read", path))?;
        match value {
            Some(value) => {
                meta.records += u64::from(!existed);
                batch.insert(key, value);
            }
            None if existed => {
                meta.records -= 1;
                batch.remove(key);
            }
            None => {}
        }
    }
    batch.insert(META_KEY, record::encode(META_KEY, &meta));
    database.apply_batch(batch).map_err(backend("write", path))?;
    database.flush().map_err(backend("flush", path))?;
    Ok(meta.commits)
}

/// The last value of each record that the changes touch; none: removed. Later
/// changes win, and a removal by prefix or range also meets what earlier changes
/// of the same commit have put.
fn overlay(
    database: &sled::Db,
    changes: &[Change],
) -> Result<BTreeMap<Vec<u8>, Option<Vec<u8>>>, sled::Error> {
    let mut edits = BTreeMap::new();
    for change in changes {
        match record::edit(change) {
            Edit::Put(key, value) => {
                edits.insert(key, Some(value));
            }
            Edit::Remove(key) => {
                edits.insert(key, None);
            }
            Edit::RemoveWithPrefix(key, prefix) => {
                edits.insert(key, None);
                for found in database.scan_prefix(&prefix).keys() {
                    edits.insert(found?.to_vec(), None);
                }
                for (_, value) in
                    edits.range_mut(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix))
                {
                    *value = None;
                }
            }
            Edit::RemoveRange(first, last) => {
                for found in database.range(first.clone()..=last.clone()).keys() {
                    edits.insert(found?.to_vec(), None);
                }
                for (_, value) in edits.range_mut(first..=last) {
                    *value = None;
                }
            }
        }
    }
    Ok(edits)
}

/// A directory without a witness must be empty: it is no store yet.
fn create_witness(path: &Path) -> Result<Witness, Error> {
    for entry in fs::read_dir(path).map_err(failed("list", path))? {
        let name = entry.map_err(failed("list", path))?.file_name().to_string_lossy().into_owned();
        match name.as_str() {
            IGNORED_ENTRY => {}
            left_over if recover::is_left_over(left_over) => {}
            DATABASE => return Err(damaged(path, "its file `leasehold.store` is missing".to_owned())),
            _ => return Err(Error::Foreign { path: path.to_owned(), entry: name }),
        }
    }
    Witness::create(path)
}

fn create_database(path: &Path) -> Result<sled::Db, Error> {
    guarded(path, || {
        let database = open_unlocked(path)?;
        match read(path, &database)? {
            (_, Some(meta)) if meta.commits > 0 => {
                Err(damaged(path, "its file `leasehold.store` was emptied".to_owned()))
            }
            (_, Some(_) | None) => {
                let meta = record::encode(META_KEY, &Meta::default());
                database.insert(META_KEY, meta).map_err(backend("write", path))?;
                database.flush().map_err(backend("flush", path))?;
                Ok(database)
            }
        }
    })
}

/// Opens a database that has seen at least this many commits.
fn open_database(path: &Path, commits: u64) -> Result<sled::Db, Error> {
    if !path.join(DATABASE).join("db").exists() {
        return Err(damaged(path, format!("its file `{DATABASE}/db` is missing")));
    }
    guarded(path, || {
        let database = open_unlocked(path)?;
        let (_, meta) = read(path, &database)?;
        match meta {
            None => Err(damaged(path, format!("its database `{DATABASE}` is empty"))),
            Some(meta) if meta.commits < commits => {
                let lost = commits - meta.commits;
                Err(damaged(path, format!("the last {lost} of its {commits} commits are missing")))
            }
            Some(_) => Ok(database),
        }
    })
}

/// sled's threads keep its own lock for a moment after the database was closed.
/// The witness is locked, so that it can be nobody else's.
fn open_unlocked(path: &Path) -> Result<sled::Db, Error> {
    remove_unfinished_snapshots(path)?;
    let configured = sled::Config::new()
        .path(path.join(DATABASE))
        .cache_capacity(CACHE_BYTES)
        // Every commit flushes; nothing is ever left to do later.
        .flush_every_ms(None);
    let mut attempts = 1;
    loop {
        match configured.open() {
            Err(sled::Error::Io(error)) if error.to_string().contains("could not acquire lock") => {
                if attempts == LOCK_ATTEMPTS {
                    return Err(backend("open", path)(sled::Error::Io(error)));
                }
                attempts += 1;
                thread::sleep(LOCK_PAUSE);
            }
            // What the operating system refuses is no damage.
            Err(sled::Error::Io(error)) if error.raw_os_error().is_some() => {
                return Err(backend("open", path)(sled::Error::Io(error)));
            }
            opened => return opened.map_err(|error| unreadable(path, &error.to_string())),
        }
    }
}

/// A crash, or a full disk, while sled writes a snapshot leaves the unfinished
/// file behind, and sled then takes it for a corrupt one at every opening. The
/// log has all that is in it.
fn remove_unfinished_snapshots(path: &Path) -> Result<(), Error> {
    let database = path.join(DATABASE);
    let entries = match fs::read_dir(&database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed("list", &database))?,
    };
    for entry in entries {
        let file = entry.map_err(failed("list", &database))?.path();
        if file.extension().is_some_and(|extension| extension == UNFINISHED_SNAPSHOT) {
            fs::remove_file(&file).map_err(failed("remove", &file))?;
        }
    }
    Ok(())
}

/// Reads and checks every record.
fn read(path: &Path, database: &sled::Db) -> Result<(State, Option<Meta>), Error> {
    let mut state = State::default();
    let mut meta: Option<Meta> = None;
    let mut records = 0;
    for entry in database.iter() {
        let (key, value) = entry.map_err(backend("read", path))?;
        if key == META_KEY {
            meta = Some(record::decode(&key, &value).map_err(|fault| faulty(path, fault))?);
        } else {
            record::read_into(&mut state, &key, &value).map_err(|fault| faulty(path, fault))?;
            records += 1;
        }
    }
    match meta {
        Some(meta) if meta.records != records => {
            Err(damaged(path, format!("it holds {records} records and should hold {}", meta.records)))
        }
        None if records > 0 => Err(damaged(path, "its description is missing".to_owned())),
        Some(_) | None => Ok((state, meta)),
    }
}

fn read_meta(path: &Path, database: &sled::Db) -> Result<Meta, Error> {
    match database.get(META_KEY).map_err(backend("read", path))? {
        Some(value) => record::decode(META_KEY, &value).map_err(|fault| faulty(path, fault)),
        None => Err(damaged(path, "its description is missing".to_owned())),
    }
}

/// Calls sled while the store is being opened: a panic there is damage.
fn guarded<T>(path: &Path, call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(unreadable(path, &panic_message(panic.as_ref()))))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

fn unreadable(path: &Path, why: &str) -> Error {
    damaged(path, format!("its database `{DATABASE}` cannot be read ({why})"))
}

fn damaged(path: &Path, what: String) -> Error {
    Error::Damaged { path: path.to_owned(), what }
}

fn faulty(path: &Path, fault: Fault) -> Error {
    match fault {
        Fault::Version(found) => Error::Version {
            path: path.to_owned(),
            found: u32::from(found),
            supported: u32::from(record::VERSION),
        },
        Fault::Damaged(what) => damaged(path, what),
    }
}

fn backend(operation: &'static str, path: &Path) -> impl FnOnce(sled::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Backend { operation, path, source }
}
