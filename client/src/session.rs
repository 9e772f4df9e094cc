//! The node's side of the protocol: a synchronous state machine, events in,
//! effects out. It decides when to open a stream, what to say on it, what of
//! the server's words to apply, and when the right to open connections ends.
//! Knows nothing of gRPC, tasks, sockets or clocks: time is an argument, and a
//! simulation runs it as it is against a real server.
//!
//! Orders to the pools are calls on [`Governed`], not effects. So a demand reads
//! a pool's levels in the same step in which it acknowledges what was applied
//! to them, whatever else goes on.
//!
//! Invariants:
//! * Nothing of a stream is applied once another stream's Hello is composed.
//! * Sequences applied on one stream rise strictly; only what was applied is
//!   acknowledged, with levels read afterwards.
//! * A holding rises by an allotment alone, never by a Welcome, never past the
//!   deadline.

mod backoff;
mod fault;
mod hear;
mod lifetime;
mod member;
pub mod message;
mod speak;
mod status;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::backoff::{LONGEST_PAUSE, SHORTEST_PAUSE};
pub use self::fault::Fault;
pub use self::lifetime::ANSWER_PATIENCE;
pub use self::status::{DatabaseState, Ending, SessionStatus};

use self::backoff::Backoff;
use self::lifetime::Lifetime;
use self::member::Member;
use self::message::{DatabaseName, FromServer, Generation, MAX_DATABASES, SessionId, ToServer};
use self::stream::Phase;
use crate::clock::Time;
use crate::governed::Governed;

/// Longest wait for a connection to an endpoint. Short against any sensible
/// TTL, so that a dead first endpoint does not cost the session its life.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// Names one stream of a session. Each opening has a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// Who the session is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The session's id.
    pub session: SessionId,
    /// Name of the node, for people. 1 to 128 bytes.
    pub node: String,
    /// Workload; empty means "default". At most 128 bytes.
    pub workload: String,
    /// Name and version of the library. At most 128 bytes.
    pub client: String,
}

/// What happens to a session. Events of a stream that is not the current one
/// are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Levels of a database changed in a way that is worth a report.
    Changed(DatabaseName),
    /// The endpoint was reached: a Hello can be sent.
    Connected(StreamId),
    /// The server said something.
    Received(StreamId, FromServer),
    /// The transport took the last message; another may follow.
    Sent(StreamId),
    /// The stream ended, or could not be opened; says why.
    Ended(StreamId, String),
    /// Time has passed.
    Timer,
    /// Close the pools, and say goodbye when nothing is held any more.
    Shutdown,
}

/// What is to be done for a session, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a stream, then report [`Event::Connected`] or [`Event::Ended`].
    Open {
        /// Names it in later events.
        stream: StreamId,
        /// Index of the endpoint.
        endpoint: usize,
        /// A connection to the endpoint that is still there may carry it.
        reuse: bool,
    },
    /// Send a message, then report [`Event::Sent`]. No other is sent before.
    Send(StreamId, ToServer),
    /// Give the stream up: nothing of it is wanted any more.
    Drop(StreamId),
    /// The session has ended. No event matters any more.
    Finished,
}

/// A node process's registration with the server.
#[derive(Debug)]
pub struct Session {
    identity: Identity,
    generation: Generation,
    members: BTreeMap<DatabaseName, Member>,
    lifetime: Lifetime,
    backoff: Backoff,
    phase: Phase,
    last_stream: u64,
    /// The database that reported last: the next one's turn comes first.
    reported_last: Option<DatabaseName>,
    /// Why each endpoint failed since it last welcomed the session.
    faults: BTreeMap<usize, Fault>,
    shutting_down: bool,
    /// Rises with each change of what [`Session::status`] shows.
    revision: u64,
}

impl Session {
    /// A session that opens its first stream at the first event. `endpoints`
    /// is how many there are to try, at least 1; `seed` makes the jitter.
    pub fn new(identity: Identity, endpoints: usize, seed: u64) -> Self {
        Self {
            identity,
            generation: Generation::default(),
            members: BTreeMap::new(),
            lifetime: Lifetime::default(),
            backoff: Backoff::new(endpoints, seed),
            phase: Phase::Waiting { until: Time::START, reuse: false },
            last_stream: 0,
            reported_last: None,
            faults: BTreeMap::new(),
            shutting_down: false,
            revision: 0,
        }
    }

    /// Adds a database and its pool, which holds nothing yet. If the session
    /// has said Hello already, it says it anew with the database listed. A
    /// pool of the same database that was there before must hold nothing.
    ///
    /// # Panics
    /// With more than [`MAX_DATABASES`] databases.
    pub fn register(
        &mut self,
        now: Time,
        database: DatabaseName,
        governed: Arc<dyn Governed>,
        effects: &mut Vec<Effect>,
    ) {
        self.check_deadline(now);
        if let Some(deadline) = self.lifetime.deadline() {
            governed.prolong(deadline);
        }
        if self.lifetime.is_lapsed() {
            governed.lapse(false);
        }
        if let Some(member) = self.members.get_mut(&database) {
            member.replace(governed);
        } else {
            assert!(self.members.len() < MAX_DATABASES, "too many databases in one session");
            self.members.insert(database, Member::new(governed));
        }
        self.revision += 1;
        self.proceed(now, effects);
    }

    /// Takes in an event. `now` never falls from call to call.
    pub fn apply(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.check_deadline(now);
        match event {
            Event::Timer => {}
            Event::Changed(database) => {
                if let Some(member) = self.members.get_mut(&database) {
                    member.changed();
                }
            }
            Event::Shutdown => {
                self.shutting_down = true;
                self.members.values().for_each(Member::close);
                self.members.values_mut().for_each(Member::changed);
            }
            Event::Connected(stream) => self.connected(now, stream, effects),
            Event::Sent(stream) => {
                if let Some(current) = self.speaking(stream) {
                    current.sending_since = None;
                }
            }
            Event::Received(stream, message) => {
                if self.speaking(stream).is_some()
                    && let Err(fault) = self.received(now, message)
                {
                    self.give_up(now, fault, effects);
                }
            }
            Event::Ended(stream, reason) => {
                if self.current() == Some(stream) {
                    self.stream_failed(now, Fault::Ended(reason), effects);
                }
            }
        }
        self.proceed(now, effects);
    }

    /// When [`Event::Timer`] is due, unless something else happens before.
    /// `None`: only another event can matter.
    pub fn next_timer(&self) -> Option<Time> {
        let deadline = self.lifetime.deadline().filter(|_| !self.lifetime.is_lapsed());
        let phase = match &self.phase {
            Phase::Finished(_) => return None,
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Connecting { since, .. } => Some(*since + CONNECT_PATIENCE),
            Phase::Speaking(stream) => self.next_of(stream),
        };
        [deadline, phase].into_iter().flatten().min()
    }

    /// Rises with each change of what [`Session::status`] shows.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Ends the session without a word: the server finds out by its silence.
    pub fn abandon(&mut self, effects: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Finished(_)) {
            let ending = if self.holds_nothing() { Ending::Unheard } else { Ending::Holding };
            self.finish(ending, effects);
        }
    }

    /// When the right to open connections ends; `None` before the first Welcome.
    pub fn deadline(&self) -> Option<Time> {
        self.lifetime.deadline()
    }

    /// How the session stands, for people and for whoever waits for it.
    pub fn status(&self) -> SessionStatus {
        let endpoint = match &self.phase {
            Phase::Speaking(stream) if stream.welcomed => Some(stream.endpoint),
            Phase::Speaking(_) | Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Finished(_) => {
                None
            }
        };
        SessionStatus {
            session: self.identity.session,
            endpoint,
            generation: self.generation,
            deadline: self.lifetime.deadline(),
            databases: self
                .members
                .iter()
                .map(|(database, member)| (database.clone(), member.knowledge().into()))
                .collect(),
            faults: self.faults.clone(),
            ending: match &self.phase {
                Phase::Finished(ending) => Some(*ending),
                Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Speaking(_) => None,
            },
        }
    }
}
