//! What the server says and what it does to the deadline. Knows nothing of how
//! streams come and go.

use super::member::{Member, Misplaced};
use super::message::{Allotment, FromServer, Welcome};
use super::stream::Phase;
use super::{Fault, Session};
use crate::clock::Time;

/// What the server says.
impl Session {
    pub(super) fn received(&mut self, now: Time, message: FromServer) -> Result<(), Fault> {
        let Phase::Speaking(stream) = &self.phase else { return Ok(()) };
        match (message, stream.welcomed) {
            (FromServer::Gone(reason), _) => Err(Fault::Gone(reason)),
            (FromServer::Welcome(welcome), false) => self.welcomed(now, welcome),
            (FromServer::Welcome(_), true) => Err(Fault::Protocol("a second Welcome on one stream".into())),
            (FromServer::Allotment(_) | FromServer::KeepAliveReply(_), false) => {
                Err(Fault::Protocol("something else came before the Welcome".into()))
            }
            (FromServer::Allotment(allotment), true) => self.allotted(&allotment),
            (FromServer::KeepAliveReply(id), true) => {
                if self.lifetime.answered(id) {
                    self.backoff.succeeded();
                    self.deadline_moved(now);
                }
                Ok(())
            }
        }
    }

    /// Checks the whole Welcome before any of it is believed.
    fn welcomed(&mut self, now: Time, welcome: Welcome) -> Result<(), Fault> {
        let Phase::Speaking(stream) = &mut self.phase else { return Ok(()) };
        if welcome.generation < self.generation {
            return Err(Fault::OlderGeneration { offered: welcome.generation, known: self.generation });
        }
        let named = welcome.databases.iter().map(|terms| &terms.database);
        if !named.eq(stream.claims.iter().map(|(database, _)| database)) {
            return Err(Fault::Protocol("the Welcome does not answer the Hello's databases in order".into()));
        }
        stream.welcomed = true;
        self.generation = welcome.generation;
        self.faults.remove(&stream.endpoint);
        self.lifetime.welcomed(now, stream.hello_sent, welcome.ttl, welcome.keep_alive);
        for ((database, claimed), terms) in stream.claims.iter().zip(welcome.databases) {
            if terms.terms.is_none() {
                tracing::error!(%database, "the server does not know this database: its pool gets no token");
            }
            if let Some(member) = self.members.get_mut(database) {
                member.welcomed(*claimed, terms.terms);
            }
        }
        tracing::info!(session = %self.identity.session, generation = %self.generation, "attached to the server");
        self.deadline_moved(now);
        Ok(())
    }

    fn allotted(&mut self, allotment: &Allotment) -> Result<(), Fault> {
        let Allotment { database, sequence, tokens, recall, max_waiting, quantum: _ } = allotment;
        let lapsed = self.lifetime.is_lapsed();
        let applied = match self.members.get_mut(database) {
            Some(member) => member.allotted(allotment, lapsed),
            None => Err(Misplaced::NotLeased),
        };
        match applied {
            Ok(()) => {
                tracing::debug!(%database, %sequence, tokens, ?recall, max_waiting, lapsed, "allotment");
                Ok(())
            }
            Err(Misplaced::NotLeased) => Err(Fault::Protocol(format!(
                "an allotment for `{database}`, which this stream does not lease"
            ))),
            Err(Misplaced::NotNewer { applied }) => Err(Fault::Protocol(format!(
                "an allotment for `{database}` with sequence {sequence} after {applied}"
            ))),
        }
    }
}

/// The deadline.
impl Session {
    /// Comes before anything else in each step: what follows must not act on
    /// a right that has run out.
    pub(super) fn check_deadline(&mut self, now: Time) {
        if self.lifetime.lapses(now) {
            tracing::warn!(session = %self.identity.session, "no word from the server for a TTL: nothing is opened");
            self.members.values().for_each(Member::lapse);
            self.members.values_mut().for_each(Member::changed);
        }
    }

    fn deadline_moved(&mut self, now: Time) {
        let Some(deadline) = self.lifetime.deadline() else { return };
        self.revision += 1;
        self.check_deadline(now);
        self.members.values().for_each(|member| member.prolong(deadline));
        if self.lifetime.revives(now) {
            self.members.values().for_each(Member::revive);
            self.members.values_mut().for_each(Member::changed);
        } else if self.lifetime.is_lapsed() {
            // What was heard came too late to live by, but a Welcome may have told
            // another policy, and the server goes by that when it is acknowledged.
            self.members.values().for_each(Member::lapse);
        }
    }
}
