//! Turns what the driver says into messages, and whatever is not an answer into
//! a status. No other file makes a status. Knows nothing of how it came about.

use std::{sync::Arc, time::Duration};

use leasehold_admission::{
    Admission, Allotment, Close, DatabaseView, LeaseView, LossPolicy, ProbeState, Recall, SessionId,
    SessionState, SessionView, UnaryReply, Welcome, WorkloadSettings, WorkloadView, durable::OverrideValue,
};
use leasehold_proto::v1::{self, server_message::Kind};
use tonic::Status;
use uuid::Uuid;

use super::from_proto::Refused;
use crate::driver::{
    AdminRefusal, Contradiction, DatabaseStatus, DriverHandle, Health, Outgoing, OverrideStatus, Place,
    Setting, Snapshot, Unanswered, WorkloadSetting, on_or_off, spelled,
};

/// Keep-alives of a node in one time to live.
const KEEP_ALIVES_A_TTL: u32 = 5;

/// A message for a node, or the end of its stream.
pub(super) enum Said {
    Message(v1::ServerMessage),
    /// The last message.
    Last(v1::ServerMessage),
    End,
    Failed(Status),
}

/// What a node is told.
pub(super) fn said(outgoing: Outgoing, handle: &DriverHandle) -> Said {
    let message = match outgoing {
        Outgoing::Welcome { generation, welcome, places } => {
            Kind::Welcome(self::welcome(generation, &welcome, places))
        }
        Outgoing::Allotment(database, allotment) => {
            Kind::Allotment(self::allotment(handle.database_name(database), allotment))
        }
        Outgoing::KeepAlive(id) => Kind::KeepAlive(v1::KeepAliveReply { id }),
        Outgoing::End(close) => return ending(close),
    };
    Said::Message(v1::ServerMessage { kind: Some(message) })
}

fn ending(close: Close) -> Said {
    let gone = |reason: &str| {
        let gone = Kind::Gone(v1::Gone { reason: reason.to_owned() });
        Said::Last(v1::ServerMessage { kind: Some(gone) })
    };
    match close {
        Close::Ended => Said::End,
        Close::Expired => gone("the session expired: nothing was heard of it for its TTL"),
        Close::Evicted => gone("an operator evicted the session"),
        Close::Unknown => gone("the stream speaks for no session"),
        Close::Superseded => Said::Failed(Status::aborted("a newer stream speaks for the session")),
        Close::StoreUnavailable => Said::Failed(store_unavailable()),
    }
}

fn welcome(generation: u64, welcome: &Welcome, places: Vec<Place>) -> v1::Welcome {
    // One for each known place, in their order.
    let mut terms = welcome.terms.iter();
    let databases = places.into_iter().map(|place| {
        let known = place.database.and_then(|_| terms.next());
        v1::DatabaseTerms {
            database: String::from(&*place.name),
            known: known.is_some(),
            sequence: known.map_or(0, |terms| terms.sequence),
            on_loss: known.map_or(v1::LossPolicy::Unspecified, |terms| loss_policy(terms.on_loss)).into(),
            quantum_us: known.map_or(0, |terms| micros(terms.quantum)),
        }
    });
    v1::Welcome {
        generation,
        ttl_ms: millis(welcome.ttl),
        keep_alive_ms: millis(welcome.ttl / KEEP_ALIVES_A_TTL),
        databases: databases.collect(),
    }
}

fn loss_policy(policy: LossPolicy) -> v1::LossPolicy {
    match policy {
        LossPolicy::Keep => v1::LossPolicy::Keep,
        LossPolicy::Fence => v1::LossPolicy::Fence,
    }
}

fn allotment(database: &Arc<str>, allotment: Allotment) -> v1::Allotment {
    let recall = match allotment.recall {
        Recall::None => v1::Recall::None,
        Recall::Idle => v1::Recall::Idle,
        Recall::NextReturn => v1::Recall::NextReturn,
    };
    v1::Allotment {
        database: String::from(&**database),
        sequence: allotment.sequence,
        tokens: allotment.tokens,
        recall: recall.into(),
        quantum_us: Some(micros(allotment.queueing.quantum)),
        max_waiting: allotment.queueing.full,
    }
}

/// Answers an Acquire.
pub(super) fn acquired(reply: &UnaryReply, generation: u64) -> Result<v1::AcquireReply, Status> {
    let UnaryReply::Leased { lease, tokens, waited, ttl } = reply else { return Err(refusal(reply)) };
    Ok(v1::AcquireReply {
        lease_id: lease_id(*lease),
        tokens: *tokens,
        waited_ms: millis(*waited),
        ttl_ms: millis(*ttl),
        generation,
    })
}

/// Answers a Renew.
pub(super) fn renewed(reply: &UnaryReply, generation: u64) -> Result<v1::RenewReply, Status> {
    let UnaryReply::Renewed { ttl } = reply else { return Err(refusal(reply)) };
    Ok(v1::RenewReply { ttl_ms: millis(*ttl), generation })
}

/// Answers a Release. What is gone already is an outcome, not an error.
pub(super) fn released(reply: &UnaryReply) -> Result<v1::ReleaseReply, Status> {
    let outcomes = [
        (UnaryReply::Released, v1::ReleaseOutcome::Released),
        (UnaryReply::AlreadyReleased, v1::ReleaseOutcome::AlreadyReleased),
        (UnaryReply::Expired, v1::ReleaseOutcome::Expired),
        (UnaryReply::Unknown, v1::ReleaseOutcome::Unknown),
    ];
    let found = outcomes.into_iter().find(|(known, _)| known == reply);
    let (_, outcome) = found.ok_or_else(|| refusal(reply))?;
    Ok(v1::ReleaseReply { outcome: outcome.into() })
}

fn refusal(reply: &UnaryReply) -> Status {
    match reply {
        UnaryReply::TimedOut => Status::deadline_exceeded("the tokens were not free within max_wait_ms"),
        UnaryReply::Cancelled => Status::cancelled("the request was released while it waited"),
        UnaryReply::Mismatch => {
            Status::already_exists("request_id is in use with another node, database or number of tokens")
        }
        UnaryReply::TooMany { cap } => {
            Status::failed_precondition(format!("more tokens than the cap of the database, now {cap}"))
        }
        UnaryReply::AboveLimit { workload, limit } => Status::failed_precondition(format!(
            "more tokens than the workload `{workload}` may hold, which is {limit}"
        )),
        UnaryReply::TooManyWait { workload, max_waiting } => Status::resource_exhausted(format!(
            "{max_waiting} tasks wait in the workload `{workload}` already, the most that may"
        )),
        UnaryReply::QueueFull { bound } => {
            Status::resource_exhausted(format!("{bound} calls wait for this database already"))
        }
        UnaryReply::AlreadyReleased => Status::failed_precondition("the lease was released already"),
        UnaryReply::Expired => Status::failed_precondition("the lease has expired"),
        UnaryReply::Unknown => Status::not_found("no such lease: it never was, or ended long ago"),
        UnaryReply::Foreign => Status::permission_denied("the lease belongs to another node"),
        UnaryReply::StoreUnavailable => store_unavailable(),
        UnaryReply::Leased { .. } | UnaryReply::Renewed { .. } | UnaryReply::Released => {
            Status::internal("the answer belongs to another call")
        }
    }
}

/// A message that was not taken.
pub(super) fn refused(refused: Refused) -> Status {
    match refused {
        Refused::Invalid { field, problem } => Status::invalid_argument(format!("`{field}` {problem}")),
        Refused::UnknownDatabase(name) => {
            Status::not_found(format!("no database `{name}` in the server's configuration"))
        }
    }
}

/// The driver did not answer.
pub(super) fn unanswered(unanswered: Unanswered) -> Status {
    match unanswered {
        Unanswered::Stopped | Unanswered::Late => Status::unavailable(unanswered.to_string()),
        Unanswered::TooMany { .. } => Status::resource_exhausted(unanswered.to_string()),
    }
}

/// An operator's wish was not done.
pub(super) fn not_done(refusal: AdminRefusal) -> Status {
    match refusal {
        AdminRefusal::StoreFails(error) => {
            Status::unavailable(format!("nothing was changed, the store fails: {error}"))
        }
        AdminRefusal::NotDurable(error) => Status::unavailable(format!(
            "the change is in force, but will be durable only when the store works again: {error}"
        )),
        AdminRefusal::Contradicts(contradiction) => contradicts(&contradiction),
        AdminRefusal::UnknownSession => Status::not_found("no session has an id that starts like this"),
        AdminRefusal::AmbiguousSession(count) => Status::failed_precondition(format!(
            "{count} sessions have an id that starts like this: give more digits"
        )),
    }
}

fn contradicts(contradiction: &Contradiction) -> Status {
    match contradiction {
        Contradiction::NoReserve => Status::failed_precondition(
            "`reserve` has no meaning for a database whose cap is static: set `cap` instead",
        ),
        Contradiction::UnknownWorkload { name, known } => {
            let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            Status::not_found(format!("no workload `{name}` at this database, which has {known}"))
        }
        Contradiction::FloorAboveLimit { workload, floor, limit } => Status::failed_precondition(format!(
            "the workload `{workload}` would have a floor of {floor}, above its limit of {limit}; nothing was changed"
        )),
        Contradiction::KeepWithoutFloor { workload } => Status::failed_precondition(format!(
            "`keep` does nothing while the floor of the workload `{workload}` is 0: set `floor` with it"
        )),
        Contradiction::FloorsAboveCap { floors, cap } => Status::failed_precondition(format!(
            "the floors of all workloads would be {floors} together, above the cap of {cap}; nothing was changed"
        )),
    }
}

/// An operator asks about somebody whom the server does not know.
pub(super) fn nobody_is(subject: &str) -> Status {
    Status::not_found(format!(
        "no node `{subject}`, nor a session whose id starts like this, holds or waits for anything"
    ))
}

/// A stream that the driver let go.
pub(super) fn let_go() -> Status {
    Status::unavailable("the server is stopping, or this node reads its messages too slowly")
}

/// A stream on which nothing came.
pub(super) fn no_hello(within: Duration) -> Status {
    Status::deadline_exceeded(format!("no Hello within {} s", within.as_secs()))
}

/// A node that has seen a newer incarnation of the server than this one.
pub(super) fn older_than_seen(generation: u64, seen: u64) -> Status {
    Status::failed_precondition(format!(
        "this server has generation {generation}, the session was welcomed by generation {seen}: its store is an old or another one"
    ))
}

fn store_unavailable() -> Status {
    Status::unavailable("the server's store fails: nothing is granted until it works again")
}

/// The state of the server. Databases are ordered by name.
pub(super) fn status(snapshot: Snapshot, health: &Health) -> v1::StatusReply {
    v1::StatusReply {
        generation: snapshot.generation,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: millis(snapshot.uptime),
        store_healthy: health.store.is_ok(),
        store_error: health.store.as_ref().err().cloned().unwrap_or_default(),
        databases: databases(snapshot),
    }
}

/// All databases, ordered by name.
pub(super) fn databases(snapshot: Snapshot) -> Vec<v1::Database> {
    let mut databases: Vec<_> = snapshot.databases.into_iter().map(database).collect();
    databases.sort_by(|one, other| one.name.cmp(&other.name));
    databases
}

/// One database.
pub(super) fn database(status: DatabaseStatus) -> v1::Database {
    let DatabaseStatus { view, overrides, probe_warning } = status;
    let (admission, quantum) = match view.admission {
        Admission::Unfair => ("unfair", Duration::ZERO),
        Admission::Fair { quantum } if quantum.is_zero() => ("strict", quantum),
        Admission::Fair { quantum } => ("fair", quantum),
    };
    v1::Database {
        probe: Some(probe(&view, probe_warning)),
        name: String::from(&*view.name),
        cap: view.cap,
        held: view.held,
        free: view.free,
        reserve: view.reserve,
        others: view.others,
        strays: view.strays,
        uncertain: view.uncertain,
        quarantined: view.quarantined,
        max_connections: view.max_connections,
        waiting: view.waiting,
        sessions: view.sessions,
        admission: admission.to_owned(),
        quantum_ms: millis(quantum),
        draining: view.draining,
        cap_limit: view.cap_limit,
        ttl_ms: millis(view.ttl),
        on_loss: match view.on_loss {
            LossPolicy::Keep => "keep".to_owned(),
            LossPolicy::Fence => "fence".to_owned(),
        },
        overrides: overrides.into_iter().map(override_in_force).collect(),
        grants: view.grants,
        recalls: view.recalls,
        expired: view.expired,
        repeated_releases: view.repeated_releases,
        workloads: view.workloads.into_iter().map(workload).collect(),
        shadow: view.shadow,
    }
}

fn workload(view: WorkloadView) -> v1::Workload {
    let WorkloadSettings { name, weight, floor, keep, limit, max_waiting } = view.settings;
    v1::Workload {
        name: String::from(&*name),
        weight,
        floor,
        floor_in_force: view.floor,
        keep,
        limit,
        max_waiting,
        held: view.held,
        demand: view.demand,
        target_thousandths: view.target_thousandths,
        quarantined: view.quarantined,
        waiting: view.waiting,
        sessions: view.sessions,
        refused: view.refused,
        shadow_waiting: view.shadow.waiting,
        shadow_queued: view.shadow.queued,
        shadow_refused: view.shadow.refused,
    }
}

fn probe(view: &DatabaseView, warning: Option<String>) -> v1::Probe {
    let (state, error) = match &view.probe {
        ProbeState::None => ("none", ""),
        ProbeState::Starting => ("starting", ""),
        ProbeState::Ok => ("ok", ""),
        ProbeState::Down(error) => ("down", &**error),
    };
    v1::Probe {
        state: state.to_owned(),
        error: error.to_owned(),
        observed_ms: view.observed.map(millis),
        warning: warning.or_else(|| unseen(view)).unwrap_or_default(),
    }
}

/// The fleet's accounts that are named wrongly show so: its connections count as
/// others', and lower its own cap.
fn unseen(view: &DatabaseView) -> Option<String> {
    let unseen = Some(view.unseen).filter(|unseen| *unseen > 0)?;
    Some(format!(
        "nodes report {unseen} connections more than the database shows on the fleet's accounts: name all of them \
         in `accounts`, if these connections are alive"
    ))
}

fn override_in_force(status: OverrideStatus) -> v1::Override {
    let mut workload = String::new();
    let (setting, value) = match status.value {
        OverrideValue::Cap(cap) => (Setting::Cap.to_string(), cap.to_string()),
        OverrideValue::Reserve(reserve) => (Setting::Reserve.to_string(), reserve.to_string()),
        OverrideValue::Admission(admission) => (Setting::Admission.to_string(), admission),
        OverrideValue::QuantumMs(quantum) => (Setting::Quantum.to_string(), format!("{quantum}ms")),
        OverrideValue::Shadow(shadow) => (Setting::Shadow.to_string(), on_or_off(shadow).to_owned()),
        OverrideValue::Workload { name, value } => {
            workload = String::from(&*name);
            (WorkloadSetting::of(&value).to_string(), spelled(&value))
        }
    };
    v1::Override { setting, value, remaining_ms: status.remaining.map(millis), workload }
}

/// Sessions, ordered by node and id.
pub(super) fn sessions(views: &[SessionView], handle: &DriverHandle) -> Vec<v1::Session> {
    let mut sessions: Vec<_> = views.iter().map(|view| session(view, handle)).collect();
    sessions.sort_by(|one, other| (&one.node, &one.id).cmp(&(&other.node, &other.id)));
    sessions
}

/// One session. Leases are ordered by database.
pub(super) fn session(view: &SessionView, handle: &DriverHandle) -> v1::Session {
    let state = match view.state {
        SessionState::Attached => "attached",
        SessionState::Unattached => "unattached",
        SessionState::Quarantined => "quarantined",
        SessionState::Unary => "unary",
    };
    let mut leases: Vec<_> = view.leases.iter().map(|view| lease(view, handle)).collect();
    leases.sort_by(|one, other| one.database.cmp(&other.database));
    v1::Session {
        id: view.id.to_string(),
        node: String::from(&*view.node),
        workload: String::from(&*view.workload),
        state: state.to_owned(),
        silent_ms: millis(view.silent),
        ttl_ms: millis(view.ttl),
        leases,
    }
}

pub(super) fn lease(view: &LeaseView, handle: &DriverHandle) -> v1::Lease {
    v1::Lease {
        database: String::from(&**handle.database_name(view.database)),
        allotment: view.allotment,
        holding: view.holding,
        held: view.held,
        ceiling: view.ceiling,
        in_use: view.in_use,
        idle: view.idle,
        opening: view.opening,
        closing: view.closing,
        waiting: view.waiting,
        oldest_wait_ms: millis(view.oldest_wait),
        mean_hold_us: micros(view.mean_hold),
    }
}

/// A unary lease is named like the request that asked for it.
fn lease_id(lease: SessionId) -> String {
    Uuid::from_u128(lease.0).hyphenated().to_string()
}

pub(super) fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

pub(super) fn micros(duration: Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}
