//! How much of the cap each workload is to have: weighted max-min, between its
//! floor and what it has use for. Rule 9 of `docs/admission.md`. Knows nothing of
//! sessions.

use alloc::vec::Vec;

/// A part of a token, so fine that the greatest weight can be told from none.
pub(crate) const TOKEN: u64 = 1 << 20;

/// What one workload asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) weight: u32,
    /// Tokens that it gets before others get more than theirs. Not above `most`.
    pub(crate) least: u32,
    /// Tokens that it has use for and may have.
    pub(crate) most: u32,
}

/// What each workload is to have of so many tokens, in parts of a token. All get
/// their least, and share the rest by weight, until each has its most: nobody who
/// could use more has less for its weight than anybody else, but by its least.
pub(crate) fn targets(claims: &[Claim], tokens: u64) -> Vec<u64> {
    let least: u64 = claims.iter().map(|claim| u64::from(claim.least)).sum();
    if least > tokens {
        // What was to be had for certain is not there: all have less alike.
        let part = |claim: &Claim| {
            let part = u128::from(claim.least) * u128::from(tokens * TOKEN) / u128::from(least);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        return claims.iter().map(part).collect();
    }
    let most: u64 = claims.iter().map(|claim| u64::from(claim.most)).sum();
    let level = if most <= tokens { u64::MAX } else { level(claims, tokens) };
    claims.iter().map(|claim| at_level(claim, level)).collect()
}

/// The highest level for one unit of weight that there are tokens enough for.
fn level(claims: &[Claim], tokens: u64) -> u64 {
    let enough =
        |level: u64| claims.iter().map(|claim| at_level(claim, level)).sum::<u64>() <= tokens * TOKEN;
    let (mut low, mut high) = (0, tokens * TOKEN + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) { low = middle } else { high = middle }
    }
    low
}

fn at_level(claim: &Claim, level: u64) -> u64 {
    let by_weight = level.saturating_mul(u64::from(claim.weight));
    by_weight.clamp(u64::from(claim.least) * TOKEN, u64::from(claim.most) * TOKEN)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;

    use super::*;

    fn claim(weight: u32, least: u32, most: u32) -> Claim {
        Claim { weight, least, most }
    }

    fn check(claims: &[Claim], tokens: u64, expected: &[f64]) {
        let got: Vec<f64> =
            targets(claims, tokens).iter().map(|target| *target as f64 / TOKEN as f64).collect();
        let close = got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 0.01);
        assert!(close && got.len() == expected.len(), "{got:?} for {expected:?}");
    }

    #[test]
    fn everybody_gets_what_there_is_enough_for() {
        check(&[claim(1, 0, 20), claim(9, 5, 30)], 50, &[20.0, 30.0]);
    }

    #[test]
    fn weights_divide_what_is_scarce() {
        check(&[claim(1, 0, 100), claim(3, 0, 100)], 40, &[10.0, 30.0]);
        // Who needs less than its part leaves the rest to the others.
        check(&[claim(1, 0, 100), claim(3, 0, 100), claim(4, 0, 8)], 40, &[8.0, 24.0, 8.0]);
    }

    #[test]
    fn a_floor_comes_before_weights() {
        check(&[claim(1, 15, 100), claim(3, 0, 100)], 40, &[15.0, 25.0]);
        check(&[claim(1, 0, 0), claim(3, 0, 100)], 40, &[0.0, 40.0]);
    }

    #[test]
    fn floors_above_what_there_is_shrink_alike() {
        check(&[claim(1, 30, 30), claim(3, 10, 100)], 20, &[15.0, 5.0]);
        check(&[claim(1, 30, 30), claim(3, 10, 100)], 0, &[0.0, 0.0]);
    }

    proptest! {
        /// Whoever has less than it could use has no less for its weight than
        /// anybody who has more than its least.
        #[test]
        fn nobody_can_complain(
            claims in prop::collection::vec((1..=1_000u32, 0..50u32, 0..200u32), 1..9),
            tokens in 0..1_000u64,
        ) {
            let claims: Vec<Claim> =
                claims.into_iter().map(|(weight, least, more)| claim(weight, least, least + more)).collect();
            let targets = targets(&claims, tokens);
            let least: u64 = claims.iter().map(|claim| u64::from(claim.least)).sum();
            let most: u64 = claims.iter().map(|claim| u64::from(claim.most)).sum();
            let given: u64 = targets.iter().sum();
            // Rounding takes less than a hundredth of a token from each.
            let slack = claims.len() as u64 * TOKEN / 100;
            prop_assert!(given <= tokens * TOKEN && given + slack >= tokens.min(most) * TOKEN);
            for (claim, target) in claims.iter().zip(&targets) {
                prop_assert!(*target <= u64::from(claim.most) * TOKEN);
                prop_assert!(least > tokens || *target >= u64::from(claim.least) * TOKEN);
            }
            let all = || claims.iter().zip(&targets);
            for (poor, has) in all().filter(|(claim, has)| **has < u64::from(claim.most) * TOKEN) {
                for (rich, more) in all().filter(|(claim, has)| **has > u64::from(claim.least) * TOKEN) {
                    let (one, other) = (has / u64::from(poor.weight), more / u64::from(rich.weight));
                    prop_assert!(other <= one + TOKEN / 100);
                }
            }
        }
    }
}
