//! What is counted as held, and what becomes of it: streams, claims, the store,
//! operators.

use leasehold_admission::{Admission, DatabaseSettings, Demand, Event, LossPolicy, Note, Recall, StreamId};

use crate::support::{DB, World, check, run, settings};

/// Rule 1.
#[test]
fn the_newest_hello_speaks_for_the_session() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 4");
    let old = world.nodes["a"].stream.unwrap();
    run(&mut world, "hello a");
    let demand = Demand { holding: 0, ..Demand::default() };
    world.apply(Event::Demand { stream: old, database: DB, demand });
    assert_eq!(world.show(), "a=4 held=4 free=6");
    assert!(world.notes.contains(&Note::Dropped { stream: old }));
}

/// Rule 1.
#[test]
fn a_restarted_process_does_not_inherit() {
    check(settings(10), "hello a\nwait a 4\nkill a\nhello a\nwait a 2", "a=2 held=6 free=4");
}

/// Rule 7.
#[test]
fn a_raise_on_its_way_stays_counted_when_the_target_falls() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nmute a\nwait a 6\ndeliver a server");
    // The raise to 6 is on its way; a has changed its mind, and b asks for all.
    let stream = world.nodes["a"].stream.unwrap();
    let demand = Demand { acknowledged: 1, ..Demand::default() };
    world.apply(Event::Demand { stream, database: DB, demand });
    run(&mut world, "wait b 10\npass 300ms\nexpect a=0 b=4 held=10 free=0");
    run(&mut world, "unmute a\npass 300ms");
    assert!(world.truly_held() <= 10);
}

/// Rule 9.
#[test]
fn a_recall_that_is_being_followed_was_not_refused() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nwait a 8\nwait b 2\nmute a");
    let stream = world.nodes["a"].stream.unwrap();
    let held = Demand { acknowledged: u64::MAX, holding: 8, ..Demand::default() };
    let one_idle = Demand { established: 8, in_use: 7, idle: 1, ..held };
    world.apply(Event::Demand { stream, database: DB, demand: one_idle });
    run(&mut world, "pass 10ms\nwait b 8");
    // The rest came back while the recall of one was on its way.
    let one_closes = Demand { established: 7, closing: 1, idle: 7, ..held };
    world.apply(Event::Demand { stream, database: DB, demand: one_closes });
    let one_gone = Demand { holding: 7, established: 7, idle: 7, ..held };
    world.apply(Event::Demand { stream, database: DB, demand: one_gone });
    run(&mut world, "pass 10ms");
    let mut recalled = 0;
    for note in &world.notes {
        if let Note::Recalled { tokens, recall: Recall::Idle, .. } = note {
            recalled += tokens;
        }
    }
    assert_eq!(recalled, 8);
}

/// Rule 8.
#[test]
fn what_a_node_does_not_take_is_free_again() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\nexpect a=6 held=6 free=4");
    world.node("a").in_use = 2;
    world.report("a");
    world.pump();
    assert_eq!(world.show(), "a=2 held=2 free=8");
}

/// Rule 9.
#[test]
fn an_idle_recall_that_finds_nothing_is_taken_back() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nhello b\nwait a 4\nreturn a 2\npass 1s\nmute a\nwait b 1");
    // Before the recall arrives, a uses what was idle.
    let node = world.node("a");
    (node.in_use, node.idle) = (4, 0);
    run(&mut world, "unmute a\nexpect a=4 b=0 held=4 free=0");
    let view = world.core.sessions(world.now);
    let allotment = view.iter().find(|session| &*session.node == "a").unwrap().leases[0].allotment;
    assert!(allotment >= 3, "taken back, but for what fair order moves");
}

/// Two of a's four connections are idle, b waits for one, and a is asked for it.
fn asked_for_an_idle_one() -> (World, StreamId, Demand) {
    let unfair = DatabaseSettings { admission: Admission::Unfair, ..settings(4) };
    let mut world = World::new(unfair);
    run(&mut world, "hello a\nhello b\nwait a 4\nreturn a 2\npass 1s\nmute a\nwait b 1");
    assert_eq!(idle_recalls(&world), 1);
    let stream = world.nodes["a"].stream.expect("a stream");
    let kept = Demand { acknowledged: u64::MAX, holding: 4, established: 4, ..Demand::default() };
    (world, stream, Demand { in_use: 2, idle: 2, ..kept })
}

fn idle_recalls(world: &World) -> usize {
    let idle = |note: &&Note| matches!(note, Note::Recalled { recall: Recall::Idle, .. });
    world.notes.iter().filter(idle).count()
}

/// Rule 9. When the recall came all were in use; when it was answered two were not.
#[test]
fn what_came_back_before_the_answer_was_not_refused() {
    let (mut world, stream, two_idle) = asked_for_an_idle_one();
    world.apply(Event::Demand { stream, database: DB, demand: two_idle });
    assert_eq!(idle_recalls(&world), 2);
    run(&mut world, "unmute a\nexpect a=3 b=1 held=4 free=0");
}

/// Rule 9. A node that shows unused tokens and gives none is asked twice, and then
/// not before its next keep-alive.
#[test]
fn whoever_does_not_follow_an_idle_recall_is_not_asked_without_an_end() {
    let (mut world, stream, two_idle) = asked_for_an_idle_one();
    for _ in 0..10 {
        world.apply(Event::Demand { stream, database: DB, demand: two_idle });
    }
    assert_eq!(idle_recalls(&world), 2);
    world.apply(Event::KeepAlive { stream, id: 1 });
    assert_eq!(idle_recalls(&world), 3);
}

/// Rule 10.
#[test]
fn hello_lowers_nothing() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\nmute a\ndisconnect a");
    let node = world.node("a");
    node.in_use = 1;
    run(
        &mut world,
        "hello a\ndeliver a server\nexpect a=1 held=6 free=4\nunmute a\nexpect a=1 held=1 free=9",
    );
}

/// Rule 10.
#[test]
fn a_claim_of_more_than_was_granted_is_counted_and_recalled() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nwait a 2\ndisconnect a");
    world.node("a").in_use = 9;
    run(&mut world, "hello a\nexpect a=9 held=9 free=0");
    assert!(world.notes.iter().any(|note| matches!(note, Note::OverClaimed { claimed: 9, counted: 2, .. })));
    run(&mut world, "return a 9\nexpect a=4 held=4 free=0");
}

/// Rule 13.
#[test]
fn nothing_is_granted_that_the_store_did_not_take() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nhello b\nwait a 6\nstore fails\nwait b 4\nexpect a=6 b=0 held=6 free=4");
    run(&mut world, "return a 3\npass 200ms\nexpect a=6 b=0 held=6 free=4");
    run(&mut world, "store works\npass 200ms\nexpect a=6 b=4 held=10 free=0");
}

/// Rule 13.
#[test]
fn returns_are_accepted_while_the_store_fails() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\nstore fails");
    world.node("a").in_use = 1;
    world.report("a");
    world.pump();
    assert_eq!(world.show(), "a=1 held=1 free=9");
}

/// Rule 13.
#[test]
fn recalls_are_sent_while_the_store_fails() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 10\nstore fails");
    world.apply(Event::Configure { database: DB, settings: settings(4) });
    run(&mut world, "return a 10\nexpect a=4 held=4 free=0");
}

/// Rule 13.
#[test]
fn a_restart_counts_ceilings() {
    let script =
        "hello a\nhello b\nwait a 6\nwait b 2\nrestart\nexpect a=6 b=2 held=8 free=2\nhello a\nhello b";
    let world = check(settings(10), script, "a=6 b=2 held=8 free=2");
    assert_eq!(world.durable.leases.len(), 2);
}

/// Rule 13.
#[test]
fn ceilings_breathe_lazily() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 6\npass 2s\nalive a");
    let before = world.commits;
    // Up and down within what is durable: nothing to write.
    for _ in 0..20 {
        run(&mut world, "return a 3\nwait a 3");
    }
    assert_eq!(world.commits, before);
    world.node("a").in_use = 1;
    world.report("a");
    world.pump();
    run(&mut world, "pass 1s");
    assert_eq!(world.commits, before + 1);
    assert_eq!(world.durable.leases.values().map(|lease| lease.ceiling).sum::<u32>(), 1);
}

#[test]
fn a_cap_cut_to_nothing_takes_everything_back() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 10");
    let draining = DatabaseSettings { draining: true, ..settings(10) };
    world.apply(Event::Configure { database: DB, settings: draining });
    run(&mut world, "return a 10\nwait a 3\nexpect a=0 held=0 free=0");
    world.apply(Event::Configure { database: DB, settings: settings(10) });
    world.pump();
    assert_eq!(world.show(), "a=3 held=3 free=7");
}

#[test]
fn goodbye_frees_everything_at_once() {
    let mut world = World::new(settings(10));
    run(&mut world, "hello a\nwait a 10");
    let stream = world.nodes["a"].stream.unwrap();
    world.node("a").in_use = 0;
    world.apply(Event::Goodbye { stream });
    assert_eq!(world.show(), "a=0 held=0 free=10");
    assert!(world.durable.sessions.is_empty() && world.durable.leases.is_empty());
}

#[test]
fn evict_frees_what_nobody_can_give_back() {
    let mut world = World::new(DatabaseSettings { on_loss: LossPolicy::Keep, ..settings(10) });
    run(&mut world, "hello a\nwait a 10\nkill a\npass 100s\nexpect held=10 free=0");
    let session = world.core.sessions(world.now)[0].id;
    world.apply(Event::Evict { session });
    assert_eq!(world.show(), "held=0 free=10");
}

#[test]
fn absurd_demands_are_sums_like_any_other() {
    let mut world = World::new(settings(10));
    run(
        &mut world,
        "hello a\nhello b\nhello c\nwait a 4000000000\nwait b 4000000000\nwait c 4000000000\npass 1s",
    );
    assert_eq!(world.core.databases(world.now)[0].waiting, u32::MAX);
    assert_eq!(world.truly_held(), 10);
}

/// A cut is shared out in one step, however much is claimed.
#[test]
fn absurd_claims_are_recalled_at_once() {
    let mut world = World::new(settings(10));
    for name in ["a", "b", "c"] {
        run(&mut world, &format!("hello {name}\nmute {name}\ndisconnect {name}"));
        world.node(name).in_use = if name == "a" { 2 } else { 1_000_000_000 };
        run(&mut world, &format!("hello {name}\nunmute {name}"));
    }
    let mut targets: Vec<u32> =
        world.core.sessions(world.now).iter().map(|session| session.leases[0].allotment).collect();
    targets.sort_unstable();
    assert_eq!(targets, [2, 4, 4]);
}

#[test]
fn messages_of_unknown_streams_are_dropped() {
    let mut world = World::new(settings(10));
    let stream = StreamId(99);
    world.apply(Event::KeepAlive { stream, id: 1 });
    world.apply(Event::Goodbye { stream });
    world.apply(Event::StreamEnded { stream });
    assert_eq!(world.notes, [Note::Dropped { stream }, Note::Dropped { stream }]);
}
