//! The last faults of a history, each by itself: what it leaves behind is not hidden
//! by what comes after it, for then all is quiet and the books are compared. Knows
//! nothing of the faults before.

use std::time::Duration;

use super::World;
use crate::store::Failure;

/// Commits fail for so long, and then work for so long.
const FAILED: Duration = Duration::from_millis(700);

/// Streams are slow for so long.
const OVERSLEPT: Duration = Duration::from_millis(600);

/// Everybody works for so long before a fault.
const AT_WORK: Duration = Duration::from_millis(300);

/// Tools come so long after their database, and stay for so long.
const TOOLS_COME: Duration = Duration::from_millis(50);
const TOOLS_STAY: Duration = Duration::from_millis(4_000);

/// Idle connections were closed, reports have settled, nothing is on its way.
const SETTLED: Duration = Duration::from_millis(2_500);

impl World {
    /// The last faults, one after the other.
    pub(crate) fn last_faults(&mut self) {
        let faults: [fn(&mut World); 4] = [
            World::the_store_fails_once_more,
            World::everybody_oversleeps,
            World::the_database_restarts_unnoticed,
            World::the_server_dies_once_more,
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
            let mut processes = world.nodes.iter().filter_map(|node| node.process);
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

    /// The watched database restarts while nobody uses it, so that nobody reports;
    /// then tools take what is free, and one node asks.
    fn the_database_restarts_unnoticed(&mut self) {
        self.everybody_rests();
        self.pass(SETTLED);
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

    fn all_processes(&self) -> Vec<usize> {
        self.nodes.iter().filter_map(|node| node.process).collect()
    }
}
