//! What the session is told, and when. Knows nothing of how it travels.
//!
//! Idle connections, waiters and ages change at every contended checkout; a
//! report of each change would make a message of each. So a change is worth a
//! report when the server would decide otherwise if it knew:
//!
//! * the holding, opens and closes changed: always;
//! * more is wanted than was lately;
//! * somebody waits, and the report said nobody does;
//! * something is to spare, and the report said nothing is: others may wait for it;
//! * less is to spare than was lately, of the same holding: an idle recall would
//!   come back empty.
//!
//! That leaves much unseen: a burst that is over, more connections that stay idle, a
//! need that came back. [`State::settle`], called a few times a second, reports what lasted for
//! the whole time since its last call, and so never reports an oscillation.
//!
//! The age of the oldest waiter is never worth a report of its own here. While
//! [`Levels::waiting`] is not zero the session reads and sends the levels again
//! every quarter of a quantum, by its own timer.

use crate::clock::Time;
use crate::governed::Levels;

use super::Effects;
use super::State;

/// What the session was told last, and what was seen since, as far as every
/// change looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reports {
    /// The session knows that there is something to read, and has not read it.
    pending: bool,
    /// It was told that somebody waits.
    waiting: bool,
    /// It was told that something is to spare.
    sparing: bool,
    holding: u32,
    opening: u32,
    closing: u32,
    /// More than this is worth a report: the most that was wanted since it
    /// last settled.
    wanted_mark: u32,
    /// Less than this is worth a report: the least that was to spare for this
    /// holding since it last settled.
    spare_mark: u32,
    /// The most and the least that was wanted since the last call of `settle`.
    wanted_peak: u32,
    wanted_floor: u32,
    /// The least that was to spare since then.
    spare_floor: u32,
}

/// What else the session was told last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    wanted: u32,
    spare: u32,
}

impl Reports {
    /// Sees the levels after a change.
    pub(super) fn observe(&mut self, wanted: u32, spare: u32) {
        self.wanted_peak = self.wanted_peak.max(wanted);
        self.wanted_floor = self.wanted_floor.min(wanted);
        self.spare_floor = self.spare_floor.min(spare);
    }
}

impl<T, W> State<T, W> {
    /// The levels at `now`.
    pub fn levels(&self, now: Time) -> Levels {
        let idle = self.idle.len() as u32;
        Levels {
            holding: self.tokens,
            established: self.in_use + idle,
            opening: self.opening,
            closing: self.closing,
            in_use: self.in_use,
            idle,
            waiting: self.waiters.waiting(),
            wanted: self.wanted(),
            oldest_wait: self
                .waiters
                .oldest()
                .map_or_else(Default::default, |ticket| now.since(ticket.since)),
            mean_hold: self.tally.mean_hold(),
            mean_connect: self.tally.mean_connect(),
        }
    }

    /// The levels at `now`, read to be sent: later changes are compared with
    /// them.
    pub fn report(&mut self, now: Time) -> Levels {
        let levels = self.levels(now);
        let spare = self.spare();
        let reports = &mut self.reports;
        if reports.holding != levels.holding {
            reports.spare_mark = spare;
            reports.spare_floor = spare;
        }
        // The marks take in what was seen since the last report, not only what
        // is true now: else a pool that is read at one end of its swing would
        // ask for a report at the other, every time.
        reports.spare_mark = reports.spare_mark.min(reports.spare_floor);
        reports.wanted_mark = reports.wanted_mark.max(reports.wanted_peak);
        self.told = Told { wanted: levels.wanted, spare };
        reports.holding = levels.holding;
        reports.opening = levels.opening;
        reports.closing = levels.closing;
        reports.waiting = levels.waiting > 0;
        reports.sparing = spare > 0;
        reports.pending = false;
        levels
    }

    /// Looks a few times a second whether something fell, or came to spare, and
    /// stayed so since the last look.
    pub fn settle(&mut self, effects: &mut Effects<T, W>) {
        let (wanted, spare) = (self.wanted(), self.spare());
        let (told, reports) = (self.told, &mut self.reports);
        let settled = reports.wanted_peak < told.wanted
            || reports.wanted_floor > told.wanted
            || reports.spare_floor > told.spare;
        reports.wanted_mark = reports.wanted_mark.min(reports.wanted_peak);
        reports.spare_mark = reports.spare_mark.max(reports.spare_floor);
        reports.wanted_peak = wanted;
        reports.wanted_floor = wanted;
        reports.spare_floor = spare;
        if settled && !reports.pending {
            reports.pending = true;
            effects.report = true;
        }
    }

    /// Tokens that this pool has use for: a warm minimum, and those in use, asked
    /// for, or held up by a close that may last, up to its maximum.
    pub(super) fn wanted(&self) -> u32 {
        if self.closed {
            return 0;
        }
        let needed = self.in_use + self.opening + self.stalled + self.waiters.waiting();
        needed.max(self.limits.minimum).min(self.limits.maximum)
    }

    /// What an idle recall would find.
    pub(super) fn spare(&self) -> u32 {
        self.free + self.idle.len() as u32
    }

    /// Whether the session should read the levels now. True once until it does.
    pub(super) fn is_worth_a_report(&mut self) -> bool {
        let (wanted, spare, waiting) = (self.wanted(), self.spare(), self.waiters.waiting());
        let reports = &mut self.reports;
        if reports.pending {
            return false;
        }
        reports.pending = self.tokens != reports.holding
            || self.opening != reports.opening
            || self.closing != reports.closing
            || wanted > reports.wanted_mark
            || (waiting > 0 && !reports.waiting)
            || (spare > 0 && !reports.sparing)
            || spare < reports.spare_mark;
        reports.pending
    }
}
