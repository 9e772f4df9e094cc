//! How long connections stay out, and from which source lines: counted at each
//! checkout and return, beside the ledger's lock, not under it. Bounded in
//! memory, no lock, no allocation. Knows nothing of tokens.

use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::Time;

use super::{HOLD_BUCKETS, SITES_BOUND, SiteStatistics, Statistics};

/// Names a source line within one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site(u16);

impl Site {
    /// All lines that are not counted on their own.
    pub(crate) const OTHER: Site = Site(SITES_BOUND as u16);
}

/// A connection in use: where it was checked out, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The source line.
    pub(crate) site: Site,
    /// Since when it is in use.
    pub(crate) since: Time,
    /// Since when it is kept for its user: a task that is handed a connection comes to
    /// run only when a processor has time for it.
    pub(crate) kept_since: Time,
}

impl Held {
    /// In use from the moment on at which it was asked for, or made.
    pub(crate) const fn at_once(site: Site, since: Time) -> Self {
        Self { site, since, kept_since: since }
    }
}

/// The counters of all source lines.
pub(crate) struct Sites {
    /// A table open to its neighbours: a line is at the place that its number
    /// says, or at the first free one behind.
    locations: Box<[OnceLock<&'static Location<'static>>]>,
    /// One for each place, and the last for [`Site::OTHER`].
    counters: Box<[Counters]>,
}

/// What happened to the checkouts of one source line. They share no line of the
/// processor's cache with another's.
#[derive(Default)]
#[repr(align(128))]
struct Counters {
    in_use: AtomicU32,
    hold: [AtomicU64; HOLD_BUCKETS],
    waits: AtomicU64,
    wait_timeouts: AtomicU64,
}

impl Sites {
    pub(crate) fn new() -> Self {
        Self {
            locations: (0..SITES_BOUND).map(|_| OnceLock::new()).collect(),
            counters: (0..=SITES_BOUND).map(|_| Counters::default()).collect(),
        }
    }

    /// The site of a source line, which gets one while there is room.
    pub(crate) fn of(&self, location: &'static Location<'static>) -> Site {
        let first = location.line() as usize;
        for step in 0..SITES_BOUND {
            let place = (first + step) % SITES_BOUND;
            let known = *self.locations[place].get_or_init(|| location);
            // The compiler may give one line several addresses, so equal
            // addresses are only the quick answer.
            if std::ptr::eq(known, location) || known == location {
                return Site(place as u16);
            }
        }
        Site::OTHER
    }

    /// A connection is handed to a user.
    pub(crate) fn checked_out(&self, site: Site) {
        self.at(site).in_use.fetch_add(1, Relaxed);
    }

    /// A user is done with a connection.
    pub(crate) fn returned(&self, site: Site, held: Duration) {
        let counters = self.at(site);
        counters.in_use.fetch_sub(1, Relaxed);
        counters.hold[bucket(held)].fetch_add(1, Relaxed);
    }

    /// A connection ends that a user had kept for good.
    pub(crate) fn detached_ended(&self, site: Site) {
        self.at(site).in_use.fetch_sub(1, Relaxed);
    }

    pub(crate) fn waited(&self, site: Site) {
        self.at(site).waits.fetch_add(1, Relaxed);
    }

    pub(crate) fn wait_timed_out(&self, site: Site) {
        self.at(site).wait_timeouts.fetch_add(1, Relaxed);
    }

    /// Adds what is counted here to `statistics`. The counters are read one by
    /// one while others count on.
    pub(crate) fn add_to(&self, statistics: &mut Statistics) {
        let unused = SiteStatistics::default();
        for (place, counters) in self.counters.iter().enumerate() {
            let counted = counters.read();
            if counted == unused {
                continue;
            }
            for (sum, count) in statistics.hold.iter_mut().zip(counted.hold) {
                *sum += count;
            }
            statistics.waits += counted.waits;
            statistics.wait_timeouts += counted.wait_timeouts;
            let location = self.locations.get(place).and_then(OnceLock::get).copied();
            statistics.sites.push(SiteStatistics { location, ..counted });
        }
        statistics.sites.sort_by_key(|site| std::cmp::Reverse(site.hold.iter().sum::<u64>()));
    }

    fn at(&self, site: Site) -> &Counters {
        &self.counters[usize::from(site.0)]
    }
}

impl Counters {
    fn read(&self) -> SiteStatistics {
        SiteStatistics {
            location: None,
            hold: std::array::from_fn(|index| self.hold[index].load(Relaxed)),
            in_use: self.in_use.load(Relaxed),
            waits: self.waits.load(Relaxed),
            wait_timeouts: self.wait_timeouts.load(Relaxed),
        }
    }
}

/// Which bucket a hold time belongs to.
fn bucket(held: Duration) -> usize {
    // The buckets grow tenfold from one millisecond on, so the number of
    // decimal digits names the bucket without a search.
    let milliseconds = u64::try_from(held.as_millis()).unwrap_or(u64::MAX);
    let digits = milliseconds.checked_ilog10().map_or(0, |log| log as usize + 1);
    digits.min(HOLD_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::HOLD_BOUNDS;

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
    fn one_line_is_one_site() {
        let sites = Sites::new();
        let here = Location::caller();
        let site = sites.of(here);
        // The same line again, as another crate's copy of it would look.
        let copy: &'static Location<'static> = Box::leak(Box::new(*here));
        assert_eq!(sites.of(copy), site);
        assert_eq!(sites.of(here), site);
        assert_ne!(sites.of(Location::caller()), site);
    }

    #[test]
    fn lines_beyond_the_bound_are_counted_together() {
        let sites = Sites::new();
        // Columns tell them apart; all want the same place.
        let line = [(); 4].map(|()| Location::caller());
        let known: Vec<Site> = line.iter().map(|location| sites.of(location)).collect();
        assert_eq!(known[0], known[3]);
        for place in &sites.locations {
            place.get_or_init(Location::caller);
        }
        let late = sites.of(Location::caller());
        assert_eq!(late, Site::OTHER);
        sites.checked_out(late);
        sites.returned(late, Duration::from_millis(1));
        let mut statistics = Statistics::default();
        sites.add_to(&mut statistics);
        let [other] = &statistics.sites[..] else { panic!("one was used: {statistics:?}") };
        assert_eq!((other.location, other.in_use, other.hold[1]), (None, 0, 1));
        assert_eq!(statistics.hold[1], 1);
    }

    #[test]
    fn what_threads_count_at_once_is_all_counted() {
        const EACH: u64 = 10_000;
        const THREADS: u64 = 4;
        let sites = Sites::new();
        let site = sites.of(Location::caller());
        (0..THREADS * EACH).for_each(|_| sites.checked_out(site));
        std::thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| (0..EACH).for_each(|_| sites.returned(site, Duration::ZERO)));
            }
        });
        let mut statistics = Statistics::default();
        sites.add_to(&mut statistics);
        let [only] = &statistics.sites[..] else { panic!("one was used: {statistics:?}") };
        assert_eq!((only.hold[0], only.in_use), (THREADS * EACH, 0));
    }
}
