//! A database that a probe watches: its cap, others, strays, the end of
//! quarantines.

use leasehold_admission::{DatabaseSettings, Event};

use crate::support::{DB, World, run};
use crate::watched;

/// Rule 16.
#[test]
fn watched_tokens_come_back_after_two_observations() {
    let mut world = World::new(watched());
    run(&mut world, "observe 20 0 0\nhello a\nhello b\nwait a 10\nwait b 3\nkill a");
    for _ in 0..9 {
        run(&mut world, "observe 20 10 0\npass 500ms\nalive b");
    }
    run(
        &mut world,
        "expect b=0 held=10 free=0\npass 1s\nobserve 20 0 0\nexpect b=0 held=10 free=0\nobserve 20 0 0",
    );
    run(&mut world, "expect b=3 held=3 free=7");
}

/// Rule 16.
#[test]
fn tokens_of_a_node_that_lives_on_are_not_granted_twice() {
    let mut world = World::new(watched());
    run(
        &mut world,
        "observe 20 0 0\nhello a\nhello b\nwait a 8\nwait b 5\nexpect a=8 b=2 held=10 free=0\nmute a\ndisconnect a",
    );
    for _ in 0..14 {
        run(&mut world, "observe 20 10 0\npass 500ms\nalive b");
        // Its sockets stay open, so that it only fails to grow.
        let node = world.node("a");
        (node.deadline, node.in_use) = (None, 8);
        assert_eq!(world.nodes["b"].holding(), 2);
    }
    let view = &world.core.databases(world.now)[0];
    assert_eq!((view.held, view.strays, view.cap), (2, 8, 2));
}

/// Rule 17.
#[test]
fn nothing_is_granted_before_an_observation_is_judged() {
    let mut world = World::new(watched());
    run(&mut world, "hello a\nwait a 4\nexpect a=0 held=0 free=0\nobserve 40 0 0\nexpect a=4 held=4 free=26");
}

/// Rule 17.
#[test]
fn a_database_that_is_down_at_the_start_keeps_its_last_cap() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\npass 1s\nrestart\nhello a\nwait a 4\nexpect a=0 held=0 free=0");
    world.apply(Event::ProbeDown {
        database: DB,
        error: "connection refused".into(),
        watched_elsewhere: false,
    });
    world.pump();
    assert_eq!(world.show(), "a=4 held=4 free=26");
}

#[test]
fn a_database_that_another_server_watches_is_not_leased() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nwait a 4\nexpect a=4 held=4 free=26");
    world.apply(Event::ProbeDown { database: DB, error: "taken".into(), watched_elsewhere: true });
    run(&mut world, "wait a 1\npass 1s\nexpect a=4 held=4 free=0\nobserve 40 4 0\nexpect a=5 held=5 free=25");
}

#[test]
fn others_lower_the_cap_and_the_excess_is_recalled_busy_or_not() {
    let mut world = World::new(watched());
    run(
        &mut world,
        "observe 40 0 0\nhello a\nhello b\nwait a 20\nwait b 10\nobserve 40 30 12\nexpect a=20 b=10 held=30 free=0",
    );
    assert_eq!(world.core.databases(world.now)[0].cap, 18);
    run(&mut world, "return a 20\nreturn b 10\nexpect a=9 b=9 held=18 free=0");
    run(&mut world, "observe 40 18 0\nexpect a=9 b=9 held=18 free=12");
}

#[test]
fn uncertainty_stops_grants_and_recalls_nothing() {
    let mut world = World::new(watched());
    run(
        &mut world,
        "observe 40 0 0\nhello a\nwait a 5\nobserve 40 25 0\nwait a 10\nexpect a=10 held=10 free=0",
    );
    assert_eq!(world.core.databases(world.now)[0].cap, 30);
}

#[test]
fn uncertainty_leaves_tokens_in_motion_alone() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nhello b\nwait a 30\nobserve 40 35 0");
    let view = &world.core.databases(world.now)[0];
    assert_eq!((view.uncertain, view.cap), (5, 30));
    run(&mut world, "return a 30\npass 100ms\nwait b 4\nexpect a=26 b=4 held=30 free=0");
}

#[test]
fn a_cap_that_rises_is_kept_back_while_it_may_be_taken() {
    let mut world = World::new(DatabaseSettings { cap: Some(20), ..watched() });
    run(&mut world, "observe 40 0 0\nhello a\nwait a 20\nobserve 40 25 0");
    world.apply(Event::Configure { database: DB, settings: watched() });
    run(&mut world, "wait a 30\nexpect a=25 held=25 free=0");
}

#[test]
fn a_server_that_dies_early_comes_back_with_its_cap() {
    let mut world = World::new(watched());
    run(&mut world, "observe 40 0 0\nhello a\nwait a 4\nrestart\nhello a\nexpect a=4 held=4 free=0");
    assert_eq!(world.core.databases(world.now)[0].cap, 30);
}
