//! What goes wrong, and when: the faults of a history, each drawn from the seed
//! and its own number alone, so that leaving one out changes no other. Knows
//! nothing of how a fault is done.

use std::{fmt, time::Duration};

use leasehold_admission::{WorkloadSettings, Workloads};

use crate::{
    dice::Dice,
    plan::{Plan, WORKLOADS},
    store::Failure,
};

/// Longest usual time between two faults that come as a pair.
const CLOSE: Duration = Duration::from_millis(30);

/// One fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Time since the fault before it.
    pub after: Duration,
    /// What goes wrong.
    pub kind: FaultKind,
    /// For how long.
    pub lasts: Duration,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// A node is killed; another process takes its place later.
    Kill(usize),
    /// A node's machine disappears; its connections stay open for a while.
    Vanish(usize),
    /// A node is stopped, as by SIGSTOP.
    Stop(usize),
    /// A node's machine is suspended: its timers sleep too.
    Suspend(usize),
    /// A node's clock leaps forward by the duration.
    Leap(usize),
    /// A node ends in good order; another process takes its place.
    Retire(usize),
    /// Nothing passes between a node and the server, and nothing errors.
    Partition(usize),
    /// A node's stream breaks; what is under way is lost. The server notices
    /// this much later than the node, or the node than the server.
    Break {
        /// The node.
        node: usize,
        /// The server notices last.
        server_last: bool,
    },
    /// The transport takes no message of a node.
    Stall(usize),
    /// Messages between a node and the server take long.
    Slow(usize),
    /// Whoever the node reaches is a server of an earlier generation.
    Former(usize),
    /// The server is killed.
    ServerKill,
    /// The server is killed again and again.
    CrashLoop,
    /// The server is stopped, as by SIGSTOP.
    ServerStop,
    /// The server's machine is suspended.
    ServerSuspend,
    /// The server's clock leaps forward by the duration.
    ServerLeap,
    /// Commits fail.
    StoreFails(Failure),
    /// Commits take up to the duration.
    StoreStalls,
    /// A database restarts.
    Restart(usize),
    /// The watched database admits another number of connections.
    Limit(u32),
    /// Connections on accounts that are not the fleet's.
    Others(u32),
    /// Connections of tools on the fleet's accounts.
    Tools(u32),
    /// The probe cannot look.
    Blind,
    /// The cap is configured otherwise.
    Cap(usize, u32),
    /// A database drains.
    Drain(usize),
    /// A database has the other loss policy.
    Policy(usize),
    /// A workload of a database may have something else.
    Divide(usize, Division),
}

/// What an operator sets for a workload. Floors may be above the limit, and together
/// above the cap: the override of what they fitted to may have ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    workload: usize,
    weight: u32,
    floor: u32,
    keep: bool,
    limit: Option<u32>,
    max_waiting: Option<u32>,
}

impl Division {
    fn drawn(dice: &mut Dice) -> Division {
        Division {
            workload: dice.index(WORKLOADS.len()),
            weight: dice.number(1, 9),
            floor: dice.number(0, 4),
            keep: dice.chance(300),
            limit: dice.chance(700).then(|| dice.number(1, 6)),
            max_waiting: dice.chance(300).then(|| dice.number(1, 6)),
        }
    }

    /// The workloads with one of them changed.
    pub fn of(self, workloads: &Workloads) -> Workloads {
        let mut all: Vec<WorkloadSettings> = workloads.iter().cloned().collect();
        let Division { workload, weight, floor, keep, limit, max_waiting } = self;
        let changed = workload % all.len();
        let name = all[changed].name.clone();
        all[changed] = WorkloadSettings { name, weight, floor, keep, limit, max_waiting };
        Workloads::new(all)
    }
}

impl FaultKind {
    /// Whether it is the server's or its store's, and not a setting.
    pub fn is_of_the_server(self) -> bool {
        match self {
            FaultKind::ServerKill
            | FaultKind::CrashLoop
            | FaultKind::ServerStop
            | FaultKind::ServerSuspend
            | FaultKind::ServerLeap
            | FaultKind::StoreFails(_)
            | FaultKind::StoreStalls => true,
            FaultKind::Kill(_)
            | FaultKind::Vanish(_)
            | FaultKind::Stop(_)
            | FaultKind::Suspend(_)
            | FaultKind::Leap(_)
            | FaultKind::Retire(_)
            | FaultKind::Partition(_)
            | FaultKind::Break { .. }
            | FaultKind::Stall(_)
            | FaultKind::Slow(_)
            | FaultKind::Former(_)
            | FaultKind::Restart(_)
            | FaultKind::Limit(_)
            | FaultKind::Others(_)
            | FaultKind::Tools(_)
            | FaultKind::Blind
            | FaultKind::Cap(..)
            | FaultKind::Drain(_)
            | FaultKind::Policy(_)
            | FaultKind::Divide(..) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} for {:?}", self.kind, self.lasts)
    }
}

/// The fault with this number.
pub fn nth(plan: &Plan, number: usize) -> Fault {
    let dice = &mut Dice::new(plan.seed, 1_000 + number as u64);
    let after = dice.tail(plan.calm_between_faults, 3);
    // Trouble comes in pairs, half of the time: the second soon after the first,
    // and to the same node.
    let follows = number % 2 == 1 && dice.chance(500);
    let after = if follows { dice.tail(CLOSE, 5) } else { after };
    let first = if follows { number - 1 } else { number };
    let node = Dice::new(plan.seed, u64::MAX - first as u64).index(plan.nodes);
    let database = dice.index(plan.databases.len());
    let ttl = plan.longest_ttl().as_millis() as u64;
    let (kind, lasts) = match dice.number(0, 33) {
        0 => (FaultKind::Kill(node), dice.millis(1, 2 * ttl)),
        1 => (FaultKind::Vanish(node), dice.millis(1, 2 * ttl)),
        2 | 3 => (FaultKind::Stop(node), dice.millis(1, 3 * ttl)),
        4 => (FaultKind::Suspend(node), dice.millis(1, 3 * ttl)),
        5 => (FaultKind::Leap(node), dice.millis(1, 2 * ttl)),
        6 => (FaultKind::Retire(node), dice.millis(1, 500)),
        7 => {
            // Long enough for the server to give up whoever is cut off.
            let grace = plan.longest_grace().as_millis() as u64;
            (FaultKind::Partition(node), dice.millis(ttl, 3 * ttl + grace))
        }
        8 | 9 => (FaultKind::Partition(node), dice.millis(1, 3 * ttl)),
        10..=12 => {
            let server_last = dice.chance(500);
            (FaultKind::Break { node, server_last }, dice.millis(0, 2 * ttl))
        }
        13 => (FaultKind::Stall(node), dice.millis(1, ttl)),
        14 | 15 => (FaultKind::Slow(node), dice.millis(1, 2 * ttl)),
        16 | 17 => (FaultKind::ServerKill, dice.millis(1, ttl)),
        18 => (FaultKind::ServerStop, dice.millis(1, 3 * ttl)),
        19 => (FaultKind::ServerSuspend, dice.millis(1, 3 * ttl)),
        20 => (FaultKind::ServerLeap, dice.millis(1, 3 * ttl)),
        21 | 22 => {
            let how = [Failure::Loses, Failure::Applies, Failure::Either][dice.index(3)];
            (FaultKind::StoreFails(how), dice.millis(1, ttl))
        }
        23 => (FaultKind::StoreStalls, dice.millis(1, ttl)),
        24 => (FaultKind::Restart(database), dice.millis(1, 2_000)),
        25 => (FaultKind::Limit(dice.number(1, 14)), dice.millis(500, 3 * ttl)),
        26 if dice.chance(500) => (FaultKind::Others(dice.number(1, 3)), dice.millis(1, 2 * ttl)),
        26 => (FaultKind::Tools(dice.number(1, 3)), dice.millis(1, 2 * ttl)),
        27 => (FaultKind::Blind, dice.millis(1, 3 * ttl)),
        28 => (FaultKind::Cap(database, dice.number(0, 9)), dice.millis(1, 2 * ttl)),
        29 => (FaultKind::Former(node), dice.millis(1, 2 * ttl)),
        30 => (FaultKind::CrashLoop, dice.millis(0, 1)),
        31 => (FaultKind::Drain(database), dice.millis(1, ttl)),
        32 => (FaultKind::Policy(database), dice.millis(1, 4 * ttl)),
        _ => (FaultKind::Divide(database, Division::drawn(dice)), dice.millis(1, 3 * ttl)),
    };
    Fault { after, kind, lasts }
}
