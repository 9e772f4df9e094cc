//! A database that workloads divide, and calls of them.

use std::sync::Arc;

use leasehold_admission::{
    Acquire, DatabaseSettings, Event, SessionId, Ticket, UnaryReply, WorkloadSettings, WorkloadView,
    Workloads,
};

use crate::support::{DB, World, settings};

pub(super) fn with(cap: u32, workloads: &[WorkloadSettings]) -> DatabaseSettings {
    DatabaseSettings { workloads: Workloads::new(workloads.to_vec()), ..settings(cap) }
}

pub(super) fn web() -> WorkloadSettings {
    WorkloadSettings::named("web")
}

pub(super) fn batch() -> WorkloadSettings {
    WorkloadSettings::named("batch")
}

pub(super) fn workload(world: &World, name: &str) -> WorkloadView {
    let database = world.core.databases(world.now).remove(0);
    database.workloads.into_iter().find(|workload| &*workload.settings.name == name).expect("a workload")
}

pub(super) fn acquire(
    world: &mut World,
    request: u64,
    workload: &str,
    tokens: u32,
) -> Vec<(u64, UnaryReply)> {
    world.apply(Event::Acquire(Acquire {
        ticket: Ticket(request),
        request: SessionId(u128::from(request)),
        node: Arc::from("py"),
        workload: Arc::from(workload),
        database: DB,
        tokens,
    }));
    world.pump();
    std::mem::take(&mut world.replies)
}
