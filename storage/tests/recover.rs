//! Out of any damage a recovery makes a store that opens: it invents nothing, it
//! says what is lost and notes that records may be missing, its generation is
//! above all earlier ones, and the damaged files are still there afterwards.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use leasehold_admission::SessionId;
use leasehold_storage::{Change, Error, Recovery, Sled, State, Store, conformance};
use tempfile::TempDir;

/// The time of the recovery.
const NOW: u64 = 1_800_000_000;

/// Longest time for a store to be closed.
const CLOSED: Duration = Duration::from_secs(10);

/// A closed store with some commits, and what it should hold.
struct Stored {
    directory: TempDir,
    state: State,
}

impl Stored {
    fn new() -> Stored {
        let directory = TempDir::new().expect("a directory can be made");
        let mut store = Sled::open(directory.path().join("data")).expect("the store opens");
        store.commit(&conformance::one_of_each()).expect("the commit succeeds");
        for cap in 0..200 {
            let name = format!("database-{}", cap % 50);
            store.commit(&[Change::PutCap(name.into(), cap)]).expect("the commit succeeds");
        }
        let state = store.load().expect("the state loads");
        drop(store);
        let stored = Stored { directory, state };
        stored.wait_until_closed();
        stored
    }

    /// The database's own lock lasts for a moment longer than its store.
    #[expect(clippy::disallowed_methods, reason = "a bounded wait for another thread")]
    fn wait_until_closed(&self) {
        let database = File::open(self.database()).expect("the file opens");
        let end = Instant::now() + CLOSED;
        while let Err(error) = database.try_lock() {
            assert!(Instant::now() < end, "the closed store is still locked: {error}");
            thread::yield_now();
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn database(&self) -> PathBuf {
        self.path().join("sled/db")
    }

    /// Recovers, and checks what holds after every recovery. False: the store was
    /// whole.
    fn recovers(&self, damage: &str) -> Option<Recovery> {
        let recovery = Sled::recover(self.path(), NOW).unwrap_or_else(|error| panic!("{damage}: {error}"));
        let opened = Sled::open(self.path()).and_then(|mut store| store.load());
        let state = opened.unwrap_or_else(|error| panic!("after {damage}: {error}"));
        assert_eq!(state, recovery.kept, "{damage}");
        let Some(found) = &recovery.damage else {
            assert_eq!(state, self.state, "silently different after {damage}");
            return None;
        };
        assert!(found.to_string().contains("leasehold-server recover"), "no way out in: {found}");
        assert!(state.generation >= NOW, "{damage}");
        assert!(state.sessions.contains_key(&SessionId::LOST), "{damage}");
        for (id, session) in state.sessions.iter().filter(|(id, _)| **id != SessionId::LOST) {
            assert_eq!(self.state.sessions.get(id), Some(session), "invented after {damage}");
        }
        for (key, lease) in &state.leases {
            assert_eq!(self.state.leases.get(key), Some(lease), "invented after {damage}");
            assert!(state.sessions.contains_key(&key.0), "a lease of nobody after {damage}");
        }
        assert!(state.caps.keys().all(|name| self.state.caps.contains_key(name)), "{damage}");
        let again = Sled::recover(self.path(), NOW).expect("it recovers");
        assert!(again.damage.is_none(), "twice after {damage}");
        Some(recovery)
    }
}

#[test]
fn a_whole_store_is_left_alone() {
    assert!(Stored::new().recovers("nothing").is_none());
}

#[test]
fn a_store_that_was_cut_short() {
    let mut kept = 0;
    let length = fs::metadata(Stored::new().database()).expect("the file is there").len();
    for part in 0..16 {
        let stored = Stored::new();
        let file = OpenOptions::new().write(true).open(stored.database()).expect("the file opens");
        file.set_len(length * part / 16).expect("the file is cut");
        if let Some(recovery) = stored.recovers(&format!("a cut at {part}/16")) {
            kept += u32::from(recovery.kept.sessions.len() > 1);
            assert!(!recovery.lost.is_empty(), "something is lost by a cut at {part}/16");
        }
    }
    eprintln!("sessions were kept in {kept} of 16 cuts");
}

#[test]
fn changed_bytes() {
    let (mut damaged, mut kept) = (0, 0);
    let bytes = fs::read(Stored::new().database()).expect("the file is read");
    let written = bytes.iter().rposition(|byte| *byte != 0).expect("something was written");
    for step in 0..40 {
        let stored = Stored::new();
        let mut bytes = fs::read(stored.database()).expect("the file is read");
        let at = (written * step / 40).min(bytes.len() - 1);
        bytes[at] ^= 0x40;
        fs::write(stored.database(), bytes).expect("the file is written");
        if let Some(recovery) = stored.recovers(&format!("a change at {at}")) {
            damaged += 1;
            kept += u32::from(recovery.kept.sessions.len() > 1);
        }
    }
    assert!(damaged > 0, "changed bytes were never noticed");
    eprintln!("sessions were kept in {kept} of {damaged} damages");
}

#[test]
fn a_file_of_something_else() {
    for name in ["sled/db", "sled/conf", "leasehold.store"] {
        let stored = Stored::new();
        let foreign = b"\x89PNG\r\n\x1a\n".repeat(100_000);
        fs::write(stored.path().join(name), &foreign).expect("the file is written");
        if let Some(recovery) = stored.recovers(name) {
            let aside = recovery.aside.expect("the damaged store is kept");
            let kept = fs::read(aside.join(name)).expect("the foreign file is still there");
            assert!(name == "sled/db" || kept == foreign, "{name} was changed");
        }
    }
}

#[test]
fn missing_files() {
    for name in ["sled/db", "leasehold.store"] {
        let stored = Stored::new();
        fs::remove_file(stored.path().join(name)).expect("the file is removed");
        let recovery = stored.recovers(name).expect("it is damage");
        let all = recovery.kept.leases == stored.state.leases;
        assert_eq!(all, name == "leasehold.store", "what can be read without {name} is kept");
    }
    let stored = Stored::new();
    fs::remove_dir_all(stored.path().join("sled")).expect("the database is removed");
    let recovery = stored.recovers("no database").expect("it is damage");
    assert_eq!(recovery.kept.sessions.len(), 1);
}

#[test]
fn an_older_copy_is_kept_and_told_of() {
    let stored = Stored::new();
    let text = fs::read_to_string(stored.path().join("leasehold.store")).expect("the witness is read");
    let later = text.replace("00000000000000000201", "00000000000000000209");
    assert_ne!(text, later, "the store has another number of commits");
    fs::write(stored.path().join("leasehold.store"), later).expect("the witness is written");
    let recovery = stored.recovers("an older copy").expect("it is damage");
    assert_eq!(recovery.kept.leases, stored.state.leases);
    assert_eq!(recovery.lost, ["the last 8 of 209 commits"]);
}

#[test]
fn a_place_without_a_store_is_refused() {
    let directory = TempDir::new().expect("a directory can be made");
    for path in [directory.path().to_owned(), directory.path().join("nowhere")] {
        let error = Sled::recover(&path, NOW).expect_err("there is nothing");
        assert!(matches!(error, Error::Missing { .. }), "{error}");
    }
    assert!(!directory.path().join("nowhere").exists());
}

#[test]
fn a_store_in_use_is_left_alone() {
    let stored = Stored::new();
    let open = Sled::open(stored.path()).expect("the store opens");
    assert!(matches!(Sled::recover(stored.path(), NOW), Err(Error::Locked { .. })));
    assert!(matches!(Sled::replace(stored.path(), &State::default(), NOW), Err(Error::Locked { .. })));
    drop(open);
}

/// Killed at any step, the start refuses or sees the old store, and the next
/// recovery ends what was begun.
#[test]
fn a_recovery_that_is_cut_short_is_taken_up_again() {
    for step in 0..4 {
        let stored = Stored::new();
        let new = stored.directory.path().join("new");
        let mut fresh = Sled::open(&new).expect("the store opens");
        fresh.commit(&[Change::Generation(NOW)]).expect("the commit succeeds");
        drop(fresh);
        let (path, ready) = (stored.path(), stored.path().join("recovered"));
        fs::rename(&new, &ready).expect("the new store is ready");
        let aside = path.join("set-aside-7");
        let moves = [
            (path.join("leasehold.store"), aside.join("leasehold.store")),
            (path.join("sled"), aside.join("sled")),
            (ready.join("sled"), path.join("sled")),
        ];
        fs::create_dir(&aside).expect("the place is made");
        for (from, to) in &moves[..step] {
            fs::rename(from, to).expect("the file is moved");
        }
        let refusal = Sled::open(&path).expect_err("it is refused");
        assert!(refusal.to_string().contains("a recovery was cut short"), "{refusal}");
        let recovery = Sled::recover(&path, NOW).expect("it is taken up again");
        assert_eq!(recovery.kept, State { generation: NOW, ..State::default() }, "step {step}");
        assert!(!ready.exists());
        let databases = asides(&path).into_iter().filter(|aside| aside.join("sled").exists()).count();
        assert_eq!(databases, 1, "the damaged store is there after step {step}");
    }
}

fn asides(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("the directory is there");
    let paths = entries.map(|entry| entry.expect("the entry is read").path());
    paths.filter(|path| path.to_string_lossy().contains("set-aside-")).collect()
}
