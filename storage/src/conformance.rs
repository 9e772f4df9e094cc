//! What every store must do, as checks that panic where one does not. Backends
//! run them in their tests. Knows nothing of any backend.

use leasehold_admission::{
    LossPolicy, SessionId,
    durable::{
        Audit, Kind, Lease, Operator, Outcome, Override, OverrideValue, Session, Unary, WorkloadValue,
    },
};

use crate::{Change, State, Store};

/// More records than any batch of the server's.
const BIG_BATCH: u64 = 20_000;

/// One place for a store. Every opening but the first comes back to what the
/// earlier ones have committed.
pub trait Place {
    /// Opens the store that is here. The one opened before is gone.
    fn open(&mut self) -> Box<dyn Store>;
}

impl<F: FnMut() -> Box<dyn Store>> Place for F {
    fn open(&mut self) -> Box<dyn Store> {
        self()
    }
}

/// Runs the whole suite, each check at a new place.
///
/// # Panics
///
/// The store does not do what it must.
pub fn check<P: Place>(mut new_place: impl FnMut() -> P) {
    starts_empty(&mut new_place());
    keeps_every_kind_of_record(&mut new_place());
    later_changes_win(&mut new_place());
    a_removed_session_takes_its_leases_along(&mut new_place());
    trims_the_audit_log_up_to_a_sequence(&mut new_place());
    committing_again_does_no_harm(&mut new_place());
    takes_a_big_batch(&mut new_place());
    takes_names_of_any_kind(&mut new_place());
}

/// Commits each batch, and compares what the store keeps with the fold of all
/// changes: after each commit, after committing the last batch again, and after
/// the store was opened again.
///
/// # Panics
///
/// They differ.
pub fn follows_the_fold(place: &mut impl Place, batches: &[Vec<Change>]) {
    let mut expected = State::default();
    let mut store = place.open();
    for batch in batches {
        batch.iter().cloned().for_each(|change| expected.apply(change));
        for attempt in ["once", "again"] {
            store.commit(batch).expect("the commit succeeds");
            assert_eq!(
                store.load().expect("the state loads"),
                expected,
                "after committing {attempt}: {batch:?}"
            );
        }
    }
    drop(store);
    assert_eq!(place.open().load().expect("the state loads"), expected, "after opening again");
}

/// A state with a record of each kind, as changes.
pub fn one_of_each() -> Vec<Change> {
    let node = SessionId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let unary = Kind::Unary(Unary { database: "orders".into(), tokens: 3, outcome: Outcome::Released });
    vec![
        Change::Generation(7),
        Change::PutSession(node, session("web-1", Kind::Node)),
        Change::PutSession(SessionId(1), session("web-2", Kind::Quarantined)),
        Change::PutSession(SessionId(u128::MAX), session("batch", unary)),
        Change::PutLease(node, "orders".into(), lease(12)),
        Change::PutLease(node, "reports".into(), Lease { ceiling: 0, on_loss: LossPolicy::Fence }),
        Change::PutCap("orders".into(), 141),
        Change::PutOperator("orders".into(), operator()),
        Change::PutAudit(1, audit("drain orders")),
        Change::PutAudit(u64::MAX, audit("")),
    ]
}

fn starts_empty(place: &mut impl Place) {
    follows_the_fold(place, &[]);
    follows_the_fold(place, &[vec![]]);
}

fn keeps_every_kind_of_record(place: &mut impl Place) {
    follows_the_fold(place, &[one_of_each(), vec![]]);
}

fn later_changes_win(place: &mut impl Place) {
    let batch = vec![
        Change::Generation(2),
        Change::Generation(3),
        Change::PutCap("orders".into(), 10),
        Change::PutCap("orders".into(), 20),
        Change::PutLease(SessionId(1), "orders".into(), lease(1)),
        Change::RemoveLease(SessionId(1), "orders".into()),
        Change::RemoveLease(SessionId(1), "reports".into()),
        Change::PutLease(SessionId(1), "reports".into(), lease(2)),
    ];
    follows_the_fold(place, &[batch, vec![Change::Generation(4), Change::PutCap("orders".into(), 0)]]);
}

fn a_removed_session_takes_its_leases_along(place: &mut impl Place) {
    let [first, second] = [SessionId(1), SessionId(2)];
    let both = [first, second].into_iter().flat_map(|id| {
        [
            Change::PutSession(id, session("web", Kind::Node)),
            Change::PutLease(id, "a".into(), lease(1)),
            Change::PutLease(id, "b".into(), lease(2)),
        ]
    });
    // Removes what an earlier commit and what this one has put, and keeps what
    // comes after the removal.
    let removal = vec![
        Change::PutLease(first, "c".into(), lease(3)),
        Change::PutLease(second, "c".into(), lease(4)),
        Change::RemoveSession(first),
        Change::PutSession(first, session("web again", Kind::Node)),
        Change::PutLease(first, "b".into(), lease(5)),
        Change::RemoveSession(SessionId(3)),
    ];
    follows_the_fold(place, &[both.collect(), removal, vec![Change::RemoveSession(second)]]);
}

fn trims_the_audit_log_up_to_a_sequence(place: &mut impl Place) {
    let log = (0..300).map(|sequence| Change::PutAudit(sequence, audit("set"))).collect();
    let trim =
        vec![Change::PutAudit(300, audit("set")), Change::TrimAudit(255), Change::PutAudit(3, audit("late"))];
    follows_the_fold(place, &[log, trim, vec![Change::TrimAudit(u64::MAX)], vec![Change::TrimAudit(0)]]);
}

fn committing_again_does_no_harm(place: &mut impl Place) {
    let batch = one_of_each();
    let mut expected = State::default();
    batch.iter().cloned().for_each(|change| expected.apply(change));
    for _ in 0..3 {
        let mut store = place.open();
        store.commit(&batch).expect("the commit succeeds");
        assert_eq!(store.load().expect("the state loads"), expected);
    }
}

fn takes_a_big_batch(place: &mut impl Place) {
    let batch = (0..BIG_BATCH).map(|number| {
        let id = SessionId(u128::from(number) << 64 | 0xff00);
        Change::PutLease(id, "orders".into(), lease(number as u32))
    });
    follows_the_fold(place, &[batch.collect()]);
}

fn takes_names_of_any_kind(place: &mut impl Place) {
    let long = "n".repeat(1_000);
    let names = ["", " ", "\0", "größe", "注文", "🦀", "a/b\\c\"d'", "\u{10ffff}", &long];
    let batch = names.iter().flat_map(|&name| {
        [
            Change::PutCap(name.into(), name.len() as u32),
            Change::PutOperator(name.into(), operator()),
            Change::PutLease(SessionId(1), name.into(), lease(name.len() as u32)),
            Change::PutSession(SessionId(1), session(name, Kind::Node)),
            Change::PutAudit(name.len() as u64, audit(name)),
        ]
    });
    follows_the_fold(place, &[batch.collect(), vec![Change::RemoveLease(SessionId(1), "".into())]]);
}

fn session(node: &str, kind: Kind) -> Session {
    Session { node: node.into(), workload: "default".into(), kind, ttl_ms: 10_000, silent_ms: 250 }
}

fn lease(ceiling: u32) -> Lease {
    Lease { ceiling, on_loss: LossPolicy::Keep }
}

fn operator() -> Operator {
    let until_unix_ms = Some(1_800_000_000_000);
    let overrides = vec![
        Override { value: OverrideValue::Cap(80), until_unix_ms },
        Override { value: OverrideValue::Reserve(0), until_unix_ms: None },
        Override { value: OverrideValue::Admission("unfair".to_owned()), until_unix_ms },
        Override { value: OverrideValue::QuantumMs(u64::MAX), until_unix_ms: None },
        Override { value: OverrideValue::Shadow(true), until_unix_ms },
        of_workload(WorkloadValue::Weight(3), until_unix_ms),
        of_workload(WorkloadValue::Floor(20), None),
        of_workload(WorkloadValue::Keep(true), None),
        of_workload(WorkloadValue::Limit(60), until_unix_ms),
        of_workload(WorkloadValue::MaxWaiting(5_000), None),
    ];
    Operator { overrides, draining: true }
}

fn of_workload(value: WorkloadValue, until_unix_ms: Option<u64>) -> Override {
    Override { value: OverrideValue::Workload { name: "web".into(), value }, until_unix_ms }
}

fn audit(what: &str) -> Audit {
    Audit { unix_ms: 1_800_000_000_000, who: "127.0.0.1:50000".to_owned(), what: what.to_owned() }
}
