//! What goes wrong in a store. Each message names the path, and where people
//! have to act, the way out.

use std::{io, path::PathBuf};

/// Why a store cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file of the store.
    #[error("cannot {operation} `{path}`", path = path.display())]
    File {
        /// What was tried, such as "create".
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process has the store open.
    #[error(
        "store `{path}` is in use by another process: stop that one, or give this one a directory of its own",
        path = path.display()
    )]
    Locked {
        /// The store's directory.
        path: PathBuf,
    },
    /// The directory holds something that is not a store.
    #[error(
        "`{path}` is not a Leasehold store, it holds `{entry}`: name an empty or a new directory",
        path = path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// One of the things found in it.
        entry: String,
    },
    /// There is nothing to read.
    #[error("there is no store in `{path}`", path = path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// A newer version of Leasehold wrote the store.
    #[error(
        "store `{path}` has format {found}, this version reads format {supported}: run the version that wrote it, or a newer one",
        path = path.display()
    )]
    Version {
        /// The store's directory.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that can be read.
        supported: u32,
    },
    /// What the store holds is not what was committed.
    #[error(
        "store `{path}` is damaged, {what}: run `leasehold-server recover`, which keeps what can be read, sets the damaged store aside and says what it did",
        path = path.display()
    )]
    Damaged {
        /// The store's directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The database below the store failed.
    #[error("cannot {operation} store `{path}`", path = path.display())]
    Backend {
        /// What was tried, such as "open".
        operation: &'static str,
        /// The store's directory.
        path: PathBuf,
        /// Why it failed.
        source: sled::Error,
    },
    /// The database below the store panicked. The next call opens it anew.
    #[error("store `{path}` failed inside its database: {message}", path = path.display())]
    Panicked {
        /// The store's directory.
        path: PathBuf,
        /// The message of the panic.
        message: String,
    },
}
