//! Why a stream was lost, in words for people. Knows nothing of what follows.

use super::CONNECT_PATIENCE;
use super::message::Generation;

/// Why an endpoint or a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No connection came about in time.
    #[error("no connection within {} s", CONNECT_PATIENCE.as_secs())]
    Unreachable,
    /// The stream ended or could not be opened; the transport's or the
    /// server's reason.
    #[error("{0}")]
    Ended(String),
    /// No Welcome came in time.
    #[error("the Hello was not answered in time")]
    HelloUnanswered,
    /// A keep-alive was not answered in time.
    #[error("a keep-alive was not answered in time")]
    KeepAliveUnanswered,
    /// The server did not end the stream after the Goodbye.
    #[error("the Goodbye was not answered in time")]
    GoodbyeUnanswered,
    /// The transport did not take a message in time.
    #[error("the server does not read what it is sent")]
    Stalled,
    /// A server from the past answered, such as a former leader.
    #[error("the server is of generation {offered}, but {known} has welcomed this session before")]
    OlderGeneration {
        /// The generation of the refused Welcome.
        offered: Generation,
        /// The highest known.
        known: Generation,
    },
    /// The server said what the protocol does not allow.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The session had expired or was evicted; the server's reason.
    #[error("the session was gone: {0}")]
    Gone(String),
}

impl Fault {
    /// Whether the connection below the stream is still good.
    pub(super) fn leaves_connection(&self) -> bool {
        match self {
            Self::Gone(_) => true,
            Self::Unreachable
            | Self::Ended(_)
            | Self::HelloUnanswered
            | Self::KeepAliveUnanswered
            | Self::GoodbyeUnanswered
            | Self::Stalled
            | Self::OlderGeneration { .. }
            | Self::Protocol(_) => false,
        }
    }
}
