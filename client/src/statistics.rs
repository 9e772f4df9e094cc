//! What happened in a pool: how long connections stay out, from which source
//! lines, and how often it waited, opened and closed. Bounded in memory, no
//! allocation at a checkout. Knows nothing of connections.

use std::panic::Location;
use std::time::Duration;

use crate::clock::Time;

/// Number of buckets of the hold time.
pub const HOLD_BUCKETS: usize = 8;

/// Source lines that are counted on their own; later ones are counted together.
pub const SITES_BOUND: usize = 128;

/// Upper bounds of all buckets but the last, which has none. Each bucket is
/// half-open: a hold of exactly 1 ms counts in the second.
pub const HOLD_BOUNDS: [Duration; HOLD_BUCKETS - 1] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(100),
    Duration::from_secs(1_000),
];

/// What a pool has seen since it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Finished checkouts by how long they lasted; see [`HOLD_BOUNDS`]. The
    /// time of the test at checkout is included when it follows at once.
    pub hold: [u64; HOLD_BUCKETS],
    /// The same for each source line, the most used first.
    pub sites: Vec<SiteStatistics>,
    /// Most connections that were ever in use at a time.
    pub peak_in_use: u32,
    /// Most connections that were ever open, opening or closing at a time.
    pub peak_open: u32,
    /// Checkouts that had to wait.
    pub waits: u64,
    /// Waits that ended with `wait_timeout`.
    pub wait_timeouts: u64,
    /// Connects that ended with `create_timeout`.
    pub create_timeouts: u64,
    /// Connections opened.
    pub opens: u64,
    /// Connects that failed or were given up.
    pub open_failures: u64,
    /// Connections closed.
    pub closes: u64,
    /// Connections that failed their test at checkout.
    pub recycle_failures: u64,
    /// Tokens given up because the server recalled them.
    pub recalls: u64,
    /// Mean time in use, weighted towards the last ones; zero when unknown.
    pub mean_hold: Duration,
    /// Mean time of a connect, weighted towards the last ones; zero when
    /// unknown.
    pub mean_connect: Duration,
}

/// What happened to the checkouts of one source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteStatistics {
    /// Where the checkout is written; None counts all lines beyond
    /// [`SITES_BOUND`] and the pool's own checkouts.
    pub location: Option<&'static Location<'static>>,
    /// Finished checkouts by how long they lasted; see [`HOLD_BOUNDS`].
    pub hold: [u64; HOLD_BUCKETS],
    /// Connections in use now.
    pub in_use: u32,
    /// Checkouts that had to wait.
    pub waits: u64,
    /// Waits that ended with `wait_timeout`.
    pub wait_timeouts: u64,
}

/// Names a source line within one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site(u16);

impl Site {
    /// All lines that are not counted on their own.
    pub const OTHER: Site = Site(0);
}

/// A connection in use: where it was checked out, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The source line.
    pub site: Site,
    /// Since when.
    pub since: Time,
}

/// The counters, as the ledger keeps them under its lock.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Index 0 is [`Site::OTHER`].
    sites: Vec<SiteStatistics>,
    /// Most checkouts come from the line that the last one came from.
    last: Site,
    mean_hold: Mean,
    mean_connect: Mean,
    pub(crate) peak_in_use: u32,
    pub(crate) peak_open: u32,
    pub(crate) create_timeouts: u64,
    pub(crate) opens: u64,
    pub(crate) open_failures: u64,
    pub(crate) closes: u64,
    pub(crate) recycle_failures: u64,
    pub(crate) recalls: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            sites: vec![SiteStatistics::default()],
            last: Site::OTHER,
            mean_hold: Mean::default(),
            mean_connect: Mean::default(),
            peak_in_use: 0,
            peak_open: 0,
            create_timeouts: 0,
            opens: 0,
            open_failures: 0,
            closes: 0,
            recycle_failures: 0,
            recalls: 0,
        }
    }

    /// The site of a source line. The compiler may give one line several
    /// addresses, so equal addresses are only the quick answer.
    pub(crate) fn site(&mut self, location: &'static Location<'static>) -> Site {
        let is = |site: &SiteStatistics| site.location.is_some_and(|known| std::ptr::eq(known, location));
        if !is(&self.sites[usize::from(self.last.0)]) {
            let found = self
                .sites
                .iter()
                .position(is)
                .or_else(|| self.sites.iter().position(|site| site.location == Some(location)));
            self.last = match found {
                Some(index) => Site(index as u16),
                None if self.sites.len() <= SITES_BOUND => {
                    self.sites.push(SiteStatistics { location: Some(location), ..SiteStatistics::default() });
                    Site((self.sites.len() - 1) as u16)
                }
                None => Site::OTHER,
            };
        }
        self.last
    }

    pub(crate) fn checked_out(&mut self, site: Site) {
        self.at(site).in_use += 1;
    }

    /// A connection was not used after all: its test failed, or its task left.
    pub(crate) fn not_used(&mut self, site: Site) {
        self.at(site).in_use -= 1;
    }

    pub(crate) fn returned(&mut self, held: Held, now: Time) {
        let duration = now.since(held.since);
        let site = self.at(held.site);
        site.in_use -= 1;
        site.hold[bucket(duration)] += 1;
        self.mean_hold.add(duration);
    }

    pub(crate) fn waited(&mut self, site: Site) {
        self.at(site).waits += 1;
    }

    pub(crate) fn wait_timed_out(&mut self, site: Site) {
        self.at(site).wait_timeouts += 1;
    }

    pub(crate) fn opened(&mut self, took: Duration) {
        self.opens += 1;
        self.mean_connect.add(took);
    }

    pub(crate) fn mean_hold(&self) -> Duration {
        self.mean_hold.value()
    }

    pub(crate) fn mean_connect(&self) -> Duration {
        self.mean_connect.value()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let mut sites: Vec<_> = self.sites.iter().filter(|site| is_used(site)).cloned().collect();
        sites.sort_by_key(|site| std::cmp::Reverse(site.hold.iter().sum::<u64>()));
        let mut hold = [0; HOLD_BUCKETS];
        for site in &sites {
            for (sum, count) in hold.iter_mut().zip(site.hold) {
                *sum += count;
            }
        }
        Statistics {
            hold,
            peak_in_use: self.peak_in_use,
            peak_open: self.peak_open,
            waits: sites.iter().map(|site| site.waits).sum(),
            wait_timeouts: sites.iter().map(|site| site.wait_timeouts).sum(),
            create_timeouts: self.create_timeouts,
            opens: self.opens,
            open_failures: self.open_failures,
            closes: self.closes,
            recycle_failures: self.recycle_failures,
            recalls: self.recalls,
            mean_hold: self.mean_hold(),
            mean_connect: self.mean_connect(),
            sites,
        }
    }

    fn at(&mut self, site: Site) -> &mut SiteStatistics {
        &mut self.sites[usize::from(site.0)]
    }
}

fn is_used(site: &SiteStatistics) -> bool {
    let unused = SiteStatistics { location: site.location, ..SiteStatistics::default() };
    *site != unused
}

/// Which bucket a hold time belongs to.
fn bucket(duration: Duration) -> usize {
    // The buckets grow tenfold from one millisecond on, so the number of
    // decimal digits names the bucket without a search.
    let digits = duration.as_millis().checked_ilog10().map_or(0, |log| log as usize + 1);
    digits.min(HOLD_BUCKETS - 1)
}

/// An exponentially weighted mean: each value moves it by an eighth of the
/// difference, so about the last sixteen count.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    nanoseconds: Option<u64>,
}

impl Mean {
    const WEIGHT: u64 = 8;

    fn add(&mut self, value: Duration) {
        let value = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds = Some(match self.nanoseconds {
            None => value,
            Some(mean) if value >= mean => mean + (value - mean) / Self::WEIGHT,
            Some(mean) => mean - (mean - value) / Self::WEIGHT,
        });
    }

    fn value(self) -> Duration {
        Duration::from_nanos(self.nanoseconds.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_half_open() {
        let mut lower = Duration::ZERO;
        for (index, upper) in HOLD_BOUNDS.into_iter().enumerate() {
            assert_eq!(bucket(lower), index);
            assert_eq!(bucket(upper.saturating_sub(Duration::from_nanos(1))), index);
            lower = upper;
        }
        assert_eq!(bucket(lower), HOLD_BUCKETS - 1);
        assert_eq!(bucket(Duration::MAX), HOLD_BUCKETS - 1);
    }

    #[test]
    fn the_mean_follows_the_last_values() {
        let mut mean = Mean::default();
        assert_eq!(mean.value(), Duration::ZERO);
        mean.add(Duration::from_millis(8));
        assert_eq!(mean.value(), Duration::from_millis(8));
        for _ in 0..100 {
            mean.add(Duration::from_millis(80));
        }
        assert!(mean.value() > Duration::from_millis(79) && mean.value() <= Duration::from_millis(80));
    }

    #[test]
    fn one_line_is_one_site() {
        let mut tally = Tally::new();
        let here = Location::caller();
        let site = tally.site(here);
        // The same line again, as another crate's copy of it would look.
        let copy: &'static Location<'static> = Box::leak(Box::new(*here));
        assert_eq!(tally.site(copy), site);
        assert_eq!(tally.site(here), site);
        assert_ne!(tally.site(Location::caller()), site);
    }
}
