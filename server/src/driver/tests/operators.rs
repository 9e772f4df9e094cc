//! Overrides, drains, evictions and the audit log.

use leasehold_admission::durable::{Audit, Operator, Override, OverrideValue, WorkloadValue};

use super::*;

fn set_cap(cap: u32, duration: Option<Duration>) -> AdminAction {
    let request = OverrideRequest { cap: Some(cap), duration, ..OverrideRequest::default() };
    AdminAction::SetOverride { database: ORDERS, request }
}

#[tokio::test(start_paused = true)]
async fn an_override_is_in_force_durable_and_logged() {
    let running = Running::start(5).await;
    let reply = running.admin(set_cap(8, None)).await;
    let Ok(AdminReply::Database(status)) = reply else { panic!("{reply:?}") };
    assert_eq!(status.view.cap, 8);
    assert_eq!(status.overrides, [OverrideStatus { value: OverrideValue::Cap(8), remaining: None }]);
    let state = running.store.state();
    let entry = state.audit.values().next().expect("it is logged");
    assert_eq!((&*entry.who, &*entry.what), ("127.0.0.1:9", "set orders: cap 8"));

    let running = Running::start_with(5, running.stop().await).await;
    assert_eq!(running.orders().await.view.cap, 8);
    let clear = OverrideRequest { clear: vec![Setting::Cap], ..OverrideRequest::default() };
    running.admin(AdminAction::SetOverride { database: ORDERS, request: clear }).await.expect("it is done");
    assert_eq!(running.orders().await.view.cap, 5);
    let sequences: Vec<u64> = running.store.state().audit.into_keys().collect();
    assert_eq!(sequences, [1, 2]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_override_of_a_workload_is_in_force_durable_and_logged() {
    let set = |workload: WorkloadOverride| {
        let request = OverrideRequest { workloads: vec![workload], ..OverrideRequest::default() };
        AdminAction::SetOverride { database: ORDERS, request }
    };
    let of = |name: &str| WorkloadOverride { name: name.into(), ..WorkloadOverride::default() };
    let limit = async |running: &Running| running.orders().await.view.workloads.remove(0).settings.limit;
    let running = Running::start(5).await;
    let limited = WorkloadOverride { limit: Some(2), ..of("default") };
    let Ok(AdminReply::Database(status)) = running.admin(set(limited)).await else { panic!("it is done") };
    let value = OverrideValue::Workload { name: "default".into(), value: WorkloadValue::Limit(2) };
    assert_eq!(status.overrides, [OverrideStatus { value, remaining: None }]);
    assert_eq!(limit(&running).await, Some(2));
    let entry = running.store.state().audit.into_values().next().expect("it is logged");
    assert_eq!(entry.what, "set orders: workload default (limit 2)");

    let running = Running::start_with(5, running.stop().await).await;
    assert_eq!(limit(&running).await, Some(2), "it outlives a restart");
    let unknown = running.admin(set(WorkloadOverride { limit: Some(1), ..of("web") })).await;
    assert!(matches!(unknown, Err(AdminRefusal::Contradicts(_))), "{unknown:?}");
    assert_eq!(running.store.state().audit.len(), 1, "nothing was done");
    let clear = WorkloadOverride { clear: vec![WorkloadSetting::Limit], ..of("default") };
    running.admin(set(clear)).await.expect("it is done");
    assert_eq!(limit(&running).await, None);
    running.stop().await;
}

/// On the real clock: overrides end by the one on the wall.
#[tokio::test]
async fn a_temporary_override_ends() {
    let running = Running::start(5).await;
    running.admin(set_cap(8, Some(Duration::from_millis(100)))).await.expect("it is done");
    let running = &running;
    until("the override has ended", || async { running.orders().await.view.cap == 5 }).await;
    assert_eq!(running.orders().await.overrides, []);
    assert_eq!(running.store.state().operators["orders"].overrides, []);
}

#[tokio::test(start_paused = true)]
async fn an_override_that_ended_meanwhile_is_gone_at_the_start() {
    let mut store = Flaky::default();
    let past = Override { value: OverrideValue::Cap(8), until_unix_ms: Some(1) };
    let operator = Operator { overrides: vec![past], draining: false };
    store.commit(&[Change::PutOperator("orders".into(), operator)]).expect("it is stored");
    let running = Running::start_with(5, store).await;
    assert_eq!(running.orders().await.view.cap, 5);
    let store = running.store.clone();
    until("it is gone from the store", || async { store.state().operators["orders"].overrides.is_empty() })
        .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_stops_grants_until_it_ends() {
    let running = Running::start(5).await;
    running.admin(AdminAction::SetDraining { database: ORDERS, draining: true }).await.expect("it is done");
    let running = Running::start_with(5, running.stop().await).await;
    assert!(running.orders().await.view.draining, "it outlives a restart");
    let mut node = running.attach(1, 0).await;
    node.want(2).await;
    node.guard.keep_alive(1).await.expect("the driver runs");
    assert_eq!(node.next().await, Outgoing::KeepAlive(1));
    running.admin(AdminAction::SetDraining { database: ORDERS, draining: false }).await.expect("it is done");
    node.take(2).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_evicted_by_a_unique_prefix() {
    let running = Running::start(5).await;
    let first = 0xaaaa_aaaa_0000_0000_0000_0000_0000_0001;
    let _first = running.attach(first, 0).await;
    let _second = running.attach(first + 1, 0).await;
    let evict = |prefix: &str| running.admin(AdminAction::Evict { prefix: prefix.to_owned() });
    assert_eq!(evict("aaaaaaaa").await, Err(AdminRefusal::AmbiguousSession(2)));
    assert_eq!(evict("bbbbbbbb").await, Err(AdminRefusal::UnknownSession));
    let reply = evict(&format!("{first:032x}")).await;
    assert!(
        matches!(&reply, Ok(AdminReply::Session(session)) if session.id == SessionId(first)),
        "{reply:?}"
    );
    assert_eq!(running.handle.sessions().await.expect("it answers").len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_audit_log_is_bounded() {
    let mut store = Flaky::default();
    let full: Vec<Change> = (1..=AUDIT_ENTRIES)
        .map(|sequence| {
            let [who, what] = ["you".to_owned(), "something".to_owned()];
            Change::PutAudit(sequence, Audit { unix_ms: 0, who, what })
        })
        .collect();
    store.commit(&full).expect("it is stored");
    let running = Running::start_with(5, store).await;
    running.admin(set_cap(8, None)).await.expect("it is done");
    let audit = running.store.state().audit;
    assert_eq!(audit.len() as u64, AUDIT_ENTRIES);
    assert_eq!(audit.keys().next_back(), Some(&(AUDIT_ENTRIES + 1)));
    running.stop().await;
}
