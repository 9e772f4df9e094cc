//! What a node and the server say to each other, as the session knows it:
//! checked, with typed units. Knows nothing of the wire; `from_proto.rs` and
//! `to_proto.rs` translate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::governed::{Levels, Recall};

/// Most databases that one session can use: the bound on a Hello's claims.
pub const MAX_DATABASES: usize = 64;

/// Longest name of a node, workload, database or client, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 128;

/// 128 random bits that name a session. Chosen once per process start, never
/// derived from a name: a restarted process must not inherit the tokens of its
/// dead predecessor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// A new random id.
    pub fn random() -> Self {
        // A version 4 UUID fixes 6 of its bits, so two make 128 random ones.
        let (first, second) = (uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes());
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&first[..6]);
        bytes[6..13].copy_from_slice(&first[9..]);
        bytes[13..].copy_from_slice(&second[..3]);
        Self(bytes)
    }

    /// The id with these bytes, for simulations that need the same one again.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, as a Hello carries them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A name that was refused: the server would refuse the whole Hello for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// It is empty, or too long for the protocol.
    #[error("a {what}'s name has 1 to {MAX_NAME_BYTES} bytes of UTF-8, not {length}")]
    Length {
        /// What was to be named, such as "database".
        what: &'static str,
        /// Bytes of the refused name.
        length: usize,
    },
    /// It has a control character, such as a line feed.
    #[error("a {what}'s name has no control characters, but {name:?} has one")]
    Control {
        /// What was to be named.
        what: &'static str,
        /// The refused name.
        name: String,
    },
}

/// Checks that `name` fits the protocol's bounds.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), InvalidName> {
    match name.len() {
        1..=MAX_NAME_BYTES if name.chars().any(char::is_control) => {
            Err(InvalidName::Control { what, name: name.into() })
        }
        1..=MAX_NAME_BYTES => Ok(()),
        length => Err(InvalidName::Length { what, length }),
    }
}

/// Name of a database in the server's configuration. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseName(Arc<str>);

impl DatabaseName {
    /// Checks a name: 1 to [`MAX_NAME_BYTES`] bytes.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        check_name("database", name)?;
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatabaseName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for DatabaseName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

/// What a node sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToServer {
    /// Opens the stream; always first.
    Hello(Hello),
    /// The state of one database.
    Demand(Demand),
    /// Shows that the node is alive; the id comes back in the answer.
    KeepAlive(KeepAliveId),
    /// Ends the session: nothing is held any more.
    Goodbye,
}

/// What the server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromServer {
    /// Answers the Hello; always first.
    Welcome(Welcome),
    /// The server's target for one database.
    Allotment(Allotment),
    /// Answers the keep-alive with this id.
    KeepAliveReply(KeepAliveId),
    /// The session does not exist any more; says why, for people.
    Gone(String),
}

/// Number of the server's incarnation. Zero: none is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// Number of a message from the server about one database, on one stream.
/// Zero acknowledges nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(pub u64);

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// Number of a keep-alive of this session; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeepAliveId(pub u64);

/// Opens a stream and names the session that it speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The session.
    pub session: SessionId,
    /// Name of the node, for people.
    pub node: String,
    /// Workload of the node; empty means "default".
    pub workload: String,
    /// Highest generation that has welcomed this session.
    pub generation: Generation,
    /// Name and version of this library.
    pub client: String,
    /// The state of each database, `acknowledged` being zero.
    pub claims: Vec<Demand>,
}

/// The state of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The database.
    pub database: DatabaseName,
    /// Newest sequence applied on this stream, before `levels` were read.
    pub acknowledged: Sequence,
    /// What the node holds and wants.
    pub levels: Levels,
    /// W3C trace context of the oldest waiting task; empty: none.
    pub traceparent: String,
}

/// Accepts a Hello: confirms what is held, gives nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Number of the server's incarnation, at least 1.
    pub generation: Generation,
    /// The deadline is this long after the sending of the newest acknowledged
    /// keep-alive or Hello.
    pub ttl: Duration,
    /// How often to send a keep-alive. Above zero and below `ttl`.
    pub keep_alive: Duration,
    /// One entry for each claim, in the order of the Hello.
    pub databases: Vec<DatabaseTerms>,
}

/// What holds for one database on this stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseTerms {
    /// The database.
    pub database: DatabaseName,
    /// What was agreed; `None`: the server does not know the database.
    pub terms: Option<Terms>,
}

/// What holds for a database that the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Sequence of the Welcome, to be acknowledged.
    pub sequence: Sequence,
    /// What happens past the deadline.
    pub on_loss: LossPolicy,
    /// The quantum by which ages are reported; zero: they need no report of their
    /// own.
    pub quantum: Duration,
}

/// What a node does past its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossPolicy {
    /// It goes on with the connections it has and opens none.
    Keep,
    /// It closes every connection.
    Fence,
}

/// The server's target for one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allotment {
    /// The database.
    pub database: DatabaseName,
    /// Rises strictly on a stream.
    pub sequence: Sequence,
    /// Tokens that the session should hold.
    pub tokens: u32,
    /// How to go down to them.
    pub recall: Recall,
    /// The quantum by which ages are reported from now on; None: as before.
    pub quantum: Option<Duration>,
    /// As many tasks wait in the session's workload as may: so many. None: more
    /// may wait.
    pub max_waiting: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_differ_and_print_as_32_digits() {
        let (first, second) = (SessionId::random(), SessionId::random());
        assert_ne!(first, second);
        assert_eq!(first.to_string().len(), 32);
        assert_eq!(SessionId::from_bytes([0xab; 16]).to_string(), "ab".repeat(16));
    }

    #[test]
    fn names_are_bounded() {
        assert_eq!(DatabaseName::new("orders").unwrap().as_str(), "orders");
        let refused = DatabaseName::new("").unwrap_err();
        assert_eq!(refused.to_string(), "a database's name has 1 to 128 bytes of UTF-8, not 0");
        assert!(DatabaseName::new(&"x".repeat(129)).is_err());
    }
}
