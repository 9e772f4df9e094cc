//! What is fixed for one history: who takes part, and how things are set. Drawn
//! from the seed alone. Knows nothing of what happens.

use std::{sync::Arc, time::Duration};

use leasehold_admission::{Admission, DatabaseSettings, LossPolicy, WorkloadSettings, Workloads};
use leasehold_client::ledger::Limits;

use crate::dice::Dice;

/// Most nodes in a history.
pub const NODES: usize = 4;

/// In which workload each node is. Nobody sets anything for "jobs".
pub const WORKLOADS: [&str; NODES] = ["web", "batch", "jobs", "batch"];

/// Longest time that a connection lingers at its database after the client's
/// close has returned.
pub const LONGEST_LINGER: Duration = Duration::from_millis(75);

/// Longest statement: how long the database keeps the connection of a client
/// that was killed, and how long a close after a cancelled query takes.
pub const LONGEST_STATEMENT: Duration = Duration::from_millis(300);

/// Longest time that a connection stays checked out.
pub const LONGEST_HOLD: Duration = Duration::from_millis(1_500);

/// Everything that is fixed for one history.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// The databases, in the order of their ids.
    pub databases: Vec<DatabasePlan>,
    /// Shortest time for a message from one machine to another.
    pub delay: Duration,
    /// Mean time between two faults.
    pub calm_between_faults: Duration,
    /// Longest pause of a task between two checkouts.
    pub think: Duration,
}

/// One database and the pools on it.
#[derive(Clone, Debug)]
pub struct DatabasePlan {
    /// As configured at the server.
    pub settings: DatabaseSettings,
    /// The database's own limit.
    pub max_connections: u32,
    /// Limits of each node's pool.
    pub limits: Vec<Limits>,
    /// The pools can sever connections that are in use.
    pub severs: bool,
    /// Unary callers use it too.
    pub unary: bool,
}

impl DatabasePlan {
    /// Most tokens there ever are, when nothing is wrong.
    fn usable(&self) -> u32 {
        let DatabaseSettings { cap, reserve, .. } = &self.settings;
        (self.max_connections - reserve).min(cap.unwrap_or(u32::MAX))
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let dice = &mut Dice::new(seed, 1);
        let nodes = 2 + dice.index(NODES - 1);
        let mut databases = vec![watched(dice, nodes), unwatched(dice, nodes)];
        // Drawn apart, so that the rest of a history does not depend on it.
        let divided = &mut Dice::new(seed, 4);
        for database in &mut databases {
            database.settings.workloads = workloads(divided, database.usable());
        }
        Plan {
            seed,
            nodes,
            databases,
            delay: [50, 200, 1_000, 4_000].map(Duration::from_micros)[dice.index(4)],
            calm_between_faults: Duration::from_millis([60, 200, 500, 1_500][dice.index(4)]),
            think: Duration::from_millis([20, 100, 400][dice.index(3)]),
        }
    }

    /// The longest TTL.
    pub fn longest_ttl(&self) -> Duration {
        self.databases.iter().map(|database| database.settings.ttl).max().unwrap_or_default()
    }

    /// The shortest TTL: that of every session.
    pub fn shortest_ttl(&self) -> Duration {
        self.databases.iter().map(|database| database.settings.ttl).min().unwrap_or_default()
    }

    /// The longest grace of a fenced node.
    pub fn longest_grace(&self) -> Duration {
        self.databases.iter().map(|database| database.settings.fence_grace).max().unwrap_or_default()
    }
}

fn watched(dice: &mut Dice, nodes: usize) -> DatabasePlan {
    let usable = dice.number(2, 8);
    let reserve = dice.number(1, 4);
    let cap = dice.chance(500).then(|| dice.number(2, usable + 2));
    let on_loss = if dice.chance(850) { LossPolicy::Keep } else { LossPolicy::Fence };
    let settings = settings(dice, "orders", on_loss, true, cap, reserve);
    let limits = limits(dice, nodes, usable);
    DatabasePlan {
        settings,
        max_connections: usable + reserve,
        limits,
        severs: dice.chance(500),
        unary: false,
    }
}

fn unwatched(dice: &mut Dice, nodes: usize) -> DatabasePlan {
    let cap = dice.number(2, 7);
    let on_loss = if dice.chance(850) { LossPolicy::Fence } else { LossPolicy::Keep };
    let settings = settings(dice, "stock", on_loss, false, Some(cap), 0);
    let limits = limits(dice, nodes, cap);
    DatabasePlan {
        settings,
        max_connections: 1_000,
        limits,
        severs: dice.chance(500),
        unary: dice.chance(600),
    }
}

fn settings(
    dice: &mut Dice,
    name: &str,
    on_loss: LossPolicy,
    watched: bool,
    cap: Option<u32>,
    reserve: u32,
) -> DatabaseSettings {
    let ttl = dice.millis(1_000, 3_000);
    let fair = |millis| Admission::Fair { quantum: Duration::from_millis(millis) };
    DatabaseSettings {
        name: Arc::from(name),
        watched,
        cap,
        reserve,
        admission: [fair(100), fair(50), fair(0), Admission::Unfair][dice.index(4)],
        ttl,
        on_loss,
        fence_grace: grace(ttl),
        draining: false,
        shadow: false,
        workloads: Workloads::default(),
    }
}

/// Floors, weights and limits that leave a token to each node, and all to the first
/// one if it is alone.
fn workloads(dice: &mut Dice, usable: u32) -> Workloads {
    if dice.chance(400) {
        return Workloads::default();
    }
    let mut named =
        |name: &str| WorkloadSettings { weight: dice.number(1, 4), ..WorkloadSettings::named(name) };
    let (others, web, batch) = (named(Workloads::DEFAULT), named(WORKLOADS[0]), named(WORKLOADS[1]));
    let keep = dice.chance(300);
    let floor = if keep { 1 } else { dice.number(0, usable / 2) };
    let limit = dice.chance(500).then(|| dice.number(2, usable.max(2)));
    let max_waiting = dice.chance(300).then(|| dice.number(1, 6));
    let web = WorkloadSettings { floor, keep, ..web };
    let batch = WorkloadSettings { floor: dice.number(0, 1), limit, max_waiting, ..batch };
    Workloads::new(vec![others, web, batch])
}

/// What a fenced node may need beyond its deadline: clocks that differ, a leap
/// of the server's clock, a timer that slept with the machine, and the longest
/// hold with its close.
fn grace(ttl: Duration) -> Duration {
    ttl / 4 + Duration::from_millis(700) + LONGEST_HOLD + LONGEST_STATEMENT + LONGEST_LINGER
}

/// The first node can use everything; the others have pools of all sizes.
fn limits(dice: &mut Dice, nodes: usize, usable: u32) -> Vec<Limits> {
    let all = usable + 4;
    (0..nodes)
        .map(|node| {
            let maximum = if node == 0 || dice.chance(600) { all } else { dice.number(1, usable) };
            let minimum = if dice.chance(250) { dice.number(1, 2).min(maximum) } else { 0 };
            Limits { maximum, minimum: if node == 0 { 0 } else { minimum } }
        })
        .collect()
}
