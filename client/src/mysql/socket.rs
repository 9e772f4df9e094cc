//! A second look at the socket of a connection: to cut it while somebody else
//! uses the connection, and to see that the server has closed its end. Knows
//! nothing of SQL.
//!
//! `mysql_async` does not hand out its socket. Two facts still lead to it: the
//! debug form of a connection names the file descriptor, and Linux duplicates a
//! descriptor of the own process by its number without unsafe code
//! (`pidfd_getfd`). The socket's inode proves that the number still means the
//! same socket. Where one of the facts fails (another system, a sandbox that
//! forbids the call, a new debug form) there is no socket to look at, and the
//! manager goes by what the database says instead.

use std::{
    fmt,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mysql_async::Conn;

/// Pause between two looks for the peer of a socket that was cut.
const PEER_PAUSE: Duration = Duration::from_millis(5);

/// The name of a connection's socket in this process. Keeps it open only once
/// it was severed.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    descriptor: i32,
    inode: u64,
    severed: Arc<Mutex<Option<Handle>>>,
}

/// What is to be seen of a socket.
#[derive(Debug)]
pub(super) enum Sight {
    /// It is open.
    Open(Handle),
    /// It was severed from this side; the driver may have closed it since.
    Severed(Handle),
    /// The driver has closed it, for what it heard or did not hear.
    Closed,
}

impl Socket {
    /// The socket of `connection`, where the system lets us look at it.
    pub(super) fn of(connection: &Conn) -> Option<Self> {
        let descriptor = descriptor(connection)?;
        let inode = system::inode(&system::duplicate(descriptor)?)?;
        Some(Self { descriptor, inode, severed: Arc::default() })
    }

    /// Cuts it in both directions: whoever uses the connection gets an error at
    /// once, and the server an end of input. No effect when the driver has
    /// closed it.
    pub(super) fn sever(&self) {
        let Some(handle) = self.open() else { return };
        handle.cut();
        *self.severed() = Some(handle);
    }

    /// How it is now.
    pub(super) fn look(&self) -> Sight {
        if let Some(handle) = self.severed().take() {
            return Sight::Severed(handle);
        }
        self.open().map_or(Sight::Closed, Sight::Open)
    }

    /// A handle of its own, if the number still means this socket.
    fn open(&self) -> Option<Handle> {
        let duplicate = system::duplicate(self.descriptor)?;
        (system::inode(&duplicate)? == self.inode).then_some(Handle { duplicate })
    }

    fn severed(&self) -> MutexGuard<'_, Option<Handle>> {
        self.severed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open socket, shared with the connection that made it.
#[derive(Debug)]
pub(super) struct Handle {
    duplicate: system::Duplicate,
}

impl Handle {
    /// Tells the server that nothing more will be sent.
    pub(super) fn end_output(&self) {
        system::shutdown(&self.duplicate, system::Direction::Output);
    }

    /// Reads the rest away, and returns when the server has closed its end.
    pub(super) async fn closed_by_server(self) {
        system::read_to_end(self.duplicate).await;
    }

    /// The same for a socket that was cut, from which nothing can be read: it
    /// has a peer until the server closes too.
    pub(super) async fn abandoned_by_server(self) {
        while system::has_peer(&self.duplicate) {
            tokio::time::sleep(PEER_PAUSE).await;
        }
    }

    fn cut(&self) {
        system::shutdown(&self.duplicate, system::Direction::Both);
    }
}

/// The file descriptor that the connection's debug form names.
fn descriptor(connection: &Conn) -> Option<i32> {
    let mut finder = Finder::default();
    // It stops with an error as soon as the number is complete, and so before
    // the options with the password are written.
    let _stopped = write!(finder, "{connection:?}");
    finder.number()
}

/// Takes what is written up to the end of the first file descriptor.
#[derive(Default)]
struct Finder {
    seen: String,
}

impl Finder {
    /// What stands before the number.
    const MARK: &str = " fd: ";
    /// The debug form of what comes before the socket is shorter.
    const LONGEST: usize = 16 << 10;

    fn number(&self) -> Option<i32> {
        let after = self.seen.find(Self::MARK)? + Self::MARK.len();
        let digits = self.seen[after..].split(|character: char| !character.is_ascii_digit()).next()?;
        digits.parse().ok()
    }

    fn complete(&self) -> bool {
        self.seen.find(Self::MARK).is_some_and(|at| {
            self.seen[at + Self::MARK.len()..].contains(|character: char| !character.is_ascii_digit())
        })
    }
}

impl fmt::Write for Finder {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.seen.push_str(text);
        let stop = self.seen.len() > Self::LONGEST || self.complete();
        if stop { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(target_os = "linux")]
mod system {
    //! The three system calls.

    use std::{
        fs::File,
        os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    };

    use rustix::{
        net::Shutdown,
        process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
    };
    use tokio::{io::AsyncReadExt as _, net::TcpStream};

    /// Bytes read away at once.
    const CHUNK: usize = 4096;

    pub(super) type Duplicate = File;

    #[derive(Clone, Copy)]
    pub(super) enum Direction {
        Output,
        Both,
    }

    pub(super) fn duplicate(descriptor: i32) -> Option<Duplicate> {
        let this_process = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
        let duplicate: OwnedFd = pidfd_getfd(this_process, descriptor, PidfdGetfdFlags::empty()).ok()?;
        Some(File::from(duplicate))
    }

    pub(super) fn inode(duplicate: &Duplicate) -> Option<u64> {
        duplicate.metadata().ok().map(|metadata| metadata.ino())
    }

    pub(super) fn shutdown(duplicate: &Duplicate, direction: Direction) {
        let direction = match direction {
            Direction::Output => Shutdown::Write,
            Direction::Both => Shutdown::Both,
        };
        // It fails when the socket is no longer connected, which is the aim.
        let _not_connected = rustix::net::shutdown(duplicate, direction);
    }

    pub(super) fn has_peer(duplicate: &Duplicate) -> bool {
        rustix::net::getpeername(duplicate).is_ok()
    }

    /// Returns at the end of input or an error: in both cases the server has
    /// closed its end. The driver made the socket non-blocking.
    pub(super) async fn read_to_end(duplicate: Duplicate) {
        // Only read from, which is the same for a Unix socket.
        let socket = std::net::TcpStream::from(OwnedFd::from(duplicate));
        let Ok(mut socket) = TcpStream::from_std(socket) else { return };
        let mut rest = [0; CHUNK];
        while let Ok(1..) = socket.read(&mut rest).await {}
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! Other systems do not lead from a number to a socket.

    pub(super) enum Direction {
        Output,
        Both,
    }

    /// Cannot exist.
    #[derive(Debug)]
    pub(super) enum Duplicate {}

    pub(super) fn duplicate(_descriptor: i32) -> Option<Duplicate> {
        None
    }

    pub(super) fn inode(duplicate: &Duplicate) -> Option<u64> {
        match *duplicate {}
    }

    pub(super) fn shutdown(duplicate: &Duplicate, _direction: Direction) {
        match *duplicate {}
    }

    pub(super) fn has_peer(duplicate: &Duplicate) -> bool {
        match *duplicate {}
    }

    pub(super) async fn read_to_end(duplicate: Duplicate) {
        match duplicate {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finder_stops_at_the_end_of_the_number() {
        let mut finder = Finder::default();
        let socket = "Stream (endpoint=Plain(Some(TcpStream { addr: 127.0.0.1:1, fd: 42 })))";
        let options = "secret";
        assert!(write!(finder, "Conn {{ id: {}, {socket}, options: {options} }}", 7).is_err());
        assert_eq!(finder.number(), Some(42));
        assert!(!finder.seen.contains("secret"));
    }

    #[test]
    fn the_finder_finds_nothing_in_another_form() {
        let mut finder = Finder::default();
        assert!(write!(finder, "Conn {{ id: 7, stream: None }}").is_ok());
        assert_eq!(finder.number(), None);
    }
}
