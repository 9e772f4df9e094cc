//! How a session's streams come and go: at most one at a time, each with a
//! Hello of its own. Knows nothing of what is said after the Hello.

use super::member::Member;
use super::message::{DatabaseName, Generation, Hello, ToServer};
use super::{CONNECT_PATIENCE, Effect, Ending, Fault, Identity, Session, StreamId};
use crate::clock::Time;

/// Where the session stands with its stream.
#[derive(Debug)]
pub(super) enum Phase {
    /// No stream. The next one opens then.
    Waiting { until: Time, reuse: bool },
    /// An endpoint is being reached.
    Connecting { stream: StreamId, endpoint: usize, since: Time },
    /// A Hello was sent on the stream.
    Speaking(Stream),
    /// The session has ended.
    Finished(Ending),
}

/// The stream that speaks for the session.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) endpoint: usize,
    pub(super) hello_sent: Time,
    /// What the Hello claimed, in its order: a Welcome confirms no more.
    pub(super) claims: Vec<(DatabaseName, u32)>,
    pub(super) welcomed: bool,
    /// Since when the transport has not taken the last message.
    pub(super) sending_since: Option<Time>,
    /// When the Goodbye was sent, after which nothing else is.
    pub(super) goodbye_sent: Option<Time>,
}

impl Session {
    /// The stream that events may still name.
    pub(super) fn current(&self) -> Option<StreamId> {
        match &self.phase {
            Phase::Waiting { .. } | Phase::Finished(_) => None,
            Phase::Connecting { stream, .. } => Some(*stream),
            Phase::Speaking(stream) => Some(stream.id),
        }
    }

    /// The stream `id`, if it speaks for the session.
    pub(super) fn speaking(&mut self, id: StreamId) -> Option<&mut Stream> {
        match &mut self.phase {
            Phase::Speaking(stream) if stream.id == id => Some(stream),
            Phase::Speaking(_) | Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Finished(_) => {
                None
            }
        }
    }

    /// Opens the next stream. The former one was dropped before: nothing of it
    /// may be applied once the new Hello is composed.
    pub(super) fn open(&mut self, now: Time, reuse: bool, effects: &mut Vec<Effect>) {
        self.last_stream += 1;
        self.revision += 1;
        let stream = StreamId(self.last_stream);
        let endpoint = self.backoff.endpoint();
        self.phase = Phase::Connecting { stream, endpoint, since: now };
        effects.push(Effect::Open { stream, endpoint, reuse });
    }

    /// Says Hello. Its sending counts from here, before the transport has it,
    /// so the deadline that follows is rather too early than too late.
    pub(super) fn connected(&mut self, now: Time, id: StreamId, effects: &mut Vec<Effect>) {
        let endpoint = match &self.phase {
            Phase::Connecting { stream, endpoint, .. } if *stream == id => *endpoint,
            Phase::Connecting { .. } | Phase::Waiting { .. } | Phase::Speaking(_) | Phase::Finished(_) => {
                return;
            }
        };
        let lapsed = self.lifetime.is_lapsed();
        let claims: Vec<_> =
            self.members.iter_mut().map(|(database, member)| member.claim(database, lapsed)).collect();
        self.phase = Phase::Speaking(Stream {
            id,
            endpoint,
            hello_sent: now,
            claims: claims.iter().map(|claim| (claim.database.clone(), claim.levels.holding)).collect(),
            welcomed: false,
            sending_since: Some(now),
            goodbye_sent: None,
        });
        let Identity { session, node, workload, client } = self.identity.clone();
        let generation = self.generation;
        let hello = Hello { session, node, workload, generation, client, claims };
        effects.push(Effect::Send(id, ToServer::Hello(hello)));
    }

    /// Leaves a good stream for another one, whose Hello lists more.
    pub(super) fn reopen(&mut self, now: Time, effects: &mut Vec<Effect>) {
        effects.extend(self.current().map(Effect::Drop));
        self.lifetime.stream_ended();
        self.open(now, true, effects);
    }

    /// The node ends the stream, for `fault`.
    pub(super) fn give_up(&mut self, now: Time, fault: Fault, effects: &mut Vec<Effect>) {
        effects.extend(self.current().map(Effect::Drop));
        self.stream_failed(now, fault, effects);
    }

    /// The current stream is no more: another one follows after a pause.
    pub(super) fn stream_failed(&mut self, now: Time, fault: Fault, effects: &mut Vec<Effect>) {
        self.lifetime.stream_ended();
        self.members.values().for_each(Member::stream_ended);
        let (endpoint, was_attached) = match &self.phase {
            Phase::Speaking(stream) if stream.goodbye_sent.is_some() => {
                self.phase = Phase::Waiting { until: now, reuse: false };
                let ended_by_server = matches!(fault, Fault::Ended(_));
                let ending = if ended_by_server { Ending::Confirmed } else { Ending::Unheard };
                return self.finish(ending, effects);
            }
            Phase::Speaking(Stream { endpoint, welcomed, .. }) => (*endpoint, *welcomed),
            Phase::Connecting { endpoint, .. } => (*endpoint, false),
            Phase::Waiting { .. } | Phase::Finished(_) => return,
        };
        let reuse = fault.leaves_connection();
        let pause = if reuse { self.backoff.again() } else { self.backoff.failed() };
        let session = self.identity.session;
        if was_attached || self.faults.get(&endpoint) != Some(&fault) {
            tracing::warn!(%session, endpoint, %fault, ?pause, "no stream to the server");
        } else {
            tracing::debug!(%session, endpoint, %fault, ?pause, "still no stream to the server");
        }
        self.faults.insert(endpoint, fault);
        self.revision += 1;
        self.phase = Phase::Waiting { until: now + pause, reuse };
    }

    /// Ends the session. Nothing keeps it alive any more, so nothing may be
    /// opened.
    pub(super) fn finish(&mut self, ending: Ending, effects: &mut Vec<Effect>) {
        effects.extend(self.current().map(Effect::Drop));
        self.members.values().for_each(Member::lapse);
        self.phase = Phase::Finished(ending);
        self.revision += 1;
        effects.push(Effect::Finished);
    }

    /// Whether something of the stream has taken too long.
    pub(super) fn overdue(&self, now: Time) -> Option<Fault> {
        let patience = self.lifetime.patience();
        let stream = match &self.phase {
            Phase::Waiting { .. } | Phase::Finished(_) => return None,
            Phase::Connecting { since, .. } => {
                return (now >= *since + CONNECT_PATIENCE).then_some(Fault::Unreachable);
            }
            Phase::Speaking(stream) => stream,
        };
        if let Some(sent) = stream.goodbye_sent {
            return (now >= sent + patience).then_some(Fault::GoodbyeUnanswered);
        }
        if !stream.welcomed {
            return (now >= stream.hello_sent + patience).then_some(Fault::HelloUnanswered);
        }
        if self.lifetime.overdue_at().is_some_and(|overdue| now >= overdue) {
            return Some(Fault::KeepAliveUnanswered);
        }
        stream.sending_since.filter(|since| now >= *since + patience).map(|_| Fault::Stalled)
    }

    /// Whether a pool was registered since the Hello. It waits for the Welcome:
    /// pools that come together share the next Hello.
    pub(super) fn lists_too_little(&self) -> bool {
        match &self.phase {
            Phase::Speaking(stream) => {
                stream.welcomed && stream.goodbye_sent.is_none() && stream.claims.len() < self.members.len()
            }
            Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Finished(_) => false,
        }
    }

    /// How a session that is to end may do so without another word.
    pub(super) fn may_just_leave(&self) -> Option<Ending> {
        let ended = matches!(self.phase, Phase::Finished(_));
        if !self.shutting_down || ended {
            return None;
        }
        if self.generation == Generation::default() {
            // Never welcomed, so it never was given anything.
            return Some(Ending::Confirmed);
        }
        // The server is away; a process that ends does not wait for it.
        let away = matches!(self.phase, Phase::Waiting { .. });
        (away && self.holds_nothing()).then_some(Ending::Unheard)
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.members.values().all(Member::holds_nothing)
    }
}
