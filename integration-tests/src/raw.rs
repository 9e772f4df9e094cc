//! Sessions that speak the protocol themselves, many of them over few
//! connections: thousands of nodes at the price of their messages. They keep
//! every token that they get, in use, and come back when their stream ends.
//! Knows the messages, and nothing of connections to databases.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold_proto::v1::{
    Allotment, Claim, Demand, Hello, KeepAlive, NodeMessage, ServerMessage, Welcome,
    lease_service_client::LeaseServiceClient, node_message, server_message,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{
    Status, Streaming,
    transport::{Channel, Endpoint},
};

/// Sessions that share one connection; the server bounds the streams of one.
const SESSIONS_A_CONNECTION: usize = 2_000;
/// Pause before a stream that ended is opened again, up to twice as long. It
/// doubles with each attempt in vain, as that of real nodes does: thousands that
/// knock without a break would take the processors from the server that starts.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, up to twice as long.
const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// Messages that may wait to be sent.
const OUTGOING: usize = 8;

/// What each session has and wants at first.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Tokens that it claims at its first Hello, as if from an earlier server.
    pub claims: u32,
    /// Tasks that wait for a token each.
    pub waiting: u32,
}

/// Many sessions; they vanish when dropped.
#[derive(Debug)]
pub struct Crowd {
    members: Vec<Arc<Member>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Member {
    session: Vec<u8>,
    name: String,
    databases: Vec<String>,
    levels: Mutex<Levels>,
    welcomes: AtomicU32,
}

/// The same for each of its databases would say nothing more, so waiting tasks
/// want the first.
#[derive(Clone, Debug)]
struct Levels {
    holding: Vec<u32>,
    waiting: u32,
    generation: u64,
}

impl Crowd {
    /// As many sessions as `count`, that all use `databases` and have a `share`
    /// of the first. Returns before they are welcome.
    pub fn gather(server: &str, databases: &[&str], count: usize, share: Share) -> Self {
        let mut tasks = JoinSet::new();
        let mut members = Vec::with_capacity(count);
        let mut channel = None;
        for number in 0..count {
            if number % SESSIONS_A_CONNECTION == 0 {
                let endpoint = Endpoint::from_shared(server.to_owned()).expect("the server's URL");
                channel = Some(endpoint.connect_lazy());
            }
            let mut holding = vec![0; databases.len()];
            holding[0] = share.claims;
            let member = Arc::new(Member {
                session: (0..16).map(|_| fastrand::u8(..)).collect(),
                name: format!("crowd-{number}"),
                databases: databases.iter().map(|name| (*name).to_owned()).collect(),
                levels: Mutex::new(Levels { holding, waiting: share.waiting, generation: 0 }),
                welcomes: AtomicU32::new(0),
            });
            tasks.spawn(Arc::clone(&member).live(channel.clone().expect("a channel")));
            members.push(member);
        }
        Self { members, _tasks: tasks }
    }

    /// Tokens that they hold of their first database, added up.
    pub fn holding(&self) -> u32 {
        self.members.iter().map(|member| member.levels(|levels| levels.holding[0])).sum()
    }

    /// Tasks of theirs that wait.
    pub fn waiting(&self) -> u32 {
        self.members.iter().map(|member| member.levels(|levels| levels.waiting)).sum()
    }

    /// How many sessions were welcomed by a server of this `generation`.
    pub fn welcomed_by(&self, generation: u64) -> usize {
        let welcomed = |member: &&Arc<Member>| member.levels(|levels| levels.generation) == generation;
        self.members.iter().filter(welcomed).count()
    }

    /// How often sessions were welcomed, added up.
    pub fn welcomes(&self) -> u32 {
        self.members.iter().map(|member| member.welcomes.load(Ordering::Relaxed)).sum()
    }
}

impl Member {
    fn levels<T>(&self, look: impl FnOnce(&mut Levels) -> T) -> T {
        look(&mut self.levels.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn live(self: Arc<Self>, channel: Channel) {
        let mut pause = PAUSE;
        loop {
            let welcomes = self.welcomes.load(Ordering::Relaxed);
            // How it ended is all the same: the session goes on.
            let _ended = self.stream(channel.clone()).await;
            if self.welcomes.load(Ordering::Relaxed) > welcomes {
                pause = PAUSE;
            }
            tokio::time::sleep(pause.mul_f64(1.0 + fastrand::f64())).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    async fn stream(&self, channel: Channel) -> Result<(), Status> {
        let (messages, outgoing) = mpsc::channel(OUTGOING);
        send(&messages, self.hello()).await;
        let mut leases = LeaseServiceClient::new(channel);
        let mut replies = leases.session(ReceiverStream::new(outgoing)).await?.into_inner();
        let welcome = self.welcomed(&mut replies).await?;
        for (index, terms) in welcome.databases.iter().enumerate() {
            send(&messages, node_message::Kind::Demand(self.demand(index, terms.sequence))).await;
        }
        let mut rhythm = tokio::time::interval(Duration::from_millis(welcome.keep_alive_ms));
        let mut id = 0;
        loop {
            tokio::select! {
                _due = rhythm.tick() => {
                    id += 1;
                    send(&messages, node_message::Kind::KeepAlive(KeepAlive { id })).await;
                }
                reply = replies.next() => match reply.transpose()?.and_then(|reply| reply.kind) {
                    Some(server_message::Kind::Allotment(allotment)) => {
                        let demand = self.take(&allotment);
                        send(&messages, node_message::Kind::Demand(demand)).await;
                    }
                    Some(server_message::Kind::KeepAlive(_)) => {}
                    Some(server_message::Kind::Welcome(_) | server_message::Kind::Gone(_)) | None => return Ok(()),
                }
            }
        }
    }

    fn hello(&self) -> node_message::Kind {
        let claim = |index: usize| {
            let database = self.databases[index].clone();
            Claim { database, demand: Some(self.demand(index, 0)) }
        };
        node_message::Kind::Hello(Hello {
            session: self.session.clone(),
            node: self.name.clone(),
            workload: String::new(),
            claims: (0..self.databases.len()).map(claim).collect(),
            generation: self.levels(|levels| levels.generation),
            client: "raw".to_owned(),
        })
    }

    async fn welcomed(&self, replies: &mut Streaming<ServerMessage>) -> Result<Welcome, Status> {
        match replies.next().await.transpose()?.and_then(|reply| reply.kind) {
            Some(server_message::Kind::Welcome(welcome)) => {
                self.levels(|levels| levels.generation = welcome.generation);
                self.welcomes.fetch_add(1, Ordering::Relaxed);
                Ok(welcome)
            }
            other => Err(Status::aborted(format!("no Welcome but {other:?}"))),
        }
    }

    /// Serves as many waiting tasks as there are more tokens. All are in use,
    /// so that none can be recalled.
    fn take(&self, allotment: &Allotment) -> Demand {
        let index = self.databases.iter().position(|name| *name == allotment.database);
        let index = index.expect("an allotment of a database that was claimed");
        self.levels(|levels| {
            let more = allotment.tokens.saturating_sub(levels.holding[index]);
            levels.holding[index] += more;
            assert!(more <= levels.waiting, "{more} tokens more for {} waiting tasks", levels.waiting);
            levels.waiting -= more;
        });
        self.demand(index, allotment.sequence)
    }

    fn demand(&self, index: usize, acknowledged: u64) -> Demand {
        let (holding, all_waiting) = self.levels(|levels| (levels.holding[index], levels.waiting));
        let waiting = if index == 0 { all_waiting } else { 0 };
        Demand {
            database: self.databases[index].clone(),
            acknowledged,
            holding,
            established: holding,
            in_use: holding,
            waiting,
            wanted: holding + waiting,
            ..Demand::default()
        }
    }
}

async fn send(messages: &mpsc::Sender<NodeMessage>, kind: node_message::Kind) {
    // Whoever has gone away shows on the other half of the stream.
    let _ = messages.send(NodeMessage { kind: Some(kind) }).await;
}
