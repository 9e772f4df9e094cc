//! Who has which token: the pure state machine of a pool. Time comes in as an
//! argument, what is to be done goes out as [`Effects`]. Knows nothing of
//! clocks, tasks, locks or what a connection is.
//!
//! Invariant: `free + idle + in_use + opening + closing == tokens`.
//! Invariant: while anybody waits nothing is free or idle.
//! Invariant: `leaving <= closing`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Time;
use crate::governed::Recall;
use crate::statistics::{Statistics, Tally};
use crate::trace::TraceContext;

use super::report::{Reports, Told};
use super::waiters::{Removed, Ticket, WaiterId, Waiters};
use super::{Claim, Effects};

/// How many connections a pool may ask for, and keeps warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most tokens ever kept.
    pub maximum: u32,
    /// Connections kept open while tokens are free.
    pub minimum: u32,
}

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// To open a connection, which takes time.
    Connections,
    /// For something that the ledger does not see: it is in use at once.
    Tokens,
}

/// How the ledger learned that the session is past its deadline. The later ones
/// are the stronger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lapse {
    /// It looked at the time before the session did; the next deadline ends it.
    Overslept,
    /// The session said so, under the policy `keep`.
    Kept,
    /// The session said so, under the policy `fence`.
    Fenced,
}

/// An open connection that nobody uses.
#[derive(Debug)]
pub(super) struct Idle<T> {
    pub(super) connection: T,
    pub(super) since: Time,
}

/// The tokens of one pool, its idle connections `T`, and who waits for them; a
/// waiter is woken by its `W`.
///
/// What every checkout and return touches comes first, and `repr(C)` keeps it
/// so: to hand a line of the processor's cache from one core to another costs
/// more than all the arithmetic of a checkout, and it is paid under the lock.
#[derive(Debug)]
#[repr(C)]
pub struct State<T, W> {
    /// Tokens kept: the holding.
    pub(super) tokens: u32,
    pub(super) free: u32,
    pub(super) opening: u32,
    pub(super) closing: u32,
    pub(super) in_use: u32,
    /// Of those that close, the closes that asked for another connection. They
    /// may take as long as a query, and what waits meanwhile needs a token
    /// beside theirs.
    pub(super) stalled: u32,
    /// Closing connections whose tokens leave at their end, if the target still
    /// is below the holding then.
    pub(super) leaving: u32,
    /// Tokens of before the last lapse whose connections have not ended since:
    /// each leaves when one ends. The server may have leased them again.
    pub(super) stale: u32,
    pub(super) peak_in_use: u32,
    pub(super) peak_open: u32,
    pub(super) limits: Limits,
    /// `NextReturn` while tokens above the target leave as they come back; an
    /// idle recall is answered at once and leaves nothing behind.
    pub(super) recall: Recall,
    pub(super) closed: bool,
    pub(super) lapse: Option<Lapse>,
    pub(super) uses: Use,
    pub(super) reports: Reports,
    /// The longest idle in front.
    pub(super) idle: VecDeque<Idle<T>>,
    pub(super) waiters: Waiters<T, W>,
    pub(super) told: Told,
    /// The server's last word.
    pub(super) target: u32,
    /// As many tasks wait in the workload as may: so many.
    pub(super) full: Option<u32>,
    pub(super) deadline: Option<Time>,
    /// Connects of before the last lapse that have not ended. Nothing was open
    /// under their tokens, so nothing may be opened under them any more. (Which of
    /// all connects under way these are does not matter: as many come to nothing.)
    pub(super) late: u32,
    pub(super) tally: Tally,
}

/// Two lines of a cache hold what a checkout touches, the number of waiters
/// last.
const _: () = assert!(std::mem::offset_of!(State<(), ()>, waiters) + size_of::<u32>() <= 128);

/// Where a task enters the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// According to its age, if there is room: it is new.
    OfTheYounger,
    /// According to its age: it has been in the queue before.
    AsBefore,
    /// In front, since what it is needed for frees a token.
    OfAll,
}

/// What a task has that asked: a claim `C`, or a place `P` in the queue.
#[derive(Debug)]
pub enum Asked<C, P> {
    /// What was there.
    Claim(C),
    /// It waits.
    Place(P),
    /// Neither: as many tasks wait in the workload as may.
    Refused {
        /// So many.
        max_waiting: u32,
    },
}

/// The answer to a connect that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The connection is in use.
    InUse,
    /// It is counted as closing: the session's deadline passed meanwhile.
    Lapsed,
    /// It is counted as closing: the pool was closed meanwhile.
    Closed,
}

/// Whether a claimed token may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayUse {
    /// It may.
    Yes,
    /// The session's deadline has passed; the token has lapsed.
    Lapsed,
    /// The pool was closed; the token has left.
    Closed,
}

// What a task does on its way to a connection and back.
impl<T, W> State<T, W> {
    /// A state without tokens.
    pub fn new(limits: Limits, uses: Use) -> Self {
        Self {
            limits,
            uses,
            tokens: 0,
            target: 0,
            full: None,
            recall: Recall::None,
            leaving: 0,
            free: 0,
            opening: 0,
            closing: 0,
            stalled: 0,
            in_use: 0,
            idle: VecDeque::with_capacity(limits.maximum.min(1_024) as usize),
            waiters: Waiters::new(),
            closed: false,
            lapse: None,
            stale: 0,
            late: 0,
            deadline: None,
            reports: Reports::default(),
            told: Told::default(),
            peak_in_use: 0,
            peak_open: 0,
            tally: Tally::default(),
        }
    }

    /// Takes the newest idle connection; it is then in use.
    pub fn take_idle(&mut self, effects: &mut Effects<T, W>) -> Option<T> {
        let idle = self.idle.pop_back()?;
        self.in_use += 1;
        self.finish(effects);
        Some(idle.connection)
    }

    /// Takes the newest idle connection, or else a free token, which is then
    /// opening; or else waits, `ahead` of whom it may. The first task of a pool may
    /// always wait, so that the server hears of it.
    pub fn ask(
        &mut self,
        ticket: Ticket,
        ahead: Ahead,
        waker: W,
        effects: &mut Effects<T, W>,
    ) -> Asked<Claim<T>, WaiterId> {
        if let Some(claim) = self.take(effects) {
            return Asked::Claim(claim);
        }
        let id = match (ahead, self.full) {
            (Ahead::OfTheYounger, Some(max_waiting)) if self.waiters.waiting() > 0 => {
                self.tally.refused += 1;
                return Asked::Refused { max_waiting };
            }
            (Ahead::OfTheYounger | Ahead::AsBefore, _) => self.waiters.enter(ticket, waker),
            (Ahead::OfAll, _) => self.waiters.enter_ahead(ticket, waker),
        };
        self.finish(effects);
        Asked::Place(id)
    }

    fn take(&mut self, effects: &mut Effects<T, W>) -> Option<Claim<T>> {
        if self.closed {
            return Some(Claim::Closed);
        }
        if let Some(connection) = self.take_idle(effects) {
            return Some(Claim::Connection(connection));
        }
        if self.free == 0 {
            return None;
        }
        self.free -= 1;
        self.count_claimed();
        self.finish(effects);
        Some(Claim::Token)
    }

    /// Takes a free token to use it at once; false when there is none, or the
    /// session is past its deadline.
    pub fn take_token(&mut self, now: Time, effects: &mut Effects<T, W>) -> bool {
        let takes = self.free > 0 && !self.is_past_deadline(now);
        if takes {
            self.free -= 1;
            self.count_claimed();
        }
        self.finish(effects);
        takes
    }

    /// Asks for the claim of a waiter. `Err` when it still waits: it is then
    /// woken by `waker`, and the former one comes back.
    pub fn poll(&mut self, id: WaiterId, waker: W) -> Result<Claim<T>, W> {
        match self.waiters.poll(id, waker) {
            Removed::Waiting(former) => Err(former),
            Removed::Chosen(claim) => Ok(claim),
        }
    }

    /// A waiter gives up. What it was chosen for passes on, the recall first.
    /// Returns its waker if it still waited.
    pub fn leave(&mut self, id: WaiterId, now: Time, effects: &mut Effects<T, W>) -> Option<W> {
        let waker = match self.waiters.remove(id) {
            Removed::Waiting(waker) => Some(waker),
            Removed::Chosen(claim) => {
                match claim {
                    Claim::Connection(connection) => {
                        self.in_use -= 1;
                        self.put_connection(connection, now, effects);
                    }
                    Claim::Token => {
                        self.count_unclaimed();
                        self.put_free(effects);
                    }
                    Claim::Closed => {}
                }
                None
            }
        };
        self.finish(effects);
        waker
    }

    /// Asks, before a claimed token is used, whether it may be. If not, it is
    /// gone afterwards: past the deadline an unused token lapses.
    pub fn may_use(&mut self, now: Time, effects: &mut Effects<T, W>) -> MayUse {
        let answer = if self.closed {
            MayUse::Closed
        } else if self.is_past_deadline(now) || self.late > 0 {
            MayUse::Lapsed
        } else {
            return MayUse::Yes;
        };
        let late = self.late > 0;
        self.count_unclaimed();
        self.tokens -= 1;
        self.stale -= u32::from(late);
        self.finish(effects);
        answer
    }

    /// A connect that took `took` succeeded. The deadline is looked at again:
    /// a machine may have slept through it during the connect.
    pub fn opened(&mut self, took: Duration, now: Time, effects: &mut Effects<T, W>) -> Opened {
        let opened = self.count_opened(took, now);
        if opened == Opened::InUse {
            self.in_use += 1;
        }
        self.finish(effects);
        opened
    }

    /// A connect failed.
    pub fn open_failed(&mut self, timed_out: bool, effects: &mut Effects<T, W>) {
        self.tally.open_failures += 1;
        self.tally.create_timeouts += u64::from(timed_out);
        self.count_not_opening();
        self.put_free(effects);
        self.finish(effects);
    }

    /// The checkout is over, the connection not yet back: it is being reset.
    pub fn checked_in(&mut self, held: Duration, now: Time) {
        self.tally.returned(held, now);
    }

    /// A connection comes back that was `held` for so long; None when that was
    /// recorded before.
    pub fn give_back(
        &mut self,
        connection: T,
        held: Option<Duration>,
        now: Time,
        effects: &mut Effects<T, W>,
    ) {
        if let Some(held) = held {
            self.tally.returned(held, now);
        }
        self.in_use -= 1;
        self.put_connection(connection, now, effects);
        self.finish(effects);
    }

    /// A connection in use begins to close; its token is counted until
    /// [`close_ended`](Self::close_ended).
    pub fn begin_close(&mut self, held: Duration, now: Time, effects: &mut Effects<T, W>) {
        self.tally.returned(held, now);
        self.in_use -= 1;
        self.count_closing(self.owes_a_return());
        self.finish(effects);
    }

    /// A connection begins to close whose use is not, or has been recorded: it
    /// `failed` its test, its task left in the middle of it, it was detached, or being
    /// reset.
    pub fn begin_retire(&mut self, failed: bool, effects: &mut Effects<T, W>) {
        self.tally.recycle_failures += u64::from(failed);
        self.in_use -= 1;
        self.count_closing(self.owes_a_return());
        self.finish(effects);
    }

    /// A connection is closed for certain. Only now it is decided whether its
    /// token leaves: a raise that came during the close keeps it.
    pub fn close_ended(&mut self, effects: &mut Effects<T, W>) {
        self.closing -= 1;
        let leaves = self.leaving > 0;
        self.leaving -= u32::from(leaves);
        if leaves && self.tokens > self.target && !self.gives_up_everything() {
            self.tokens -= 1;
            self.tally.recalls += 1;
        } else {
            self.put_free(effects);
        }
        self.finish(effects);
    }

    /// A close asks for another connection for the first time: it may last.
    pub fn close_stalls(&mut self, effects: &mut Effects<T, W>) {
        self.stalled += 1;
        self.finish(effects);
    }

    /// The end of a close that stalled.
    pub fn stalled_close_ended(&mut self, effects: &mut Effects<T, W>) {
        self.stalled -= 1;
        self.close_ended(effects);
    }

    /// A token without a connection comes back, as those of `Tokens` do.
    pub fn give_back_token(&mut self, held: Duration, now: Time, effects: &mut Effects<T, W>) {
        self.tally.returned(held, now);
        self.in_use -= 1;
        self.put_free(effects);
        self.finish(effects);
    }
}

// What others may know.
impl<T, W> State<T, W> {
    /// What happened so far, but for the source lines.
    pub fn statistics(&self) -> Statistics {
        Statistics { peak_in_use: self.peak_in_use, peak_open: self.peak_open, ..self.tally.statistics() }
    }

    /// The trace of the oldest waiter.
    pub fn trace(&self) -> Option<TraceContext> {
        self.waiters.oldest().and_then(|ticket| ticket.trace)
    }

    /// True while the session is past its deadline.
    pub fn is_lapsed(&self, now: Time) -> bool {
        self.lapse.is_some() || self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// True once [`close`](Self::close) was called.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// True when everything was given back after a close.
    pub fn is_emptied(&self) -> bool {
        self.closed && self.tokens == 0
    }
}
