//! What a session, or the end of the pool, orders: allotments and recalls, the
//! loss of the session and its return, the close. Knows nothing of what they
//! look like on the wire.

use crate::clock::Time;
use crate::governed::Recall;

use super::state::Lapse;
use super::{Claim, Effects, State};

impl<T, W> State<T, W> {
    /// Follows the server's word that as many tasks wait in the workload as may,
    /// or that more may. Those who wait wait on.
    pub fn bound_queue(&mut self, full: Option<u32>) {
        self.full = full;
    }

    /// The server's target is `tokens`. More than is kept: the difference
    /// arrives, but not past the deadline, for the allotment may be older than
    /// the loss. Less: `recall` says what leaves, past the deadline too, for the
    /// server waits for it.
    pub fn allot(&mut self, tokens: u32, recall: Recall, now: Time, effects: &mut Effects<T, W>) {
        if self.closed {
            self.finish(effects);
            return;
        }
        // What the pool could never use it does not take: that is a gift back.
        let most = if self.is_past_deadline(now) { 0 } else { self.limits.maximum };
        let gained = tokens.min(most).saturating_sub(self.tokens);
        self.target = tokens;
        if tokens >= self.tokens {
            self.recall = Recall::None;
            for _ in 0..gained {
                self.tokens += 1;
                self.put_new(effects);
            }
        } else {
            self.recall = recall;
            match recall {
                Recall::None => {}
                Recall::Idle => {
                    self.give_up_unused(effects);
                    // Answered: what is above the target now stays, and the
                    // server takes its target back.
                    self.recall = Recall::None;
                }
                Recall::NextReturn => self.give_up_unused(effects),
            }
        }
        self.finish(effects);
    }

    /// The session is past its deadline: unopened tokens lapse, and from now on
    /// every close takes its token along. With `fence` idle connections close;
    /// those in use close when they come back.
    pub fn lapse(&mut self, fence: bool, effects: &mut Effects<T, W>) {
        let lapse = if fence { Lapse::Fenced } else { Lapse::Kept };
        self.lapse = self.lapse.max(Some(lapse));
        self.drop_free();
        if fence {
            self.close_all_idle(effects);
        }
        self.finish(effects);
    }

    /// The session lives again. What lapsed stays lapsed until an allotment
    /// raises the holding, and what was open may be dead without our knowing:
    /// the database has shown it gone, and its token is another node's by now.
    /// So it still takes its token along when it ends.
    pub fn revive(&mut self, effects: &mut Effects<T, W>) {
        self.end_lapse();
        self.finish(effects);
    }

    /// The session's deadline moved.
    pub fn prolong(&mut self, deadline: Time, effects: &mut Effects<T, W>) {
        self.deadline = Some(deadline);
        if self.lapse == Some(Lapse::Overslept) {
            self.end_lapse();
        }
        self.finish(effects);
    }

    /// Nothing is given out any more, and everything is given back as it comes
    /// free. Waiters are told.
    pub fn close(&mut self, effects: &mut Effects<T, W>) {
        self.closed = true;
        self.drop_free();
        self.close_all_idle(effects);
        while let Ok(waker) = self.waiters.choose(Claim::Closed) {
            effects.wake.push(waker);
        }
        self.finish(effects);
    }

    /// Unopened tokens first, then the longest idle connections, down to the
    /// target.
    fn give_up_unused(&mut self, effects: &mut Effects<T, W>) {
        let excess = |state: &Self| (state.tokens - state.leaving).saturating_sub(state.target);
        let unopened = excess(self).min(self.free);
        self.free -= unopened;
        self.tokens -= unopened;
        self.tally.recalls += u64::from(unopened);
        while excess(self) > 0 && !self.idle.is_empty() {
            self.close_idle(0, true, effects);
        }
    }

    fn close_all_idle(&mut self, effects: &mut Effects<T, W>) {
        while !self.idle.is_empty() {
            self.close_idle(0, false, effects);
        }
    }
}
