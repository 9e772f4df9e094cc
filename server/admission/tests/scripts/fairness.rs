//! Who gets a token next, and whose moves.

use std::{sync::Arc, time::Duration};

use leasehold_admission::{Acquire, Admission, DatabaseSettings, Event, Note, SessionId, Ticket};

use crate::support::{DB, World, check, run, settings};

fn unfair(cap: u32) -> DatabaseSettings {
    DatabaseSettings { admission: Admission::Unfair, ..settings(cap) }
}

#[test]
fn a_busy_node_gets_all_that_is_free() {
    check(settings(10), "hello a\nhello b\nwait a 20", "a=10 b=0 held=10 free=0");
}

#[test]
fn demand_is_a_level_and_draws_no_token_twice() {
    check(
        settings(10),
        "hello a\nwait a 3\ndeliver a server\npass 1s\nalive a\nwait a 1",
        "a=4 held=4 free=6",
    );
}

#[test]
fn idle_tokens_move_to_who_waits() {
    let script = "hello a\nhello b\nwait a 10\nreturn a 10\npass 100ms\nwait b 4";
    check(settings(10), script, "a=6 b=4 held=10 free=0");
}

#[test]
fn no_recall_while_capacity_is_free() {
    let world =
        check(settings(10), "hello a\nhello b\nwait a 5\nreturn a 5\nwait b 5", "a=5 b=5 held=10 free=0");
    assert!(!world.notes.iter().any(|note| matches!(note, Note::Recalled { .. })));
}

/// Free capacity that nobody may connect with is free all the same.
#[test]
fn no_recall_while_capacity_is_free_but_too_many_connect() {
    let mut world = World::new(settings(500));
    run(
        &mut world,
        "hello a\nhello b\nwait b 10\nreturn b 10\npass 1s\nmute a\nwait a 400\ndeliver a server",
    );
    run(&mut world, "pass 1s\nexpect a=0 b=10 held=42 free=458");
    assert_eq!(recalled(&world), 0);
}

/// Rule 6.
#[test]
fn nobody_gives_its_only_token_to_who_has_none() {
    let mut world = World::new(settings(2));
    run(&mut world, "hello a\nhello b\nhello c\nwait a 1\nwait b 1\nwait c 1\npass 90ms");
    assert_eq!(recalled(&world), 0);
}

#[test]
fn an_idle_connection_has_a_grace() {
    let script =
        "hello a\nhello b\nwait a 10\nreturn a 10\nwait b 1\nexpect a=10 b=0 held=10 free=0\npass 2ms";
    check(settings(10), script, "a=9 b=1 held=10 free=0");
}

#[test]
fn unfair_leaves_busy_tokens_where_they_are() {
    let script = "hello a\nhello b\nwait a 30\nwait b 5\npass 5s\nreturn a 5\npass 1s";
    check(unfair(10), script, "a=10 b=0 held=10 free=0");
}

/// Strict order goes by ages too, and is told them as fair is by the usual quantum;
/// whoever is attached learns of a change at once.
#[test]
fn nodes_report_ages_as_the_mode_in_force_needs_them() {
    let fair = |millis| Admission::Fair { quantum: Duration::from_millis(millis) };
    let with = |admission| DatabaseSettings { admission, ..settings(4) };
    let mut world = World::new(with(fair(0)));
    run(&mut world, "hello a\nhello b\nwait a 9\nwait b 2");
    let told = |world: &World| world.nodes["a"].queueing.quantum.as_millis();
    assert_eq!(told(&world), 100, "strict");
    for (admission, millis) in [(fair(30), 30), (Admission::Unfair, 0), (fair(0), 100), (fair(100), 100)] {
        world.apply(Event::Configure { database: DB, settings: with(admission) });
        world.pump();
        assert_eq!(told(&world), millis, "{admission:?}");
        run(&mut world, "expect a=4 b=0 held=4 free=0");
    }
    run(&mut world, "hello b");
    assert_eq!(world.nodes["b"].queueing.quantum.as_millis(), 100);
}

/// A change that was to be told along with a grant, which then could not be written,
/// is told although there is nothing to grant any more.
#[test]
fn a_quantum_that_was_not_sent_is_told_again() {
    let mut world = World::new(unfair(1));
    run(&mut world, "hello a\nwait a 2\nstore fails");
    world.apply(Event::Configure { database: DB, settings: settings(4) });
    world.node("a").waiting = 0;
    world.report("a");
    world.pump();
    world.mend_store();
    world.pump();
    run(&mut world, "alive a\nexpect a=1 held=1 free=3");
    assert_eq!(world.nodes["a"].queueing.quantum.as_millis(), 100);
}

#[test]
fn fair_serves_a_node_that_has_nothing() {
    let script = "hello a\nhello b\nwait a 30\nwait b 5\npass 3ms\nreturn a 5";
    check(settings(10), script, "a=9 b=1 held=10 free=0");
}

#[test]
fn fair_moves_busy_tokens_toward_shares_once_the_lag_is_a_quantum() {
    let mut world = World::new(settings(16));
    run(&mut world, "hello a\nhello b\nwait a 40\nwait b 40");
    for _ in 0..60 {
        run(&mut world, "pass 20ms\nreturn a 1\nreturn b 1\nalive a\nalive b");
        let now = world.now;
        // a's tasks are served quickly, b's are old.
        world.node("a").waiting_since = now;
    }
    let (a, b) = (world.nodes["a"].holding(), world.nodes["b"].holding());
    assert!(a + b == 16 && (7..=9).contains(&a), "a={a} b={b}");
}

/// The oldest tasks of these nodes are served, and others wait since now.
fn serve(world: &mut World, names: &[&str]) {
    for name in names {
        let now = world.now;
        world.node(name).waiting_since = now;
        world.report(name);
        world.pump();
    }
}

/// Rules 5 and 6. Whoever would be a receiver after it has given keeps what it has,
/// or the tokens would go round; until the lag is three quanta.
#[test]
fn nobody_gives_what_it_is_due_itself_for_a_lag_of_less_than_three_quanta() {
    let mut world = World::new(settings(10));
    let script = "hello a\nhello b\nhello c\nhello d\nwait d 1\nwait a 3\nwait b 3\nwait c 3\nwait d 9";
    run(&mut world, script);
    let busy = "wait a 7\nwait b 7\nwait c 7\nexpect a=3 b=3 c=3 d=1 held=10 free=0";
    run(&mut world, &format!("{busy}\npass 180ms"));
    serve(&mut world, &["a", "b", "c"]);
    assert_eq!(recalled(&world), 0, "2.5 are due to each, d lags by 180 ms");
    run(&mut world, "pass 110ms");
    serve(&mut world, &["a", "b", "c"]);
    assert_eq!(recalled(&world), 0, "d lags by 290 ms");
    run(&mut world, "pass 20ms");
    assert_eq!(recalled(&world), 0, "the lag is what it was");
    serve(&mut world, &["a", "b", "c"]);
    assert_eq!(recalled(&world), 1, "{}", world.show());
}

/// Rule 6. Whoever has more than it is due gives to those as well that have what they
/// are due, once these lag by two quanta.
#[test]
fn who_has_more_than_its_share_gives_for_a_lag_of_two_quanta() {
    let mut world = World::new(settings(10));
    let script = "hello a\nhello b\nhello c\nwait a 6\nwait b 2\nwait c 2\nwait b 9\nwait c 9\nwait a 1";
    run(&mut world, script);
    // So c is due 1.3, and has 2; b is due 5.3, and has no task that is old.
    world.node("c").mean_hold = Duration::from_micros(1_200);
    world.report("c");
    run(&mut world, "expect a=6 b=2 c=2 held=10 free=0\npass 150ms");
    serve(&mut world, &["b", "a"]);
    run(&mut world, "pass 40ms");
    serve(&mut world, &["b", "a"]);
    assert_eq!(recalled(&world), 0, "c lags by 190 ms");
    run(&mut world, "pass 20ms");
    serve(&mut world, &["b", "a"]);
    assert_eq!(recalled(&world), 1, "{}", world.show());
}

/// Rule 5. Shares are parts of all tasks, also of those that could not all have a token
/// at once: of 40 tokens, 186 tasks, b is due 5.6 and not 16.
#[test]
fn shares_are_by_all_tasks_and_not_by_what_a_pool_has_room_for() {
    let mut world = World::new(settings(40));
    run(&mut world, "hello a\nhello b\nwait b 13");
    (world.node("a").maximum, world.node("b").maximum) = (Some(40), Some(40));
    run(&mut world, "wait a 160\nwait b 13\nexpect a=27 b=13 held=40 free=0\npass 110ms");
    serve(&mut world, &["b"]);
    assert_eq!(recalled(&world), 3, "as the motion budget allows: {}", world.show());
    assert!(world.nodes["b"].target < 13, "b gives");
}

/// Rule 5. Who is far from its share does not wait for a quantum, and gets there one
/// token at a time.
#[test]
fn shares_that_are_far_off_are_balanced_slowly() {
    let mut world = World::new(settings(64));
    run(
        &mut world,
        "hello a\nhello b\nwait b 44\nwait a 20\nwait a 40\nwait b 16\nexpect a=20 b=44 held=64 free=0",
    );
    run(&mut world, "pass 45ms");
    serve(&mut world, &["b"]);
    assert_eq!(recalled(&world), 0, "a lag of 45 ms");
    run(&mut world, "pass 10ms");
    serve(&mut world, &["b"]);
    assert_eq!(recalled(&world), 1, "one, though four may be in motion");
    run(&mut world, "return b 1");
    assert_eq!(world.show(), "a=21 b=43 held=64 free=0");
    serve(&mut world, &["b"]);
    assert_eq!(recalled(&world), 1, "the next one");
}

/// Rule 5. Within one and a half tokens nothing moves for less than a quantum.
#[test]
fn shares_that_are_nearly_right_stay_as_they_are() {
    let mut world = World::new(settings(64));
    run(
        &mut world,
        "hello a\nhello b\nwait b 33\nwait a 31\nwait a 29\nwait b 27\nexpect a=31 b=33 held=64 free=0",
    );
    run(&mut world, "pass 95ms");
    serve(&mut world, &["b"]);
    assert_eq!(recalled(&world), 0, "32 are due to each");
}

fn recalled(world: &World) -> u32 {
    let sessions = world.core.sessions(world.now);
    sessions
        .iter()
        .flat_map(|session| &session.leases)
        .map(|lease| lease.holding.saturating_sub(lease.allotment))
        .sum()
}

#[test]
fn the_motion_budget_bounds_busy_recalls() {
    let mut world = World::new(settings(16));
    run(&mut world, "hello a\nhello b\nhello c\nwait a 40\nwait b 5\nwait c 5\npass 90ms");
    assert_eq!(recalled(&world), 1);
    // A donor that does not answer is asked for more, up to half of what it uses.
    run(&mut world, "pass 5s");
    assert!(recalled(&world) <= 8, "{} recalled", recalled(&world));
}

#[test]
fn connects_in_flight_are_bounded() {
    let mut world = World::new(settings(500));
    run(&mut world, "hello a\nmute a\nwait a 400\ndeliver a server");
    assert_eq!(world.core.databases(world.now)[0].held, 32);
}

#[test]
fn warm_connections_take_free_tokens_only() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nhello b\nwait a 3\nreturn a 3");
    world.node("b").warm = 4;
    world.report("b");
    world.pump();
    run(&mut world, "pass 1s\nexpect a=3 b=1 held=4 free=0");
}

/// Rules 6 and 7. A call that waits for four tokens is promised one at a time, and
/// again when that has not come for a quantum, however long it has waited.
#[test]
fn the_escape_moves_one_token_at_a_time() {
    let mut world = World::new(settings(64));
    run(&mut world, "hello a\nwait a 64");
    world.apply(Event::Acquire(Acquire {
        ticket: Ticket(1),
        request: SessionId(1_000),
        node: Arc::from("py"),
        workload: Arc::from("default"),
        database: DB,
        tokens: 4,
    }));
    run(&mut world, "pass 50ms");
    assert_eq!(recalled(&world), 1);
    run(&mut world, "pass 200ms");
    assert_eq!(recalled(&world), 3);
}
