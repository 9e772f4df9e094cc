//! Random histories: honest nodes whose messages are delayed, lost with their
//! streams and superseded, a store that fails, a server that restarts. After
//! each step the named invariants hold; after the faults everything is usable.

mod support;

use std::time::Duration;

use leasehold_admission::{
    Admission, DatabaseSettings, Event, LeaseView, SessionId, SessionState, SessionView, WorkloadSettings,
    Workloads,
};
use proptest::prelude::*;
use support::{Node, World, settings};

const CAP: u32 = 6;
/// The greatest limit of a workload.
const LIMIT: u32 = 3;
const NODES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Hello(usize),
    Wait(usize, u32),
    Cancel(usize),
    Return(usize),
    /// The node gives up an idle token by itself.
    Drop(usize),
    Report(usize),
    KeepAlive(usize),
    /// One message arrives.
    ToServer(usize),
    ToNode(usize),
    /// Everything that is under way arrives.
    Flush,
    Disconnect(usize),
    Kill(usize),
    Restart,
    StoreFails,
    StoreWorks,
    Pass(u64),
    Cap(u32),
    Shadow(bool),
    /// An operator changes what "a" and "b" may have.
    Divide(Division, Division),
}

/// What an operator sets for a workload.
#[derive(Clone, Copy, Debug)]
struct Division {
    weight: u32,
    floor: u32,
    keep: bool,
    limit: Option<u32>,
    max_waiting: Option<u32>,
}

impl Division {
    fn named(self, name: &str) -> WorkloadSettings {
        let Division { weight, floor, keep, limit, max_waiting } = self;
        WorkloadSettings { weight, floor, keep, limit, max_waiting, ..WorkloadSettings::named(name) }
    }
}

/// Floors may be above the limit, and all together above the cap: an override may end.
fn division() -> impl Strategy<Value = Division> {
    let waiting = prop_oneof![2 => Just(None), 1 => (1..9u32).prop_map(Some)];
    (1..9u32, 0..=CAP, any::<bool>(), 1..=LIMIT, waiting).prop_map(
        |(weight, floor, keep, limit, max_waiting)| Division {
            weight,
            floor,
            keep,
            limit: Some(limit),
            max_waiting,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..NODES.len();
    prop_oneof![
        4 => node().prop_map(Step::Hello),
        8 => (node(), 1..8u32).prop_map(|(node, count)| Step::Wait(node, count)),
        2 => node().prop_map(Step::Cancel),
        8 => node().prop_map(Step::Return),
        2 => node().prop_map(Step::Drop),
        4 => node().prop_map(Step::Report),
        4 => node().prop_map(Step::KeepAlive),
        16 => node().prop_map(Step::ToServer),
        16 => node().prop_map(Step::ToNode),
        2 => Just(Step::Flush),
        2 => node().prop_map(Step::Disconnect),
        1 => node().prop_map(Step::Kill),
        1 => Just(Step::Restart),
        1 => Just(Step::StoreFails),
        2 => Just(Step::StoreWorks),
        6 => prop_oneof![1..20u64, 50..400u64, 1_000..6_000u64].prop_map(Step::Pass),
        1 => (2..=CAP).prop_map(Step::Cap),
    ]
}

fn take(world: &mut World, step: Step) {
    match step {
        Step::Hello(node) => {
            hello(world, NODES[node]);
        }
        Step::Wait(node, count) => {
            let now = world.now;
            if let Some(node) = world.nodes.get_mut(NODES[node]) {
                if node.waiting == 0 {
                    node.waiting_since = now;
                }
                node.waiting = (node.waiting + count).min(20);
                node.serve();
            }
        }
        Step::Cancel(node) => {
            if let Some(node) = world.nodes.get_mut(NODES[node]) {
                node.waiting = 0;
            }
        }
        Step::Return(node) => {
            if let Some(node) = world.nodes.get_mut(NODES[node]) {
                node.give_back();
            }
        }
        Step::Drop(node) => {
            if let Some(node) = world.nodes.get_mut(NODES[node]) {
                node.idle = node.idle.saturating_sub(1);
            }
        }
        Step::Report(node) if world.nodes.contains_key(NODES[node]) => world.report(NODES[node]),
        Step::KeepAlive(node) if world.nodes.contains_key(NODES[node]) => world.keep_alive(NODES[node]),
        Step::Disconnect(node) if world.nodes.contains_key(NODES[node]) => world.disconnect(NODES[node]),
        Step::Report(_) | Step::KeepAlive(_) | Step::Disconnect(_) => {}
        Step::ToServer(node) => world.deliver_one_to_server(NODES[node]),
        Step::ToNode(node) => world.deliver_one_to_node(NODES[node]),
        Step::Flush => flush(world),
        Step::Kill(node) => world.kill(NODES[node]),
        Step::Restart => world.restart(),
        Step::StoreFails => world.store_fails = true,
        Step::StoreWorks => world.mend_store(),
        Step::Pass(millis) => world.pass(Duration::from_millis(millis)),
        Step::Cap(cap) => {
            let settings = DatabaseSettings { cap: Some(cap), ..world.settings[0].clone() };
            world.apply(Event::Configure { database: support::DB, settings });
        }
        Step::Divide(one, other) => {
            let workloads = Workloads::new(vec![one.named("a"), other.named("b")]);
            let settings = DatabaseSettings { workloads, ..world.settings[0].clone() };
            world.apply(Event::Configure { database: support::DB, settings });
        }
        Step::Shadow(shadow) => {
            world.settings[0].shadow = shadow;
            let settings = world.settings[0].clone();
            world.apply(Event::Configure { database: support::DB, settings });
        }
    }
}

/// The workload of a node has its name, but that of "c", which is in that of "a".
fn hello(world: &mut World, name: &str) {
    world.hello(name);
    workload_of(name).clone_into(&mut world.node(name).workload);
    world.hello(name);
    world.node(name).prompt = false;
}

fn workload_of(name: &str) -> &str {
    if name == "c" { "a" } else { name }
}

fn flush(world: &mut World) {
    for name in NODES {
        if let Some(node) = world.nodes.get_mut(name) {
            node.prompt = true;
        }
    }
    world.pump();
    for node in world.nodes.values_mut() {
        node.prompt = false;
    }
}

/// The cap is never passed: what nodes truly hold is within what is counted,
/// and both are within the greatest cap there was.
fn the_cap_holds(world: &World) {
    let view = &world.core.databases(world.now)[0];
    assert!(world.truly_held() <= CAP, "nodes hold {} of {CAP}", world.truly_held());
    assert!(view.held <= CAP, "{} counted of {CAP}", view.held);
    assert!(world.truly_held() <= view.held, "nodes hold {}, {} are counted", world.truly_held(), view.held);
}

/// Whatever happened: when the faults are over, one node alone can get the
/// whole cap, and what others left is free again.
fn everything_becomes_usable(world: &mut World) {
    world.mend_store();
    let settings = world.settings[0].clone();
    world.apply(Event::Configure { database: support::DB, settings });
    for name in NODES {
        hello(world, name);
        world.node(name).waiting = 0;
    }
    flush(world);
    for name in NODES {
        while world.nodes[name].in_use > 0 {
            world.node(name).give_back();
        }
        world.report(name);
    }
    flush(world);
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
        for name in NODES {
            world.keep_alive(name);
        }
        flush(world);
    }
    let now = world.now;
    let node = world.node("b");
    (node.waiting, node.waiting_since) = (20, now);
    node.serve();
    world.report("b");
    flush(world);
    for _ in 0..10 {
        world.pass(Duration::from_millis(200));
        flush(world);
    }
    assert_eq!(world.nodes["b"].holding(), CAP, "{}", world.show());
}

fn history(admission: Admission, workloads: &[WorkloadSettings], steps: &[Step]) {
    let workloads = Workloads::new(workloads.to_vec());
    let mut world = World::new(DatabaseSettings { admission, workloads, ..settings(CAP) });
    for step in steps {
        take(&mut world, *step);
        the_cap_holds(&world);
        limits_hold(&world);
        floors_are_held_free(&world);
    }
    everything_becomes_usable(&mut world);
}

/// Whatever operators change, and whenever: no workload is given more than the
/// greatest of its limits (that no grant passes the one in force, the core asserts),
/// and nobody is lost.
fn divided_again_and_again(steps: &[Step]) {
    let limited = |name| WorkloadSettings { limit: Some(LIMIT), ..WorkloadSettings::named(name) };
    let workloads = Workloads::new(vec![limited("a"), limited("b")]);
    let mut world = World::new(DatabaseSettings { workloads, ..settings(CAP) });
    for step in steps {
        take(&mut world, *step);
        the_cap_holds(&world);
        for workload in ["a", "b"] {
            let hold = holding(&world, workload);
            assert!(hold <= LIMIT, "{workload} holds {hold} of {LIMIT}");
        }
    }
    world.settings[0].workloads =
        Workloads::new(vec![WorkloadSettings::named("a"), WorkloadSettings::named("b")]);
    everything_becomes_usable(&mut world);
}

/// What the nodes of a workload truly hold together is within its limit. (What is
/// counted may be more after a restart: each ceiling counts until its node is back.)
fn limits_hold(world: &World) {
    for workload in &world.core.databases(world.now)[0].workloads {
        let limit = workload.settings.limit.unwrap_or(u32::MAX);
        let hold = holding(world, &workload.settings.name);
        assert!(hold <= limit, "{} holds {hold} of {limit}", workload.settings.name);
    }
}

/// What the nodes of a workload truly hold.
fn holding(world: &World, workload: &str) -> u32 {
    let of_it = world.nodes.iter().filter(|(name, _)| workload_of(name) == workload);
    of_it.map(|(_, node)| node.holding()).sum()
}

/// Whatever shadow mode has granted, when it is off nothing is granted beyond the
/// cap, and nobody ever holds what is not counted.
fn shadows_leave_no_mark(steps: &[Step]) {
    let mut world = World::new(settings(CAP));
    let mut held_before = 0;
    for step in steps {
        take(&mut world, *step);
        let held = world.core.databases(world.now)[0].held;
        assert!(world.truly_held() <= held, "nodes hold {}, {held} are counted", world.truly_held());
        // A restart counts what is durable, which a crash may have left above what
        // was held.
        let rose = held > held_before && !matches!(step, Step::Restart);
        assert!(
            world.settings[0].shadow || !rose || held <= CAP,
            "{held} held of {CAP}, {held_before} before"
        );
        held_before = held;
    }
    world.settings[0].shadow = false;
    everything_becomes_usable(&mut world);
}

/// What is counted of a session beyond what it has or is to have.
fn surplus(world: &World, session: &SessionView) -> u32 {
    let node = world.nodes.values().find(|node| SessionId(node.session) == session.id);
    let holds = node.map_or(0, Node::holding);
    let due = |lease: &LeaseView| match session.state {
        SessionState::Attached => holds.max(lease.allotment),
        SessionState::Unattached | SessionState::Unary | SessionState::Quarantined => holds,
    };
    session.leases.iter().map(|lease| lease.held.saturating_sub(due(lease))).sum()
}

/// What others hold leaves a kept floor free, once they have given up what they
/// were asked for. (A crash may leave more counted than is held: each ceiling counts
/// until its node is back.)
fn floors_are_held_free(world: &World) {
    let view = &world.core.databases(world.now)[0];
    let sessions = world.core.sessions(world.now);
    let surplus: u32 = sessions.iter().map(|session| surplus(world, session)).sum();
    for workload in view.workloads.iter().filter(|workload| workload.settings.keep) {
        let free = world.settings[0].cap.unwrap_or(0) - view.held;
        let has = workload.held + free + surplus;
        assert!(has >= workload.settings.floor, "{has} left of a floor of {}", workload.settings.floor);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cap_holds_under_fair(steps in prop::collection::vec(step(), 1..120)) {
        history(Admission::Fair { quantum: Duration::from_millis(100) }, &[], &steps);
    }

    #[test]
    fn the_cap_holds_under_strict(steps in prop::collection::vec(step(), 1..120)) {
        history(Admission::Fair { quantum: Duration::ZERO }, &[], &steps);
    }

    #[test]
    fn the_cap_holds_under_unfair(steps in prop::collection::vec(step(), 1..120)) {
        history(Admission::Unfair, &[], &steps);
    }

    #[test]
    fn the_cap_holds_when_shadow_mode_is_off(
        steps in prop::collection::vec(
            prop_oneof![12 => step(), 1 => any::<bool>().prop_map(Step::Shadow)],
            1..120,
        ),
    ) {
        shadows_leave_no_mark(&steps);
    }

    #[test]
    fn workloads_hold_what_they_promise(steps in prop::collection::vec(step(), 1..120)) {
        let limited = WorkloadSettings { limit: Some(3), ..WorkloadSettings::named("a") };
        let lent = WorkloadSettings { floor: 2, weight: 3, ..WorkloadSettings::named("b") };
        history(Admission::Fair { quantum: Duration::from_millis(100) }, &[limited, lent], &steps);
    }

    #[test]
    fn workloads_change_while_they_are_in_use(
        steps in prop::collection::vec(
            prop_oneof![
                12 => step(),
                1 => (division(), division()).prop_map(|(one, other)| Step::Divide(one, other)),
            ],
            1..120,
        ),
    ) {
        divided_again_and_again(&steps);
    }

    #[test]
    fn kept_floors_are_held_free(steps in prop::collection::vec(step(), 1..120)) {
        let kept = WorkloadSettings { floor: 2, keep: true, ..WorkloadSettings::named("b") };
        // A cap that falls takes of floors too.
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Cap(_))).collect();
        history(Admission::Unfair, &[kept], &steps);
    }
}
