//! What one `apply` costs, and how that grows with the number of sessions:
//! `cargo bench -p leasehold-admission`.
//!
//! Each figure is the time of one `apply` with one report of one node, and of the
//! `apply` that tells the core that its effects were carried out.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use leasehold_admission::{
    Admission, Allotment, Claim, Core, DatabaseId, DatabaseSettings, Demand, Effect, Event, Hello,
    LossPolicy, SessionId, StreamId, Time, WorkloadSettings, Workloads, durable::State,
};

const DB: DatabaseId = DatabaseId(0);
const SIZES: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];
const STEP: Duration = Duration::from_micros(1);

/// Nodes that do what they are told at once.
struct Fleet {
    core: Core,
    now: Time,
    effects: Vec<Effect>,
    nodes: Vec<Node>,
    workloads: u32,
    /// Another task comes for each that is served.
    busy: bool,
    /// Sent, not yet received.
    sent: VecDeque<(u32, Allotment)>,
    /// What the last report cost.
    took: Duration,
}

#[derive(Clone, Copy)]
struct Node {
    demand: Demand,
    since: Time,
}

impl Fleet {
    fn new(size: u32, cap: u32) -> Fleet {
        Fleet::divided(size, cap, Workloads::default())
    }

    fn divided(size: u32, cap: u32, workloads: Workloads) -> Fleet {
        let settings = DatabaseSettings {
            name: Arc::from("orders"),
            watched: false,
            cap: Some(cap),
            reserve: 0,
            admission: Admission::Fair { quantum: Duration::from_millis(100) },
            ttl: Duration::from_secs(10),
            on_loss: LossPolicy::Fence,
            fence_grace: Duration::from_secs(5),
            draining: false,
            shadow: false,
            workloads,
        };
        let workloads = settings.workloads.iter().count() as u32;
        let core = Core::new(Time::ZERO, vec![settings], &State::default());
        let now = Time::from_start(Duration::from_secs(60));
        let (effects, nodes, sent) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut fleet =
            Fleet { core, now, effects, nodes, workloads, busy: false, sent, took: Duration::ZERO };
        for node in 0..size {
            fleet.join(node);
        }
        fleet
    }

    /// Every node uses two tokens, and nobody waits: a third of the cap is free.
    fn calm(nodes: u32) -> Fleet {
        Fleet::new(nodes, nodes * 3)
    }

    /// Every node uses two tokens, and has tasks that wait: nothing is free.
    fn crowded(nodes: u32) -> Fleet {
        let mut fleet = Fleet::new(nodes, nodes * 2);
        fleet.everybody_waits(|_| Duration::from_millis(10));
        fleet
    }

    /// The same, but every second node's tasks are old: busy tokens are asked for
    /// on their behalf, as many as may be in motion.
    fn torn(nodes: u32) -> Fleet {
        let mut fleet = Fleet::new(nodes, nodes * 2);
        fleet.everybody_waits(|node| Duration::from_millis(if node % 2 == 0 { 10 } else { 5_000 }));
        fleet
    }

    /// So many workloads, each with as many nodes as any other, of unlike weight: tokens
    /// move between them, as many as may be in motion.
    fn unlike(workloads: u32, nodes: u32) -> Fleet {
        let workload = |number: u32| WorkloadSettings {
            weight: 1 + number % 4,
            floor: nodes / workloads / 2,
            ..WorkloadSettings::named(name(number))
        };
        let settings = Workloads::new((0..workloads).map(workload).collect());
        let mut fleet = Fleet::divided(nodes, nodes * 2, settings);
        fleet.everybody_waits(|node| Duration::from_millis(if node % 2 == 0 { 10 } else { 5_000 }));
        fleet
    }

    fn four(nodes: u32) -> Fleet {
        Fleet::unlike(4, nodes)
    }

    /// As many as a configuration may have.
    fn sixty_four(nodes: u32) -> Fleet {
        Fleet::unlike(64, nodes)
    }

    fn join(&mut self, node: u32) {
        let demand = Demand { mean_hold: Duration::from_millis(5), ..Demand::default() };
        let hello = Hello {
            stream: StreamId(u64::from(node)),
            session: SessionId(u128::from(node) + 1),
            node: Arc::from("node"),
            workload: name(node % self.workloads),
            claims: vec![Claim { database: DB, demand }],
        };
        self.nodes.push(Node { demand, since: self.now });
        self.apply(Event::Hello(hello));
        self.report(node, |demand| {
            (demand.acknowledged, demand.waiting) = (1, 2);
        });
        self.take_what_is_sent();
    }

    fn everybody_waits(&mut self, age: impl Fn(u32) -> Duration) {
        self.busy = true;
        for node in 0..self.nodes.len() as u32 {
            // No two are of the same age.
            self.nodes[node as usize].since = self.now.back(age(node));
            self.report(node, |demand| demand.waiting = 3);
            self.take_what_is_sent();
        }
    }

    /// Changes the levels of a node and reports them.
    fn report(&mut self, node: u32, change: impl FnOnce(&mut Demand)) {
        let Node { demand, since } = &mut self.nodes[node as usize];
        change(demand);
        demand.wanted = demand.in_use + demand.waiting;
        demand.oldest_wait = if demand.waiting > 0 { self.now.since(*since) } else { Duration::ZERO };
        let demand = *demand;
        self.apply(Event::Demand { stream: StreamId(u64::from(node)), database: DB, demand });
    }

    fn apply(&mut self, event: Event) {
        self.now = self.now + STEP;
        self.effects.clear();
        #[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
        let started = Instant::now();
        self.core.apply(self.now, event, &mut self.effects);
        self.core.apply(self.now, Event::Committed, &mut self.effects);
        self.took = started.elapsed();
        self.sent.extend(self.effects.iter().filter_map(allotment));
    }

    /// Nodes use what they are granted for the oldest of their tasks, and say so.
    fn take_what_is_sent(&mut self) {
        while let Some((node, allotment)) = self.sent.pop_front() {
            let Node { demand, since } = &mut self.nodes[node as usize];
            demand.acknowledged = allotment.sequence;
            let granted = allotment.tokens.saturating_sub(demand.holding);
            if granted > 0 {
                hold(demand, allotment.tokens);
                *since = self.now;
                demand.waiting -= if self.busy { 0 } else { granted };
            }
            self.report(node, |_| ());
        }
    }
}

/// The name of a workload.
fn name(number: u32) -> Arc<str> {
    if number == 0 { Arc::from(Workloads::DEFAULT) } else { Arc::from(format!("workload {number}")) }
}

fn hold(demand: &mut Demand, tokens: u32) {
    (demand.holding, demand.established, demand.in_use) = (tokens, tokens, tokens);
}

fn allotment(effect: &Effect) -> Option<(u32, Allotment)> {
    match effect {
        Effect::Allotment { stream, allotment, .. } => Some((stream.0 as u32, *allotment)),
        Effect::Commit(_)
        | Effect::Welcome { .. }
        | Effect::KeepAlive { .. }
        | Effect::Close { .. }
        | Effect::Reply { .. }
        | Effect::Note(_) => None,
    }
}

/// Prints how the cost of one step grows with the number of sessions. What is
/// told is the median, which does not count the times at which the machine did
/// something else.
fn curve(
    criterion: &mut Criterion,
    name: &str,
    fleet: impl Fn(u32) -> Fleet,
    step: impl Fn(&mut Fleet, u32) -> Duration,
) {
    let mut group = criterion.benchmark_group(name);
    for sessions in SIZES {
        let mut fleet = fleet(sessions);
        let mut node = 0;
        group.bench_function(BenchmarkId::from_parameter(sessions), |bencher| {
            bencher.iter_custom(|times| {
                let mut took: Vec<Duration> = Vec::with_capacity(times as usize);
                for _ in 0..times {
                    // Far from the last one, so that no cache helps.
                    node = (node + 7_919) % sessions;
                    took.push(step(&mut fleet, node));
                }
                took.sort_unstable();
                took[took.len() / 2] * times as u32
            });
        });
    }
    group.finish();
}

/// A report of what the server knows already, but for the age of a task.
fn nothing_changes(fleet: &mut Fleet, node: u32) -> Duration {
    fleet.report(node, |_| ());
    fleet.took
}

/// An operator asks why a node waits.
fn somebody_asks_why(fleet: &mut Fleet, node: u32) -> Duration {
    let asked = SessionId(u128::from(node) + 1);
    #[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
    let started = Instant::now();
    let (found, _) = fleet.core.explain(fleet.now, |_, session, _| session == asked);
    let took = started.elapsed();
    assert_eq!(found.len(), 1);
    took
}

/// A node has a task, and gets a free token for it. It gives it back, unmeasured.
fn a_free_token_is_granted(fleet: &mut Fleet, node: u32) -> Duration {
    fleet.report(node, |demand| demand.waiting = 1);
    let took = fleet.took;
    assert!(fleet.sent.len() == 1, "one token is granted");
    fleet.take_what_is_sent();
    fleet.report(node, |demand| hold(demand, demand.holding - 1));
    took
}

/// A node gives a token back, and the one that is next gets it.
fn a_token_moves(fleet: &mut Fleet, node: u32) -> Duration {
    let sessions = fleet.nodes.len() as u32;
    let gives = (0..sessions).map(|other| (node + other) % sessions);
    let has_one = |node: &u32| fleet.nodes[*node as usize].demand.holding > 0;
    let node = { gives }.find(has_one).expect("somebody has a token");
    fleet.report(node, |demand| hold(demand, demand.holding - 1));
    let took = fleet.took;
    assert!(!fleet.sent.is_empty(), "somebody is next");
    fleet.take_what_is_sent();
    took
}

fn benches(criterion: &mut Criterion) {
    curve(criterion, "nothing changes, nobody waits", Fleet::calm, nothing_changes);
    curve(criterion, "nothing changes, everybody waits", Fleet::crowded, nothing_changes);
    curve(criterion, "nothing changes, tokens are asked for", Fleet::torn, nothing_changes);
    curve(criterion, "nothing changes, four workloads", Fleet::four, nothing_changes);
    curve(criterion, "nothing changes, 64 workloads", Fleet::sixty_four, nothing_changes);
    curve(criterion, "an operator asks why", Fleet::torn, somebody_asks_why);
    curve(criterion, "a free token is granted", Fleet::calm, a_free_token_is_granted);
    curve(criterion, "a token moves, everybody waits", Fleet::crowded, a_token_moves);
    curve(criterion, "a token moves, tokens are asked for", Fleet::torn, a_token_moves);
    curve(criterion, "a token moves, four workloads", Fleet::four, a_token_moves);
    curve(criterion, "a token moves, 64 workloads", Fleet::sixty_four, a_token_moves);
}

criterion_group!(all, benches);
criterion_main!(all);
