//! What people are told of who waits, and for what.

use std::{sync::Arc, time::Duration};

use leasehold_admission::{
    Acquire, Admission, DatabaseSettings, Event, Explanation, Reason, Rule, SessionId, Ticket,
    WorkloadSettings, Workloads,
};

use crate::support::{DB, World, run, settings};

fn why(world: &World, name: &str) -> Explanation {
    let (mut found, left_out) = world.core.explain(world.now, |_, _, node| node == name);
    assert_eq!((found.len(), left_out), (1, 0), "of {name}");
    found.remove(0)
}

fn reason(world: &World, name: &str) -> Reason {
    why(world, name).facts.reason
}

fn after(settings: DatabaseSettings, script: &str) -> World {
    let mut world = World::new(settings);
    run(&mut world, script);
    world
}

fn acquire(world: &mut World, node: &str, tokens: u32) {
    world.apply(Event::Acquire(Acquire {
        ticket: Ticket(1),
        request: SessionId(1_000),
        node: Arc::from(node),
        workload: Arc::from("default"),
        database: DB,
        tokens,
    }));
}

#[test]
fn demand_share_place_and_holders_are_told() {
    let world =
        after(settings(12), "hello a\nhello b\nhello c\nwait a 24\npass 1s\nwait b 3\npass 20ms\nwait c 9");
    let told = why(&world, "c");
    // Of 24, 3 and 9 tasks.
    assert_eq!((told.facts.demand, told.facts.need, told.facts.share_thousandths), (9, 9, Some(3_000)));
    assert_eq!((told.place, told.facts.in_line), (Some(3), 3));
    assert_eq!(why(&world, "a").place, Some(1));
    let holders: Vec<(&str, u32)> =
        told.holders.iter().map(|holder| (&*holder.node, holder.lease.held)).collect();
    assert_eq!(holders, [("a", 12)]);
}

#[test]
fn who_needs_nothing_waits_for_nothing() {
    let world = after(settings(4), "hello a\nwait a 2");
    assert_eq!(reason(&world, "a"), Reason::Content);
    assert_eq!(why(&world, "a").place, None);
}

#[test]
fn the_lag_comes_before_the_share_and_the_escape() {
    let quantum = Duration::from_millis(100);
    let settings = DatabaseSettings { admission: Admission::Fair { quantum }, ..settings(64) };
    // What a node without a token needs is asked for at once.
    let world = after(settings.clone(), "hello a\nhello b\nwait a 200\npass 1s\nwait b 20");
    assert_eq!(reason(&world, "b"), Reason::Lag);
    assert_eq!(why(&world, "b").moves.iter().map(|step| step.rule).collect::<Vec<_>>(), [Rule::Poverty]);
    let mut world = after(settings, "hello a\nhello b\nwait a 200\nwait b 1\nreturn a 1\npass 1s");
    assert_eq!(reason(&world, "b"), Reason::Content);
    run(&mut world, "wait b 1");
    // A task more is within its share, and a has no more than its own.
    assert_eq!(reason(&world, "b"), Reason::Level);
}

#[test]
fn a_promise_says_by_which_rule() {
    let world = after(settings(2), "hello a\nhello b\nwait a 9\npass 1s\nwait b 1\npass 50ms");
    let told = why(&world, "b");
    assert_eq!(told.facts.reason, Reason::Promised(Rule::Poverty));
    assert_eq!((&*told.moves[0].donor, told.moves[0].rule), ("a", Rule::Poverty));
    assert_eq!(why(&world, "a").facts.giving, 1);
    let world =
        after(divided(16, None, 0, false), "hello a web\nhello b batch\nwait a 90\npass 1s\nwait b 1");
    assert_eq!(reason(&world, "b"), Reason::Promised(Rule::Target));
}

#[test]
fn the_budget_is_told_of() {
    let world =
        after(divided(16, None, 0, false), "hello a web\nhello b batch\nwait a 90\npass 1s\nwait b 4");
    assert_eq!(reason(&world, "b"), Reason::Budget);
}

#[test]
fn idle_tokens_of_others_come_first() {
    let script = "hello a\nhello b\nwait a 4\nreturn a 4\nmute a\nwait b 4";
    assert_eq!(reason(&after(settings(4), script), "b"), Reason::Grace);
    assert_eq!(reason(&after(settings(4), &format!("{script}\npass 30ms")), "b"), Reason::Idle);
}

#[test]
fn unfair_admission_says_so() {
    let unfair = DatabaseSettings { admission: Admission::Unfair, ..settings(4) };
    let world = after(unfair, "hello a\nhello b\nwait a 9\nwait b 1\npass 3s");
    assert_eq!(reason(&world, "b"), Reason::Unfair);
}

#[test]
fn what_stops_all_grants_is_told_of() {
    let mut world = after(settings(4), "hello a\nhello b\nwait a 4\nmute a\nmute b\nwait b 4");
    world.apply(Event::Configure {
        database: DB,
        settings: DatabaseSettings { draining: true, ..settings(4) },
    });
    run(&mut world, "deliver b server");
    assert_eq!(reason(&world, "b"), Reason::Draining);
    let world = after(settings(4), "hello a\nhello b\nmute b\nstore fails\nwait b 4\ndeliver b server");
    assert_eq!(reason(&world, "b"), Reason::StoreFails);
    let watched = DatabaseSettings { watched: true, cap: None, ..settings(4) };
    assert_eq!(reason(&after(watched, "hello b\nwait b 4"), "b"), Reason::NotObserved);
}

#[test]
fn limits_floors_and_pacing_are_told_of() {
    let script = "hello a web\nhello b batch\nwait b 90";
    let limited = divided(64, Some(5), 0, false);
    assert_eq!(reason(&after(limited, script), "b"), Reason::Limit(5));
    let kept = divided(16, None, 6, true);
    assert_eq!(reason(&after(kept, script), "b"), Reason::Floors);
    let world = after(settings(500), "hello a\nmute a\nwait a 400\ndeliver a server");
    assert_eq!(reason(&world, "a"), Reason::Pacing);
}

#[test]
fn a_call_that_waits_is_explained_too() {
    let mut world = after(settings(4), "hello a\nwait a 3");
    acquire(&mut world, "report.py", 2);
    let told = why(&world, "report.py");
    assert_eq!((told.lease, told.facts.demand, told.facts.need), (None, 2, 2));
    assert_eq!((told.place, told.facts.share_thousandths), (Some(1), None));
    // One token is free, and kept for it.
    assert_eq!(told.facts.reason, Reason::Promised(Rule::Poverty));
}

/// Rule 8: the mode is changed while nodes and calls wait, and all are served.
#[test]
fn no_waiter_is_lost_when_the_mode_changes() {
    let fair = |millis| Admission::Fair { quantum: Duration::from_millis(millis) };
    let mut world = after(settings(4), "hello a\nhello b\nhello c\nwait a 9\npass 1s\nwait b 3\nwait c 2");
    acquire(&mut world, "report.py", 2);
    for admission in [Admission::Unfair, fair(0), fair(100), fair(20), Admission::Unfair, fair(50)] {
        let changed = DatabaseSettings { admission, ..settings(4) };
        world.apply(Event::Configure { database: DB, settings: changed });
        world.pump();
        run(&mut world, "alive a\nalive b\nalive c\npass 10ms");
        assert_eq!(world.core.databases(world.now)[0].admission, admission);
        let waiting = world.core.databases(world.now)[0].waiting;
        let nodes: u32 = world.nodes.values().map(|node| node.waiting).sum();
        let call = u32::from(world.replies.is_empty());
        assert_eq!(waiting, nodes + call, "{}", world.show());
    }
    for _ in 0..60 {
        for name in ["a", "b", "c"] {
            let in_use = world.nodes[name].in_use;
            run(&mut world, &format!("alive {name}\nreturn {name} {in_use}\npass 5ms"));
        }
    }
    assert_eq!(world.core.databases(world.now)[0].waiting, 0, "{}", world.show());
    assert!(!world.replies.is_empty(), "the call is served");
}

fn divided(cap: u32, limit: Option<u32>, floor: u32, keep: bool) -> DatabaseSettings {
    let web = WorkloadSettings { floor, keep, ..WorkloadSettings::named("web") };
    let batch = WorkloadSettings { limit, ..WorkloadSettings::named("batch") };
    DatabaseSettings { workloads: Workloads::new(vec![web, batch]), ..settings(cap) }
}
