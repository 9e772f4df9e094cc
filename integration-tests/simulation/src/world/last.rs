//! The last faults of a history, each by itself: what it leaves behind is not hidden
//! by what comes after it, for then all is quiet and the books are compared. Knows
//! nothing of the faults before.

use std::time::Duration;

use leasehold_admission::LossPolicy;

use super::{World, node::TASKS};
use crate::{plan::LONGEST_HOLD, store::Failure};

/// Commits fail for so long, and then work for so long.
const FAILED: Duration = Duration::from_millis(700);

/// Streams are slow for so long.
const OVERSLEPT: Duration = Duration::from_millis(600);

/// A commit, and what is said because of it.
const MOMENT: Duration = Duration::from_millis(20);

/// Everybody works for so long before a fault.
const AT_WORK: Duration = Duration::from_millis(300);

/// Tools come so long after their database, and stay for so long.
const TOOLS_COME: Duration = Duration::from_millis(50);
const TOOLS_STAY: Duration = Duration::from_secs(4);

/// Idle connections were closed, reports have settled, nothing is on its way.
const SETTLED: Duration = Duration::from_millis(2_500);

impl World {
    /// The last faults, one after the other.
    pub(crate) fn last_faults(&mut self) {
        let faults: [fn(&mut World); 6] = [
            World::the_store_fails_once_more,
            World::everybody_oversleeps,
            World::the_database_restarts_unnoticed,
            World::the_server_dies_once_more,
            World::a_node_is_cut_off_while_its_policy_changes,
            World::a_machine_disappears_once_more,
        ];
        for fault in faults {
            self.everybody_is_attached();
            self.everybody_works();
            fault(self);
            self.everybody_is_attached();
            self.everybody_rests();
            self.pass(SETTLED);
            self.the_books_agree();
        }
    }

    fn everybody_is_attached(&mut self) {
        let attached = |world: &World| {
            let mut processes = world.all_processes().into_iter();
            world.server.is_up() && processes.all(|process| world.processes[process].attached.is_some())
        };
        self.pass_until(self.plan.longest_ttl() * 2, attached);
    }

    fn everybody_works(&mut self) {
        for process in self.all_processes() {
            for database in 0..self.plan.databases.len() {
                let load = 1 + self.dice.index(4);
                self.set_load(process, database, load);
            }
        }
        self.pass(AT_WORK);
    }

    /// Nodes ask for tokens, and commits fail for a moment.
    fn the_store_fails_once_more(&mut self) {
        let how = [Failure::Loses, Failure::Applies, Failure::Either][self.dice.index(3)];
        self.store.failing = Some(how);
        self.pass(FAILED);
        self.store.failing = None;
        self.pass(FAILED);
    }

    /// On every node at once the clock leaps past the deadline, while it works and
    /// its stream is good but slow: what the server says meanwhile reaches nodes that
    /// have lapsed and are about to live again.
    fn everybody_oversleeps(&mut self) {
        let now = self.now;
        for node in &mut self.nodes {
            node.clock.leap(now, self.plan.shortest_ttl());
            node.slow += 1;
        }
        self.pass(OVERSLEPT);
        self.nodes.iter_mut().for_each(|node| node.slow -= 1);
    }

    /// The watched database restarts while connections are idle, so that nobody
    /// reports; then tools take what is free, and one node asks.
    fn the_database_restarts_unnoticed(&mut self) {
        self.everybody_rests();
        self.pass(AT_WORK * 2);
        self.databases.stop(0);
        self.databases.start(self.now, 0);
        self.pass(TOOLS_COME);
        let all = self.plan.databases[0].max_connections - self.plan.databases[0].settings.reserve;
        self.databases.all[0].tools = self.dice.number(1, all);
        let processes = self.all_processes();
        let asks = processes[self.dice.index(processes.len())];
        self.set_load(asks, 0, 4);
        self.pass(TOOLS_STAY);
        self.databases.all[0].tools = 0;
        self.pass(TOOLS_STAY);
    }

    fn the_server_dies_once_more(&mut self) {
        self.kill_server();
        self.pass(TOOLS_COME);
        self.start_server();
        self.pass(AT_WORK);
    }

    /// The policy of the database that nobody watches has been one for everybody, and
    /// becomes the other. One node, whose tasks hold on to their connections, says
    /// Hello again and is cut off, before it has heard of the change or after; for so
    /// long that it is given up. Everybody else wants everything.
    fn a_node_is_cut_off_while_its_policy_changes(&mut self) {
        let node = self.dice.index(self.plan.nodes);
        let Some(cut_off) = self.nodes[node].process else { return };
        let before = if self.dice.chance(500) { LossPolicy::Keep } else { LossPolicy::Fence };
        self.set_policy(before);
        self.everybody_says_hello();
        for process in self.all_processes() {
            self.set_load(process, 1, TASKS);
        }
        self.pass(AT_WORK);
        if self.dice.chance(700) {
            self.set_policy(if before == LossPolicy::Keep { LossPolicy::Fence } else { LossPolicy::Keep });
        }
        if self.dice.chance(700) {
            let before = self.processes[cut_off].attached;
            self.break_newest_stream(node, false, Duration::ZERO);
            let heard = |world: &World| {
                let attached = world.processes[cut_off].attached;
                attached.is_some() && attached != before
            };
            self.pass_until(self.plan.longest_ttl(), heard);
            let mut soon = self.dice.tail(self.plan.delay, 4);
            if self.dice.chance(300) {
                // The Welcome comes too late to live by.
                self.nodes[node].clock.leap(self.now, self.plan.shortest_ttl());
                soon += self.plan.delay * 8 + MOMENT;
            }
            self.pass(soon);
        }
        self.cut_off(node);
        // What is taken before the deadline is held for as long as anybody may.
        self.pass(self.plan.shortest_ttl().mul_f64(0.95));
        self.hold_on(cut_off, 1);
        self.pass(LONGEST_HOLD);
        if self.nodes[node].process == Some(cut_off) {
            self.let_all_go(cut_off, 1);
        }
        self.pass(self.plan.longest_ttl() + self.plan.longest_grace());
        self.no_longer_cut_off(node);
        self.set_policy(self.plan.databases[1].settings.on_loss);
    }

    /// A node's machine disappears while it uses the watched database. What it had
    /// open stays there for longer than its session lives; the others want it.
    fn a_machine_disappears_once_more(&mut self) {
        let node = self.dice.index(self.plan.nodes);
        for process in self.all_processes() {
            self.set_load(process, 0, TASKS);
        }
        self.pass(AT_WORK);
        let expired = self.plan.longest_ttl() * 2;
        self.kill_process(node, Some(expired));
        self.pass(expired + self.plan.longest_grace());
        self.operators_evict();
        self.start_process(node);
    }

    fn set_policy(&mut self, on_loss: LossPolicy) {
        self.configure(1, |settings| settings.on_loss = on_loss);
    }

    /// The streams of all nodes break, and they open others.
    fn everybody_says_hello(&mut self) {
        for node in 0..self.plan.nodes {
            self.break_newest_stream(node, false, Duration::ZERO);
        }
        self.pass(AT_WORK);
        self.everybody_is_attached();
        self.pass(AT_WORK);
    }
}
