//! A store that is not what was committed stops the start with an error that
//! names the directory and the way out. It never panics and is never silently
//! empty, nor silently older.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
};

use leasehold_storage::{Change, Error, Sled, State, Store, conformance};
use tempfile::TempDir;

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
        Stored { directory, state }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn refusal(&self) -> Error {
        let error = Sled::open(self.path()).expect_err("the store is refused");
        let message = error.to_string();
        assert!(message.contains(&*self.path().to_string_lossy()), "no path in: {message}");
        error
    }

    /// Damage may go unnoticed only where it did no harm.
    fn is_refused_or_whole(&self, damage: &str) -> bool {
        match Sled::open(self.path()).and_then(|mut store| store.load()) {
            Ok(state) => {
                assert_eq!(state, self.state, "silently different after {damage}");
                false
            }
            Err(_) => true,
        }
    }
}

#[test]
fn a_second_opening_is_refused() {
    let stored = Stored::new();
    let open = Sled::open(stored.path()).expect("the store opens");
    assert!(matches!(stored.refusal(), Error::Locked { .. }));
    drop(open);
    Sled::open(stored.path()).expect("the store opens");
}

#[test]
fn a_directory_of_something_else_is_refused_and_left_alone() {
    let directory = TempDir::new().expect("a directory can be made");
    fs::write(directory.path().join("thesis.txt"), "years of work").expect("the file is written");
    let error = Sled::open(directory.path()).expect_err("the directory is refused");
    assert!(matches!(&error, Error::Foreign { entry, .. } if entry == "thesis.txt"), "{error}");
    assert_eq!(fs::read_dir(directory.path()).expect("the directory is there").count(), 1);
}

#[test]
fn a_fresh_volume_is_an_empty_directory() {
    let directory = TempDir::new().expect("a directory can be made");
    fs::create_dir(directory.path().join("lost+found")).expect("the directory is made");
    Sled::open(directory.path()).expect("the store opens");
}

#[test]
fn a_path_that_is_a_file_is_refused() {
    let directory = TempDir::new().expect("a directory can be made");
    let path = directory.path().join("data");
    fs::write(&path, "").expect("the file is written");
    assert!(matches!(Sled::open(&path), Err(Error::File { operation: "create", .. })));
}

#[test]
fn a_missing_database_is_noticed() {
    let stored = Stored::new();
    fs::remove_dir_all(stored.path().join("sled")).expect("the database is removed");
    assert!(matches!(stored.refusal(), Error::Damaged { .. }));
}

#[test]
fn an_emptied_database_is_noticed() {
    for file in ["db", "conf"] {
        let stored = Stored::new();
        cut(&stored.path().join("sled").join(file), 0);
        assert!(stored.is_refused_or_whole(file) || file == "conf", "{file}");
    }
}

#[test]
fn a_missing_witness_is_noticed() {
    let stored = Stored::new();
    fs::remove_file(stored.path().join("leasehold.store")).expect("the witness is removed");
    assert!(matches!(stored.refusal(), Error::Damaged { .. }));
}

#[test]
fn a_changed_witness_is_noticed() {
    for text in ["", "hello", "Leasehold store, format 1", "\u{fffd}"] {
        let stored = Stored::new();
        fs::write(stored.path().join("leasehold.store"), text).expect("the witness is written");
        assert!(matches!(stored.refusal(), Error::Damaged { .. }), "{text:?}");
    }
}

#[test]
fn an_older_database_is_noticed() {
    let stored = Stored::new();
    let copy = stored.directory.path().join("copy");
    copy_files(&stored.path().join("sled"), &copy);
    let mut store = Sled::open(stored.path()).expect("the store opens");
    store.commit(&[Change::Generation(8)]).expect("the commit succeeds");
    drop(store);
    fs::remove_dir_all(stored.path().join("sled")).expect("the database is removed");
    fs::rename(copy, stored.path().join("sled")).expect("the older database is put there");
    let message = stored.refusal().to_string();
    assert!(message.contains("the last 1 of its 202 commits are missing"), "{message}");
}

#[test]
fn a_creation_that_was_cut_short_is_taken_up_again() {
    let directory = TempDir::new().expect("a directory can be made");
    fs::write(directory.path().join("leasehold.store"), "").expect("the witness is written");
    Sled::open(directory.path()).expect("the store opens");
}

#[test]
fn an_unfinished_snapshot_does_no_harm() {
    let stored = Stored::new();
    fs::write(stored.path().join("sled/snap.00000000001FFF48.generating"), "half")
        .expect("the file is written");
    assert!(!stored.is_refused_or_whole("a snapshot was cut short"));
}

#[test]
fn a_database_that_was_cut_short_is_refused() {
    let whole = Stored::new();
    let length = fs::metadata(whole.path().join("sled/db")).expect("the file is there").len();
    let mut refused = 0;
    for part in 0..16 {
        let stored = Stored::new();
        cut(&stored.path().join("sled/db"), length * part / 16);
        refused += u32::from(stored.is_refused_or_whole(&format!("a cut at {part}/16")));
    }
    assert!(refused > 0, "cutting the database was never noticed");
}

#[test]
fn changed_bytes_are_refused() {
    let mut refused = 0;
    let whole = Stored::new();
    let bytes = fs::read(whole.path().join("sled/db")).expect("the file is read");
    let written = bytes.iter().rposition(|byte| *byte != 0).expect("something was written");
    for step in 0..40 {
        let stored = Stored::new();
        let path = stored.path().join("sled/db");
        let mut bytes = fs::read(&path).expect("the file is read");
        let at = (written * step / 40).min(bytes.len() - 1);
        bytes[at] ^= 0x40;
        fs::write(&path, bytes).expect("the file is written");
        refused += u32::from(stored.is_refused_or_whole(&format!("a change at {at}")));
    }
    assert!(refused > 0, "changed bytes were never noticed");
}

fn cut(path: &Path, length: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("the file opens");
    file.set_len(length).expect("the file is cut");
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir(to).expect("the directory is made");
    for entry in fs::read_dir(from).expect("the directory is there") {
        let path = entry.expect("the entry is read").path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().expect("a file has a name")))
                .expect("the file is copied");
        }
    }
}
