//! What operators set for workloads, on top of the configuration, and what of it
//! contradicts. Knows nothing of how it is kept, nor of when it ends.

use std::{fmt, sync::Arc};

use leasehold_admission::{
    WorkloadSettings, Workloads,
    durable::{OverrideValue, WorkloadValue},
};

use super::{Contradiction, Layers, OverrideRequest, on_or_off};
use crate::config::WorkloadConfig;

/// Settings of a workload that can be overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadSetting {
    /// Its part beside others.
    Weight,
    /// Tokens that it always gets when it has use for them.
    Floor,
    /// Whether the floor is held free.
    Keep,
    /// Most tokens that it ever holds.
    Limit,
    /// Most tasks that wait in it.
    MaxWaiting,
}

impl WorkloadSetting {
    /// All of them.
    pub const ALL: [WorkloadSetting; 5] = [
        WorkloadSetting::Weight,
        WorkloadSetting::Floor,
        WorkloadSetting::Keep,
        WorkloadSetting::Limit,
        WorkloadSetting::MaxWaiting,
    ];

    /// The setting of a value.
    pub fn of(value: &WorkloadValue) -> WorkloadSetting {
        match value {
            WorkloadValue::Weight(_) => WorkloadSetting::Weight,
            WorkloadValue::Floor(_) => WorkloadSetting::Floor,
            WorkloadValue::Keep(_) => WorkloadSetting::Keep,
            WorkloadValue::Limit(_) => WorkloadSetting::Limit,
            WorkloadValue::MaxWaiting(_) => WorkloadSetting::MaxWaiting,
        }
    }
}

impl fmt::Display for WorkloadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorkloadSetting::Weight => "weight",
            WorkloadSetting::Floor => "floor",
            WorkloadSetting::Keep => "keep",
            WorkloadSetting::Limit => "limit",
            WorkloadSetting::MaxWaiting => "max_waiting",
        })
    }
}

/// What an operator wants overridden for one workload. The values are within their
/// bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadOverride {
    /// Its name.
    pub name: Arc<str>,
    /// First clears these.
    pub clear: Vec<WorkloadSetting>,
    /// Its part beside others.
    pub weight: Option<u32>,
    /// Tokens that it always gets when it has use for them.
    pub floor: Option<u32>,
    /// Whether the floor is held free.
    pub keep: Option<bool>,
    /// Most tokens that it ever holds.
    pub limit: Option<u32>,
    /// Most tasks that wait in it.
    pub max_waiting: Option<u32>,
}

impl WorkloadOverride {
    /// Whether anything is to be overridden, and not only cleared.
    pub fn sets_anything(&self) -> bool {
        self.values().next().is_some()
    }

    fn values(&self) -> impl Iterator<Item = WorkloadValue> {
        let values = [
            self.weight.map(WorkloadValue::Weight),
            self.floor.map(WorkloadValue::Floor),
            self.keep.map(WorkloadValue::Keep),
            self.limit.map(WorkloadValue::Limit),
            self.max_waiting.map(WorkloadValue::MaxWaiting),
        ];
        values.into_iter().flatten()
    }

    pub(super) fn overrides(&self) -> impl Iterator<Item = OverrideValue> {
        self.values().map(|value| OverrideValue::Workload { name: Arc::clone(&self.name), value })
    }

    pub(super) fn clears(&self, name: &str, kept: &WorkloadValue) -> bool {
        *self.name == *name && self.clear.contains(&WorkloadSetting::of(kept))
    }

    fn changes(&self, setting: WorkloadSetting) -> bool {
        self.clear.contains(&setting) || self.values().any(|value| WorkloadSetting::of(&value) == setting)
    }
}

/// For the audit log.
impl fmt::Display for WorkloadOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = self.clear.iter().map(|setting| format!("clear {setting}")).collect();
        words.extend(
            self.values().map(|value| format!("{} {}", WorkloadSetting::of(&value), spelled(&value))),
        );
        write!(f, "workload {} ({})", self.name, words.join(", "))
    }
}

/// A value as operators write it.
pub fn spelled(value: &WorkloadValue) -> String {
    match value {
        WorkloadValue::Keep(keep) => on_or_off(*keep).to_owned(),
        WorkloadValue::Weight(count)
        | WorkloadValue::Floor(count)
        | WorkloadValue::Limit(count)
        | WorkloadValue::MaxWaiting(count) => count.to_string(),
    }
}

/// The workloads as configured, the default among them.
pub(super) fn configured(workloads: &[WorkloadConfig]) -> Vec<WorkloadSettings> {
    let mut settings: Vec<WorkloadSettings> = workloads
        .iter()
        .map(|WorkloadConfig { name, weight, floor, keep, limit, max_waiting }| WorkloadSettings {
            name: Arc::from(name.as_str()),
            weight: *weight,
            floor: *floor,
            keep: *keep,
            limit: *limit,
            max_waiting: *max_waiting,
        })
        .collect();
    if !settings.iter().any(|workload| &*workload.name == Workloads::DEFAULT) {
        settings.push(WorkloadSettings::named(Workloads::DEFAULT));
    }
    settings
}

/// Puts one override in force. That of a workload which is not configured any more
/// changes nothing.
pub(super) fn apply(workloads: &mut [WorkloadSettings], name: &str, value: &WorkloadValue) {
    let Some(workload) = workloads.iter_mut().find(|workload| &*workload.name == name) else { return };
    match value {
        WorkloadValue::Weight(value) => workload.weight = *value,
        WorkloadValue::Floor(value) => workload.floor = *value,
        WorkloadValue::Keep(value) => workload.keep = *value,
        WorkloadValue::Limit(value) => workload.limit = Some(*value),
        WorkloadValue::MaxWaiting(value) => workload.max_waiting = Some(*value),
    }
}

/// Whether a request, which makes the second of the first, contradicts itself or
/// what is set beside it. What contradicts since an override has ended is none of
/// its business: the core scales that down.
pub(super) fn check(request: &OverrideRequest, before: &Layers, after: &Layers) -> Result<(), Contradiction> {
    let (before_it, after_it) = (before.settings(), after.settings());
    for changed in &request.workloads {
        let Some(workload) = after_it.workloads.iter().find(|workload| workload.name == changed.name) else {
            if !changed.sets_anything() && before.has_overrides_of(&changed.name) {
                continue;
            }
            let known = after_it.workloads.iter().map(|workload| Arc::clone(&workload.name)).collect();
            return Err(Contradiction::UnknownWorkload { name: Arc::clone(&changed.name), known });
        };
        check_one(changed, workload)?;
    }
    let sum = |workloads: &Workloads| workloads.iter().map(|workload| u64::from(workload.floor)).sum::<u64>();
    let floors = sum(&after_it.workloads);
    match after.highest_cap() {
        Some(cap) if floors > u64::from(cap) && floors > sum(&before_it.workloads) => {
            Err(Contradiction::FloorsAboveCap { floors, cap })
        }
        Some(_) | None => Ok(()),
    }
}

fn check_one(changed: &WorkloadOverride, workload: &WorkloadSettings) -> Result<(), Contradiction> {
    let WorkloadSettings { name, floor, limit, .. } = workload;
    let concerned = changed.changes(WorkloadSetting::Floor) || changed.changes(WorkloadSetting::Limit);
    if let Some(limit) = limit.filter(|limit| concerned && floor > limit) {
        return Err(Contradiction::FloorAboveLimit { workload: Arc::clone(name), floor: *floor, limit });
    }
    if changed.keep == Some(true) && *floor == 0 {
        return Err(Contradiction::KeepWithoutFloor { workload: Arc::clone(name) });
    }
    Ok(())
}

impl Layers {
    fn has_overrides_of(&self, workload: &str) -> bool {
        self.operator
            .overrides
            .iter()
            .any(|kept| matches!(&kept.value, OverrideValue::Workload { name, .. } if **name == *workload))
    }

    /// The highest that the cap can be, if the configuration bounds it: also while an
    /// operator has lowered it, for that will end, or raised it.
    fn highest_cap(&self) -> Option<u32> {
        let configured = self.configured.cap_limit()?;
        Some(configured.max(self.settings().cap.unwrap_or(configured)))
    }
}

#[cfg(test)]
mod tests;
