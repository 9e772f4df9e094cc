//! What happened to each checkout and each request of one node, on a clock that
//! all processes of the machine share. Knows nothing of what is made of it.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

/// One checkout; times are in nanoseconds on the machine's clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Checkout {
    /// It was asked for.
    pub(crate) asked: u64,
    /// It was there.
    pub(crate) got: u64,
    /// Its query was answered, and it began to go back.
    pub(crate) done: u64,
    /// It was back.
    pub(crate) returned: u64,
}

/// One request: the time from its first query to its last answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// It began.
    pub(crate) begun: u64,
    /// It had all its answers.
    pub(crate) ended: u64,
}

/// All that happened at one node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Records {
    /// When the load began.
    pub(crate) started: u64,
    /// When it ended.
    pub(crate) stopped: u64,
    /// Its checkouts, in no order.
    pub(crate) checkouts: Vec<Checkout>,
    /// Its requests, in no order.
    pub(crate) requests: Vec<Request>,
    /// Connections it had opened so far, looked at now and then.
    pub(crate) opens: Vec<(u64, u64)>,
    /// Checkouts that failed.
    pub(crate) failures: u64,
}

impl Records {
    /// Writes them to a file.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_vec(self)?)
    }

    /// Reads what `write` wrote.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }
}
