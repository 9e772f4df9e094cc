//! Unused tokens that may be asked back, most first, each after a grace. Rule 4
//! of `docs/admission.md`. Knows nothing of who asks.

use alloc::collections::BTreeSet;
use core::{cmp::Reverse, time::Duration};

use crate::{SessionId, Time};

/// Bounds of the grace of an idle connection, which is the time of one connect:
/// below that it costs more to open another one than to wait.
const GRACE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(25));

/// The unused tokens of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    /// At least 1.
    pub(crate) tokens: u32,
    /// When their grace ends.
    pub(crate) ripe_at: Time,
}

/// When the grace of connections ends that are idle since `rose`.
pub(crate) fn ripe_at(rose: Time, mean_connect: Duration) -> Time {
    rose + mean_connect.clamp(GRACE.0, GRACE.1)
}

/// Most first.
type Most = BTreeSet<(Reverse<u32>, SessionId)>;

/// The leases with unused tokens.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    ripe: Most,
    unripe: Most,
    /// The unripe ones by the end of their grace.
    ripens: BTreeSet<(Time, SessionId, u32)>,
    in_grace: u64,
}

impl Idle {
    pub(crate) fn insert(&mut self, session: SessionId, spare: Spare) {
        self.unripe.insert((Reverse(spare.tokens), session));
        self.ripens.insert((spare.ripe_at, session, spare.tokens));
        self.in_grace += u64::from(spare.tokens);
    }

    pub(crate) fn remove(&mut self, session: SessionId, spare: Spare) {
        let most = (Reverse(spare.tokens), session);
        if self.ripens.remove(&(spare.ripe_at, session, spare.tokens)) {
            self.in_grace -= u64::from(spare.tokens);
            self.unripe.remove(&most);
        } else {
            self.ripe.remove(&most);
        }
    }

    /// Takes notice of the graces that have ended.
    pub(crate) fn ripen(&mut self, now: Time) {
        while let Some(&(at, session, tokens)) = self.ripens.first()
            && at <= now
        {
            let most = (Reverse(tokens), session);
            self.ripens.pop_first();
            self.in_grace -= u64::from(tokens);
            self.unripe.remove(&most);
            self.ripe.insert(most);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ripe.is_empty() && self.unripe.is_empty()
    }

    /// Whoever has most unused tokens; whatever their grace if that is `void`.
    pub(crate) fn most(&self, void: bool) -> Option<(u32, SessionId)> {
        let ripe = self.ripe.first();
        let unripe = if void { self.unripe.first() } else { None };
        ripe.into_iter().chain(unripe).min().map(|(Reverse(tokens), session)| (*tokens, *session))
    }

    /// When the next grace ends.
    pub(crate) fn ripens_at(&self) -> Option<Time> {
        self.ripens.first().map(|(at, _, _)| *at)
    }

    /// Unused tokens whose grace has not ended.
    pub(crate) fn in_grace(&self) -> u64 {
        self.in_grace
    }
}
