//! Keeps tests off each other's processors: a test that measures takes the
//! whole machine, one at a time. Works across threads and processes alike.
//! Knows nothing of the tests.

use std::{
    fs::{File, OpenOptions},
    path::Path,
};

use crate::scratch;

/// The right to load the machine; ends when dropped.
#[derive(Debug)]
pub struct Stage {
    _lock: File,
}

impl Stage {
    /// Waits until no other test loads the machine.
    pub async fn alone() -> Self {
        let lock = tokio::task::spawn_blocking(|| lock("stage.lock")).await.expect("the lock's thread");
        Self { _lock: lock }
    }
}

/// Waits for the lock of this name among all tests of this build.
pub(crate) fn lock(name: &str) -> File {
    let file = open(&scratch::shared(), name);
    file.lock().expect("lock a file of the tests");
    file
}

/// Takes the lock of this name if it is free among all tests of this user on
/// this machine: for what a machine has only once, whatever is built where.
pub(crate) fn try_lock(name: &str) -> Option<File> {
    let file = open(&scratch::machine(), name);
    file.try_lock().is_ok().then_some(file)
}

fn open(directory: &Path, name: &str) -> File {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(name))
        .expect("open a lock file of the tests")
}
