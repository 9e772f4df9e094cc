//! Counterexamples that the simulation found in the core, shrunk to a script.

mod support;

use std::time::Duration;

use leasehold_admission::{Admission, Allotment, DatabaseSettings, Demand, Event, LossPolicy, Recall};
use support::{DB, ToNode, World, run, settings};

fn last_allotment(world: &mut World, node: &str) -> Allotment {
    let mut allotments = world.node(node).incoming.iter().filter_map(|message| match message {
        ToNode::Allotment(allotment) => Some(*allotment),
        ToNode::Welcome(..) | ToNode::KeepAlive(_) | ToNode::Closed => None,
    });
    allotments.next_back().expect("an allotment")
}

fn configure(world: &mut World, on_loss: LossPolicy) {
    let settings = DatabaseSettings { on_loss, ..world.settings[0].clone() };
    world.apply(Event::Configure { database: DB, settings });
}

fn quarantined(world: &World) -> u32 {
    world.core.databases(world.now)[0].quarantined
}

/// The connection that an idle recall closes is still closing when the recall
/// is acknowledged. It was given up: the others may be asked for. Taken for a
/// refusal, it left an idle token out of reach of everybody who waited.
#[test]
fn an_idle_recall_whose_connection_still_closes_is_not_refused() {
    let mut world = World::new(DatabaseSettings { admission: Admission::Unfair, ..settings(2) });
    run(&mut world, "hello a\nhello b\nwait a 2\nreturn a 2\npass 100ms\nmute a\nwait b 1");
    let stream = world.node("a").stream.expect("a stream");
    let acknowledged = last_allotment(&mut world, "a").sequence;
    let closing =
        Demand { acknowledged, holding: 2, established: 1, closing: 1, idle: 1, ..Demand::default() };
    world.apply(Event::Demand { stream, database: DB, demand: closing });
    let closed = Demand { holding: 1, closing: 0, ..closing };
    world.apply(Event::Demand { stream, database: DB, demand: closed });
    run(&mut world, "wait b 1\npass 200ms");
    let asked = last_allotment(&mut world, "a");
    assert_eq!((asked.tokens, asked.recall), (0, Recall::Idle));
}

/// A Welcome that told `fence` was never acknowledged; the next one told `keep`,
/// and was. What the first one told came into force with that.
#[test]
fn a_policy_that_was_told_and_not_acknowledged_is_void() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nwait a 1\nmute a\nhello a\ndeliver a server");
    configure(&mut world, LossPolicy::Keep);
    run(&mut world, "hello a\nunmute a\ndisconnect a\npass 10s");
    assert_eq!(quarantined(&world), 1);
    world.pass(Duration::from_secs(60));
    assert_eq!(quarantined(&world), 1, "a node that keeps its connections was told so");
}

/// The policy changes while the ceiling stays as it is: the store must have the
/// new one all the same, or a restarted server gives up a node that keeps its
/// connections.
#[test]
fn a_policy_that_was_told_survives_a_restart() {
    let mut world = World::new(settings(4));
    run(&mut world, "hello a\nwait a 1");
    configure(&mut world, LossPolicy::Keep);
    run(&mut world, "hello a\nrestart\npass 10s");
    assert_eq!(quarantined(&world), 1);
    world.pass(Duration::from_secs(60));
    assert_eq!(quarantined(&world), 1, "a node that keeps its connections was told so");
}
