//! Workloads whose settings change while they are in use.

use std::{sync::Arc, time::Duration};

use leasehold_admission::{
    DatabaseSettings, Event, Note, Observation, UnaryReply, WorkloadSettings, Workloads,
};

use super::divided::{acquire, batch, web, with, workload};
use crate::support::{DB, World, run};

/// An operator changes what the workloads may have.
fn set(world: &mut World, workloads: &[WorkloadSettings]) {
    let workloads = Workloads::new(workloads.to_vec());
    world.settings[0].workloads = workloads;
    let settings = world.settings[0].clone();
    world.apply(Event::Configure { database: DB, settings });
    world.pump();
}

/// Every node gives back all that it has, again and again; its tasks never end.
fn work(world: &mut World, rounds: u32) {
    for _ in 0..rounds {
        run(world, "pass 50ms\nalive a\nalive b\nreturn a 16\nreturn b 16");
    }
}

/// Rule 9.
#[test]
fn another_weight_moves_tokens() {
    let mut world = World::new(with(16, &[web(), batch()]));
    run(&mut world, "hello a batch\nhello b web\nwait a 9000\nwait b 9000");
    work(&mut world, 10);
    run(&mut world, "expect a=8 b=8 held=16 free=0");
    set(&mut world, &[WorkloadSettings { weight: 3, ..web() }, batch()]);
    work(&mut world, 10);
    run(&mut world, "expect a=4 b=12 held=16 free=0");
    set(&mut world, &[web(), batch()]);
    work(&mut world, 10);
    run(&mut world, "expect a=8 b=8 held=16 free=0");
}

/// Rule 10. What is above the new limit leaves as it comes back, and meanwhile
/// nothing is granted that would be above it.
#[test]
fn a_lower_limit_is_worked_off_and_a_higher_one_used() {
    let mut world = World::new(with(16, &[web(), batch()]));
    run(
        &mut world,
        "hello a batch\nhello b web\nwait a 40\nwait b 4\nreturn a 4\nexpect a=12 b=4 held=16 free=0",
    );
    set(&mut world, &[web(), WorkloadSettings { limit: Some(5), ..batch() }]);
    run(&mut world, "expect a=12 b=4 held=16 free=0\nreturn a 3\nexpect a=9 b=4 held=13 free=3");
    run(&mut world, "return a 9\nexpect a=5 b=4 held=9 free=7");
    assert!(world.nodes["a"].waiting > 0, "its tasks wait on: {}", world.show());
    set(&mut world, &[web(), WorkloadSettings { limit: Some(7), ..batch() }]);
    run(&mut world, "expect a=7 b=4 held=11 free=5");
    set(&mut world, &[web(), batch()]);
    run(&mut world, "expect a=12 b=4 held=16 free=0");
}

/// Rule 10. A floor that rises is asked back at once; one that is kept is held free
/// from then on.
#[test]
fn a_higher_floor_is_filled_first() {
    let mut world = World::new(with(16, &[web(), batch()]));
    run(&mut world, "hello a batch\nhello b web\nwait a 9000\nwait b 9000");
    set(&mut world, &[web(), WorkloadSettings { weight: 1_000, ..batch() }]);
    work(&mut world, 10);
    run(&mut world, "expect a=16 b=0 held=16 free=0");
    set(&mut world, &[WorkloadSettings { floor: 6, ..web() }, WorkloadSettings { weight: 1_000, ..batch() }]);
    work(&mut world, 10);
    run(
        &mut world,
        "expect a=10 b=6 held=16 free=0\ncancel b\nreturn b 6\npass 900ms\nalive a\nalive b\npass 1s",
    );
    run(&mut world, "expect a=16 b=0 held=16 free=0");
    let kept = WorkloadSettings { floor: 6, keep: true, ..web() };
    set(&mut world, &[kept, WorkloadSettings { weight: 1_000, ..batch() }]);
    run(&mut world, "alive a\nalive b");
    assert_eq!(workload(&world, "web").floor, 6);
    for _ in 0..6 {
        run(&mut world, "return a 1");
    }
    run(&mut world, "wait b 6\nreturn a 6\nexpect a=10 b=6 held=16 free=0");
}

/// Floor and limit may come to contradict, when an override of one of them ends.
#[test]
fn a_floor_above_its_limit_is_in_force_up_to_it_and_told_of() {
    let mut world = World::new(with(20, &[WorkloadSettings { floor: 8, ..web() }, batch()]));
    let contradicting = WorkloadSettings { floor: 8, limit: Some(5), ..web() };
    set(&mut world, &[contradicting, batch()]);
    assert_eq!(workload(&world, "web").floor, 5);
    assert!(world.notes.contains(&Note::FloorsFitted { database: DB, set: 8, in_force: 5 }));
    run(&mut world, "hello a batch\nhello b web\nwait a 99\nwait b 99\nreturn a 20");
    run(&mut world, "expect a=15 b=5 held=20 free=0");
    set(&mut world, &[WorkloadSettings { floor: 8, ..web() }, batch()]);
    assert_eq!(workload(&world, "web").floor, 8);
    assert!(world.notes.contains(&Note::FloorsFitted { database: DB, set: 8, in_force: 8 }));
}

/// Nobody who waits is lost, and nobody waits for what can never be.
#[test]
fn a_call_above_a_lower_limit_is_told_so_and_the_others_wait_on() {
    let mut world = World::new(with(8, &[web(), batch()]));
    run(&mut world, "hello a batch\nwait a 8");
    assert_eq!(acquire(&mut world, 1001, "batch", 6), []);
    assert_eq!(acquire(&mut world, 1002, "batch", 2), []);
    assert_eq!(acquire(&mut world, 1003, "web", 6), []);
    set(&mut world, &[web(), WorkloadSettings { limit: Some(4), ..batch() }]);
    let refusal = UnaryReply::AboveLimit { workload: Arc::from("batch"), limit: 4 };
    assert_eq!(std::mem::take(&mut world.replies), [(1001, refusal)]);
    run(&mut world, "return a 8\npass 1s");
    let mut served: Vec<u64> = world.replies.iter().map(|(ticket, _)| *ticket).collect();
    served.sort_unstable();
    assert_eq!(served, [1002, 1003], "{:?}", world.replies);
}

/// A limit falls between a grant and its commit, which fails.
#[test]
fn a_call_that_is_taken_back_meets_the_limit_of_now() {
    let mut world = World::new(with(8, &[web(), batch()]));
    run(&mut world, "hello a batch\nwait a 8");
    assert_eq!(acquire(&mut world, 1001, "batch", 6), []);
    run(&mut world, "store fails\nreturn a 8");
    set(&mut world, &[web(), WorkloadSettings { limit: Some(4), ..batch() }]);
    let refusal = UnaryReply::AboveLimit { workload: Arc::from("batch"), limit: 4 };
    assert_eq!(std::mem::take(&mut world.replies), [(1001, refusal)]);
    world.mend_store();
    world.core.check();
}

/// Who waits already waits on.
#[test]
fn a_lower_bound_of_waiting_refuses_only_the_next() {
    let mut world = World::new(with(2, &[WorkloadSettings { max_waiting: Some(9), ..batch() }]));
    run(&mut world, "hello a batch\nhello b batch\nwait a 4");
    assert_eq!(acquire(&mut world, 1001, "batch", 1), []);
    assert_eq!(acquire(&mut world, 1002, "batch", 1), []);
    set(&mut world, &[WorkloadSettings { max_waiting: Some(2), ..batch() }]);
    assert_eq!(world.nodes["b"].queueing.full, Some(2));
    let refusal = UnaryReply::TooManyWait { workload: Arc::from("batch"), max_waiting: 2 };
    assert_eq!(acquire(&mut world, 1003, "batch", 1), [(1003, refusal)]);
    assert_eq!(workload(&world, "batch").waiting, 4);
    set(&mut world, &[WorkloadSettings { max_waiting: Some(3), ..batch() }]);
    assert_eq!(world.nodes["b"].queueing.full, Some(3), "another number is told");
    set(&mut world, &[batch()]);
    assert_eq!(world.nodes["b"].queueing.full, None);
}

/// Nodes are counted through a change as before it: an observation under way still
/// shows that a stray is gone.
#[test]
fn a_change_blurs_no_observation() {
    let watched = DatabaseSettings { watched: true, cap: None, ..with(0, &[web(), batch()]) };
    let mut world = World::new(watched);
    run(&mut world, "observe 20 0 0\nhello a batch\nhello b web\nwait a 6\nwait b 6\npass 1s");
    run(&mut world, "observe 20 15 0\nobserve 20 15 0");
    assert_eq!(world.core.databases(world.now)[0].strays, 3);
    world.apply(Event::ObservationStarts { database: DB });
    world.pass(Duration::from_millis(200));
    set(&mut world, &[WorkloadSettings { weight: 3, ..web() }, batch()]);
    let (sent, uptime) = (world.now, world.now.since_start());
    let observation = Observation { sent, max_connections: 20, uptime, fleet: 12, others: 0 };
    world.apply(Event::Observed { database: DB, observation });
    world.pass(Duration::from_millis(300));
    assert_eq!(world.core.databases(world.now)[0].strays, 0);
}
