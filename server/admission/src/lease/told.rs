//! What a lease is meant to hold and what is said of that, once a commit. Rules 7
//! and 13 of `docs/protocol.md`. Knows nothing of what is heard.

use alloc::boxed::Box;

use super::{Before, Lease, Sent, Standing};
use crate::{Allotment, Recall, StreamId};

impl Lease {
    /// Raises the target by one.
    pub(crate) fn grant(&mut self) {
        self.grant_all(1);
    }

    /// Raises the target by so many.
    pub(crate) fn grant_all(&mut self, tokens: u32) {
        self.remember();
        self.tokens = self.tokens.saturating_add(tokens);
        if self.tokens >= self.demand.holding {
            self.recall = Recall::None;
        }
    }

    /// Lowers the target to `tokens`.
    pub(crate) fn lower(&mut self, tokens: u32, recall: Recall) {
        self.tokens = self.tokens.min(tokens);
        self.recall = recall;
    }

    /// The allotment to send, if what was sent is not what is meant, and whether
    /// it rests on the commit under way. One that only lowers does not: it can
    /// be sent while the store fails.
    pub(crate) fn next_allotment(&mut self) -> Option<(StreamId, Allotment, bool)> {
        let Standing::Attached(stream) = self.standing else { return None };
        if !self.is_to_be_told() {
            return None;
        }
        self.told = (self.tokens, self.recall);
        self.told_queueing = self.queueing;
        self.sequence += 1;
        while self.sent.back().is_some_and(|sent| sent.tokens <= self.tokens) {
            self.sent.pop_back();
        }
        self.sent.push_back(Sent { sequence: self.sequence, tokens: self.tokens });
        let Lease { sequence, tokens, recall, queueing, .. } = *self;
        let allotment = Allotment { sequence, tokens, recall, queueing };
        Some((stream, allotment, self.before.is_some()))
    }

    /// Target as last sent.
    pub(crate) fn told_tokens(&self) -> u32 {
        self.told.0
    }

    /// Remembers the account as it is, once a commit.
    fn remember(&mut self) {
        if self.before.is_none() {
            self.before = Some(Box::new(Before {
                tokens: self.tokens,
                sent: self.sent.clone(),
                sequence: self.sequence,
                told: self.told,
                told_queueing: self.told_queueing,
            }));
        }
    }

    /// What was sent since the last commit is out.
    pub(crate) fn committed(&mut self) {
        self.before = None;
    }

    /// Nothing since the last commit was sent: raises are withdrawn, what the
    /// node gave back stays given back (rule 13).
    pub(crate) fn withdraw(&mut self) {
        let Some(before) = self.before.take() else { return };
        let acknowledged = self.demand.acknowledged;
        self.tokens = self.tokens.min(before.tokens);
        if self.tokens >= self.demand.holding {
            self.recall = Recall::None;
        }
        self.sequence = before.sequence;
        self.sent = before.sent.into_iter().filter(|sent| sent.sequence > acknowledged).collect();
        self.told = before.told;
        self.told_queueing = before.told_queueing;
    }
}
