//! What a node counts while it runs, and the line that it prints. Knows nothing
//! of pools.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use serde::Serialize;

/// Steps within each doubling of a time: percentiles are at most 1/32 too high.
const STEPS: u64 = 32;
/// Doublings from one microsecond on that are told apart; the last has no end.
const DOUBLINGS: u64 = 40;

/// What the tasks of one node have seen.
#[derive(Debug, Default)]
pub(crate) struct Record {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    checkouts: u64,
    errors: BTreeMap<String, u64>,
    peak_open: usize,
    wait: Histogram,
    hold: Histogram,
}

/// The printed line.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    node: String,
    checkouts: u64,
    errors: BTreeMap<String, u64>,
    peak_open: usize,
    wait_ms: Percentiles,
    hold_ms: Percentiles,
    duration_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Percentiles {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Record {
    /// A connection was taken out after `wait`; `open` are open now.
    pub(crate) fn checked_out(&self, wait: Duration, open: usize) {
        self.with(|seen| {
            seen.checkouts += 1;
            seen.peak_open = seen.peak_open.max(open);
            seen.wait.add(wait);
        });
    }

    /// It was given back after `hold`.
    pub(crate) fn returned(&self, hold: Duration) {
        self.with(|seen| seen.hold.add(hold));
    }

    /// A checkout or a query failed.
    pub(crate) fn failed(&self, name: String) {
        self.with(|seen| *seen.errors.entry(name).or_default() += 1);
    }

    /// Most connections that were open at a checkout.
    pub(crate) fn peak_open(&self) -> usize {
        self.with(|seen| seen.peak_open)
    }

    /// The line at the end.
    pub(crate) fn report(&self, node: String, peak_open: usize, duration: Duration) -> Report {
        self.with(|seen| Report {
            node,
            checkouts: seen.checkouts,
            errors: seen.errors.clone(),
            peak_open,
            wait_ms: seen.wait.percentiles(),
            hold_ms: seen.hold.percentiles(),
            duration_s: duration.as_secs_f64(),
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Times in buckets that grow with them, so that its size is fixed.
#[derive(Debug)]
struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; (STEPS * DOUBLINGS) as usize], count: 0, longest: Duration::ZERO }
    }
}

impl Histogram {
    fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = bucket(micros).min(self.buckets.len() - 1);
        self.buckets[bucket] += 1;
        self.count += 1;
        self.longest = self.longest.max(time);
    }

    fn percentiles(&self) -> Percentiles {
        Percentiles {
            p50: self.percentile(0.50),
            p99: self.percentile(0.99),
            max: milliseconds(self.longest),
        }
    }

    /// In milliseconds; 0 when nothing was added.
    fn percentile(&self, share: f64) -> f64 {
        let rank = (self.count as f64 * share).ceil() as u64;
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank.max(1) {
                return milliseconds(Duration::from_micros(end(bucket as u64)).min(self.longest));
            }
        }
        0.0
    }
}

/// The bucket of a time: exact up to `STEPS` microseconds, then `STEPS` buckets
/// for each doubling.
fn bucket(micros: u64) -> usize {
    let doublings = (micros / STEPS).checked_ilog2().map_or(0, |log| u64::from(log) + 1);
    let width = 1 << doublings.saturating_sub(1);
    let step = if doublings == 0 { micros } else { micros / width - STEPS };
    (doublings * STEPS + step) as usize
}

/// The first time that is beyond a bucket, in microseconds.
fn end(bucket: u64) -> u64 {
    let (doublings, step) = (bucket / STEPS, bucket % STEPS);
    if doublings == 0 { step + 1 } else { (STEPS + step + 1) << (doublings - 1) }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_its_bucket() {
        for micros in (0..5000).chain([1 << 20, (1 << 20) + 12345, 3_600_000_000]) {
            let bucket = bucket(micros) as u64;
            let start = if bucket == 0 { 0 } else { end(bucket - 1) };
            assert!(start <= micros && micros < end(bucket), "{micros} in {start}..{}", end(bucket));
        }
    }

    #[test]
    fn percentiles_are_close() {
        let mut histogram = Histogram::default();
        for millis in 1..=100 {
            histogram.add(Duration::from_millis(millis));
        }
        let Percentiles { p50, p99, max } = histogram.percentiles();
        assert!(
            (50.0..52.0).contains(&p50) && (99.0..=100.0).contains(&p99) && max == 100.0,
            "{p50} {p99} {max}"
        );
    }

    #[test]
    fn nothing_seen_is_zero() {
        let zero = Percentiles { p50: 0.0, p99: 0.0, max: 0.0 };
        assert_eq!(Histogram::default().percentiles(), zero);
    }
}
