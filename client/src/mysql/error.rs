//! What can go wrong with a connection, and which refusals only mean "not yet".
//! Knows nothing of pools.

use std::time::Duration;

/// "Too many connections": all of the server's connections are taken.
const TOO_MANY_CONNECTIONS: u16 = 1040;
/// The account has all the connections that the server allows to one account.
const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
/// The account has used up one of its own limits.
const USER_LIMIT_REACHED: u16 = 1226;
/// The one of these limits that frees itself when a connection ends.
const CONNECTIONS_LIMIT: &str = "'max_user_connections'";

/// A failure of the manager.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is no MySQL URL. It is left out, as it may have a password.
    #[error("cannot read the database's URL, expected mysql://USER:PASSWORD@HOST:PORT/DATABASE")]
    Url(#[source] mysql_async::UrlError),

    /// The database refused the connection, or could not be reached.
    #[error("cannot connect to the database at {address}")]
    Connect {
        /// Host and port.
        address: String,
        /// What the driver says.
        source: mysql_async::Error,
    },

    /// The database did not complete the handshake in time.
    #[error("the database at {address} did not complete the handshake within {limit:?}")]
    Handshake {
        /// Host and port.
        address: String,
        /// [`Manager::connect_timeout`](super::Manager::connect_timeout).
        limit: Duration,
    },

    /// A pooled connection could not be made ready for its next user.
    #[error("cannot recycle a connection")]
    Recycle(#[source] mysql_async::Error),
}

impl Error {
    /// The number that the database gave, such as 1040; none when the failure
    /// is not the database's answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Connect { source: mysql_async::Error::Server(answer), .. }
            | Self::Recycle(mysql_async::Error::Server(answer)) => Some(answer.code),
            Self::Url(_) | Self::Connect { .. } | Self::Handshake { .. } | Self::Recycle(_) => None,
        }
    }

    /// Whether the database was only full at this moment. A connection that was
    /// closed can occupy its slot for some tens of milliseconds longer, so a
    /// node that has a token tries again.
    pub fn is_not_yet(&self) -> bool {
        let Self::Connect { source: mysql_async::Error::Server(answer), .. } = self else { return false };
        match answer.code {
            TOO_MANY_CONNECTIONS | TOO_MANY_USER_CONNECTIONS => true,
            // The limits per hour have the same number, and do not end soon.
            USER_LIMIT_REACHED => answer.message.contains(CONNECTIONS_LIMIT),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> Error {
        let answer = mysql_async::ServerError { code, message: message.into(), state: "HY000".into() };
        Error::Connect { address: "db:3306".into(), source: answer.into() }
    }

    #[test]
    fn full_is_not_yet() {
        assert!(refused(1040, "Too many connections").is_not_yet());
        assert!(refused(1203, "User app already has more than 'max_user_connections'").is_not_yet());
        assert!(refused(1226, "User 'app' has exceeded the 'max_user_connections' resource").is_not_yet());
    }

    #[test]
    fn other_refusals_are_final() {
        assert!(
            !refused(1226, "User 'app' has exceeded the 'max_connections_per_hour' resource").is_not_yet()
        );
        assert!(!refused(1045, "Access denied").is_not_yet());
        let handshake = Error::Handshake { address: "db:3306".into(), limit: Duration::from_secs(1) };
        assert!(!handshake.is_not_yet());
    }

    #[test]
    fn the_code_is_the_databases() {
        assert_eq!(refused(1045, "Access denied").code(), Some(1045));
        let lost = Error::Recycle(mysql_async::DriverError::ConnectionClosed.into());
        assert_eq!(lost.code(), None);
    }
}
