//! What a decision leaves to be done: ceilings to be written before anything is
//! sent, allotments to be sent, and what a commit or its failure makes of them.
//! Rule 13 of `docs/protocol.md`.

use alloc::{collections::BTreeSet, vec::Vec};
use core::mem::take;

use crate::{Effect, Note, SessionId, Time, database::Database, durable::Change, lease::Lease};

impl Database {
    /// Makes ceilings cover what is held, then says what is new.
    pub(crate) fn settle(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let mut touched = take(&mut self.touched);
        for session in touched.drain(..) {
            let Some(lease) = self.leases.get_mut(&session) else { continue };
            lease.touched = false;
            if lease.has_news() {
                self.cover(session, effects);
                self.tell(session, now, effects);
                self.cover(session, effects);
            }
        }
        // Nothing of this touched a lease again: its memory is for the next time.
        self.touched = touched;
        self.make_ceilings_fit(effects);
    }

    /// Sends a session its allotment, if that is not what it was told last.
    fn tell(&mut self, session: SessionId, now: Time, effects: &mut Vec<Effect>) {
        let Some(lease) = self.leases.get(&session) else { return };
        let (told, waited) = (lease.told_tokens(), lease.age(now));
        let Some((stream, allotment, rests_on_commit)) =
            self.recount(session, Lease::next_allotment).flatten()
        else {
            return;
        };
        self.uncommitted.insert(session);
        let database = self.id;
        effects.push(Effect::Allotment { stream, database, allotment, rests_on_commit });
        let tokens = allotment.tokens.abs_diff(told);
        if allotment.tokens > told {
            self.grants += u64::from(tokens);
            effects.push(Effect::Note(Note::Granted { session, database, tokens, waited }));
        } else if allotment.tokens < told {
            self.recalls += u64::from(tokens);
            let recall = allotment.recall;
            effects.push(Effect::Note(Note::Recalled { session, database, tokens, recall }));
        }
    }

    /// Raises the ceiling of a lease to what it holds (rule 13), and writes the
    /// policy that the session was told (rule 16).
    fn cover(&mut self, session: SessionId, effects: &mut Vec<Effect>) {
        if self.leases.get(&session).is_some_and(Lease::is_uncovered) {
            self.write_ceiling(session, effects);
        }
    }

    /// While ceilings sum to more than the cap, lowers those above what is held.
    fn make_ceilings_fit(&mut self, effects: &mut Vec<Effect>) {
        while self.totals.ceiling > u64::from(self.cap) {
            let Some(&session) = self.slack.first() else { return };
            self.write_ceiling(session, effects);
        }
    }

    /// Sets the ceiling of a lease to what it holds.
    fn write_ceiling(&mut self, session: SessionId, effects: &mut Vec<Effect>) {
        if let Some(lease) = self.recount(session, Lease::cover) {
            effects.push(Effect::Commit(Change::PutLease(session, self.settings.name.clone(), lease)));
        }
    }

    /// The lazy part of what is durable: ceilings come down, the cap is noted.
    pub(crate) fn write_lazily(&mut self, effects: &mut Vec<Effect>) {
        while let Some(&session) = self.slack.first() {
            self.write_ceiling(session, effects);
        }
        if self.settings.watched && self.watch.may_grant() && self.cap_written != Some(self.cap) {
            self.write_cap(effects);
        }
    }

    /// Everything emitted since the last commit is durable and on its way.
    pub(crate) fn committed(&mut self) {
        for session in take(&mut self.uncommitted) {
            if let Some(lease) = self.leases.get_mut(&session) {
                lease.committed();
            }
        }
    }

    /// Nothing emitted since the last commit was sent. Returns whom that concerns.
    pub(crate) fn commit_failed(&mut self) -> BTreeSet<SessionId> {
        let uncommitted = take(&mut self.uncommitted);
        for session in &uncommitted {
            self.change(*session, Lease::withdraw);
        }
        uncommitted
    }
}
