//! Where tests put their files: below the target directory, so that `cargo
//! clean` takes them too. Knows nothing of the files.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Once,
};

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

/// The directory that all tests of this user share on this machine.
pub(crate) fn machine() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let directory = env::temp_dir().join(format!("leasehold-tests-{user}"));
    fs::create_dir_all(&directory).expect("create the tests' directory");
    directory
}

/// A directory for one part of one test; it goes away when dropped.
pub fn directory(name: &str) -> TempDir {
    static SWEPT: Once = Once::new();
    let parent = shared().join("scratch");
    fs::create_dir_all(&parent).expect("create the tests' directory");
    SWEPT.call_once(|| sweep(&parent));
    tempfile::Builder::new()
        .prefix(&format!("{}-{name}-", std::process::id()))
        .tempdir_in(parent)
        .expect("create a temporary directory")
}

/// Removes what tests left behind that were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).expect("list the tests' directory").flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            // Another test may be sweeping it just now.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
