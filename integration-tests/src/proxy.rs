//! A TCP proxy on 127.0.0.1 that misbehaves when told to: it delays, stalls in
//! one direction or both, and cuts. Counts who comes through. Knows nothing of
//! what it carries.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp},
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::wait::now;

/// Largest piece that is carried at once.
const PIECE: usize = 64 << 10;
/// Pieces of one direction that may be under way.
const UNDER_WAY: usize = 256;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From whoever connects to whoever is connected to.
    Requests,
    /// Back.
    Replies,
}

/// How it behaves now.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    /// How long each piece is under way, in each direction.
    delay: Duration,
    requests_stall: bool,
    replies_stall: bool,
    /// Connections accepted before the last cut are dropped.
    cuts: u64,
}

impl Manner {
    fn stalls(&self, direction: Direction) -> bool {
        match direction {
            Direction::Requests => self.requests_stall,
            Direction::Replies => self.replies_stall,
        }
    }
}

/// A running proxy; it ends, and cuts all connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    manner: watch::Sender<Manner>,
    tally: Arc<Tally>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Tally {
    arrivals: Mutex<Vec<Instant>>,
    carried: AtomicU64,
}

impl Proxy {
    /// Starts one that carries everything to `target` at once.
    pub fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let (manner, manners) = watch::channel(Manner::default());
        let tally = Arc::<Tally>::default();
        let (sender, accepted) = mpsc::unbounded_channel();
        let counted = Arc::clone(&tally);
        // Among crowds of tasks an accept would wait for its turn, and all that came
        // meanwhile would seem to come at once.
        thread::spawn(move || accept(&listener, &counted, &sender));
        let accepting = tokio::spawn(serve(accepted, target, manners, Arc::clone(&tally)));
        Self { address, manner, tally, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL of a Leasehold server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Delays everything that comes from now on by so long, each way.
    pub fn delay(&self, delay: Duration) {
        self.manner.send_modify(|manner| manner.delay = delay);
    }

    /// Carries nothing in one direction until `flow`. Connections stay open.
    pub fn stall(&self, direction: Direction) {
        self.manner.send_modify(|manner| match direction {
            Direction::Requests => manner.requests_stall = true,
            Direction::Replies => manner.replies_stall = true,
        });
    }

    /// Carries on in both directions, with all that has come meanwhile.
    pub fn flow(&self) {
        self.manner.send_modify(|manner| (manner.requests_stall, manner.replies_stall) = (false, false));
    }

    /// Drops every connection and what was under way on it.
    pub fn cut(&self) {
        self.manner.send_modify(|manner| manner.cuts += 1);
    }

    /// When each connection came.
    pub fn arrivals(&self) -> Vec<Instant> {
        self.tally.arrivals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes that came back from the target so far, stalled ones included.
    pub fn came_back(&self) -> u64 {
        self.tally.carried.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
        // The thread looks whether somebody still listens when the next one comes.
        drop(std::net::TcpStream::connect(self.address));
    }
}

/// Notes when each connection comes, until nobody takes them any more.
fn accept(listener: &TcpListener, tally: &Tally, accepted: &mpsc::UnboundedSender<std::net::TcpStream>) {
    while let Ok((near, _)) = listener.accept() {
        tally.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(now());
        if near.set_nonblocking(true).is_err() || accepted.send(near).is_err() {
            return;
        }
    }
}

async fn serve(
    mut accepted: mpsc::UnboundedReceiver<std::net::TcpStream>,
    target: SocketAddr,
    manners: watch::Receiver<Manner>,
    tally: Arc<Tally>,
) {
    while let Some(near) = accepted.recv().await {
        let Ok(near) = TcpStream::from_std(near) else { return };
        let (mut manners, tally) = (manners.clone(), Arc::clone(&tally));
        tokio::spawn(async move {
            let cuts = manners.borrow_and_update().cuts;
            let mut cut = manners.clone();
            tokio::select! {
                // Both ends see the other's end as if there were no proxy.
                _ended = carry(near, target, manners, tally) => {}
                _cut = cut.wait_for(|manner| manner.cuts != cuts) => {}
            }
        });
    }
}

async fn carry(
    near: TcpStream,
    target: SocketAddr,
    manners: watch::Receiver<Manner>,
    tally: Arc<Tally>,
) -> io::Result<()> {
    let far = TcpStream::connect(target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let requests = one_way(near_read, far_write, Direction::Requests, manners.clone(), None);
    let replies = one_way(far_read, near_write, Direction::Replies, manners, Some(&tally.carried));
    tokio::try_join!(requests, replies)?;
    Ok(())
}

async fn one_way(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    direction: Direction,
    mut manners: watch::Receiver<Manner>,
    carried: Option<&AtomicU64>,
) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let delays = manners.clone();
    let read = async move {
        let mut piece = vec![0; PIECE];
        loop {
            let count = from.read(&mut piece).await?;
            if count == 0 {
                return Ok::<(), io::Error>(());
            }
            if let Some(carried) = carried {
                carried.fetch_add(count as u64, Ordering::Relaxed);
            }
            let due = now() + delays.borrow().delay;
            if sender.send((due, piece[..count].to_vec())).await.is_err() {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due.into()).await;
            if manners.wait_for(|manner| !manner.stalls(direction)).await.is_err() {
                return Ok(());
            }
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write)?;
    Ok(())
}
