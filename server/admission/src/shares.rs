//! The parts of the cap that sessions are due: by their tasks in work and
//! waiting, times how long they hold. Rule 5 of `docs/admission.md`.

use core::{cmp::Ordering, time::Duration};

/// Hold of a session that has not measured its own, while nobody has.
const UNKNOWN_HOLD: Duration = Duration::from_millis(5);

/// How much of the cap a session is due, beside that of others: tokens that it has
/// use for, times microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight(u64);

impl Weight {
    /// Both are bounded, so that no report can make sums or products overflow.
    pub(crate) fn of(tokens: u32, hold: Duration) -> Weight {
        let hold = u32::try_from(hold.as_micros()).unwrap_or(u32::MAX);
        Weight(u64::from(tokens) * u64::from(hold))
    }
}

/// What the shares are made of: sums over all sessions that a stream speaks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    weight: u128,
    /// Of the sessions that have measured their hold.
    hold: Duration,
    measured: u32,
}

impl Sums {
    pub(crate) fn add(&mut self, weight: Weight, hold: Duration) {
        self.weight += u128::from(weight.0);
        self.hold += hold;
        self.measured += u32::from(!hold.is_zero());
    }

    pub(crate) fn subtract(&mut self, weight: Weight, hold: Duration) {
        self.weight -= u128::from(weight.0);
        self.hold -= hold;
        self.measured -= u32::from(!hold.is_zero());
    }

    /// The hold that is assumed of a session that has not measured its own: the
    /// mean of those that have.
    pub(crate) fn usual_hold(&self) -> Duration {
        self.hold.checked_div(self.measured).unwrap_or(UNKNOWN_HOLD)
    }

    /// The shares in so many tokens.
    pub(crate) fn shares(&self, tokens: u32) -> Shares {
        Shares { tokens, weight: self.weight.max(1) }
    }
}

/// Tokens to be shared by weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    tokens: u32,
    weight: u128,
}

impl Shares {
    /// `tokens < share − 0.5`
    pub(crate) fn half_below(&self, supply: &Supply) -> bool {
        self.compare(supply) == Ordering::Less
    }

    /// `tokens > share − 0.5`
    pub(crate) fn not_half_below(&self, supply: &Supply) -> bool {
        self.compare(supply) == Ordering::Greater
    }

    /// The share of somebody, in thousandths of a token.
    pub(crate) fn share_thousandths(&self, weight: Weight) -> u64 {
        let share = u128::from(self.tokens) * u128::from(weight.0) * 1_000 / self.weight;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Compares tokens with the share less a half.
    fn compare(&self, supply: &Supply) -> Ordering {
        let share = 2 * u128::from(self.tokens) * u128::from(supply.weight.0);
        (u128::from(supply.doubled) * self.weight).cmp(&share)
    }
}

/// Tokens of one session beside its weight. Ordered by how much it has of what
/// it is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supply {
    /// `2 × tokens + 1`, so that half a token is a whole number.
    doubled: u64,
    weight: Weight,
}

impl Supply {
    pub(crate) fn new(tokens: u32, weight: Weight) -> Supply {
        Supply { doubled: 2 * u64::from(tokens) + 1, weight }
    }
}

impl Ord for Supply {
    fn cmp(&self, other: &Supply) -> Ordering {
        let product = |tokens: u64, weight: Weight| u128::from(tokens) * u128::from(weight.0);
        product(self.doubled, other.weight).cmp(&product(other.doubled, self.weight))
    }
}

impl PartialOrd for Supply {
    fn partial_cmp(&self, other: &Supply) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Supply {
    fn eq(&self, other: &Supply) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Supply {}
