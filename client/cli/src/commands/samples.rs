//! Answers of a server, as the tests of what people read need them.

use leasehold_proto::v1::{
    Database, Explanation, Holder, Lease, Override, Probe, Promise, Session, Shadowed, StatusReply, WhyReply,
    Workload,
};

/// A server that runs well.
pub(super) fn status() -> StatusReply {
    StatusReply {
        generation: 3,
        version: "0.1.0".to_owned(),
        uptime_ms: 7_830_000,
        store_healthy: true,
        store_error: String::new(),
        databases: vec![static_database(), database()],
    }
}

/// A watched database under load.
pub(super) fn database() -> Database {
    Database {
        name: "orders".to_owned(),
        cap: 111,
        held: 90,
        free: 21,
        reserve: 10,
        others: 30,
        strays: 0,
        uncertain: 0,
        quarantined: 0,
        max_connections: Some(151),
        waiting: 4,
        sessions: 8,
        admission: "fair".to_owned(),
        quantum_ms: 100,
        draining: false,
        shadow: false,
        probe: Some(Probe { state: "ok".to_owned(), observed_ms: Some(412), ..Probe::default() }),
        cap_limit: Some(200),
        ttl_ms: 10_000,
        on_loss: "keep".to_owned(),
        overrides: vec![],
        grants: 18_234,
        recalls: 17_902,
        expired: 2,
        repeated_releases: 1,
        workloads: vec![Workload { name: "default".to_owned(), weight: 1, ..Workload::default() }],
    }
}

/// A watched database with everything wrong that can be.
pub(super) fn troubled_database() -> Database {
    let overridden = |setting: &str, value: &str, remaining_ms| Override {
        setting: setting.to_owned(),
        value: value.to_owned(),
        remaining_ms,
        workload: String::new(),
    };
    Database {
        name: "billing".to_owned(),
        cap: 50,
        held: 61,
        free: 0,
        strays: 2,
        uncertain: 3,
        quarantined: 12,
        max_connections: None,
        waiting: 130,
        admission: "unfair".to_owned(),
        quantum_ms: 0,
        draining: true,
        probe: Some(Probe {
            state: "down".to_owned(),
            error: "cannot connect: connection refused".to_owned(),
            observed_ms: Some(64_000),
            ..Probe::default()
        }),
        cap_limit: Some(50),
        overrides: vec![overridden("admission", "unfair", None), overridden("cap", "50", Some(1_500_000))],
        ..database()
    }
}

/// A watched database whose accounts are named wrongly.
pub(super) fn half_seen_database() -> Database {
    let warning =
        "nodes report 7 connections more than the database shows on the fleet's accounts".to_owned();
    let probe = Probe { state: "ok".to_owned(), observed_ms: Some(412), warning, ..Probe::default() };
    Database { name: "shop".to_owned(), probe: Some(probe), ..database() }
}

fn workload(name: &str, weight: u32, held: u32, waiting: u32) -> Workload {
    Workload {
        name: name.to_owned(),
        weight,
        held,
        demand: held + waiting,
        target_thousandths: Some(u64::from(held) * 1_000 + 250),
        waiting,
        sessions: 2,
        ..Workload::default()
    }
}

/// A watched database that workloads divide, and whose cap has fallen below
/// their floors.
pub(super) fn divided_database() -> Database {
    let web = Workload { floor: 60, floor_in_force: 30, keep: true, ..workload("web", 3, 33, 2) };
    let batch =
        Workload { limit: Some(25), max_waiting: Some(500), refused: 12, ..workload("batch", 1, 17, 500) };
    Database { workloads: vec![workload("default", 1, 0, 0), batch, web], ..database() }
}

/// A database whose operator changes what workloads may have, and had set more than
/// there is.
pub(super) fn redivided_database() -> Database {
    let overridden = |workload: &str, setting: &str, value: &str, remaining_ms| Override {
        setting: setting.to_owned(),
        value: value.to_owned(),
        remaining_ms,
        workload: workload.to_owned(),
    };
    let web = Workload { floor: 80, floor_in_force: 40, limit: Some(60), ..workload("web", 3, 33, 2) };
    let batch = Workload { floor: 90, floor_in_force: 60, ..workload("batch", 1, 17, 500) };
    Database {
        cap: 100,
        workloads: vec![workload("default", 1, 0, 0), batch, web],
        overrides: vec![
            overridden("web", "floor", "80", Some(1_500_000)),
            overridden("batch", "floor", "90", None),
        ],
        ..database()
    }
}

/// A database in shadow mode.
pub(super) fn shadowed_database() -> Database {
    let of = |name: &str, shadow_waiting, shadow_queued, shadow_refused| Workload {
        name: name.to_owned(),
        weight: 1,
        shadow_waiting,
        shadow_queued,
        shadow_refused,
        ..Workload::default()
    };
    let workloads = vec![of("default", 0, 0, 0), of("batch", 4, 120, 1), of("web", 1, 12, 0)];
    Database { name: "stock".to_owned(), shadow: true, held: 116, free: 0, workloads, ..database() }
}

/// A database without a probe, unused.
pub(super) fn static_database() -> Database {
    Database {
        name: "default".to_owned(),
        cap: 100,
        free: 100,
        admission: "strict".to_owned(),
        quantum_ms: 0,
        probe: Some(Probe { state: "none".to_owned(), ..Probe::default() }),
        cap_limit: Some(100),
        ttl_ms: 30_000,
        on_loss: "fence".to_owned(),
        ..Database::default()
    }
}

/// Sessions of every state.
pub(super) fn sessions() -> Vec<Session> {
    let session = |id: &str, node: &str, state: &str, silent_ms, leases| Session {
        id: id.to_owned(),
        node: node.to_owned(),
        workload: "default".to_owned(),
        state: state.to_owned(),
        silent_ms,
        ttl_ms: 10_000,
        leases,
    };
    let busy = busy();
    let quiet = Lease {
        database: "billing".to_owned(),
        allotment: 1,
        holding: 1,
        held: 1,
        ceiling: 1,
        idle: 1,
        ..Lease::default()
    };
    let kept = Lease { database: "orders".to_owned(), held: 7, ceiling: 7, ..Lease::default() };
    vec![
        session("3f9a2c51d0b47e8896a1c2d3e4f50617", "web-1", "attached", 310, vec![quiet.clone(), busy]),
        session("a01b2c3d4e5f60718293a4b5c6d7e8f9", "ノード二", "quarantined", 130_000, vec![kept]),
        session("bb00000000000000000000000000000b", "batch-1", "unattached", 4_000, vec![]),
        session("cc00000000000000000000000000000c", "report.py", "unary", 900, vec![quiet]),
    ]
}

fn busy() -> Lease {
    Lease {
        database: "orders".to_owned(),
        allotment: 12,
        holding: 12,
        held: 12,
        ceiling: 16,
        in_use: 10,
        idle: 0,
        opening: 1,
        closing: 1,
        waiting: 4,
        oldest_wait_ms: 83,
        mean_hold_us: 4_310,
    }
}

/// A node that waits, and a call that waits in another workload.
pub(super) fn why() -> WhyReply {
    let held = Lease { held: 78, in_use: 75, idle: 3, mean_hold_us: 51_200, ..Lease::default() };
    let (owner, own) = ("bb00000000000000000000000000000b", "3f9a2c51d0b47e8896a1c2d3e4f50617");
    let holder = |session: &str, node: &str, workload: &str, lease| Holder {
        session: session.to_owned(),
        node: node.to_owned(),
        workload: workload.to_owned(),
        lease: Some(lease),
    };
    let waits = Explanation {
        session: own.to_owned(),
        node: "web-1".to_owned(),
        database: "orders".to_owned(),
        lease: Some(busy()),
        workload: "web".to_owned(),
        workload_held: 12,
        workload_target_thousandths: Some(33_300),
        demand: 15,
        need: 4,
        share_thousandths: Some(33_000),
        place: Some(1),
        in_line: 2,
        reason: "promised".to_owned(),
        waits_for: "the next return at batch-1, which was asked for a token".to_owned(),
        rule: 9,
        giving: 0,
        promises: vec![Promise {
            donor: "batch-1".to_owned(),
            rule: 9,
            rule_name: "target".to_owned(),
            asked_ms: 42,
        }],
        shadowed: None,
        holders: vec![holder(owner, "batch-1", "batch", held), holder(own, "web-1", "web", busy())],
    };
    let call = Explanation {
        session: "cc00000000000000000000000000000c".to_owned(),
        node: "report.py".to_owned(),
        database: "billing".to_owned(),
        workload: "default".to_owned(),
        demand: 2,
        need: 2,
        place: Some(1),
        in_line: 1,
        reason: "draining".to_owned(),
        waits_for: "the end of the drain: `leasehold resume`".to_owned(),
        shadowed: Some(Shadowed {
            tokens: 3,
            reason: "limit".to_owned(),
            waits_for: "others of the workload `batch`, which is at its limit of 5".to_owned(),
            rule: 10,
            ago_ms: 61_000,
        }),
        ..Explanation::default()
    };
    WhyReply { explanations: vec![waits, call], left_out: 0 }
}
