//! A pooled connection: the driver's, with what the manager must know of it
//! when it comes back. Knows nothing of pools.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use mysql_async::{Conn, QueryResult, TextProtocol, consts::StatusFlags, prelude::Queryable as _};

use super::socket::Socket;

/// What tells the database's servers apart, so that no thread is killed on
/// another server of the same address. Privileges: none.
const WHO_ARE_YOU: &str = "SELECT CONNECTION_ID(), CONCAT_WS('/', @@hostname, @@port, @@server_id)";

/// A connection from a pool. It is a [`mysql_async::Conn`] to its user.
pub struct Connection {
    driver: Conn,
    thread: Thread,
    socket: Option<Socket>,
}

/// In which state a connection came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing is open on it: it can go to its next user at once.
    Clean,
    /// It may hold an open transaction or unread rows: it must be reset.
    Unsettled,
    /// A command was cut off, or the socket failed. Its next answer would be
    /// that command's, and the server may still work on it.
    Lost,
}

/// A connection as its server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    /// The server's number for it.
    pub(super) id: u32,
    /// Which server; none when a proxy stands between, whose numbers are not
    /// the server's.
    pub(super) server: Option<Arc<str>>,
}

impl Thread {
    /// Whether `other`'s server is this one's for certain, so that the number
    /// means the same there.
    pub(super) fn is_on_server_of(&self, other: &Self) -> bool {
        self.server.is_some() && self.server == other.server
    }
}

impl Connection {
    /// Takes over a fresh connection, after asking it which server it leads to.
    pub(super) async fn open(mut driver: Conn) -> mysql_async::Result<Self> {
        let id = driver.id();
        let answer: Option<(u64, String)> = driver.query_first(WHO_ARE_YOU).await?;
        let server = answer.and_then(|(seen, server)| (seen == u64::from(id)).then(|| Arc::from(server)));
        let socket = Socket::of(&driver);
        Ok(Self { driver, thread: Thread { id, server }, socket })
    }

    /// In which state it is now. Only looks, and asks the database nothing.
    pub fn condition(&mut self) -> Condition {
        // First of all: this is set while a command runs, and stays set when
        // its future is dropped. A ping or a reset would clear it.
        if self.driver.is_disconnected() || self.driver.id() != self.thread.id {
            Condition::Lost
        } else if self.rows_unread() || !self.known_to_be_at_rest() {
            Condition::Unsettled
        } else {
            Condition::Clean
        }
    }

    /// The number that the server gave this connection.
    pub(super) fn thread(&self) -> &Thread {
        &self.thread
    }

    pub(super) fn socket(&self) -> Option<&Socket> {
        self.socket.as_ref()
    }

    pub(super) fn into_driver(self) -> Conn {
        self.driver
    }

    fn rows_unread(&mut self) -> bool {
        !QueryResult::<'_, '_, TextProtocol>::new(&mut self.driver).is_empty()
    }

    /// Whether the server's last word was that no transaction is open.
    ///
    /// After an error it said nothing of transactions. After a bare prepare the
    /// driver reads nonsense as its status, which rarely has `AUTOCOMMIT` set;
    /// a session without `AUTOCOMMIT` is not as it was lent out in any case.
    fn known_to_be_at_rest(&self) -> bool {
        self.driver.last_ok_packet().is_some_and(|answer| {
            let status = answer.status_flags();
            status.contains(StatusFlags::SERVER_STATUS_AUTOCOMMIT)
                && !status.contains(StatusFlags::SERVER_STATUS_IN_TRANS)
        })
    }
}

impl Deref for Connection {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.driver
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.driver
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The driver's own debug form has the password in it.
        formatter.debug_struct("Connection").field("thread", &self.thread.id).finish_non_exhaustive()
    }
}
