//! The settings of a pool, with the names that users of pools know, and their
//! check. Later code never checks them again.

use std::time::Duration;

/// How often a pool lets its reports settle: a fall of what is wanted, or a rise
/// of what is to spare beyond something, goes unreported for at most twice this
/// long. The server is to know of idle tokens well within a second.
pub(crate) const SETTLING_PERIOD: Duration = Duration::from_millis(250);

/// What a pool is allowed to do. Start from [`Settings::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most connections that this pool ever asks for. Default 10.
    pub max_size: u32,
    /// Connections kept open while the server has tokens to spare, so that a
    /// first request need not connect. Default 0.
    pub min_size: u32,
    /// Longest wait for a token or a connection; zero never waits, None waits
    /// for ever. Connecting comes on top. Default 30 s.
    pub wait_timeout: Option<Duration>,
    /// Longest time for one connect, repeated tries included. Default 10 s.
    pub create_timeout: Duration,
    /// Longest time for testing a connection at checkout, or for resetting one
    /// at its return. Default 5 s.
    pub recycle_timeout: Duration,
    /// A connection unused for this long is closed, but for the youngest
    /// `min_size`. Default 10 min.
    pub idle_timeout: Option<Duration>,
    /// A connection older than this is closed when it is not in use; each
    /// lives up to a tenth shorter, at random, so that not all are replaced at
    /// once. Default 30 min.
    pub max_lifetime: Option<Duration>,
    /// Longest time for closing one connection. Its token is counted until
    /// then, and free after it whatever became of the connection: a cancelled
    /// query that nobody could kill may still run there. Default 30 s.
    pub close_timeout: Duration,
    /// Longest time that closing the pool waits for connections in use.
    /// Default 30 s.
    pub shutdown_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_size: 10,
            min_size: 0,
            wait_timeout: Some(Duration::from_secs(30)),
            create_timeout: Duration::from_secs(10),
            recycle_timeout: Duration::from_secs(5),
            idle_timeout: Some(Duration::from_secs(10 * 60)),
            max_lifetime: Some(Duration::from_secs(30 * 60)),
            close_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(30),
        }
    }
}

impl Settings {
    /// Most connections that `max_size` may ask for.
    pub const MAX_SIZE_BOUND: u32 = 100_000;

    /// Says what is wrong with these settings, if anything.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.max_size == 0 || self.max_size > Self::MAX_SIZE_BOUND {
            return Err(BuildError::MaxSize { max_size: self.max_size });
        }
        if self.min_size > self.max_size {
            return Err(BuildError::MinSize { min_size: self.min_size, max_size: self.max_size });
        }
        let zero = |duration: Duration| duration.is_zero();
        let faults = [
            ("create_timeout", zero(self.create_timeout)),
            ("recycle_timeout", zero(self.recycle_timeout)),
            ("close_timeout", zero(self.close_timeout)),
            ("idle_timeout", self.idle_timeout.is_some_and(zero)),
            ("max_lifetime", self.max_lifetime.is_some_and(zero)),
        ];
        match faults.iter().find(|(_, wrong)| *wrong) {
            Some((setting, _)) => Err(BuildError::Zero { setting }),
            None => Ok(()),
        }
    }
}

/// Why a pool cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// `max_size` is out of bounds.
    #[error("max_size is {max_size}; set it to between 1 and {}", Settings::MAX_SIZE_BOUND)]
    MaxSize {
        /// What was set.
        max_size: u32,
    },
    /// `min_size` is above `max_size`.
    #[error("min_size is {min_size}, above max_size, which is {max_size}; lower the one or raise the other")]
    MinSize {
        /// What was set.
        min_size: u32,
        /// What it may not exceed.
        max_size: u32,
    },
    /// A time that must pass is zero.
    #[error("{setting} is zero; give it a time, or leave the default")]
    Zero {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The pool has to start tasks, and there is no tokio runtime here.
    #[error("a pool is built inside a tokio runtime, for it closes connections in tasks of its own")]
    NoRuntime,
}
