//! The only place that reads what comes over the network. What leaves here is
//! within its bounds; nothing behind this file checks it again. Knows nothing
//! of gRPC but its messages, nor of what the values lead to.

use std::{collections::HashSet, ops::RangeInclusive, sync::Arc, time::Duration};

use leasehold_admission::{Claim, DatabaseId, Demand, ReleaseTarget, SessionId};
use leasehold_proto::v1;
use uuid::Uuid;

use crate::{
    config::{self, limits},
    driver::{
        AcquireCall, HelloMessage, OverrideRequest, Place, Setting, Subject, WorkloadOverride,
        WorkloadSetting, admission_named,
    },
};

/// Length of a name, in bytes of UTF-8.
const NAME_BYTES: usize = 128;
/// Workload of those that name none.
const DEFAULT_WORKLOAD: &str = "default";
/// Most databases of one node.
const CLAIMS: usize = 64;
/// Longest trace context, in bytes; version 0 has 55.
const TRACEPARENT_BYTES: usize = 256;
/// Most connections of one node, and most of its tasks that count.
const NODE_COUNT: u32 = 1_000_000;
/// Longest time that counts. A task that says it waits for longer is as old as this.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Tokens of one unary lease.
const LEASE_TOKENS: RangeInclusive<u32> = 1..=10_000;
/// Longest wait of a unary call, in milliseconds.
const MAX_WAIT_MS: u64 = 600_000;
/// Longest override that ends by itself, in milliseconds.
const OVERRIDE_MS: RangeInclusive<u64> = 1..=366 * 24 * 60 * 60 * 1_000;
/// Most workloads of one override: all that a database can have, the default among
/// them.
const WORKLOAD_OVERRIDES: usize = limits::WORKLOADS + 1;
/// Digits that name a session.
const SESSION_DIGITS: RangeInclusive<usize> = 8..=32;

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A field is not as `.proto` says.
    Invalid {
        /// Path of the field in the message.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no such database.
    UnknownDatabase(String),
}

/// Finds databases by their names.
pub(super) trait Names {
    fn find(&self, name: &str) -> Option<DatabaseId>;
}

impl<F: Fn(&str) -> Option<DatabaseId>> Names for F {
    fn find(&self, name: &str) -> Option<DatabaseId> {
        self(name)
    }
}

/// Reads a Hello. Databases that the server does not know are kept as places.
pub(super) fn hello(hello: v1::Hello, names: &impl Names) -> Result<HelloMessage, Refused> {
    let v1::Hello { session, node, workload, claims, generation: _, client } = hello;
    let session = <[u8; 16]>::try_from(&session[..])
        .map_err(|_| invalid("session", format!("has {} bytes and must have 16", session.len())))?;
    let session = SessionId(u128::from_be_bytes(session));
    if session.0 == 0 {
        return Err(invalid("session", "is all zero and must be random"));
    }
    let (node, workload) = (node_name(&node)?, workload_name(&workload)?);
    text("client", &client)?;
    if claims.len() > CLAIMS {
        return Err(invalid("claims", format!("has {} entries, at most {CLAIMS} are allowed", claims.len())));
    }
    let mut seen = HashSet::new();
    let mut places = Vec::with_capacity(claims.len());
    let mut known = Vec::with_capacity(claims.len());
    for (index, claim) in claims.into_iter().enumerate() {
        let at = |field: &str| format!("claims[{index}].{field}");
        let name = claim.database;
        text(&at("database"), &name)?;
        let Some(demand) = claim.demand else { return Err(invalid(at("demand"), "is missing")) };
        if !demand.database.is_empty() && demand.database != name {
            return Err(invalid(at("demand.database"), "names another database than the claim"));
        }
        if !seen.insert(name.clone()) {
            return Err(invalid(at("database"), format!("claims `{name}` for the second time")));
        }
        let demand = Demand { acknowledged: 0, ..levels(&at("demand."), &demand)? };
        let database = names.find(&name);
        known.extend(database.map(|database| Claim { database, demand }));
        places.push(Place { name: name.into(), database });
    }
    Ok(HelloMessage { session, node, workload, claims: known, places })
}

/// A report of levels, and of whose they are.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) database: String,
    pub(super) demand: Demand,
    pub(super) traceparent: Option<Arc<str>>,
}

/// Reads a Demand.
pub(super) fn demand(demand: v1::Demand) -> Result<Report, Refused> {
    let levels = levels("", &demand)?;
    let traceparent = (!demand.traceparent.is_empty()).then(|| Arc::from(demand.traceparent));
    Ok(Report { database: demand.database, demand: levels, traceparent })
}

/// Reads an Acquire: the call and its longest wait.
pub(super) fn acquire(
    request: v1::AcquireRequest,
    names: &impl Names,
) -> Result<(AcquireCall, Duration), Refused> {
    let v1::AcquireRequest { request_id, node, database, tokens, workload, max_wait_ms } = request;
    let request = uuid("request_id", &request_id)?;
    let (node, workload) = (node_name(&node)?, workload_name(&workload)?);
    within("tokens", tokens, &LEASE_TOKENS)?;
    within("max_wait_ms", max_wait_ms, &(0..=MAX_WAIT_MS))?;
    let database = self::database(&database, names)?;
    let call = AcquireCall { request, node, workload, database, tokens };
    Ok((call, Duration::from_millis(max_wait_ms)))
}

/// Reads a Renew: the lease and its node.
pub(super) fn renew(request: &v1::RenewRequest) -> Result<(SessionId, Arc<str>), Refused> {
    Ok((uuid("lease_id", &request.lease_id)?, node_name(&request.node)?))
}

/// Reads a Release: what to release, and its node.
pub(super) fn release(request: &v1::ReleaseRequest) -> Result<(ReleaseTarget, Arc<str>), Refused> {
    let target = match &request.target {
        Some(v1::release_request::Target::LeaseId(id)) => ReleaseTarget::Lease(uuid("lease_id", id)?),
        Some(v1::release_request::Target::RequestId(id)) => ReleaseTarget::Request(uuid("request_id", id)?),
        None => return Err(invalid("target", "is missing: give lease_id or request_id")),
    };
    Ok((target, node_name(&request.node)?))
}

/// Finds a database by its name.
pub(super) fn database(name: &str, names: &impl Names) -> Result<DatabaseId, Refused> {
    text("database", name)?;
    if name.is_empty() {
        return Err(invalid("database", "is missing"));
    }
    names.find(name).ok_or_else(|| Refused::UnknownDatabase(name.to_owned()))
}

/// Finds a database by its name; an empty one means all.
pub(super) fn database_or_all(name: &str, names: &impl Names) -> Result<Option<DatabaseId>, Refused> {
    if name.is_empty() { Ok(None) } else { database(name, names).map(Some) }
}

/// Reads an override, except for its database.
pub(super) fn override_request(request: &v1::SetOverrideRequest) -> Result<OverrideRequest, Refused> {
    let clear: Vec<Setting> = request.clear.iter().map(|name| setting(name)).collect::<Result<_, _>>()?;
    if let Some(cap) = request.cap {
        within("cap", cap, &limits::CAP)?;
    }
    if let Some(reserve) = request.reserve {
        within("reserve", reserve, &limits::RESERVE)?;
    }
    let admission = request.admission.as_deref().map(admission).transpose()?;
    if let Some(quantum_ms) = request.quantum_ms.filter(|quantum_ms| *quantum_ms != 0) {
        let [least, most] =
            [limits::QUANTUM.start(), limits::QUANTUM.end()].map(|bound| bound.as_millis() as u64);
        within("quantum_ms", quantum_ms, &(least..=most))?;
    }
    if let Some(duration_ms) = request.duration_ms {
        within("duration_ms", duration_ms, &OVERRIDE_MS)?;
    }
    let workloads = workload_overrides(&request.workloads)?;
    let parsed = OverrideRequest {
        clear,
        cap: request.cap,
        reserve: request.reserve,
        admission,
        quantum: request.quantum_ms.map(Duration::from_millis),
        shadow: request.shadow,
        workloads,
        duration: request.duration_ms.map(Duration::from_millis),
    };
    // A workload that is named has something set or cleared.
    match (parsed.sets_anything(), parsed.clear.is_empty() && parsed.workloads.is_empty()) {
        (false, true) => Err(invalid("cap", "and all other settings are unset: there is nothing to change")),
        (false, false) if parsed.duration.is_some() => {
            Err(invalid("duration_ms", "is set, but no setting that it could be for"))
        }
        (true, _) | (false, false) => Ok(parsed),
    }
}

fn workload_overrides(overrides: &[v1::WorkloadOverride]) -> Result<Vec<WorkloadOverride>, Refused> {
    if overrides.len() > WORKLOAD_OVERRIDES {
        let count = overrides.len();
        let problem = format!("has {count} entries, at most {WORKLOAD_OVERRIDES} are allowed");
        return Err(invalid("workloads", problem));
    }
    let mut parsed: Vec<WorkloadOverride> = Vec::new();
    for (at, request) in overrides.iter().enumerate() {
        let path = format!("workloads[{at}].");
        let one = workload_override(&path, request)?;
        if parsed.iter().any(|before| before.name == one.name) {
            let problem = format!("names `{}` for the second time", one.name);
            return Err(invalid(format!("{path}workload"), problem));
        }
        parsed.push(one);
    }
    Ok(parsed)
}

fn workload_override(path: &str, request: &v1::WorkloadOverride) -> Result<WorkloadOverride, Refused> {
    let field = |name: &str| format!("{path}{name}");
    let v1::WorkloadOverride { workload, weight, floor, keep, limit, max_waiting, clear } = request;
    text(&field("workload"), workload)?;
    if workload.is_empty() {
        return Err(invalid(field("workload"), "is missing"));
    }
    let counts = [
        ("weight", *weight, limits::WEIGHT),
        ("floor", *floor, limits::FLOOR),
        ("limit", *limit, limits::LIMIT),
        ("max_waiting", *max_waiting, limits::MAX_WAITING),
    ];
    for (name, count, bounds) in counts {
        if let Some(count) = count {
            within(&field(name), count, &bounds)?;
        }
    }
    let parsed = WorkloadOverride {
        name: Arc::from(workload.as_str()),
        clear: clear.iter().map(|name| workload_setting(path, name)).collect::<Result<_, _>>()?,
        weight: *weight,
        floor: *floor,
        keep: *keep,
        limit: *limit,
        max_waiting: *max_waiting,
    };
    if !parsed.sets_anything() && parsed.clear.is_empty() {
        return Err(invalid(field("weight"), "and all other settings are unset: there is nothing to change"));
    }
    Ok(parsed)
}

/// Reads the first digits of a session's id.
pub(super) fn session_prefix(session: &str) -> Result<String, Refused> {
    let digits = session.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !digits || !SESSION_DIGITS.contains(&session.len()) {
        return Err(invalid("session", "must be 8 to 32 hexadecimal digits"));
    }
    Ok(session.to_ascii_lowercase())
}

/// Whom an operator asks about.
pub(super) fn subject(name: &str, database: Option<DatabaseId>) -> Result<Subject, Refused> {
    if name.is_empty() || name.len() > NAME_BYTES {
        return Err(invalid(
            "subject",
            format!("must be 1 to {NAME_BYTES} bytes: a node's name, or a session's id"),
        ));
    }
    let may_be_id = session_prefix(name).is_ok();
    Ok(Subject { name: name.to_owned(), may_be_id, database })
}

/// A refusal of one field.
pub(super) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Refused {
    Refused::Invalid { field: field.into(), problem: problem.into() }
}

fn levels(path: &str, demand: &v1::Demand) -> Result<Demand, Refused> {
    let refuse = |field: &str, problem: String| Err(invalid(format!("{path}{field}"), problem));
    if demand.traceparent.len() > TRACEPARENT_BYTES {
        return refuse("traceparent", format!("is longer than {TRACEPARENT_BYTES} bytes"));
    }
    // All other counts of connections are parts of it.
    if demand.holding > NODE_COUNT {
        return refuse("holding", format!("is {}, at most {NODE_COUNT} is allowed", demand.holding));
    }
    let sum = |parts: &[u32]| parts.iter().copied().map(u64::from).sum::<u64>();
    let connections = sum(&[demand.established, demand.opening, demand.closing]);
    if u64::from(demand.holding) < connections {
        let holding = demand.holding;
        return refuse(
            "holding",
            format!("is {holding}, below established + opening + closing = {connections}"),
        );
    }
    let used = sum(&[demand.in_use, demand.idle]);
    if u64::from(demand.established) < used {
        let established = demand.established;
        return refuse("established", format!("is {established}, below in_use + idle = {used}"));
    }
    Ok(Demand {
        acknowledged: demand.acknowledged,
        holding: demand.holding,
        established: demand.established,
        opening: demand.opening,
        closing: demand.closing,
        in_use: demand.in_use,
        idle: demand.idle,
        // A need beyond all measure is no fault of the message.
        waiting: demand.waiting.min(NODE_COUNT),
        wanted: demand.wanted.min(NODE_COUNT),
        oldest_wait: micros(demand.oldest_wait_us),
        mean_hold: micros(demand.mean_hold_us),
        mean_connect: micros(demand.mean_connect_us),
    })
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros).min(LONGEST)
}

fn node_name(node: &str) -> Result<Arc<str>, Refused> {
    text("node", node)?;
    if node.is_empty() {
        return Err(invalid("node", "is missing"));
    }
    Ok(Arc::from(node))
}

fn workload_name(workload: &str) -> Result<Arc<str>, Refused> {
    text("workload", workload)?;
    Ok(Arc::from(if workload.is_empty() { DEFAULT_WORKLOAD } else { workload }))
}

/// Names end up in logs and on terminals.
fn text(field: &str, value: &str) -> Result<(), Refused> {
    if value.len() > NAME_BYTES {
        return Err(invalid(field, format!("has {} bytes, at most {NAME_BYTES} are allowed", value.len())));
    }
    if value.chars().any(char::is_control) {
        return Err(invalid(field, "has a control character"));
    }
    Ok(())
}

fn uuid(field: &str, value: &str) -> Result<SessionId, Refused> {
    const CANONICAL: usize = uuid::fmt::Hyphenated::LENGTH;
    let uuid =
        Some(value).filter(|value| value.len() == CANONICAL).and_then(|value| Uuid::try_parse(value).ok());
    match uuid {
        Some(uuid) if !uuid.is_nil() => Ok(SessionId(uuid.as_u128())),
        Some(_) => Err(invalid(field, "is the nil UUID")),
        None => Err(invalid(field, "must be a UUID: 8-4-4-4-12 hexadecimal digits")),
    }
}

fn within<T: PartialOrd + Copy + std::fmt::Display>(
    field: &str,
    value: T,
    bounds: &RangeInclusive<T>,
) -> Result<(), Refused> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let (least, most) = (bounds.start(), bounds.end());
    Err(invalid(field, format!("is {value} and must be {least} to {most}")))
}

fn setting(name: &str) -> Result<Setting, Refused> {
    [Setting::Cap, Setting::Reserve, Setting::Admission, Setting::Quantum, Setting::Shadow]
        .into_iter()
        .find(|setting| setting.to_string() == name)
        .ok_or_else(|| {
            invalid("clear", "names a setting that is not cap, reserve, admission, quantum or shadow")
        })
}

fn workload_setting(path: &str, name: &str) -> Result<WorkloadSetting, Refused> {
    WorkloadSetting::ALL.into_iter().find(|setting| setting.to_string() == name).ok_or_else(|| {
        let problem = "names a setting that is not weight, floor, keep, limit or max_waiting";
        invalid(format!("{path}clear"), problem)
    })
}

fn admission(name: &str) -> Result<config::Admission, Refused> {
    admission_named(name).ok_or_else(|| invalid("admission", "must be fair, strict or unfair"))
}

#[cfg(test)]
mod tests;
