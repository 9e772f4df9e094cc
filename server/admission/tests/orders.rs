//! Random reports of many nodes, honest or not, and random calls: after each, the
//! core compares every order that it keeps with a look at everything
//! (`Core::check`), whoever is next and whichever token moves next included.

mod support;

use std::{sync::Arc, time::Duration};

use leasehold_admission::{
    Acquire, Admission, Claim, Core, DatabaseSettings, Demand, Event, Hello, LossPolicy, Reason,
    ReleaseTarget, SessionId, StreamId, Ticket, Time, WorkloadSettings, Workloads, durable::State,
};
use proptest::prelude::*;
use support::{DB, settings};

const NODES: u64 = 12;
const CALLS: u64 = 6;

#[derive(Clone, Copy, Debug)]
enum Step {
    Hello(u64),
    Report(u64, Levels),
    Ended(u64),
    Acquire(u64, u32),
    Release(u64),
    GiveUp(u64),
    Pass(Duration),
    Configure(u32, Mode, Division),
    Fails,
}

/// Weights, floors and limits of "web" and "batch"; none: there are no workloads.
#[derive(Clone, Copy, Debug)]
struct Division(Option<[Set; 2]>);

/// Weight, floor, whether it is kept, limit.
type Set = (u32, u32, bool, Option<u32>);

impl Division {
    fn workloads(self) -> Workloads {
        let named = |(name, (weight, floor, keep, limit)): (&str, Set)| WorkloadSettings {
            weight,
            floor,
            keep,
            limit,
            ..WorkloadSettings::named(name)
        };
        let settings = self.0.map(|settings| ["web", "batch"].into_iter().zip(settings).map(named).collect());
        Workloads::new(settings.unwrap_or_default())
    }
}

fn division() -> impl Strategy<Value = Division> {
    let one = || (1..9u32, 0..20u32, any::<bool>(), prop::option::of(1..20u32));
    prop::option::weighted(0.8, [one(), one()]).prop_map(Division)
}

/// In which workload a node or a call is.
fn workload(number: u64) -> Arc<str> {
    Arc::from(["web", "batch", "other"][number as usize % 3])
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Fair,
    Strict,
    Unfair,
    Draining,
    Shadow,
}

/// Levels as a node may report them, of which the driver lets through those that
/// fit together.
#[derive(Clone, Copy, Debug)]
struct Levels {
    in_use: u32,
    idle: u32,
    opening: u32,
    closing: u32,
    unopened: u32,
    waiting: u32,
    warm: u32,
    oldest_wait: Duration,
    mean_hold: Duration,
    /// It has what it was sent, or still only what it was welcomed with.
    prompt: bool,
}

impl Levels {
    fn demand(self) -> Demand {
        let established = self.in_use + self.idle;
        Demand {
            acknowledged: if self.prompt { u64::MAX } else { 1 },
            holding: established + self.opening + self.closing + self.unopened,
            established,
            opening: self.opening,
            closing: self.closing,
            in_use: self.in_use,
            idle: self.idle,
            waiting: self.waiting,
            wanted: (self.in_use + self.opening + self.waiting).max(self.warm),
            oldest_wait: if self.waiting > 0 { self.oldest_wait } else { Duration::ZERO },
            mean_hold: self.mean_hold,
            mean_connect: Duration::from_millis(3),
        }
    }
}

fn levels() -> impl Strategy<Value = Levels> {
    let few = || prop_oneof![3 => Just(0), 2 => 0..4u32];
    let waiting = prop_oneof![3 => Just(0), 5 => 0..9u32, 1 => 0..3_000u32];
    let age = prop_oneof![0..30u64, 0..500u64].prop_map(Duration::from_millis);
    let hold = prop_oneof![Just(0), 1..100u64].prop_map(Duration::from_millis);
    let counts = (0..6u32, few(), few(), few(), few(), waiting, few());
    (counts, age, hold, any::<bool>()).prop_map(|(counts, oldest_wait, mean_hold, prompt)| {
        let (in_use, idle, opening, closing, unopened, waiting, warm) = counts;
        Levels { in_use, idle, opening, closing, unopened, waiting, warm, oldest_wait, mean_hold, prompt }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![
        4 => Just(Mode::Fair),
        2 => Just(Mode::Strict),
        2 => Just(Mode::Unfair),
        1 => Just(Mode::Draining),
        1 => Just(Mode::Shadow),
    ];
    prop_oneof![
        3 => (0..NODES).prop_map(Step::Hello),
        24 => (0..NODES, levels()).prop_map(|(node, levels)| Step::Report(node, levels)),
        1 => (0..NODES).prop_map(Step::Ended),
        3 => (0..CALLS, 1..5u32).prop_map(|(call, tokens)| Step::Acquire(call, tokens)),
        2 => (0..CALLS).prop_map(Step::Release),
        1 => (0..CALLS).prop_map(Step::GiveUp),
        6 => (0..60u64).prop_map(|millis| Step::Pass(Duration::from_millis(millis))),
        1 => (1..40u32, mode, division()).prop_map(|(cap, mode, division)| Step::Configure(cap, mode, division)),
        1 => Just(Step::Fails),
    ]
}

struct Bench {
    core: Core,
    now: Time,
    /// Commits fail.
    fails: bool,
}

impl Bench {
    fn apply(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.core.apply(self.now, event, &mut effects);
        self.core.check();
        let outcome = if self.fails { Event::CommitFailed } else { Event::Committed };
        self.core.apply(self.now, outcome, &mut effects);
        self.core.check();
    }

    /// Whoever needs something has a place in line, and is told what it waits for.
    fn everybody_is_told(&self) {
        for told in self.core.explain(self.now, |_, _, _| true).0 {
            let needs = told.facts.need > 0;
            assert_eq!(told.place.is_some(), needs, "{told:?}");
            assert!(!needs || told.facts.reason != Reason::Content, "{told:?}");
        }
    }

    fn take(&mut self, step: Step, number: u64) {
        match step {
            Step::Hello(node) => self.hello(node),
            Step::Report(node, levels) => {
                let demand = levels.demand();
                self.apply(Event::Demand { stream: StreamId(node), database: DB, demand });
            }
            Step::Ended(node) => self.apply(Event::StreamEnded { stream: StreamId(node) }),
            Step::Acquire(call, tokens) => self.apply(Event::Acquire(Acquire {
                ticket: Ticket(number),
                request: request(call),
                node: Arc::from("py"),
                workload: workload(call),
                database: DB,
                tokens,
            })),
            Step::Release(call) => {
                let target = ReleaseTarget::Request(request(call));
                self.apply(Event::Release { ticket: Ticket(number), target, node: Arc::from("py") });
            }
            Step::GiveUp(ticket) => {
                let ticket = Ticket(number.saturating_sub(ticket));
                self.apply(Event::AcquireEnded { ticket, timed_out: ticket.0.is_multiple_of(2) });
            }
            Step::Pass(time) => {
                self.now = self.now + time;
                self.apply(Event::Tick);
            }
            Step::Configure(cap, mode, division) => {
                let settings = DatabaseSettings { workloads: division.workloads(), ..mode.settings(cap) };
                self.apply(Event::Configure { database: DB, settings });
            }
            Step::Fails => self.fails = !self.fails,
        }
    }

    /// A stream is named like its node, so that a new one replaces it.
    fn hello(&mut self, node: u64) {
        self.apply(Event::StreamEnded { stream: StreamId(node) });
        self.apply(Event::Hello(Hello {
            stream: StreamId(node),
            session: SessionId(u128::from(node)),
            node: Arc::from("node"),
            workload: workload(node),
            claims: vec![Claim { database: DB, demand: Demand::default() }],
        }));
    }
}

impl Mode {
    fn settings(self, cap: u32) -> DatabaseSettings {
        let fair = |millis| Admission::Fair { quantum: Duration::from_millis(millis) };
        let admission = match self {
            Mode::Fair | Mode::Draining | Mode::Shadow => fair(50),
            Mode::Strict => fair(0),
            Mode::Unfair => Admission::Unfair,
        };
        let (draining, shadow) = (matches!(self, Mode::Draining), matches!(self, Mode::Shadow));
        DatabaseSettings { admission, draining, shadow, on_loss: LossPolicy::Fence, ..settings(cap) }
    }
}

/// Requests and nodes are not named alike.
fn request(call: u64) -> SessionId {
    SessionId(1_000 + u128::from(call))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_order_is_what_a_look_at_everything_finds(
        steps in prop::collection::vec(step(), 1..150),
        division in division(),
    ) {
        let settings = DatabaseSettings { workloads: division.workloads(), ..Mode::Fair.settings(16) };
        let core = Core::new(Time::ZERO, vec![settings], &State::default());
        let mut bench = Bench { core, now: Time::ZERO, fails: false };
        for node in 0..NODES {
            bench.hello(node);
        }
        for (number, step) in steps.into_iter().enumerate() {
            bench.take(step, number as u64);
            bench.everybody_is_told();
        }
    }
}
