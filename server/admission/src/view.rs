//! What the core shows of itself to operators. Read-only copies.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{
    Admission, DatabaseId, LossPolicy, SessionId, Time, WorkloadSettings,
    core::Core,
    database::Database,
    durable::{Kind, Outcome},
    explain::count,
    lease::Lease,
    session::Session,
    workload::Workload,
};

/// One database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseView {
    /// Its id.
    pub id: DatabaseId,
    /// Its name.
    pub name: Arc<str>,
    /// Most tokens leasable now.
    pub cap: u32,
    /// Tokens that count against the cap, quarantined ones included.
    pub held: u32,
    /// Tokens that could be granted now.
    pub free: u32,
    /// Connections kept back.
    pub reserve: u32,
    /// Connections on accounts that are not the fleet's.
    pub others: u32,
    /// Connections on the fleet's accounts of no live session, for certain.
    pub strays: u32,
    /// Strays that are possible but not certain.
    pub uncertain: u32,
    /// Connections that nodes report and that are not on the fleet's accounts, for
    /// certain.
    pub unseen: u32,
    /// Held of expired sessions.
    pub quarantined: u32,
    /// The database's own limit as last read.
    pub max_connections: Option<u32>,
    /// Waiting tasks in all nodes, and waiting unary calls.
    pub waiting: u32,
    /// Live sessions that use it.
    pub sessions: u32,
    /// Admission in force.
    pub admission: Admission,
    /// No new grants.
    pub draining: bool,
    /// Everything is granted, and what would have waited is counted.
    pub shadow: bool,
    /// The configured or overridden upper bound of the cap.
    pub cap_limit: Option<u32>,
    /// Time to live.
    pub ttl: Duration,
    /// What nodes do past their deadline.
    pub on_loss: LossPolicy,
    /// The probe.
    pub probe: ProbeState,
    /// Age of the newest observation.
    pub observed: Option<Duration>,
    /// Tokens granted since the start.
    pub grants: u64,
    /// Tokens recalled since the start.
    pub recalls: u64,
    /// Leases that expired since the start.
    pub expired: u64,
    /// Unary leases that were released once more since the start.
    pub repeated_releases: u64,
    /// Its workloads, the default first.
    pub workloads: Vec<WorkloadView>,
}

/// One workload of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadView {
    /// As it was set.
    pub settings: WorkloadSettings,
    /// The floor in force: less than was set while it is above the limit, or the
    /// cap is less than all floors.
    pub floor: u32,
    /// Tokens that count against its limit, quarantined ones included.
    pub held: u32,
    /// Tokens that it has use for: in use, connecting or waited for.
    pub demand: u32,
    /// What it is to have beside the others, in thousandths of a token. None: it
    /// is alone.
    pub target_thousandths: Option<u64>,
    /// Held of expired sessions.
    pub quarantined: u32,
    /// Waiting tasks in all nodes, and waiting unary calls.
    pub waiting: u32,
    /// Live sessions.
    pub sessions: u32,
    /// Unary calls that were refused since the start because too many waited.
    pub refused: u64,
    /// What would happen without shadow mode. Counts nothing while that is off.
    pub shadow: ShadowView,
}

/// What shadow mode has kept from happening in a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowView {
    /// Tasks that would be waiting now.
    pub waiting: u32,
    /// Tokens granted since the start that would have been waited for.
    pub queued: u64,
    /// Calls let through since the start that would have been refused.
    pub refused: u64,
}

/// The state of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeState {
    /// The database is not watched.
    None,
    /// Nothing was seen yet.
    Starting,
    /// The last look succeeded.
    Ok,
    /// The last look failed.
    Down(String),
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// Name of the node.
    pub node: Arc<str>,
    /// Workload of the node.
    pub workload: Arc<str>,
    /// Its state.
    pub state: SessionState,
    /// Running time since it was last heard of.
    pub silent: Duration,
    /// Its time to live.
    pub ttl: Duration,
    /// Its leases, in the order of the databases' ids.
    pub leases: Vec<LeaseView>,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// A stream speaks for it.
    Attached,
    /// It lives, but no stream speaks for it.
    Unattached,
    /// It expired; what it held is kept back.
    Quarantined,
    /// A unary lease.
    Unary,
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The database.
    pub database: DatabaseId,
    /// The server's target.
    pub allotment: u32,
    /// What the node reports to hold.
    pub holding: u32,
    /// What counts against the cap.
    pub held: u32,
    /// The durable upper bound of held.
    pub ceiling: u32,
    /// Connections checked out.
    pub in_use: u32,
    /// Connections open and idle.
    pub idle: u32,
    /// Connections being opened.
    pub opening: u32,
    /// Connections being closed.
    pub closing: u32,
    /// Waiting tasks.
    pub waiting: u32,
    /// Age of the oldest waiting task.
    pub oldest_wait: Duration,
    /// Mean time that a connection stays checked out.
    pub mean_hold: Duration,
}

impl Core {
    /// All databases, in the order of their ids.
    pub fn databases(&self, now: Time) -> Vec<DatabaseView> {
        self.databases.iter().map(|database| database.view(now)).collect()
    }

    /// All sessions, in the order of their ids. Those of unary requests that
    /// are over are not shown.
    pub fn sessions(&self, now: Time) -> Vec<SessionView> {
        let shown = |session: &Session| !session.databases.is_empty() || session.stream.is_some();
        self.sessions
            .iter()
            .filter(|(_, session)| shown(session))
            .map(|(id, session)| self.session_view(*id, session, now))
            .collect()
    }

    fn session_view(&self, id: SessionId, session: &Session, now: Time) -> SessionView {
        let state = match (&session.kind, session.stream) {
            (Kind::Node, Some(_)) => SessionState::Attached,
            (Kind::Node, None) => SessionState::Unattached,
            (Kind::Unary(unary), _) if unary.outcome == Outcome::Leased => SessionState::Unary,
            (Kind::Quarantined | Kind::Unary(_), _) => SessionState::Quarantined,
        };
        let leases = self.databases.iter().filter_map(|database| {
            let lease = database.leases.get(&id)?;
            Some(lease.view(database.id, now))
        });
        SessionView {
            id,
            node: session.node.clone(),
            workload: session.workload.clone(),
            state,
            silent: session.silent(self.running()),
            ttl: session.ttl,
            leases: leases.collect(),
        }
    }
}

impl Database {
    fn view(&self, now: Time) -> DatabaseView {
        let newest = self.watch.newest();
        DatabaseView {
            id: self.id,
            name: self.settings.name.clone(),
            cap: self.cap,
            held: count(self.totals.held),
            free: if self.grants_allowed() { self.room() } else { 0 },
            reserve: self.settings.reserve,
            others: newest.map_or(0, |(_, seen)| seen.others),
            strays: self.watch.strays(),
            uncertain: self.watch.uncertain(),
            unseen: self.watch.unseen(),
            quarantined: count(self.totals.quarantined),
            max_connections: newest.map(|(_, seen)| seen.max_connections),
            waiting: count(self.workloads.iter().map(Workload::waiting).sum()),
            sessions: count(self.totals.live),
            admission: self.settings.admission,
            draining: self.settings.draining,
            shadow: self.settings.shadow,
            cap_limit: self.settings.cap,
            ttl: self.settings.ttl,
            on_loss: self.settings.on_loss,
            probe: self.watch.state(),
            observed: newest.map(|(at, _)| now.since(at)),
            grants: self.grants,
            recalls: self.recalls,
            expired: self.expired,
            repeated_releases: self.repeated_releases,
            workloads: self.workloads.iter().map(|workload| self.workload_view(workload)).collect(),
        }
    }

    fn workload_view(&self, workload: &Workload) -> WorkloadView {
        WorkloadView {
            settings: workload.settings.clone(),
            floor: workload.floor,
            held: count(workload.totals.held),
            demand: count(workload.demand()),
            target_thousandths: self.target_thousandths(workload),
            quarantined: count(workload.totals.quarantined),
            waiting: count(workload.waiting()),
            sessions: count(workload.totals.live),
            refused: workload.refused,
            shadow: ShadowView {
                waiting: if self.settings.shadow { count(self.would_wait(workload)) } else { 0 },
                queued: workload.shadow.queued,
                refused: workload.shadow.refused,
            },
        }
    }
}

impl Lease {
    pub(crate) fn view(&self, database: DatabaseId, now: Time) -> LeaseView {
        LeaseView {
            database,
            allotment: self.tokens,
            holding: self.demand.holding,
            held: self.held(),
            ceiling: self.ceiling,
            in_use: self.demand.in_use,
            idle: self.demand.idle,
            opening: self.demand.opening,
            closing: self.demand.closing,
            waiting: self.demand.waiting,
            oldest_wait: self.age(now),
            mean_hold: self.demand.mean_hold,
        }
    }
}
