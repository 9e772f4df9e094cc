//! The parts of the cap that sessions are due: by their tasks in work and waiting,
//! times how long they hold, but nobody more than it can use; what one cannot use is
//! for the others (weighted max-min). Rule 5 of `docs/admission.md`.

use alloc::collections::BTreeMap;
use core::{cmp::Ordering, time::Duration};

/// Hold of a session that has not measured its own, while nobody has.
const UNKNOWN_HOLD: Duration = Duration::from_millis(5);

/// How much of the cap a session is due, beside that of others: tasks, times
/// microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight(u64);

impl Weight {
    /// Both are bounded, so that no report can make sums or products overflow.
    pub(crate) fn of(tasks: u32, hold: Duration) -> Weight {
        let hold = u32::try_from(hold.as_micros()).unwrap_or(u32::MAX);
        Weight(u64::from(tasks) * u64::from(hold))
    }
}

/// What one session claims of the shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stake {
    pub(crate) weight: Weight,
    /// Tokens that it can use.
    pub(crate) most: u32,
}

impl Stake {
    /// The tokens it can use for its weight, on a scale of quarters of a doubling:
    /// the lower, the sooner it has all that it can use. Nobody without either has a
    /// place on it.
    fn appetite(self) -> Option<i16> {
        let quarters = |value: u64| {
            let doublings = value.ilog2();
            // The two digits after the first.
            let quarter = (value << (u64::BITS - 1 - doublings)) >> (u64::BITS - 3) & 3;
            4 * doublings as i16 + quarter as i16
        };
        let Weight(weight) = self.weight;
        (weight > 0 && self.most > 0).then(|| quarters(u64::from(self.most)) - quarters(weight))
    }
}

/// What the shares are made of: sums over all sessions that a stream speaks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    weight: u128,
    /// Those of about one appetite together, for no decision looks at everybody.
    by_appetite: BTreeMap<i16, Together>,
    /// Of the sessions that have measured their hold.
    hold: Duration,
    measured: u32,
}

/// Sessions that come to have all they can use at about the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Together {
    weight: u128,
    most: u128,
}

impl Sums {
    pub(crate) fn add(&mut self, stake: Stake, hold: Duration) {
        self.weight += u128::from(stake.weight.0);
        if let Some(appetite) = stake.appetite() {
            let together = self.by_appetite.entry(appetite).or_default();
            together.weight += u128::from(stake.weight.0);
            together.most += u128::from(stake.most);
        }
        self.hold += hold;
        self.measured += u32::from(!hold.is_zero());
    }

    pub(crate) fn subtract(&mut self, stake: Stake, hold: Duration) {
        self.weight -= u128::from(stake.weight.0);
        if let Some(appetite) = stake.appetite()
            && let Some(together) = self.by_appetite.get_mut(&appetite)
        {
            together.weight -= u128::from(stake.weight.0);
            together.most -= u128::from(stake.most);
            if *together == Together::default() {
                self.by_appetite.remove(&appetite);
            }
        }
        self.hold -= hold;
        self.measured -= u32::from(!hold.is_zero());
    }

    /// The hold that is assumed of a session that has not measured its own: the
    /// mean of those that have.
    pub(crate) fn usual_hold(&self) -> Duration {
        self.hold.checked_div(self.measured).unwrap_or(UNKNOWN_HOLD)
    }

    /// The shares in so many tokens. Those whose part would be more than they can use
    /// have what they can use, and the others share the rest.
    pub(crate) fn shares(&self, tokens: u32) -> Shares {
        let (mut rest, mut weight) = (u128::from(tokens), self.weight);
        for together in self.by_appetite.values() {
            if together.most * weight >= rest * together.weight {
                break;
            }
            // Below `rest`, as the weight of some is at most that of all.
            rest -= together.most;
            weight -= together.weight;
        }
        Shares { tokens: rest as u32, weight: weight.max(1) }
    }
}

/// Tokens to be shared by weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    tokens: u32,
    weight: u128,
}

impl Shares {
    /// `tokens < share − 0.5`, of the tokens in the supply.
    pub(crate) fn half_below(&self, supply: &Supply) -> bool {
        self.compare(supply) == Ordering::Less
    }

    /// `tokens > share − 0.5`, of the tokens in the supply.
    pub(crate) fn not_half_below(&self, supply: &Supply) -> bool {
        self.compare(supply) == Ordering::Greater
    }

    /// The share of somebody, in thousandths of a token.
    pub(crate) fn share_thousandths(&self, stake: Stake) -> u64 {
        let share = u128::from(self.tokens) * u128::from(stake.weight.0) * 1_000 / self.weight;
        u64::try_from(share).unwrap_or(u64::MAX).min(u64::from(stake.most) * 1_000)
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

    /// With so many tokens more.
    pub(crate) fn with(self, tokens: u64) -> Supply {
        Supply { doubled: self.doubled + 2 * tokens, ..self }
    }

    /// With so many tokens less; below none, it is never above a share.
    pub(crate) fn without(self, tokens: u64) -> Supply {
        Supply { doubled: self.doubled.saturating_sub(2 * tokens), ..self }
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

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// What each of these is due, in thousandths, of so many tokens.
    fn due(tokens: u32, claims: &[(u32, u32)]) -> Vec<u64> {
        let stakes = claims.iter().map(|(tasks, most)| stake(*tasks, *most)).collect::<Vec<_>>();
        let mut sums = Sums::default();
        for stake in &stakes {
            sums.add(*stake, Duration::ZERO);
        }
        let shares = sums.shares(tokens);
        stakes.iter().map(|stake| shares.share_thousandths(*stake)).collect()
    }

    fn stake(tasks: u32, most: u32) -> Stake {
        Stake { weight: Weight::of(tasks, Duration::from_millis(5)), most }
    }

    #[test]
    fn shares_are_parts_of_all_tasks_however_many_tokens_there_are() {
        assert_eq!(due(40, &[(160, 40), (26, 26), (10, 10), (4, 4)]), [32_000, 5_200, 2_000, 800]);
    }

    #[test]
    fn what_one_cannot_use_is_for_the_others() {
        assert_eq!(due(100, &[(1_000, 10), (100, 100), (200, 100)]), [10_000, 30_000, 60_000]);
        assert_eq!(due(100, &[(1_000, 10), (300, 20), (100, 100)]), [10_000, 20_000, 70_000]);
        assert_eq!(due(100, &[(7, 7), (9, 9)]), [7_000, 9_000]);
        assert_eq!(due(0, &[(7, 7)]), [0]);
    }

    proptest! {
        /// Close to what a look at everybody finds, one after the other: the scale is
        /// in quarters.
        #[test]
        fn shares_are_about_max_min(
            claims in prop::collection::vec((1..400u32, 1..60u32), 1..20),
            tokens in 1..200u32,
        ) {
            let claims: Vec<(u32, u32)> =
                claims.into_iter().map(|(tasks, most)| (tasks, most.min(tasks))).collect();
            let mut rest = f64::from(tokens);
            let mut weight: f64 = claims.iter().map(|(tasks, _)| f64::from(*tasks)).sum();
            let mut hungry = claims.clone();
            hungry.sort_by(|one, other| (one.1 * other.0).cmp(&(other.1 * one.0)));
            for (tasks, most) in hungry {
                if f64::from(most) * weight < rest * f64::from(tasks) {
                    rest -= f64::from(most);
                    weight -= f64::from(tasks);
                }
            }
            for ((tasks, most), due) in claims.iter().zip(due(tokens, &claims)) {
                let exact = if weight > 0.0 { rest * f64::from(*tasks) / weight } else { f64::INFINITY };
                let exact = exact.min(f64::from(*most));
                let due = due as f64 / 1e3;
                prop_assert!((due - exact).abs() <= exact * 0.25 + 0.01, "{due} for {exact}");
            }
        }

        #[test]
        fn what_is_taken_out_leaves_nothing_behind(claims in prop::collection::vec((0..9u32, 0..9u32), 0..9)) {
            let mut sums = Sums::default();
            let hold = Duration::from_millis(1);
            for (tasks, most) in &claims {
                sums.add(stake(*tasks, *most), hold);
            }
            for (tasks, most) in &claims {
                sums.subtract(stake(*tasks, *most), hold);
            }
            prop_assert_eq!(sums, Sums::default());
        }
    }
}
