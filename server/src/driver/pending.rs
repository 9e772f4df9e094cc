//! Changes that a failed commit has left behind, to be committed again before
//! newer ones. Knows nothing of stores.

use std::{collections::HashSet, sync::Arc};

use leasehold_admission::{SessionId, durable::Change};

/// Changes in order. Of several with the same key only the last is kept, so
/// that their number is bounded by what there is, however long a store fails.
#[derive(Debug, Default)]
pub(super) struct Pending {
    changes: Vec<Change>,
    compacted: usize,
}

/// Lengths below this are not worth a look.
const COMPACT_AT: usize = 1_024;

impl Pending {
    pub(super) fn extend(&mut self, newer: impl IntoIterator<Item = Change>) {
        self.changes.extend(newer);
        if self.changes.len() >= COMPACT_AT.max(2 * self.compacted) {
            compact(&mut self.changes);
            self.compacted = self.changes.len();
        }
    }

    pub(super) fn take(&mut self) -> Vec<Change> {
        self.compacted = 0;
        std::mem::take(&mut self.changes)
    }
}

/// What a change sets. Putting and removing have keys of their own where a
/// removal takes more along than the one record.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Generation,
    Session(SessionId),
    RemoveSession(SessionId),
    Lease(SessionId, Arc<str>),
    Cap(Arc<str>),
    Operator(Arc<str>),
    Audit(u64),
    TrimAudit(u64),
}

fn key(change: &Change) -> Key {
    match change {
        Change::Generation(_) => Key::Generation,
        Change::PutSession(id, _) => Key::Session(*id),
        Change::RemoveSession(id) => Key::RemoveSession(*id),
        Change::PutLease(id, database, _) | Change::RemoveLease(id, database) => {
            Key::Lease(*id, Arc::clone(database))
        }
        Change::PutCap(database, _) => Key::Cap(Arc::clone(database)),
        Change::PutOperator(database, _) => Key::Operator(Arc::clone(database)),
        Change::PutAudit(sequence, _) => Key::Audit(*sequence),
        Change::TrimAudit(through) => Key::TrimAudit(*through),
    }
}

/// Keeps the last change of each key, in order. An earlier change of the same
/// key can go: whatever it did is done again, or undone, by the last.
fn compact(changes: &mut Vec<Change>) {
    let mut seen = HashSet::new();
    let mut kept: Vec<Change> = changes.drain(..).rev().filter(|change| seen.insert(key(change))).collect();
    kept.reverse();
    *changes = kept;
}

#[cfg(test)]
mod tests {
    use leasehold_admission::{
        LossPolicy,
        durable::{Audit, Kind, Lease, Session, State},
    };
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn change() -> impl Strategy<Value = Change> {
        let id = || (0..3_u128).prop_map(SessionId);
        let name = || prop::sample::select(vec!["a", "b"]).prop_map(Arc::<str>::from);
        prop_oneof![
            any::<u64>().prop_map(Change::Generation),
            (id(), any::<u64>()).prop_map(|(id, silent_ms)| {
                let [node, workload] = ["n".into(), "w".into()];
                Change::PutSession(id, Session { node, workload, kind: Kind::Node, ttl_ms: 1, silent_ms })
            }),
            id().prop_map(Change::RemoveSession),
            (id(), name(), any::<u32>()).prop_map(|(id, name, ceiling)| {
                Change::PutLease(id, name, Lease { ceiling, on_loss: LossPolicy::Keep })
            }),
            (id(), name()).prop_map(|(id, name)| Change::RemoveLease(id, name)),
            (0..9_u64).prop_map(|at| {
                Change::PutAudit(at, Audit { unix_ms: at, who: String::new(), what: String::new() })
            }),
            (0..9_u64).prop_map(Change::TrimAudit),
        ]
    }

    fn fold(before: &[Change], changes: &[Change]) -> State {
        let mut state = State::default();
        before.iter().chain(changes).cloned().for_each(|change| state.apply(change));
        state
    }

    proptest! {
        #[test]
        fn compacting_changes_nothing(before in vec(change(), 0..20), changes in vec(change(), 0..60)) {
            let mut compacted = changes.clone();
            compact(&mut compacted);
            prop_assert_eq!(fold(&before, &compacted), fold(&before, &changes));
        }
    }

    #[test]
    fn a_long_failure_is_bounded_by_what_there_is() {
        let mut pending = Pending::default();
        for round in 0..100_000_u32 {
            let lease = Lease { ceiling: round, on_loss: LossPolicy::Keep };
            pending.extend([Change::PutLease(SessionId(u128::from(round % 7)), "a".into(), lease)]);
        }
        assert!(pending.take().len() <= COMPACT_AT);
    }
}
