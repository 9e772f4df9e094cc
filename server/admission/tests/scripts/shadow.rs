//! Shadow mode: everything is granted, and what would have waited is told.

use leasehold_admission::{
    DatabaseSettings, Event, Note, Reason, ShadowView, UnaryReply, WorkloadSettings, Workloads,
};

use super::divided::{acquire, batch, workload};
use crate::support::{DB, World, run, settings};

fn shadow(settings: DatabaseSettings) -> DatabaseSettings {
    DatabaseSettings { shadow: true, ..settings }
}

fn configure(world: &mut World, settings: DatabaseSettings) {
    world.settings[0] = settings.clone();
    world.apply(Event::Configure { database: DB, settings });
    world.pump();
}

fn counts(world: &World, name: &str) -> ShadowView {
    workload(world, name).shadow
}

#[test]
fn everything_is_granted_and_what_would_wait_is_counted() {
    let mut world = World::new(shadow(settings(10)));
    run(&mut world, "hello a\nhello b\nwait a 8\nexpect a=8 b=0 held=8 free=2");
    assert_eq!(counts(&world, "default"), ShadowView::default());
    run(&mut world, "wait b 6\nexpect a=8 b=6 held=14 free=0");
    assert_eq!(counts(&world, "default"), ShadowView { waiting: 4, queued: 4, refused: 0 });
    run(&mut world, "return a 8\npass 1s");
    assert_eq!(counts(&world, "default"), ShadowView { waiting: 0, queued: 4, refused: 0 });
    assert!(!world.notes.iter().any(|note| matches!(note, Note::Recalled { .. })), "nothing is asked back");
}

#[test]
fn a_lease_says_what_it_would_have_waited_for() {
    let limited = Workloads::new(vec![WorkloadSettings { limit: Some(5), ..batch() }]);
    let mut world = World::new(shadow(DatabaseSettings { workloads: limited, ..settings(50) }));
    run(&mut world, "hello a batch\nhello b\nwait a 9\nwait b 20\nexpect a=9 b=20 held=29 free=21");
    let told = |name: &str| world.core.explain(world.now, |_, _, node| node == name).0.remove(0);
    let shadowed = told("a").shadowed.expect("it would have waited");
    assert_eq!((shadowed.tokens, shadowed.reason), (4, Reason::Limit(5)));
    assert_eq!(told("a").facts.reason, Reason::Content);
    assert_eq!(told("b").shadowed, None);
}

#[test]
fn calls_that_would_be_refused_are_let_through() {
    let few = Workloads::new(vec![WorkloadSettings { limit: Some(2), max_waiting: Some(3), ..batch() }]);
    let mut world = World::new(shadow(DatabaseSettings { workloads: few, ..settings(6) }));
    for (request, tokens) in [(1_001, 1), (1_002, 9), (1_003, 3)] {
        let replies = acquire(&mut world, request, "batch", tokens);
        assert!(matches!(replies[..], [(_, UnaryReply::Leased { .. })]), "{replies:?}");
    }
    // Above the cap, above the limit, and as many would wait as may.
    assert_eq!(counts(&world, "batch").refused, 2);
    let replies = acquire(&mut world, 1_004, "batch", 1);
    assert!(matches!(replies[..], [(_, UnaryReply::Leased { .. })]), "{replies:?}");
    assert_eq!(counts(&world, "batch").refused, 3);
    run(&mut world, "expect held=14 free=0");
}

#[test]
fn a_database_that_nobody_has_seen_is_leased_all_the_same() {
    let watched = DatabaseSettings { watched: true, cap: None, ..settings(0) };
    let mut world = World::new(shadow(watched));
    run(&mut world, "hello a\nwait a 3\nexpect a=3 held=3 free=0");
    let told = world.core.explain(world.now, |_, _, node| node == "a").0.remove(0);
    assert_eq!(told.shadowed.map(|shadowed| shadowed.reason), Some(Reason::NotObserved));
}

/// Also in shadow mode what is granted is durable first, and a drain is a drain.
#[test]
fn a_store_that_fails_and_a_drain_stop_grants() {
    let mut world = World::new(shadow(settings(10)));
    run(&mut world, "hello a\nstore fails\nwait a 3\nexpect a=0 held=0 free=10");
    run(&mut world, "store works\nexpect a=3 held=3 free=7");
    configure(&mut world, shadow(DatabaseSettings { draining: true, ..settings(10) }));
    run(&mut world, "return a 3\nwait a 2\nexpect a=0 held=0 free=0");
}

/// The end of shadow mode is like a cut of the cap.
#[test]
fn the_cap_holds_again_after_shadow_mode() {
    let mut world = World::new(shadow(settings(10)));
    run(&mut world, "hello a\nhello b\nwait a 8\nwait b 8\nexpect a=8 b=8 held=16 free=0");
    configure(&mut world, settings(10));
    run(&mut world, "wait a 9\nwait b 9\nexpect a=8 b=8 held=16 free=0");
    run(&mut world, "return a 3\nexpect a=5 b=8 held=13 free=0\nreturn b 3\nexpect a=5 b=5 held=10 free=0");
    run(&mut world, "restart\nhello a\nhello b\nexpect a=5 b=5 held=10 free=0");
}

/// Shadow mode ends what was asked for before: nobody is given less than it wants.
#[test]
fn what_was_asked_back_before_shadow_mode_comes_back_to_its_node() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nhello b\nwait a 9\npass 1s\nwait b 2\nexpect a=4 b=0 held=4 free=0");
    configure(&mut world, shadow(settings(4)));
    assert_eq!(world.core.databases(world.now)[0].waiting, 0, "{}", world.show());
    run(&mut world, "expect a=9 b=2 held=11 free=0");
}
