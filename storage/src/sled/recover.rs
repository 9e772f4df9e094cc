//! The way out of a damaged store: reads what can be read of a copy, makes a new
//! store of it beside the damaged one, and lets the two change places. Nothing is
//! deleted, and a recovery that is cut short is taken up again.
//!
//! ```text
//! leasehold-data/
//!   recovering/        the new store while it is being made; worth nothing yet
//!   recovered/         the new store, whole; its files are on their way up
//!   set-aside-TIME/    the damaged store
//! ```
//!
//! Knows nothing of what the records mean, but for one: whatever may be missing
//! is covered by [`State::miss_records`].

use std::{
    fs::{self, File, TryLockError},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use super::{
    DATABASE, Sled, open_unlocked, panic_message,
    record::{self, Fault, META_KEY, Meta},
    witness::{self, Witness, failed},
};
use crate::{Error, State, Store};

/// A new store that is being made.
const DRAFT: &str = "recovering";
/// A new store that is whole.
const READY: &str = "recovered";
/// Start of the name of what was set aside.
const ASIDE: &str = "set-aside-";
/// Most faults that are told one by one.
const TOLD: usize = 20;
/// What sled writes to open faster, or can write anew.
const DISPENSABLE: [&str; 2] = ["snap.", "conf"];

/// What a recovery did.
#[derive(Debug)]
pub struct Recovery {
    /// What was wrong; none: the store is whole, and was left alone.
    pub damage: Option<Error>,
    /// Where the damaged store is now.
    pub aside: Option<PathBuf>,
    /// What is kept.
    pub kept: State,
    /// What could not be read, in words.
    pub lost: Vec<String>,
}

impl Sled {
    /// Makes a store that opens of a damaged one. `unix_seconds` is the time; it
    /// names the directory where the damaged store is kept, and a generation that
    /// no earlier one has reached.
    ///
    /// # Errors
    ///
    /// There is no store in the directory, it is in use, a newer version wrote
    /// it, or the disk does not do what it should. Then the damaged store is
    /// where it was, or the next call goes on.
    pub fn recover(path: impl AsRef<Path>, unix_seconds: u64) -> Result<Recovery, Error> {
        let path = path.as_ref();
        if !is_pending(path) && !path.join(DATABASE).exists() && !path.join(witness::FILE_NAME).exists() {
            return Err(Error::Missing { path: path.to_owned() });
        }
        if is_pending(path) {
            let aside = install(path, unix_seconds)?;
            let kept = Sled::open(path)?.load()?;
            let lost = vec!["what a recovery that was cut short has lost before".to_owned()];
            return Ok(Recovery { damage: Some(cut_short(path)), aside, kept, lost });
        }
        let damage = match Sled::open(path).and_then(|mut store| store.load()) {
            Ok(kept) => return Ok(Recovery { damage: None, aside: None, kept, lost: Vec::new() }),
            Err(error) if is_damage(&error) => error,
            Err(error) => return Err(error),
        };
        let _lock = lock(path)?;
        let Salvage { mut state, lost, .. } = salvage(path)?;
        state.generation = state.generation.max(unix_seconds);
        state.miss_records();
        let aside = make_and_install(path, &state, unix_seconds)?;
        Ok(Recovery { damage: Some(damage), aside, kept: state, lost })
    }

    /// Puts a store with `state` in the place of what is in the directory, which
    /// is set aside. Returns where that is; none: there was nothing.
    ///
    /// # Errors
    ///
    /// As [`Sled::recover`].
    pub fn replace(
        path: impl AsRef<Path>,
        state: &State,
        unix_seconds: u64,
    ) -> Result<Option<PathBuf>, Error> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(failed("create", path))?;
        let _lock = lock(path)?;
        make_and_install(path, state, unix_seconds)
    }
}

/// Whether a store that is whole waits to take its place.
pub(super) fn is_pending(path: &Path) -> bool {
    let ready = path.join(READY);
    ready.join(DATABASE).exists() || ready.join(witness::FILE_NAME).exists()
}

/// What the start says of that.
pub(super) fn cut_short(path: &Path) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        what: format!("a recovery was cut short, `{READY}` is left of it"),
    }
}

/// Whether something in a store's directory is of a recovery, and no part of
/// the store.
pub(super) fn is_left_over(name: &str) -> bool {
    name == DRAFT || name == READY || name.starts_with(ASIDE)
}

/// Whether another try cannot help, but a recovery can.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Damaged { .. } | Error::Panicked { .. } => true,
        Error::File { .. }
        | Error::Locked { .. }
        | Error::Foreign { .. }
        | Error::Version { .. }
        | Error::Missing { .. }
        | Error::Backend { .. } => false,
    }
}

/// Keeps servers out: by the witness, and where that is missing by sled's own
/// lock.
fn lock(path: &Path) -> Result<(Option<Witness>, Option<File>), Error> {
    let witness = Witness::open(path)?;
    let database = File::open(path.join(DATABASE).join("db")).ok();
    // The lock of a database that was closed just now lasts a moment longer; the
    // witness says for certain that nobody has it.
    match database.as_ref().filter(|_| witness.is_none()).map(File::try_lock) {
        Some(Err(TryLockError::WouldBlock)) => Err(Error::Locked { path: path.to_owned() }),
        Some(Ok(()) | Err(TryLockError::Error(_))) | None => Ok((witness, database)),
    }
}

/// What could be read.
#[derive(Default)]
struct Salvage {
    state: State,
    commits: u64,
    lost: Vec<String>,
}

/// Reads copies of the database, first as it is and then without what sled does
/// not need, and takes the one that has seen most.
fn salvage(path: &Path) -> Result<Salvage, Error> {
    let noted = witness::read(path);
    let draft = path.join(DRAFT);
    let mut best: Option<Salvage> = None;
    for dispensed in 0..=DISPENSABLE.len() {
        clear(&draft)?;
        copy(&path.join(DATABASE), &draft.join(DATABASE), &DISPENSABLE[..dispensed])?;
        let attempt = catch_unwind(AssertUnwindSafe(|| read_what_can_be(&draft)));
        let found = match attempt {
            Ok(Ok(found)) => found,
            Ok(Err(error @ Error::Version { .. })) => return Err(error),
            Ok(Err(error)) => unreadable(&error.to_string()),
            Err(panic) => unreadable(&panic_message(panic.as_ref())),
        };
        let whole = found.lost.is_empty();
        let size = |found: &Salvage| (found.commits, found.state.sessions.len() + found.state.leases.len());
        if best.as_ref().is_none_or(|best| size(&found) > size(best)) {
            best = Some(found);
        }
        if whole {
            break;
        }
    }
    let mut best = best.unwrap_or_default();
    if best.commits < noted {
        best.lost.push(format!("the last {} of {noted} commits", noted - best.commits));
    }
    Ok(best)
}

fn unreadable(why: &str) -> Salvage {
    Salvage { lost: vec![format!("the whole database ({why})")], ..Salvage::default() }
}

/// Every record that is what was written, and what to say of the others.
fn read_what_can_be(path: &Path) -> Result<Salvage, Error> {
    let database = open_unlocked(path)?;
    let mut found = Salvage::default();
    let mut meta: Option<Meta> = None;
    let mut records = 0;
    for entry in database.iter() {
        let (key, value) = match entry {
            Ok(entry) => entry,
            Err(error) => {
                found.lost.push(format!("everything from one place of the database on ({error})"));
                break;
            }
        };
        let read = if key == META_KEY {
            record::decode(&key, &value).map(|read| meta = Some(read))
        } else {
            records += 1;
            record::read_into(&mut found.state, &key, &value)
        };
        match read {
            Ok(()) => {}
            Err(Fault::Version(version)) => {
                let (found, supported) = (u32::from(version), u32::from(record::VERSION));
                return Err(Error::Version { path: path.to_owned(), found, supported });
            }
            Err(Fault::Damaged(what)) => found.lost.push(what),
        }
    }
    let expected = meta.map_or(0, |meta| meta.records);
    found.commits = meta.map_or(0, |meta| meta.commits);
    if records < expected {
        found.lost.push(format!("{} of {expected} records", expected - records));
    }
    drop_orphans(&mut found);
    let told = found.lost.len().min(TOLD);
    let untold = found.lost.split_off(told).len();
    if untold > 0 {
        found.lost.push(format!("{untold} more like these"));
    }
    Ok(found)
}

/// A lease whose session is not known counts for nobody.
fn drop_orphans(found: &mut Salvage) {
    let Salvage { state, lost, .. } = found;
    let before = state.leases.len();
    state.leases.retain(|(session, _), _| state.sessions.contains_key(session));
    let orphans = before - state.leases.len();
    if orphans > 0 {
        lost.push(format!("{orphans} leases, since their sessions cannot be read"));
    }
}

fn make_and_install(path: &Path, state: &State, unix_seconds: u64) -> Result<Option<PathBuf>, Error> {
    let (draft, ready) = (path.join(DRAFT), path.join(READY));
    clear(&draft)?;
    let mut store = Sled::open(&draft)?;
    store.commit(&state.changes())?;
    drop(store);
    // Empty, or not there.
    let _ = fs::remove_dir(&ready);
    fs::rename(&draft, &ready).map_err(failed("rename", &draft))?;
    sync(path)?;
    install(path, unix_seconds)
}

/// Sets the old store aside and moves the new one up, the witness last: without
/// it nobody takes the rest for a store.
fn install(path: &Path, unix_seconds: u64) -> Result<Option<PathBuf>, Error> {
    let ready = path.join(READY);
    let mut aside = None;
    if ready.join(DATABASE).exists() {
        let parts = [witness::FILE_NAME, DATABASE].map(|name| path.join(name));
        if parts.iter().any(|part| part.exists()) {
            let place = make_place_aside(path, unix_seconds)?;
            for part in parts.iter().filter(|part| part.exists()) {
                move_into(part, &place)?;
            }
            sync(&place)?;
            aside = Some(place);
        }
        sync(path)?;
        move_into(&ready.join(DATABASE), path)?;
        sync(path)?;
    }
    move_into(&ready.join(witness::FILE_NAME), path)?;
    fs::remove_dir(&ready).map_err(failed("remove", &ready))?;
    sync(path)?;
    Ok(aside)
}

fn make_place_aside(path: &Path, unix_seconds: u64) -> Result<PathBuf, Error> {
    let mut number = unix_seconds;
    loop {
        let place = path.join(format!("{ASIDE}{number}"));
        match fs::create_dir(&place) {
            Ok(()) => return Ok(place),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(failed("create", &place)(error)),
        }
    }
}

fn move_into(file: &Path, directory: &Path) -> Result<(), Error> {
    let name = file.file_name().expect("every part of a store has a name");
    fs::rename(file, directory.join(name)).map_err(failed("move", file))
}

/// Removes what an earlier attempt has begun; it is a copy.
fn clear(draft: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", draft)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Copies a directory of files, if it is there, but for those whose names start
/// with one of `without`.
fn copy(from: &Path, to: &Path, without: &[&str]) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(failed("create", to))?;
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(failed("list", from))?;
        let (name, file) = (entry.file_name(), entry.path());
        let dispensable = without.iter().any(|start| name.to_string_lossy().starts_with(start));
        if file.is_file() && !dispensable {
            fs::copy(&file, to.join(name)).map_err(failed("copy", &file))?;
        }
    }
    Ok(())
}

fn sync(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|opened| opened.sync_all()).map_err(failed("flush", directory))
}
