//! One session: who it is, how long it has been silent, what it was told.
//! Knows nothing of what it holds.

use alloc::{sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{
    DatabaseId, StreamId, Ticket, Time,
    durable::{self, Kind, Outcome},
    lease::{OBSERVATIONS, Standing},
};

/// The driver's running time: it stands still while the driver does, so that a
/// stall of the server expires nobody (rule 15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Running(pub(crate) Duration);

impl Running {
    pub(crate) fn since(self, earlier: Running) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) node: Arc<str>,
    pub(crate) workload: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) stream: Option<StreamId>,
    /// When it was last heard of, or when it ended.
    pub(crate) heard: Running,
    /// The longest time to live that it may believe in.
    pub(crate) ttl: Duration,
    /// The time to live that the Welcome tells, until it is acknowledged.
    pub(crate) ttl_next: Option<Duration>,
    /// Databases where it has a lease.
    pub(crate) databases: Vec<DatabaseId>,
    /// Those of them that its Hello did not claim.
    pub(crate) unclaimed: Vec<DatabaseId>,
    /// Calls that were handed the lease and may not have got it.
    pub(crate) handed: Vec<Ticket>,
    /// When its silence is looked at next.
    pub(crate) look_at: Option<Running>,
    /// As last written.
    pub(crate) written: Option<durable::Session>,
}

impl Session {
    /// How long it has been silent.
    pub(crate) fn silent(&self, now: Running) -> Duration {
        now.since(self.heard)
    }

    /// When its silence is too long.
    pub(crate) fn expires(&self) -> Running {
        Running(self.heard.0.saturating_add(self.ttl))
    }

    /// The record as it should be written now.
    pub(crate) fn record(&self, now: Running) -> durable::Session {
        durable::Session {
            node: self.node.clone(),
            workload: self.workload.clone(),
            kind: self.kind.clone(),
            ttl_ms: millis(self.ttl.max(self.ttl_next.unwrap_or_default())),
            // Whoever is attached may be heard at any moment, and that is not written.
            silent_ms: if self.stream.is_some() { 0 } else { millis(self.silent(now)) },
        }
    }

    /// Whether the record differs from what was written in more than a little
    /// silence.
    pub(crate) fn is_stale(&self, record: &durable::Session) -> bool {
        let Some(written) = &self.written else { return true };
        let worth_writing = millis(self.ttl) / 4;
        let same = durable::Session { silent_ms: record.silent_ms, ..written.clone() } == *record;
        // Of one that speaks, only a silence that is over is worth writing.
        let silence = match self.stream {
            Some(_) => written.silent_ms.saturating_sub(record.silent_ms),
            None => written.silent_ms.abs_diff(record.silent_ms),
        };
        !same || silence >= worth_writing
    }

    /// Whether a longer silence is written than the record has.
    pub(crate) fn has_written_silence_beyond(&self, record: &durable::Session) -> bool {
        self.written.as_ref().is_some_and(|written| written.silent_ms > record.silent_ms)
    }

    /// The standing of its leases after a restart at `now`.
    pub(crate) fn standing(&self, now: Time) -> Standing {
        match &self.kind {
            Kind::Node => Standing::Unattached,
            Kind::Quarantined => Standing::Quarantined { since: now, observations: OBSERVATIONS },
            Kind::Unary(unary) => match unary.outcome {
                Outcome::Leased => Standing::Unary { granted: now, observed: false },
                Outcome::Released | Outcome::Expired => {
                    Standing::Quarantined { since: now, observations: OBSERVATIONS }
                }
            },
        }
    }

    pub(crate) fn add(&mut self, database: DatabaseId) {
        if !self.databases.contains(&database) {
            self.databases.push(database);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
