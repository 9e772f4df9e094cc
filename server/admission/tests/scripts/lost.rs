//! Records of the store that were lost.

use leasehold_admission::{DatabaseSettings, Event, SessionId, durable::State};

use crate::support::{World, run, settings};
use crate::watched;

/// The records of everybody are lost, and a recovery has noted that.
fn lose_records(world: &mut World) {
    world.durable = State { generation: world.durable.generation, ..State::default() };
    world.durable.miss_records();
}

#[test]
fn lost_records_keep_grants_back_until_their_nodes_have_lapsed() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 4\npass 1s\nkill a");
    lose_records(&mut world);
    run(&mut world, "restart\nhello b\nwait b 8\nexpect b=0 held=0 free=0");
    run(&mut world, "pass 8s\nalive b\npass 6s\nexpect b=0 held=0 free=0\npass 2s\nexpect b=8 held=8 free=2");
    assert!(!world.durable.sessions.contains_key(&SessionId::LOST), "it is over for good");
}

#[test]
fn whose_record_was_lost_comes_back_with_all_it_holds() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 4\npass 1s");
    lose_records(&mut world);
    run(
        &mut world,
        "restart\nhello a\npass 1s\nexpect a=4 held=4 free=0\npass 8s\nalive a\npass 8s\nexpect a=4 held=4 free=6",
    );
}

#[test]
fn a_restart_does_not_forget_that_records_were_lost() {
    let mut world = World::new(settings(10));
    lose_records(&mut world);
    run(&mut world, "restart\nhello b\nwait b 8\npass 6s\nrestart\nhello b\nexpect b=0 held=0 free=0");
    run(&mut world, "pass 6s\nalive b\nexpect b=0 held=0 free=0\npass 5s\nexpect b=8 held=8 free=2");
}

#[test]
fn a_watched_database_that_lost_records_grants_after_a_ttl_and_two_observations() {
    let mut world = World::new(DatabaseSettings { cap: Some(10), ..watched() });
    lose_records(&mut world);
    run(&mut world, "restart\nhello b\nwait b 8\nobserve 100 0 0\nobserve 100 0 0\nexpect b=0 held=0 free=0");
    run(&mut world, "pass 6s\nalive b\npass 5s\nexpect b=0 held=0 free=0");
    run(&mut world, "observe 100 0 0\npass 1s\nobserve 100 0 0\npass 1s\nobserve 100 0 0\npass 1s");
    assert_eq!(world.truly_held(), 8);
}

#[test]
fn an_operator_ends_the_wait_for_lost_records() {
    let mut world = World::new(settings(10));
    lose_records(&mut world);
    run(&mut world, "restart\nhello b\nwait b 8\nexpect b=0 held=0 free=0");
    world.apply(Event::Evict { session: SessionId::LOST });
    run(&mut world, "pass 1s\nexpect b=8 held=8 free=2");
}
