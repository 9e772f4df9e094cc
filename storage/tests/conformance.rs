//! Both backends pass the suite, by hand-written cases and by random changes.

use std::sync::Arc;

use leasehold_admission::{
    LossPolicy, SessionId,
    durable::{Audit, Kind, Lease, Operator, Session},
};
use leasehold_storage::{
    Change, Memory, Sled, Store,
    conformance::{self, Place},
};
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

struct Directory(TempDir);

impl Directory {
    fn new() -> Directory {
        Directory(TempDir::new().expect("a directory can be made"))
    }
}

impl Place for Directory {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(Sled::open(self.0.path().join("data")).expect("the store opens"))
    }
}

fn memory() -> impl Place {
    let memory = Memory::default();
    move || -> Box<dyn Store> { Box::new(memory.clone()) }
}

#[test]
fn memory_conforms() {
    conformance::check(memory);
}

#[test]
fn sled_conforms() {
    conformance::check(Directory::new);
}

/// Few keys, so that changes meet one another.
fn change() -> impl Strategy<Value = Change> {
    let id = || (0..4_u128).prop_map(SessionId);
    let name = || prop::sample::select(vec!["", "a", "ab", "ü"]).prop_map(Arc::<str>::from);
    prop_oneof![
        any::<u64>().prop_map(Change::Generation),
        (id(), name(), any::<u64>()).prop_map(|(id, node, silent_ms)| {
            let workload = "default".into();
            Change::PutSession(id, Session { node, workload, kind: Kind::Node, ttl_ms: 10_000, silent_ms })
        }),
        id().prop_map(Change::RemoveSession),
        (id(), name(), any::<u32>()).prop_map(|(id, name, ceiling)| {
            Change::PutLease(id, name, Lease { ceiling, on_loss: LossPolicy::Keep })
        }),
        (id(), name()).prop_map(|(id, name)| Change::RemoveLease(id, name)),
        (name(), any::<u32>()).prop_map(|(name, cap)| Change::PutCap(name, cap)),
        (name(), any::<bool>()).prop_map(|(name, draining)| {
            Change::PutOperator(name, Operator { overrides: vec![], draining })
        }),
        (0..20_u64, ".*").prop_map(|(sequence, what)| {
            Change::PutAudit(sequence, Audit { unix_ms: 0, who: String::new(), what })
        }),
        (0..20_u64).prop_map(Change::TrimAudit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sled_keeps_the_fold_of_any_changes(batches in vec(vec(change(), 0..40), 0..6)) {
        conformance::follows_the_fold(&mut Directory::new(), &batches);
    }

    #[test]
    fn memory_keeps_the_fold_of_any_changes(batches in vec(vec(change(), 0..40), 0..6)) {
        conformance::follows_the_fold(&mut memory(), &batches);
    }
}
