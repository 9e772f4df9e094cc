//! When a session says what: one message at a time, the most pressing first.
//! Knows nothing of what the server answers.

use std::ops::Bound;

use super::member::Member;
use super::message::{DatabaseName, Demand, ToServer};
use super::stream::{Phase, Stream};
use super::{Effect, Session};
use crate::clock::Time;

impl Session {
    /// Does what time and free room allow. Comes last in each step.
    pub(super) fn proceed(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if let Some(fault) = self.overdue(now) {
            self.give_up(now, fault, effects);
        }
        if let Some(ending) = self.may_just_leave() {
            return self.finish(ending, effects);
        }
        if self.lists_too_little() {
            self.reopen(now, effects);
        }
        match &self.phase {
            Phase::Waiting { until, reuse } if now >= *until => {
                let reuse = *reuse;
                self.open(now, reuse, effects);
            }
            Phase::Speaking(_) => self.speak(now, effects),
            Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Finished(_) => {}
        }
    }

    /// When the stream next needs a step though nothing happens on it.
    pub(super) fn next_of(&self, stream: &Stream) -> Option<Time> {
        let patience = self.lifetime.patience();
        if let Some(sent) = stream.goodbye_sent {
            return Some(sent + patience);
        }
        if !stream.welcomed {
            return Some(stream.hello_sent + patience);
        }
        let to_say = if let Some(since) = stream.sending_since {
            Some(since + patience)
        } else {
            let reports = self.members.values().filter_map(Member::report_due);
            reports.chain(self.lifetime.keep_alive_due()).min()
        };
        [self.lifetime.overdue_at(), to_say].into_iter().flatten().min()
    }

    /// Says the most pressing thing, if the last one has left: what changes
    /// meanwhile is said together, a batch without a timer.
    fn speak(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Phase::Speaking(stream) = &self.phase else { return };
        if !stream.welcomed || stream.sending_since.is_some() || stream.goodbye_sent.is_some() {
            return;
        }
        let id = stream.id;
        let message = if self.lifetime.keep_alive_due().is_some_and(|due| now >= due) {
            ToServer::KeepAlive(self.lifetime.keep_alive(now))
        } else if let Some(demand) = self.next_report(now) {
            ToServer::Demand(demand)
        } else if self.shutting_down && self.members.values().all(Member::said_to_hold_nothing) {
            ToServer::Goodbye
        } else {
            return;
        };
        if let Some(stream) = self.speaking(id) {
            stream.sending_since = Some(now);
            stream.goodbye_sent = (message == ToServer::Goodbye).then_some(now);
        }
        effects.push(Effect::Send(id, message));
    }

    /// The next database in turn that has something to say: one that always
    /// has must not silence the others.
    fn next_report(&mut self, now: Time) -> Option<Demand> {
        let last = self.reported_last.take();
        let (after, upto) = match &last {
            Some(last) => (Bound::Excluded(last), Bound::Included(last)),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let lapsed = self.lifetime.is_lapsed();
        let report = |(database, member): (&DatabaseName, &mut Member)| member.report(database, lapsed, now);
        let mut demand = self.members.range_mut::<_, (_, _)>((after, Bound::Unbounded)).find_map(report);
        if demand.is_none() {
            demand = self.members.range_mut::<_, (_, _)>((Bound::Unbounded, upto)).find_map(report);
        }
        self.reported_last = demand.as_ref().map(|demand| demand.database.clone()).or(last);
        demand
    }
}
