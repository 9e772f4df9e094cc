//! Which waits are followed for traces: from the report that somebody waits to
//! the grant. Knows nothing of how a span is made or where it goes.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use leasehold_admission::{DatabaseId, Facts, SessionId};

use super::streams::Node;
use crate::telemetry::{Admission, Contention, Traces};

/// Most leases whose wait is followed. Further ones get no span.
const FOLLOWED: usize = 20_000;

/// Waits that have been reported and not yet served.
pub(super) struct Waits {
    traces: Traces,
    waits: HashMap<(SessionId, DatabaseId), Wait>,
}

#[derive(Debug, PartialEq)]
struct Wait {
    /// Names the span of the oldest waiting task.
    traceparent: Arc<str>,
    reported: SystemTime,
    node: Node,
    /// How it stood when it was last seen to wait.
    contention: Option<Contention>,
}

impl Waits {
    pub(super) fn new(traces: Traces) -> Waits {
        Waits { traces, waits: HashMap::new() }
    }

    /// A session reported the span of its oldest waiting task, or that none
    /// waits. The wait starts with the first report of that task.
    pub(super) fn reported(
        &mut self,
        session: SessionId,
        database: DatabaseId,
        traceparent: Option<Arc<str>>,
        node: &Node,
        now: SystemTime,
    ) {
        if !self.traces.is_on() {
            return;
        }
        self.follow((session, database), traceparent, node, now);
    }

    fn follow(
        &mut self,
        lease: (SessionId, DatabaseId),
        traceparent: Option<Arc<str>>,
        node: &Node,
        now: SystemTime,
    ) {
        match traceparent {
            None => {
                self.waits.remove(&lease);
            }
            Some(same) if self.waits.get(&lease).is_some_and(|wait| wait.traceparent == same) => {}
            Some(traceparent) => {
                if self.waits.len() < FOLLOWED || self.waits.contains_key(&lease) {
                    self.waits.insert(
                        lease,
                        Wait { traceparent, reported: now, node: node.clone(), contention: None },
                    );
                }
            }
        }
    }

    /// Says how a lease stands whose wait is followed: `facts` is asked only for one.
    pub(super) fn stands(
        &mut self,
        session: SessionId,
        database: DatabaseId,
        facts: impl FnOnce() -> Option<Facts>,
    ) {
        let Some(wait) = self.waits.get_mut(&(session, database)) else { return };
        if let Some(facts) = facts().filter(|facts| facts.need > 0) {
            wait.contention = Some(contention(&facts));
        }
    }

    /// A grant is on its way: the wait is over.
    pub(super) fn granted(
        &mut self,
        session: SessionId,
        database: DatabaseId,
        name: &str,
        tokens: u32,
        now: SystemTime,
    ) {
        let Some(wait) = self.waits.remove(&(session, database)) else { return };
        let Node { node, workload } = &wait.node;
        let admission = Admission { database: name, node, workload, tokens, contention: wait.contention };
        self.traces.admission(&wait.traceparent, wait.reported, now, admission);
    }

    /// A session has no stream any more.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.waits.retain(|(waiting, _), _| *waiting != session);
    }
}

fn contention(facts: &Facts) -> Contention {
    Contention {
        demand: facts.demand,
        share: facts.share_thousandths.unwrap_or(0) as f64 / 1_000.0,
        in_line: facts.in_line,
        waited_for: facts.reason.word(),
        rule: facts.reason.rule(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_starts_with_the_first_report_of_its_task() {
        let lease = (SessionId(1), DatabaseId(0));
        let node = Node { node: "web-1".into(), workload: "web".into() };
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut waits = Waits::new(Traces::default());

        waits.follow(lease, Some("one".into()), &node, at(1));
        waits.follow(lease, Some("one".into()), &node, at(2));
        assert_eq!(waits.waits[&lease].reported, at(1));
        waits.follow(lease, Some("another".into()), &node, at(3));
        assert_eq!(waits.waits[&lease].reported, at(3));

        waits.follow(lease, None, &node, at(4));
        assert!(waits.waits.is_empty(), "nobody waits");
        waits.follow(lease, Some("one".into()), &node, at(5));
        waits.granted(lease.0, lease.1, "orders", 1, at(6));
        assert!(waits.waits.is_empty(), "it was served");
        waits.follow(lease, Some("one".into()), &node, at(7));
        waits.forget(lease.0);
        assert!(waits.waits.is_empty(), "it has no stream");
    }
}
