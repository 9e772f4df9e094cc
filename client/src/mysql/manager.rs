//! The manager: opens, recycles and closes connections as a pool asks. Knows
//! nothing of tokens.

use std::{fmt, sync::Once, time::Duration};

use deadpool::managed::{self, Metrics, RecycleResult};
use mysql_async::{ChangeUserOpts, Conn, Opts, OptsBuilder, prelude::Queryable as _};
use tokio::time::timeout;
use tracing::warn;

use super::{
    connection::{Condition, Connection},
    error::Error,
};

/// Default of [`Manager::connect_timeout`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a connection is made ready for its next user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recycle {
    /// By `COM_RESET_CONNECTION`: transactions, locks, temporary tables,
    /// prepared statements, user and session variables of the user before are
    /// gone. About as fast as a ping.
    #[default]
    Reset,
    /// By `COM_PING`: only shows that the server is there. Keeps prepared
    /// statements, and whatever else the user before left behind.
    Ping,
    /// By a look at what the driver knows, without a word to the server. For users
    /// that leave connections as they found them, and try again a first query that
    /// finds its connection closed.
    Fast,
}

/// Manages connections to one MySQL or MariaDB server.
pub struct Manager {
    options: Opts,
    recycle: Recycle,
    connect_timeout: Duration,
    /// Done when the log has said that sockets cannot be looked at.
    blind: Once,
}

impl Manager {
    /// A manager for the server that `options` name.
    ///
    /// [`prefer_socket`](OptsBuilder::prefer_socket) is switched off: with it
    /// the driver opens a second connection before it closes the first, two
    /// slots for one token.
    pub fn new(options: impl Into<Opts>) -> Self {
        Self {
            options: OptsBuilder::from_opts(options.into()).prefer_socket(false).into(),
            recycle: Recycle::default(),
            connect_timeout: CONNECT_TIMEOUT,
            blind: Once::new(),
        }
    }

    /// A manager for the server at `url`:
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS`.
    ///
    /// Errors: [`Error::Url`] when `url` is none. See [`mysql_async::Opts`] for
    /// the options.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        Opts::from_url(url).map(Self::new).map_err(Error::Url)
    }

    /// How connections are recycled. Default: [`Recycle::Reset`].
    #[must_use]
    pub fn recycle_by(mut self, recycle: Recycle) -> Self {
        self.recycle = recycle;
        self
    }

    /// Longest time from the start of a connect to a connection that can be
    /// used: TCP, handshake, login and the driver's first questions. A pool's
    /// create timeout is about all attempts together. Default: 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Says it once, for it weakens what a fence can do.
    fn tell_of_blindness(&self, connection: &Connection) {
        if connection.socket().is_none() {
            self.blind.call_once(|| {
                let address = self.address();
                warn!(
                    address,
                    "this system does not let connections be watched or severed, see docs/client.md"
                );
            });
        }
    }

    fn address(&self) -> String {
        format!("{}:{}", self.options.ip_or_hostname(), self.options.tcp_port())
    }
}

/// Ends whatever the user before left open.
pub(super) async fn reset(connection: &mut Conn) -> mysql_async::Result<()> {
    let supported = match connection.reset().await {
        // The last of several statements had failed, and nobody had read that:
        // the driver tells it now, and has sent nothing yet.
        Err(mysql_async::Error::Server(_)) => connection.reset().await?,
        outcome => outcome?,
    };
    if !supported {
        // Servers before MySQL 5.7.3 and MariaDB 10.2.4.
        connection.change_user(ChangeUserOpts::default()).await?;
    }
    Ok(())
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection, Error> {
        let connect = async { Connection::open(Conn::new(self.options.clone()).await?).await };
        match timeout(self.connect_timeout, connect).await {
            Ok(Ok(connection)) => {
                self.tell_of_blindness(&connection);
                Ok(connection)
            }
            Ok(Err(source)) => Err(Error::Connect { address: self.address(), source }),
            Err(_elapsed) => Err(Error::Handshake { address: self.address(), limit: self.connect_timeout }),
        }
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        // Before anything is sent: see `Condition::Lost`.
        if connection.condition() == Condition::Lost {
            return Err(managed::RecycleError::message("a command on it was cut off"));
        }
        match self.recycle {
            Recycle::Reset => reset(connection).await,
            Recycle::Ping => connection.ping().await,
            Recycle::Fast => return Ok(()),
        }
        .map_err(|source| Error::Recycle(source).into())
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The driver's options have the password in them.
        formatter
            .debug_struct("Manager")
            .field("address", &self.address())
            .field("recycle", &self.recycle)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "mysql://app:s3cret@db.example:3307/shop?prefer_socket=true";

    #[test]
    fn no_debug_form_has_the_password() {
        let manager = Manager::from_url(URL).expect("a URL");
        let debug = format!("{manager:?}");
        assert!(debug.contains("db.example:3307") && !debug.contains("s3cret"), "{debug}");
    }

    #[test]
    fn a_second_connection_over_a_socket_is_never_made() {
        assert!(!Manager::from_url(URL).expect("a URL").options.prefer_socket());
        assert!(!Manager::new(OptsBuilder::default()).options.prefer_socket());
    }

    #[test]
    fn what_is_no_url_is_refused_without_repeating_it() {
        let error = Manager::from_url("postgres://app:s3cret@db/").expect_err("another scheme");
        let said = format!("{error} {error:?}");
        assert!(said.contains("mysql://USER") && !said.contains("s3cret"), "{said}");
    }
}
