//! What nodes say, held against what is true. Rules 4 and 12 of
//! `docs/protocol.md`. Knows nothing of what the server makes of it.

use leasehold_client::{
    governed::Levels,
    session::message::{Demand, ToServer},
};

use super::World;
use crate::violation::{Invariant, broken};

impl World {
    /// A process says something.
    pub(crate) fn looks_true(&self, number: usize, message: &ToServer) {
        match message {
            ToServer::Hello(hello) => hello.claims.iter().for_each(|claim| self.is_true(number, claim)),
            ToServer::Demand(demand) => self.is_true(number, demand),
            ToServer::KeepAlive(_) | ToServer::Goodbye => {}
        }
    }

    fn is_true(&self, number: usize, said: &Demand) {
        let database = self.database(&said.database).0 as usize;
        self.a_need_counts_once(number, database, &said.levels);
        self.unopened_tokens_lapse(number, database, &said.levels);
        self.nothing_is_asked_in_vain(number, database, &said.levels);
    }

    /// **Past its deadline a node asks for nothing**: it could not take it, and would
    /// be granted it again without an end.
    fn nothing_is_asked_in_vain(&self, number: usize, database: usize, levels: &Levels) {
        let asks = levels.waiting > 0 || levels.wanted > levels.in_use;
        let welcomed = self.processes[number].session.deadline().is_some();
        if asks && welcomed && self.right_left(number).is_zero() {
            let details =
                format!("process {number} may open nothing at database {database}, and says {levels:?}");
            broken(Invariant::ReportsAreTrue, details);
        }
    }

    /// **A report counts each need once.** Waiting tasks are those that wait and were
    /// not chosen; what is wanted is one token for each task that has one or waits
    /// for one, or the warm minimum.
    fn a_need_counts_once(&self, number: usize, database: usize, levels: &Levels) {
        let (waiting, busy) = self.needs(number, database);
        let limits = self.plan.databases[database].limits[self.processes[number].node];
        let wanted = busy.max(limits.minimum).min(limits.maximum);
        if levels.waiting > waiting || levels.wanted > wanted {
            let details = format!(
                "process {number} has {waiting} waiting and {busy} busy tasks at database {database}, \
                 and says {levels:?}"
            );
            broken(Invariant::ReportsAreTrue, details);
        }
    }

    /// **Past its deadline a node has no more tokens than connections**, and says so.
    fn unopened_tokens_lapse(&self, number: usize, database: usize, levels: &Levels) {
        let holding = self.holding(number, database);
        if levels.holding > holding {
            let details =
                format!("process {number} has {holding} of database {database}, and says {levels:?}");
            broken(Invariant::ReportsAreTrue, details);
        }
    }

    /// **Whoever waits when its pool is closed is told so**: a process that ends in
    /// good order leaves nobody waiting.
    pub(crate) fn nobody_is_left_waiting(&self, number: usize) {
        for database in 0..self.plan.databases.len() {
            let (waiting, _) = self.needs(number, database);
            if waiting > 0 {
                let details =
                    format!("process {number} ends, and {waiting} tasks wait for database {database}");
                broken(Invariant::AnsweredOnce, details);
            }
        }
    }
}
