//! Workloads: weights, floors, limits, bounds of waiting.

use std::sync::Arc;

use leasehold_admission::{
    Admission, DatabaseSettings, Event, Note, UnaryReply, WorkloadSettings, Workloads,
};

use super::divided::{acquire, batch, web, with, workload};
use crate::support::{DB, World, check, run, settings};

/// Every node gives back what it has, at most four, every 20 ms; and another task
/// comes for each that was served.
fn work(world: &mut World, rounds: u32) {
    let names: Vec<String> = world.nodes.keys().cloned().collect();
    for name in &names {
        let node = world.node(name);
        node.queue.resize(node.waiting as usize, node.waiting_since);
    }
    for _ in 0..rounds {
        for name in &names {
            run(world, &format!("alive {name}\nreturn {name} {}", world.nodes[name].in_use.min(4)));
        }
        for name in &names {
            refill(world, name);
        }
        run(world, "pass 20ms");
    }
}

fn refill(world: &mut World, name: &str) {
    let now = world.now;
    let node = world.node(name);
    while node.waiting < node.queue.len() as u32 {
        node.queue.pop_front();
        node.queue.push_back(now);
        node.waiting += 1;
    }
    node.waiting_since = node.queue.front().copied().unwrap_or(now);
    world.report(name);
    world.pump();
}

fn holding(world: &World) -> Vec<u32> {
    world.nodes.values().map(super::support::Node::holding).collect()
}

/// Rule 9. Not even by waiting for ages does a workload get more than its part.
#[test]
fn weights_divide_what_is_scarce() {
    let workloads = [WorkloadSettings { weight: 3, ..web() }, batch()];
    let mut world = World::new(with(16, &workloads));
    run(&mut world, "hello a batch\nhello b web\nwait a 9000\npass 5s\nalive a\nalive b\nwait b 5000");
    work(&mut world, 60);
    assert_eq!(holding(&world), [4, 12]);
    assert_eq!(workload(&world, "web").target_thousandths, Some(12_000));
}

/// Rule 9. What one cannot use is for the others.
#[test]
fn what_a_workload_cannot_use_is_for_others() {
    let workloads = [WorkloadSettings { weight: 3, ..web() }, batch()];
    let mut world = World::new(with(16, &workloads));
    run(&mut world, "hello a batch\nhello b web\nwait b 2\nwait a 9000\nexpect a=14 b=2 held=16 free=0");
}

/// Rule 9. Between workloads there is no quantum.
#[test]
fn a_workload_under_its_target_does_not_wait_for_the_quantum() {
    let mut world = World::new(with(64, &[web(), batch()]));
    run(&mut world, "hello a batch\nhello b web\nwait a 9000\npass 1s\nwait b 2");
    // Both are asked for at once, as far as the budget goes, and are free with
    // the next returns.
    run(&mut world, "return a 2\nexpect a=62 b=2 held=64 free=0");
}

/// Rule 9, also where admission is unfair within a workload.
#[test]
fn unfair_admission_is_unfair_within_a_workload() {
    let settings = DatabaseSettings { admission: Admission::Unfair, ..with(16, &[web(), batch()]) };
    let mut world = World::new(settings);
    run(&mut world, "hello a batch\nhello b web\nhello c web\nwait a 9000\nwait b 9000\nwait c 9000");
    work(&mut world, 60);
    let holding = holding(&world);
    assert_eq!(holding[0], 8);
    assert_eq!(holding.iter().sum::<u32>(), 16);
}

/// Rule 9. Within a workload nodes share what the workload is to have.
#[test]
fn shares_are_parts_of_the_workload() {
    let mut world = World::new(with(32, &[web(), batch()]));
    run(&mut world, "hello a batch\nhello b web\nhello c web\nwait a 9000\nwait b 40\nwait c 40");
    work(&mut world, 120);
    let holding = holding(&world);
    assert_eq!(holding[0], 16);
    assert!((7..=9).contains(&holding[1]), "{holding:?}");
}

/// Rule 9. Half a token is nothing to move a token for.
#[test]
fn a_token_does_not_go_round_for_parts_of_it() {
    let mut world = World::new(with(
        7,
        &[
            WorkloadSettings { weight: 4, ..WorkloadSettings::named("a") },
            WorkloadSettings { weight: 5, ..WorkloadSettings::named("b") },
            WorkloadSettings { weight: 5, ..WorkloadSettings::named("c") },
        ],
    ));
    run(&mut world, "hello a\nhello b\nhello c\nwait b 3\nwait c 3\nwait a 1");
    run(&mut world, "wait a 9\nwait b 9\nwait c 9\npass 1s");
    let targets = ["a", "b", "c"].map(|name| workload(&world, name).target_thousandths);
    assert_eq!(targets, [Some(2_000), Some(2_500), Some(2_500)]);
    assert!(!world.notes.iter().any(|note| matches!(note, Note::Recalled { .. })));
}

/// Rule 9. A part of less than a token is a token now and then.
#[test]
fn a_workload_whose_part_is_less_than_a_token_is_served_in_time() {
    let mut world = World::new(with(2, &[web(), batch()]));
    run(&mut world, "hello a batch\nhello b web\nhello c\nwait a 9\nwait b 9\nwait c 9");
    let mut served = [false; 3];
    for _ in 0..60 {
        work(&mut world, 1);
        for (served, holds) in served.iter_mut().zip(holding(&world)) {
            *served |= holds > 0;
        }
    }
    assert_eq!(served, [true; 3]);
}

/// Rule 10.
#[test]
fn a_lent_floor_comes_back_at_once() {
    let mut world = World::new(with(64, &[WorkloadSettings { floor: 20, ..web() }, batch()]));
    run(&mut world, "hello a batch\nhello b web\nwait a 9000\nexpect a=64 b=0 held=64 free=0");
    run(&mut world, "wait b 9000\nreturn a 4\nexpect a=60 b=4 held=64 free=0");
    work(&mut world, 60);
    assert!(world.nodes["b"].holding() >= 20, "{}", world.show());
}

/// Rule 10. Of what comes free, floors get theirs first.
#[test]
fn floors_come_before_weights() {
    let heavy = WorkloadSettings { weight: 9, ..WorkloadSettings::named(Workloads::DEFAULT) };
    let mut world = World::new(with(100, &[WorkloadSettings { floor: 40, ..web() }, heavy]));
    // As many connect as may: 32.
    run(&mut world, "hello b web\nhello c\nmute b\nmute c\nstore fails\nwait b 9000\nwait c 9000");
    run(&mut world, "deliver b server\ndeliver c server\nstore works");
    assert_eq!((workload(&world, "web").held, workload(&world, "default").held), (32, 0));
}

/// Rule 10.
#[test]
fn a_floor_that_was_in_use_is_lent_after_a_second() {
    let floor = WorkloadSettings { floor: 8, ..web() };
    let mut world = World::new(with(16, &[floor, batch()]));
    run(&mut world, "hello a batch\nhello b web\nwait b 8\nreturn b 8\npass 100ms\nwait a 30");
    assert_eq!(holding(&world), [8, 8], "the floor was in use until lately");
    run(&mut world, "pass 800ms\nexpect a=8 b=8 held=16 free=0\nalive a\nalive b\npass 400ms");
    assert_eq!(holding(&world), [16, 0]);
}

/// Rule 10.
#[test]
fn a_kept_floor_is_held_free() {
    let kept = WorkloadSettings { floor: 6, keep: true, ..web() };
    let mut world = World::new(with(16, &[kept, batch()]));
    run(&mut world, "hello a batch\nhello b web\nwait a 30\npass 5s\nexpect a=10 b=0 held=10 free=6");
    run(&mut world, "alive a\nalive b\nwait b 6\nexpect a=10 b=6 held=16 free=0");
    run(&mut world, "return b 6\npass 5s\nexpect a=10 b=6 held=16 free=0");
}

/// Rule 10.
#[test]
fn a_limit_is_never_passed() {
    let limited = WorkloadSettings { limit: Some(5), ..batch() };
    check(
        with(16, &[limited]),
        "hello a batch\nhello b batch\nhello c\nwait a 30\nwait b 30\nwait c 3\npass 1s\nreturn a 1",
        "a=4 b=1 c=3 held=8 free=8",
    );
}

/// Rule 10.
#[test]
fn what_is_in_quarantine_counts_in_the_limit() {
    let limited = WorkloadSettings { limit: Some(5), ..batch() };
    let mut world = World::new(with(16, &[limited]));
    run(&mut world, "hello a batch\nhello b batch\nwait a 4\nkill a\nwait b 9\npass 5s\nalive b\npass 5s");
    assert_eq!(workload(&world, "batch").quarantined, 4);
    run(&mut world, "expect b=1 held=5 free=11\nalive b\npass 5s\nexpect b=5 held=5 free=11");
}

/// Rule 10. Within the limit, the rules of fair order hold.
#[test]
fn nodes_share_a_limit() {
    let limited = WorkloadSettings { limit: Some(8), ..batch() };
    let mut world = World::new(with(64, &[limited]));
    run(&mut world, "hello a batch\nhello b batch\nwait a 20\nwait b 20");
    work(&mut world, 120);
    let holding = holding(&world);
    assert!((3..=5).contains(&holding[0]) && holding[0] + holding[1] == 8, "{holding:?}");
}

#[test]
fn a_limit_that_falls_recalls_the_excess() {
    let mut world = World::new(with(16, &[batch()]));
    run(&mut world, "hello a batch\nhello b\nwait a 12\nwait b 4");
    let limited = WorkloadSettings { limit: Some(5), ..batch() };
    world.apply(Event::Configure { database: DB, settings: with(16, &[limited]) });
    world.pump();
    run(&mut world, "return a 12\nexpect a=5 b=4 held=9 free=7");
}

#[test]
fn a_workload_that_is_not_known_is_the_default() {
    let limited = WorkloadSettings { limit: Some(3), ..WorkloadSettings::named(Workloads::DEFAULT) };
    check(
        with(16, &[web(), limited]),
        "hello a nonsense\nhello b web\nwait a 9\nwait b 9",
        "a=3 b=9 held=12 free=4",
    );
}

#[test]
fn other_workloads_sort_everybody_again() {
    let mut world = World::new(settings(16));
    run(&mut world, "hello a batch\nhello b web\nwait a 10\nwait b 6\nwait a 9000\nwait b 9000");
    assert_eq!(acquire(&mut world, 77, "web", 1), []);
    let workloads = [WorkloadSettings { weight: 3, ..web() }, batch()];
    world.apply(Event::Configure { database: DB, settings: with(16, &workloads) });
    work(&mut world, 60);
    assert_eq!(holding(&world)[0], 4);
    assert_eq!(workload(&world, "web").held, 12);
}

#[test]
fn floors_above_the_cap_shrink_alike_and_are_told_of() {
    let workloads = [WorkloadSettings { floor: 12, ..web() }, WorkloadSettings { floor: 4, ..batch() }];
    let mut world = World::new(with(20, &workloads));
    let floors = |world: &World| ["web", "batch"].map(|name| workload(world, name).floor);
    assert_eq!(floors(&world), [12, 4]);
    world.apply(Event::Configure { database: DB, settings: with(8, &workloads) });
    assert_eq!(floors(&world), [6, 2]);
    assert!(world.notes.contains(&Note::FloorsFitted { database: DB, set: 16, in_force: 8 }));
    world.apply(Event::Configure { database: DB, settings: with(20, &workloads) });
    assert_eq!(floors(&world), [12, 4]);
    assert!(world.notes.contains(&Note::FloorsFitted { database: DB, set: 16, in_force: 16 }));
}

/// The excess after a cut comes from who has more than its part.
#[test]
fn a_cut_spares_floors() {
    let workloads = [WorkloadSettings { floor: 6, ..web() }, batch()];
    let mut world = World::new(with(20, &workloads));
    run(&mut world, "hello a batch\nhello b web\nwait b 6\nwait a 14");
    world.apply(Event::Configure { database: DB, settings: with(8, &workloads) });
    world.pump();
    run(&mut world, "return a 14\nreturn b 6\nexpect a=2 b=6 held=8 free=0");
}

#[test]
fn a_call_beyond_the_most_that_may_wait_is_refused_at_once() {
    let few = WorkloadSettings { max_waiting: Some(3), ..batch() };
    let mut world = World::new(with(4, &[few]));
    run(&mut world, "hello a batch\nwait a 6");
    assert_eq!(acquire(&mut world, 1001, "batch", 1), []);
    let refusal = UnaryReply::TooManyWait { workload: Arc::from("batch"), max_waiting: 3 };
    assert_eq!(acquire(&mut world, 1002, "batch", 1), [(1002, refusal)]);
    assert_eq!(acquire(&mut world, 1003, "web", 1), [], "the others may wait");
    assert_eq!((workload(&world, "batch").waiting, workload(&world, "batch").refused), (3, 1));
}

#[test]
fn nodes_are_told_while_as_many_tasks_wait_as_may() {
    let few = WorkloadSettings { max_waiting: Some(4), ..batch() };
    let mut world = World::new(with(4, std::slice::from_ref(&few)));
    run(&mut world, "hello a batch\nhello b batch\nhello c web\nwait a 7\nwait b 1");
    let told = |world: &World| ["a", "b", "c"].map(|node| world.nodes[node].queueing.full);
    assert_eq!(told(&world), [Some(4), Some(4), None], "3 and 1 wait");
    // It stays full until a quarter fewer wait.
    run(&mut world, "return a 1");
    assert_eq!(told(&world), [None, None, None], "2 and 1 wait");
    run(&mut world, "wait b 1");
    assert_eq!(told(&world), [Some(4), Some(4), None]);
    run(&mut world, "hello d batch");
    assert_eq!(world.nodes["d"].queueing.full, Some(4), "who comes later");
    let shadow = DatabaseSettings { shadow: true, ..with(4, &[few]) };
    world.apply(Event::Configure { database: DB, settings: shadow });
    world.pump();
    assert_eq!(told(&world), [None; 3], "nothing is refused in shadow mode");
}

#[test]
fn a_call_of_more_than_its_limit_is_refused_at_once() {
    let limited = WorkloadSettings { limit: Some(5), ..batch() };
    let mut world = World::new(with(16, &[limited]));
    let refusal = UnaryReply::AboveLimit { workload: Arc::from("batch"), limit: 5 };
    assert_eq!(acquire(&mut world, 1001, "batch", 6), [(1001, refusal)]);
}

/// What is free is kept for a call only if that helps it.
#[test]
fn a_call_that_waits_for_its_own_workload_keeps_nothing_from_others() {
    let limited = WorkloadSettings { limit: Some(5), ..batch() };
    let mut world = World::new(with(16, &[limited]));
    run(&mut world, "hello a batch\nhello b\nwait a 4");
    assert_eq!(acquire(&mut world, 1001, "batch", 3), []);
    run(&mut world, "wait b 9\nexpect a=4 b=9 held=13 free=3");
    run(&mut world, "return a 4\npass 200ms\nexpect a=2 b=9 held=14 free=2");
}
