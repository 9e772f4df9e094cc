//! What must be true after each step. What is promised of the cap is written
//! at [`World::the_cap_holds`], word for word. Knows nothing of what happens
//! next.

use leasehold_admission::{DatabaseView, SessionState, SessionView};

use super::World;
use crate::{
    plan::LONGEST_STATEMENT,
    time::Moment,
    violation::{Invariant, broken},
};

/// Most messages that may be sent in one second of true time.
const MESSAGES_A_SECOND: u64 = 20_000;

impl World {
    /// **What a caller believes to have is counted**, and when its lease expires
    /// it believes so no more, but for what the clocks differ by.
    pub(crate) fn callers_are_counted(&self, sessions: &[SessionView]) {
        for caller in &self.callers {
            let holding = caller.holding(self.now);
            if holding == 0 {
                continue;
            }
            let id = caller.session();
            let session = sessions.iter().find(|session| session.id == id);
            let counted = session.iter().flat_map(|session| &session.leases).map(|lease| lease.held).sum();
            if holding > counted {
                broken(
                    Invariant::OneHolder,
                    format!("caller {id} has {holding} tokens, {counted} are counted"),
                );
            }
            let left = caller.right_left(self.now);
            if let Some(expired) = session.filter(|session| session.state == SessionState::Quarantined)
                && left > self.clocks_differ(expired.ttl)
            {
                broken(Invariant::DeadlineFirst, format!("caller {id} is given up with {left:?} left"));
            }
        }
    }

    /// **A watched database grants nothing before it was asked.**
    pub(crate) fn grants_were_allowed(&mut self, views: &[DatabaseView]) {
        for view in views {
            let database = view.id.0 as usize;
            let asked = self.ledgers.all[database].asked;
            if self.plan.databases[database].settings.watched && !asked && view.grants > 0 {
                broken(
                    Invariant::CapHolds,
                    format!("{} granted before database {database} was asked", view.grants),
                );
            }
            self.certain_strays_are_true(view);
            self.nothing_out_of_doubt(view);
        }
    }

    /// Whether a process may still have connections although its fence has
    /// come: it is stopped, or was until lately, or was killed lately.
    pub(crate) fn is_excused(&self, process: usize, database: usize) -> bool {
        let node = &self.nodes[self.processes[process].node];
        let grace = self.plan.databases[database].settings.fence_grace;
        match self.processes[process].died_at {
            Some(died_at) => self.now < died_at + LONGEST_STATEMENT,
            None => node.frozen > 0 || self.now < node.thawed_at + grace,
        }
    }

    /// Checks everything that is promised at each moment.
    pub(crate) fn check(&mut self) {
        self.nobody_babbles();
        self.forget_the_dead();
        self.rights_end();
        for database in 0..self.plan.databases.len() {
            let (mut tokens, mut usable, mut strays) = (0, 0, 0);
            for at in 0..self.ledgers.relevant.len() {
                let process = self.ledgers.relevant[at];
                let holding = self.holding(process, database);
                self.connections_have_tokens(process, database);
                if self.ledgers.all[database].gone[process].is_some() {
                    strays += u64::from(self.strays_of(process, database, holding));
                } else {
                    self.one_holder(process, database, holding);
                    tokens += u64::from(holding);
                    usable += u64::from(self.usable(process, database));
                }
            }
            if database == 1 {
                tokens += self.callers.iter().map(|caller| u64::from(caller.holding(self.now))).sum::<u64>();
            }
            self.the_cap_holds(database, tokens);
            self.the_database_is_not_too_full(database, usable, strays);
        }
    }

    /// **Every connection that a process has open at the database has a token of
    /// its pool**, from before the connect to the end of the close.
    fn connections_have_tokens(&self, process: usize, database: usize) {
        let open = self.databases.all[database].open[process];
        self.the_fence_is_kept(process, database, open);
        let pool = &self.processes[process].pools[database];
        let tokens = pool.read(|ledger, now| ledger.levels(now).holding);
        if self.processes[process].is_alive() && open > tokens {
            let details = format!(
                "process {process} has {tokens} tokens and {open} connections to database {database}"
            );
            broken(Invariant::ConnectionsHaveTokens, details);
        }
    }

    /// **A token is never held by two nodes, and nothing is granted that the
    /// store has not covered.** What a process holds is at most what the core
    /// counts for it, and at most its ceiling in the store as it is at that
    /// moment, commits that were reported as failed included. A process that
    /// neither knows holds nothing.
    fn one_holder(&self, process: usize, database: usize, holding: u32) {
        let ledger = &self.ledgers.all[database];
        let counted = ledger.counted[process].unwrap_or_default();
        if holding > counted {
            let details =
                format!("process {process} holds {holding} of database {database}, {counted} are counted");
            broken(Invariant::OneHolder, details);
        }
        let covered = ledger.covered[process].unwrap_or_default();
        if holding > covered {
            let details =
                format!("process {process} holds {holding} of database {database}, {covered} are covered");
            broken(Invariant::StoreCovers, details);
        }
    }

    /// What a process has open that was given up. It only becomes less. Without
    /// a probe nobody would count it, so there must be none, unless the process
    /// is stopped and can close nothing.
    fn strays_of(&mut self, process: usize, database: usize, holding: u32) -> u32 {
        let most = self.ledgers.all[database].gone[process].unwrap_or_default();
        if holding > most {
            let details =
                format!("process {process} was given up with {most} of database {database}, has {holding}");
            broken(Invariant::OneHolder, details);
        }
        self.ledgers.all[database].gone[process] = Some(holding);
        let open = self.databases.all[database].open[process];
        if self.plan.databases[database].settings.watched {
            return open;
        }
        if open > 0 && !self.is_excused(process, database) {
            let details =
                format!("process {process} was given up and has {open} connections to database {database}");
            broken(Invariant::CapHolds, details);
        }
        0
    }

    /// **The cap holds.** What all processes and callers that the core counts truly
    /// hold is at most the configured cap. A cap that falls leaves over what was held
    /// before: the bound comes down no faster than what the core counts, and does not
    /// rise again. What a process claims that was given up, and was right to have it,
    /// counts as left over too.
    fn the_cap_holds(&self, database: usize, tokens: u64) {
        let bound = self.ledgers.all[database].bound;
        if tokens > bound {
            let details = format!("{tokens} tokens of database {database} are held, the bound is {bound}");
            broken(Invariant::CapHolds, details);
        }
    }

    /// **A watched database is not too full.** The connections that counted processes
    /// have open or may open, those of processes that the core has given up, and
    /// those of tools, are together at most what the newest answer of the probe
    /// admits: the database's limit, less the reserve, less the others.
    ///
    /// Higher by the strays that may hide from the last two judged observations,
    /// behind connections that sessions said to have or to be opening or closing
    /// around it and that were not there: doubt recalls nothing.
    ///
    /// What is admitted may fall, and tools may come: what there is then is left over.
    /// It comes down with what the core counts, from observation to observation (in
    /// between tokens may move, so that what one node gives back another one may
    /// have), and does not rise again.
    ///
    /// Not counted are connections that their client has closed, which linger at the
    /// database for up to 75 ms; dead sockets, which are not there; and tools that
    /// the last two judged observations did not both see.
    fn the_database_is_not_too_full(&self, database: usize, usable: u64, strays: u64) {
        if !self.plan.databases[database].settings.watched {
            return;
        }
        let ledger = &self.ledgers.all[database];
        let tools = ledger.tools.min(u64::from(self.databases.all[database].tools));
        let bound = ledger.bound_admitted;
        if usable + strays + tools > bound {
            let details = format!(
                "{usable} held, {strays} strays and {tools} tools at database {database}, the bound is {bound}"
            );
            broken(Invariant::NotTooFull, details);
        }
    }

    fn nobody_babbles(&mut self) {
        let second = self.now.0 / 1_000_000_000;
        if second != self.ledgers.second {
            let sent = self.messages - self.ledgers.messages;
            if sent > MESSAGES_A_SECOND {
                broken(Invariant::Quiet, format!("{sent} messages in one second"));
            }
            (self.ledgers.second, self.ledgers.messages) = (second, self.messages);
        }
    }

    /// What a pool of a node's process holds.
    pub(crate) fn tokens_of(&self, node: usize, database: usize) -> u32 {
        self.nodes[node].process.map_or(0, |process| self.holding(process, database))
    }

    /// Now, for those who wait for something.
    pub(crate) fn moment(&self) -> Moment {
        self.now
    }
}
