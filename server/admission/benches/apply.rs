//! What one `apply` costs, and how that grows with the number of sessions:
//! `cargo bench -p leasehold-admission`.

use std::{hint::black_box, sync::Arc, time::Duration};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use leasehold_admission::{
    Admission, Claim, Core, DatabaseId, DatabaseSettings, Demand, Effect, Event, Hello, LossPolicy,
    SessionId, StreamId, Time, durable::State,
};

const DB: DatabaseId = DatabaseId(0);
const SIZES: [u32; 4] = [100, 1_000, 10_000, 100_000];

/// A fleet that holds the whole cap, two tokens a node, all in use, with a
/// waiter at every node.
struct Fleet {
    core: Core,
    now: Time,
    effects: Vec<Effect>,
    nodes: Vec<Demand>,
}

impl Fleet {
    fn new(sessions: u32) -> Fleet {
        let settings = DatabaseSettings {
            name: Arc::from("orders"),
            watched: false,
            cap: Some(sessions * 2),
            reserve: 0,
            admission: Admission::Fair { quantum: Duration::from_millis(100) },
            ttl: Duration::from_secs(10),
            on_loss: LossPolicy::Fence,
            fence_grace: Duration::from_secs(5),
            draining: false,
        };
        let core = Core::new(Time::ZERO, vec![settings], &State::default());
        let mut fleet = Fleet { core, now: Time::ZERO, effects: Vec::new(), nodes: Vec::new() };
        for node in 0..sessions {
            fleet.join(node);
        }
        fleet
    }

    fn join(&mut self, node: u32) {
        let claims = vec![Claim { database: DB, demand: Demand::default() }];
        self.apply(Event::Hello(Hello {
            stream: StreamId(u64::from(node)),
            session: SessionId(u128::from(node)),
            node: Arc::from("node"),
            workload: Arc::from("default"),
            claims,
        }));
        self.nodes.push(Demand { acknowledged: 1, mean_hold: Duration::from_millis(5), ..Demand::default() });
        self.report(node, |demand| (demand.waiting, demand.wanted) = (2, 2));
        self.hold(node, 2);
        self.report(node, |demand| (demand.waiting, demand.wanted) = (1, 3));
    }

    /// The node takes what it was given and says so.
    fn hold(&mut self, node: u32, tokens: u32) {
        self.report(node, |demand| {
            demand.acknowledged += 1;
            (demand.holding, demand.established, demand.in_use) = (tokens, tokens, tokens);
            demand.waiting = 1;
        });
    }

    fn report(&mut self, node: u32, change: impl FnOnce(&mut Demand)) {
        change(&mut self.nodes[node as usize]);
        let demand = self.nodes[node as usize];
        self.apply(Event::Demand { stream: StreamId(u64::from(node)), database: DB, demand });
    }

    fn apply(&mut self, event: Event) {
        self.now = self.now + Duration::from_micros(1);
        self.effects.clear();
        self.core.apply(self.now, event, &mut self.effects);
        self.core.apply(self.now, Event::Committed, &mut self.effects);
        black_box(&self.effects);
    }
}

/// A report of ages alone.
fn nothing_changes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a demand that changes nothing");
    for sessions in SIZES {
        let mut fleet = Fleet::new(sessions);
        let mut node = 0;
        group.bench_function(BenchmarkId::from_parameter(sessions), |bencher| {
            bencher.iter(|| {
                node = (node + 7) % sessions;
                fleet.report(node, |demand| demand.oldest_wait += Duration::from_micros(10));
            });
        });
    }
    group.finish();
}

/// A node gives one token back, and another one gets it: two demands, one
/// grant. Halve the figure for one `apply`.
fn a_token_moves(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("two demands that move a token");
    for sessions in SIZES {
        let mut fleet = Fleet::new(sessions);
        let mut node = 0;
        group.bench_function(BenchmarkId::from_parameter(sessions), |bencher| {
            bencher.iter(|| {
                node = (node + 7) % sessions;
                // It gives one back; the oldest waiter of all gets it, which
                // is in time its own again.
                fleet.report(node, |demand| {
                    let left = demand.holding.saturating_sub(1);
                    (demand.holding, demand.established, demand.in_use) = (left, left, left);
                });
                let granted = fleet.effects.iter().find_map(|effect| match effect {
                    Effect::Allotment { stream, allotment, .. } => Some((*stream, *allotment)),
                    Effect::Commit(_)
                    | Effect::Welcome { .. }
                    | Effect::KeepAlive { .. }
                    | Effect::Close { .. }
                    | Effect::Reply { .. }
                    | Effect::Note(_) => None,
                });
                let (StreamId(receiver), allotment) = granted.expect("somebody waits");
                fleet.report(receiver as u32, |demand| {
                    demand.acknowledged = allotment.sequence;
                    let tokens = allotment.tokens.max(demand.holding);
                    (demand.holding, demand.established, demand.in_use) = (tokens, tokens, tokens);
                    demand.wanted = tokens + 1;
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, nothing_changes, a_token_moves);
criterion_main!(benches);
