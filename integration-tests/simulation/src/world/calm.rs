//! What must come about after the faults have stopped, and by when. Knows
//! nothing of what the faults were.

use std::time::Duration;

use leasehold_admission::{DatabaseId, Event as CoreEvent, SessionState, WorkloadSettings, Workloads};

use super::{World, server::Input, server::process_of};
use crate::{
    fault::FaultKind,
    plan::LONGEST_HOLD,
    violation::{Invariant, broken},
};

/// What a vanished machine leaves open lasts this long.
const LONGEST_STRAY: Duration = Duration::from_secs(6);

/// Two observations and the time to judge them, with some to spare.
const OBSERVED: Duration = Duration::from_secs(4);

/// Every task that asks when nothing is wrong has its answer by then.
const ANSWERED: Duration = Duration::from_secs(5);

/// One node alone has the whole cap by then.
const COLLECTED: Duration = Duration::from_secs(5);

/// How long nothing happens, to count what is said.
const SILENCE: Duration = Duration::from_secs(2);

impl World {
    /// The faults stop; everything recovers within stated bounds, all of true
    /// time:
    ///
    /// * after two TTLs, the fence's grace, what a vanished machine left open,
    ///   and two observations, nothing is in quarantine and the cap is whole;
    /// * when nobody asks any more, every task that waits is answered, every
    ///   connection comes back, nothing is said but keep-alives, and server and nodes
    ///   agree on what is held; they do so again soon after each of the last faults;
    /// * each node that asks for one connection gets it while there are as many
    ///   tokens as nodes, one that asks for one has no more than that, one node
    ///   alone can get the whole cap, and a cut of the cap takes effect.
    pub fn recover(&mut self) {
        self.calm_down();
        self.nobody_is_left_out();
        let fences = self.plan.longest_ttl() * 2 + self.plan.longest_grace();
        self.pass(fences + LONGEST_STRAY);
        self.operators_evict();
        self.pass(OBSERVED);
        self.everybody_rests();
        self.nothing_is_kept_back();
        self.nothing_is_said();
        self.the_books_agree();
        self.last_faults();
        self.nothing_is_kept_back();
        for database in 0..self.plan.databases.len() {
            self.each_gets_one(database);
            self.nobody_hoards(database);
            self.one_gets_all(database);
            self.a_cut_takes_effect(database);
        }
    }

    /// Nodes without a process get one.
    fn nobody_is_left_out(&mut self) {
        for node in 0..self.plan.nodes {
            self.start_process(node);
        }
        self.start_server();
    }

    /// Operators evict what nobody can give back: dead processes, and leases of
    /// callers, that keep tokens where no probe looks.
    pub(crate) fn operators_evict(&mut self) {
        for session in self.sessions() {
            let dead = process_of(session.id).is_none_or(|process| !self.processes[process].is_alive());
            let kept = session.leases.iter().any(|lease| lease.database == DatabaseId(1));
            if dead && kept && session.state == SessionState::Quarantined {
                self.put_input(Input::Core(CoreEvent::Evict { session: session.id }));
            }
        }
    }

    pub(crate) fn everybody_rests(&mut self) {
        let processes = self.all_processes();
        for process in &processes {
            for database in 0..self.plan.databases.len() {
                self.set_load(*process, database, 0);
            }
        }
        let rests = |world: &World| {
            processes.iter().all(|process| world.at_rest(*process) && world.unanswered(*process) == 0)
        };
        if !self.pass_until(ANSWERED, rests) {
            let unanswered: u64 = processes.iter().map(|process| self.unanswered(*process)).sum();
            broken(Invariant::Recovers, format!("{unanswered} tasks are not answered, {}", self.describe()));
        }
    }

    fn nothing_is_kept_back(&mut self) {
        let all_is_there = |world: &World| {
            let Some(driver) = &world.server.driver else { return false };
            driver.core.databases(world.server.now(world.now)).iter().all(|view| {
                let whole = world.whole(view.id.0 as usize);
                view.quarantined == 0 && view.cap == whole && view.sessions as usize == world.plan.nodes
            })
        };
        if !self.pass_until(OBSERVED, all_is_there) {
            broken(Invariant::Recovers, format!("not all is there, {}", self.describe()));
        }
    }

    fn nothing_is_said(&mut self) {
        self.pass(SILENCE);
        let before = self.messages;
        self.pass(SILENCE);
        let said = self.messages - before;
        // Keep-alives and their answers; observations make no messages.
        let ttl = self.plan.databases.iter().map(|plan| plan.settings.ttl).min().unwrap_or_default();
        let keep_alives =
            2 * self.plan.nodes as u64 * (8 * SILENCE.as_millis() as u64 / ttl.as_millis().max(1) as u64 + 2);
        if said > keep_alives {
            broken(Invariant::Quiet, format!("{said} messages while nobody wants anything"));
        }
    }

    fn each_gets_one(&mut self, database: usize) {
        let whole = self.whole(database) as usize;
        let nodes: Vec<usize> = self.all_processes().into_iter().take(whole).collect();
        for process in &nodes {
            self.set_load(*process, database, 1);
        }
        // The warm minimum of others may hold what is asked for: it is recalled.
        let asked: Vec<u64> = nodes.iter().map(|process| self.answers(*process, database)).collect();
        let served = |world: &World| {
            nodes.iter().zip(&asked).all(|(process, before)| world.answers(*process, database) > *before)
        };
        if !self.pass_until(COLLECTED, served) {
            broken(Invariant::Recovers, format!("not every node gets one, {}", self.describe()));
        }
        for process in &nodes {
            self.set_load(*process, database, 0);
        }
        self.everybody_rests();
    }

    fn nobody_hoards(&mut self, database: usize) {
        let node = self.plan.nodes - 1;
        let Some(process) = self.nodes[node].process else { return };
        let before = self.tokens_of(node, database);
        self.set_load(process, database, 1);
        self.pass(SILENCE);
        let after = self.tokens_of(node, database);
        let most = before.max(1).max(self.plan.databases[database].limits[node].minimum);
        // A task that gave up its connection may have the next one before that
        // one has closed.
        if after > most + 2 {
            broken(
                Invariant::Recovers,
                format!("node {node} asks for one and holds {after}, {}", self.describe()),
            );
        }
        self.set_load(process, database, 0);
        self.everybody_rests();
    }

    fn a_cut_takes_effect(&mut self, database: usize) {
        let processes = self.all_processes();
        for process in &processes {
            self.set_load(*process, database, 2);
        }
        self.pass(SILENCE);
        let most = self.cut(database);
        let down = |world: &World| {
            let Some(driver) = &world.server.driver else { return false };
            driver.core.databases(world.server.now(world.now))[database].held <= most
        };
        if !self.pass_until(LONGEST_HOLD * 2 + COLLECTED, down) {
            broken(Invariant::Recovers, format!("a cut took no effect, {}", self.describe()));
        }
        let plan = &self.plan.databases[database];
        let (cap, max_connections) = (plan.settings.cap, plan.max_connections);
        let workloads = plan.settings.workloads.clone();
        self.configure(database, |settings| (settings.cap, settings.workloads) = (cap, workloads));
        let cut = &mut self.databases.all[database];
        (cut.others, cut.tools, cut.max_connections) = (0, 0, max_connections);
        self.everybody_rests();
    }

    /// Cuts the cap of a database, or the limit of each of its workloads, to one, in one
    /// way or another. Returns how much may still be held.
    fn cut(&mut self, database: usize) -> u32 {
        let plan = &self.plan.databases[database];
        let (reserve, watched) = (plan.settings.reserve, plan.settings.watched);
        let seen = &mut self.databases.all[database];
        let all_but_one = (seen.max_connections - reserve).saturating_sub(1);
        match self.dice.number(0, 4) {
            0 if watched => seen.others = all_but_one,
            1 if watched => {
                // Behind tokens in motion some would hide for as long as they move.
                self.everybody_rests();
                self.databases.all[database].tools = all_but_one;
            }
            2 if watched => seen.max_connections = reserve + 1,
            3 => {
                let limited =
                    |workload: &WorkloadSettings| WorkloadSettings { limit: Some(1), ..workload.clone() };
                let workloads: Vec<_> = plan.settings.workloads.iter().map(limited).collect();
                let most = workloads.len() as u32;
                self.configure(database, |settings| settings.workloads = Workloads::new(workloads));
                return most;
            }
            _ => self.configure(database, |settings| settings.cap = Some(1)),
        }
        1
    }

    fn one_gets_all(&mut self, database: usize) {
        let whole = self.whole(database);
        let Some(process) = self.nodes[0].process else { return };
        self.set_load(process, database, super::node::TASKS);
        let end = self.moment() + COLLECTED;
        let all = (whole as usize).min(super::node::TASKS);
        while self.using(process, database) < all {
            if self.moment() >= end {
                let using = self.using(process, database);
                broken(
                    Invariant::Recovers,
                    format!("one node alone has {using} of {whole}, {}", self.describe()),
                );
            }
            self.hold_on(process, database);
            self.pass(Duration::from_millis(1));
        }
        let before = self.messages;
        self.hold_on(process, database);
        self.pass(SILENCE);
        let said = self.messages - before;
        if said > 4_000 {
            broken(Invariant::Quiet, format!("{said} messages while one node has everything"));
        }
        self.set_load(process, database, 0);
        self.let_all_go(process, database);
        self.everybody_rests();
    }

    /// The cap when nothing is wrong.
    fn whole(&self, database: usize) -> u32 {
        let plan = &self.plan.databases[database];
        let admitted =
            if plan.settings.watched { plan.max_connections - plan.settings.reserve } else { u32::MAX };
        admitted.min(plan.settings.cap.unwrap_or(u32::MAX))
    }

    fn describe(&self) -> String {
        let pools = |node: usize| {
            let tokens = (0..self.plan.databases.len()).map(|database| self.tokens_of(node, database));
            format!("node {node} holds {:?}", tokens.collect::<Vec<_>>())
        };
        let nodes: Vec<String> = (0..self.plan.nodes).map(pools).collect();
        let views =
            self.server.driver.as_ref().map(|driver| driver.core.databases(self.server.now(self.now)));
        format!("{}; the server sees {views:?}", nodes.join(", "))
    }

    /// The faults that were done, one a line.
    pub fn faults(&self) -> Vec<String> {
        self.done.iter().map(|(number, at, fault)| format!("{number:>4}  {at}  {fault}")).collect()
    }

    /// The numbers of the faults that were done.
    pub fn fault_numbers(&self) -> Vec<usize> {
        self.done.iter().map(|(number, _, _)| *number).collect()
    }

    /// The kinds of the faults that were done.
    pub fn fault_kinds(&self) -> impl Iterator<Item = FaultKind> + '_ {
        self.done.iter().map(|(_, _, fault)| fault.kind)
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}
