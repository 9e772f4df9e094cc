//! Where tests put their files: below the target directory, so that `cargo
//! clean` takes what a killed test left behind. Knows nothing of the files.

use std::{env, fs, path::PathBuf};

use tempfile::TempDir;

/// The directory that all tests of this build share.
pub fn shared() -> PathBuf {
    // A test binary is at TARGET/PROFILE/deps/NAME.
    let binary = env::current_exe().expect("the path of the test binary");
    let profile = binary.ancestors().nth(2).expect("a test binary is below a target directory");
    let directory = profile.join("integration-tests");
    fs::create_dir_all(&directory).expect("create the tests' directory");
    directory
}

/// A directory for one part of one test; it goes away when dropped.
pub fn directory(name: &str) -> TempDir {
    tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .tempdir_in(shared())
        .expect("create a temporary directory")
}
