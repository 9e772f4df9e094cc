//! The sections `[databases.NAME.workloads.NAME]`: what classes of sessions may
//! have of a database.

use super::document::{Collector, Section, shown};
use super::{WorkloadConfig, limits};

/// Checks the workloads of a database. `cap` is the most that it ever leases, if
/// that is known.
pub(super) fn workloads(
    section: Option<Section<'_>>,
    cap: Option<u32>,
    faults: &mut Collector<'_>,
) -> Vec<WorkloadConfig> {
    let Some(section) = section else { return Vec::new() };
    let tables = section.tables(faults);
    if tables.len() > limits::WORKLOADS {
        let (title, count, most) = (section.title(), tables.len(), limits::WORKLOADS);
        faults.add(section.at(), format!("{title} holds {count} workloads; the most is {most}"));
    }
    let mut workloads = Vec::new();
    for (name, table) in tables.into_iter().take(limits::WORKLOADS) {
        workloads.extend(workload(name, table, faults));
    }
    workloads.sort_by(|one, other| one.name.cmp(&other.name));
    let floors: u64 = workloads.iter().map(|workload| u64::from(workload.floor)).sum();
    if let Some(cap) = cap.filter(|cap| floors > u64::from(*cap)) {
        let title = section.title();
        faults.add(
            section.at(),
            format!("the floors in {title} are {floors} together, above the cap of {cap}"),
        );
    }
    workloads
}

fn workload(name: &str, mut section: Section<'_>, faults: &mut Collector<'_>) -> Option<WorkloadConfig> {
    let weight = section.get("weight").and_then(|field| field.count(&limits::WEIGHT, faults));
    let floor_field = section.get("floor");
    let floor = floor_field.as_ref().and_then(|field| field.count(&limits::FLOOR, faults)).unwrap_or(0);
    let keep = section.get("keep");
    let kept = keep.as_ref().and_then(|field| field.truth(faults)).unwrap_or(false);
    let limit = section.get("limit").and_then(|field| field.count(&limits::LIMIT, faults));
    let max_waiting = section.get("max_waiting").and_then(|field| field.count(&limits::MAX_WAITING, faults));
    section.refuse_others(faults);

    if let Some(field) = keep.filter(|_| kept && floor == 0) {
        field.refuse_key(faults, "does nothing without a `floor`: take it out, or add one");
    }
    if let (Some(field), Some(limit)) = (floor_field, limit.filter(|limit| floor > *limit)) {
        field.refuse(faults, format_args!("of {floor} is above `limit`, which is {limit}"));
    }
    if !limits::WORKLOAD_NAME_BYTES.contains(&name.len()) || name.chars().any(char::is_control) {
        let (title, name) = (section.title(), shown(name));
        let message = format!(
            "the name \"{name}\" in {title} must be 1 to {} bytes without control characters",
            limits::WORKLOAD_NAME_BYTES.end()
        );
        faults.add(section.at(), message);
        return None;
    }
    Some(WorkloadConfig {
        name: name.to_owned(),
        weight: weight.unwrap_or(limits::DEFAULT_WEIGHT),
        floor,
        keep: kept,
        limit,
        max_waiting,
    })
}
