//! The sections `[databases.NAME.workloads.NAME]`: what classes of sessions may
//! have of a database.

use super::document::{Field, Section, shown};
use super::faults::Collector;
use super::{WorkloadConfig, limits};

/// Checks the workloads of a database. `cap` is the most that it ever leases and
/// where that is said, if it is.
pub(super) fn workloads(
    section: Option<Section<'_>>,
    cap: Option<(u32, usize)>,
    faults: &mut Collector<'_>,
) -> Vec<WorkloadConfig> {
    let Some(section) = section else { return Vec::new() };
    let tables = section.tables(faults);
    if tables.len() > limits::WORKLOADS {
        let (title, count, most) = (section.title(), tables.len(), limits::WORKLOADS);
        faults.add(section.at(), format!("{title} holds {count} workloads; the most is {most}"));
    }
    let mut workloads = Vec::new();
    let mut bounds: Vec<usize> = cap.iter().map(|(_, at)| *at).collect();
    for (name, table) in tables.into_iter().take(limits::WORKLOADS) {
        bounds.extend(table.peek("floor"));
        workloads.extend(workload(name, table, faults));
    }
    workloads.sort_by(|one, other| one.name.cmp(&other.name));
    let floors: u64 = workloads.iter().map(|workload| u64::from(workload.floor)).sum();
    if let Some((cap, _)) = cap.filter(|(cap, _)| floors > u64::from(*cap)) {
        let title = section.title();
        faults.add(
            faults.latest(section.at(), bounds),
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
    let limit_field = section.get("limit");
    let limit = limit_field.as_ref().and_then(|field| field.count(&limits::LIMIT, faults));
    let max_waiting = section.get("max_waiting").and_then(|field| field.count(&limits::MAX_WAITING, faults));
    section.refuse_others(faults);

    let outdone = |keep: &Field<'_>| floor_field.as_ref().is_some_and(|floor| floor.overrides(keep, faults));
    if let Some(field) = keep.filter(|keep| kept && floor == 0 && !outdone(keep)) {
        field.refuse_key(faults, "does nothing without a `floor`: take it out, or add one");
    }
    if let (Some(field), Some(limit)) = (&floor_field, limit.filter(|limit| floor > *limit)) {
        let at = faults.latest(field.at(), limit_field.as_ref().map(Field::at));
        field.refuse_at(at, faults, format_args!("of {floor} is above `limit`, which is {limit}"));
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
