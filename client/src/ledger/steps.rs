//! The small steps that every change of the ledger is made of, and what must be
//! true after each change. Knows nothing of why a change happens.

use std::time::Duration;

use crate::clock::Time;
use crate::governed::Recall;

use super::state::{Idle, Lapse};
use super::{Claim, Effects, Opened, State, Use};

impl<T, W> State<T, W> {
    /// Notices that the deadline has passed even when the session is late to.
    pub(super) fn is_past_deadline(&mut self, now: Time) -> bool {
        let lapsed = self.is_lapsed(now);
        if lapsed && self.lapse.is_none() {
            self.lapse = Some(Lapse::Overslept);
            self.drop_free();
        }
        lapsed
    }

    /// Unopened tokens are given up.
    pub(super) fn drop_free(&mut self) {
        self.tokens -= self.free;
        self.free = 0;
    }

    /// Closed or past the deadline: nothing is opened, so a token that is not
    /// in use has no use.
    pub(super) const fn gives_up_everything(&self) -> bool {
        self.closed || self.lapse.is_some()
    }

    /// Something above the target has to leave with the next return.
    pub(super) fn owes_a_return(&self) -> bool {
        match self.recall {
            Recall::NextReturn => self.tokens - self.leaving > self.target,
            Recall::None | Recall::Idle => false,
        }
    }

    pub(super) fn wants_warm(&self) -> bool {
        let open = self.in_use + self.idle.len() as u32 + self.opening;
        !self.gives_up_everything() && self.free > 0 && open < self.limits.minimum
    }

    pub(super) fn end_lapse(&mut self) {
        if self.lapse.take().is_some() {
            self.stale = self.tokens;
            self.late = self.opening;
        }
    }

    /// The token of something that has ended: given up, given to the first
    /// waiter, or kept free.
    pub(super) fn put_free(&mut self, effects: &mut Effects<T, W>) {
        if self.stale > 0 {
            self.stale -= 1;
            self.tokens -= 1;
        } else {
            self.put_new(effects);
        }
    }

    /// A token that belongs nowhere yet: the same.
    pub(super) fn put_new(&mut self, effects: &mut Effects<T, W>) {
        if self.gives_up_everything() {
            self.tokens -= 1;
        } else if self.owes_a_return() {
            self.tokens -= 1;
            self.tally.recalls += 1;
        } else if let Ok(waker) = self.waiters.choose(Claim::Token) {
            self.count_claimed();
            effects.wake.push(waker);
        } else {
            self.free += 1;
        }
    }

    /// A connection that belongs nowhere yet: closed, given to the first waiter,
    /// or kept idle.
    pub(super) fn put_connection(&mut self, connection: T, now: Time, effects: &mut Effects<T, W>) {
        if self.closed || self.lapse == Some(Lapse::Fenced) || self.owes_a_return() {
            self.count_closing(self.owes_a_return());
            effects.close.push(connection);
            return;
        }
        match self.waiters.choose(Claim::Connection(connection)) {
            Ok(waker) => {
                self.in_use += 1;
                effects.wake.push(waker);
            }
            Err(Claim::Connection(connection)) => self.idle.push_back(Idle { connection, since: now }),
            Err(Claim::Token | Claim::Closed) => unreachable!("the claim comes back as it was"),
        }
    }

    /// A token was taken by a task, or given to a waiter.
    pub(super) const fn count_claimed(&mut self) {
        match self.uses {
            Use::Connections => self.opening += 1,
            Use::Tokens => self.in_use += 1,
        }
    }

    /// A token that was claimed, but not used, belongs nowhere.
    pub(super) fn count_unclaimed(&mut self) {
        match self.uses {
            Use::Connections => {
                self.count_not_opening();
            }
            Use::Tokens => self.in_use -= 1,
        }
    }

    /// Closes the idle connection at `index`.
    pub(super) fn close_idle(&mut self, index: usize, leaves: bool, effects: &mut Effects<T, W>) {
        if let Some(idle) = self.idle.remove(index) {
            self.count_closing(leaves);
            effects.close.push(idle.connection);
        }
    }

    /// Counts a connection as closing, and its token as promised to a recall.
    pub(super) fn count_closing(&mut self, leaves: bool) {
        self.leaving += u32::from(leaves);
        self.closing += 1;
        self.tally.closes += 1;
    }

    /// A connect has ended, or never began. True if it counts as one of before the
    /// last lapse.
    pub(super) fn count_not_opening(&mut self) -> bool {
        assert!(
            self.late <= self.opening && self.late <= self.stale,
            "more connects are late than under way"
        );
        let late = self.late > 0;
        self.late -= u32::from(late);
        self.opening -= 1;
        late
    }

    pub(super) fn count_opened(&mut self, took: Duration, now: Time) -> Opened {
        self.tally.opened(took);
        let late = self.count_not_opening();
        let opened = if self.closed {
            Opened::Closed
        } else if self.is_past_deadline(now) || late {
            Opened::Lapsed
        } else {
            return Opened::InUse;
        };
        self.count_closing(self.owes_a_return());
        opened
    }

    /// Ends every change: asserts what must always be true, in release builds
    /// too, and notes what the change calls for.
    #[inline]
    pub(super) fn finish(&mut self, effects: &mut Effects<T, W>) {
        let open = self.in_use + self.idle.len() as u32 + self.opening + self.closing;
        assert!(self.free + open == self.tokens, "a token is lost or counted twice");
        self.stale = self.stale.min(open);
        assert!(self.leaving <= self.closing, "more tokens leave than connections close");
        assert!(
            self.waiters.waiting() == 0 || (self.free == 0 && self.idle.is_empty()),
            "a task waits for what is there"
        );
        self.reports.observe(self.wanted(), self.spare());
        self.peak_in_use = self.peak_in_use.max(self.in_use);
        self.peak_open = self.peak_open.max(open);
        effects.report |= self.is_worth_a_report();
        effects.upkeep |= self.wants_warm();
        effects.emptied |= self.is_emptied();
    }
}
