//! Disks that fail: a small one that can be filled, and one that turns
//! read-only or hangs. They go away with the test. Knows nothing of what is
//! kept on them.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{figures, scratch};

/// What fills the disk.
const FILLER: &str = "filler";
/// Written at a time while the disk is filled, down to single bytes at the end.
const BLOCK: [u8; 4096] = [0x5a; 4096];

/// A file system in memory.
#[derive(Debug)]
pub struct Disk {
    directory: TempDir,
}

impl Disk {
    /// A disk of so many mebibytes; none where mounting is not permitted.
    ///
    /// # Panics
    ///
    /// Mounting fails otherwise.
    pub fn mount(mebibytes: u32) -> Option<Self> {
        let directory = scratch::directory("disk");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]).arg(directory.path());
        let output = mount.output().expect("start a command");
        if figures::not_permitted("a small disk", &output) { None } else { Some(Self { directory }) }
    }

    /// A directory on it.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Leaves no byte free.
    pub fn fill(&self) {
        let mut filler = File::create(self.directory.path().join(FILLER)).expect("create a file on the disk");
        let mut block = &BLOCK[..];
        loop {
            match filler.write(block) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull && block.len() > 1 => {
                    block = &block[..block.len() / 2];
                }
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("cannot fill the disk: {error}"),
            }
        }
    }

    /// Makes the room that `fill` took.
    pub fn free(&self) {
        fs::remove_file(self.directory.path().join(FILLER)).expect("remove a file from the disk");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(self.directory.path());
    }
}

/// Lazily: a server that still runs keeps its files until it ends.
fn unmount(path: &Path) {
    let done = Command::new("umount").arg("--lazy").arg(path).status();
    // A panic here would hide the test's own.
    if !done.is_ok_and(|status| status.success()) {
        eprintln!("cannot unmount {}", path.display());
    }
}

/// A library that a program is started with and that makes the disk fail for
/// it, as it would from the operating system: a kernel lets nobody turn a disk
/// read-only under open files, nor hang, on demand.
#[derive(Debug)]
pub struct FaultyDisk {
    directory: TempDir,
}

impl Default for FaultyDisk {
    fn default() -> Self {
        let directory = scratch::directory("faulty-disk");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/faulty_disk.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
        run(compiler.arg(directory.path().join("faulty_disk.so")).arg(source).arg("-ldl"));
        Self { directory }
    }
}

impl FaultyDisk {
    /// What is in the environment of the program. The faults are met below its
    /// working directory and nowhere else.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let path = |name| self.directory.path().join(name).display().to_string();
        [("LD_PRELOAD", path("faulty_disk.so")), ("FAULTY_DISK", path("fault"))]
    }

    /// Every write is refused until the fault is over.
    pub fn read_only(&self) -> Fault {
        self.fault("read-only")
    }

    /// No sync returns until the fault is over.
    pub fn stall(&self) -> Fault {
        self.fault("stall")
    }

    fn fault(&self, what: &str) -> Fault {
        let fault = Fault { path: self.directory.path().join("fault") };
        // Whole at once: the library may be reading it.
        let draft = self.directory.path().join("draft");
        fs::write(&draft, what).expect("write the fault");
        fs::rename(draft, &fault.path).expect("put the fault in place");
        fault
    }
}

/// A fault of the disk; over when dropped.
#[derive(Debug)]
pub struct Fault {
    path: PathBuf,
}

impl Drop for Fault {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("start a command");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
