//! TCP connections as both ports take them: only so many at a time, and none that
//! is silent for too long. Somebody who connects and says nothing costs a file and
//! some memory, and without a bound enough of them would keep nodes out. Knows
//! nothing of what is said.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, Sleep, sleep, sleep_until},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tracing::{debug, info, warn};

/// Pause after the operating system has refused a connection, for want of files
/// most likely: some will end meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection that was silent for too long is looked at once more after this. A
/// server that stood still finds its timers over before it finds what has come in
/// the meantime.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// What one port takes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// What the port is for, in the log.
    pub port: &'static str,
    /// Most connections at a time. Further ones wait until others end.
    pub connections: usize,
    /// A connection ends when the other side has said nothing for so long.
    pub silence: Duration,
}

/// Where connections come from.
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    places: Arc<Semaphore>,
    bounds: Bounds,
}

impl Connections {
    /// Takes them from a listener.
    pub fn new(listener: TcpListener, bounds: Bounds) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(bounds.connections)), bounds }
    }

    /// The next one, and where it comes from.
    ///
    /// # Panics
    ///
    /// Never: nobody closes the semaphore.
    pub async fn next(&mut self) -> (Connection, SocketAddr) {
        let Bounds { port, connections, silence } = self.bounds;
        if self.places.available_permits() == 0 {
            warn!(port, connections, "as many connections as may be: further ones wait until others end");
        }
        let place = Arc::clone(&self.places).acquire_owned().await.expect("nobody closes it");
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Answers are small and awaited. If it is refused, they are slower.
                    let _ = stream.set_nodelay(true);
                    return (Connection::new(stream, peer, port, silence, place), peer);
                }
                Err(error) if ended_before(&error) => debug!(port, %error, "connection ended at once"),
                Err(error) => {
                    warn!(port, %error, "connections are refused");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// All of them, until the receiver is dropped; then nobody listens any more.
    pub fn into_stream(mut self) -> ReceiverStream<io::Result<Connection>> {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    (connection, _) = self.next() => drop(sender.send(Ok(connection)).await),
                    () = sender.closed() => return,
                }
            }
        });
        ReceiverStream::new(receiver)
    }
}

/// For the pages.
impl axum::serve::Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        self.next().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The other side went away while it waited: no fault of this machine.
fn ended_before(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionRefused, ConnectionAborted, ConnectionReset].contains(&error.kind())
}

/// One connection.
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    port: &'static str,
    silence: Duration,
    heard: Instant,
    /// Looks at `heard`. Moved only when it is over: a busy connection reads
    /// thousands of times meanwhile.
    look: Pin<Box<Sleep>>,
    /// The look was over once, and nothing was heard since.
    looked: bool,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(
        stream: TcpStream,
        peer: SocketAddr,
        port: &'static str,
        silence: Duration,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let heard = Instant::now();
        let look = Box::pin(sleep_until(heard + silence));
        Self { stream, peer, port, silence, heard, look, looked: false, _place: place }
    }

    /// Ready when it was silent for too long.
    fn poll_silent(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.look.as_mut().poll(context));
            let now = Instant::now();
            let end = self.heard + self.silence;
            let next = match (end <= now, self.looked) {
                (true, true) => return Poll::Ready(()),
                (true, false) => now + SECOND_LOOK,
                (false, _) => end,
            };
            self.looked = end <= now;
            self.look.as_mut().reset(next);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, port, .. } = self;
        f.debug_struct("Connection").field("port", port).field("peer", peer).finish_non_exhaustive()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            (self.heard, self.looked) = (Instant::now(), false);
            return Poll::Ready(read);
        }
        ready!(self.poll_silent(context));
        let Self { peer, port, silence, .. } = &*self;
        info!(port, %peer, ?silence, "connection closed: nothing was heard on it for too long");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const BOUNDS: Bounds = Bounds { port: "test", connections: 2, silence: Duration::from_secs(30) };

    async fn connections() -> (Connections, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        (Connections::new(listener, BOUNDS), address)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_it_is_silent_and_not_before() {
        let (mut connections, address) = connections().await;
        let mut other = TcpStream::connect(address).await.expect("a connection");
        let (mut connection, _) = connections.next().await;
        let start = Instant::now();
        let mut said = [0];
        for _ in 0..4 {
            tokio::time::advance(BOUNDS.silence / 2).await;
            other.write_all(b"x").await.expect("it is said");
            connection.read_exact(&mut said).await.expect("it is heard");
        }
        assert!(start.elapsed() >= BOUNDS.silence * 2);
        let heard = Instant::now();
        let error = connection.read(&mut said).await.expect_err("it is silent");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let silent = heard.elapsed();
        assert!(silent >= BOUNDS.silence && silent < BOUNDS.silence * 2, "{silent:?}");
    }

    #[tokio::test]
    async fn one_too_many_waits_until_another_ends() {
        let (mut connections, address) = connections().await;
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(TcpStream::connect(address).await.expect("a connection"));
        }
        let (first, _) = connections.next().await;
        let _second = connections.next().await;
        let third = tokio::spawn(async move { connections.next().await });
        tokio::task::yield_now().await;
        assert!(!third.is_finished());
        drop(first);
        third.await.expect("it comes now");
    }
}
