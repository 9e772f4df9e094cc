//! The databases: they count what is physically open, refuse what is above
//! their limit, notice a close late, and restart. Know nothing of tokens.

use std::time::Duration;

use crate::time::Moment;

/// Where a connection stands, as the database sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// On its way to the database.
    Arriving,
    /// Open.
    Open,
    /// Its client has closed it, or given it up; the slot is still taken.
    Lingering,
    /// Not there.
    Gone,
}

/// A connection, as the database sees it.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Its database.
    pub database: usize,
    /// The process that opened it.
    pub process: usize,
    /// Where it stands.
    pub stage: Stage,
}

/// What became of a connection that reached its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is open.
    Open,
    /// There are too many.
    Full,
    /// The database is down.
    Down,
}

/// One database.
#[derive(Clone, Debug)]
pub struct Database {
    /// It takes connections.
    pub up: bool,
    /// When it last started.
    pub started: Moment,
    /// Most connections, of everybody.
    pub max_connections: u32,
    /// Connections on accounts that are not the fleet's.
    pub others: u32,
    /// Connections of tools on the fleet's accounts.
    pub tools: u32,
    /// Slots that the fleet's connections take, lingering ones included.
    pub slots: u32,
    /// Open connections of each process, lingering ones excluded.
    pub open: Vec<u32>,
}

/// All databases and all connections that ever were.
#[derive(Debug)]
pub struct Databases {
    /// By their ids.
    pub all: Vec<Database>,
    /// By the number that names them.
    pub connections: Vec<Connection>,
}

impl Databases {
    /// Databases without connections.
    pub fn new(limits: impl IntoIterator<Item = u32>) -> Databases {
        let all = limits.into_iter().map(|max_connections| Database {
            up: true,
            started: Moment(0),
            max_connections,
            others: 0,
            tools: 0,
            slots: 0,
            open: Vec::new(),
        });
        Databases { all: all.collect(), connections: Vec::new() }
    }

    /// A process is there that may connect.
    pub fn meet(&mut self, process: usize) {
        for database in &mut self.all {
            database.open.resize(process + 1, 0);
        }
    }

    /// Somebody begins to connect.
    pub fn begin(&mut self, database: usize, process: usize) -> usize {
        let stage = Stage::Arriving;
        self.connections.push(Connection { database, process, stage });
        self.connections.len() - 1
    }

    /// A connection reaches its database.
    pub fn arrive(&mut self, id: usize) -> Arrival {
        let connection = &mut self.connections[id];
        let database = &mut self.all[connection.database];
        let taken = database.slots + database.others + database.tools;
        if database.up && taken < database.max_connections {
            database.slots += 1;
            database.open[connection.process] += 1;
            connection.stage = Stage::Open;
            return Arrival::Open;
        }
        connection.stage = Stage::Gone;
        if database.up { Arrival::Full } else { Arrival::Down }
    }

    /// Its client has closed it for certain as far as a client can tell, or has
    /// given it up. True: the slot is to be freed a little later.
    pub fn let_go(&mut self, id: usize) -> bool {
        let connection = &mut self.connections[id];
        match connection.stage {
            Stage::Open => {
                connection.stage = Stage::Lingering;
                self.all[connection.database].open[connection.process] -= 1;
                return true;
            }
            Stage::Arriving | Stage::Lingering | Stage::Gone => {}
        }
        false
    }

    /// Its slot is free.
    pub fn free(&mut self, id: usize) {
        if self.connections[id].stage == Stage::Open {
            self.let_go(id);
        }
        let connection = &mut self.connections[id];
        if connection.stage == Stage::Lingering {
            connection.stage = Stage::Gone;
            self.all[connection.database].slots -= 1;
        }
    }

    /// The database stops: every connection dies.
    pub fn stop(&mut self, database: usize) {
        for id in 0..self.connections.len() {
            if self.connections[id].database == database {
                self.free(id);
            }
        }
        let database = &mut self.all[database];
        (database.up, database.tools, database.others) = (false, 0, 0);
    }

    /// The database starts.
    pub fn start(&mut self, now: Moment, database: usize) {
        let database = &mut self.all[database];
        (database.up, database.started) = (true, now);
    }

    /// Whether a connection still works.
    pub fn works(&self, id: usize) -> bool {
        self.connections[id].stage == Stage::Open
    }

    /// What a process has open or on its way, at all databases.
    pub fn of_process(&self, process: usize) -> Vec<usize> {
        let there = |connection: &Connection| {
            connection.process == process && matches!(connection.stage, Stage::Arriving | Stage::Open)
        };
        (0..self.connections.len()).filter(|id| there(&self.connections[*id])).collect()
    }

    /// The fleet's connections as a probe counts them.
    pub fn fleet(&self, database: usize) -> u32 {
        self.all[database].slots + self.all[database].tools
    }

    /// How long the database has been up.
    pub fn uptime(&self, now: Moment, database: usize) -> Duration {
        now - self.all[database].started
    }
}
