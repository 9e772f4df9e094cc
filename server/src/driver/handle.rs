//! How the rest of the server speaks to the driver. Whoever opens a stream or
//! starts a call holds a guard; dropping it tells the driver that it is over.
//! Knows nothing of the core's decisions.
//!
//! Everything goes through one bounded queue, in order. The place for the end
//! of each stream and call is reserved when it begins, so that a drop, which
//! cannot wait, always finds room.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_admission::{
    Acquire, Claim, DatabaseId, Demand, Event, Explanation, Hello, Observation, ReleaseTarget, SessionId,
    SessionView, StreamId, Ticket, UnaryReply,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
    time::{Instant, timeout},
};

use super::input::{
    AdminAction, AdminRefusal, AdminReply, Call, Health, Input, Look, Outgoing, Place, Snapshot, Subject,
};
use crate::{
    clock::Clock,
    probe::{self, Counts, Report},
};

/// Most streams at a time.
pub const STREAMS: usize = 20_000;
/// Most unary calls at a time.
pub const CALLS: usize = 20_000;
/// Inputs that may wait for the driver, beside the ends of streams and calls.
pub const INPUTS: usize = 8_192;
/// Looks that may wait for the driver; further ones wait before its door.
pub const LOOKS: usize = 256;
/// Messages that may wait for one node. One that takes them more slowly is
/// disconnected, and comes back.
pub const OUTGOING: usize = 256;
/// Longest time that a call waits for the driver's answer, once it need not
/// wait for tokens any more.
pub const ANSWER: Duration = Duration::from_secs(10);

/// Why the driver did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The server stops.
    #[error("the server is stopping")]
    Stopped,
    /// There is a bound for what it serves at a time.
    #[error("too many {what} at a time, at most {bound}")]
    TooMany {
        /// "streams" or "calls".
        what: &'static str,
        /// The bound.
        bound: usize,
    },
    /// It did not answer in time: the store may be slow.
    #[error("no answer within {} s", ANSWER.as_secs())]
    Late,
}

/// Speaks to the driver. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DriverHandle {
    inputs: mpsc::Sender<Input>,
    looks: mpsc::Sender<Look>,
    shared: Arc<Shared>,
}

/// Where the driver finds what the handles send.
pub(super) struct Queues {
    pub(super) inputs: mpsc::Receiver<Input>,
    pub(super) looks: mpsc::Receiver<Look>,
}

#[derive(Debug)]
struct Shared {
    names: Vec<Arc<str>>,
    generation: u64,
    clock: Clock,
    health: watch::Receiver<Health>,
    next: AtomicU64,
    streams: Arc<Semaphore>,
    calls: Arc<Semaphore>,
}

impl DriverHandle {
    pub(super) fn new(
        names: Vec<Arc<str>>,
        generation: u64,
        clock: Clock,
        health: watch::Receiver<Health>,
    ) -> (DriverHandle, Queues) {
        let (inputs, taken_inputs) = mpsc::channel(INPUTS + STREAMS + CALLS);
        let (looks, taken_looks) = mpsc::channel(LOOKS);
        let shared = Shared {
            names,
            generation,
            clock,
            health,
            next: AtomicU64::new(1),
            streams: Arc::new(Semaphore::new(STREAMS)),
            calls: Arc::new(Semaphore::new(CALLS)),
        };
        let queues = Queues { inputs: taken_inputs, looks: taken_looks };
        (DriverHandle { inputs, looks, shared: Arc::new(shared) }, queues)
    }

    /// Number of the server's incarnation.
    pub fn generation(&self) -> u64 {
        self.shared.generation
    }

    /// The id of a database by its name.
    pub fn database(&self, name: &str) -> Option<DatabaseId> {
        let index = self.shared.names.iter().position(|known| &**known == name)?;
        Some(DatabaseId(index as u32))
    }

    /// The name of a database.
    pub fn database_name(&self, database: DatabaseId) -> &Arc<str> {
        &self.shared.names[database.0 as usize]
    }

    /// How the driver does, now and later.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.shared.health.clone()
    }

    /// Opens a stream for a session. What the node is told comes out of the
    /// receiver whose sender is given here.
    ///
    /// # Errors
    ///
    /// Too many streams, or the server stops.
    pub async fn open_stream(
        &self,
        hello: HelloMessage,
        outgoing: mpsc::Sender<Outgoing>,
    ) -> Result<StreamGuard, Unanswered> {
        let bound = Unanswered::TooMany { what: "streams", bound: STREAMS };
        let place = Arc::clone(&self.shared.streams).try_acquire_owned().map_err(|_| bound)?;
        let end = self.reserve_end().await?;
        let stream = StreamId(self.next());
        let HelloMessage { session, node, workload, claims, places } = hello;
        let hello = Hello { stream, session, node, workload, claims };
        // From here on the guard tells of the end, also if this future is dropped.
        let guard = StreamGuard { stream, inputs: self.inputs.clone(), end: Some(end), _place: place };
        self.send(Input::Open { hello, places, outgoing }).await?;
        Ok(guard)
    }

    /// Asks for tokens and waits for them, at most `max_wait`. Dropping the
    /// future takes the call back.
    ///
    /// # Errors
    ///
    /// Too many calls, or the server stops or is too slow.
    pub async fn acquire(&self, call: AcquireCall, max_wait: Duration) -> Result<UnaryReply, Unanswered> {
        let deadline = Instant::now() + max_wait;
        let mut guard = self.begin_call().await?;
        let AcquireCall { request, node, workload, database, tokens } = call;
        let acquire = Acquire { ticket: guard.ticket, request, node, workload, database, tokens };
        let mut answer = guard.start(Call::Acquire(acquire)).await?;
        if let Ok(answered) = tokio::time::timeout_at(deadline, &mut answer).await {
            return guard.answered(answered);
        }
        // The answer may be under way: the driver decides which was first.
        self.send(Input::CallEnded { ticket: guard.ticket, timed_out: true }).await?;
        let answered = timeout(ANSWER, answer).await.map_err(|_| Unanswered::Late)?;
        guard.answered(answered)
    }

    /// Prolongs a lease.
    ///
    /// # Errors
    ///
    /// As [`DriverHandle::acquire`].
    pub async fn renew(&self, lease: SessionId, node: Arc<str>) -> Result<UnaryReply, Unanswered> {
        let mut guard = self.begin_call().await?;
        let answer = guard.start(Call::Renew { ticket: guard.ticket, lease, node }).await?;
        guard.answered(timeout(ANSWER, answer).await.map_err(|_| Unanswered::Late)?)
    }

    /// Gives a lease back.
    ///
    /// # Errors
    ///
    /// As [`DriverHandle::acquire`].
    pub async fn release(&self, target: ReleaseTarget, node: Arc<str>) -> Result<UnaryReply, Unanswered> {
        let mut guard = self.begin_call().await?;
        let answer = guard.start(Call::Release { ticket: guard.ticket, target, node }).await?;
        guard.answered(timeout(ANSWER, answer).await.map_err(|_| Unanswered::Late)?)
    }

    /// Changes something for an operator; `who` is for the audit log. The answer comes when it is durable.
    ///
    /// # Errors
    ///
    /// The server stops or is too slow; then the change may have been done.
    pub async fn admin(
        &self,
        action: AdminAction,
        who: String,
    ) -> Result<Result<AdminReply, AdminRefusal>, Unanswered> {
        let (reply, answer) = oneshot::channel();
        self.send(Input::Admin { action, who, reply }).await?;
        answered(answer).await
    }

    /// Everything at this moment.
    ///
    /// # Errors
    ///
    /// The server stops or is too slow.
    pub async fn status(&self) -> Result<Snapshot, Unanswered> {
        self.look(Look::Status).await
    }

    /// All sessions, in the order of their ids.
    ///
    /// # Errors
    ///
    /// The server stops or is too slow.
    pub async fn sessions(&self) -> Result<Vec<SessionView>, Unanswered> {
        self.look(Look::Sessions).await
    }

    /// Why somebody waits, and how many more there are than are explained.
    ///
    /// # Errors
    ///
    /// The server stops or is too slow.
    pub async fn why(&self, subject: Subject) -> Result<(Vec<Explanation>, usize), Unanswered> {
        self.look(|reply| Look::Why(subject, reply)).await
    }

    /// What the probe of a database tells, in its order.
    ///
    /// # Errors
    ///
    /// The server stops.
    pub async fn report(&self, database: DatabaseId, report: Report) -> Result<(), Unanswered> {
        let event = match report {
            Report::Connected { warning } => {
                return self.send(Input::ProbeConnected { database, warning }).await;
            }
            Report::ObservationStarts => Event::ObservationStarts { database },
            Report::Observed(probe::Observation { sent, counts }) => {
                let Counts { max_connections, uptime, fleet, others } = counts;
                let sent = self.shared.clock.at(sent);
                let observation = Observation { sent, max_connections, uptime, fleet, others };
                Event::Observed { database, observation }
            }
            Report::Down { error, watched_elsewhere } => {
                Event::ProbeDown { database, error, watched_elsewhere }
            }
        };
        self.send(Input::Probe(event)).await
    }

    /// Ends the driver: streams and calls end, the store is closed. The driver's
    /// task tells when it is done.
    pub async fn stop(&self) {
        // An error says that it has stopped before.
        let _ = self.send(Input::Stop).await;
    }

    async fn send(&self, input: Input) -> Result<(), Unanswered> {
        self.inputs.send(input).await.map_err(|_| Unanswered::Stopped)
    }

    async fn look<T>(&self, look: impl FnOnce(oneshot::Sender<T>) -> Look) -> Result<T, Unanswered> {
        let (reply, answer) = oneshot::channel();
        self.looks.send(look(reply)).await.map_err(|_| Unanswered::Stopped)?;
        answered(answer).await
    }

    async fn begin_call(&self) -> Result<CallGuard, Unanswered> {
        let bound = Unanswered::TooMany { what: "calls", bound: CALLS };
        let place = Arc::clone(&self.shared.calls).try_acquire_owned().map_err(|_| bound)?;
        let end = self.reserve_end().await?;
        let ticket = Ticket(self.next());
        Ok(CallGuard { ticket, inputs: self.inputs.clone(), end: Some(end), started: false, _place: place })
    }

    async fn reserve_end(&self) -> Result<mpsc::OwnedPermit<Input>, Unanswered> {
        self.inputs.clone().reserve_owned().await.map_err(|_| Unanswered::Stopped)
    }

    fn next(&self) -> u64 {
        self.shared.next.fetch_add(1, Ordering::Relaxed)
    }
}

async fn answered<T>(answer: oneshot::Receiver<T>) -> Result<T, Unanswered> {
    match timeout(ANSWER, answer).await {
        Ok(answered) => answered.map_err(|_| Unanswered::Stopped),
        Err(_) => Err(Unanswered::Late),
    }
}

/// A Hello, checked.
#[derive(Clone, Debug)]
pub struct HelloMessage {
    /// The session that the stream speaks for.
    pub session: SessionId,
    /// Name of the node.
    pub node: Arc<str>,
    /// Workload of the node.
    pub workload: Arc<str>,
    /// One for each known database that the node uses.
    pub claims: Vec<Claim>,
    /// All databases that it named, in its order.
    pub places: Vec<Place>,
}

/// An Acquire, checked.
#[derive(Clone, Debug)]
pub struct AcquireCall {
    /// The request's UUID.
    pub request: SessionId,
    /// Name of the caller.
    pub node: Arc<str>,
    /// Workload of the caller.
    pub workload: Arc<str>,
    /// The database.
    pub database: DatabaseId,
    /// How many tokens.
    pub tokens: u32,
}

/// An open stream. Dropping it ends the stream, not the session.
#[derive(Debug)]
pub struct StreamGuard {
    stream: StreamId,
    inputs: mpsc::Sender<Input>,
    end: Option<mpsc::OwnedPermit<Input>>,
    _place: OwnedSemaphorePermit,
}

impl StreamGuard {
    /// The node reports the levels of one database.
    ///
    /// # Errors
    ///
    /// The server stops.
    pub async fn demand(
        &self,
        database: DatabaseId,
        demand: Demand,
        traceparent: Option<Arc<str>>,
    ) -> Result<(), Unanswered> {
        self.send(Input::Demand { stream: self.stream, database, demand, traceparent }).await
    }

    /// The node is alive.
    ///
    /// # Errors
    ///
    /// The server stops.
    pub async fn keep_alive(&self, id: u64) -> Result<(), Unanswered> {
        let stream = self.stream;
        self.send(Input::OnStream { stream, event: Event::KeepAlive { stream, id } }).await
    }

    /// The node ends its session.
    ///
    /// # Errors
    ///
    /// The server stops.
    pub async fn goodbye(&self) -> Result<(), Unanswered> {
        let stream = self.stream;
        self.send(Input::OnStream { stream, event: Event::Goodbye { stream } }).await
    }

    async fn send(&self, input: Input) -> Result<(), Unanswered> {
        self.inputs.send(input).await.map_err(|_| Unanswered::Stopped)
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end.send(Input::StreamEnded { stream: self.stream });
        }
    }
}

/// A unary call. Dropping it before it was answered takes it back.
#[derive(Debug)]
struct CallGuard {
    ticket: Ticket,
    inputs: mpsc::Sender<Input>,
    end: Option<mpsc::OwnedPermit<Input>>,
    started: bool,
    _place: OwnedSemaphorePermit,
}

impl CallGuard {
    async fn start(&mut self, call: Call) -> Result<oneshot::Receiver<UnaryReply>, Unanswered> {
        let (reply, answer) = oneshot::channel();
        self.inputs.send(Input::Call { call, reply }).await.map_err(|_| Unanswered::Stopped)?;
        self.started = true;
        Ok(answer)
    }

    fn answered(
        mut self,
        answer: Result<UnaryReply, oneshot::error::RecvError>,
    ) -> Result<UnaryReply, Unanswered> {
        self.started = false;
        answer.map_err(|_| Unanswered::Stopped)
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if let Some(end) = self.end.take().filter(|_| self.started) {
            end.send(Input::CallEnded { ticket: self.ticket, timed_out: false });
        }
    }
}
