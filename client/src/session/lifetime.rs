//! How long the session may act without hearing from the server: keep-alives,
//! their answers, and the deadline that follows from them. Knows nothing of
//! databases or streams.

use std::collections::VecDeque;
use std::time::Duration;

use super::message::KeepAliveId;
use crate::clock::Time;

/// Longest wait for the answer to a Hello or a keep-alive. A third of the TTL
/// when that is shorter, so that there is time to reconnect.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Part of the TTL that an answer may take.
const PATIENCE_PER_TTL: u32 = 3;

/// Most keep-alives that wait for an answer; with that many out, another says
/// nothing new.
const MAX_OUTSTANDING: usize = 32;

/// The deadline of a session and what moves it.
#[derive(Debug, Default)]
pub(super) struct Lifetime {
    agreed: Option<Agreed>,
    lapsed: bool,
    outstanding: VecDeque<(KeepAliveId, Time)>,
    last_id: u64,
}

/// What the last Welcome said, and when the node last knew itself heard.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    ttl: Duration,
    keep_alive: Duration,
    /// Sending of the newest Hello or keep-alive that was answered.
    heard: Time,
    next_keep_alive: Time,
}

impl Lifetime {
    /// When the session's right to open connections ends; `None` before the
    /// first Welcome, when there is nothing to open either.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.agreed.map(|agreed| agreed.heard + agreed.ttl)
    }

    pub(super) fn is_lapsed(&self) -> bool {
        self.lapsed
    }

    /// True once, when the deadline has just been found passed.
    pub(super) fn lapses(&mut self, now: Time) -> bool {
        let passed = self.deadline().is_some_and(|deadline| now >= deadline);
        let newly = passed && !self.lapsed;
        self.lapsed |= passed;
        newly
    }

    /// True once, when a lapsed session may open connections again.
    pub(super) fn revives(&mut self, now: Time) -> bool {
        let revived = self.lapsed && self.deadline().is_some_and(|deadline| now < deadline);
        if revived {
            self.lapsed = false;
        }
        revived
    }

    /// The Hello sent at `hello_sent` was answered.
    pub(super) fn welcomed(&mut self, now: Time, hello_sent: Time, ttl: Duration, keep_alive: Duration) {
        self.outstanding.clear();
        self.agreed = Some(Agreed { ttl, keep_alive, heard: hello_sent, next_keep_alive: now + keep_alive });
    }

    /// The keep-alive `id` was answered, and with it every older one. False:
    /// it was not waiting for an answer.
    pub(super) fn answered(&mut self, id: KeepAliveId) -> bool {
        let Some(agreed) = &mut self.agreed else { return false };
        let Some(position) = self.outstanding.iter().position(|(sent, _)| *sent == id) else { return false };
        agreed.heard = agreed.heard.max(self.outstanding[position].1);
        self.outstanding.drain(..=position);
        true
    }

    /// When the next keep-alive is due.
    pub(super) fn keep_alive_due(&self) -> Option<Time> {
        let room = self.outstanding.len() < MAX_OUTSTANDING;
        self.agreed.filter(|_| room).map(|agreed| agreed.next_keep_alive)
    }

    /// A keep-alive that is sent now.
    pub(super) fn keep_alive(&mut self, now: Time) -> KeepAliveId {
        self.last_id += 1;
        let id = KeepAliveId(self.last_id);
        self.outstanding.push_back((id, now));
        if let Some(agreed) = &mut self.agreed {
            agreed.next_keep_alive = now + agreed.keep_alive;
        }
        id
    }

    /// When the oldest unanswered keep-alive has waited too long.
    pub(super) fn overdue_at(&self) -> Option<Time> {
        self.outstanding.front().map(|(_, sent)| *sent + self.patience())
    }

    /// Longest wait for an answer, or for the transport to take a message.
    pub(super) fn patience(&self) -> Duration {
        self.agreed.map_or(ANSWER_PATIENCE, |agreed| ANSWER_PATIENCE.min(agreed.ttl / PATIENCE_PER_TTL))
    }

    /// A stream ended: answers to its keep-alives never come.
    pub(super) fn stream_ended(&mut self) {
        self.outstanding.clear();
    }
}
